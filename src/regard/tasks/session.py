"""One sitting at a run: read, build, say what is coming, train, and say what came of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from regard import __version__
from regard.config import to_values
from regard.errors import UserError
from regard.runs import RunFolder
from regard.tasks.recipe import Recipe
from regard.tasks.task import Task
from regard.train.board import board
from regard.train.device import (
    choose_device,
    does_not_fit,
    is_out_of_memory,
    largest_that_fits,
    memory_of,
)
from regard.train.display import display, duration
from regard.train.estimate import estimate
from regard.train.loop import Progress, Report, train

# What may be said anew when a run goes on: none of it changes the steps already made.
MAY_CHANGE = {"train.epochs", "train.patience", "train.save_seconds"}


@dataclass
class Session:
    """What is to be done, and where its words go."""

    task: Task[Any, Any, Any]
    config: Any
    recipe: Recipe | None = None
    quiet: bool = False
    tensorboard: bool = False

    def __post_init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True, quiet=self.quiet)
        self.folder: RunFolder | None = None

    def say(self, words: str) -> None:
        """To the person, and to the run's own log."""
        self.console.print(words, markup=False)
        if self.folder is not None:
            self.folder.add_log(words)

    def go(
        self, *, out: Path | None, resume: bool, device: str, root: Path = Path("runs")
    ) -> RunFolder:
        """Train to the end, or to Ctrl-C, in the folder `out` or in a new one below `root`."""
        where = choose_device(device)
        task = self.task
        data = task.read(self.config)
        config = task.settle(self.config, data)
        folder = self.resumed(out, config, data) if resume else self.begun(out, root, config, data)
        self.folder, self.config = folder, config

        torch.manual_seed(config.train.seed)
        model = task.build(config, data.facts).to(where)
        self.say(data.words())
        for sentence in getattr(data.facts, "skipped", ())[:10]:
            self.say(f"left out: {sentence}")
        self.say(f"{parameters(model):,} parameters on {named(where)}")
        if self.recipe is not None and self.recipe.about.expect:
            about = self.recipe.about
            self.say(
                f"recipe {self.recipe.name}: {about.figure} {about.expect:.1%} is to be expected, "
                f"in about {duration(about.minutes * 60)} on {about.hardware}"
            )
        try:
            progress = self.trained(model, data, where, resume)
        except KeyboardInterrupt:
            self.say(f"stopped; what is done is saved. {self.how_to_go_on()}")
            raise
        except UserError:
            raise
        except Exception as trouble:
            if not is_out_of_memory(trouble):
                raise
            raise self.too_large(data, where) from None
        self.finished(progress)
        return folder

    def begun(self, out: Path | None, root: Path, config: Any, data: Any) -> RunFolder:
        """A new folder, with what was asked and what the data are."""
        name = f"{self.task.name}-{Path(data.name).stem or 'data'}"
        folder = RunFolder.create(name, root) if out is None else RunFolder.at(out)
        recipe = {} if self.recipe is None else {"recipe": self.recipe.name}
        folder.write_config(config, task=self.task.name, regard=__version__, **recipe)
        folder.write_facts("data", to_values(data.facts))
        return folder

    def resumed(self, out: Path | None, config: Any, data: Any) -> RunFolder:
        """The folder to go on in, if it is a run of this very configuration and data."""
        if out is None:
            raise UserError("--resume needs the run to go on with: --out runs/…")
        folder = RunFolder.open(out)
        kept = folder.config(self.task.config)
        for name, (now, before) in differences(to_values(config), to_values(kept)).items():
            if name not in MAY_CHANGE:
                raise UserError(
                    f"{out} was begun with {name} = {before!r}, not {now!r}: a run that goes on "
                    "keeps its configuration; leave that out, or begin another run"
                )
        facts = folder.read_facts("data") or {}
        if facts.get("digest") not in (None, data.facts.digest):
            raise UserError(f"{config.data} has changed since {out} was begun; begin another run")
        return folder

    def trained(self, model: nn.Module, data: Any, device: torch.device, resume: bool) -> Progress:
        task, config = self.task, self.config
        assert self.folder is not None
        batches = task.batches(config, data, device)
        objective = task.objective(config, data.facts)
        expected = estimate(
            model, batches, objective, config.train, self.folder, measured=task.measured(data)
        )
        epochs = config.train.epochs
        steps = -(-len(batches) // config.train.accumulate) * epochs
        held = f", {expected.bytes / 2**30:.1f} GB" if expected.bytes else ""
        self.say(
            f"{epochs} epochs of {len(batches):,} batches: about {duration(expected.seconds)}{held}"
        )
        self.say(f"writing {self.folder.path}")
        with (
            display(
                self.console,
                self.say,
                epochs=epochs,
                steps=steps,
                unit=task.unit,
                memory=memory_of(device),
            ) as shown,
            board(self.folder.path / "tensorboard" if self.tensorboard else None) as noted,
        ):
            return train(
                model,
                batches,
                objective,
                task.measure(config, data, device),
                config.train,
                self.folder,
                resume=resume,
                report=both(shown, noted),
            )

    def too_large(self, data: Any, device: torch.device) -> UserError:
        """After an out-of-memory error: find a batch that fits, and say which."""
        task, config, folder = self.task, self.config, self.folder
        assert folder is not None

        def fits(batch: int) -> bool:
            if device.type == "cuda":
                torch.cuda.empty_cache()
            smaller = replace(config, batch=batch)
            try:
                estimate(
                    task.build(smaller, data.facts).to(device),
                    task.batches(smaller, data, device),
                    task.objective(smaller, data.facts),
                    config.train,
                    folder,
                    measured=0,
                )
            except Exception as trouble:
                if is_out_of_memory(trouble):
                    return False
                raise
            return True

        return does_not_fit(config.batch, largest_that_fits(fits, config.batch), device, task.unit)

    def how_to_go_on(self) -> str:
        assert self.folder is not None
        return f"Go on: regard train {self.task.name} --out {self.folder.path} --resume"

    def finished(self, at: Progress) -> None:
        waited = at.waited / at.seconds if at.seconds else 0.0
        self.say(
            f"{duration(at.seconds)} in all; the device waited {waited:.1%} of it for data; best "
            f"after epoch {at.best_epoch + 1}"
        )


def both(*reports: Report | None) -> Report:
    def report(at: Progress) -> None:
        for one in reports:
            if one is not None:
                one(at)

    return report


def parameters(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def named(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{torch.get_num_threads()} CPU threads" if device.type == "cpu" else str(device)


def differences(
    ours: dict[str, Any], theirs: dict[str, Any], under: str = ""
) -> dict[str, tuple[Any, Any]]:
    """Values that differ, by dotted name."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, value in ours.items():
        other = theirs.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            found |= differences(value, other, f"{under}{name}.")
        elif value != other:
            found[f"{under}{name}"] = (value, other)
    return found
