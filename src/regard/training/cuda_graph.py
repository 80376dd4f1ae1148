"""Steps recorded as CUDA graphs and played back: a small model's launches in place of its Python.

The kernels are the same and so are the results, bit for bit; only who starts them differs. Each
shape of batch gets a recording of its own. A step that cannot be recorded, because it waits for
the device somewhere, is made as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from regard.hardware.device import is_out_of_memory
from regard.training.step import Moved, Step

WARM_UP = 2  # steps of a shape before it is recorded: libraries choose kernels in the first
MOST = 128  # recordings; what comes in ever new shapes is not worth recording


class Recording:
    """One graph, the batches it reads, and the loss it writes."""

    def __init__(self, step: Step, group: Sequence[Any], pool: Any) -> None:
        self.graph = torch.cuda.CUDAGraph()
        self.batches = [own_copy(batch, step.device) for batch in group]
        for batch in self.batches:
            self.graph.register_generator_state(batch.generator)
        here = torch.cuda.current_stream(step.device)
        # Other threads may go on loading data meanwhile.
        with torch.cuda.graph(self.graph, pool, here, capture_error_mode="thread_local"):
            self.moved = step.run(self.batches)

    def play(self, group: Sequence[Any]) -> Moved:
        for own, batch in zip(self.batches, group, strict=True):
            for name, tensor in tensors_of(own).items():
                tensor.copy_(getattr(batch, name))
            own.generator.manual_seed(batch.seed)
        self.graph.replay()
        return self.moved.kept()


@cache
def stream_aside(device: torch.device) -> torch.cuda.Stream:
    """One for all steps: libraries keep some memory for every stream they have seen."""
    return torch.cuda.Stream(device)


class CudaGraphStep:
    """A step that is made a few times, then recorded, then played."""

    def __init__(self, step: Step) -> None:
        self.step, self.trouble = step, ""
        self.recordings: dict[Hashable, Recording] = {}
        self.made: Counter[Hashable] = Counter()
        self.pool = torch.cuda.graph_pool_handle()  # steps follow each other: they share memory
        self.aside = stream_aside(step.device)

    def __call__(self, group: Sequence[Any], scale: float) -> Moved:
        key = tuple(shape_of(batch) for batch in group)
        if key not in self.recordings and not self.trouble:
            if not all(map(can_be_copied, group)):
                self.trouble = "its batches have no seed and generator"
            elif self.made[key] >= WARM_UP and len(self.recordings) < MOST:
                self.record(key, group)
        self.made[key] += 1
        if key in self.recordings:
            self.step.prepare(scale)
            return self.recordings[key].play(group)
        return self.make(group, scale)

    def make(self, group: Sequence[Any], scale: float) -> Moved:
        """As a step is made without recordings, but beside the main stream, where none can be."""
        here = torch.cuda.current_stream(self.step.device)
        self.aside.wait_stream(here)
        with torch.cuda.stream(self.aside):
            moved = self.step(group, scale)
        here.wait_stream(self.aside)
        return moved

    def record(self, key: Hashable, group: Sequence[Any]) -> None:
        device = self.step.device
        torch.cuda.synchronize(device)
        numbers = torch.cuda.get_rng_state(device)
        try:
            with torch.cuda.stream(self.aside):
                self.recordings[key] = Recording(self.step, group, self.pool)
        except RuntimeError as trouble:
            renew_generator(device, numbers)
            if is_out_of_memory(trouble):
                raise
            self.trouble = str(trouble).strip().splitlines()[0]
        torch.cuda.synchronize(device)


def renew_generator(device: torch.device, state: Tensor) -> None:
    """A recording that broke off leaves the device's random numbers waiting for its end."""
    fresh = torch.Generator(device)
    fresh.set_state(state)
    at = torch.cuda.current_device() if device.index is None else device.index
    own = torch.cuda.default_generators[at]
    own.graphsafe_set_state(fresh.graphsafe_get_state())


def tensors_of(batch: Any) -> dict[str, Tensor]:
    """The tensors among the fields of a batch, by name."""
    found = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def can_be_copied(batch: Any) -> bool:
    """Whether a batch is tensors and the seed of its random numbers, and takes a generator."""
    return is_dataclass(batch) and hasattr(batch, "seed") and hasattr(batch, "generator")


def own_copy(batch: Any, device: torch.device) -> Any:
    """A batch in memory that stays, with a generator that stays."""
    copies = {name: tensor.clone() for name, tensor in tensors_of(batch).items()}
    return replace(batch, **copies, generator=torch.Generator(device).manual_seed(batch.seed))


def shape_of(batch: Any) -> Hashable:
    """What two batches must share to be played by one recording."""
    if not is_dataclass(batch):
        return None
    return tuple((name, t.shape, t.dtype) for name, t in tensors_of(batch).items())
