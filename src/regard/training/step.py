"""One step of training: the gradients of a few batches, summed, and one move of the weights.

`prepare` is what the host decides anew each time; `run` is what the device does, and waits for
nothing: so it can be recorded once and played back (`regard.training.cuda_graph`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.hardware.device import has_bfloat16
from regard.training.config import TrainConfig
from regard.training.optim import EMA, Optimizers

# The summed loss, and over how many items: a number if every batch of that shape has as many.
Objective = Callable[[nn.Module, Any], tuple[Tensor, int | Tensor]]


class Moved(NamedTuple):
    """What a step saw: the loss, summed and still on the device, and over how many items."""

    loss: Tensor
    items: int | Tensor

    def kept(self) -> Moved:
        """The same, safe from the next step where that writes to the same place."""
        items = self.items.clone() if isinstance(self.items, Tensor) else self.items
        return Moved(self.loss.clone(), items)


class Step:
    """The parts that move together, and how."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        optimiser: Optimizers,
        average: EMA | None,
        config: TrainConfig,
    ) -> None:
        self.model, self.objective = model, objective
        self.optimiser, self.average, self.config = optimiser, average, config
        self.device = next(model.parameters()).device

    def __call__(self, group: Sequence[Any], scale: float) -> Moved:
        """Move by what the batches of a group say, at `scale` of the full rates."""
        self.prepare(scale)
        return self.run(group)

    def prepare(self, scale: float) -> None:
        self.optimiser.set_rates(scale)
        if self.average is not None:
            self.average.advance()

    def run(self, group: Sequence[Any]) -> Moved:
        self.optimiser.zero_grad()
        total = torch.zeros((), device=self.device)
        items: int | Tensor = 0
        for batch in group:
            with self.arithmetic():
                loss, count = self.objective(self.model, batch)
            loss.backward()
            total, items = total + loss.detach(), items + count
        # Gradients of sums, divided once: the same however the items were cut into batches.
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        some = items.clamp(min=1) if isinstance(items, Tensor) else max(1, items)
        torch._foreach_div_([p.grad for p in parameters if p.grad is not None], some)
        if self.config.grad_clip:
            nn.utils.clip_grad_norm_(parameters, self.config.grad_clip, foreach=True)
        self.optimiser.step()
        if self.average is not None:
            self.average.update(self.model)
        return Moved(total, items)

    def arithmetic(self) -> AbstractContextManager[Any]:
        """bfloat16 where it is asked for, or where a GPU has it; never on a CPU unasked."""
        wanted = self.config.precision
        if wanted == "auto":
            wanted = "bf16" if has_bfloat16(self.device) else "fp32"
        if wanted == "fp32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)
