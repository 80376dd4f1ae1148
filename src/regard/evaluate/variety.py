"""Whether captions are many things said or one thing said often, and whether they are copies.

    variety([["a", "dog"], ["a", "cat"]], training)   # Variety(count=2, vocabulary=3, …)

A model may score well with few safe sentences that fit most images. These figures tell. They
compare words as they are given: cut and lower-case all texts alike beforehand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from operator import index
from typing import Any

from regard.evaluate.captions import copied, distinct
from regard.evaluate.ngram import Words

SHARES = ("distinct_words", "distinct_pairs", "copied", "repeated")


@dataclass(frozen=True)
class Variety:
    """How varied a set of captions is. All but the last three figures are shares of 1."""

    distinct_words: float  # of all words, those that differ: distinct-1 (Li et al. 2016)
    distinct_pairs: float  # of all neighbouring two words, those that differ: distinct-2
    copied: float  # captions that are in the training set word for word
    repeated: float  # captions that say, word for word, what another of them says
    vocabulary: int  # different words used
    length: float  # words in a caption, on average
    count: int  # captions

    def __post_init__(self) -> None:
        for name in SHARES:
            share = getattr(self, name)
            if not 0 <= share <= 1:  # also finds NaN
                raise ValueError(f"{name}={share} is not a share of 1")
        if self.count < 1 or not 0 <= self.vocabulary <= self.count * self.length * (1 + 1e-9):
            raise ValueError(
                f"{self.count} captions of {self.length} words each cannot use "
                f"{self.vocabulary} different ones"
            )

    def to_values(self) -> dict[str, Any]:
        """The same as a dictionary of numbers, for JSON."""
        return asdict(self)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Variety:
        """What `to_values` was made of."""
        try:
            whole = {name: index(values[name]) for name in ("vocabulary", "count")}
            return cls(**{**values, **whole})
        except (KeyError, TypeError, ValueError) as trouble:
            raise ValueError(f"these are not the values of a variety: {trouble}") from None


def variety(captions: Sequence[Words], training: Iterable[Words]) -> Variety:
    """How varied captions are, each a list of words, and how many are learnt by heart.

    The two shares of distinct words and pairs fall as there are more captions, so compare them
    between equally many. A caption without words repeats others like it, but copies nothing.
    """
    if not len(captions):
        raise ValueError("there are 0 captions; at least one is needed")
    said = [_cut(words, f"captions[{row}]") for row, words in enumerate(captions)]
    learnt = {_cut(words, f"training[{row}]") for row, words in enumerate(training)}
    times = Counter(said)
    return Variety(
        distinct_words=distinct(said, 1),
        distinct_pairs=distinct(said, 2),
        copied=copied(said, learnt),
        repeated=sum(often for often in times.values() if often > 1) / len(said),
        vocabulary=len(set(chain.from_iterable(said))),
        length=sum(map(len, said)) / len(said),
        count=len(said),
    )


def _cut(words: Words, name: str) -> tuple[str, ...]:
    if isinstance(words, str):  # which is a sequence of letters, and would pass for words
        raise ValueError(f"{name} is the text {words[:40]!r}; cut it into words first")
    return tuple(words)
