"""Which parameters are moved how: AdamW, or Muon for the matrices inside and AdamW for the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from regard.attention import PositionalEncoding
from regard.training.config import OptimizerConfig
from regard.training.muon import Muon

# What belongs to the device rather than to the run: a state from elsewhere does not bring its own.
OF_THE_DEVICE = ("lr", "fused", "capturable", "foreach")


class Optimizers:
    """Some optimisers moved as one; rates are multiplied by the schedule at each step.

    Rates are numbers, or tensors on a GPU, where a step that was recorded reads them anew.
    """

    def __init__(self, parts: Iterable[tuple[Sequence[float], Optimizer]]) -> None:
        parts = list(parts)
        self.full = [full for full, _ in parts]  # the rate of each group of parameters
        self.parts = [part for _, part in parts]

    def set_rates(self, scale: float) -> None:
        """Let the next step be at `scale` of the full rates."""
        for rates, part in zip(self.full, self.parts, strict=True):
            for full, group in zip(rates, part.param_groups, strict=True):
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(full * scale)
                else:
                    group["lr"] = full * scale

    def step(self) -> None:
        """Move every parameter."""
        for part in self.parts:
            part.step()

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def state(self) -> list[dict[str, Any]]:
        return [part.state_dict() for part in self.parts]

    def load(self, states: list[dict[str, Any]]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            own = [{name: group.get(name) for name in OF_THE_DEVICE} for group in part.param_groups]
            part.load_state_dict(state)
            for group, ours in zip(part.param_groups, own, strict=True):
                group.update({name: value for name, value in ours.items() if name in group})


M = TypeVar("M", bound=nn.Module)


def come_trained(module: M) -> M:
    """Mark a part whose weights were learnt elsewhere: it is moved at a share of the rate."""
    module.comes_trained = True  # type: ignore[assignment]
    return module


def make_optimiser(model: nn.Module, config: OptimizerConfig) -> Optimizers:
    """The optimisers a configuration describes; what comes trained has some of its own."""
    groups, shares = parameter_groups(model), trained_shares(model, config)
    parts: list[tuple[Sequence[float], Optimizer]] = []
    for trained in (False, True)[: 1 + bool(shares)]:
        some = {
            kind: [each for each in group.values() if (id(each) in shares) == trained]
            for kind, group in groups.items()
        }
        parts += optimisers_of(some, config, shares, fused=_can_fuse(model))
    return Optimizers(parts)


def trained_shares(model: nn.Module, config: OptimizerConfig) -> dict[int, float]:
    """The share of the rate at which each parameter that comes trained is moved, by its id."""
    return {
        id(parameter): config.pretrained_lr_scale * config.layer_decay**above
        for module in model.modules()
        if getattr(module, "comes_trained", False)
        for parameter, above in blocks_above(module)
    }


def blocks_above(module: nn.Module) -> Iterator[tuple[nn.Parameter, int]]:
    """Each parameter of a module, and how many blocks of its stack come after it.

    Parts are declared in the order in which data go through them, so what stands before the list
    of blocks, such as a table of words, lies beneath them all.
    """
    stack = next((part for part in module.children() if isinstance(part, nn.ModuleList)), ())
    above = len(stack)
    yield from ((parameter, above) for parameter in module.parameters(recurse=False))
    for part in module.children():
        for block in part if part is stack else [part]:
            above -= part is stack
            yield from ((parameter, above) for parameter in block.parameters())


def optimisers_of(
    groups: Mapping[str, list[nn.Parameter]],
    config: OptimizerConfig,
    shares: Mapping[int, float],
    *,
    fused: bool,
) -> Iterator[tuple[Sequence[float], Optimizer]]:
    """AdamW, or Muon and AdamW, each with its full rates, for what there is to be moved."""
    muon = config.name == "muon"
    decays = {
        "matrices": config.weight_decay,
        "kernels": config.weight_decay,
        "tables": 0.0,
        "vectors": 0.0,
    }

    def ready(kinds: Iterable[str], rate: float) -> tuple[list[float], list[dict[str, Any]]]:
        """The full rate of each group of parameters, and the groups: those that move alike."""
        rates, made = [], []
        for kind in kinds:
            alike: dict[float, list[nn.Parameter]] = {}
            for each in groups[kind]:
                alike.setdefault(rate * shares.get(id(each), 1.0), []).append(each)
            for full, some in alike.items():
                rates.append(full)
                lr = torch.tensor(full, device=some[0].device) if some[0].is_cuda else full
                made.append({"params": some, "lr": lr, "weight_decay": decays[kind]})
        return rates, made

    rates, made = ready((kind for kind in decays if not (muon and kind == "matrices")), config.lr)
    if made:
        capturable = made[0]["params"][0].is_cuda
        options = {"betas": config.betas, "fused": fused or None, "capturable": capturable}
        yield rates, AdamW(made, lr=made[0]["lr"], **options)
    rates, made = ready(("matrices",) if muon else (), config.muon_lr)
    if made:
        yield rates, Muon(made)


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
            table = isinstance(module, (nn.Embedding, PositionalEncoding))
            large = "matrices" if parameter.ndim == 2 else "kernels"
            kind = "vectors" if parameter.ndim < 2 else "tables" if table else large
            groups[kind][f"{name}.{part}" if name else part] = parameter
    return groups


class EMA:
    """A running mean of the weights (EMA), kept beside the model and swapped in to measure."""

    def __init__(self, model: nn.Module, keep: float) -> None:
        if not 0 <= keep < 1:
            raise ValueError(f"ema_decay={keep}: a share lies in 0 ≤ … < 1")
        self.keep, self.steps = keep, 0
        self.weights = {name: w.detach().clone() for name, w in model.state_dict().items()}
        device = next(model.parameters()).device
        self.taken: float | Tensor = (
            torch.zeros((), device=device) if device.type == "cuda" else 0.0
        )

    def advance(self) -> None:
        """Say how much the next update takes: early on more, so the first weights are forgotten."""
        self.steps += 1
        taken = 1 - min(self.keep, self.steps / (self.steps + 9))
        if isinstance(self.taken, Tensor):
            self.taken.fill_(taken)
        else:
            self.taken = taken

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move towards the model."""
        means, weights = [], []
        for name, weight in model.state_dict().items():
            mean = self.weights[name]
            if mean.is_floating_point():
                means.append(mean)
                weights.append(weight.to(mean.dtype))
            else:
                mean.copy_(weight)
        ahead = torch._foreach_sub(weights, means)
        torch._foreach_mul_(ahead, self.taken)
        torch._foreach_add_(means, ahead)

    def load(self, weights: Mapping[str, Tensor], steps: int) -> None:
        self.steps = steps
        for name, weight in weights.items():
            self.weights[name].copy_(weight)


def _can_fuse(model: nn.Module) -> bool:
    return all(
        p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in model.parameters()
    )
