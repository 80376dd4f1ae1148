"""Choices side by side: each trained with several seeds, counted, timed, and told in one table.

Trainings are worked on several at a time, each in a process of its own; on one GPU they share it.
What is done is written down after each. Runs disturb one another, so speed and memory are measured
when all are over: in this process alone, the choices taking turns, with nothing else on the device.

A module has choices to compare and says what each of them is (`Compared`); `compare` does the rest.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from pathlib import Path
from statistics import mean, quantiles
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table

from regard.config import change
from regard.errors import UserError, nearest
from regard.hardware.device import choose_device
from regard.run_folder import RunFolder, epochs_in
from regard.runs.processes import Row, in_processes, tell, written
from regard.runs.recipe import Recipe, choose_recipe
from regard.runs.run import Run, load
from regard.runs.session import Session, parameters
from regard.runs.sweep_figure import Labels, draw
from regard.tasks import find
from regard.tasks.task import batch_field
from regard.training.estimate import estimate
from regard.training.fit import Trainer

ROUNDS = 7  # in which the choices take turns
TURN = 0.5  # seconds of a turn, at the least
WARM_UP = 6  # steps before that: kernels are compiled in them, and steps recorded


# What is asked, and of what


@dataclass(frozen=True)
class ComparisonOptions:
    """What every comparison can be told."""

    recipe: str = ""
    """What all choices are trained by."""
    seeds: int = 3
    """Runs of each choice."""
    workers: int = 1
    """Runs at a time."""
    device: str = "auto"
    """Where they are worked on."""
    epochs: int | None = None
    """Epochs of each run, if not those of the recipe."""
    variants: tuple[str, ...] = ()
    """Which are compared; all when none is named."""
    record: Path | None = None
    """Where the figures are written, as JSON, and drawn, as PNG beside it."""
    one: str = ""
    """A choice and a seed, as JSON: work on these alone, and print what came of it."""
    runs: Path | None = None
    """Where runs are kept; else they are thrown away."""


class Choice(NamedTuple):
    """What is trained: a recipe, the fields of its configuration that differ, and that in words."""

    recipe: str
    changes: Mapping[str, Any]
    words: str


class Compared(NamedTuple):
    """What a module compares."""

    module: str
    task: str
    choices: Callable[[Any], Mapping[str, Choice]]  # by name, of what was asked
    judged: Callable[[Run], Row]  # the figures of a run, the deciding one first
    labels: Labels


def compare_or_say(how: ComparisonOptions, what: Compared) -> None:
    """Compare, as a command: a mistake in what was asked ends it with a sentence."""
    try:
        compare(how, what)
    except UserError as trouble:
        raise SystemExit(str(trouble)) from None


def compare(how: ComparisonOptions, what: Compared) -> None:
    """Every choice with every seed, then its speed; a table, and perhaps a file and a picture."""
    choices = what.choices(how)
    if how.one:
        name, seed = json.loads(how.one)
        tell([worked(how, what, name, choices[name], seed)])
        return
    for name in how.variants:
        if name not in choices:
            raise UserError(f"there is no choice named {name!r}; {nearest(name, choices)}")
    if how.record is not None and not how.record.absolute().parent.is_dir():
        raise UserError(f"--save-results {how.record}: there is no folder {how.record.parent}")
    names = how.variants or tuple(choices)
    jobs = {
        f"{name}, seed {seed}": [*job_flags(how), "--one", json.dumps([name, seed])]
        for seed in range(how.seeds)
        for name in names
    }
    rows: list[Row] = []
    trouble: RuntimeError | None = None
    try:
        for found in in_processes(what.module, jobs, how.workers, runs=how.runs):
            rows += found
            keep(how, what, names, rows, {})
    except RuntimeError as failed:  # of some, which does not make the others worth less
        trouble = failed
    done = [name for name in names if any(row["choice"] == name for row in rows)]
    if done:
        speeds = timed(how, what, {name: choices[name] for name in done})
        keep(how, what, names, rows, speeds)
        lines = summarised(rows, speeds, names)
        if how.record is not None:
            draw(lines, what.labels, how.record.with_suffix(".png"))
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(table(lines, what.labels))
    if trouble is not None:
        raise trouble


def job_flags(how: ComparisonOptions) -> list[str]:
    """The flags of a comparison, as its jobs are given them."""
    skipped = ("seeds", "workers", "variants", "record", "one", "runs")
    words = []
    for name, value in vars(how).items():
        if name not in skipped and value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def keep(
    how: ComparisonOptions,
    what: Compared,
    names: Sequence[str],
    rows: Sequence[Row],
    speeds: Mapping[str, Row],
) -> None:
    """Write down every run so far, and what they come to."""
    if how.record is None:
        return
    words = ["python", "-m", what.module, *job_flags(how), "--seeds", str(how.seeds)]
    words += ["--variants", *how.variants] if how.variants else []
    written(
        how.record,
        command=shlex.join(words),
        device=how.device,
        seeds=how.seeds,
        rows=list(rows),
        speed=dict(speeds),
        summary=summarised(rows, speeds, names),
    )


# Trainings


def worked(how: ComparisonOptions, what: Compared, name: str, choice: Choice, seed: int) -> Row:
    """Train a choice with a seed: its figures, its size, and what one forward pass computes."""
    assert how.runs is not None
    run = trained(
        what.task, choice.recipe, {**choice.changes, "train.seed": seed}, how.device, how.runs
    )
    return {
        "choice": name,
        "seed": seed,
        "words": choice.words,
        **what.judged(run),
        "parameters": parameters(run.model),
        "epochs": epochs_in(run.metrics),
        "seconds": run.metrics[-1]["train_seconds"],
    }


def trained(task: str, recipe: str, changes: Mapping[str, Any], device: str, root: Path) -> Run:
    """A run by a recipe, with nothing measured or drawn that is not asked for here."""
    chosen, config = configured(task, recipe, changes)
    session = Session(find(task).load(), config, chosen, quiet=True)
    folder = session.go(out=None, root=root, resume=False, device=device)
    return load(folder.path, device=device)


def configured(task: str, recipe: str, changes: Mapping[str, Any]) -> tuple[Recipe, Any]:
    """A recipe, and its configuration with changes."""
    chosen = choose_recipe(task, recipe)
    config: Any = chosen.config(find(task).load_config())
    return chosen, change(config, changes)


# Speed and memory, when nothing else is on the device


def timed(how: ComparisonOptions, what: Compared, choices: Mapping[str, Choice]) -> dict[str, Row]:
    """Items a second in training and, on a GPU, the peak of memory in a step, of each choice."""
    device = choose_device(how.device)
    loops: dict[str, Loop] = {}
    found: dict[str, Row] = {}
    for name, choice in choices.items():
        _, config = configured(what.task, choice.recipe, choice.changes)
        loops[name], peak = Loop.of(what.task, config, device)
        found[name] = {} if peak is None else {"peak_bytes": peak}
    for name, rates in in_turns(loops).items():
        low, middle, high = quantiles(rates, n=4, method="inclusive")
        found[name] |= {"items_per_second": middle, "quartiles": [low, high]}
        found[name] |= {"batch": loops[name].batch, "recorded": loops[name].recorded}
    return found


def in_turns(loops: Mapping[str, Loop], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Items a second of each turn; rounds start with another loop in turn, so drift hits all."""
    steps = {name: loop.steps_for(TURN) for name, loop in loops.items()}
    rates: dict[str, list[float]] = {name: [] for name in loops}
    names = list(loops)
    for first in range(rounds):
        for at in range(len(names)):
            name = names[(first + at) % len(names)]
            rates[name].append(loops[name].rate(steps[name]))
    return rates


