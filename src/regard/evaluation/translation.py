"""How good translations are, in the figures that papers print.

    scores = assess(hypotheses, references)     # texts as people write them, one reference each
    print(summary(scores))
    worst(scores, 10)                           # the rows to look at first

BLEU and chrF are those of sacreBLEU to the last digit (Post 2018), and `signatures` says which, as
it would. Texts are as they are, neither tokenised nor in lower case: its rule 13a cuts both alike.

"bleu_lowercase" is the same after lower-casing. Many published figures for Multi30k are BLEU on
lower-cased words cut by Moses. On its tests, with a twentieth to a third of the words replaced,
dropped or swapped, that was within 0.03 of BLEU-lower in German and within 0.06 in English (times
100), so the two may be compared. It holds while full stops only end sentences: Moses leaves others
on their words, and on hypotheses strewn with them the two were up to 0.6 apart.

Intervals are the 95% of `regard.evaluation.bootstrap` over the choice of sentences. An empty
hypothesis is allowed and scores 0; an empty reference is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Int64, Num

from regard.data.entries import all_of
from regard.errors import UserError
from regard.evaluation.bootstrap import (
    ROUNDS,
    Interval,
    Statistic,
    bootstrap,
    bootstrap_of,
    checked,
    interval_from,
    rows_from,
)
from regard.evaluation.caption_bleu import BleuCounts, bleu_counts, sums_over
from regard.evaluation.chrf import chrf_counts, chrf_each, chrf_of

METRICS = ("BLEU", "bleu_lowercase", "chrF", "exact_match")


@dataclass(frozen=True, eq=False)
class TranslationMetrics:
    """Every figure of one set of translations, all 0 … 1."""

    figures: Mapping[str, Interval]  # by the names in METRICS
    per_pair: Mapping[str, Float[np.ndarray, "n"]]  # chrF and exact: BLEU is none of one sentence
    signatures: Mapping[str, str]  # how sacreBLEU names what it would have computed
    length: float  # words of the hypotheses for each word of the references
    empty: int  # hypotheses without a sign

    @property
    def count(self) -> int:
        """How many translations there were."""
        return len(self.per_pair["exact_match"])

    def to_values(self) -> dict[str, Any]:
        """The same as dictionaries, lists and numbers, for JSON."""
        return {
            "figures": {name: interval._asdict() for name, interval in self.figures.items()},
            "per_pair": {name: values.tolist() for name, values in self.per_pair.items()},
            "signatures": dict(self.signatures),
            "length": self.length,
            "empty": self.empty,
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> TranslationMetrics:
        """What `to_values` was made of."""
        try:
            rows = {name: rows_from(values["per_pair"][name]) for name in ("chrF", "exact_match")}
            found = cls(
                figures={name: interval_from(values["figures"][name]) for name in METRICS},
                per_pair=rows,
                signatures={name: values["signatures"][name] for name in METRICS[:-1]},
                length=values["length"],
                empty=values["empty"],
            )
            if len(rows["chrF"]) != len(rows["exact_match"]):
                raise ValueError(
                    f"{len(rows['chrF'])} and {len(rows['exact_match'])} pairs are not as many"
                )
            all_of(str, found.signatures.values())
            return checked(found)
        except (KeyError, TypeError, ValueError) as trouble:
            raise ValueError(f"these are not the values of scores: {trouble}") from None


def assess(
    hypotheses: Sequence[str], references: Sequence[str], *, rounds: int = ROUNDS, seed: int = 0
) -> TranslationMetrics:
    """Every figure there is: one hypothesis a text, and one translation that is known to be right.

    `exact` is the share that is right letter for letter, up to how many spaces there are.
    """
    check_texts(hypotheses, references)
    n = len(hypotheses)
    cut = words_13a()
    cased = words_counted(cut, hypotheses, references)
    lower = words_counted(cut, *([text.lower() for text in s] for s in (hypotheses, references)))
    letters = chrf_counts(hypotheses, references)
    exact = np.array(
        [one.split() == other.split() for one, other in zip(hypotheses, references, strict=True)],
        np.float64,
    )

    def interval(statistic: Statistic) -> Interval:
        return bootstrap_of(n, statistic, rounds=rounds, seed=seed)

    return TranslationMetrics(
        figures={
            "BLEU": interval(smoothed_bleu_of(cased)),
            "bleu_lowercase": interval(smoothed_bleu_of(lower)),
            "chrF": interval(chrf_of(letters)),
            "exact_match": bootstrap(exact, rounds=rounds, seed=seed),
        },
        per_pair={"chrF": chrf_each(letters), "exact_match": exact},
        signatures=signatures(),
        length=float(cased.length.sum() / max(1, cased.wanted.sum())),
        empty=sum(not text.strip() for text in hypotheses),
    )


def best(scores: TranslationMetrics, count: int) -> Int64[np.ndarray, "found"]:
    """The rows of at most `count` translations with the highest chrF, ties by row."""
    return _ranked(-scores.per_pair["chrF"], count)


def worst(scores: TranslationMetrics, count: int) -> Int64[np.ndarray, "found"]:
    """The rows of at most `count` translations with the lowest chrF, ties by row."""
    return _ranked(scores.per_pair["chrF"], count)


def summary(scores: TranslationMetrics, items: str = "sentences") -> str:
    """A few lines for a terminal; `items` is what was translated."""
    lines = []
    for name, (value, low, high) in scores.figures.items():
        more = f", {scores.count:,} {items}" if name == METRICS[0] else ""
        lines.append((name, f"{100 * value:.1f}", f"({100 * low:.1f} to {100 * high:.1f}{more})"))
    lines.append(("length", f"{scores.length:.2f}", "(words for each word of the references)"))
    if scores.empty:
        lines.append(("empty", f"{scores.empty:,}", f"({items} without a translation)"))
    first, second = (max(len(line[column]) for line in lines) for column in (0, 1))
    aligned = [f"{name:<{first}}  {value:>{second}}  {more}" for name, value, more in lines]
    note = f"Scores are times 100. Ranges are 95% intervals over the choice of {items}."
    return "\n".join([*aligned, note, f"BLEU as sacreBLEU's {scores.signatures['BLEU']}"])


# BLEU by sacreBLEU's rules


def smoothed_bleu(counts: BleuCounts) -> float:
    """BLEU of all sentences together, as sacreBLEU has it.

    It differs from `regard.evaluation.caption_bleu` where a length of runs has no match at all:
    the first such length counts half a match, the next a quarter (Chen and Cherry 2014, method 3).
    """
    return float(_score(*(part.sum(0, keepdims=True) for part in counts))[0])


def smoothed_bleu_of(counts: BleuCounts) -> Statistic:
    """The same of chosen rows, for `bootstrap_of`."""

    def statistic(rows: Int[np.ndarray, "r n"]) -> Float[np.ndarray, "r"]:
        return _score(*sums_over(rows, *counts))

    return statistic


def words_counted(
    cut: Callable[[str], str], hypotheses: Sequence[str], references: Sequence[str]
) -> BleuCounts:
    """Matches and lengths of texts that are cut into words first."""
    candidates, known = (
        [cut(text.rstrip()).split() for text in s] for s in (hypotheses, references)
    )
    return bleu_counts(candidates, [[one] for one in known])


def words_13a() -> Callable[[str], str]:
    """sacreBLEU's rule for cutting a text into words, with spaces between."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise UserError("translations are scored by sacreBLEU: run pip install sacrebleu") from None
    cut: Callable[[str], str] = BLEU(tokenize="13a").tokenizer
    return cut


