"""LayerNorm of many narrow rows, in Triton: forward in one kernel, backward in one and a sum.

A program holds a tile of whole rows. The gradients of weight and bias are sums over all rows:
each program adds up those of its tiles, in an order that does not change, and torch adds up the
programs'. So the result is the same each time.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention.kernels.second_order import gradients

NUMBERS = 4096  # in a tile
BUSY = 2  # programs for each multiprocessor, going back


def layer_norm(
    x: Float[Tensor, "*b c"],
    weight: Float[Tensor, "c"],
    bias: Float[Tensor, "c"] | None,
    eps: float,
    kind: torch.dtype,
) -> Float[Tensor, "*b c"]:
    """(x − mean) / deviation · weight + bias by row, computed in float32 and given as `kind`."""
    return Norm.apply(x.contiguous(), weight, bias, eps, kind)


class Norm(torch.autograd.Function):
    """The kernels with their gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, eps: float, kind: torch.dtype
    ) -> Tensor:
        width = x.shape[-1]
        rows = x.numel() // width
        y = torch.empty_like(x, dtype=kind)
        mean, scale = torch.empty(2, rows, device=x.device)
        tile, wide = tile_of(width)
        with torch.cuda.device_of(x):
            normalise[(triton.cdiv(rows, tile),)](
                *(x, weight, bias, y, mean, scale, rows, width, eps),
                BIASED=bias is not None,
                TILE=tile,
                WIDE=wide,
            )
        ctx.save_for_backward(x, weight, bias, mean, scale)
        ctx.norm_eps, ctx.kind = eps, kind
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, scale = ctx.saved_tensors
        inputs = (x, weight) if bias is None else (x, weight, bias)
        kernel = partial(kernel_back, dy, x, weight, mean, scale, len(inputs))
        twin = partial(plain_norm, eps=ctx.norm_eps, kind=ctx.kind)
        found = gradients(kernel, twin, inputs, (dy,), ctx.needs_input_grad[: len(inputs)])
        return *(*found, None)[:3], None, None


def kernel_back(
    dy: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, count: int
) -> tuple[Tensor, ...]:
    """The gradients of x, weight and bias, or of the first `count` of them."""
    dy, width = dy.contiguous(), x.shape[-1]
    dx, rows = torch.empty_like(x), len(mean)
    tile, wide = tile_of(width)
    most = BUSY * torch.cuda.get_device_properties(x.device).multi_processor_count
    programs = min(triton.cdiv(rows, tile), most)
    sums = torch.empty(programs, 2, width, device=x.device)
    go_back[(programs,)](*(dy, x, weight, mean, scale, dx, sums, rows, width), TILE=tile, WIDE=wide)
    dweight, dbias = sums.sum(0).unbind()
    return (dx, dweight, dbias)[:count]


def plain_norm(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, eps: float, kind: torch.dtype
) -> Tensor:
    """The plain twin of the kernels."""
    return F.layer_norm(x.float(), weight.shape, weight, bias, eps).to(kind)


def tile_of(width: int) -> tuple[int, int]:
    """Rows of a tile, and its width: a power of two, as Triton wants."""
    wide = triton.next_power_of_2(width)
    return max(1, NUMBERS // wide), wide


@triton.jit
def normalise(
    x,
    weight,
    bias,
    y,
    mean,
    scale,
    rows,
    width,
    eps,
    BIASED: tl.constexpr,
    TILE: tl.constexpr,
    WIDE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.arange(0, WIDE)
    there = (row < rows)[:, None] & (column < width)[None, :]
    at = row[:, None] * width + column[None, :]
    seen = tl.load(x + at, there, 0.0).to(tl.float32)
    middle = tl.sum(seen, 1) / width
    apart = tl.where(there, seen - middle[:, None], 0.0)
    shrink = tl.rsqrt(tl.sum(apart * apart, 1) / width + eps)
    out = apart * shrink[:, None] * tl.load(weight + column, column < width, 0.0)[None, :]
    if BIASED:
        out += tl.load(bias + column, column < width, 0.0)[None, :]
    tl.store(y + at, out, there)
    tl.store(mean + row, middle, row < rows)
    tl.store(scale + row, shrink, row < rows)


@triton.jit
def go_back(
    dy,
    x,
    weight,
    mean,
    scale,
    dx,
    sums,
    rows,
    width,
    TILE: tl.constexpr,
    WIDE: tl.constexpr,
):
    column = tl.arange(0, WIDE)
    w = tl.load(weight + column, column < width, 0.0)
    of_weight = tl.zeros([WIDE], tl.float32)
    of_bias = tl.zeros([WIDE], tl.float32)
    for start in range(tl.program_id(0) * TILE, rows, tl.num_programs(0) * TILE):
        row = (start + tl.arange(0, TILE)).to(tl.int64)
        there = (row < rows)[:, None] & (column < width)[None, :]
        at = row[:, None] * width + column[None, :]
        middle = tl.load(mean + row, row < rows, 0.0)
        shrink = tl.load(scale + row, row < rows, 0.0)
        seen = tl.load(x + at, there, 0.0).to(tl.float32)
        normal = tl.where(there, (seen - middle[:, None]) * shrink[:, None], 0.0)
        given = tl.load(dy + at, there, 0.0).to(tl.float32)
        of_weight += tl.sum(given * normal, 0)
        of_bias += tl.sum(given, 0)
        inner = given * w[None, :]
        level = tl.sum(inner, 1) / width  # a shift of the row changes nothing,
        stretch = tl.sum(inner * normal, 1) / width  # and neither does a stretch
        out = (inner - level[:, None] - normal * stretch[:, None]) * shrink[:, None]
        tl.store(dx + at, out, there)
    place = sums + tl.program_id(0) * 2 * width + column
    tl.store(place, of_weight, column < width)
    tl.store(place + width, of_bias, column < width)
