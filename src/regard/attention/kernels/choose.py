"""The chooser of the fastest path that computes exactly a call of attention.

It looks at Python objects only: device, dtype, shapes, the mask's expression, a range or a tensor.
It never looks at a tensor's values, so it costs microseconds, never waits for a GPU, and a compiler
can follow it. Each path returns what `plain` reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.algebra import Causal, Mask
from regard.attention.call import Call
from regard.attention.kernels.merged import can_merge, merged
from regard.attention.kernels.scattered import Arrangement, arrange
from regard.attention.kernels.sdpa import (
    causal_square,
    causal_tail,
    dense,
    preferred,
    reader,
    whole,
)
from regard.attention.kernels.second_order import beyond_kernels, transforming
from regard.attention.kernels.tiles import (
    DENSE_UPTO,
    TILED_FROM,
    flex,
    flex_fits,
    share_read,
    tiled,
)
from regard.attention.kernels.window import cut, windowed

TILED_BELOW = 0.9  # tiles pay where those that are read hold no more than this share of the map …
# … and parts in orders of their own where they take this share of the work of the tiles.
MERGED_BELOW = {"cpu": 0.6, "cuda": 1.0}
# A key that is copied for one query costs as much as so many that a block of queries shares. On two
# cores 16 drawn keys of 2,048 tokens break even with the whole map.
ALONE = {"cpu": 32, "cuda": 800}
# A row that is gathered, and put back, beside a score. A GPU's FlexAttention is quick with scores:
# on an H200, forward + backward, 0.29 µs a row of 32 heads beside 0.36 ns a score, as
# results/bench-cheaper-cuda.json has it of axial masks, the Sparse Transformer and BigBird.
ROW = {"cpu": 0, "cuda": 800}
BEYOND = "torch's kernels know neither vmap nor forward-mode gradients, nor grad of grad"


class Plan(NamedTuple):
    """How a call will be computed; no kernel means the plain path, in blocks of rows."""

    kernel: Callable[[Call], Tensor] | None
    why: Callable[[], str]  # spelled out only when asked


def choose(call: Call) -> Plan:
    """The fastest path that computes exactly this call, with the reason in words."""
    n, m = call.q.shape[-2], call.k.shape[-2]
    if call.beta in (0, math.inf):
        return Plan(None, lambda: f"plain, in blocks of rows: β = {call.beta:g} is a limit")
    if n == 0 or m == 0:
        return Plan(None, lambda: f"plain: {n} queries and {m} keys leave nothing to do")
    if not call.q.numel() or not call.v.numel():
        return Plan(None, lambda: "plain: an axis of length 0 leaves nothing to do")
    if beyond_kernels():
        return Plan(None, lambda: f"plain, in blocks of rows: {BEYOND}")
    if isinstance(call.q_pos, Tensor) or isinstance(call.k_pos, Tensor):
        return Plan(
            dense, lambda: "SDPA with a mask: positions are a tensor, so some may be nowhere"
        )
    if call.bias is not None:
        return Plan(dense, lambda: "SDPA with the bias as an additive mask")
    if isinstance(call.mask, Mask):
        assert isinstance(call.q_pos, range) and isinstance(call.k_pos, range)
        return _choose_by_mask(call, call.mask.on(call.q_pos, call.k_pos))
    if call.mask is not None:
        return Plan(dense, lambda: "SDPA with a mask: only an expression says more than its values")
    return Plan(whole, lambda: f"{reader(call)}: nothing is masked")


def _choose_by_mask(call: Call, mask: Mask | bool) -> Plan:
    q_pos, k_pos = call.q_pos, call.k_pos
    assert isinstance(q_pos, range) and isinstance(k_pos, range)
    gpu = call.q.device.type == "cuda"
    if mask is True:
        return Plan(whole, lambda: f"{reader(call)}: {call.mask} reads everything here")
    if mask is False:
        return Plan(dense, lambda: f"SDPA with a mask: {call.mask} reads nothing here")
    if isinstance(mask, Causal):
        if q_pos.start == k_pos.start and q_pos.stop == k_pos.stop:
            return Plan(causal_square, lambda: f"SDPA{preferred(call)}, causal flag")
        if gpu and q_pos.stop == k_pos.stop and q_pos.start > k_pos.start:
            return Plan(causal_tail, lambda: "SDPA, causal aligned to the last key")
    windows = cut(mask, q_pos, k_pos)
    if windows is not None:
        within = causal_square if windows.causal else whole
        return Plan(
            lambda call: windowed(call, windows, within),
            lambda: f"SDPA window by window: {mask} puts {windows}",
        )
    # Tiles are picked on the host, which a compiled graph cannot do.
    by_flex = gpu and flex_fits(call) and not transforming()  # it is compiled, and they are not
    entries = call.q.shape[-2] * call.k.shape[-2]
    tiles_pay = not gpu and entries >= TILED_FROM**2  # many small launches cost a GPU more
    if (by_flex or tiles_pay or entries > DENSE_UPTO) and can_merge(call):
        parts = arrange(mask, q_pos, k_pos)
        if parts is not None and parts_pay(
            parts, call.q.device.type, share_read(mask, q_pos, k_pos) * entries
        ):
            return Plan(
                lambda call: merged(call, parts),
                lambda: (
                    f"SDPA part by part, merged: {mask} reads {parts.entries / entries:.0%} "
                    f"of the map in {parts.parts} parts"
                ),
            )
    if by_flex:
        return Plan(flex, lambda: f"FlexAttention: block mask of {mask}")
    if (tiles_pay or entries > DENSE_UPTO) and not torch.compiler.is_compiling():
        read = share_read(mask, q_pos, k_pos)
        if read <= TILED_BELOW or entries > DENSE_UPTO:
            return Plan(
                tiled, lambda: f"SDPA tile by tile: {mask} reads in {read:.0%} of the tiles"
            )
    return Plan(dense, lambda: f"SDPA with a mask: {mask} over {len(q_pos)} × {len(k_pos)}")


def parts_pay(parts: Arrangement, kind: str, scores: float) -> bool:
    """Whether parts in orders of their own take less time than tiles that hold so many scores."""
    return parts.work(alone=ALONE[kind], row=ROW[kind]) <= MERGED_BELOW[kind] * scores
