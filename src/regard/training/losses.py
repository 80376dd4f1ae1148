"""The loss of the next word, without ever holding the scores of all words for all places.

    loss = vocabulary_loss(hidden, model.token_embedding.weight, targets, smoothing=0.1)   # a sum

Plainly this is `F.cross_entropy(F.linear(hidden, weight), targets, reduction="sum", …)`, which
keeps a score for each place and each word, and as many gradients, and passes over them again on the
way back. Here a few rows at a time are scored, and their gradients taken on the spot, while the
scores are at hand; what is kept is what came in, and as much again. Gradients of gradients, and the
transforms of torch.func, are those of the plain loss, with all its scores.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.kernels.dtype import narrowing_off
from regard.attention.kernels.second_order import Gradients, gradients, transforming

# Rows at a time. By measurement on one core, with 10,000 words of 256 numbers: 256 to 512 rows take
# 0.7 of the plain loss's time, 64 take 0.9; with 400 words 512 rows take as long as the plain loss.
ROWS = 512
HELD = 1 << 26  # scores that a GPU may hold, 256 MB: it wants more rows than that to be busy


def vocabulary_loss(
    x: Float[Tensor, "n c"],
    weight: Float[Tensor, "words c"],
    targets: Int[Tensor, "n"],
    *,
    smoothing: float = 0.0,
    rows: int | None = None,
) -> Float[Tensor, ""]:
    """The cross-entropy of each row's target among all words, summed; at most `rows` at a time.

    Words are scored by `x @ weight.T`. A share of `smoothing` of what is wanted is spread evenly
    over all words. Under autocast products are of its kind, and the softmax is in float32.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing={smoothing}: a share lies in 0 ≤ … < 1")
    kind = x.device.type
    if rows is None:
        rows = max(ROWS, HELD // max(1, len(weight))) if kind == "cuda" else ROWS
    if rows < 1:
        raise ValueError(f"rows={rows}: at least 1 at a time")
    if torch.is_autocast_enabled(kind):
        product = torch.get_autocast_dtype(kind)
    else:
        product = torch.promote_types(x.dtype, weight.dtype)
    if transforming():
        return plain_loss(x, weight, targets, smoothing=smoothing, product=product)
    # Inside the function gradients are off, so it has to be told here whether any are wanted.
    learning = torch.is_grad_enabled()
    of_x, of_weight = learning and x.requires_grad, learning and weight.requires_grad
    loss: Tensor = ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        x, weight, targets, smoothing, rows, product, of_x, of_weight
    )
    return loss


def plain_loss(
    x: Tensor, weight: Tensor, targets: Tensor, *, smoothing: float, product: torch.dtype
) -> Tensor:
    """The plain twin: all scores at once."""
    exact = torch.promote_types(product, torch.float32)
    with narrowing_off(x.device):
        scores = torch.log_softmax(x.to(product) @ weight.to(product).T, -1, dtype=exact)
        total = -(1 - smoothing) * scores.gather(-1, targets[:, None].long()).sum()
        return total - smoothing / len(weight) * scores.sum() if smoothing else total


class ChunkedLoss(torch.autograd.Function):
    """Loss and gradients in one pass; the way back only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        targets: Tensor,
        smoothing: float,
        rows: int,
        product: torch.dtype,
        of_x: bool,
        of_weight: bool,
    ) -> Tensor:
        exact = torch.promote_types(product, torch.float32)
        words = len(weight)
        total = torch.zeros((), dtype=exact, device=x.device)
        x_gradient = torch.empty_like(x) if of_x else None
        weight_gradient = torch.zeros_like(weight) if of_weight else None
        with narrowing_off(x.device):
            table = weight.to(product)
            for start in range(0, len(x), rows):
                some, wanted = x[start : start + rows].to(product), targets[start : start + rows]
                scores = torch.log_softmax(some @ table.T, -1, dtype=exact)
                right = scores.gather(-1, wanted[:, None].long())
                total -= (1 - smoothing) * right.sum()
                if smoothing:
                    total -= smoothing / words * scores.sum()
                if not (of_x or of_weight):
                    continue
                # The gradient of the scores, in their place: what is said less what is wanted.
                chances = scores.exp_()
                if smoothing:
                    chances -= smoothing / words
                chances.scatter_add_(
                    -1, wanted[:, None].long(), torch.full_like(right, smoothing - 1)
                )
                chances = chances.to(product)
                if x_gradient is not None:
                    x_gradient[start : start + rows] = chances @ table
                if weight_gradient is None:
                    continue
                if weight_gradient.dtype == product:
                    weight_gradient.addmm_(chances.T, some)
                else:
                    weight_gradient += chances.T @ some
        ctx.save_for_backward(x, weight, targets, x_gradient, weight_gradient)
        ctx.label_smoothing, ctx.product = smoothing, product
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, targets, *made = ctx.saved_tensors

        def kernel() -> Gradients:
            return tuple(None if one is None else one * gradient for one in made)

        twin = partial(
            plain_loss, targets=targets, smoothing=ctx.label_smoothing, product=ctx.product
        )
        scaled = gradients(kernel, twin, (x, weight), (gradient,), ctx.needs_input_grad[:2])
        return (*scaled, None, None, None, None, None, None)
