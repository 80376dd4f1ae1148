"""Reach: seconds until a model is right so often, beside transformers' Trainer.

One model with the same first weights learns from the same images in three ways, which take turns:
by a recipe in regard's loop; by transformers' Trainer as it comes; and by that Trainer with the
batch, rate and schedule of the recipe, which leaves the loop, the optimiser and the way of the data
as what differs. Every so many images each is asked the same validation images by the same
function, and its clock stands still meanwhile.

What counts is the time from before a loop is made, with the images in memory, until its weights
first answer well enough. Who has not got there in so many seconds is given up on, and a ratio with
such a time in it is a bound.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from benchmarks.course import Course
from benchmarks.harness import count, version
from benchmarks.time_to_accuracy_loops import Goal, Learner, by_regard, by_trainer, load_trainer
from regard.config import change
from regard.errors import UserError
from regard.hardware.machine import machine
from regard.runs.recipe import Recipe, recipes
from regard.tasks import TASKS, find
from regard.training.config import WARMUP

if TYPE_CHECKING:
    from rich.table import Table

OURS, THEIRS, TAUGHT = "regard", "Trainer", "Trainer, our settings"


class Subject(NamedTuple):
    """A recipe, and how right its model is to become."""

    recipe: str
    goal: float
    every: int  # images between two looks at the accuracy
    epochs: int  # that the Trainer is told to train for, over which its rate falls
    limit: float  # seconds after which a contender is given up on
    seeds: int


SUBJECTS = (
    Subject("digits-quick", goal=0.97, every=630, epochs=50, limit=60.0, seeds=3),
    Subject("fashion-mnist-quick", goal=0.88, every=5400, epochs=10, limit=180.0, seeds=2),
)

Contender = Callable[[Learner, Goal], Course]


def run(device: torch.device, *, quick: bool, out: Path | None) -> None:
    """Train every contender on every subject, print the table, and keep it when asked."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120, soft_wrap=True)
    load_trainer()
    rows, left_out = [], {}
    for subject in SUBJECTS[: 1 if quick else None]:
        try:
            seeds = range(1 if quick else subject.seeds)
            rows.append(measure(subject, device, seeds, tell=console.print))
        except UserError as absent:  # not every machine has every set of images
            left_out[subject.recipe] = str(absent)
            console.print(f"{subject.recipe} is left out: {absent}")
    console.print(table_of(rows, device))
    console.print("× time: how many times as long as regard; > where somebody was given up on.")
    if out is not None:
        path = out / f"bench-reach-{device.type}.json"
        command = f"python -m benchmarks time-to-accuracy --device {device.type}" + (
            " --quick" if quick else ""
        )
        facts = {
            "command": command,
            **machine(device),
            "versions": {name: version(name) for name in ("transformers", "accelerate")},
            "left_out": left_out,
            "rows": rows,
        }
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        console.print(f"wrote {path}")
        if rows:
            from benchmarks.time_to_accuracy_figure import draw

            draw(facts, path.with_suffix(".png"))
            console.print(f"wrote {path.with_suffix('.png')}")


def measure(
    subject: Subject, device: torch.device, seeds: Sequence[int], *, tell: Callable[[str], None]
) -> dict[str, Any]:
    """The course of every contender from every seed, and what they come to."""
    task, recipe = recipe_called(subject.recipe)
    config = recipe.config(task.config)
    data = task.load_data(config)
    config = task.resolve(config, data)
    contenders = contenders_for(subject)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    names = list(contenders)
    goal, parameters = Goal(subject.goal, subject.every, subject.limit), 0
    for contender in contenders.values():  # nobody pays for what is loaded and allocated once
        contender(Learner(task, config, data, device), Goal(0.0, 1, subject.limit))
    for at, seed in enumerate(seeds):
        for turn in range(len(names)):
            name = names[(at + turn) % len(names)]
            learner = Learner(task, change(config, {"train.seed": seed}), data, device)
            parameters = count(learner.model)
            course = contenders[name](learner, goal)
            runs[name].append({"seed": seed, **course.to_values()})
            tell(f"{subject.recipe}, seed {seed}, {name}: {course}")
    return {
        **subject._asdict() | {"seeds": len(seeds)},
        "task": task.name,
        "parameters": parameters,
        "images": data.metadata.parts[0],
        "batch": config.batch_size,
        "arguments": {THEIRS: defaults(subject), TAUGHT: taught(config)},
        "runs": runs,
        "seconds": {name: spread_of(each)._asdict() for name, each in runs.items()},
        "ratio": ratios(runs),
    }


