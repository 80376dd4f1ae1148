"""Texts, or pairs of texts, as rows that a BERT reads, and as batches in which little is padding.

rows = in_rows([words.encode(text) for text in texts])
buckets = Buckets(rows.lengths, 4096)               # at most so many tokens in a batch
pick = RowPicker(rows, words, device)
for width, some in buckets.epoch(np.random.default_rng(0)):
    read = pick(torch.from_numpy(some), width)      # words, segments and positions
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, Integer
from torch import Tensor

from regard.data.lines import lined
from regard.data.stored_texts import NumberWriter
from regard.data.tokenizer import Vocabulary

Tokens = Sequence[int]
ROOM = 2**30  # numbers that places of 32 bits are used for


@dataclass(frozen=True, eq=False)
class Rows:
    """Texts to be read as `start … end`, or pairs as `start … end … end`.

    A text is a slice of `numbers`, which holds neither starts nor ends: the sentences of a document
    lie side by side there, and any run of them is a text.
    """

    numbers: Integer[np.ndarray, "total"]
    first: Integer[np.ndarray, "rows 2"]  # where each text begins, and how many numbers it has
    second: Integer[np.ndarray, "rows 2"] | None = None  # of second texts, if rows are pairs

    def __len__(self) -> int:
        return len(self.first)

    @property
    def lengths(self) -> Integer[np.ndarray, "rows"]:
        """Numbers that are read of each row, start and ends counted."""
        return 2 + self.first[:, 1] + (0 if self.second is None else 1 + self.second[:, 1])

    def only(self, kept: np.ndarray) -> Rows:
        """Some of them, by row."""
        second = None if self.second is None else self.second[kept]
        return Rows(self.numbers, self.first[kept], second)


def in_rows(texts: Sequence[Tokens], seconds: Sequence[Tokens] | None = None) -> Rows:
    """Texts, or texts and a second one to each."""
    lines = lined([*texts, *(seconds or ())])
    slices = np.stack((lines.starts[:-1], lines.lengths), 1)
    n = len(texts)
    return Rows(lines.numbers, slices[:n], None if seconds is None else slices[n:])


class RowWriter:
    """Makes rows of one text, or pair, after the other; of many, the numbers lie in a file."""

    def __init__(self) -> None:
        self.numbers = NumberWriter()
        self.first, self.second = array("i"), array("i")

    def __len__(self) -> int:
        return len(self.first) // 2

    def add(self, text: Tokens, second: Tokens | None = None) -> None:
        if self.numbers.count > ROOM and self.first.typecode == "i":
            self.first, self.second = array("q", self.first), array("q", self.second)
        for tokens, slices in ((text, self.first), (second, self.second)):
            if tokens is not None:
                slices.extend((self.numbers.count, len(tokens)))
                self.numbers.add(tokens)

    def done(self) -> Rows:
        first, second = (
            np.frombuffer(slices, slices.typecode).reshape(-1, 2)
            if slices
            else np.zeros((0, 2), slices.typecode)
            for slices in (self.first, self.second)
        )
        return Rows(self.numbers.done(), first, second if self.second else None)


def windows(tokens: Tokens, longest: int, overlap: int) -> list[Tokens]:
    """A text as pieces of at most `longest` tokens, of which neighbours share at least `overlap`.

    There are as few as can be, all of one length, and they are spread evenly: none is a mere
    remainder.
    """
    if not 0 <= overlap < longest:
        raise ValueError(f"overlap={overlap} must be in 0 … {longest - 1}, below longest={longest}")
    n = len(tokens)
    if n <= longest:
        return [tokens]
    count = -(-(n - overlap) // (longest - overlap))
    starts = np.linspace(0, n - longest, count).round().astype(int).tolist()
    return [tokens[start : start + longest] for start in starts]


def trimmed(first: Tokens, second: Tokens, room: int) -> tuple[Tokens, Tokens]:
    """A pair cut to `room` tokens, from the end of whichever text is longer."""
    # Half is the first's in any case, and so is what the second leaves.
    n = min(len(first), max(room - room // 2, room - len(second)))
    return first[:n], second[: room - n]


class Read(NamedTuple):
    """What a BERT is called with. Padding comes last, at position −1."""

    words: Int64[Tensor, "b n"]
    segments: Int64[Tensor, "b n"] | None  # None where no row has a second text
    positions: Int64[Tensor, "b n"]


class RowPicker:
    """Makes the input of any rows where their tokens lie: on the device, or in another `home`."""

    def __init__(
        self, rows: Rows, words: Vocabulary, device: torch.device, home: torch.device | None = None
    ) -> None:
        self.start, self.end, self.padding = words.start, words.end, words.padding
        self.device, self.home = device, device if home is None else home
        # Where no text has a token, there must be a number all the same that marks cover.
        numbers = rows.numbers if len(rows.numbers) else np.zeros(1, np.int32)
        self.numbers = torch.from_numpy(numbers).to(self.home)
        self.put(rows)

    def put(self, rows: Rows) -> None:
        """Other rows of the same numbers."""
        self.first = torch.from_numpy(rows.first).to(self.home)
        self.second = None if rows.second is None else torch.from_numpy(rows.second).to(self.home)

    def __call__(self, rows: Int64[Tensor, "b"], width: int) -> Read:
        """These rows, padded to a width that none exceeds."""
        at = torch.arange(width, device=self.home)
        begin, length = self.first[rows].T[..., None]
        end = length + 1  # where the first text ends
        source, last = begin + at - 1, end
        if self.second is not None:
            begin, length = self.second[rows].T[..., None]
            source = source.where(at < end, begin + at - end - 1)
            last = end + length + 1
        marks = (at == 0) | (at == end) | (at >= last)
        found = self.numbers[source.masked_fill(marks, 0)].long()
        words = found.masked_fill(at == 0, self.start).masked_fill(
            (at == end) | (at == last), self.end
        )
        return Read(
            self.there(words.masked_fill(at > last, self.padding)),
            None if self.second is None else self.there((at > end).long()),
            self.there(at.expand_as(found).masked_fill(at > last, -1)),
        )

    def there(self, found: Tensor) -> Tensor:
        return found.to(self.device, non_blocking=True)


class Buckets:
    """Rows of about one length, which share batches of at most `batch` tokens, padding counted.

    A row that is longer than that by itself is a batch of its own. Lengths are rounded up to four
    steps between a power of two and the next: little is padding, and yet there are few shapes of
    batch, which recorded steps and compiled models need.
    """

    def __init__(self, lengths: Integer[np.ndarray, "rows"], batch: int) -> None:
        self.batch = batch
        wide = rounded_up(lengths)
        self.rows = {int(width): np.flatnonzero(wide == width) for width in np.unique(wide)}

    def __len__(self) -> int:
        """How many batches there are."""
        return sum(-(-len(rows) // self.at_once(width)) for width, rows in self.rows.items())

    @property
    def shapes(self) -> int:
        """How many shapes they have."""
        kinds: set[tuple[int, int]] = set()
        for width, rows in self.rows.items():
            full, left = divmod(len(rows), self.at_once(width))
            kinds |= {(width, self.at_once(width))} if full else set()
            kinds |= {(width, left)} if left else set()
        return len(kinds)

    def at_once(self, width: int) -> int:
        return max(1, self.batch // width)

    def epoch(
        self, draw: np.random.Generator | None = None
    ) -> Iterator[tuple[int, Int64[np.ndarray, "b"]]]:
        """Every row once, in batches with their widths; shuffled, or from short to long."""
        batches = []
        for width, rows in self.rows.items():
            order = rows if draw is None else draw.permutation(rows)
            n = self.at_once(width)
            batches += [(width, order[at : at + n]) for at in range(0, len(rows), n)]
        turn = range(len(batches)) if draw is None else draw.permutation(len(batches))
        return (batches[at] for at in turn)


class Mixed:
    """Rows of all lengths together, as chance has it, so that no step is about short ones alone.

    Texts of one step can be weighed against one another, then. A step is of `together` batches:
    what is drawn for it is sorted by length before it is cut into these, and each is padded to its
    own longest row. All batches have equally many rows, but for the last: as many as of the longest
    row of all would come to at most `batch` tokens.
    """

    def __init__(self, lengths: Integer[np.ndarray, "rows"], batch: int, together: int = 1) -> None:
        self.wide, self.together = rounded_up(lengths), together
        self.at_once = max(1, batch // int(self.wide.max(initial=1)))

    def __len__(self) -> int:
        """How many batches there are."""
        return -(-len(self.wide) // self.at_once)

    @property
    def shapes(self) -> int:
        """How many shapes they may have: at the most one a width, and the last."""
        return len(np.unique(self.wide)) + bool(len(self.wide) % self.at_once)

    def epoch(
        self, draw: np.random.Generator | None = None
    ) -> Iterator[tuple[int, Int64[np.ndarray, "b"]]]:
        """Every row once, in batches with their widths; shuffled, or as they come."""
        rows = np.arange(len(self.wide))
        order = rows if draw is None else draw.permutation(rows)
        n = self.at_once
        for at in range(0, len(rows), n * self.together):
            drawn = order[at : at + n * self.together]
            drawn = drawn[np.argsort(self.wide[drawn], kind="stable")]
            for first in range(0, len(drawn), n):
                some = drawn[first : first + n]
                yield int(self.wide[some[-1]]), some


def rounded_up(lengths: Integer[np.ndarray, "rows"]) -> Integer[np.ndarray, "rows"]:
    """Up to the next of 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, …"""
    least = np.maximum(np.arange(int(lengths.max(initial=0)) + 1), 4)  # of each length there may be
    step = 2 ** (np.floor(np.log2(least)).astype(np.int64) - 2)
    return (-(-least // step) * step).astype(lengths.dtype)[lengths]
