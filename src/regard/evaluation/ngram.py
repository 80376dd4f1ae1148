"""Runs of one to four words, counted for many sentences at once.

    words, pairs = count_ngrams([["a", "dog"], ["a", "dog", "runs"]], 2)
    pairs.sentence, pairs.gram, pairs.times   # [0, 1, 1], [0, 0, 1], [1, 1, 1]

Scores compare how often a run of words occurs here and there. Numbering every different run once
and sorting the numbers takes the place of millions of look-ups in dictionaries.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Num

ORDERS = 4  # runs of up to four words

Words = Sequence[str]


class Grams(NamedTuple):
    """Which runs of one length each sentence has, and how often: sorted by sentence, then run."""

    sentence: Int[np.ndarray, "entries"]
    gram: Int[np.ndarray, "entries"]
    times: Int[np.ndarray, "entries"]
    kinds: int  # how many different runs there are; `gram` is below it


def ngrams(words: Words, n: int) -> Counter[tuple[str, ...]]:
    """How often each run of n words occurs in one sentence."""
    return Counter(zip(*(words[start:] for start in range(n)), strict=False))


def count_ngrams(sentences: Sequence[Words], orders: int = ORDERS) -> list[Grams]:
    """`ngrams` of every sentence for n = 1 … orders, runs numbered alike in all of them."""
    lengths = np.array([len(words) for words in sentences], np.int64)
    numbers: dict[str, int] = {}
    word = np.fromiter(
        (numbers.setdefault(w, len(numbers)) for w in chain.from_iterable(sentences)),
        np.int64,
        int(lengths.sum()),
    )
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    left = np.repeat(lengths.cumsum(), lengths) - np.arange(len(word))  # words from here on
    found, gram, kinds = [], word, len(numbers)
    for n in range(1, orders + 1):
        if n > 1:
            # A run is the run one shorter and the word after it.
            starts = np.flatnonzero(left >= n)
            pairs = gram[starts] * (len(numbers) + 1) + word[starts + n - 1]
            different, place = np.unique(pairs, return_inverse=True)
            gram, kinds = np.zeros_like(word), len(different)
            gram[starts] = place
        else:
            starts = np.arange(len(word))
        cells, times = np.unique(sentence[starts] * (kinds + 1) + gram[starts], return_counts=True)
        found.append(Grams(cells // (kinds + 1), cells % (kinds + 1), times, kinds))
    return found


def values_at(
    queries: Int[np.ndarray, "m"], keys: Int[np.ndarray, "k"], values: Num[np.ndarray, "k"]
) -> Num[np.ndarray, "m"]:
    """The value at each of `queries` among the sorted keys, 0 where it is not."""
    if not len(keys):
        return np.zeros(len(queries), values.dtype)
    place = np.searchsorted(keys, queries).clip(max=len(keys) - 1)
    return np.where(keys[place] == queries, values[place], 0)


def check_pairs(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> None:
    """Every hypothesis is a list of words and has at least one reference."""
    if len(hypotheses) != len(references):
        raise ValueError(
            f"there are {len(hypotheses)} hypotheses and {len(references)} lists of references; "
            "each hypothesis needs its own list"
        )
    if not len(hypotheses):
        raise ValueError("there are 0 hypotheses; at least one is needed")
    for row, (words, known) in enumerate(zip(hypotheses, references, strict=True)):
        if not len(known):
            raise ValueError(f"row {row} has 0 references; at least one is needed")
        for part in (words, *known):
            if isinstance(part, str):
                raise ValueError(
                    f"row {row} has the text {part[:40]!r}; cut it into words first "
                    "(regard.evaluation.ptb.words)"
                )
