"""Sums over the keys up to each query's own: in chunks of plain torch, or by a kernel.

    numerators, normalisers = causal_sums(q, k, v)      # of features φ(q), φ(k)
    read = causal_read(q, k, v, like=v)                 # one over the other, the fastest way

Every way computes the same, and the chunks are the plain twin of the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.kernels.dtype import widen
from regard.attention.kernels.second_order import gradients, refuse_second, transforming
from regard.attention.kernels.sums import Pair, divide

CHUNK = 128  # tokens whose weights are written out: of 32, 64 and 128 the fastest on a CPU
IN_CHUNKS = f"chunks of {CHUNK} in plain torch"
ROOM = 1 << 19  # numbers of q that are worked on at once on a CPU, so that they stay in its caches


def causal_read(q: Tensor, k: Tensor, v: Tensor, *, like: Tensor) -> Tensor:
    """What each query reads of the keys up to its own, by the fastest way there is.

    `like` is v as it came: a kernel works in its type, and sums in float32.
    """
    return way_to_sum(like, like, q.shape[-1]).read(q, k, v, like.dtype)


def causal_sums(
    q: Float[Tensor, "*b n f"],
    k: Float[Tensor, "*g n f"],
    v: Float[Tensor, "*g n e"],
    chunk: int = CHUNK,
) -> tuple[Float[Tensor, "*b n e"], Float[Tensor, "*b n"]]:
    """Σ_{j ≤ i} (qᵢ·kⱼ) vⱼ and Σ_{j ≤ i} qᵢ·kⱼ of features, in float32 at least.

    Tokens are cut into chunks of about `chunk`. Each chunk reads the sums before it, and itself
    token by token: so the running sum is over chunks, never over all tokens.
    """
    q, k, v = widen(q), widen(k), widen(v)
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:
        share = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(share, -3), v.repeat_interleave(share, -3)
    lead, n = q.shape[:-2], q.shape[-2]
    if not n or not math.prod(lead):
        return q @ (k.mT @ v), q.sum(-1)
    chunk = -(-n // -(-n // chunk))  # as many chunks, of equal size
    q, k, v = (x.reshape(-1, n, x.shape[-1]).contiguous() for x in (q, k, v))
    if n % chunk:  # torch copies even where there is nothing to add
        q, k, v = (pad(x, (0, 0, 0, -n % chunk)) for x in (q, k, v))
    if transforming():
        read, total = written_out(q, k, v, chunk=chunk)
    else:
        read, total = CausalSums.apply(q, k, v, chunk)  # type: ignore[no-untyped-call]
    return read[:, :n].reshape(*lead, n, -1), total[:, :n].reshape(*lead, n)


class CausalSums(torch.autograd.Function):
    """The chunks of `causal_sums`, and of its gradients, which are sums of the same kind.

    With g and γ the gradients of query i's numerator and normaliser,
    ∂qᵢ = Σ_{j ≤ i} (gᵢ·vⱼ + γᵢ) kⱼ, ∂kⱼ = Σ_{i ≥ j} (gᵢ·vⱼ + γᵢ) qᵢ and ∂vⱼ = Σ_{i ≥ j} (qᵢ·kⱼ) gᵢ.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, chunk: int) -> Pair:
        ctx.save_for_backward(q, k, v)
        ctx.chunk = chunk
        read, total = torch.empty_like(v), q.new_empty(*q.shape[:-1], 1)
        for part in in_parts(q, k, v, read, total):
            earlier = partial(sums_before, chunks=part[0].shape[1] // chunk)
            q, k, v, out, sum_out = (cut(x, chunk) for x in part)
            weights = (q @ k.mT).tril_()
            torch.bmm(weights, v, out=out).baddbmm_(q, earlier(k.mT @ v))
            torch.sum(weights, -1, True, out=sum_out)
            sum_out.baddbmm_(q, earlier(k.sum(-2, keepdim=True)).mT)
        return read, total.squeeze(-1)

    @staticmethod
    def backward(ctx: Any, g: Tensor, total_g: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        kernel = partial(sums_back, q, k, v, g, total_g, ctx.chunk)
        twin, wanted = partial(written_out, chunk=ctx.chunk), ctx.needs_input_grad[:3]
        return *gradients(kernel, twin, (q, k, v), (g, total_g), wanted), None


def sums_back(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, total_g: Tensor, chunk: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v from those of numerators and normalisers."""
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    for part in in_parts(q, k, v, g.contiguous(), total_g.unsqueeze(-1), dq, dk, dv):
        chunks = part[0].shape[1] // chunk
        earlier = partial(sums_before, chunks=chunks)
        later = partial(sums_after, chunks=chunks)
        q, k, v, g, total_g, to_q, to_k, to_v = (cut(x, chunk) for x in part)

        slopes = torch.baddbmm(total_g, g, v.mT).tril_()
        torch.bmm(slopes, k, out=to_q).baddbmm_(g, earlier(v.mT @ k))
        to_q.baddbmm_(total_g, earlier(k.sum(-2, keepdim=True)))
        ahead = later(q.mT @ g)
        torch.bmm(slopes.mT, q, out=to_k).baddbmm_(v, ahead.mT).add_(later(total_g.mT @ q))
        weights = (q @ k.mT).tril_()
        torch.bmm(weights.mT, g, out=to_v).baddbmm_(k, ahead)
    return dq, dk, dv


def written_out(q: Tensor, k: Tensor, v: Tensor, *, chunk: int) -> Pair:
    """The plain twin of `CausalSums`: the same chunks, nothing written over."""
    read_shape, total_shape = (*q.shape[:-1], v.shape[-1]), q.shape[:-1]
    earlier = partial(sums_before, chunks=q.shape[1] // chunk)
    q, k, v = (x.reshape(-1, chunk, x.shape[-1]) for x in (q, k, v))
    weights = (q @ k.mT).tril()
    read = weights @ v + q @ earlier(k.mT @ v)
    total = weights.sum(-1) + (q @ earlier(k.sum(-2, keepdim=True)).mT).squeeze(-1)
    return read.reshape(read_shape), total.reshape(total_shape)


def in_parts(*tensors: Float[Tensor, "b n _"]) -> Any:
    """Some rows of all tensors at a time: few on a CPU, for its caches, and many on a GPU."""
    _, n, width = tensors[0].shape
    room = ROOM if tensors[0].device.type == "cpu" else ROOM << 8
    step = max(1, room // (n * width))
    return zip(*(x.split(step) for x in tensors), strict=True)


def cut(x: Float[Tensor, "b n c"], chunk: int) -> Float[Tensor, "a chunk c"]:
    return x.view(-1, chunk, x.shape[-1])


def sums_before(x: Float[Tensor, "a f e"], chunks: int) -> Float[Tensor, "a f e"]:
    """For each chunk of a sequence, the sum over those before it."""
    x = x.unflatten(0, (-1, chunks))
    return pad(x[:, :-1].cumsum(1), (0, 0, 0, 0, 1, 0)).flatten(0, 1)


def sums_after(x: Float[Tensor, "a f e"], chunks: int) -> Float[Tensor, "a f e"]:
    """For each chunk of a sequence, the sum over those after it."""
    x = x.unflatten(0, (-1, chunks)).flip(1)
    return pad(x[:, :-1].cumsum(1), (0, 0, 0, 0, 1, 0)).flip(1).flatten(0, 1)


class Way(NamedTuple):
    """One of the implementations of causal sums, in words, and its read."""

    words: str
    read: Callable[[Tensor, Tensor, Tensor, torch.dtype], Tensor]


def way_to_sum(q: Tensor, v: Tensor, features: int | None = None) -> Way:
    """The fastest implementation of the causal form for such tensors."""
    kernels = q.is_cuda and not torch.compiler.is_compiling() and not transforming()
    widest = max(v.shape[-1], features or 0)
    if kernels and v.dtype != torch.float64 and widest <= 256 and find_spec("triton") is not None:
        return Way("our Triton kernel", _read_by_kernel)
    # Second: it leaves the sums below the fraction to a cumulative sum over all tokens, and at
    # 16,384 of them on an H200 reads in eight times the time of our kernel.
    if kernels and v.dtype in (torch.float16, torch.bfloat16) and find_spec("fla") is not None:
        return Way("flash-linear-attention", _read_by_fla)
    return Way(IN_CHUNKS, _read_in_chunks)


def _read_in_chunks(q: Tensor, k: Tensor, v: Tensor, kind: torch.dtype) -> Tensor:
    return divide(*causal_sums(q, k, v))


def _read_by_kernel(q: Tensor, k: Tensor, v: Tensor, kind: torch.dtype) -> Tensor:
    from regard.attention.kernels.linear_triton import causal_read as read

    shape = (*q.shape[:-1], v.shape[-1])
    # Small features have large gradients, which float16 cannot hold: those stay wide.
    of_features = torch.float32 if kind == torch.float16 else kind
    q, k, v = (x if x.ndim > 2 else x[None] for x in (q, k, v))
    return read(q.to(of_features), k.to(of_features), v.to(kind)).reshape(shape)


def _read_by_fla(q: Tensor, k: Tensor, v: Tensor, kind: torch.dtype) -> Tensor:
    from fla.ops.linear_attn import chunk_linear_attn  # type: ignore[import-not-found]

    shape = (*q.shape[:-1], v.shape[-1])
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:
        share = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(share, -3), v.repeat_interleave(share, -3)
    q, k, v = (x.reshape(1, -1, *x.shape[-2:]).transpose(1, 2) for x in (q, k, v))  # 1 n (b h) f
    read, _ = chunk_linear_attn(q.to(kind), k.to(kind), v.to(kind), scale=1.0, normalize=False)
    read = refuse_second(read, "flash-linear-attention")
    # Of k alone, so the running sum over tokens costs little.
    total = (widen(q) * widen(k).cumsum(1)).sum(-1)
    return divide(widen(read), total).transpose(1, 2).reshape(shape)
