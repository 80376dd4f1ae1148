"""Muon (Jordan 2024): a matrix moves by its momentum with all singular values made about one.

Matrices of one shape are iterated together, as one batched product: a transformer has few shapes
and many matrices, and on a GPU each launch costs more than a small product.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.hardware.device import has_bfloat16

MOMENTUM = 0.95
# An odd polynomial a·σ + b·σ³ + c·σ⁵ that takes every σ in (0, 1] to about 0.7 … 1.2 in five
# rounds. It does not converge to 1; these coefficients grow small σ fastest, which matters more.
QUINTIC = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
TINY = 1e-7


class Muon(Optimizer):
    """Moves matrices alone; everything else needs another optimiser beside it.

    The rate may be a tensor on the device, to be changed where a step is recorded and replayed.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float | Tensor = 0.02,
        *,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})
        for parameter in self.matrices():
            if parameter.ndim != 2:
                raise ValueError(f"Muon moves matrices, not a tensor of {tuple(parameter.shape)}")

    def matrices(self) -> list[nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every matrix that has a gradient."""
        for group in self.param_groups:
            alike: dict[tuple[torch.Size, torch.device], list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    alike.setdefault((matrix.shape, matrix.device), []).append(matrix)
            for matrices in alike.values():
                self.move(matrices, group["lr"], group["weight_decay"])

    def move(self, matrices: list[Tensor], rate: float | Tensor, decay: float) -> None:
        """Matrices of one shape, together."""
        gradients = [cast(Tensor, matrix.grad) for matrix in matrices]
        momenta = [self.momentum_of(matrix) for matrix in matrices]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        ahead = torch._foreach_lerp(gradients, momenta, MOMENTUM)  # Nesterov's look ahead
        rows, columns = matrices[0].shape
        # A tall matrix would otherwise move its outputs less than a square one does.
        steps = orthogonal(torch.stack(ahead)) * (-rate * max(1.0, rows / columns) ** 0.5)
        if decay:
            torch._foreach_mul_(matrices, torch.as_tensor(1 - rate * decay))
        torch._foreach_add_(matrices, list(steps.to(matrices[0].dtype).unbind()))

    def momentum_of(self, matrix: Tensor) -> Tensor:
        state = self.state[matrix]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(matrix)
        return state["momentum_buffer"]


def orthogonal(matrices: Float[Tensor, "n rows columns"]) -> Float[Tensor, "n rows columns"]:
    """U V′ of each matrix U Σ V′, roughly: its singular values lie about one.

    In bfloat16 where a GPU has it: a rough answer does not need exact products.
    """
    a, b, c = QUINTIC
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices  # so that the square below is the small one
    x = x.to(torch.bfloat16 if has_bfloat16(x.device) else torch.float32)
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=TINY)  # no singular value above one
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x
