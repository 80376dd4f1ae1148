"""Masks whose keys lie scattered, read part by part and merged: work follows what they read.

Each part of an arrangement is read by itself, with the sum of its exponentials, and the sums say
how much each part counts:

    read = Σ eˡ read_part / Σ eˡ        where l is a part's log-sum-exp

On the way back a part needs nothing but the merged read and the merged sum, which is all that the
gradient of softmax knows of the other keys (as in ring attention, Liu et al. 2023).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.call import Call
from regard.attention.kernels.dtype import narrowing_off, widen
from regard.attention.kernels.scattered import Arrangement, Batch
from regard.attention.kernels.second_order import Gradients, gradients, transforming, untransformed
from regard.attention.kernels.sums import divide

OPS = torch.ops.aten
ALIGNED = 32  # rows: CUDA's kernel reads sums by as many
COPIED = {"cpu": 1 << 24, "cuda": 1 << 28}  # numbers of keys that are gathered at once
Parts = tuple[Tensor, Tensor, Tensor]


@functools.lru_cache(maxsize=8)
@untransformed
def batches_on(device: torch.device, arrangement: Arrangement) -> tuple[Batch, ...]:
    """The batches of an arrangement with their rows on a device; every layer asks for them."""
    return tuple(batch.on(device) for batch in arrangement.batches)


def merged(call: Call, arrangement: Arrangement) -> Tensor:
    """What `plain` reads, part by part."""
    q, k, v = call.q, call.k, call.v
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:
        share = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(share, -3), v.repeat_interleave(share, -3)
    flat = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))  # (b h) n d
    batches = batches_on(q.device, arrangement)
    with narrowing_off(q.device):
        if transforming():
            read = written_out(*flat, batches=batches, beta=call.beta)
        else:
            read = Merged.apply(*flat, batches, call.beta)  # type: ignore[no-untyped-call]
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
        for batch in in_pieces(batches, k):
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
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, read, total = ctx.saved_tensors

        def kernel() -> Gradients:
            to = [widen(torch.zeros_like(x)) for x in (q, k, v)]  # many parts are summed
            for batch in in_pieces(ctx.batches, k):
                some = gathered(q, k, v, batch)
                g_rows, read_rows = (x[:, batch.q_rows] for x in (g, read))
                back = back_through(
                    g_rows, some, read_rows, total[:, batch.q_rows], bias(batch, q), ctx.beta
                )
                for sum_to, rows, part in zip(
                    to, (batch.q_rows, batch.k_rows, batch.k_rows), back, strict=True
                ):
                    sum_to.index_add_(1, rows.flatten(), part.flatten(1, 2).to(sum_to.dtype))
            return tuple(x.to(q.dtype) for x in to)

        twin = functools.partial(written_out, batches=ctx.batches, beta=ctx.beta)
        wanted = ctx.needs_input_grad[:3]
        return *gradients(kernel, twin, (q, k, v), (g,), wanted), None, None


def written_out(
    q: Tensor, k: Tensor, v: Tensor, *, batches: Sequence[Batch], beta: float
) -> Tensor:
    """The plain twin: the maps of all parts, which share what is greatest in each query's rows."""
    maps = []
    top = widen(q).detach().new_full(q.shape[:-1], -torch.inf)
    for batch in batches:
        some_q, some_k, _ = gathered(q, k, v, batch)
        scores = (widen(some_q) * beta) @ widen(some_k).mT
        maps.append(scores.masked_fill(~batch.allowed, -torch.inf))
        rows, highest = batch.q_rows.flatten(), maps[-1].detach().amax(-1).flatten(1)
        top = top.index_copy(1, rows, torch.maximum(top[:, rows], highest))
    top = top.masked_fill(top.isneginf(), 0.0)
    read = widen(q).new_zeros(*q.shape[:-1], v.shape[-1])
    total = torch.zeros_like(top)
    for batch, scores in zip(batches, maps, strict=True):
        rows = batch.q_rows.flatten()
        shares = (scores - top[:, batch.q_rows][..., None]).exp()
        some = shares @ widen(v[:, batch.k_rows])
        read = read.index_add(1, rows, some.flatten(1, 2))
        total = total.index_add(1, rows, shares.sum(-1).flatten(1))
    return divide(read, total).to(v.dtype)


def read_part(qkv: Parts, bias: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """What a part reads and the logarithm of its sums, by torch's own kernels."""
    q, k, v = qkv
    n = q.shape[-2]
    if n == 1:  # as many groups as queries: a kernel for each would do little
        scores = (widen(q) @ widen(k).mT).mul_(beta).add_(bias)
        sums = scores.logsumexp(-1)
        return (scores - sums[..., None]).exp() @ widen(v), sums
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
        q, k, v, g = (widen(x) for x in (q, k, v, g))
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


def over_all(bias: Tensor, q: Tensor) -> Tensor:
    """A bias for every sequence and group, its rows as far apart in memory as the kernel wants."""
    m = bias.shape[-1]
    return pad(bias, (0, -m % 8))[..., :m].expand(*q.shape[:-1], m)


def in_pieces(batches: Iterable[Batch], k: Tensor) -> Iterator[Batch]:
    """The same batches, in pieces whose copies of keys take no more room than is COPIED."""
    sequences, _, d = k.shape
    for batch in batches:
        groups, keys = batch.k_rows.shape
        most = COPIED[k.device.type] // (sequences * keys * d)
        yield from batch.pieces(max(1, most)) if groups > most else (batch,)


def gathered(q: Tensor, k: Tensor, v: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """(b h) groups queries d, and the keys and values of each group."""
    return q[:, batch.q_rows], k[:, batch.k_rows], v[:, batch.k_rows]


def bias(batch: Batch, like: Tensor) -> Tensor:
    """What the kernel adds to the scores: −∞ where nothing may be read."""
    return like.new_zeros(batch.allowed.shape)[None].masked_fill(~batch.allowed, -torch.inf)
