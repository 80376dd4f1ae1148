"""LayerNorm, with a kernel of our own where torch's is slow: narrow rows on a GPU.

torch gives every row a block of threads. That suits rows of thousands of numbers; of a row of 64
most threads see nothing. `regard.models.norm_triton` gives a block a tile of rows instead.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.kernels.second_order import transforming

NARROW = 1024  # the widest row for which it was measured: tests/test_norm_gpu.py


class LayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm` over the last axis, to the same result."""

    def forward(self, x: Float[Tensor, "*b c"]) -> Float[Tensor, "*b c"]:
        if not self.pays(x):
            return super().forward(x)
        from regard.models.norm_triton import layer_norm

        # As torch does: under autocast a norm is in float32, whatever comes in.
        kind = torch.float32 if torch.is_autocast_enabled("cuda") else x.dtype
        return layer_norm(x, self.weight, self.bias, self.eps, kind)

    def pays(self, x: Tensor) -> bool:
        """Whether our kernel takes this input. A compiler writes a better one itself."""
        return (
            x.is_cuda
            and not torch.compiler.is_compiling()
            and not transforming()
            and len(self.normalized_shape) == 1
            and x.shape[-1] == self.normalized_shape[0] <= NARROW
            and self.weight is not None
            and self.weight.dtype == torch.float32
            and (x.dtype == torch.float32 or torch.is_autocast_enabled("cuda"))
            and x.numel() > 0
            and has_triton()
        )


@cache
def has_triton() -> bool:
    return find_spec("triton") is not None
