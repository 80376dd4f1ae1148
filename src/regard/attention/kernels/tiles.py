"""Masks at the cost of what they read: tile by tile on a CPU, by FlexAttention on a GPU.

A mask says of whole squares of positions whether any pair in them may be read (`Mask.tiles`). What
no pair may read is never computed, and no map of all tokens is ever written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.algebra import Mask
from regard.attention.call import Call, written
from regard.attention.kernels.sdpa import dense, four_axes
from regard.attention.kernels.second_order import untransformed

if TYPE_CHECKING:  # importing it costs a second, which only its callers should pay
    from torch.nn.attention.flex_attention import BlockMask

TILE = 128  # side of the squares a mask is asked about
TILED_FROM = 512  # tokens from which many small calls beat one dense mask (measured on a CPU)
BUNDLED_UPTO = 8  # tiles of keys a strip may read to be bundled: each gets copies of them
FLEX_FROM = 2048  # tokens from which FlexAttention beats one dense mask on an H200 (measured)
DENSE_UPTO = 1 << 22  # entries of a mask; more than these are never written out at once


def tiled(call: Call) -> Tensor:
    """A block of queries at a time against the keys it may read, so work follows the mask.

    Neighbouring blocks that read equally many keys, as all of a sliding window do, are bundled
    into one call: hundreds of short ones would wait for one another more than they work.
    """
    assert isinstance(call.q_pos, range) and isinstance(call.k_pos, range)
    mask = call.mask
    assert isinstance(mask, Mask)
    where, device = (call.q_pos, call.k_pos), call.q.device
    strips, bundles = _strips(mask, *where), _bundles(mask, *where, TILE)
    alone = sum(len(bundle.rows) == 1 for bundle in bundles)
    k, v = _Tiles(call.k, alone), _Tiles(call.v, alone)
    heights = [sum(_length(strips[row][0]) for row in bundle.rows) for bundle in bundles]
    reads = []
    for bundle, q in zip(bundles, call.q.split(heights, -2), strict=True):
        if len(bundle.rows) > 1:
            reads.append(_read_bundle(call, bundle, q))
            continue
        rows, columns = strips[bundle.rows.start]
        allowed = _written_strip(mask, call.q_pos[rows], [call.k_pos[at] for at in columns], device)
        strip = Call(q, k.take(columns), v.take(columns), allowed, None, None, None, call.beta)
        reads.append(dense(strip))
    return _join(reads, -2)


def _read_bundle(call: Call, bundle: _Bundle, q: Tensor) -> Tensor:
    """Strips as the heads of one call, each with its own copy of the tiles it reads."""
    assert isinstance(call.mask, Mask)
    assert isinstance(call.q_pos, range) and isinstance(call.k_pos, range)
    n, share = len(bundle.rows), (q.shape[-3] // call.k.shape[-3] if q.ndim > 2 else 1)
    tiles = torch.tensor(bundle.columns, device=q.device).flatten()

    def gather(x: Tensor) -> Tensor:
        whole = x.shape[-2] // TILE
        x = x[..., : whole * TILE, :].reshape(-1, whole, TILE * x.shape[-1])
        x = x.index_select(1, tiles).view(len(x), n, -1, x.shape[-1] // TILE)
        return x.repeat_interleave(share, 0) if share > 1 else x

    where = (call.q_pos, call.k_pos)
    if call.mask.relative:  # all strips see the same
        (first, columns), device = _strips(call.mask, *where)[bundle.rows.start], q.device
        spans = [call.k_pos[at] for at in columns]
        allowed = _written_strip(call.mask, call.q_pos[first], spans, device)
    else:
        allowed = _written_bundle(call.mask, *where, bundle, TILE, q.device)
    strips = q.reshape(-1, n, TILE, q.shape[-1])
    read = dense(Call(strips, gather(call.k), gather(call.v), allowed, None, None, None, call.beta))
    return read.reshape(*q.shape[:-1], -1)


class _Tiles:
    """Runs of keys or values for one strip after another.

    A slice is free on the way forward, but on the way back each one costs a whole tensor of
    zeros. Where strips are short beside the whole, tiles cut once and joined again are cheaper.
    """

    def __init__(self, x: Tensor, strips: int) -> None:
        self.x = x
        cut = x.requires_grad and torch.is_grad_enabled() and strips > 8
        self.tiles = x.split(TILE, -2) if cut else None

    def take(self, columns: Sequence[slice]) -> Tensor:
        if self.tiles is None or sum(at.stop - at.start for at in columns) > self.x.shape[-2] // 2:
            return _join([self.x[..., at, :] for at in columns], -2)
        runs = [range(at.start // TILE, -(-at.stop // TILE)) for at in columns]
        return _join([self.tiles[tile] for run in runs for tile in run], -2)


def _written_strip(
    mask: Mask, q_pos: range, spans: Sequence[range], device: torch.device
) -> Tensor:
    return _join([written(mask, q_pos, span, device) for span in spans], -1)


def _length(span: slice) -> int:
    length: int = span.stop - span.start
    return length


def _join(parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


@functools.lru_cache(maxsize=256)
@untransformed
def share_read(mask: Mask, q_pos: range, k_pos: range) -> float:
    """The share of the map that lies in strips the mask reads."""
    some = mask.tiles(q_pos, k_pos, TILE).some.double()
    some[~some.any(-1), 0] = 1  # a block of blind queries still needs keys
    heights, widths = (_sides(len(positions)) for positions in (q_pos, k_pos))
    return float(heights @ some @ widths) / (len(q_pos) * len(k_pos))


def _sides(n: int) -> Tensor:
    """How long each tile along n positions is; the last may be cut short."""
    return (n - torch.arange(0, n, TILE, dtype=torch.float64)).clamp(max=TILE)


@functools.lru_cache(maxsize=256)
@untransformed
def _strips(mask: Mask, q_pos: range, k_pos: range) -> Sequence[tuple[slice, Sequence[slice]]]:
    """For each block of queries, the runs of keys that some of them may read."""
    strips = []
    for row, some in enumerate(mask.tiles(q_pos, k_pos, TILE).some.tolist()):
        rows = slice(row * TILE, min((row + 1) * TILE, len(q_pos)))
        starts = [at for at in range(len(some)) if at == 0 or some[at] != some[at - 1]]
        runs = [
            slice(start * TILE, min(stop * TILE, len(k_pos)))
            for start, stop in pairwise([*starts, len(some)])
            if some[start]
        ]
        first = slice(0, min(TILE, len(k_pos)))  # a block of blind queries still needs keys
        strips.append((rows, tuple(runs) or (first,)))
    return tuple(strips)


class _Bundle(NamedTuple):
    """Consecutive strips, and for each the tiles of keys it reads, equally many for all."""

    rows: range
    columns: tuple[tuple[int, ...], ...]


@functools.lru_cache(maxsize=256)
def _bundles(mask: Mask, q_pos: range, k_pos: range, tile: int) -> Sequence[_Bundle]:
    """The strips again, those that can be read together in one; what is cut short stays alone."""
    strips = _strips(mask, q_pos, k_pos)
    tiles = [
        tuple(at for run in columns for at in range(run.start // tile, -(-run.stop // tile)))
        for _, columns in strips
    ]

    def alike(row: int) -> Hashable:
        rows, columns = strips[row]
        cut_short = _length(rows) < tile or columns[-1].stop % tile
        if cut_short or len(tiles[row]) > BUNDLED_UPTO:
            return ("alone", row)
        return tuple(at - row for at in tiles[row]) if mask.relative else len(tiles[row])

    bundles = []
    for _, group in groupby(range(len(strips)), alike):
        rows = list(group)
        most = len(rows)
        if not mask.relative:  # each strip has a mask of its own, and these are written out
            most = max(1, DENSE_UPTO // (tile**2 * len(tiles[rows[0]])))
        for first in range(rows[0], rows[-1] + 1, most):
            some = range(first, min(first + most, rows[-1] + 1))
            bundles.append(_Bundle(some, tuple(tiles[row] for row in some)))
    return tuple(bundles)


@functools.lru_cache(maxsize=8)
@untransformed
def _written_bundle(
    mask: Mask, q_pos: range, k_pos: range, bundle: _Bundle, tile: int, device: torch.device
) -> Tensor:
    """The masks of a bundle's strips; every layer of a model asks for the same ones."""
    within = torch.arange(tile, device=device)
    rows = torch.tensor(bundle.rows, device=device)
    columns = torch.tensor(bundle.columns, device=device)
    q = q_pos.start + rows[:, None] * tile + within
    k = k_pos.start + (columns[..., None] * tile + within).flatten(1)
    return mask(q, k)[None]  # four axes, which the fast kernel on a CPU insists on


