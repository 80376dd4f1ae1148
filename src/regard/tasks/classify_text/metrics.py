"""How often a split's texts are told apart rightly, beside what counting words can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from regard.data.entries import all_of
from regard.data.labelled import Labelled
from regard.errors import UserError
from regard.evaluation import classification
from regard.evaluation.bootstrap import Interval, bootstrap, checked, interval_from
from regard.evaluation.classification import Answers, ClassificationMetrics, assess
from regard.tasks.classify_text.config import ClassifyTextConfig
from regard.tasks.classify_text.data import Metadata, SentimentData, fewer, part_of, read_table
from regard.tasks.classify_text.loss import Shares, scorer
from regard.tasks.task import Trained

Reader = Trained[ClassifyTextConfig, Metadata]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Every figure of a split, and those of two that understand nothing."""

    assessment: ClassificationMetrics
    baseline: Interval | None  # TF-IDF and a logistic regression; None of texts of another set
    majority: float  # of one that always says the most frequent class of the split
    windowed: int = 0  # texts that were read in windows
    shared: int | None = None  # texts that are letter for letter among those learnt, if known
    alone: tuple[float, ...] = ()  # accuracy of the reader and of the votes, where words vote
    counted: tuple[int, int] | None = None  # texts the baseline is fitted to, of how many, if fewer

    @property
    def accuracy(self) -> Interval:
        """How often the right class was said."""
        return self.assessment.accuracy

    def to_values(self) -> dict[str, Any]:
        """The deciding figure first."""
        return {
            "accuracy": self.assessment.accuracy._asdict(),
            "tfidf_baseline": None if self.baseline is None else self.baseline._asdict(),
            "majority_baseline": self.majority,
            "chunked": self.windowed,
            "train_overlap": self.shared,
            **({"alone": list(self.alone)} if self.alone else {}),
            **({"counted": list(self.counted)} if self.counted else {}),
            "assessment": self.assessment.to_values(),
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Evaluation:
        """What `to_values` was made of."""
        try:
            found = cls(
                ClassificationMetrics.from_values(values["assessment"]),
                None
                if values["tfidf_baseline"] is None
                else interval_from(values["tfidf_baseline"]),
                values["majority_baseline"],
                values["chunked"],
                values["train_overlap"],
                all_of(float, values.get("alone", ())),
                None if "counted" not in values else (values["counted"][0], values["counted"][1]),
            )
            return checked(found)
        except (KeyError, TypeError, AttributeError, ValueError) as trouble:
            raise ValueError(f"these are not the values of a judgement: {trouble}") from None


def judge(trained: Reader, data: SentimentData, split: str) -> Evaluation:
    """Ask about every text of a split, and let the counter of words answer as well."""
    part = part_of(data, split)
    windowed = data.windowed(part, trained.metadata)
    ask = scorer(windowed, trained.metadata, trained.device)
    answers = Answers(ask(trained.model), windowed.labels, trained.metadata.classes)
    alone: tuple[float, ...] = ()
    if trained.config.model.ngram_buckets:
        opinions = (ask(Opinion(trained.model, at)) for at in range(2))
        alone = tuple(float((each.argmax(-1) == windowed.labels).mean()) for each in opinions)
    counted = None
    if data.own:  # fitted to what the model learnt from, or the two could not be compared
        given = data.baseline.probabilities(part.texts, part.seconds).argmax(-1)
        counted = bootstrap((given == windowed.labels).astype(np.float64))
    learnt = len(data.texts["train"])
    return Evaluation(
        assess(answers),
        counted,
        float(np.bincount(windowed.labels).max() / len(part)),
        int((windowed.counts > 1).sum()),
        shared(trained, data, split, part),
        alone,
        (data.counted, learnt) if data.own and data.counted < learnt else None,
    )


def shared(trained: Reader, data: SentimentData, split: str, part: Labelled) -> int | None:
    """How many texts of a part were learnt, letter for letter.

    None if that can no longer be known, as the run's own data are gone or were changed, and of a
    part that all of its training is in.
    """
    if data.own:
        return None if split in ("train", "all") else data.texts.shared(split)
    config = trained.config
    try:
        own = fewer(read_table(config), config.max_train_samples, config.train.seed)
    except UserError:
        return None
    if own.digest != trained.metadata.digest:
        return None
    return int(np.isin(part.marks, own["train"].marks).sum())


class Opinion(nn.Module):
    """One of the two opinions of a model in which words vote: its reader's, or the votes'."""

    def __init__(self, model: nn.Module, at: int) -> None:
        super().__init__()
        self.model, self.at = model, at

    def forward(self, *args: Any, **options: Any) -> Tensor:
        opinions: Tensor = self.model(*args, **options, each=True)
        return opinions[self.at]


def answers_on(trained: Reader, data: SentimentData, part: Labelled) -> Shares:
    """The probabilities of each text of a part."""
    windowed = data.windowed(part, trained.metadata)
    return scorer(windowed, trained.metadata, trained.device)(trained.model)


def summary(judged: Evaluation, split: str) -> str:
    """Lines for a terminal."""
    lines = [split, classification.summary(judged.assessment, "texts")]
    if judged.baseline is not None:
        value, low, high = (f"{100 * x:.1f}" for x in judged.baseline)
        some = (
            ""
            if judged.counted is None
            else "; fitted to {:,} of {:,} texts".format(*judged.counted)
        )
        lines.append(
            f"counting words      {value}%  ({low} to {high}): TF-IDF and logistic regression{some}"
        )
    lines.append(f"most frequent class {100 * judged.majority:.1f}%")
    if judged.alone:
        reader, votes = (f"{100 * share:.1f}%" for share in judged.alone)
        lines.append(f"the reader alone    {reader}, and the votes of words alone {votes}")
    if judged.windowed:
        lines.append(f"{judged.windowed:,} of the texts were read in windows.")
    if judged.shared:
        lines.append(f"{judged.shared:,} of the texts are among those learnt, letter for letter.")
    return "\n".join(lines)
