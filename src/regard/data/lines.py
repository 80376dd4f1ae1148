"""Sentences as numbers, one after the other in one array: no padding, and no object a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64, Integer


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
        starts = np.concatenate(([0], self.lengths[kept].cumsum()))
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
        first = np.repeat(self.starts[:-1][kept], np.diff(starts))
        return Lines(self.numbers[first + within], starts)


def lined(lines: Sequence[Sequence[int]]) -> Lines:
    starts = np.cumsum([0, *map(len, lines)], dtype=np.int64)
    numbers = np.fromiter((number for line in lines for number in line), np.int32, int(starts[-1]))
    return Lines(numbers, starts)