def flex(call: Call) -> Tensor:
    """FlexAttention over the tiles that the mask reads."""
    from torch.nn.attention.flex_attention import flex_attention

    assert isinstance(call.q_pos, range) and isinstance(call.k_pos, range)
    assert isinstance(call.mask, Mask)
    q, k, v = four_axes(call.q), four_axes(call.k), four_axes(call.v)
    grouped, where = q.shape[1] != k.shape[1], (call.q_pos, call.k_pos, call.q.device)
    if torch.compiler.is_compiling():  # the caller's graph takes both in
        block_mask = _make_block_mask(call.mask, *where, call.q_pos.start, call.k_pos.start)
        read = flex_attention(q, k, v, None, block_mask, call.beta, grouped)
    else:
        with _many_kernels():
            block_mask = _block_mask(call.mask, *where)
            read = _compiled_flex()(q, k, v, None, block_mask, call.beta, grouped)
    assert isinstance(read, Tensor)
    return read.reshape(*call.q.shape[:-1], call.v.shape[-1])


def flex_fits(call: Call) -> bool:
    """Whether FlexAttention takes these widths and its launch is small beside the work."""
    d, entries = call.q.shape[-1], call.q.shape[-2] * call.k.shape[-2]
    least = TILED_FROM if torch.compiler.is_compiling() else FLEX_FROM
    return entries >= least**2 and d == call.v.shape[-1] and d >= 16 and d & (d - 1) == 0


