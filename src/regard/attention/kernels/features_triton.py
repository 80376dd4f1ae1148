"""elu(root · x) + 1 on a GPU, in Triton: one pass over memory where torch needs six.

Linear attention is so short of arithmetic that reading and writing its features is what it costs.
The features come in x's own type, rounded once, from arithmetic in float32.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from regard.attention.features import may_write_over
from regard.attention.kernels.dtype import widen

BLOCK = 2048  # numbers of one program


class EluPlusOneKernel(torch.autograd.Function):
    """The twin of `features.EluPlusOne`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, root: float) -> Tensor:
        x = x.contiguous()
        features = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), BLOCK),)
        with torch.cuda.device_of(x):
            elu_plus_one[grid](x, features, root, x.numel(), BLOCK=BLOCK)
        ctx.save_for_backward(features)
        ctx.root = root
        return features

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (features,) = ctx.saved_tensors
        if not may_write_over(g):
            slopes = widen(features).clamp(max=1) * widen(g) * ctx.root
            return slopes.to(features.dtype), None
        slopes = torch.empty_like(features)
        grid = (triton.cdiv(slopes.numel(), BLOCK),)
        count = slopes.numel()
        slope[grid](features, g.contiguous(), slopes, ctx.root, count, BLOCK=BLOCK)
        return slopes, None


@triton.jit
def elu_plus_one(x, features, root, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    scaled = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) * root
    out = tl.maximum(scaled, 0.0) + tl.exp(tl.minimum(scaled, 0.0))
    tl.store(features + at, out.to(features.dtype.element_ty), mask=inside)


@triton.jit
def slope(features, g, slopes, root, count, BLOCK: tl.constexpr):
    """Above 0 the map is a line; below it is its own slope, which is then under 1."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    out = tl.load(features + at, mask=inside, other=0.0).to(tl.float32)
    came = tl.load(g + at, mask=inside, other=0.0).to(tl.float32)
    down = came * tl.minimum(out, 1.0) * root
    tl.store(slopes + at, down.to(slopes.dtype.element_ty), mask=inside)
