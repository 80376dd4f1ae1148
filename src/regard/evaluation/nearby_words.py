"""What counting neighbours can do: guess a hidden word from the bag of words around it.

    simple = NearbyWords.fit(numbers, words=8000)
    simple.guess(around)                # the likeliest word, given those up to ten places away

A model that guesses hidden words no better than this has learnt nothing of their order. It is naive
Bayes: each word nearby speaks for the words that it is often seen with, whatever stands between.
How much it may say is chosen on a part of the text that was not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32, Int64, Integer

REACH = 10  # places to either side
MOST = 4_000  # of the most frequent words, which alone are counted and guessed
SHARES = (0.0, 0.05, 0.1, 0.2, 0.4)  # of what each neighbour says, to choose from
SAMPLE = 2_000  # places to choose it by


@dataclass(frozen=True, eq=False)
class NearbyWords:
    """How much each word speaks for each other one near it."""

    known: Int64[np.ndarray, "most"]  # the numbers of the words that are counted
    place: Int64[np.ndarray, "words"]  # where each word is among them, or −1
    alone: Float32[np.ndarray, "most"]  # the logarithm of how frequent each is
    speaks: Float32[np.ndarray, "most most"]  # of a neighbour (row) for a word (column)
    share: float = 0.0

    @classmethod
    def fit(
        cls, numbers: Integer[np.ndarray, "n"], words: int, never: Sequence[int] = ()
    ) -> NearbyWords:
        """Count a text, but for its last tenth, by which the share is chosen.

        Words that are `never` asked for, such as the one for all that are unknown, are passed over.
        """
        counted, rest = np.split(numbers.astype(np.int64), [len(numbers) * 9 // 10])
        times = np.bincount(counted, minlength=words)
        times[list(never)] = 0
        known = np.argsort(-times, kind="stable")[:MOST]
        known = known[times[known] > 0]
        if not len(known):
            raise ValueError(f"a text of {len(numbers)} words has none to count")
        place = np.full(words, -1, np.int64)
        place[known] = np.arange(len(known))
        size, at = len(known), place[counted]
        together = np.zeros(size * size, np.float32)
        for far in range(1, REACH + 1):
            a, b = at[:-far], at[far:]
            both = (a >= 0) & (b >= 0)
            together += np.bincount(a[both] * size + b[both], minlength=size * size)
        seen = together.reshape(size, size)
        seen += seen.T.copy()
        chance = times[known] / max(1, times[known].sum())
        expected = np.outer(seen.sum(1), chance).astype(np.float32)
        # Five imagined meetings as chance would have them keep rare words from shouting.
        speaks = np.log((seen + 5 * chance) / (expected + 5 * chance)).astype(np.float32)
        made = cls(known, place, np.log(chance).astype(np.float32), speaks)
        return made.tuned(rest)

    def tuned(self, text: Int64[np.ndarray, "n"]) -> NearbyWords:
        """With the share that guesses best in a text that was not counted."""
        places = np.linspace(0, len(text) - 1, min(SAMPLE, len(text))).astype(int)
        around = [neighbours(text, at) for at in places.tolist()]
        made = [replace(self, share=share) for share in SHARES]
        right = [np.array([each.guess(some) for some in around]) == text[places] for each in made]
        return made[int(np.argmax([found.sum() for found in right]))]

    def guess(self, around: Sequence[int] | Int64[np.ndarray, "some"]) -> int:
        """The word that is likeliest among these; the most frequent one if none is known."""
        near = self.place[np.asarray(around, np.int64)]
        near = near[near >= 0]
        scores = self.alone + self.share * self.speaks[near].sum(0) if len(near) else self.alone
        return int(self.known[scores.argmax()])


def neighbours(
    numbers: Integer[np.ndarray, "n"], at: int, seen: Sequence[bool] | np.ndarray | None = None
) -> Int64[np.ndarray, "some"]:
    """The words near a place that can be seen."""
    near = [n for n in range(max(0, at - REACH), min(len(numbers), at + REACH + 1)) if n != at]
    if seen is not None:
        near = [n for n in near if seen[n]]
    return np.asarray(numbers)[near].astype(np.int64)
