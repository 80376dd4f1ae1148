"""Whether texts look like the language that a run reads, or like the one that it writes.

    typical = typical_tokens(tokens, words)         # of training: tokens that tell the two apart
    leaning = lean(typical, sources)                # Leaning(source=0.02, target=0.61, tokens=412)

A token is typical of a side if it is several times as frequent there as on the other. Where both
sides are written alike, as numbers and words are in `numerals`, none is, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from regard.data.pair_batches import Tokens
from regard.data.tokenizer import Vocabulary

Typical = tuple[tuple[int, ...], tuple[int, ...]]  # of source, of target

RATIO = 4.0  # times as frequent as on the other side
MOST = 200  # tokens of a side that are kept, the ones that tell most
FEWEST = 8  # typical tokens in some texts, below which nothing is said
BLOCK, BLOCKS = 2**16, 64  # tokens in a row, and how often, from which shares are taken
SHARE = 0.8  # of these that must be typical of the wrong side


class Leaning(NamedTuple):
    """Which share of the tokens of some texts is typical of each side, and how many these are."""

    source: float
    target: float
    tokens: int

    @property
    def wrong(self) -> bool:
        """Whether they look like what is written, and not like what is read."""
        typical = self.source + self.target
        return self.tokens >= FEWEST and self.target >= SHARE * typical


def typical_tokens(tokens: Tokens, words: Vocabulary) -> Typical:
    """The tokens that are much more frequent on one side of these pairs than on the other."""
    sides = (spread(side.numbers) for side in (tokens.source, tokens.target))
    ours, theirs = (shares(side, words) for side in sides)
    return of_one(ours, theirs), of_one(theirs, ours)


def spread(numbers: Int[np.ndarray, "all"]) -> Int[np.ndarray, "some"]:
    """All of them, or of very many as many as are enough, from everywhere: they lie in a file."""
    if len(numbers) <= BLOCKS * BLOCK:
        return numbers
    starts = np.linspace(0, len(numbers) - BLOCK, BLOCKS).astype(np.int64)
    return np.concatenate([numbers[start : start + BLOCK] for start in starts])


def shares(numbers: Int[np.ndarray, "n"], words: Vocabulary) -> Float[np.ndarray, "count"]:
    times = np.bincount(numbers, minlength=len(words))
    times[[words.start, words.end]] = 0  # which are no part of a text
    return times / max(1, times.sum())


def of_one(here: Float[np.ndarray, "count"], there: Float[np.ndarray, "count"]) -> tuple[int, ...]:
    clear = np.flatnonzero(here > RATIO * there)
    best = clear[np.argsort(there[clear] - here[clear], kind="stable")[:MOST]]
    return tuple(sorted(best.tolist()))


def lean(typical: Typical, texts: Sequence[Sequence[int]]) -> Leaning:
    """How much of some texts, as tokens, is typical of source and of target."""
    numbers = np.concatenate(
        [np.asarray(text, np.int64) for text in texts] or [np.empty(0, np.int64)]
    )
    ours, theirs = (int(np.isin(numbers, side).sum()) for side in typical)
    total = max(1, len(numbers))
    return Leaning(ours / total, theirs / total, ours + theirs)


def warning(
    typical: Typical,
    languages: tuple[str, str],
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] = (),
) -> str:
    """A sentence if sources look like what is written; of pairs, if targets do the opposite too."""
    given = lean(typical, sources)
    if not given.wrong:
        return ""
    one, other = languages
    numbers = (
        f"of the tokens of the given sources {given.source:.0%} are typical of {one}, which this "
        f"run reads, and {given.target:.0%} of {other}, which it writes"
    )
    back = lean(typical[::-1], targets)
    if back.wrong:
        return (
            f"source and target look exchanged: {numbers}; of the given targets it is "
            f"{back.target:.0%} and {back.source:.0%}"
        )
    return f"the texts look like {other} and not like {one}: {numbers}"
