"""Two kernels of a decoder's step on a GPU, in Triton. No gradients: words are written, not learnt.

- `read_on` keeps the new key and value of each row and reads all that the row holds, which it
  finds out by itself: a recorded step serves rows of any length.
- `add_norm` adds a branch to the stream and normalises the sum, in one pass over the row.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

KEYS = 64  # that a program looks at together


def read_on(
    q: Float[Tensor, "r h 1 d"],
    k: Float[Tensor, "r g 1 d"],
    v: Float[Tensor, "r g 1 d"],
    store: Float[Tensor, "2 r g slots d"],
    place: Int[Tensor, "r"],
) -> Float[Tensor, "r h 1 d"]:
    """Write k and v into slot `place` of each row, and read slots 0 … `place`."""
    rows, heads, _, width = q.shape
    groups, slots = k.shape[1], store.shape[3]
    out = torch.empty(rows, heads, 1, width, dtype=q.dtype, device=q.device)
    with torch.cuda.device_of(q):
        keep_and_read[(rows, groups)](
            *(q, k, v, store, place, out),
            *(q.stride(0), q.stride(1), k.stride(0), k.stride(1), v.stride(0), v.stride(1)),
            *(store.stride(0), store.stride(1), store.stride(2), store.stride(3)),
            *(groups, width, width**-0.5, slots),
            SHARE=heads // groups,
            WIDE=triton.next_power_of_2(width),
            KEYS=KEYS,
        )
    return out


@triton.jit
def keep_and_read(
    q,
    k,
    v,
    store,
    place,
    out,
    q_row,
    q_head,
    k_row,
    k_head,
    v_row,
    v_head,
    kind,
    store_row,
    store_head,
    store_slot,
    groups,
    width,
    beta,
    slots,
    SHARE: tl.constexpr,
    WIDE: tl.constexpr,
    KEYS: tl.constexpr,
):
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    here = tl.load(place + row)
    tl.device_assert(here < slots)
    column = tl.arange(0, WIDE)
    there = column < width
    room = there & (here < slots)  # a row of nobody may have come to the end
    new_k = tl.load(k + row * k_row + group * k_head + column, there, 0.0)
    new_v = tl.load(v + row * v_row + group * v_head + column, there, 0.0)
    keys = store + row * store_row + group * store_head
    values = keys + kind
    tl.store(keys + here * store_slot + column, new_k, room)
    tl.store(values + here * store_slot + column, new_v, room)
    for at in tl.static_range(SHARE):
        head = group * SHARE + at
        query = tl.load(q + row * q_row + head * q_head + column, there, 0.0).to(tl.float32) * beta
        # The new word first, from where it is; then those before it.
        highest = tl.sum(query * new_k.to(tl.float32), 0)
        total = 1.0
        read = new_v.to(tl.float32)
        for start in range(0, here, KEYS):
            slot = start + tl.arange(0, KEYS)
            some = (slot < here)[:, None] & there[None, :]
            at_slot = slot[:, None] * store_slot + column[None, :]
            seen = tl.load(keys + at_slot, some, 0.0).to(tl.float32)
            scores = tl.where(slot < here, tl.sum(seen * query[None, :], 1), float("-inf"))
            higher = tl.maximum(highest, tl.max(scores, 0))
            shrink = tl.exp(highest - higher)
            shares = tl.exp(scores - higher)
            value = tl.load(values + at_slot, some, 0.0).to(tl.float32)
            total = total * shrink + tl.sum(shares, 0)
            read = read * shrink + tl.sum(shares[:, None] * value, 0)
            highest = higher
        place_out = out + (row * groups * SHARE + head) * width + column
        tl.store(place_out, read / total, there)


def add_norm(
    x: Float[Tensor, "r c"],
    branch: Float[Tensor, "r c"],
    weight: Float[Tensor, "c"],
    bias: Float[Tensor, "c"] | None,
    eps: float,
    *,
    centred: bool,
) -> tuple[Float[Tensor, "r c"], Float[Tensor, "r c"]]:
    """x + branch, and its norm: LayerNorm if `centred`, RMSNorm if not."""
    rows, width = x.shape
    x, branch = x.contiguous(), branch.contiguous()
    added, normal = torch.empty_like(x), torch.empty_like(x)
    with torch.cuda.device_of(x):
        add_and_normalise[(rows,)](
            *(x, branch, weight, bias, added, normal, width, eps),
            BIASED=bias is not None,
            CENTRED=centred,
            WIDE=triton.next_power_of_2(width),
        )
    return added, normal


@triton.jit
def add_and_normalise(
    x,
    branch,
    weight,
    bias,
    added,
    normal,
    width,
    eps,
    BIASED: tl.constexpr,
    CENTRED: tl.constexpr,
    WIDE: tl.constexpr,
):
    column = tl.arange(0, WIDE)
    there = column < width
    at = tl.program_id(0).to(tl.int64) * width + column
    kind = added.dtype.element_ty
    total = tl.load(x + at, there, 0.0).to(tl.float32) + tl.load(branch + at, there, 0.0)
    total = total.to(kind)  # what is normalised is what goes on, rounded as it is
    tl.store(added + at, total, there)
    seen = total.to(tl.float32)
    if CENTRED:
        seen = tl.where(there, seen - tl.sum(seen, 0) / width, 0.0)
    out = seen * tl.rsqrt(tl.sum(seen * seen, 0) / width + eps)
    out *= tl.load(weight + column, there, 0.0)
    if BIASED:
        out += tl.load(bias + column, there, 0.0)
    tl.store(normal + at, out, there)
