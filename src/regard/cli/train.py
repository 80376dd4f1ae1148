"""`regard train TASK`: a model from data to a report, by a recipe and whatever is changed of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from regard.cli import Command
from regard.cli.parse import Device, after, is_on, parse
from regard.config import change
from regard.errors import UserError
from regard.fields import KIND
from regard.runs.recipe import Recipe, choose_recipe, recipes
from regard.tasks import TASKS, find


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard train`."""

    recipe: str | None = None
    """A recipe by name, or a file.toml; by default the one made for the data."""
    out: Path | None = None
    """Folder of the run; by default runs/TASK-DATA-NNN."""
    resume: bool = False
    """Resume the run in --out, exactly where it stopped."""
    device: Device = "auto"
    """Where to train; auto takes a GPU if there is one."""
    quiet: bool = False
    """Say nothing but errors."""
    tensorboard: bool = False
    """Write the figures for TensorBoard too, into the run."""
    report: bool = True
    """Write report.html at the end."""
    test: bool = False
    """Evaluate on the test split too at the end, and compare with the figure the recipe promises;
    only once every choice is made."""
    accept_edits: bool = False
    """Go on with a run, or begin from one, although files of it were edited."""


def read(command: Command, args: Sequence[str]) -> Callable[[], None]:
    """The training to be made; defaults are those of a recipe, or of the run resumed."""
    at = place_of_task(args)
    if at is None:
        if {"-h", "--help"} & set(args):
            print(overview(command))
            raise SystemExit(0)
        raise UserError(f"which task? choose {', '.join(TASKS)}: regard train {first_task()}")
    name, flags = args[at], [*args[:at], *args[at + 1 :]]
    entry = find(name)
    default, recipe = start(name, flags)
    words = f"{entry.summary}\n"
    if recipe is not None:
        words += f"\nDefaults are those of the recipe {recipe.name}: {recipe.about.description}."
    command = Command(f"train {name}", words, entry.examples["train"], command.module)
    parse(command, Options, args[:at], default)  # or what stands here is the value of a flag
    options, changes = parse(command, Options, flags, default)
    return partial(train, name, options, change(default, changes), recipe)


def place_of_task(args: Sequence[str]) -> int | None:
    """Where the task is typed: as the first word, or behind flags."""
    if args and not args[0].startswith("-"):
        return 0
    return next((at for at, word in enumerate(args) if word in TASKS), None)


def start(task: str, args: Sequence[str]) -> tuple[Any, Recipe | None]:
    """The configuration that flags change, and the recipe it is of."""
    kind = find(task).load_config()
    if is_on(args, "--resume"):
        from regard.run_folder import RunFolder

        path = after(args, "--out")
        if after(args, "--recipe") is not None:
            raise UserError("--resume goes on with the run's own configuration; leave --recipe out")
        if path is None:
            raise UserError("--resume needs the run to go on with: --out runs/…")
        folder = RunFolder.open(Path(path), accept_edits=is_on(args, "--accept-edits"))
        return folder.config(kind), None
    recipe = choose_recipe(task, after(args, "--recipe"), after(args, "--data"))
    config = recipe.config(kind)
    for name in KIND:  # it decides which table the short names are of
        if hasattr(config, name) and (chosen := after(args, f"--{name}")) is not None:
            config = change(config, {name: chosen})
    return config, recipe


def train(task: str, options: Options, config: Any, recipe: Recipe | None) -> None:
    """Train, from data to a report."""
    from regard.runs.run import go
    from regard.runs.session import Session

    session = Session(
        find(task).load(),
        config,
        recipe,
        quiet=options.quiet,
        tensorboard=options.tensorboard,
        accept_edits=options.accept_edits,
    )
    go(
        session,
        out=options.out,
        resume=options.resume,
        device=options.device,
        report=options.report,
        test=options.test,
    )


def first_task() -> str:
    return next(iter(TASKS))


def overview(command: Command) -> str:
    """Tasks and their recipes, for `regard train --help`."""
    lines = [
        "usage: regard train TASK [FLAGS]",
        "",
        "Train a model: regard train TASK, and regard train TASK --help for all its flags.",
    ]
    for name, entry in TASKS.items():
        found = recipes(name)
        wide = max(map(len, found), default=0)
        lines += ["", f"{name}: {entry.summary}"]
        lines += [
            f"  --recipe {one:<{wide}} {read.about.description}" for one, read in found.items()
        ]
    return "\n".join([*lines, "", "examples:", *(f"  {line}" for line in command.examples)])
