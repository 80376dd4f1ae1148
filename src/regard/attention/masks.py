"""The named masks, which compose: `causal & (window(64) | sinks(4))`.

Each mask is one predicate, `reads(q, k)`, and what follows from it for whole spans of positions
(`cover`), written with comparisons alone so that it serves integers and tensors alike.
"""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from regard.attention.algebra import Causal, Cover, Mask, Offsets, Span, negate

LARGEST = 1 << 31  # arguments beyond any sequence are mistakes, and would overflow products


@dataclass(frozen=True, repr=False)
class Named(Mask):
    """A mask with whole-number arguments, printed as the call that made it."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value, least = getattr(self, f.name), f.metadata.get("least", 1)
            if f.name == "grid":
                object.__setattr__(self, "grid", _grid(value))
            elif not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{self._name}: {f.name} is a whole number, not {value!r}")
            elif not least <= value < LARGEST:
                raise ValueError(
                    f"{self._name}: {f.name} must be at least {least} and under 2³¹, not {value}"
                )

    @property
    def _name(self) -> str:
        return next(name for name, made in MASKS.items() if made is type(self))

    def __str__(self) -> str:
        return f"{self._name}({', '.join(repr(getattr(self, f.name)) for f in fields(self))})"


causal = Causal()


@dataclass(frozen=True, repr=False)
class Window(Named):
    """|q − k| < w: with `causal`, w keys, the query's own included."""

    relative = True

    w: int

    def reads(self, q: Any, k: Any) -> Any:
        return (q - k).abs() < self.w

    def cover(self, q: Span, k: Span) -> Cover:
        return Cover(
            (k.first - q.last < self.w) & (q.first - k.last < self.w),
            (k.last - q.first < self.w) & (q.last - k.first < self.w),
        )

    @property
    def offsets(self) -> Offsets:
        return Offsets(1 - self.w, self.w - 1)


@dataclass(frozen=True, repr=False)
class Strided(Named):
    """Every `step`-th key, counted from the query."""

    relative = True

    step: int

    def reads(self, q: Any, k: Any) -> Any:
        return (q - k) % self.step == 0

    def cover(self, q: Span, k: Span) -> Cover:
        least, greatest = q.first - k.last, q.last - k.first
        some = greatest // self.step * self.step >= least
        return Cover(some, some & ((least == greatest) | (self.step == 1)))


@dataclass(frozen=True, repr=False)
class Dilated(Named):
    """A window with holes: `w` keys to either side, the query's own included, `step` apart."""

    relative = True

    w: int
    step: int

    def reads(self, q: Any, k: Any) -> Any:
        return ((q - k).abs() < self.w * self.step) & ((q - k) % self.step == 0)

    def cover(self, q: Span, k: Span) -> Cover:
        far, strided = (self.w - 1) * self.step, Strided(self.step).cover(q, k)
        least, greatest = q.first - k.last, q.last - k.first
        return Cover(
            strided.some & (least <= far) & (greatest >= -far),
            strided.every & (least >= -far) & (greatest <= far),
        )

    @property
    def offsets(self) -> Offsets:
        return Offsets(-(self.w - 1) * self.step, (self.w - 1) * self.step)


