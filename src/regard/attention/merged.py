"""Masks whose keys lie scattered, read part by part and merged: work follows what they read.

`causal & (window(64) | strided(64))` reads few keys, but some in every tile. It is a union of two
parts, though, and each has an order of tokens in which its keys lie together: those of the window
as they come, every 64th token side by side with the next. Each part is read in its own order, with
the sum of its exponentials, and the sums say how much each part counts:

    read = Σ eˡ read_part / Σ eˡ        where l is a part's log-sum-exp

On the way back a part needs nothing but the merged read and the merged sum, which is all that the
gradient of softmax knows of the other keys (as in ring attention, Liu et al. 2023). No key is in
two parts, and no map of all tokens is ever written.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from regard.attention.algebra import And, Mask, Or
from regard.attention.call import Call
from regard.attention.masks import (
    Axial,
    Blocks,
    Dilated,
    Neighbourhood,
    RandomKeys,
    Strided,
    Summary,
)
from regard.attention.sparse import TILE

MOST_TERMS = 8  # of a union; what falls into more is left to tiles
SIDE = 8  # cells of a grid, of the squares of queries that read one square of keys around them
Scatter = Strided | Summary | RandomKeys | Neighbourhood
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


@functools.lru_cache(maxsize=8)
def arrange(mask: Mask, q_pos: range, k_pos: range) -> Arrangement | None:
    """The parts of a mask in orders of their own; None where nothing in it is scattered."""
    end = max(q_pos.stop, k_pos.stop)
    terms = list(split(mask, end)) if count(mask) <= MOST_TERMS else []
    scattered = [(term, by) for term, by in terms if by is not None]
    if not scattered or not q_pos or not k_pos:
        return None
    together = [term for term, by in terms if by is None]
    batches: list[Batch] = []
    with torch.inference_mode(False):  # an inference tensor could not serve training later
        if together:
            batches += in_tiles(functools.reduce(Or, together), q_pos, k_pos)
        earlier = together
        for term, by in scattered:
            only = functools.reduce(lambda mask, one: mask & ~one, earlier, term)
            batches += in_order(only, by, q_pos, k_pos)
            earlier = [*earlier, term]
    return Arrangement(tuple(batches), len(scattered) + bool(together))


@functools.lru_cache(maxsize=8)
def batches_on(device: torch.device, arrangement: Arrangement) -> tuple[Batch, ...]:
    """The batches of an arrangement with their rows on a device; every layer asks for them."""
    with torch.inference_mode(False):
        return tuple(batch.on(device) for batch in arrangement.batches)


def merged(call: Call, arrangement: Arrangement) -> Tensor:
    """What `plain` reads, part by part."""
    q, k, v = call.q, call.k, call.v
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:
        share = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(share, -3), v.repeat_interleave(share, -3)
    flat = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))  # (b h) n d
    batches = batches_on(q.device, arrangement)
    read: Tensor = Merged.apply(*flat, batches, call.beta)  # type: ignore[no-untyped-call]
    return read.reshape(*call.q.shape[:-1], -1)


def can_merge(call: Call) -> bool:
    """Whether torch's kernel that tells its sums takes such tensors."""
    d, device = call.q.shape[-1], call.q.device.type
    wide = torch.float64 if device == "cpu" else torch.float16
    return (
        device in ("cpu", "cuda")
        and call.q.dtype in (torch.float32, torch.bfloat16, wide)
        and d == call.v.shape[-1]
        and (device == "cpu" or d % 8 == 0)
        and not torch.compiler.is_compiling()
    )


class Merged(torch.autograd.Function):
    """The parts of an arrangement, forth and back."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, batches: Sequence[Batch], beta: float
    ) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        read = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=wide, device=q.device)
        total = q.new_full(q.shape[:-1], -torch.inf, dtype=wide)  # log-sum-exp so far
        for batch in batches:
            rows = batch.q_rows.flatten()
            some, sums = read_part(gathered(q, k, v, batch), bias(batch, q), beta)
            nothing = ~batch.allowed.any(-1)
            sums = sums.masked_fill(nothing, -torch.inf).flatten(1)
            some = some.masked_fill(nothing[..., None], 0.0)  # where a kernel may write NaN
            before = total[:, rows]
            after = torch.logaddexp(before, sums)
            kept, new = ((x - after).exp().nan_to_num(0.0)[..., None] for x in (before, sums))
            mixed = read[:, rows].mul_(kept).add_(some.flatten(1, 2).to(wide).mul_(new))
            read.index_copy_(1, rows, mixed)
            total.index_copy_(1, rows, after)
        ctx.save_for_backward(q, k, v, read.to(v.dtype), total.masked_fill(total.isneginf(), 0.0))
        ctx.batches, ctx.beta = batches, beta
        return read.to(v.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, read, total = ctx.saved_tensors
        to = [in_full(torch.zeros_like(x)) for x in (q, k, v)]  # many parts are summed
        for batch in ctx.batches:
            some = gathered(q, k, v, batch)
            g_rows, read_rows = (x[:, batch.q_rows] for x in (g, read))
            back = back_through(
                g_rows, some, read_rows, total[:, batch.q_rows], bias(batch, q), ctx.beta
            )
            for sum_to, rows, part in zip(
                to, (batch.q_rows, batch.k_rows, batch.k_rows), back, strict=True
            ):
                sum_to.index_add_(1, rows.flatten(), part.flatten(1, 2).to(sum_to.dtype))
        return *(x.to(q.dtype) for x in to), None, None


OPS = torch.ops.aten
ALIGNED = 32  # rows: CUDA's kernel reads sums by as many
Parts = tuple[Tensor, Tensor, Tensor]


def read_part(qkv: Parts, bias: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """What a part reads and the logarithm of its sums, by torch's own kernels."""
    q, k, v = qkv
    n = q.shape[-2]
    if n == 1:  # as many groups as queries: a kernel for each would do little
        scores = (in_full(q) @ in_full(k).mT).mul_(beta).add_(bias)
        sums = scores.logsumexp(-1)
        return (scores - sums[..., None]).exp() @ in_full(v), sums
    if not bias.is_cuda:
        return OPS._scaled_dot_product_flash_attention_for_cpu(*qkv, attn_mask=bias, scale=beta)
    read, sums, _, _ = OPS._scaled_dot_product_efficient_attention(
        *qkv, over_all(bias, q), True, scale=beta
    )
    return read, sums[..., :n]


