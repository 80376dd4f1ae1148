"""How long a run will take and how much memory it will hold, from a few steps on a copy."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count, islice, repeat
from pathlib import Path

import torch
from torch import nn

from regard.errors import UserError
from regard.hardware.device import resident_memory
from regard.run_folder import RunFolder
from regard.training.config import TrainConfig
from regard.training.cuda_graph import MOST
from regard.training.fit import Batches, Progress, Report, Trainer, steps_of
from regard.training.progress_line import duration
from regard.training.step import Objective
from regard.training.threads import compare_threads, fewest_of_the_fast, threads_to_try

STEPS = 12  # on a GPU, of which the first few are a warm-up
WORTH = 1.05  # steps are recorded and replayed where that is so much faster
# On an H200 a compiled ViT trains 1.2 to 1.5 times as fast (docs/results.md), and takes 17 to 45 s
# to compile: a run of so many seconds saves that, and a longer one more.
EARNS_COMPILING = 150.0
EARNS_RECORDINGS = 10  # epochs
WRONG = 2.0  # an estimate that is so many times off is corrected aloud
WORTH_SAYING = 2.0  # seconds by which it is off


@dataclass(frozen=True)
class Estimate:
    """What a run will take, and whether recording its steps and compiling it pay."""

    seconds: float
    bytes: int | None
    capture: bool = False
    compile: bool = False
    threads: dict[int, float] | None = None  # seconds of a step by number of threads, on a CPU

    @property
    def chosen_threads(self) -> int | None:
        """The number of threads that the run should take."""
        return fewest_of_the_fast(self.threads) if self.threads else None


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
    plain = timed(model, batches, objective, replace(config, cuda_graph="off"))
    fastest, capture = plain, False
    # Batches of different shapes need a recording each, and each is earned back an epoch at a time.
    few = shapes_of(batches) <= MOST and (
        shapes_of(batches) == 1 or config.epochs > EARNS_RECORDINGS
    )
    if device.type == "cuda" and (
        config.cuda_graph == "on" or (config.cuda_graph == "auto" and few)
    ):
        recorded = timed(model, batches, objective, replace(config, cuda_graph="on"))
        capture = config.cuda_graph == "on" or plain.seconds > WORTH * recorded.seconds
        fastest = recorded if capture else plain
    steps = steps_of(config, len(batches))
    measuring = fastest.seconds * measured / max(1.0, fastest.items) / 3
    seconds = steps * fastest.seconds + -(-config.epochs // config.eval_every) * measuring
    # Compiled numbers are rounded elsewhere, so a run that must repeat itself says so itself.
    earned = device.type == "cuda" and seconds > EARNS_COMPILING and not config.deterministic
    compiles = earned if config.compile == "auto" else config.compile == "on"
    return Estimate(seconds, fastest.bytes, capture, compiles, plain.threads)


@dataclass(frozen=True)
class Timed:
    """One step: how long, over how many items, and the most memory held."""

    seconds: float
    items: float
    bytes: int | None
    threads: dict[int, float] | None = None  # how long with each number of threads that was tried


def timed(model: nn.Module, batches: Batches, objective: Objective, config: TrainConfig) -> Timed:
    """One step, from a few: on a GPU the fastest; on a CPU the median, by number of threads.

    On a CPU, torch is left with the number of threads to go on with.
    """
    device = next(model.parameters()).device
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    nowhere = RunFolder(Path(os.devnull))  # a trial writes nothing
    trial = Trainer(copy.deepcopy(model), batches, objective, lambda _: {}, config, nowhere)
    trial.model.train()
    source = chain.from_iterable(batches.epoch(number, 0) for number in count())
    together = min(config.grad_accum_steps, len(batches))  # a step ends with its epoch
    if shapes_of(batches) > 1:  # the same ones again, or none would come often enough to be played
        source = chain.from_iterable(repeat(list(islice(source, together))))

    def step() -> None:
        group = list(islice(source, together))
        with suppress(UserError):  # a loss that is no number is the run's to report
            trial.one_step(group)
            trial.read_losses()

    if device.type == "cpu":
        threads = compare_threads(threads_to_try(config.threads), step)
        chosen = fewest_of_the_fast(threads)
        torch.set_num_threads(chosen)
        items = trial.progress.items / max(1, trial.progress.step)
        return Timed(threads[chosen], items, resident_memory(), threads)
    times = []
    for _ in range(STEPS if on_gpu else 4):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    held = resident_memory()
    if on_gpu:
        copied = sum(weight.nbytes for weight in model.parameters())  # the trial's second model
        held = torch.cuda.max_memory_reserved(device) - copied
        torch.cuda.reset_peak_memory_stats(device)
    return Timed(min(times[1:]), trial.progress.items / len(times), held)


def correction(
    expected: float, steps: int, say: Callable[[str], None], *, first: int = 0
) -> Report:
    """Says once, after the first epoch, if what is left takes twice or half as long as expected.

    `expected` are seconds for all `steps`; a compiled run is looked at after its second epoch,
    since compiling is in the first.
    """
    began: Progress | None = None
    spoken = False

    def report(at: Progress) -> None:
        nonlocal began, spoken
        if began is None:
            began = replace(at)
        if spoken or at.batch or at.epoch <= began.epoch + first or at.step <= began.step:
            return
        spoken = True
        steps_left = steps - at.step
        now = steps_left * (at.seconds - began.seconds) / (at.step - began.step)
        before = steps_left * expected / steps
        if max(now, before) >= WRONG * min(now, before) and abs(now - before) >= WORTH_SAYING:
            say(
                f"the estimate was wrong: what is left takes about {duration(now)}, "
                f"not {duration(before)}"
            )

    return report


def shapes_of(batches: Batches) -> int:
    """How many shapes batches come in: one, unless they know better."""
    return getattr(batches, "shapes", 1)