def recipe_called(name: str) -> tuple[Any, Recipe]:
    """A recipe of that name, and the task it is for."""
    for task in TASKS:
        if name in recipes(task):
            return find(task).load(), recipes(task)[name]
    raise UserError(f"no task has a recipe {name!r}")


# The contenders


def contenders_for(subject: Subject) -> dict[str, Contender]:
    """Who takes part, ours first."""

    def as_it_comes(learner: Learner, goal: Goal) -> Course:
        return by_trainer(learner, goal, defaults(subject))

    def with_our_settings(learner: Learner, goal: Goal) -> Course:
        return by_trainer(learner, goal, taught(learner.config))

    return {OURS: by_regard, THEIRS: as_it_comes, TAUGHT: with_our_settings}


def defaults(subject: Subject) -> dict[str, Any]:
    """The Trainer as it comes; only three epochs, its default, would not take it to the goal."""
    return {"num_train_epochs": subject.epochs}


def taught(config: Any) -> dict[str, Any]:
    """What a recipe says about training, as far as the Trainer has a word for it."""
    train = config.train
    schedule = train.lr_schedule
    warmup = schedule.warmup_ratio if schedule.warmup_steps is None else schedule.warmup_steps
    kinds = {"cosine": "cosine", "constant": "constant_with_warmup", "inverse_sqrt": "inverse_sqrt"}
    return {
        "num_train_epochs": train.epochs,
        "per_device_train_batch_size": config.batch_size,
        "learning_rate": train.optimizer.lr,
        "weight_decay": train.optimizer.weight_decay,
        "adam_beta1": train.optimizer.betas[0],
        "adam_beta2": train.optimizer.betas[1],
        "max_grad_norm": train.grad_clip,
        "lr_scheduler_type": kinds[train.lr_schedule.name],
        "warmup_steps": WARMUP if warmup is None else warmup,  # below 1 it is a share to it too
    }


# What they come to


class Spread(NamedTuple):
    """Seconds to the goal: the median over seeds, the least and the greatest."""

    median: float
    low: float
    high: float
    bound: bool  # whether somebody was given up on, so that it took longer than this


def spread_of(runs: Sequence[Mapping[str, Any]]) -> Spread:
    """Several courses in a few numbers."""
    seconds = [each["spent"] if each["reached"] is None else each["reached"] for each in runs]
    given_up = any(each["reached"] is None for each in runs)
    return Spread(median(seconds), min(seconds), max(seconds), given_up)


def ratios(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float | None]:
    """How many times as long as ours each took; none where ours did not get there."""
    ours = spread_of(runs[OURS])
    return {
        name: None if ours.bound else spread_of(each).median / ours.median
        for name, each in runs.items()
    }


def table_of(rows: Sequence[Mapping[str, Any]], device: torch.device) -> Table:
    from rich.table import Table

    table = Table(title=f"seconds to an accuracy: {device}, {torch.get_num_threads()} threads")
    for column in ("recipe", "goal", "who", "seconds", "least … most", "images", "× time"):
        table.add_column(column, justify="left" if column in ("recipe", "who") else "right")
    for row in rows:
        for who, runs in row["runs"].items():
            seen = spread_of(runs)
            more, ratio = "> " * seen.bound, row["ratio"][who]
            table.add_row(
                row["recipe"],
                f"{row['goal']:.0%}",
                who,
                f"{more}{seen.median:.2f}",
                f"{seen.low:.2f} … {seen.high:.2f}",
                f"{median(each['images'] for each in runs):,.0f}",
                "" if ratio is None else f"{more}{ratio:.2f}",
            )
        table.add_section()
    return table
