"""The one training loop. What differs between tasks comes in by value: batches, objective, measure.

A run that was stopped, by the keyboard, by a crash or by `kill -9`, goes on as if it had not been:
weights, optimiser, random numbers, running mean and the place in the data are all in its state.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.run_folder import RunFolder
from regard.run_folder.metric_lines import lower_is_better
from regard.training.checkpoint import pack, unpack
from regard.training.config import TrainConfig
from regard.training.cuda_graph import CudaGraphStep
from regard.training.lr_schedule import rate
from regard.training.optim import EMA, make_optimiser
from regard.training.signals import Stopped, deferred
from regard.training.step import Moved, Objective, Step

SAVING = 0.05  # share of the time that may go into states after epochs, if these are short
UNREAD = 32  # steps that a GPU may be ahead of the host, which then reads their losses at once


@runtime_checkable
class Batches(Protocol):
    """Training data as batches, in an order that the epoch's number alone decides."""

    def __len__(self) -> int:
        """Batches in an epoch."""

    def epoch(self, number: int, start: int) -> Iterator[Any]:
        """The batches of one epoch from the `start`-th on."""


# Figures after an epoch, the deciding one first; of a loss less is better, else more.
Measure = Callable[[nn.Module], dict[str, float]]
Report = Callable[["Progress"], None]


class Diverged(UserError):
    """Numbers grew out of bounds: says at which step and batch, and which state is kept."""


@dataclass
class Progress:
    """How far a run is: everything about its place that is not a tensor."""

    epoch: int = 0  # the epoch under way, from 0
    batch: int = 0  # batches of it that are done
    step: int = 0  # optimiser steps altogether
    loss: float = 0.0  # summed over the items since it was last measured
    items: int = 0
    best: float | None = None
    best_loss: float = 0.0  # which decides between epochs whose deciding figures are equal
    best_epoch: int = -1
    measured: int = 0  # epochs that were over when it was last measured
    seconds: float = 0.0  # of training, over all sittings
    waited: float = 0.0  # of these, for data
    lines: int = 0  # of metrics written
    figures: dict[str, float] = field(default_factory=dict)


def train(
    model: nn.Module,
    batches: Batches,
    objective: Objective,
    measure: Measure,
    config: TrainConfig,
    run: RunFolder,
    *,
    resume: bool = False,
    report: Report | None = None,
) -> Progress:
    """Train to the end of the last epoch, writing metrics, states and the best weights.

    Ctrl-C ends the step under way, saves, and raises KeyboardInterrupt; a second one does not wait.
    In the `regard` process SIGTERM and a closed terminal do the same, and only once.
    """
    with run.locked(), repeatable(config.deterministic):
        trainer = Trainer(model, batches, objective, measure, config, run, report)
        with deferred(trainer.interrupt):
            if resume:
                trainer.load()
            if run.latest_state() is None:  # so that there always is one to go on from
                trainer.save()
            if config.compile == "on" and model._compiled_call_impl is None:
                model.compile()  # in place: the names of the weights stay
            at = trainer.go()
        if trainer.interrupted:  # when all was done but this
            raise Stopped(trainer.interrupted)
        return at


@contextmanager
def repeatable(wanted: bool) -> Iterator[None]:
    """If wanted, refuse operations whose result depends on the order in which threads finish."""
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.benchmark = before[1]


