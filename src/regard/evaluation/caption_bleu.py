"""BLEU: which share of a sentence's words, pairs, triples and fours a reference also has.

    counts = bleu_counts(hypotheses, references)   # lists of words; several references each
    bleu(counts)                                   # [BLEU-1, BLEU-2, BLEU-3, BLEU-4], 0 … 1

This is the variant that papers on captions report (Papineni et al. 2002, as in pycocoevalcap): one
figure over all sentences, the length of the closest reference, and next to no smoothing, so one
short sentence without a matching run of four has a BLEU-4 near 0. It is not sacrebleu's.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Num

from regard.evaluation.bootstrap import Statistic
from regard.evaluation.ngram import ORDERS, Words, check_pairs, count_ngrams, ngrams, values_at

# In place of 0 matches of 0 possible; the values of pycocoevalcap, which last digits depend on.
NO_MATCH, NO_RUN = 1e-15, 1e-9


class BleuCounts(NamedTuple):
    """What BLEU is made of, for each hypothesis: sums of lines give the figure of their whole."""

    matched: Int[np.ndarray, "n orders"]  # runs that a reference has too, none counted twice
    possible: Int[np.ndarray, "n orders"]
    length: Int[np.ndarray, "n"]
    wanted: Int[np.ndarray, "n"]  # the length of the reference nearest in length


def bleu(counts: BleuCounts) -> Float[np.ndarray, "orders"]:
    """How much of all hypotheses together the references have too, in runs of up to 1 … 4 words.

    The geometric mean of the shares of matching runs, less a penalty where the hypotheses are
    shorter than their references: 0 is nothing in common, 1 is all.
    """
    return _score(*(part.sum(0, keepdims=True) for part in counts))[0]


def bleu_each(counts: BleuCounts) -> Float[np.ndarray, "n orders"]:
    """The same for every hypothesis by itself; their mean is not the BLEU of the whole."""
    return _score(*counts)


def bleu_of(counts: BleuCounts, n: int) -> Statistic:
    """BLEU-n of chosen rows, for `bootstrap_of`."""

    def statistic(rows: Int[np.ndarray, "r n"]) -> Float[np.ndarray, "r"]:
        return _score(*sums_over(rows, *counts))[:, n - 1]

    return statistic


def sums_over(
    rows: Int[np.ndarray, "r n"], *parts: Num[np.ndarray, "all ..."]
) -> list[Float[np.ndarray, "r ..."]]:
    """The sum of each part over the rows of each line.

    How often a row is drawn, times its values, is the same as adding it up each time, and the
    numbers drawn are looked at once instead of once a value.
    """
    r, count = len(rows), len(parts[0])
    cells = rows + count * np.arange(r)[:, None]
    times = np.bincount(cells.ravel(), minlength=r * count).reshape(r, count).astype(np.float64)
    return [np.tensordot(times, part, 1) for part in parts]


def bleu_counts(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> BleuCounts:
    """Matches and lengths of each hypothesis, for `bleu`."""
    check_pairs(hypotheses, references)
    n = len(hypotheses)
    owner = np.repeat(np.arange(n), [len(known) for known in references])
    everything = [*hypotheses, *(words for known in references for words in known)]
    length = np.array([len(words) for words in hypotheses], np.int64)
    matched = np.zeros((n, ORDERS), np.int64)
    for order, (sentence, gram, times, kinds) in enumerate(count_ngrams(everything)):
        first = int(np.searchsorted(sentence, n))  # where the references begin
        queries = sentence[:first] * (kinds + 1) + gram[:first]
        held = owner[sentence[first:] - n] * (kinds + 1) + gram[first:]
        # The most times that one reference has the run: sorted by run and then by times.
        sort = np.lexsort((times[first:], held))
        keys, last = np.unique(held[sort][::-1], return_index=True)
        most = times[first:][sort][::-1][last]
        clipped = np.minimum(times[:first], values_at(queries, keys, most))
        np.add.at(matched[:, order], sentence[:first], clipped)
    possible = np.maximum(length[:, None] - np.arange(ORDERS), 0)
    lengths = [[len(words) for words in known] for known in references]
    return BleuCounts(matched, possible, length, _nearest(length, lengths))


def bleu_counts_plain(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> BleuCounts:
    """`bleu_counts` sentence by sentence, as one would do it on paper."""
    check_pairs(hypotheses, references)
    matched = []
    for words, known in zip(hypotheses, references, strict=True):
        line = []
        for n in range(1, ORDERS + 1):
            held = [ngrams(reference, n) for reference in known]
            line.append(
                sum(
                    min(times, max(counter[run] for counter in held))
                    for run, times in ngrams(words, n).items()
                )
            )
        matched.append(line)
    length = np.array([len(words) for words in hypotheses], np.int64)
    possible = np.maximum(length[:, None] - np.arange(ORDERS), 0)
    lengths = [[len(words) for words in known] for known in references]
    return BleuCounts(np.array(matched, np.int64), possible, length, _nearest(length, lengths))


def _nearest(length: Int[np.ndarray, "n"], lengths: list[list[int]]) -> Int[np.ndarray, "n"]:
    """Of each row's lengths the one nearest to its own, the shorter of two as near."""
    pairs = zip(length.tolist(), lengths, strict=True)
    return np.array([min(row, key=lambda k: (abs(k - own), k)) for own, row in pairs], np.int64)


def _score(
    matched: Num[np.ndarray, "*r orders"],
    possible: Num[np.ndarray, "*r orders"],
    length: Num[np.ndarray, "*r"],
    wanted: Num[np.ndarray, "*r"],
) -> Float[np.ndarray, "*r orders"]:
    share = (matched + NO_MATCH) / (possible + NO_RUN)
    mean = share.cumprod(-1) ** (1 / np.arange(1, ORDERS + 1))
    ratio = (length + NO_MATCH) / (wanted + NO_RUN)
    return mean * np.exp(np.minimum(0.0, 1 - 1 / ratio))[..., None]
