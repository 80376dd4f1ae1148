"""How long a step of training takes on this machine, and how much memory, before it is made.

A machine has a peak: so many multiply-adds a second, so many bytes. No model reaches it, since
small products, exponentials and the calls themselves take time of their own. So one layer of each
kind is timed at its real size, for a moment, and as many are added up as the model has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from regard.count.built import built, inputs, loss_of
from regard.count.closed import costs
from regard.count.cost import NUMBER, Sizes, total, training_peak
from regard.count.measured import moved_to
from regard.model.block import Block
from regard.model.davit import AroundBlock
from regard.train.config import TrainConfig
from regard.train.device import has_bfloat16
from regard.train.optimiser import make_optimiser
from regard.train.step import Step

MOMENT = 0.3  # seconds that each thing is timed for
LEAST = 7  # times at least
BACKWARD = 2  # products on the way back for each on the way forth: by its weights, by its inputs


@dataclass(frozen=True)
class Peak:
    """What a machine does at best."""

    multiply_adds: float
    """In a second, in a large product of matrices."""
    bytes: float
    """Read and written in a second, in a large copy."""

    def seconds(self, multiply_adds: int, moved: int) -> float:
        """What a computation takes at least: its products, and beside them its memory."""
        return max(multiply_adds / self.multiply_adds, moved / self.bytes)


@dataclass(frozen=True)
class Estimate:
    """What one step of training takes."""

    seconds: float
    at_peak: float
    """Seconds if all of it ran at the machine's peak: forward and backward products, memory."""
    bytes: int
    layers: dict[str, float]
    """Seconds of one layer of each kind, there and back, with its share of the optimiser."""
    around: float
    """Seconds of everything else."""
    peak: Peak
    real: float | None = None
    """Seconds of a real step of the whole model, if it was made too."""


def estimate(
    config: Any, sizes: Sizes, device: str | torch.device = "cpu", *, check: bool = False
) -> Estimate:
    """Time one layer of each kind, and the model with one of each; add up what it has more.

    `check` makes real steps as well, in turns with them, to hold the estimate against.
    """
    device = torch.device(device)
    listed = costs(config, sizes)
    machine = measured_peak(device)
    thin = thinned(config)
    model = built(thin, sizes).to(device).train()
    given = tree_map(lambda x: moved_to(x, device), inputs(thin, sizes))
    steps = {"": step_of(model, lambda module: loss_of(thin, module(*given)))}
    if check:
        whole = built(config, sizes).to(device).train()
        steps["real"] = step_of(whole, lambda module: loss_of(config, module(*given)))
    for path, (block, args, options) in inputs_of_blocks(model, given).items():
        steps[path] = step_of(block, partial(backed, args=args, options=options))
    layers = fastest(steps, device)
    shallow, real = layers.pop(""), layers.pop("real", None)
    more = sum((depth_of(config, path) - 1) * seconds for path, seconds in layers.items())
    products = (1 + BACKWARD) * total(listed, "multiply_adds")
    moved = (1 + BACKWARD) * total(listed, "moved") * NUMBER
    return Estimate(
        shallow + more,
        machine.seconds(products, moved),
        training_peak(listed) * NUMBER,
        layers,
        max(0.0, shallow - sum(layers.values())),
        machine,
        real,
    )


def measured_peak(device: torch.device) -> Peak:
    """The fastest of several large products, and of several large copies."""
    gpu = device.type == "cuda"
    side, room = (4096, 1 << 28) if gpu else (768, 1 << 24)
    kind = torch.bfloat16 if has_bfloat16(device) else torch.float32
    a, b = (torch.rand(side, side, device=device).to(kind) for _ in range(2))
    source = torch.rand(room // NUMBER, device=device)
    target = torch.empty_like(source)
    took = fastest({"product": lambda: a @ b, "copy": lambda: target.copy_(source)}, device)
    return Peak(side**3 / took["product"], 2 * source.nbytes / took["copy"])


def step_of(module: nn.Module, loss: Callable[[nn.Module], Tensor]) -> Callable[[], Any]:
    """A step as training makes it: forward, backward, clipping, AdamW."""
    config = TrainConfig()
    optimiser = make_optimiser(module, config.optimiser)
    step = Step(module, lambda model, _: (loss(model), 1), optimiser, None, config)
    return lambda: step([None], 1e-6)


def fastest(actions: Mapping[str, Callable[[], Any]], device: torch.device) -> dict[str, float]:
    """Seconds of each action, the fastest of several, as `regard.train.estimate` takes it.

    They take turns, so that whatever else the machine does meets them all alike; the first two
    turns are a warm-up.
    """

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    taken: dict[str, list[float]] = {name: [] for name in actions}
    spent, turns = 0.0, 0
    while turns < LEAST or spent < MOMENT * len(actions):
        for name, action in actions.items():
            wait()
            began = time.perf_counter()
            action()
            wait()
            taken[name].append(time.perf_counter() - began)
            spent += taken[name][-1]
        turns += 1
    return {name: min(seconds[2:]) for name, seconds in taken.items()}


def backed(block: nn.Module, args: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    """A block's output as something to go back from, to its inputs as well."""
    out: Tensor = block(*args, **options)
    return out.sum()


Seen = dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any]]]


def inputs_of_blocks(model: nn.Module, given: tuple[Any, ...]) -> Seen:
    """Every block of a model with what it is given, by its name."""
    seen: Seen = {}
    hooks = []
    for name, module in model.named_modules():
        if isinstance(module, (Block, AroundBlock)):

            def note(
                block: nn.Module, args: Any, options: dict[str, Any], name: str = name
            ) -> None:
                seen[name] = (block, tree_map(fresh, args), tree_map(fresh, options))

            hooks.append(module.register_forward_pre_hook(note, with_kwargs=True))
    try:
        model(*given)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def fresh(x: Any) -> Any:
    """The same numbers, from which gradients go no further."""
    if isinstance(x, Tensor) and x.is_floating_point():
        return x.detach().clone().requires_grad_()
    return x


def thinned(config: Any) -> Any:
    """The same with one layer of each kind."""
    known = {field.name for field in fields(config)}
    changes: dict[str, Any] = {}
    if "layers" in known:
        changes["layers"] = 1
    if "reading_layers" in known:
        changes["reading_layers"] = 1
    if "depths" in known:
        changes["depths"] = (1,) * len(config.depths)
    if "encoder" in known:
        changes["encoder"] = thinned(config.encoder)
    return replace(config, **changes)


def depth_of(config: Any, path: str) -> int:
    """How many layers of the kind that has this name in the thin model there are."""
    match path.split("."):
        case ["stages", stage, *_]:
            return int(config.depths[int(stage)])
        case ["encoder", "blocks", *_]:
            return int(config.encoder.layers)
        case ["encoder", *_]:
            return int(config.reading.layers)
    return int(config.layers)