class Loop:
    """A training that goes on step by step for as long as it is asked to, and keeps nothing."""

    def __init__(self, trainer: Trainer, batch: int) -> None:
        self.trainer, self.batch = trainer, batch
        self.recorded = trainer.config.cuda_graph == "on"
        self.source = chain.from_iterable(trainer.batches.epoch(at, 0) for at in count())
        trainer.model.train()

    @classmethod
    def of(cls, name: str, config: Any, device: torch.device) -> tuple[Loop, int | None]:
        """The loop of a configuration, and the most bytes that a step of it held on a GPU."""
        task = find(name).load()
        data = task.load_data(config)
        config = task.resolve(config, data)
        batches = task.batches(config, data, device)
        objective = task.loss(config, data.metadata)
        # In so long a run these steps are the first of its warm-up: no rate makes them diverge.
        how = replace(config.train, epochs=10**6, compile="off", cuda_graph="off")

        def loop(capture: str) -> Loop:
            torch.manual_seed(0)
            model = task.build_model(config, data.metadata).to(device)
            nowhere = RunFolder(Path(os.devnull))  # nothing is written
            chosen = replace(how, cuda_graph=capture)
            trainer = Trainer(model, batches, objective, lambda _: {}, chosen, nowhere)
            return cls(trainer, getattr(config, batch_field(config)))

        if device.type != "cuda":
            return loop("off"), None
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        plain = loop("off")
        plain.rate(3)
        peak = torch.cuda.max_memory_allocated(device) - before
        auto = replace(how, cuda_graph=config.train.cuda_graph)
        pays = estimate(plain.trainer.model, batches, objective, auto, measured=0).capture
        return (loop("on") if pays else plain), peak

    def rate(self, steps: int) -> float:
        """Items a second over so many steps."""
        trainer, began = self.trainer, time.perf_counter()
        before = trainer.progress.items
        for _ in range(steps):
            trainer.one_step(list(islice(self.source, trainer.config.grad_accum_steps)))
        trainer.read_losses()  # waits for the device
        return (trainer.progress.items - before) / (time.perf_counter() - began)

    def steps_for(self, seconds: float) -> int:
        """How many steps take so long; those before that are a warm-up."""
        self.rate(WARM_UP)
        began = time.perf_counter()
        self.rate(2)
        return max(2, round(2 * seconds / (time.perf_counter() - began)))


