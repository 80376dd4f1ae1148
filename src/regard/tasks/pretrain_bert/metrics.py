"""How well each kind of question is answered, beside chance and beside counting words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64

from regard.data.batching import Rows
from regard.data.tokenizer import Vocabulary
from regard.errors import UserError
from regard.evaluation.bag_of_words import BagOfWords
from regard.evaluation.bootstrap import Interval, bootstrap, checked, interval_from
from regard.evaluation.nearby_words import NearbyWords, neighbours
from regard.models.pretrainer import BertForPretraining
from regard.progress import progress
from regard.tasks.pretrain_bert.config import PretrainBertConfig
from regard.tasks.pretrain_bert.data import MASKED, Metadata, Pairs, PretrainData
from regard.tasks.pretrain_bert.loss import Guesses, answered, guesses
from regard.tasks.pretrain_bert.questions import questions_of
from regard.tasks.task import Trained

Reader = Trained[PretrainBertConfig, Metadata]
FITTED = 20_000  # pairs that the counter of words learns from, at the most


@dataclass(frozen=True)
class PairMetrics:
    """One kind of question: how often rightly answered, by chance, and by counting words."""

    accuracy: Interval
    chance: float  # of one who always gives the most frequent answer
    counting: Interval | None  # None where the counter has nothing to learn from
    count: int
    kinds: Mapping[str, tuple[float, int]] = field(default_factory=dict)  # by rule; how many

    def to_values(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy._asdict(),
            "chance": self.chance,
            "counting": None if self.counting is None else self.counting._asdict(),
            "count": self.count,
            "kinds": {name: list(found) for name, found in self.kinds.items()},
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> PairMetrics:
        counting = values["counting"]
        found = cls(
            interval_from(values["accuracy"]),
            values["chance"],
            None if counting is None else interval_from(counting),
            values["count"],
            {name: (float(right), int(count)) for name, (right, count) in values["kinds"].items()},
        )
        return checked(found)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Every kind of question that a run was taught, on one split."""

    figures: Mapping[str, PairMetrics]
    perplexity: float | None  # of the hidden words; None where none are hidden

    @property
    def accuracy(self) -> Interval:
        """The mean over all kinds of question.

        Each kind is a draw of its own, so how far their means may be off adds up as squares do.
        """
        found = np.array([each.accuracy for each in self.figures.values()])
        value, low, high = found.T
        mean = float(value.mean())
        below, above = (
            float(np.linalg.norm(ends) / len(found)) for ends in (value - low, high - value)
        )
        return Interval(mean, mean - below, mean + above)

    def to_values(self) -> dict[str, Any]:
        """The deciding figure first."""
        return {
            "accuracy": self.accuracy._asdict(),
            **{name: each.to_values()["accuracy"] for name, each in self.figures.items()},
            "perplexity": self.perplexity,
            **{f"{name}_chance": each.chance for name, each in self.figures.items()},
            **{
                f"{name}_count_baseline": each.counting._asdict()
                for name, each in self.figures.items()
                if each.counting is not None
            },
            "figures": {name: each.to_values() for name, each in self.figures.items()},
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Evaluation:
        """What `to_values` was made of."""
        try:
            figures = {name: PairMetrics.from_values(v) for name, v in values["figures"].items()}
            return checked(cls(figures, values["perplexity"]))
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as trouble:
            raise ValueError(f"these are not the values of a judgement: {trouble}") from None


def judge(trained: Reader, data: PretrainData, split: str) -> Evaluation:
    """Ask every kind of question about a split."""
    model, facts = reader(trained), trained.metadata
    check_words(facts, data)
    questions = dict(questions_of(trained.config, data, split))
    learnt = dict(questions_of(trained.config, data, "train", FITTED)) if data.own else {}
    figures: dict[str, PairMetrics] = {}
    perplexity = None
    with progress(f"asking about {split}", len(questions)) as advance:
        for question, pairs in questions.items():
            if question == MASKED:
                found = guesses(model, pairs.rows, trained.config, facts, trained.device)
                perplexity = float(np.exp(found.loss.mean()))
                figures[question] = of_words(found, data, facts.words)
            else:
                yes = answered(model, question, pairs.rows, facts, trained.device)
                figures[question] = of_pairs(yes, pairs, learnt.get(question), facts.words)
            advance(1)
    return Evaluation(figures, perplexity)


def check_words(facts: Metadata, data: PretrainData) -> None:
    """Refuse tokens that are not the run's: another version may fit another vocabulary."""
    if data.metadata.vocabulary != facts.vocabulary:
        raise UserError(
            f"this version cuts {data.name} into other tokens than the run learnt: name it with "
            "--data, and it is cut as the run does"
        )


def of_words(found: Guesses, data: PretrainData, words: Vocabulary) -> PairMetrics:
    """Hidden words, beside the most frequent one and beside a counter of neighbours."""
    counting = None
    if data.own:
        simple = NearbyWords.fit(
            data.parts["train"].documents.lines.numbers,
            len(words),
            never=[words.special(name) for name in words.specials],
        )
        guessed = [
            simple.guess(neighbours(row, at, seen))
            for row, places, seen in found.rows
            for at in places.tolist()
        ]
        counting = share_right(np.array(guessed) == found.truth)
    return PairMetrics(
        share_right(found.right), most_frequent(found.truth), counting, len(found.truth)
    )


def of_pairs(
    yes: Float[np.ndarray, "n"], pairs: Pairs, learnt: Pairs | None, words: Vocabulary
) -> PairMetrics:
    """A question about pairs, beside a counter of words that learnt from as many."""
    right = (yes > 0.5) == pairs.answers
    counting = None
    if learnt is not None:
        rows = (*texts_of(learnt.rows, words), learnt.answers.tolist())
        given = BagOfWords.fit(rows, classes=2).probabilities(*texts_of(pairs.rows, words))
        counting = share_right(given.argmax(-1) == pairs.answers)
    kinds = np.array(pairs.kinds)
    by_kind = {kind: right[kinds == kind] for kind in dict.fromkeys(pairs.kinds)}
    return PairMetrics(
        share_right(right),
        most_frequent(pairs.answers),
        counting,
        len(pairs),
        {kind: (float(some.mean()), len(some)) for kind, some in by_kind.items()},
    )


def share_right(right: Bool[np.ndarray, "n"]) -> Interval:
    return bootstrap(right.astype(np.float64))


def most_frequent(answers: Int64[np.ndarray, "n"]) -> float:
    """How often one is right who always gives the most frequent answer."""
    return float(np.bincount(answers).max() / len(answers))


def texts_of(rows: Rows, words: Vocabulary) -> tuple[list[str], list[str]]:
    """The texts of both sides, for a counter that knows words and no tokens."""
    assert rows.second is not None

    def texts(slices: Int64[np.ndarray, "rows 2"]) -> list[str]:
        return [
            words.decode(rows.numbers[begin : begin + count].tolist())
            for begin, count in slices.tolist()
        ]

    return texts(rows.first), texts(rows.second)


def summary(judged: Evaluation, split: str) -> str:
    """Lines for a terminal."""
    lines = [split, f"{'':<12}{'right':>7}   {'95% interval':<16}{'chance':>7}{'counting':>10}"]
    for name, each in judged.figures.items():
        value, low, high = (f"{100 * x:.1f}" for x in each.accuracy)
        counting = "" if each.counting is None else f"{100 * each.counting.value:.1f}%"
        lines.append(
            f"{name:<12}{value:>6}%   {f'({low} to {high})':<16}{100 * each.chance:>6.1f}%"
            f"{counting:>10}   {each.count:,}"
        )
    if judged.perplexity is not None:
        lines.append(f"perplexity of a hidden token {judged.perplexity:.1f}")
    return "\n".join(lines)


def reader(trained: Reader) -> BertForPretraining:
    assert isinstance(trained.model, BertForPretraining)
    return trained.model