def steps_of(config: TrainConfig, batches: int) -> int:
    """How many steps a run has whose epochs have so many batches."""
    return -(-batches // config.grad_accum_steps) * config.epochs


def loss_beside(figures: Mapping[str, float]) -> float:
    """The loss on the split of the first figure, or 0 where none was measured."""
    split = next(iter(figures), "").partition("/")[0]
    return figures.get(f"{split}/loss", 0.0)


def put_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a model its weights, or name the first that does not fit it."""
    own = model.state_dict()
    for name in (*own, *weights):
        here, there = own.get(name), weights.get(name)
        if here is None or there is None:
            raise ValueError(f"{'it' if there is None else 'the model'} has no {name}")
        if here.shape != there.shape:
            sizes = [" × ".join(map(str, one.shape)) or "one number" for one in (there, here)]
            raise ValueError(f"{name} has shape {sizes[0]}, and {sizes[1]} in the model")
    model.load_state_dict(weights)


class Unread(NamedTuple):
    """A step whose loss the host has not looked at yet."""

    moved: Moved
    step: int
    batch: int


class Trainer:
    """The loop's working parts, together so that they can be saved together."""

    def __init__(
        self,
        model: nn.Module,
        batches: Batches,
        objective: Objective,
        measure: Measure,
        config: TrainConfig,
        run: RunFolder,
        report: Report | None = None,
    ) -> None:
        if not len(batches):
            raise ValueError("there is not one batch to train on")
        self.model, self.batches, self.run, self.config = model, batches, run, config
        self.objective, self.measure, self.report = objective, measure, report
        self.device = next(model.parameters()).device
        self.optimiser = make_optimiser(model, config.optimizer)
        self.average = EMA(model, config.ema_decay) if config.ema_decay else None
        self.step: Step | CudaGraphStep = Step(
            model, objective, self.optimiser, self.average, config
        )
        if config.cuda_graph != "off" and self.device.type == "cuda":
            self.step = CudaGraphStep(self.step)
        self.unread: list[Unread] = []
        self.progress = Progress()
        self.steps = steps_of(config, len(batches))
        self.saved, self.saving = time.monotonic(), 0.0
        self.interrupted = 0  # the number of the signal that is to end the run
        random.seed(config.seed)
        torch.manual_seed(config.seed)

    def go(self) -> Progress:
        """Every epoch that is left."""
        at, config = self.progress, self.config
        while at.epoch < config.epochs and not self.patience_is_over():
            self.one_epoch()
            self.finish_epoch()
            if self.interrupted:  # while it was measured
                raise Stopped(self.interrupted)
        if at.measured < at.epoch:  # it goes on to an earlier end than was planned
            self.measure_epoch()
            self.save()
        return at

    def one_epoch(self) -> None:
        """The batches of the epoch that are left."""
        at, clock = self.progress, time.perf_counter()
        self.model.train()
        source = self.batches.epoch(at.epoch, at.batch)
        # A GPU works on what it was given while data are fetched, and waits only once that is done.
        given = torch.cuda.Event() if self.device.type == "cuda" else None
        while True:
            waiting_since = time.perf_counter()
            if given is not None:
                given.record()
            group = list(islice(source, self.config.grad_accum_steps))
            if given is None or given.query():
                at.waited += time.perf_counter() - waiting_since
            if not group:
                break
            self.one_step(group)
            now = time.perf_counter()
            at.seconds, clock = at.seconds + now - clock, now
            if self.report is not None:
                self.report(at)
            if self.interrupted or time.monotonic() - self.saved > self.config.checkpoint_seconds:
                self.read_losses()
                self.expect_numbers()
                self.save()
            if self.interrupted:
                raise Stopped(self.interrupted)

    def one_step(self, group: list[Any]) -> None:
        """Move by a few batches."""
        at = self.progress
        moved = self.step(group, rate(self.config.lr_schedule, at.step, self.steps))
        at.batch, at.step = at.batch + len(group), at.step + 1
        self.unread.append(Unread(moved, at.step, at.batch))
        if self.device.type == "cpu" or len(self.unread) >= UNREAD:
            self.read_losses()

    def read_losses(self) -> None:
        """Wait for the device, and look at every loss since it was last waited for."""
        at, unread, self.unread = self.progress, self.unread, []
        if not unread:
            return
        losses = torch.stack([each.moved.loss for each in unread]).tolist()
        for loss, each in zip(losses, unread, strict=True):
            if not math.isfinite(loss):
                raise Diverged(self.words_on(f"the loss became {loss}", each.step, each.batch))
            at.loss, at.items = at.loss + loss, at.items + int(each.moved.items)

    def finish_epoch(self) -> None:
        """Measure if it is time to, and save."""
        self.read_losses()
        self.expect_numbers()
        at, config = self.progress, self.config
        at.epoch, at.batch = at.epoch + 1, 0
        if at.epoch % config.eval_every == 0 or at.epoch == config.epochs:
            self.measure_epoch()
        over = at.epoch >= config.epochs or self.patience_is_over()
        due = time.monotonic() - self.saved >= self.saving / SAVING
        if over or self.interrupted or due:
            began = time.perf_counter()
            self.save()
            at.seconds += time.perf_counter() - began
        if self.report is not None:
            self.report(at)

    def measure_epoch(self) -> None:
        """Measure after the epochs that are over, and keep the weights if they are the best."""
        at, began = self.progress, time.perf_counter()
        own = {name: weight.clone() for name, weight in self.model.state_dict().items()}
        weights = own if self.average is None else self.average.weights
        self.model.load_state_dict(weights)
        self.model.eval()
        # As it stands, not compiled: a second model would be compiled for the shapes met here,
        # which takes longer than all of this, and its numbers would not be those of `evaluate`.
        with torch.no_grad(), torch.compiler.set_stance("force_eager"):
            at.figures = self.measure(self.model)
        name, deciding = next(iter(at.figures.items()), ("", None))
        sign = -1 if lower_is_better(name) else 1
        loss = loss_beside(at.figures)
        better = deciding is not None and (
            self.config.keep_weights == "last"
            or at.best is None
            or (sign * deciding, -loss) > (sign * at.best, -at.best_loss)
        )
        best = deciding is not None and deciding == deciding and better  # NaN is never the best
        if best:
            at.best, at.best_loss, at.best_epoch = deciding, loss, at.epoch - 1
        now = time.perf_counter()
        at.seconds, began = at.seconds + now - began, now
        line = {
            "epoch": at.epoch,
            "step": at.step,
            "train/loss": at.loss / max(1, at.items),
            "lr": self.config.optimizer.lr * rate(self.config.lr_schedule, at.step - 1, self.steps),
            "train_seconds": round(at.seconds, 3),
            "data_wait_seconds": round(at.waited, 3),
            "is_best": at.best_epoch == at.epoch - 1,  # so far; the last such has the weights kept
            **at.figures,
        }
        self.run.add_metrics(line, weights if best else None)
        self.model.load_state_dict(own)
        at.seconds += time.perf_counter() - began
        at.lines, at.measured = at.lines + 1, at.epoch
        at.loss, at.items = 0.0, 0

    def patience_is_over(self) -> bool:
        """Whether it was measured so many epochs after the best; others do not count."""
        at, patience = self.progress, self.config.patience
        return bool(patience and at.measured) and at.measured - 1 - at.best_epoch >= patience

    def expect_numbers(self) -> None:
        """A step can overflow after a loss that was still a number; never keep such weights."""
        named = dict(self.model.named_parameters())
        fine = torch.stack([weight.isfinite().all() for weight in named.values()]).tolist()
        for name, finite in zip(named, fine, strict=True):
            if not finite:
                at = self.progress
                raise Diverged(
                    self.words_on(f"{name} became larger than any number", at.step, at.batch)
                )

    def words_on(self, trouble: str, step: int, batch: int) -> str:
        """Where a run that diverged was, and which of its states is kept."""
        kept = self.run.latest_state()
        hold = f"the state after step {kept[0]} is kept" if kept else "no state had been saved yet"
        return (
            f"{trouble} at step {step} (epoch {self.progress.epoch + 1}, batch {batch}); {hold}. "
            "Try a lower learning rate or a longer warm-up"
        )

    def interrupt(self, number: int) -> None:
        """A step that is half done cannot be resumed: note what is to end it, and end the step."""
        self.interrupted = number

    # State

    def save(self) -> None:
        """Everything needed to go on from here, written whole or not at all."""
        tree = {
            "progress": asdict(self.progress),
            "model": dict(self.model.state_dict()),
            "optimiser": self.optimiser.state(),
            "average": None
            if self.average is None
            else {"weights": self.average.weights, "steps": self.average.steps},
            "random": {
                "python": random.getstate(),
                "torch": torch.get_rng_state(),
                "cuda": [torch.cuda.get_rng_state(self.device)]
                if self.device.type == "cuda"
                else [],
            },
        }
        began = time.monotonic()
        self.run.write_state(self.progress.step, *pack(tree))
        self.saved = time.monotonic()
        self.saving = self.saved - began

    def load(self) -> None:
        """Go back to the newest whole state; a run that never saved one starts at the beginning."""
        found = self.run.read_state()
        if found is None:
            if self.run.metrics() or (self.run.path / "model.safetensors").exists():
                raise UserError(
                    f"{self.run.path} has results but no state to go on from, and to begin anew "
                    "would overwrite them; begin another run"
                )
            return
        path, tensors, text = found
        try:
            tree = unpack(tensors, text)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as trouble:
            raise UserError(f"{path} is damaged and cannot be read: {trouble}") from None
        try:
            put_weights(self.model, tree["model"])
            self.optimiser.load(tree["optimiser"])
        except (RuntimeError, ValueError, KeyError) as trouble:
            first = str(trouble).strip().splitlines()[0]
            raise UserError(f"{path} belongs to another configuration: {first}") from None
        if self.average is not None and tree["average"] is not None:
            self.average.load(tree["average"]["weights"], tree["average"]["steps"])
        stored = tree["progress"]
        self.progress = Progress(**{"measured": stored["epoch"]} | stored)  # as all once were
        self.run.keep_metrics(self.progress.lines)
        random.setstate(tree["random"]["python"])
        torch.set_rng_state(tree["random"]["torch"])
        if self.device.type == "cuda" and tree["random"]["cuda"]:
            torch.cuda.set_rng_state(tree["random"]["cuda"][0], self.device)
