"""Causal linear attention on a GPU, in Triton: each query reads all tokens up to its own.

The tokens are cut into blocks. What all earlier blocks hold is one small matrix, Σ kⱼ vⱼᵀ, whatever
their number; so a query reads that matrix, and its own block token by token. Three kernels do it:

- `add_up` sums kⱼ vⱼᵀ over each block, all blocks at once;
- `run_up` adds the sums up along the blocks, in float32;
- `read_out` reads the matrix before a block, and the block.

The gradients are the same sums with other names, the two for k and v from the end to the start:
with gᵢ and γᵢ the gradients of query i's numerator and normaliser,

    numeratorᵢ = Σ_{j ≤ i} (qᵢ·kⱼ) vⱼ          ∂vⱼ = Σ_{i ≥ j} (kⱼ·qᵢ) gᵢ
    ∂qᵢ = Σ_{j ≤ i} (gᵢ·vⱼ + γᵢ) kⱼ            ∂kⱼ = Σ_{i ≥ j} (vⱼ·gᵢ + γᵢ) qᵢ

so `read_out` computes all four: a reads, through scores a·b (+ γ), the sum of c.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from regard.attention.kernels.causal_sums import causal_sums as plain_sums
from regard.attention.kernels.second_order import gradients
from regard.attention.kernels.sums import divide as quotient

CHUNK = 256  # tokens of a block: fewer mean more matrices to keep, more mean longer reading


def causal_sums(
    q: Float[Tensor, "*b h n f"],
    k: Float[Tensor, "*b g n f"],
    v: Float[Tensor, "*b g n e"],
    chunk: int = CHUNK,
) -> tuple[Float[Tensor, "*b h n e"], Float[Tensor, "*b h n"]]:
    """Σ_{j ≤ i} (qᵢ·kⱼ) vⱼ in v's dtype, and Σ_{j ≤ i} qᵢ·kⱼ in float32.

    q and k are features already: never negative. All sums run in float32. Where there are fewer
    heads of keys than of queries, each serves h / g queries' heads.
    """
    return _through_kernels(q, k, v, chunk, divide=False)


def causal_read(
    q: Float[Tensor, "*b h n f"],
    k: Float[Tensor, "*b g n f"],
    v: Float[Tensor, "*b g n e"],
    chunk: int = CHUNK,
) -> Float[Tensor, "*b h n e"]:
    """What each query reads: the first of `causal_sums` over the second, divided on the way out.

    The quotient never leaves the range of v, so unlike the sums it is safe in float16. A query
    that matches no key so far (the normaliser is 0) reads zeros, and has no gradient.
    """
    return _through_kernels(q, k, v, chunk, divide=True)[0]


@torch.compiler.disable  # it would be traced into, down to a device it cannot set
def _through_kernels(
    q: Tensor, k: Tensor, v: Tensor, chunk: int, *, divide: bool
) -> tuple[Tensor, Tensor]:
    kinds = {x.dtype for x in (q, k, v)}
    if not kinds <= {torch.float32, torch.bfloat16, torch.float16}:
        names = ", ".join(str(x.dtype).removeprefix("torch.") for x in (q, k, v))
        raise ValueError(f"q, k, v are {names}: the kernel takes float32, bfloat16 and float16")
    heads, groups = q.shape[-3], k.shape[-3]
    if groups == 0 or heads % groups:
        raise ValueError(f"{heads} heads of queries cannot share {groups} heads of keys evenly")
    if chunk < 1:
        raise ValueError(f"a chunk of {chunk} tokens holds none: take {CHUNK}")
    if heads != groups:
        k, v = (x.repeat_interleave(heads // groups, dim=-3) for x in (k, v))
    if q.numel() == 0 or v.numel() == 0:
        return v.clone(), q.sum(-1, dtype=torch.float32)
    # In order out here: what the function keeps must be what came in, for gradients of gradients.
    flat = (in_order(x.reshape(-1, *x.shape[-3:])) for x in (q, k, v))
    out, total = CausalSums.apply(*flat, chunk, divide)
    return out.view(v.shape), total.view(q.shape[:-1])


class CausalSums(torch.autograd.Function):
    """The kernels with their gradients."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, chunk: int, divide: bool
    ) -> tuple[Tensor, Tensor]:
        plan = plan_for(q, k, v, chunk)
        out = torch.empty_like(v)
        total = torch.empty(q.shape[:-1], device=q.device)
        with torch.cuda.device_of(q):
            before = states(k, v, None, plan)
            read(q, k, v, before, out, plan, total=total, divide=divide)
        ctx.save_for_backward(q, k, v, *before, *((out, total) if divide else ()))
        ctx.plan, ctx.divide = plan, divide
        if divide:
            ctx.mark_non_differentiable(total)
        return out, total

    @staticmethod
    def backward(ctx: Any, g: Tensor, gamma: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *kept = ctx.saved_tensors
        kernel = partial(kernels_back, q, k, v, g, gamma, kept, ctx.plan)
        pulls = (g,) if ctx.divide else (g, gamma)
        twin = partial(in_chunks, divided=ctx.divide)
        wanted = ctx.needs_input_grad[:3]
        return *gradients(kernel, twin, (q, k, v), pulls, wanted), None, None


def kernels_back(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, gamma: Tensor, kept: list[Tensor], plan: Plan
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v from those of what the kernels gave."""
    matrix, vector, *divided = kept
    g, gamma = in_order(g), gamma.contiguous()
    if divided:
        out, total = divided
        g, gamma = undivided(g, out, total, plan)
    after = states(q, g, gamma, plan, backwards=True)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    before_turned = States(matrix.mT, vector)
    after_turned = States(after.matrix.mT, after.vector)
    read(g, v, k, before_turned, dq, plan, rows=gamma)
    read(v, g, q, after_turned, dk, plan, columns=gamma, backwards=True)
    read(k, q, g, after, dv, plan, backwards=True)
    return dq, dk, dv


def in_chunks(q: Tensor, k: Tensor, v: Tensor, *, divided: bool) -> Tensor | tuple[Tensor, Tensor]:
    """The plain twin of the kernels."""
    sums, totals = plain_sums(q, k, v)
    if divided:
        return quotient(sums, totals).to(v.dtype)
    return sums.to(v.dtype), totals


class Plan(NamedTuple):
    """How the numbers are multiplied, and what a program holds of them."""

    kind: torch.dtype  # of what is multiplied; sums are float32 always
    precision: str  # of a product of float32
    block: int  # tokens between two states
    tile: int  # tokens that a program of `read_out` reads for …
    step: int  # … and that any program looks at together
    wide: int  # columns that a program writes, at most
    warps: int


def plan_for(q: Tensor, k: Tensor, v: Tensor, chunk: int) -> Plan:
    """bfloat16 stays as it is, and float16 is multiplied as float32 in three parts of tf32.

    In float16 itself the sums would soon pass its largest number, 65504; and tf32 keeps all digits
    of a float16, but not those of the scores and gradients in between.
    """
    kinds = {x.dtype for x in (q, k, v)}
    widest = max(q.shape[-1], v.shape[-1])
    if kinds != {torch.bfloat16}:
        finest = torch.float32 in kinds
        plan = Plan(torch.float32, "ieee", 0, tile=32, step=32, wide=64, warps=4)
        plan = plan if finest else plan._replace(precision="tf32x3", tile=32)
    elif widest > 128:
        plan = Plan(torch.bfloat16, "tf32", 0, tile=64, step=32, wide=128, warps=4)
    else:
        plan = Plan(torch.bfloat16, "tf32", 0, tile=128, step=64, wide=128, warps=8)
    return plan._replace(block=triton.cdiv(chunk, plan.tile) * plan.tile)


def in_order(x: Tensor) -> Tensor:
    """x with its columns side by side; its other dimensions may lie as they like."""
    return x if x.stride(-1) == 1 else x.contiguous()


class States(NamedTuple):
    """For each block, the sums over all blocks before it (or after it, going backwards)."""

    matrix: Tensor  # (pairs of batch and head, blocks, f, e): Σ aⱼ cⱼᵀ
    vector: Tensor  # (pairs, blocks, f): Σ aⱼ, or Σ wⱼ aⱼ with weights


def states(
    a: Tensor, c: Tensor, weights: Tensor | None, plan: Plan, *, backwards: bool = False
) -> States:
    batch, heads, tokens, a_width = a.shape
    c_width, blocks = c.shape[-1], triton.cdiv(tokens, plan.block)
    matrix = torch.empty(batch * heads, blocks, a_width, c_width, device=a.device)
    vector = torch.empty(batch * heads, blocks, a_width, device=a.device)
    a_wide, c_wide = (min(wide(x.shape[-1]), plan.wide) for x in (a, c))
    add_up[(batch * heads * blocks, triton.cdiv(a_width, a_wide), triton.cdiv(c_width, c_wide))](
        *(a, c, weights, matrix, vector),
        *(*a.stride()[:3], *c.stride()[:3]),
        *(heads, tokens, a_width, c_width),
        BLOCK=plan.block,
        STEP=plan.step,
        A_WIDE=a_wide,
        C_WIDE=c_wide,
        KIND=TRITON[plan.kind],
        PRECISION=plan.precision,
        WEIGHTED=weights is not None,
        num_warps=plan.warps,
    )
    return States(
        running(matrix, plan.kind, backwards=backwards),
        running(vector, torch.float32, backwards=backwards),
    )


def running(sums: Tensor, kind: torch.dtype, *, backwards: bool) -> Tensor:
    """The sum of the blocks before each block (after it, backwards), itself not included."""
    out = torch.empty_like(sums, dtype=kind)
    pairs, blocks = sums.shape[:2]
    size = sums[0, 0].numel()
    run_up[(pairs, triton.cdiv(size, NUMBERS))](
        sums, out, blocks, size, NUMBERS=NUMBERS, BACKWARDS=backwards
    )
    return out


def read(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    others: States,
    out: Tensor,
    plan: Plan,
    *,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
    total: Tensor | None = None,
    divide: bool = False,
    backwards: bool = False,
) -> None:
    """out ← Σ (a·b + weight) c over the tokens before (after, backwards); total ← Σ a·b.

    The weights belong to the rows of the map (those of a and out) or to its columns (b and c).
    """
    batch, heads, tokens, a_width = a.shape
    c_width = c.shape[-1]
    c_wide = min(wide(c_width), plan.wide)
    weights = rows if rows is not None else columns
    read_out[(batch * heads * triton.cdiv(tokens, plan.tile), triton.cdiv(c_width, c_wide))](
        *(a, b, c, weights, others.matrix, others.vector, out, total),
        *(*a.stride()[:3], *b.stride()[:3], *c.stride()[:3], *out.stride()[:3]),
        *(*others.matrix.stride()[2:], heads, tokens, a_width, c_width),
        BLOCK=plan.block,
        TILE=plan.tile,
        STEP=plan.step,
        A_WIDE=wide(a_width),
        C_WIDE=c_wide,
        KIND=TRITON[plan.kind],
        PRECISION=plan.precision,
        ROWS=rows is not None,
        COLUMNS=columns is not None,
        TOTAL=total is not None,
        DIVIDE=divide,
        BACKWARDS=backwards,
        num_warps=plan.warps,
        num_stages=2,
    )


def undivided(g: Tensor, out: Tensor, total: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """The gradients of numerator and normaliser, from that of their quotient `out`."""
    batch, heads, tokens, width = g.shape
    of_numerator = torch.empty_like(g, dtype=plan.kind)
    of_normaliser = torch.empty_like(total)
    undivide[(batch * heads * triton.cdiv(tokens, plan.step),)](
        *(g, out, total, of_numerator, of_normaliser),
        *(*g.stride()[:3], *out.stride()[:3], *of_numerator.stride()[:3]),
        *(heads, tokens, width),
        STEP=plan.step,
        WIDE=wide(width),
    )
    return of_numerator, of_normaliser


def wide(width: int) -> int:
    """Columns of a tile: a power of two, as Triton wants, and enough for its products."""
    return max(16, triton.next_power_of_2(width))


NUMBERS = 1024  # that a program of `run_up` carries along
TRITON = {torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}


# In the kernels a pair is one head of one text. Offsets grow beyond 2³¹ numbers with a million
# tokens, so where a tile starts is counted in 64 bits, and places within the tile in 32.


@triton.jit
def add_up(
    a,
    c,
    weights,
    matrix,
    vector,
    a_batch,
    a_head,
    a_token,
    c_batch,
    c_head,
    c_token,
    heads,
    tokens,
    a_width,
    c_width,
    BLOCK: tl.constexpr,
    STEP: tl.constexpr,
    A_WIDE: tl.constexpr,
    C_WIDE: tl.constexpr,
    KIND: tl.constexpr,
    PRECISION: tl.constexpr,
    WEIGHTED: tl.constexpr,
):
    blocks = tl.cdiv(tokens, BLOCK)
    pair = (tl.program_id(0) // blocks).to(tl.int64)
    block = tl.program_id(0) % blocks
    a += (pair // heads) * a_batch + (pair % heads) * a_head
    c += (pair // heads) * c_batch + (pair % heads) * c_head
    row = tl.arange(0, STEP)
    a_column = tl.program_id(1) * A_WIDE + tl.arange(0, A_WIDE)
    c_column = tl.program_id(2) * C_WIDE + tl.arange(0, C_WIDE)
    a_there, c_there = a_column < a_width, c_column < c_width
    a_place = row[:, None] * a_token + a_column[None, :]
    c_place = row[:, None] * c_token + c_column[None, :]

    products = tl.zeros([A_WIDE, C_WIDE], tl.float32)
    plain = tl.zeros([A_WIDE], tl.float32)
    for start in range(block * BLOCK, tl.minimum(block * BLOCK + BLOCK, tokens), STEP):
        begin = tl.cast(start, tl.int64)
        there = (start + row < tokens)[:, None]
        some_a = tl.load(a + begin * a_token + a_place, there & a_there[None, :], 0.0).to(KIND)
        some_c = tl.load(c + begin * c_token + c_place, there & c_there[None, :], 0.0).to(KIND)
        products = tl.dot(tl.trans(some_a), some_c, products, input_precision=PRECISION)
        alone = some_a.to(tl.float32)
        if WEIGHTED:
            weight = tl.load(weights + pair * tokens + start + row, start + row < tokens, 0.0)
            alone *= weight[:, None]
        plain += tl.sum(alone, 0)

    place = pair * blocks + block
    at = a_column[:, None] * c_width + c_column[None, :]
    tl.store(matrix + place * a_width * c_width + at, products, a_there[:, None] & c_there[None, :])
    if tl.program_id(2) == 0:
        tl.store(vector + place * a_width + a_column, plain, a_there)


@triton.jit
def run_up(
    sums,
    out,
    blocks,
    size,
    NUMBERS: tl.constexpr,
    BACKWARDS: tl.constexpr,
):
    pair = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * NUMBERS + tl.arange(0, NUMBERS)
    there = column < size
    so_far = tl.zeros([NUMBERS], tl.float32)
    for index in range(blocks):
        block = blocks - 1 - index if BACKWARDS else index
        at = (pair * blocks + block) * size + column
        tl.store(out + at, so_far, there)
        so_far += tl.load(sums + at, there, 0.0)


@triton.jit
def read_out(
    a,
    b,
    c,
    weights,
    matrix,
    vector,
    out,
    total,
    a_batch,
    a_head,
    a_token,
    b_batch,
    b_head,
    b_token,
    c_batch,
    c_head,
    c_token,
    out_batch,
    out_head,
    out_token,
    matrix_a,
    matrix_c,
    heads,
    tokens,
    a_width,
    c_width,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    STEP: tl.constexpr,
    A_WIDE: tl.constexpr,
    C_WIDE: tl.constexpr,
    KIND: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    TOTAL: tl.constexpr,
    DIVIDE: tl.constexpr,
    BACKWARDS: tl.constexpr,
):
    tiles = tl.cdiv(tokens, TILE)
    pair = (tl.program_id(0) // tiles).to(tl.int64)
    start = (tl.program_id(0) % tiles) * TILE
    begin = start.to(tl.int64)
    block = start // BLOCK
    state = pair * tl.cdiv(tokens, BLOCK) + block
    text, head = pair // heads, pair % heads
    a += text * a_batch + head * a_head + begin * a_token
    b += text * b_batch + head * b_head
    c += text * c_batch + head * c_head
    out += text * out_batch + head * out_head + begin * out_token

    row, step = tl.arange(0, TILE), tl.arange(0, STEP)
    there = start + row < tokens
    a_column = tl.arange(0, A_WIDE)
    c_column = tl.program_id(1) * C_WIDE + tl.arange(0, C_WIDE)
    a_there, c_there = a_column < a_width, c_column < c_width
    b_place = step[:, None] * b_token + a_column[None, :]
    c_place = step[:, None] * c_token + c_column[None, :]

    # The other blocks, by their state.
    at = row[:, None] * a_token + a_column[None, :]
    asks = tl.load(a + at, there[:, None] & a_there[None, :], 0.0).to(KIND)
    at = a_column[:, None] * matrix_a + c_column[None, :] * matrix_c
    known = tl.load(
        matrix + state * a_width * c_width + at, a_there[:, None] & c_there[None, :], 0.0
    )
    reads = tl.dot(asks, known, input_precision=PRECISION)
    if TOTAL:
        known_sum = tl.load(vector + state * a_width + a_column, a_there, 0.0)
        counts = tl.sum(asks.to(tl.float32) * known_sum[None, :], 1)
    if ROWS:
        weight = tl.load(weights + pair * tokens + start + row, there, 0.0)
        known_sum = tl.load(vector + state * c_width + c_column, c_there, 0.0)
        reads += weight[:, None] * known_sum[None, :]
    if COLUMNS:
        known_sum = tl.load(vector + state * c_width + c_column, c_there, 0.0)
        reads += known_sum[None, :]

    # Its own block, token by token.
    if BACKWARDS:
        first, last = start, tl.minimum(block * BLOCK + BLOCK, tokens)
    else:
        first, last = block * BLOCK, tl.minimum(start + TILE, tokens)
    for other in range(first, last, STEP):
        far = tl.cast(other, tl.int64)
        token = other + step
        ours = (token < tokens)[:, None]
        keys = tl.load(b + far * b_token + b_place, ours & a_there[None, :], 0.0).to(KIND)
        scores = tl.dot(asks, tl.trans(keys), input_precision=PRECISION)
        if ROWS:
            scores += weight[:, None]
        if COLUMNS:
            scores += tl.load(weights + pair * tokens + token, token < tokens, 0.0)[None, :]
        if BACKWARDS:
            scores = tl.where(token[None, :] >= (start + row)[:, None], scores, 0.0)
        else:
            scores = tl.where(token[None, :] <= (start + row)[:, None], scores, 0.0)
        shares = scores.to(KIND)
        if TOTAL:  # counted as rounded, so that a lone token's share of the quotient is 1
            counts += tl.sum(shares.to(tl.float32), 1)
        values = tl.load(c + far * c_token + c_place, ours & c_there[None, :], 0.0).to(KIND)
        reads = tl.dot(shares, values, reads, input_precision=PRECISION)

    if DIVIDE:
        reads = tl.where((counts > 0)[:, None], reads / counts[:, None], 0.0)
    at = row[:, None] * out_token + c_column[None, :]
    tl.store(out + at, reads, there[:, None] & c_there[None, :])
    if TOTAL:
        once = there & (tl.program_id(1) == 0)
        tl.store(total + pair * tokens + start + row, counts, once)


@triton.jit
def undivide(
    g,
    out,
    total,
    of_numerator,
    of_normaliser,
    g_batch,
    g_head,
    g_token,
    out_batch,
    out_head,
    out_token,
    to_batch,
    to_head,
    to_token,
    heads,
    tokens,
    width,
    STEP: tl.constexpr,
    WIDE: tl.constexpr,
):
    tiles = tl.cdiv(tokens, STEP)
    pair = (tl.program_id(0) // tiles).to(tl.int64)
    token = (tl.program_id(0) % tiles) * STEP + tl.arange(0, STEP).to(tl.int64)
    column = tl.arange(0, WIDE)
    there = (token < tokens)[:, None] & (column < width)[None, :]
    text, head, at = pair // heads, pair % heads, token[:, None]
    g += text * g_batch + head * g_head
    out += text * out_batch + head * out_head
    of_numerator += text * to_batch + head * to_head
    count = tl.load(total + pair * tokens + token, token < tokens, 0.0)
    given = tl.load(g + at * g_token + column[None, :], there, 0.0).to(tl.float32)
    given = tl.where((count > 0)[:, None], given / count[:, None], 0.0)
    # Rounded first, so that what should cancel (a lone token's gradient) does.
    given = given.to(of_numerator.dtype.element_ty)
    tl.store(of_numerator + at * to_token + column[None, :], given, there)
    gone = tl.load(out + at * out_token + column[None, :], there, 0.0).to(tl.float32)
    back = -tl.sum(given.to(tl.float32) * gone, 1)
    tl.store(of_normaliser + pair * tokens + token, back, token < tokens)
