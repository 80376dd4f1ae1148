"""softmax(β q kᵀ) v: the plain path that says what attention is, and the fast one beside it."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.algebra import Mask
from regard.attention.call import Call, Predicate
from regard.attention.kernels.choose import choose
from regard.attention.kernels.dtype import narrowing_off
from regard.attention.kernels.second_order import transforming
from regard.attention.positions import Positions


class AttentionOutput(NamedTuple):
    """What each query read, and the weights it read with."""

    output: Tensor
    weights: Tensor


def attend(
    q: Float[Tensor, "... n d"],
    k: Float[Tensor, "... m d"],
    v: Float[Tensor, "... m e"],
    *,
    mask: Mask | Predicate | Bool[Tensor, "... #n #m"] | None = None,
    q_pos: Positions | None = None,
    k_pos: Positions | None = None,
    bias: Predicate | Float[Tensor, "... #n #m"] | None = None,
    beta: float | int | None = None,
) -> AttentionOutput:
    """Let each of n queries read m values, weighted by how well their keys match.

    `mask` is True where a query may read; a query that may read nothing reads zeros. `bias` is
    added to the scores. The default β, d^-1/2, keeps the scores of unit-variance q and k at unit
    variance however wide the head is; β = 0 is the mean, β = ∞ the best key alone.
    """
    return plain(Call.check(q, k, v, mask, q_pos, k_pos, bias, beta))


def attend_fused(
    q: Float[Tensor, "... n d"],
    k: Float[Tensor, "... m d"],
    v: Float[Tensor, "... m e"],
    *,
    mask: Mask | Predicate | Bool[Tensor, "... #n #m"] | None = None,
    q_pos: Positions | None = None,
    k_pos: Positions | None = None,
    bias: Predicate | Float[Tensor, "... #n #m"] | None = None,
    beta: float | int | None = None,
) -> Float[Tensor, "... n e"]:
    """The read of `attend`, by the fastest kernel that computes exactly that.

    It is in the dtype of v, and computed as q, k and v are given: autocast, which has had its say
    in the layers that made them, narrows nothing here.
    """
    call = Call.check(q, k, v, mask, q_pos, k_pos, bias, beta)
    plan = choose(call)
    with narrowing_off(q.device):
        return plain_in_rows(call) if plan.kernel is None else plan.kernel(call)


def explain_kernel(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | Predicate | Tensor | None = None,
    q_pos: Positions | None = None,
    k_pos: Positions | None = None,
    bias: Predicate | Tensor | None = None,
    beta: float | int | None = None,
) -> str:
    """Which kernel `attend_fused` would take for this call, and why, in words."""
    return choose(Call.check(q, k, v, mask, q_pos, k_pos, bias, beta)).why()


def plain(call: Call) -> AttentionOutput:
    """Attention as it is written down, in at least float32, under autocast too."""
    with narrowing_off(call.q.device):
        return _plain(call)


def _plain(call: Call) -> AttentionOutput:
    q, k, v = call.blanked()
    if q.ndim > 2:  # query heads that share a key head read the same keys
        share = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(share, -3), v.repeat_interleave(share, -3)
    allowed, bias = call.allowed(), call.added()

    # Half-precision exponentials lose the tail, so scores and softmax are at least float32.
    wide = torch.promote_types(q.dtype, torch.float32)
    if call.beta == math.inf:
        allowed = _best(q.to(wide), k.to(wide), allowed, bias)
        scores = torch.zeros_like(allowed, dtype=wide)
        bias = None if bias is None else bias.detach()
    else:
        scores = torch.einsum("...nd,...md->...nm", q.to(wide) * call.beta, k.to(wide))
    if bias is not None:
        scores = scores + bias.to(wide)
    weights = _shares(scores, allowed, biased=bias is not None)
    read = torch.einsum("...nm,...me->...ne", weights, v.to(wide))
    return AttentionOutput(read.to(v.dtype), weights.to(v.dtype))


def _shares(scores: Tensor, allowed: Tensor | None, *, biased: bool) -> Tensor:
    """Softmax over what each query may read; one that may read nothing gets zeros."""
    if not scores.shape[-1] or (allowed is None and not biased):
        return scores.softmax(-1)
    free = _may_write_over(scores)
    if free and scores.is_cpu and allowed is not None and _bounded(scores, allowed):
        return scores.softmax(-1)
    fill = Tensor.masked_fill_ if free else Tensor.masked_fill
    if allowed is not None:
        scores = fill(scores, ~allowed, -torch.inf)
    # A row of −∞ alone is 0/0. It gets a finite softmax first and zeros after, so that no NaN
    # ever exists for a gradient to meet.
    blind = torch.isneginf(scores.detach().amax(-1, keepdim=True))
    if scores.requires_grad or transforming():
        scores = scores.masked_fill(blind, 0.0)
    return fill(scores.softmax(-1), blind, 0.0)


def _bounded(scores: Tensor, allowed: Tensor) -> bool:
    """Put −∞ where nothing may be read, and say whether that was all there is to do.

    On the host a minimum is ten times as quick as a fill. It leaves what is not a number, so it is
    enough where the greatest score of each row is finite.
    """
    bounds = torch.where(allowed, torch.inf, -torch.inf).to(scores.dtype)
    torch.minimum(scores, bounds, out=scores)
    return bool(scores.amax(-1).isfinite().all())


def _may_write_over(scores: Tensor) -> bool:
    """Whether nobody else will ask for them: no gradient, no compiler, no transform of torch.func.

    `vmap` over masks, say, has scores that are one for all of them; gradients may also be taken
    forwards, along with the numbers.
    """
    return not (torch.compiler.is_compiling() or scores.requires_grad or transforming())


def plain_in_rows(call: Call, entries: int = 1 << 24) -> Tensor:
    """The plain read a few queries at a time: never more than `entries` weights at once."""
    return read_in_rows(plain, call, entries)


def read_in_rows(
    plain: Callable[[Call], AttentionOutput], call: Call, entries: int = 1 << 24
) -> Float[Tensor, "... n e"]:
    """The same of any dense twin."""
    *lead, n, _ = call.q.shape
    step = max(1, entries // max(1, math.prod(lead) * call.k.shape[-2]))
    if n <= step:
        return plain(call).output
    reads = [plain(call.rows(slice(at, at + step))).output for at in range(0, n, step)]
    return torch.cat(reads, -2)


@torch.no_grad()
def _best(q: Tensor, k: Tensor, allowed: Tensor | None, bias: Tensor | None) -> Tensor:
    """Which keys match best: those whose score, give or take its rounding, reaches the top.

    The limit β → ∞ of softmax(β s + bias) puts all weight on these, in proportion to e^bias.
    """
    scores = torch.einsum("...nd,...md->...nm", q, k)
    rounding = torch.einsum("...nd,...md->...nm", q.abs(), k.abs())
    rounding = rounding * (4 * torch.finfo(q.dtype).eps)
    shut = torch.zeros_like(scores, dtype=torch.bool) if allowed is None else ~allowed
    if bias is not None:
        shut = shut | torch.isneginf(bias)
    if scores.shape[-1] == 0:
        return torch.zeros_like(scores, dtype=torch.bool)
    top = (scores - rounding).masked_fill(shut, -torch.inf).amax(-1, keepdim=True)
    return (scores + rounding >= top) & ~shut
