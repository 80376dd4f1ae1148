"""How a mask whose keys lie scattered falls into parts, each in an order that brings them together.

`causal & (window(64) | strided(64))` reads few keys, but some in every tile. It is a union of two
parts, though, and each has an order of tokens in which its keys lie together: those of the window
as they come, every 64th token side by side with the next. No key is in two parts, and no map of all
tokens is ever written. `merged` reads the parts and joins what they read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from regard.attention.algebra import And, Mask, Or
from regard.attention.kernels.second_order import untransformed
from regard.attention.kernels.tiles import TILE
from regard.attention.masks import (
    Axial,
    Blocks,
    BlockSummary,
    Dilated,
    Neighborhood,
    RandomKeys,
    Strided,
)

MOST_TERMS = 8  # of a union; what falls into more is left to tiles
SIDE = 8  # cells of a grid, of the squares of queries that read one square of keys around them
Scatter = Strided | BlockSummary | RandomKeys | Neighborhood
Term = tuple[Mask, Scatter | None]  # a mask, and what in it scatters keys, if anything does


@dataclass(frozen=True, eq=False)
class Batch:
    """Groups of queries, each reading a group of keys: rows of q and of k, and who may read."""

    q_rows: Tensor  # groups, queries
    k_rows: Tensor  # groups, keys
    allowed: Tensor  # groups or 1, queries, keys

    @property
    def entries(self) -> int:
        return self.q_rows.numel() * self.k_rows.shape[1]

    def pieces(self, groups: int) -> Iterator[Batch]:
        """The same, so many groups at a time."""
        for first in range(0, len(self.q_rows), groups):
            some = slice(first, first + groups)
            allowed = self.allowed if len(self.allowed) == 1 else self.allowed[some]
            yield Batch(self.q_rows[some], self.k_rows[some], allowed)

    def on(self, device: torch.device) -> Batch:
        return Batch(*(x.to(device) for x in (self.q_rows, self.k_rows, self.allowed)))


@dataclass(frozen=True, eq=False)
class Arrangement:
    """All that a mask reads, each pair once."""

    batches: tuple[Batch, ...]
    parts: int

    @property
    def entries(self) -> int:
        """Scores that are computed."""
        return sum(batch.entries for batch in self.batches)

    def work(self, *, alone: int, row: int) -> int:
        """The same with all that is copied, in scores that take as long.

        A score of a query that shares its keys with none counts for `alone`: its keys and values
        are copied for it, and read from memory once more. Each row of queries or keys that is
        gathered counts for `row`.
        """
        return sum(
            batch.entries * (alone if batch.q_rows.shape[1] == 1 else 1)
            + row * (batch.q_rows.numel() + batch.k_rows.numel())
            for batch in self.batches
        )


@functools.lru_cache(maxsize=8)
@untransformed
def arrange(mask: Mask, q_pos: range, k_pos: range) -> Arrangement | None:
    """The parts of a mask in orders of their own; None where nothing in it is scattered."""
    end = max(q_pos.stop, k_pos.stop)
    terms = list(split(mask, end)) if count(mask) <= MOST_TERMS else []
    scattered = [(term, by) for term, by in terms if by is not None]
    if not scattered or not q_pos or not k_pos:
        return None
    together = [term for term, by in terms if by is None]
    batches: list[Batch] = []
    if together:
        batches += in_tiles(functools.reduce(Or, together), q_pos, k_pos)
    earlier = together
    for term, by in scattered:
        only = functools.reduce(lambda mask, one: mask & ~one, earlier, term)
        batches += in_order(only, by, q_pos, k_pos)
        earlier = [*earlier, term]
    return Arrangement(tuple(batches), len(scattered) + bool(together))


def count(mask: Mask) -> int:
    """Terms that a mask falls into, once its unions are outermost."""
    if isinstance(mask, Or):
        return count(mask.left) + count(mask.right)
    if isinstance(mask, And):
        return count(mask.left) * count(mask.right)
    return 2 if isinstance(mask, Axial) else 1


def split(mask: Mask, end: int) -> Iterator[Term]:
    """A mask as a union of terms, for positions below `end`."""
    if isinstance(mask, Or):
        yield from split(mask.left, end)
        yield from split(mask.right, end)
    elif isinstance(mask, And):
        for left, by in split(mask.left, end):
            for right, also_by in split(mask.right, end):
                yield left & right, fewest(by, also_by)
    elif isinstance(mask, Axial) and end <= mask.grid[0] * mask.grid[1]:
        yield Blocks(mask.grid[1]), None  # the row …
        yield Strided(mask.grid[1]), Strided(mask.grid[1])  # … and the column
    elif isinstance(mask, Dilated):
        yield mask, Strided(mask.step)
    elif isinstance(mask, Neighborhood) and end <= mask.grid[0] * mask.grid[1]:
        yield mask, mask
    else:
        yield mask, mask if isinstance(mask, (Strided, BlockSummary, RandomKeys)) else None


def fewest(a: Scatter | None, b: Scatter | None) -> Scatter | None:
    """Of two that scatter keys, the one that leaves fewer to a query."""

    def share(one: Scatter | None) -> float:
        match one:
            case Strided(step):
                return 1 / step
            case BlockSummary(size, c):
                return c / size
            case RandomKeys(count, among):
                return count / among
            case Neighborhood(r, (height, width)):
                return min(1.0, (2 * r + SIDE) ** 2 / (height * width))
        return 1.0

    return a if share(a) <= share(b) else b


def in_tiles(mask: Mask, q_pos: range, k_pos: range) -> Iterator[Batch]:
    """Tokens as they come: blocks of queries, those with equally many tiles of keys together."""
    some = mask.tiles(q_pos, k_pos, TILE).some
    kinds: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
    for row, wanted in enumerate(some):
        q_rows = torch.arange(row * TILE, min((row + 1) * TILE, len(q_pos)))
        k_rows = (wanted.nonzero() * TILE + torch.arange(TILE)).flatten()
        k_rows = k_rows[k_rows < len(k_pos)]
        if len(k_rows):
            kinds.setdefault((len(q_rows), len(k_rows)), []).append((q_rows, k_rows))
    for groups in kinds.values():
        yield batch_of(mask, groups, q_pos, k_pos)


def in_order(mask: Mask, by: Scatter, q_pos: range, k_pos: range) -> Iterator[Batch]:
    """Tokens in an order in which what is scattered lies together."""
    q_all, k_all = torch.arange(len(q_pos)), torch.arange(len(k_pos))
    match by:
        case Strided(step):  # those with one remainder read one another
            kinds: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
            for rest in range(step):
                q_rows = q_all[(rest - q_pos.start) % step :: step]
                k_rows = k_all[(rest - k_pos.start) % step :: step]
                if len(q_rows) and len(k_rows):
                    kinds.setdefault((len(q_rows), len(k_rows)), []).append((q_rows, k_rows))
            for groups in kinds.values():
                yield batch_of(mask, groups, q_pos, k_pos)
        case BlockSummary(size, c):  # few keys, the same for all queries: TILE of these at a time
            k_rows = k_all[(k_all + k_pos.start) % size >= size - c]
            whole = len(q_pos) // TILE * TILE
            for rows in (q_all[:whole].view(-1, TILE), q_all[None, whole:]):
                if rows.numel() and len(k_rows):
                    groups = [(one, k_rows) for one in rows]
                    yield batch_of(mask, groups, q_pos, k_pos)
        case Neighborhood():
            yield from in_squares(mask, by, q_pos, k_pos)
        case RandomKeys():  # each query has keys of its own
            drawn = by.drawn(q_all + q_pos.start) - k_pos.start
            inside = (drawn >= 0) & (drawn < len(k_pos))
            k_rows = drawn.clamp(0, len(k_pos) - 1)
            allowed = mask((q_all + q_pos.start)[:, None], k_rows + k_pos.start)
            yield Batch(q_all[:, None], k_rows, allowed & inside[:, None])


def in_squares(mask: Mask, by: Neighborhood, q_pos: range, k_pos: range) -> Iterator[Batch]:
    """Squares of cells, each reading the square of all that lies around it."""
    (height, width), n = by.grid, len(q_pos)
    if q_pos != k_pos or q_pos.start:
        yield from in_tiles(mask, q_pos, k_pos)
        return
    side = SIDE if 2 * by.r < SIDE else 2 * SIDE  # what lies around is read for each square
    kinds: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
    for top, left in product(range(0, height, side), range(0, width, side)):
        bottom, right = min(top + side, height), min(left + side, width)
        above, before = max(0, top - by.r), max(0, left - by.r)
        below, after = min(bottom + by.r, height), min(right + by.r, width)
        q_rows = square((top, bottom, left, right), width, n)
        k_rows = square((above, below, before, after), width, n)
        kind = (bottom - top, below - above, top - above, left - before, len(q_rows), len(k_rows))
        if len(q_rows):
            kinds.setdefault(kind, []).append((q_rows, k_rows))
    alike = mask == by and n == height * width  # then all groups of a kind see the same
    for groups in kinds.values():
        some = batch_of(mask, groups[:1] if alike else groups, q_pos, k_pos)
        q_rows, k_rows = (torch.stack(rows) for rows in zip(*groups, strict=True))
        yield Batch(q_rows, k_rows, some.allowed)


def square(sides: Sequence[int], width: int, end: int) -> Tensor:
    """The tokens of a rectangle of the grid, those before `end`."""
    top, bottom, left, right = sides
    cells = torch.arange(top, bottom)[:, None] * width + torch.arange(left, right)
    return cells[cells < end]


def batch_of(
    mask: Mask, groups: Iterable[tuple[Tensor, Tensor]], q_pos: range, k_pos: range
) -> Batch:
    q_rows, k_rows = (torch.stack(rows) for rows in zip(*groups, strict=True))
    if mask.relative:
        shifts = (q_rows[:, :1] - q_rows[:1, :1]).eq(k_rows[:, :1] - k_rows[:1, :1])
        alike = (q_rows - q_rows[:, :1]).eq(q_rows[0] - q_rows[0, 0]).all()
        alike &= (k_rows - k_rows[:, :1]).eq(k_rows[0] - k_rows[0, 0]).all() & shifts.all()
        if alike:  # all groups see the same
            return Batch(q_rows, k_rows, mask(q_rows[:1] + q_pos.start, k_rows[:1] + k_pos.start))
    return Batch(q_rows, k_rows, mask(q_rows + q_pos.start, k_rows + k_pos.start))