@dataclass(frozen=True, repr=False)
class Blocks(Named):
    """Keys of the query's own block of `size`."""

    size: int

    def reads(self, q: Any, k: Any) -> Any:
        return q // self.size == k // self.size

    def cover(self, q: Span, k: Span) -> Cover:
        size = self.size
        return Cover(
            (q.first // size <= k.last // size) & (k.first // size <= q.last // size),
            (q.first // size == k.last // size) & (k.first // size == q.last // size),
        )

    @property
    def offsets(self) -> Offsets:
        return Offsets(1 - self.size, self.size - 1)


@dataclass(frozen=True, repr=False)
class BlockSummary(Named):
    """The last `c` keys of every block of `size`: the columns that stand for their block."""

    size: int
    c: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.c > self.size:
            raise ValueError(
                f"summary: a block of {self.size} has no {self.c} last keys; c is at most its size"
            )

    def reads(self, q: Any, k: Any) -> Any:
        return k % self.size >= self.size - self.c

    def cover(self, q: Span, k: Span) -> Cover:
        size, c = self.size, self.c
        column = k.last % size
        # Else the nearest one ends the block before: it must lie in the span too.
        some = (column >= size - c) | (k.last - column > k.first)
        same = k.first // size == k.last // size
        return Cover(some, (same & (k.first % size >= size - c)) | (c == size))


@dataclass(frozen=True, repr=False)
class Sinks(Named):
    """The first `c` keys, for every query."""

    c: int = field(metadata={"least": 0})

    def reads(self, q: Any, k: Any) -> Any:
        return k < self.c

    def cover(self, q: Span, k: Span) -> Cover:
        return Cover(k.first < self.c, k.last < self.c)

    @property
    def offsets(self) -> Offsets:
        return Offsets(1 - self.c, math.inf)


@dataclass(frozen=True, repr=False)
class Prefix(Named):
    """The first `c` tokens read one another."""

    c: int = field(metadata={"least": 0})

    def reads(self, q: Any, k: Any) -> Any:
        return (q < self.c) & (k < self.c)

    def cover(self, q: Span, k: Span) -> Cover:
        return Cover((q.first < self.c) & (k.first < self.c), (q.last < self.c) & (k.last < self.c))

    @property
    def offsets(self) -> Offsets:
        return Offsets(1 - self.c, self.c - 1)


@dataclass(frozen=True, repr=False)
class GlobalTokens(Named):
    """The first `c` tokens read all and are read by all."""

    c: int = field(metadata={"least": 0})

    def reads(self, q: Any, k: Any) -> Any:
        return (q < self.c) | (k < self.c)

    def cover(self, q: Span, k: Span) -> Cover:
        return Cover((q.first < self.c) | (k.first < self.c), (q.last < self.c) | (k.last < self.c))


@dataclass(frozen=True, repr=False)
class RandomKeys(Named):
    """`count` distinct keys drawn for each query from 0 … among − 1, the same at every call."""

    count: int
    among: int
    seed: int = field(default=0, metadata={"least": 0})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count > self.among:
            raise ValueError(f"random_keys: cannot draw {self.count} keys among {self.among}")

    def draws(self, q: Any) -> list[Any]:
        """The keys of each query, one draw after the other.

        Floyd's sampling: draw from 0 … j for growing j and take j itself on a repeat, which
        gives every set of `count` keys the same chance. The dice are a hash of (seed, query, j),
        so that a row does not depend on which other rows are asked for.
        """
        if isinstance(q, Tensor):
            q = q.long()  # a kernel counts in 32 bits, in which products of the hash overflow
        keys: list[Any] = []
        for j in range(self.among - self.count, self.among):
            key = _hash(_hash(q ^ (self.seed * 0x9E3779B1 & 0xFFFFFFFF)) + j) % (j + 1)
            for taken in keys:
                key = torch.where(key == taken, j, key)
            keys.append(key)
        return keys

    def drawn(self, q: Tensor) -> Tensor:
        """The keys of each query, on a new last axis."""
        return torch.stack(self.draws(q), -1)

    def reads(self, q: Any, k: Any) -> Any:
        read = (q < 0) & (k < 0)
        for key in self.draws(q):
            read = read | (key == k)
        return read

    def cover(self, q: Span, k: Span) -> Cover:
        some = (k.first < self.among) & (q.last >= 0)
        return Cover(some, some & (k.last < self.among) & (self.count == self.among))

    def tiles(
        self, q_pos: range, k_pos: range, size: int = 128, device: torch.device | None = None
    ) -> Cover:
        """Exact, from the draws themselves: a span alone cannot tell which keys were drawn."""
        rows, columns = -(-len(q_pos) // size), -(-len(k_pos) // size)
        q = torch.arange(q_pos.start, q_pos.stop, device=device)
        drawn = self.drawn(q) - k_pos.start
        outside = (drawn < 0) | (drawn >= len(k_pos))
        column = (drawn // size).masked_fill(outside, columns)  # one column more, for these
        row = ((q - q_pos.start) // size)[:, None].expand_as(column)
        some = torch.zeros(rows, columns + 1, dtype=torch.bool, device=device)
        some[row, column] = True
        return Cover(some[:, :columns], super().tiles(q_pos, k_pos, size, device).every)

    @property
    def offsets(self) -> Offsets:
        return Offsets(1 - self.among, math.inf)


class OnGrid(Named):
    """Masks on a height × width grid: position = row · width + column.

    Class tokens take the positions from height · width on; they read and are read freely.
    """

    grid: tuple[int, int]

    def within(self, q_row: Any, q_column: Any, k_row: Any, k_column: Any) -> Any:
        """The predicate between two cells of the grid."""
        raise NotImplementedError

    def at(self, grid: tuple[int, int]) -> Mask:
        """The same pattern on a grid of another size."""
        return replace(self, grid=grid)  # type: ignore[call-arg]

    def grids(self) -> set[tuple[int, int]]:
        return {self.grid}

    def reads(self, q: Any, k: Any) -> Any:
        height, width = self.grid
        free = (q >= height * width) | (k >= height * width)
        return free | self.within(q // width, q % width, k // width, k % width)

    def cover(self, q: Span, k: Span) -> Cover:
        height, width = self.grid
        end = height * width
        some_free = (q.last >= end) | (k.last >= end)
        every_free = (q.first >= end) | (k.first >= end)
        some, every = self.cover_rows(
            Span(q.first // width, q.last // width), Span(k.first // width, k.last // width)
        )
        return Cover(some_free | some, every_free | (every & negate(some_free)))

    def cover_rows(self, q: Span, k: Span) -> Cover:
        """What is read between two spans of whole rows."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Neighborhood(OnGrid):
    """Cells at most `r` rows and `r` columns away."""

    r: int = field(metadata={"least": 0})
    grid: tuple[int, int]

    def within(self, q_row: Any, q_column: Any, k_row: Any, k_column: Any) -> Any:
        return ((q_row - k_row).abs() <= self.r) & ((q_column - k_column).abs() <= self.r)

    def cover_rows(self, q: Span, k: Span) -> Cover:
        some, every = Window(self.r + 1).cover(q, k)
        return Cover(some, every & (self.grid[1] <= self.r + 1))


@dataclass(frozen=True, repr=False)
class Axial(OnGrid):
    """Cells of the same row or the same column."""

    grid: tuple[int, int]

    def within(self, q_row: Any, q_column: Any, k_row: Any, k_column: Any) -> Any:
        return (q_row == k_row) | (q_column == k_column)

    def cover_rows(self, q: Span, k: Span) -> Cover:
        every = (q.first == k.last) & (k.first == q.last)
        # Two spans of rows almost always share a column, so nothing is ruled out here.
        return Cover((q.first <= q.last) & (k.first <= k.last), every)


@dataclass(frozen=True, repr=False)
class GridWindows(OnGrid):
    """Cells of the same `size` × `size` window of the grid.

    Windows begin at row and column `shift`. Those that the border of the grid cuts are smaller,
    and nothing wraps around: what is left above and before the first whole window, and below and
    after the last one, are windows of their own.
    """

    size: int
    grid: tuple[int, int]
    shift: int = field(default=0, metadata={"least": 0})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shift >= self.size:
            raise ValueError(
                f"windows: a shift of {self.shift} is not under the size of {self.size}; "
                f"write {self.shift % self.size}, which cuts the grid the same way"
            )

    def within(self, q_row: Any, q_column: Any, k_row: Any, k_column: Any) -> Any:
        return (self._at(q_row) == self._at(k_row)) & (self._at(q_column) == self._at(k_column))

    def cover_rows(self, q: Span, k: Span) -> Cover:
        some, every = Blocks(self.size).cover(self._moved(q), self._moved(k))
        return Cover(some, every & (self._at(0) == self._at(self.grid[1] - 1)))

    def _at(self, side: Any) -> Any:
        """Which window a row or a column lies in, −1 before the first whole one."""
        return (side - self.shift) // self.size

    def _moved(self, rows: Span) -> Span:
        return Span(rows.first - self.shift, rows.last - self.shift)


window, dilated, strided, blocks, block_summary = Window, Dilated, Strided, Blocks, BlockSummary
sinks, prefix, global_tokens, random_keys = Sinks, Prefix, GlobalTokens, RandomKeys
neighborhood, axial, grid_windows = Neighborhood, Axial, GridWindows

MASKS: dict[str, Mask | type[Mask]] = {
    "causal": causal,
    "window": window,
    "dilated": dilated,
    "strided": strided,
    "blocks": blocks,
    "block_summary": block_summary,
    "sinks": sinks,
    "prefix": prefix,
    "global_tokens": global_tokens,
    "random_keys": random_keys,
    "neighborhood": neighborhood,
    "axial": axial,
    "grid_windows": grid_windows,
}


def _grid(value: Any) -> tuple[int, int]:
    sides = (value, value) if isinstance(value, int) else value
    whole = isinstance(sides, tuple) and [type(side) for side in sides] == [int, int]
    if not whole:
        raise TypeError(f"a grid is (height, width) in whole numbers, not {value!r}")
    height, width = sides
    if not (0 < height < LARGEST and 0 < width < LARGEST):
        raise ValueError(f"a grid of {height} × {width} has no cells")
    return height, width


def _hash(x: Tensor) -> Tensor:
    """Scramble whole numbers into 32 bits by multiplying and folding high bits onto low ones."""
    for multiplier in (0x7FEB352D, 0x45D9F3B5, 0x2C1B3C6D):
        x = (x ^ (x >> 16)) * multiplier & 0xFFFFFFFF
    return x ^ (x >> 16)
