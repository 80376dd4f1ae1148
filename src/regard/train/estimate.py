"""How long a run will take and how much memory it will hold, from a few steps on a copy."""

from __future__ import annotations

import copy
import os
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from regard.errors import UserError
from regard.runs import RunFolder
from regard.train.config import TrainConfig
from regard.train.display import resident_memory
from regard.train.loop import Batches, Objective, Trainer

STEPS = 4  # of which the first is a warm-up


@dataclass(frozen=True)
class Estimate:
    """What a run will take."""

    seconds: float
    bytes: int | None


def estimate(
    model: nn.Module,
    batches: Batches,
    objective: Objective,
    config: TrainConfig,
    *,
    measured: int,
) -> Estimate:
    """Time a few steps on a copy of the model; the run itself is left as it was.

    `measured` is how many items are looked at after each epoch: each costs about the third of a
    training item, since nothing goes backward. Random numbers are seeded when the run begins, so
    those drawn here change nothing.
    """
    device = next(model.parameters()).device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    nowhere = RunFolder(Path(os.devnull))  # a trial writes nothing
    trial = Trainer(copy.deepcopy(model), batches, objective, lambda _: {}, config, nowhere)
    trial.model.train()
    source, times = batches.epoch(0, 0), []
    for _ in range(STEPS):
        began = time.perf_counter()
        group = list(islice(source, config.accumulate))
        if not group:
            break
        try:
            trial.one_step(group)
        except UserError:
            break  # a loss that is no number is the run's to report
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - began)
    step = min(times[1:] or times or [0.0])
    items = trial.progress.items / max(1, len(times))
    measuring = step * measured / max(1.0, items) / 3
    held = resident_memory()
    if device.type == "cuda":
        copied = sum(weight.nbytes for weight in model.parameters())  # the trial's second model
        held = torch.cuda.max_memory_reserved(device) - copied
        torch.cuda.reset_peak_memory_stats(device)
    return Estimate(trial.steps * step + config.epochs * measuring, held)
