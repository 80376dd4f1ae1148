"""Figures to be kept: what several runs of one recipe came to, and what they were measured on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from regard.config import to_values
from regard.errors import UserError
from regard.run_folder import epochs_in
from regard.run_folder.metric_lines import is_measured, lower_is_better
from regard.runs.recipe import Recipe, recipes
from regard.runs.session import SEED, THREADS, differences, parameters
from regard.tasks.task import Judged

if TYPE_CHECKING:
    from regard.runs.run import Run


def headline(judged: Judged) -> float:
    """The deciding figure: the first."""
    first = next(iter(judged.to_values().values()))
    return float(first["value"] if isinstance(first, dict) else first)


def spread(judged: Sequence[Judged]) -> str:
    """The deciding figures of several runs in a line."""
    values = [headline(each) for each in judged]
    style = ".4f" if lower_is_better(next(iter(judged[0].to_values()))) else ".2%"
    return (
        f"{len(values)} runs: mean {mean(values):{style}}, from {min(values):{style}} to "
        f"{max(values):{style}}, deviation {stdev(values):{style}}"
    )


def recorded(runs: Sequence[Run], judged: Sequence[Judged], split: str) -> dict[str, Any]:
    """One file for results/: where the figures come from, and one entry a run."""
    first = runs[0]
    for run in runs[1:]:
        for name, (now, before) in differences(
            to_values(run.config), to_values(first.config)
        ).items():
            if name not in (SEED, THREADS):
                raise UserError(
                    f"{run.folder.path} has {name} = {now!r} and {first.folder.path} {before!r}: "
                    "only runs that differ in their seed are kept in one file"
                )
    values = [headline(figures) for figures in judged]
    return {
        "task": first.task.name,
        "data": first.config.data,
        "recipe": first.folder.about().get("recipe"),
        "command": command_of(first),
        **(first.folder.read_facts("machine") or {}),
        "split": split,
        "parts": list(first.metadata.parts),  # to train on, to choose by, to test
        "parameters": parameters(first.model),
        "mean": mean(values),
        "deviation": stdev(values) if len(values) > 1 else None,
        "runs": [
            {
                "seed": run.config.train.seed,
                "epochs": epochs_in(run.metrics),
                "seconds": run.metrics[-1]["train_seconds"],
                "waited": run.metrics[-1]["data_wait_seconds"],
                "last": {key: run.metrics[-1][key] for key in run.metrics[-1] if is_measured(key)},
                "course": course(run),
                "figures": {
                    name: value
                    for name, value in figures.to_values().items()
                    if isinstance(value, float) or (isinstance(value, dict) and "value" in value)
                },
            }
            for run, figures in zip(runs, judged, strict=True)
        ],
    }


def course(run: Run) -> list[list[float]]:
    """After each epoch, seconds since the first batch and the deciding figure."""
    return [
        [line["train_seconds"], float(f"{line[name]:.4g}")]
        for line in run.metrics
        for name in [key for key in line if is_measured(key)][:1]
    ]


def command_of(run: Run) -> str:
    """What to type to make this run again, but for its seed and its place."""
    if members := run.folder.about().get("averaged"):
        return f"regard average ({members} runs of {training_of(run)})"
    return training_of(run)


def training_of(run: Run) -> str:
    """What to type to train such a run."""
    name = run.folder.about().get("recipe")
    words = ["regard", "train", run.task.name]
    known = recipes(run.task.name)
    if name not in known:
        return shlex.join([*words, "--recipe", str(name or "config.toml")])
    words += ["--recipe", name]
    if known[name].values.get("data") != run.config.data:
        words += ["--data", run.config.data]
    # What the data decide, and the seed, are not typed.
    settled = to_values(settled_recipe(known[name], run)) | {"data": run.config.data}
    for key, (now, _) in differences(to_values(run.config), settled).items():
        if key != SEED:
            words += flag(key, now)
    return shlex.join(words)


def settled_recipe(recipe: Recipe, run: Run) -> Any:
    """The configuration of a run that followed a recipe to the letter on the run's own data."""
    return run.task.resolve(recipe.config(run.task.config), run.data)


def flag(key: str, value: Any) -> list[str]:
    """A field as it is typed: --skip-invalid, --model.no-bias, --train.optimizer.betas 0.9 0.95."""
    *path, last = key.replace("_", "-").split(".")
    if isinstance(value, bool):
        last, values = last if value else f"no-{last}", []
    else:
        values = [str(item) for item in (value if isinstance(value, tuple) else (value,))]
    return [f"--{'.'.join([*path, last])}", *values]
