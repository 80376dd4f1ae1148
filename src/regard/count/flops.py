"""What a forward pass multiplies and adds, counted rather than measured."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import LinearAttention, Mask, MultiHeadAttention, attend, attend_fused
from regard.attention.call import Call
from regard.attention.channel import ChannelAttention
from regard.attention.kernels.causal_sums import CHUNK


def forward_flops(model: nn.Module, inputs: Tensor) -> int:
    """Multiplications and additions in the matrix products and convolutions of a forward pass.

    Torch counts those around attention. Attention itself is counted by what it must compute
    (`attention_flops`), whichever kernel does it here or elsewhere: so it is left out of the pass,
    which is made by a copy on the CPU.
    """
    copied = copy.deepcopy(model).cpu().float().eval()
    layers = [layer for layer in copied.modules() if isinstance(layer, MultiHeadAttention)]
    counts = [Counted(layer.attention) for layer in layers]
    for layer, counted in zip(layers, counts, strict=True):
        layer.attention = counted
    with torch.no_grad(), FlopCounterMode(display=False) as around:
        copied(inputs.cpu())
    return int(around.get_total_flops()) + sum(each.flops for each in counts)


class Counted(nn.Module):
    """Stands where an attention stood: counts what that would compute, and reads zeros."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.inner, self.flops = attention, 0

    def forward(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        check = getattr(self.inner, "check", Call.check)
        self.flops += attention_flops(self.inner, check(q, k, v, **options))
        return q.new_zeros(*q.shape[:-1], v.shape[-1])


def attention_flops(attention: Any, call: Call) -> int:
    """What the products of an attention take: 2 for each multiplication with its addition.

    - softmax: a score and a read for every pair that the mask lets read, 2d + 2e;
    - linear: Σ φ(k) vᵀ once and read by every query, Σ φ(k) read too; causal, also the pairs
      within each chunk, which are all computed although half of them are not read; under any
      other mask, all pairs. What a trained feature map multiplies is torch's to count, and is
      made here for that;
    - channels: the scores of d × d channels, and their reads.
    """
    q, k, v = call.q, call.k, call.v
    (n, d), (m, e) = q.shape[-2:], v.shape[-2:]
    heads, groups = q.shape[:-2].numel(), k.shape[:-2].numel()
    if attention in (attend, attend_fused):
        return heads * pairs(call, n, m) * 2 * (d + e)
    if isinstance(attention, ChannelAttention):
        return heads * n * d * 2 * (d + e)
    if not isinstance(attention, LinearAttention):
        raise ValueError(f"nobody has said what {attention!r} computes; say it here")
    features, *_ = attention.map(call)
    f = features.shape[-1]
    kernel = attention.choose(call).kernel
    if kernel is None:
        return heads * n * m * 2 * (f + e)
    sums, reads = 2 * m * f * e, 2 * n * f * (e + 1)
    if kernel == attention.everywhere:
        return groups * sums + heads * reads
    chunk = -(-n // -(-n // CHUNK))
    return heads * (sums + reads + n * chunk * 2 * (f + e))


def pairs(call: Call, n: int, m: int) -> int:
    """How many queries and keys are paired in one head."""
    if call.mask is None:
        return n * m
    if not isinstance(call.mask, Mask) or call.q_pos is None or call.k_pos is None:
        raise ValueError(f"pairs are counted for mask expressions, not for {call.mask!r}")
    return int(call.mask(call.q_pos, call.k_pos).sum())
