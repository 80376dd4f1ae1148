"""How long a step of training takes on this machine, and how much memory, before it is made.

A machine has a peak: so many multiply-adds a second, so many bytes. No model reaches it, since
small products, exponentials and the calls themselves take time of their own. So the model is timed
for a moment with one layer of each kind and with a few more, at its real sizes, and as many are
added up as it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from regard.count.closed import costs
from regard.count.formulas import NUMBER, Sizes, total, training_peak
from regard.count.measured import moved_to
from regard.count.model import built, inputs, loss_of
from regard.hardware.device import has_bfloat16
from regard.training.config import TrainConfig
from regard.training.optim import make_optimiser
from regard.training.step import Step

MOMENT = 0.3  # seconds that each thing is timed for
LEAST = 7  # times at least
MORE = 2  # layers of a kind that are added to see what one adds: with one, chance would show more
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
    """The most that is held: from the allocator of a GPU, or in closed form."""
    layers: dict[str, float]
    """Seconds that one layer of each kind adds, there and back and in the optimiser."""
    around: float
    """Seconds of everything else."""
    peak: Peak
    real: float | None = None
    """Seconds of a real step of the whole model, if it was made too."""
    real_bytes: int | None = None
    """The most memory that it held, where the device counts that."""


def estimate(
    config: Any, sizes: Sizes, device: str | torch.device = "cpu", *, check: bool = False
) -> Estimate:
    """Time the model with one layer of each kind, and with a few more of each; the rest is a sum.

    What a layer adds is taken from the difference, for alone it would pay what a step costs
    anyway, which on a GPU is more than a small layer. `check` makes real steps as well, in turns
    with them, to hold the estimate against.
    """
    device = torch.device(device)
    listed = costs(config, sizes)
    machine = measured_peak(device)
    wanted = depths(config)
    one = dict.fromkeys(wanted, 1)
    deep = [name for name, depth in wanted.items() if depth > 1]
    models = {"": one, **{name: one | {name: 1 + MORE} for name in deep}}
    if check:
        models["real"] = wanted
    steps, held = {}, {}
    for name, deeper in models.items():
        before = allocated(device)
        steps[name] = step_on(with_depths(config, deeper), sizes, device)
        held[name] = peak_of(steps[name], device) - before
    took = fastest(steps, device)
    seconds, memory = added_up(took, wanted), added_up(held, wanted)
    products = (1 + BACKWARD) * total(listed, "multiply_adds")
    moved = (1 + BACKWARD) * total(listed, "moved") * NUMBER
    gpu = device.type == "cuda"
    return Estimate(
        seconds.all,
        machine.seconds(products, moved),
        round(memory.all) if gpu else training_peak(listed) * NUMBER,
        seconds.layers,
        seconds.around,
        machine,
        took.get("real"),
        held.get("real") if gpu else None,
    )


class Sum(NamedTuple):
    """What a model takes: altogether, one layer of each kind, and all else."""

    all: float
    layers: dict[str, float]
    around: float


def added_up(found: Mapping[str, float], wanted: Mapping[str, int]) -> Sum:
    """From what models with one layer of each kind, and with a few more, take."""
    shallow = found[""]
    layers = {name: max(0.0, found[name] - shallow) / MORE for name in wanted if name in found}
    more = sum((wanted[name] - 1) * each for name, each in layers.items())
    return Sum(shallow + more, layers, max(0.0, shallow - sum(layers.values())))


def allocated(device: torch.device) -> int:
    """Bytes in use on a GPU; a CPU has no such count."""
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def peak_of(step: Callable[[], Any], device: torch.device) -> int:
    """The most bytes in use in a step on a GPU, once the optimiser has its own."""
    if device.type != "cuda":
        return 0
    step()
    torch.cuda.reset_peak_memory_stats(device)
    step()
    return torch.cuda.max_memory_allocated(device)


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


def step_on(config: Any, sizes: Sizes, device: torch.device) -> Callable[[], Any]:
    """A step as training makes it: forward, backward, clipping, AdamW."""
    module = built(config, sizes).to(device).train()
    given = tree_map(lambda x: moved_to(x, device), inputs(config, sizes))
    train = TrainConfig()
    optimiser = make_optimiser(module, train.optimizer)
    step = Step(
        module, lambda model, _: (loss_of(config, model(*given)), 1), optimiser, None, train
    )
    return lambda: step([None], 1e-6)


def fastest(actions: Mapping[str, Callable[[], Any]], device: torch.device) -> dict[str, float]:
    """Seconds of each action, the fastest of several, as `regard.training.estimate` takes it.

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


def depths(config: Any) -> dict[str, int]:
    """How many layers of each kind a model has, by the field that says so."""
    known = {field.name for field in fields(config)}
    found: dict[str, int] = {}
    if "encoder" in known:
        found |= {f"encoder.{name}": depth for name, depth in depths(config.encoder).items()}
    if "encoder_layers" in known:
        found["encoder_layers"] = config.encoder_config.layers
    if "layers" in known:
        found["layers"] = config.layers
    if "depths" in known:
        found |= {f"depths.{stage}": depth for stage, depth in enumerate(config.depths)}
    return found


def thinned(config: Any) -> Any:
    """The same with one layer of each kind."""
    return with_depths(config, dict.fromkeys(depths(config), 1))


def with_depths(config: Any, wanted: Mapping[str, int]) -> Any:
    """The same with other numbers of layers, said as `depths` says them."""
    changes: dict[str, Any] = {}
    inner = {}
    for name, depth in wanted.items():
        match name.split("."):
            case ["encoder", *path]:
                inner[".".join(path)] = depth
            case ["depths", _]:
                changes["depths"] = (*changes.get("depths", ()), depth)
            case _:
                changes[name] = depth
    if inner:
        changes["encoder"] = with_depths(config.encoder, inner)
    return replace(config, **changes)