def back_through(
    g: Tensor, qkv: Parts, read: Tensor, sums: Tensor, bias: Tensor, beta: float
) -> Parts:
    """The gradients of a part, given what all parts read together and the sums of all."""
    q, k, v = qkv
    if q.shape[-2] == 1:
        q, k, v, g = (in_full(x) for x in (q, k, v, g))
        share = (q @ k.mT).mul_(beta).add_(bias).sub_(sums[..., None]).exp_()
        pull = (g @ v.mT).sub_((g * read).sum(-1, keepdim=True)).mul_(share).mul_(beta)
        return pull @ k, pull.mT @ q, share.mT @ g
    if not bias.is_cuda:
        return OPS._scaled_dot_product_flash_attention_for_cpu_backward(
            *(g, *qkv, read, sums, 0.0, False), attn_mask=bias, scale=beta
        )
    sums = pad(sums.float(), (0, -sums.shape[-1] % ALIGNED), value=torch.inf)
    none = torch.zeros((), dtype=torch.int64, device=g.device)  # seeds of a dropout that is not
    read = read.transpose(1, 2).contiguous().transpose(1, 2)  # groups beside one another, or …
    out = OPS._scaled_dot_product_efficient_attention_backward(
        *(g, *qkv, over_all(bias, q), read, sums, none, none, 0.0),  # … it reads the wrong rows
        *([True, True, True, False], False),
        scale=beta,
    )
    return out[0], out[1], out[2]


def in_full(x: Tensor) -> Tensor:
    """At least in float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def over_all(bias: Tensor, q: Tensor) -> Tensor:
    """A bias for every sequence and group, its rows as far apart in memory as the kernel wants."""
    m = bias.shape[-1]
    return pad(bias, (0, -m % 8))[..., :m].expand(*q.shape[:-1], m)


def gathered(q: Tensor, k: Tensor, v: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """(b h) groups queries d, and the keys and values of each group."""
    return q[:, batch.q_rows], k[:, batch.k_rows], v[:, batch.k_rows]


def bias(batch: Batch, like: Tensor) -> Tensor:
    """What the kernel adds to the scores: −∞ where nothing may be read."""
    return like.new_zeros(batch.allowed.shape)[None].masked_fill(~batch.allowed, -torch.inf)


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
    elif isinstance(mask, Neighbourhood) and end <= mask.grid[0] * mask.grid[1]:
        yield mask, mask
    else:
        yield mask, mask if isinstance(mask, (Strided, Summary, RandomKeys)) else None


def fewest(a: Scatter | None, b: Scatter | None) -> Scatter | None:
    """Of two that scatter keys, the one that leaves fewer to a query."""

    def share(one: Scatter | None) -> float:
        match one:
            case Strided(step):
                return 1 / step
            case Summary(size, c):
                return c / size
            case RandomKeys(count, among):
                return count / among
            case Neighbourhood(r, (height, width)):
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
        case Summary(size, c):  # few keys, the same for all queries: TILE of these at a time
            k_rows = k_all[(k_all + k_pos.start) % size >= size - c]
            whole = len(q_pos) // TILE * TILE
            for rows in (q_all[:whole].view(-1, TILE), q_all[None, whole:]):
                if rows.numel() and len(k_rows):
                    groups = [(one, k_rows) for one in rows]
                    yield batch_of(mask, groups, q_pos, k_pos)
        case Neighbourhood():
            yield from in_squares(mask, by, q_pos, k_pos)
        case RandomKeys():  # each query has keys of its own
            drawn = by.drawn(q_all + q_pos.start) - k_pos.start
            inside = (drawn >= 0) & (drawn < len(k_pos))
            k_rows = drawn.clamp(0, len(k_pos) - 1)
            allowed = mask((q_all + q_pos.start)[:, None], k_rows + k_pos.start)
            yield Batch(q_all[:, None], k_rows, allowed & inside[:, None])


def in_squares(mask: Mask, by: Neighbourhood, q_pos: range, k_pos: range) -> Iterator[Batch]:
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