@functools.lru_cache(maxsize=64)
def _block_mask(mask: Mask, q_pos: range, k_pos: range, device: torch.device) -> BlockMask:
    if q_pos.start == k_pos.start == 0:  # as in training: nothing to add, and nothing to look up
        return _make_block_mask(mask, q_pos, k_pos, device, 0, 0)
    # Offsets as tensors, so that a cache moving on does not compile the kernel anew.
    starts = torch.tensor([q_pos.start, k_pos.start], device=device, dtype=torch.int32)
    return _make_block_mask(mask, q_pos, k_pos, device, *starts.unbind())


def _make_block_mask(
    mask: Mask,
    q_pos: range,
    k_pos: range,
    device: torch.device,
    q_start: Tensor | int,
    k_start: Tensor | int,
) -> BlockMask:
    from torch.nn.attention.flex_attention import BlockMask

    shifted = not (isinstance(q_start, int) and q_start == k_start == 0)

    def reads(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return mask.reads(q + q_start, k + k_start) if shifted else mask.reads(q, k)

    some, every = mask.tiles(q_pos, k_pos, TILE, device)
    # The last row and column may be cut short: leave their edge to the predicate.
    if len(k_pos) % TILE:
        every[:, -1] = False
    if len(q_pos) % TILE:
        every[-1, :] = False
    partial, full = _ragged(some & ~every), _ragged(every)
    return BlockMask.from_kv_blocks(
        *partial, *full, BLOCK_SIZE=TILE, mask_mod=reads, seq_lengths=(len(q_pos), len(k_pos))
    )


def _ragged(tiles: Tensor) -> tuple[Tensor, Tensor]:
    """How many tiles each row has, and which, the present ones first."""
    count = tiles.sum(-1, dtype=torch.int32)
    order = tiles.int().argsort(dim=-1, descending=True, stable=True).int()
    return count[None, None], order[None, None]


@contextmanager
def _many_kernels() -> Iterator[None]:
    """Let torch compile a kernel for each mask, dtype and shape: its limit of 8 is too low.

    Set by hand, for `config.patch` takes 27 µs, which is much beside a kernel of a few hundred.
    """
    settings = torch._dynamo.config
    before = settings.recompile_limit
    settings.recompile_limit = max(before, 128)
    try:
        yield
    finally:
        settings.recompile_limit = before


@functools.cache
def _compiled_flex() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)
