"""chrF: which share of a sentence's letters, pairs of letters … runs of six a reference also has.

    counts = chrf_counts(hypotheses, references)    # texts; one reference each
    chrf(counts)                                    # 0 … 1, over all of them
    chrf_each(counts)                               # for every sentence by itself

Popović (2015), as sacreBLEU computes chrF2 by default: spaces do not count, recall counts twice as
much as precision, and a length that no sentence reaches is left out. Unlike BLEU it says something
about a single sentence too, and gives a word credit for a right stem with a wrong ending.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from regard.evaluation.bootstrap import Statistic
from regard.evaluation.caption_bleu import sums_over
from regard.evaluation.ngram import count_ngrams, values_at

LONGEST = 6
RECALL = 2**2  # the weight of recall, squared as in any F-score


class ChrfCounts(NamedTuple):
    """What chrF is made of, for each sentence: sums of lines give the figure of their whole."""

    matched: Int[np.ndarray, "n orders"]  # runs of letters that both have, none counted twice
    written: Int[np.ndarray, "n orders"]  # of the hypothesis, where the reference has any at all
    wanted: Int[np.ndarray, "n orders"]


def chrf(counts: ChrfCounts) -> float:
    """How much all sentences together have in common with their references, letter by letter."""
    return float(_score(*(part.sum(0, keepdims=True) for part in counts))[0])


def chrf_each(counts: ChrfCounts) -> Float[np.ndarray, "n"]:
    """The same for every sentence by itself; their mean is not the chrF of the whole."""
    return _score(*counts)


def chrf_of(counts: ChrfCounts) -> Statistic:
    """chrF of chosen rows, for `bootstrap_of`."""
    return lambda rows: _score(*sums_over(rows, *counts))


def chrf_counts(hypotheses: Sequence[str], references: Sequence[str]) -> ChrfCounts:
    """Matches and lengths of each hypothesis with its one reference, for `chrf`."""
    n = len(hypotheses)
    letters = ["".join(text.split()) for text in (*hypotheses, *references)]
    matched = np.zeros((n, LONGEST), np.int64)
    for order, (sentence, gram, times, kinds) in enumerate(count_ngrams(letters, LONGEST)):
        first = int(np.searchsorted(sentence, n))  # where the references begin
        queries = sentence[:first] * (kinds + 1) + gram[:first]
        held = (sentence[first:] - n) * (kinds + 1) + gram[first:]
        both = np.minimum(times[:first], values_at(queries, held, times[first:]))
        np.add.at(matched[:, order], sentence[:first], both)
    lengths = np.array([len(text) for text in letters], np.int64).reshape(2, n, 1)
    written, wanted = np.maximum(lengths - np.arange(LONGEST), 0)
    return ChrfCounts(matched, np.where(wanted > 0, written, 0), wanted)


def _score(
    matched: Num[np.ndarray, "r orders"],
    written: Num[np.ndarray, "r orders"],
    wanted: Num[np.ndarray, "r orders"],
) -> Float[np.ndarray, "r"]:
    known = (written > 0) & (wanted > 0)
    orders = np.maximum(known.sum(-1), 1)
    precision = (matched / np.where(known, written, 1) * known).sum(-1) / orders
    recall = (matched / np.where(known, wanted, 1) * known).sum(-1) / orders
    together = RECALL * precision + recall
    return (1 + RECALL) * precision * recall / np.where(together > 0, together, 1.0)
