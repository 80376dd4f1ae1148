"""Attention window by window: the tokens of each window put side by side, read, and put back.

Where a mask is windows alone, every window is a small attention of its own, so all windows of one
size are one call with a longer batch. No map of all tokens exists anywhere, and the work grows
with the number of tokens times the size of a window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.algebra import And, Causal, Mask
from regard.attention.call import Call
from regard.attention.masks import Blocks, GridWindows

MOST = 1 << 15  # windows in one call: kernels on a GPU count theirs in 16 bits


@dataclass(frozen=True)
class Pieces:
    """A side of a grid cut along its length: one short piece, equal ones, another short one."""

    before: int
    size: int
    count: int
    after: int

    @classmethod
    def cut(cls, length: int, size: int, first: int) -> Pieces:
        """Pieces of `size` from `first` on, and what is left over at either end."""
        before = min(first, length)
        count, after = divmod(length - before, size)
        return cls(before, size, count, after)

    @property
    def lengths(self) -> list[int]:
        return [self.before, self.size * self.count, self.after]

    @property
    def sizes(self) -> list[int]:
        """The size of the pieces within each of the lengths."""
        return [self.before, self.size, self.after]

    @property
    def number(self) -> int:
        return (self.before > 0) + self.count + (self.after > 0)


@dataclass(frozen=True)
class Cut:
    """A grid of tokens cut into windows; a sequence is a grid of one row."""

    rows: Pieces
    columns: Pieces
    causal: bool

    def __str__(self) -> str:
        height, width = sum(self.rows.lengths), sum(self.columns.lengths)
        of = f"{width}" if height == 1 else f"{height} × {width}"
        size = self.columns.size if height == 1 else f"{self.rows.size} × {self.columns.size}"
        windows = self.rows.number * self.columns.number
        small = windows - self.rows.count * self.columns.count
        cut = f", {small} of them smaller" if small else ""
        return f"{of} tokens in {windows} windows of {size}{cut}"


def cut(mask: Mask, q_pos: range, k_pos: range) -> Cut | None:
    """How the mask cuts all tokens into windows that read themselves, if that is all it does."""
    if q_pos.start != k_pos.start or q_pos.stop != k_pos.stop:
        return None
    causal = False
    if isinstance(mask, And) and (isinstance(mask.left, Causal) or isinstance(mask.right, Causal)):
        mask, causal = mask.right if isinstance(mask.left, Causal) else mask.left, True
    if isinstance(mask, Blocks):
        n = q_pos.stop - q_pos.start
        row = Pieces(0, 1, 1, 0)
        return Cut(row, Pieces.cut(n, mask.size, -q_pos.start % mask.size), causal)
    if isinstance(mask, GridWindows):
        height, width = mask.grid
        if q_pos.start == 0 and q_pos.stop == height * width:
            rows, columns = (Pieces.cut(side, mask.size, mask.shift) for side in mask.grid)
            return Cut(rows, columns, causal)
    return None


def windowed(call: Call, where: Cut, read: Callable[[Call], Tensor]) -> Tensor:
    """What `read` reads in each window; it is given windows as a batch, without a mask.

    Tokens keep their order within a window, so that reading nothing ahead there is the same as
    reading nothing ahead in the whole grid.
    """
    rows, columns = where.rows, where.columns
    height, width = sum(rows.lengths), sum(columns.lengths)
    grids = [
        x.reshape(-1, x.shape[-3] if x.ndim > 2 else 1, height, width, x.shape[-1])
        for x in (call.q, call.k, call.v)
    ]
    bands = []
    # Splits, not slices: on the way back they join again, and no zeros are added up.
    for *band, tall in zip(*(x.split(rows.lengths, 2) for x in grids), rows.sizes, strict=True):
        strips = [x.split(columns.lengths, 3) for x in band]
        reads = [
            _read(call, parts, (tall, wide), read)
            for *parts, wide in zip(*strips, columns.sizes, strict=True)
            if parts[0].shape[2] and parts[0].shape[3]
        ]
        bands += [_join(reads, 3)] if reads else []
    return _join(bands, 2).reshape(*call.q.shape[:-1], call.v.shape[-1])


def _read(
    call: Call, parts: list[Tensor], size: tuple[int, int], read: Callable[[Call], Tensor]
) -> Tensor:
    """A rectangle of the grid, (b h rows columns d), which windows of one size fill."""
    b, h, height, width, _ = parts[0].shape
    tall, wide = size
    down, across = height // tall, width // wide
    q, k, v = (
        x.reshape(b, x.shape[1], down, tall, across, wide, x.shape[-1])
        .permute(0, 2, 4, 1, 3, 5, 6)
        .reshape(b * down * across, x.shape[1], tall * wide, x.shape[-1])
        for x in parts
    )
    bare = replace(call, mask=None, q_pos=None, k_pos=None)
    out = _join(
        [
            read(replace(bare, q=q, k=k, v=v))
            for q, k, v in zip(q.split(MOST), k.split(MOST), v.split(MOST), strict=True)
        ],
        0,
    )
    out = out.reshape(b, down, across, h, tall, wide, v.shape[-1])
    return out.permute(0, 3, 1, 4, 2, 5, 6).reshape(b, h, height, width, v.shape[-1])


def _join(parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)