# What came of it


def summarised(rows: Sequence[Row], speeds: Mapping[str, Row], names: Sequence[str]) -> list[Row]:
    """A line a choice: the mean of the seeds, the least and the greatest, and what it costs."""
    lines = []
    for name in names:
        mine = [row for row in rows if row["choice"] == name]
        if not mine:
            continue
        line: Row = {"choice": name, "words": mine[0]["words"], "seeds": len(mine)}
        for key, value in mine[0].items():
            if key in ("seed", "epochs") or not isinstance(value, float | int):
                continue
            values = [row[key] for row in mine]
            if isinstance(value, int):  # the same for all seeds
                line[key] = value
            else:
                line[key] = {"mean": mean(values), "low": min(values), "high": max(values)}
        lines.append(line | speeds.get(name, {}))
    return lines


def table(lines: Sequence[Row], labels: Labels) -> Table:
    """The summary as a table for a terminal."""
    shown = Table(title=labels.title)
    more = [words for words, _ in labels.further.values()]
    heads = ["choice", "who reads whom, and how", labels.quality, "seeds", "parameters"]
    for head in [*heads, labels.flops, labels.speed, "peak MB", *more]:
        shown.add_column(head, justify="left" if head in heads[:2] else "right")
    for line in lines:
        seen = line[labels.deciding]
        figure = labels.shown(seen["mean"])
        if line["seeds"] > 1:
            figure += f" ({labels.shown(seen['low'])} to {labels.shown(seen['high'])})"
        shown.add_row(
            line["choice"],
            line["words"],
            figure,
            str(line["seeds"]),
            f"{line['parameters']:,}",
            f"{line['flops'] / 1e6:.2f}",
            f"{line['items_per_second']:,.0f}" if "items_per_second" in line else "",
            f"{line['peak_bytes'] / 1e6:,.0f}" if "peak_bytes" in line else "",
            *(form(middle(line[key])) for key, (_, form) in labels.further.items()),
        )
    return shown


def middle(value: Any) -> float:
    """A figure of a line, whether it differs between seeds or not."""
    return float(value["mean"] if isinstance(value, dict) else value)
