"""How good sentences about images are: against what people wrote, and against each other.

    scores = assess(hypotheses, references, training)   # texts; several references an image
    print(summary(scores))
    worst(scores, 10)                                    # the rows to look at first

Texts are cut into words as in the published scores (`regard.evaluation.ptb`), so BLEU, ROUGE-L and
CIDEr-D are the numbers that pycocoevalcap prints. METEOR-lite is not METEOR: see
`regard.evaluation.meteor` for how far apart they are. Intervals are the 95% of
`regard.evaluation.bootstrap` over the choice of images.

A hypothesis without words (empty, only punctuation, only emoji) is allowed and scores 0. A
reference without words is allowed beside others; an image with no other kind is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from regard.evaluation.bootstrap import (
    ROUNDS,
    Interval,
    Statistic,
    bootstrap_of,
    checked,
    interval_from,
    mean_of,
    rows_from,
)
from regard.evaluation.caption_bleu import bleu_counts, bleu_each, bleu_of
from regard.evaluation.cider import cider
from regard.evaluation.meteor import meteor_counts, meteor_each, meteor_of
from regard.evaluation.ngram import Words, ngrams
from regard.evaluation.ptb import words
from regard.evaluation.rouge import rouge_l

METRICS = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR-lite", "ROUGE-L", "CIDEr-D")


@dataclass(frozen=True, eq=False)
class CaptionMetrics:
    """Every figure of one set of sentences, all 0 … 1 but CIDEr-D, which is 0 … 10."""

    figures: Mapping[str, Interval]  # by the names in METRICS
    per_image: Mapping[str, Float[np.ndarray, "n"]]  # the same names; of BLEU-4 most are near 0
    distinct: tuple[float, float]  # of all words, and of all pairs of words, the share that differ
    different: float  # the share of sentences that differ from one another
    copied: float | None  # the share that is word for word in the training set, where it was given
    empty: int  # sentences without words
    length: float  # words in a sentence, on average
    vocabulary: int  # different words

    @property
    def count(self) -> int:
        """How many images there were."""
        return len(self.per_image[METRICS[0]])

    def to_values(self) -> dict[str, Any]:
        """The same as dictionaries, lists and numbers, for JSON."""
        return {
            "figures": {name: interval._asdict() for name, interval in self.figures.items()},
            "per_image": {name: values.tolist() for name, values in self.per_image.items()},
            "distinct": list(self.distinct),
            "different": self.different,
            "copied": self.copied,
            "empty": self.empty,
            "length": self.length,
            "vocabulary": self.vocabulary,
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> CaptionMetrics:
        """What `to_values` was made of."""
        try:
            first, second = values["distinct"]
            return checked(
                cls(
                    figures={name: interval_from(values["figures"][name]) for name in METRICS},
                    per_image={name: rows_from(values["per_image"][name]) for name in METRICS},
                    distinct=(float(first), float(second)),
                    different=values["different"],
                    copied=values["copied"],
                    empty=values["empty"],
                    length=values["length"],
                    vocabulary=values["vocabulary"],
                )
            )
        except (KeyError, TypeError, ValueError) as trouble:
            raise ValueError(f"these are not the values of scores: {trouble}") from None


def assess(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    training: Iterable[str] | None = None,
    *,
    rounds: int = ROUNDS,
    seed: int = 0,
) -> CaptionMetrics:
    """Every figure there is: one hypothesis an image, any number of references, all as text.

    CIDEr-D takes the rarity of words from these references, and its interval takes that rarity
    as given. `training` is what the model may have memorised.
    """
    candidates, known = _cut(hypotheses, references)
    n = len(candidates)
    bleus, meteors = bleu_counts(candidates, known), meteor_counts(candidates, known)
    rouges, ciders = rouge_l(candidates, known), cider(candidates, known)
    each = bleu_each(bleus)
    per_image = dict(zip(METRICS, [*each.T, meteor_each(meteors), rouges, ciders], strict=True))
    statistics: list[Statistic] = [
        *(bleu_of(bleus, order) for order in (1, 2, 3, 4)),
        meteor_of(meteors),
        mean_of(rouges),
        mean_of(ciders),
    ]
    learnt = None if training is None else {tuple(words(text)) for text in training}
    return CaptionMetrics(
        figures={
            name: bootstrap_of(n, statistic, rounds=rounds, seed=seed)
            for name, statistic in zip(METRICS, statistics, strict=True)
        },
        per_image=per_image,
        distinct=(distinct(candidates, 1), distinct(candidates, 2)),
        different=len({tuple(part) for part in candidates}) / n,
        copied=None if learnt is None else copied(candidates, learnt),
        empty=sum(not part for part in candidates),
        length=sum(map(len, candidates)) / n,
        vocabulary=len({word for part in candidates for word in part}),
    )


def distinct(sentences: Sequence[Words], n: int) -> float:
    """Of all runs of n words, the share that differ: 1 is no repetition at all (Li et al. 2016).

    It falls as there are more sentences, so compare it between equally many. Of no runs it is 0.
    """
    counts = [ngrams(part, n) for part in sentences]
    total = sum(count.total() for count in counts)
    return len(set().union(*counts)) / total if total else 0.0


def copied(sentences: Sequence[Words], learnt: set[tuple[str, ...]]) -> float:
    """The share of sentences that are word for word among the learnt ones; an empty one is not."""
    return sum(bool(part) and tuple(part) in learnt for part in sentences) / len(sentences)


def best(scores: CaptionMetrics, count: int, metric: str = "CIDEr-D") -> Int64[np.ndarray, "found"]:
    """The rows of at most `count` sentences that score highest, ties by row."""
    return _ranked(-_values(scores, metric), count)


def worst(
    scores: CaptionMetrics, count: int, metric: str = "CIDEr-D"
) -> Int64[np.ndarray, "found"]:
    """The rows of at most `count` sentences that score lowest, ties by row."""
    return _ranked(_values(scores, metric), count)


def summary(scores: CaptionMetrics, items: str = "images") -> str:
    """A few lines for a terminal; `items` is what the sentences are about."""
    s = scores
    lines = []
    for name, (value, low, high) in s.figures.items():
        more = f", {s.count:,} {items}" if name == METRICS[0] else ""
        lines.append((name, f"{100 * value:.1f}", f"({100 * low:.1f} to {100 * high:.1f}{more})"))
    lines.append(("words each", f"{s.length:.1f}", f"({s.vocabulary:,} different ones)"))
    pairs = f"(share of words; of pairs {100 * s.distinct[1]:.1f}%)"
    lines.append(("distinct", f"{100 * s.distinct[0]:.1f}%", pairs))
    lines.append(("different", f"{100 * s.different:.1f}%", "(share of sentences)"))
    if s.copied is not None:
        lines.append(("copied", f"{100 * s.copied:.1f}%", "(word for word from training)"))
    if s.empty:
        lines.append(("empty", f"{s.empty:,}", "(sentences without words, which score 0)"))
    first, second = (max(len(line[column]) for line in lines) for column in (0, 1))
    aligned = [f"{name:<{first}}  {value:>{second}}  {more}" for name, value, more in lines]
    note = f"Scores are times 100. Ranges are 95% intervals over the choice of {items}."
    return "\n".join([*aligned, note])


def _cut(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[list[list[str]], list[list[list[str]]]]:
    """All texts as words, each row with something to be compared with."""
    if len(hypotheses) != len(references):
        raise ValueError(
            f"there are {len(hypotheses)} hypotheses and {len(references)} lists of references; "
            "each hypothesis needs its own list"
        )
    if not len(hypotheses):
        raise ValueError("there are 0 hypotheses; at least one is needed")
    candidates, known = [], []
    for row, (text, others) in enumerate(zip(hypotheses, references, strict=True)):
        if isinstance(others, str):
            raise ValueError(
                f"references[{row}] is one text, {others[:40]!r}; it should be a list of texts"
            )
        cut = [words(other) for other in others]
        if not any(cut):
            raise ValueError(
                f"references[{row}] has {len(cut)} texts and none of them has a word; at least "
                "one is needed"
            )
        candidates.append(words(text))
        known.append(cut)
    return candidates, known


def _values(scores: CaptionMetrics, metric: str) -> Float[np.ndarray, "n"]:
    if metric not in scores.per_image:
        raise ValueError(f"there is no metric {metric!r}; known are {', '.join(METRICS)}")
    return scores.per_image[metric]


def _ranked(values: Float[np.ndarray, "n"], count: int) -> Int64[np.ndarray, "found"]:
    if count < 0:
        raise ValueError(f"count={count} is below 0")
    return np.argsort(values, kind="stable")[:count].astype(np.int64)
