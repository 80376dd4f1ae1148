"""Sentences as numbers, one after the other in one array: no padding, and no object a sentence."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64, Integer

from regard.data.stored_texts import IN_MEMORY, NumberWriter


@dataclass(frozen=True, eq=False)
class Lines:
    """Sentences as numbers, one after the other, and where each begins."""

    numbers: Integer[np.ndarray, "total"]
    starts: Int64[np.ndarray, "lines_and_1"]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Int64[np.ndarray, "lines"]:
        return np.diff(self.starts)

    def only(self, kept: Integer[np.ndarray, "some"]) -> Lines:
        """Some of the lines, by row."""
        if self.numbers.nbytes > IN_MEMORY:
            rows = np.arange(len(self))[kept].tolist()
            return lined(self.numbers[self.starts[n] : self.starts[n + 1]].tolist() for n in rows)
        starts = np.concatenate(([0], self.lengths[kept].cumsum()))
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
        first = np.repeat(self.starts[:-1][kept], np.diff(starts))
        return Lines(self.numbers[first + within], starts)


class LineWriter:
    """Takes one sentence after the other; of very many, the numbers lie in a file."""

    def __init__(self) -> None:
        self.starts, self.numbers = array("q", [0]), NumberWriter()

    def add(self, line: Sequence[int]) -> None:
        self.numbers.add(line)
        self.starts.append(self.numbers.count)

    def done(self) -> Lines:
        return Lines(self.numbers.done(), np.frombuffer(self.starts, np.int64))


def lined(lines: Iterable[Sequence[int]]) -> Lines:
    """Sentences as such lines."""
    writer = LineWriter()
    for line in lines:
        writer.add(line)
    return writer.done()