def signatures() -> dict[str, str]:
    """What sacreBLEU calls the figures that are computed here, its version included."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    named: dict[str, str] = {}
    for name, metric in (
        ("BLEU", BLEU()),
        ("bleu_lowercase", BLEU(lowercase=True)),
        ("chrF", CHRF()),
    ):
        metric.corpus_score(["a"], [["a"]])  # it tells its name only after some work
        named[name] = str(metric.get_signature())
    return named


def check_texts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Every hypothesis has a reference, and that is a text."""
    if len(hypotheses) != len(references):
        raise ValueError(
            f"there are {len(hypotheses)} hypotheses and {len(references)} references; each "
            "hypothesis needs its own"
        )
    if not len(hypotheses):
        raise ValueError("there are 0 hypotheses; at least one is needed")
    for row, text in enumerate(references):
        if not text.strip():
            raise ValueError(f"references[{row}] of {len(references)} is empty")


def _score(
    matched: Num[np.ndarray, "r orders"],
    possible: Num[np.ndarray, "r orders"],
    length: Num[np.ndarray, "r"],
    wanted: Num[np.ndarray, "r"],
) -> Float[np.ndarray, "r"]:
    none = matched == 0
    found = np.where(none, 0.5 ** none.cumsum(-1), matched)
    scored = possible.all(-1) & matched.any(-1)
    share = found / np.maximum(possible, 1)
    short = np.minimum(0.0, 1 - wanted / np.maximum(length, 1))
    return np.where(scored, np.exp(np.log(share).mean(-1) + short), 0.0)


def _ranked(values: Float[np.ndarray, "n"], count: int) -> Int64[np.ndarray, "found"]:
    if count < 0:
        raise ValueError(f"count={count} is below 0")
    return np.argsort(values, kind="stable")[:count].astype(np.int64)
