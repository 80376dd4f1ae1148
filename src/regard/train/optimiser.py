"""Which parameters are moved how: AdamW, or Muon for the matrices inside and AdamW for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from regard.attention import Place
from regard.train.config import OptimiserConfig


class Optimisers:
    """One or two optimisers moved as one; rates are multiplied by the schedule at each step."""

    def __init__(self, parts: Iterable[Optimizer]) -> None:
        self.parts = list(parts)
        self.full = [[group["lr"] for group in part.param_groups] for part in self.parts]

    def step(self, scale: float = 1.0) -> None:
        """Move every parameter, at `scale` of the full rates."""
        for part, rates in zip(self.parts, self.full, strict=True):
            for group, full in zip(part.param_groups, rates, strict=True):
                group["lr"] = full * scale
            part.step()

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def state(self) -> list[dict[str, Any]]:
        return [part.state_dict() for part in self.parts]

    def load(self, states: list[dict[str, Any]]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)


def make_optimiser(model: nn.Module, config: OptimiserConfig) -> Optimisers:
    """The optimisers a configuration describes."""
    groups = parameter_groups(model)
    fused = {"fused": True} if _can_fuse(model) else {}
    if config.kind == "adamw":
        kinds = {"matrices": config.decay, "kernels": config.decay, "tables": 0.0, "vectors": 0.0}
        parts: list[Optimizer] = []
    else:
        kinds = {"kernels": config.decay, "tables": 0.0, "vectors": 0.0}
        matrices = list(groups["matrices"].values())
        parts = (
            [Muon(matrices, lr=config.matrix_rate, weight_decay=config.decay)] if matrices else []
        )
    chosen = [
        {"params": list(groups[kind].values()), "weight_decay": decay}
        for kind, decay in kinds.items()
        if groups[kind]
    ]
    if chosen:
        parts.insert(0, AdamW(chosen, lr=config.rate, betas=config.betas, **fused))
    return Optimisers(parts)


def parameter_groups(model: nn.Module) -> dict[str, dict[str, nn.Parameter]]:
    """Matrices of linear layers; kernels of convolutions; tables of vectors; everything else.

    Only matrices and kernels decay: a table's rows (embeddings, positions) are seen rarely, and
    norms and biases set a level. Muon moves matrices alone.
    """
    groups: dict[str, dict[str, nn.Parameter]] = {
        kind: {} for kind in ("matrices", "kernels", "tables", "vectors")
    }
    seen: set[int] = set()
    for name, module in model.named_modules():
        for part, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad or id(parameter) in seen:
                continue
            seen.add(id(parameter))  # a shared parameter moves once
            table = isinstance(module, (nn.Embedding, Place))
            large = "matrices" if parameter.ndim == 2 else "kernels"
            kind = "vectors" if parameter.ndim < 2 else "tables" if table else large
            groups[kind][f"{name}.{part}" if name else part] = parameter
    return groups


class Average:
    """A running mean of the weights (EMA), kept beside the model and swapped in to measure."""

    def __init__(self, model: nn.Module, keep: float) -> None:
        if not 0 <= keep < 1:
            raise ValueError(f"keep={keep}: an average keeps a share in 0 ≤ … < 1")
        self.keep, self.steps = keep, 0
        self.weights = {name: w.detach().clone() for name, w in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move towards the model; early on faster, so that the first weights are soon forgotten."""
        self.steps += 1
        keep = min(self.keep, self.steps / (self.steps + 9))
        for name, weight in model.state_dict().items():
            mean = self.weights[name]
            if mean.is_floating_point():
                mean.lerp_(weight.to(mean.dtype), 1 - keep)
            else:
                mean.copy_(weight)

    def load(self, weights: Mapping[str, Tensor], steps: int) -> None:
        self.steps = steps
        for name, weight in weights.items():
            self.weights[name].copy_(weight)


def _can_fuse(model: nn.Module) -> bool:
    return all(
        p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in model.parameters()
    )
