"""A mask is a predicate on positions; masks compose with `&`, `|` and `~` and print as written.

A mask answers four questions, all from its expression alone, none from a tensor's values:
which keys may be read (call it), which blocks of a large map hold anything (`tiles`), whether a
later query can still need a key (`cover` with an open end), and how far it reaches (`offsets`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.positions import Positions, check_span, locate

FAR = 1 << 40  # further than any token: the end of a span that has none


class Span(NamedTuple):
    """Positions from `first` to `last`, both included; integers, or tensors of integers."""

    first: Any
    last: Any


class Cover(NamedTuple):
    """What a mask reads between two spans: something at all, and everything.

    `every` is never claimed wrongly and `some` never denied wrongly, so skipping a tile without
    `some` and leaving the mask off a tile with `every` are both safe.
    """

    some: Any
    every: Any


class Offsets(NamedTuple):
    """The least and the greatest q − k that a mask may read, infinite where unbounded."""

    least: float
    greatest: float


ANYWHERE = Offsets(-math.inf, math.inf)


class Mask:
    """Which keys a query may read, decided by the positions of both.

    A mask of your own needs `reads` alone. As a frozen dataclass its instances compare by their
    fields; as a plain class each is equal to itself only.
    """

    def reads(self, q: Any, k: Any) -> Any:
        """The predicate itself, elementwise on integer tensors that broadcast."""
        raise NotImplementedError

    def cover(self, q: Span, k: Span) -> Cover:
        """What is read between two spans; a mask that cannot tell says "something"."""
        every = (q.first > q.last) & (k.first > k.last)  # false, in the spans' own type
        return Cover(negate(every), every)

    @property
    def offsets(self) -> Offsets:
        """Bounds on q − k over everything the mask reads."""
        return ANYWHERE

    @property
    def relative(self) -> bool:
        """Whether q − k alone decides, so that moving both changes nothing."""
        return False

    def at(self, grid: tuple[int, int]) -> Mask:
        """The same mask on a grid of another size; only masks on grids care."""
        return self

    def __call__(self, q_pos: Positions, k_pos: Positions) -> Bool[Tensor, "*b n m"]:
        """The dense matrix: True where the query may read the key; nowhere is never read."""
        check_span("q_pos", q_pos)
        check_span("k_pos", k_pos)
        device = next((p.device for p in (q_pos, k_pos) if isinstance(p, Tensor)), None)
        q, k = locate(q_pos, device)[..., :, None], locate(k_pos, device)[..., None, :]
        read = self.reads(q, k)
        if isinstance(k_pos, Tensor):
            read = read & (k >= 0)
        if isinstance(q_pos, Tensor):
            read = read & (q >= 0)
        return torch.broadcast_to(read, torch.broadcast_shapes(q.shape, k.shape))

    def __and__(self, other: Mask) -> Mask:
        return And(self, other) if isinstance(other, Mask) else NotImplemented

    def __or__(self, other: Mask) -> Mask:
        return Or(self, other) if isinstance(other, Mask) else NotImplemented

    def __invert__(self) -> Mask:
        return self.of if isinstance(self, Not) else Not(self)

    def __bool__(self) -> bool:
        raise TypeError(f"combine masks with &, | and ~, not with and, or, not: {self}")

    def __str__(self) -> str:
        return f"{type(self).__name__}(…)"

    def __repr__(self) -> str:
        return str(self)

    def grids(self) -> set[tuple[int, int]]:
        """The sizes of the grids it speaks of, if it speaks of any."""
        return set()

    @staticmethod
    def parse(expression: str) -> Mask:
        """The mask an expression such as `causal & (window(64) | sinks(4))` describes."""
        from regard.attention.parse import parse

        return parse(expression)

    @property
    def implies_causal(self) -> bool:
        """Whether no query can read a key after itself."""
        least, greatest = self.offsets
        return least >= 0 or least > greatest  # the latter reads nothing at all

    @property
    def reach(self) -> float | int:
        """How many positions back the mask can read; infinite when there is no bound."""
        return max(self.offsets.greatest, 0)

    def needs(self, k_pos: Positions, since: int | Tensor) -> Bool[Tensor, "*b m"]:
        """Which keys some query at position `since` or later may still read."""
        k = locate(k_pos)
        some = self.cover(Span(since, FAR), Span(k, k)).some
        return torch.as_tensor(some, device=k.device) & (k >= 0)

    def on(self, q_pos: range, k_pos: range) -> Mask | bool:
        """The simplest mask that reads the same between two ranges: True all, False nothing."""
        if q_pos.start >= q_pos.stop or k_pos.start >= k_pos.stop:
            return True
        some, every = self.cover(
            Span(q_pos.start, q_pos.stop - 1), Span(k_pos.start, k_pos.stop - 1)
        )
        return True if every else self if some else False

    def tiles(
        self, q_pos: range, k_pos: range, size: int = 128, device: torch.device | None = None
    ) -> Cover:
        """The block structure: for each `size` × `size` tile, is some of it read, or all of it."""
        rows, columns = _spans(q_pos, size, device), _spans(k_pos, size, device)
        some, every = self.cover(
            Span(*(edge[:, None] for edge in rows)), Span(*(edge[None, :] for edge in columns))
        )
        shape = (len(rows.first), len(columns.first))
        return Cover(*(torch.as_tensor(x).expand(shape).clone() for x in (some, every)))

    def density(self, n: int, m: int | None = None) -> float:
        """The share of the n × m map that may be read, counted without holding the map."""
        m = n if m is None else m
        if n * m == 0:
            return 0.0
        rows = max(1, (1 << 22) // m)
        read = sum(
            int(self(range(start, min(start + rows, n)), range(m)).sum())
            for start in range(0, n, rows)
        )
        return read / (n * m)

    def picture(self, n: int, m: int | None = None) -> str:
        """The map as text: a row for each query, █ where it may read."""
        dense = self(range(n), range(n if m is None else m))
        return "\n".join("".join("█" if read else "·" for read in row) for row in dense.tolist())


@dataclass(frozen=True, repr=False)
class Joined(Mask):
    """Two masks joined by an operator, which is also how their answers join."""

    left: Mask
    right: Mask

    def join(self, left: Any, right: Any) -> Any:
        raise NotImplementedError

    def reads(self, q: Any, k: Any) -> Any:
        return self.join(self.left.reads(q, k), self.right.reads(q, k))

    def cover(self, q: Span, k: Span) -> Cover:
        return Cover(*map(self.join, self.left.cover(q, k), self.right.cover(q, k)))

    def tiles(
        self, q_pos: range, k_pos: range, size: int = 128, device: torch.device | None = None
    ) -> Cover:
        left, right = (side.tiles(q_pos, k_pos, size, device) for side in (self.left, self.right))
        return Cover(*map(self.join, left, right))

    @property
    def relative(self) -> bool:
        return self.left.relative and self.right.relative

    def at(self, grid: tuple[int, int]) -> Mask:
        return type(self)(self.left.at(grid), self.right.at(grid))

    def grids(self) -> set[tuple[int, int]]:
        return self.left.grids() | self.right.grids()


@dataclass(frozen=True, repr=False)
class And(Joined):
    """What both masks read."""

    def join(self, left: Any, right: Any) -> Any:
        return left & right

    @property
    def offsets(self) -> Offsets:
        return _meet(self.left.offsets, self.right.offsets)

    def on(self, q_pos: range, k_pos: range) -> Mask | bool:
        left, right = self.left.on(q_pos, k_pos), self.right.on(q_pos, k_pos)
        if left is False or right is False:
            return False
        if left is True or right is True:
            return left if right is True else right
        return left & right

    def __str__(self) -> str:
        return f"{_wrap(self.left, Or)} & {_wrap(self.right, Or, And)}"


@dataclass(frozen=True, repr=False)
class Or(Joined):
    """What either mask reads."""

    def join(self, left: Any, right: Any) -> Any:
        return left | right

    @property
    def offsets(self) -> Offsets:
        return _hull(self.left.offsets, self.right.offsets)

    def on(self, q_pos: range, k_pos: range) -> Mask | bool:
        left, right = self.left.on(q_pos, k_pos), self.right.on(q_pos, k_pos)
        if left is True or right is True:
            return True
        if left is False or right is False:
            return left if right is False else right
        return left | right

    def __str__(self) -> str:
        return f"{self.left} | {_wrap(self.right, Or)}"


@dataclass(frozen=True, repr=False)
class Not(Mask):
    """What the mask does not read, among keys that are somewhere."""

    of: Mask

    def reads(self, q: Any, k: Any) -> Any:
        return ~self.of.reads(q, k)

    def cover(self, q: Span, k: Span) -> Cover:
        some, every = self.of.cover(q, k)
        return Cover(negate(every), negate(some))

    def tiles(
        self, q_pos: range, k_pos: range, size: int = 128, device: torch.device | None = None
    ) -> Cover:
        some, every = self.of.tiles(q_pos, k_pos, size, device)
        return Cover(~every, ~some)

    @property
    def relative(self) -> bool:
        return self.of.relative

    def at(self, grid: tuple[int, int]) -> Mask:
        return ~self.of.at(grid)

    def grids(self) -> set[tuple[int, int]]:
        return self.of.grids()

    @property
    def offsets(self) -> Offsets:
        # De Morgan, so that ~(~causal | x) is known to be causal.
        if isinstance(self.of, And):
            return _hull((~self.of.left).offsets, (~self.of.right).offsets)
        if isinstance(self.of, Or):
            return _meet((~self.of.left).offsets, (~self.of.right).offsets)
        return Offsets(-math.inf, -1) if isinstance(self.of, Causal) else ANYWHERE

    def on(self, q_pos: range, k_pos: range) -> Mask | bool:
        inner = self.of.on(q_pos, k_pos)
        return not inner if isinstance(inner, bool) else ~inner

    def __str__(self) -> str:
        return f"~{_wrap(self.of, Or, And)}"


@dataclass(frozen=True, repr=False)
class Causal(Mask):
    """Nothing after the query: k ≤ q. It stands here because the algebra reasons about it."""

    relative = True

    def reads(self, q: Any, k: Any) -> Any:
        return k <= q

    def cover(self, q: Span, k: Span) -> Cover:
        return Cover(k.first <= q.last, k.last <= q.first)

    @property
    def offsets(self) -> Offsets:
        return Offsets(0, math.inf)

    def __str__(self) -> str:
        return "causal"


def negate(claim: Any) -> Any:
    """Not, for one answer or a tensor of them."""
    return ~claim if isinstance(claim, Tensor) else not claim


def _wrap(mask: Mask, *looser: type[Mask]) -> str:
    return f"({mask})" if isinstance(mask, looser) else str(mask)


def _meet(a: Offsets, b: Offsets) -> Offsets:
    return Offsets(max(a.least, b.least), min(a.greatest, b.greatest))


def _hull(a: Offsets, b: Offsets) -> Offsets:
    if a.least > a.greatest:  # a reads nothing
        return b
    if b.least > b.greatest:
        return a
    return Offsets(min(a.least, b.least), max(a.greatest, b.greatest))


def _spans(positions: range, size: int, device: torch.device | None) -> Span:
    """Consecutive blocks of `size` positions, the last one perhaps shorter."""
    first = torch.arange(positions.start, positions.stop, size, device=device)
    return Span(first, (first + size - 1).clamp(max=positions.stop - 1))
