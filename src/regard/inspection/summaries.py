"""What a head does on a text, in a few numbers: how widely, how far, and at what it looks.

    measure = Yardstick(tokens, n, n, causal=True)
    measure(weights)["previous"]                    # 0.87: mostly at the token before

Numbers are means over the words that have a choice: the first word of a causal text has none. Those
of all heads of a long text take a while, and nobody needs them to see it: HeadSummaries measures
when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import TypedDict

import numpy as np
from jaxtyping import Bool, Float

DIGITS = 4


class HeadSummary(TypedDict):
    """None stands where nothing can be said: of words without a choice, or that never recur.

    Of two texts, the words of one looking at another's, only the first three are known; distance
    is then that from the place equally far along.
    """

    entropy: float | None  # bits
    even: float | None  # entropy as a share of what would be possible
    distance: float | None  # places between a word and what it looked at
    previous: float | None  # share of the token before
    first: float | None  # of the first token of all
    itself: float | None
    induction: float | None  # of what came after earlier occurrences of the same token


class Yardstick:
    """Measures every head on one text; `tokens` is None where another text is looked at."""

    def __init__(self, tokens: Sequence[str] | None, n: int, m: int, *, causal: bool) -> None:
        row, column = np.arange(n)[:, None], np.arange(m)
        along = row if tokens is not None else row * (max(m - 1, 0) / max(n - 1, 1))
        self.apart = np.abs(along - column).astype(np.float32)
        self.choices = np.arange(1, n + 1) if causal else np.full(n, m)
        self.again = None if tokens is None else continuations(tokens)
        self.recurs = np.zeros(n, bool) if self.again is None else self.again.any(1)

    def __call__(self, weights: Float[np.ndarray, "n m"]) -> HeadSummary:
        rows = (self.choices > 1) & (weights.sum(1) > 0)
        bits = entropy(weights)
        own = self.again is not None
        later = rows & (np.arange(len(rows)) > 0)
        return {
            "entropy": mean(bits, rows),
            "even": mean(bits / np.log2(np.maximum(self.choices, 2)), rows),
            "distance": mean(np.einsum("nm,nm->n", weights, self.apart), rows),
            "previous": mean(shifted(weights), later) if own else None,
            "first": mean(weights[:, :1].sum(1), later) if own else None,
            "itself": mean(weights.diagonal(), rows) if own else None,
            "induction": self.induction(weights, rows),
        }

    def induction(
        self, weights: Float[np.ndarray, "n m"], rows: Bool[np.ndarray, " n"]
    ) -> float | None:
        if self.again is None:
            return None
        found = np.einsum("nm,nm->n", weights, self.again)
        return mean(found, rows & self.recurs)


class HeadSummaries:
    """What each of some maps shows, measured once, when somebody asks.

    `maps()` are gone through then, and let go; until then they, or what they are made of, take
    `size` bytes.
    """

    def __init__(
        self,
        measure: Callable[[Float[np.ndarray, "n m"]], HeadSummary],
        maps: Callable[[], Iterable[Float[np.ndarray, "n m"]]],
        size: int,
    ) -> None:
        self._measure, self._maps, self.size = measure, maps, size
        self._found: list[HeadSummary] | None = None
        self._turn = Lock()  # two who ask at once are told the same

    def to_values(self) -> list[HeadSummary]:
        """The summaries, in the order of the maps."""
        with self._turn:
            if self._found is None:
                self._found = [self._measure(each) for each in self._maps()]
                self._maps, self.size = tuple, 0
            return self._found


def continuations(tokens: Sequence[str]) -> Float[np.ndarray, "n n"]:
    """1 where a place, before the word itself, follows an earlier occurrence of that word."""
    known: dict[str, int] = {}
    numbers = np.array([known.setdefault(token, len(known)) for token in tokens])
    same = np.tri(len(tokens), k=-2) * (numbers[:, None] == numbers)  # earlier by two or more
    return np.roll(same, 1, axis=1).astype(np.float32)


def entropy(weights: Float[np.ndarray, "n m"]) -> Float[np.ndarray, " n"]:
    """Of each row, in bits."""
    logarithms = np.maximum(weights, np.finfo(weights.dtype).tiny)
    np.log2(logarithms, out=logarithms)
    return np.maximum(0, -np.einsum("nm,nm->n", weights, logarithms))


def shifted(weights: Float[np.ndarray, "n n"]) -> Float[np.ndarray, " n"]:
    """What each word gave the one before it; the first has none."""
    return np.pad(weights.diagonal(-1), (1, 0))[: len(weights)]


def mean(values: Float[np.ndarray, " n"], rows: Bool[np.ndarray, " n"]) -> float | None:
    return round(float(values[rows].mean()), DIGITS) if rows.any() else None
