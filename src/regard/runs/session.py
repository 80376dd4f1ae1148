"""One sitting at a run: read, build, say what is coming, train, and say what came of it."""

from __future__ import annotations

import os
import random
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from regard import __version__
from regard.config import to_values
from regard.errors import ConfigError, UserError
from regard.hardware.device import (
    choose_device,
    does_not_fit,
    is_out_of_memory,
    largest_that_fits,
    memory_of,
)
from regard.hardware.machine import device_name, machine
from regard.run_folder import ACCEPTING, RunFolder
from regard.runs.recipe import Recipe
from regard.tasks.bounds import expect_room
from regard.tasks.several import few_names
from regard.tasks.task import Task, batch_field
from regard.training.estimate import correction, estimate
from regard.training.fit import Diverged, Progress, Report, steps_of, train
from regard.training.progress_line import display, duration
from regard.training.tensorboard import board, writer_class

SEED, THREADS = "train.seed", "train.threads"
# What may be said anew when a run goes on: none of it changes the steps already made.
MAY_CHANGE = {
    *("train.epochs", "train.patience", "train.checkpoint_seconds", "train.cuda_graph"),
    *("train.compile", "train.eval_every", THREADS),
    *("train.grad_clip", "train.optimizer.lr", "train.optimizer.muon_lr"),
}


@dataclass
class Session:
    """What is to be done, and where its words go."""

    task: Task[Any, Any, Any]
    config: Any
    recipe: Recipe | None = None
    quiet: bool = False
    tensorboard: bool = False
    accept_edits: bool = False  # also of a run to go on with, or to begin from
    options: Mapping[str, Any] = field(default_factory=dict)  # of the model: code of the user's own

    def __post_init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True, quiet=self.quiet)
        self.folder: RunFolder | None = None
        self.unlogged: list[str] = []  # before there was a folder with a log
        self.device = "auto"
        self.done = 0  # steps of earlier sittings
        self.departs: list[str] = []  # fields that are not as the recipe has them
        if self.recipe is not None:
            self.departs = departures(self.config, self.recipe.config(self.task.config))

    def say(self, words: str) -> None:
        """To the run's own log, and to the person, who may be gone."""
        if self.folder is None:
            self.unlogged.append(words)
        else:
            self.folder.add_log(words)
        self.console.print(words, markup=False)

    def go(
        self, *, out: Path | None, resume: bool, device: str, root: Path = Path("runs")
    ) -> RunFolder:
        """Train to the end, or to Ctrl-C, in the folder `out` or in a new one below `root`.

        What cannot be trained is found out before there is a folder, and leaves none behind.
        """
        before, accepting = (random.getstate(), torch.get_rng_state()), ACCEPTING.get()
        ACCEPTING.set(self.accept_edits)
        try:
            return self.sit(out, root, resume, device)
        finally:  # a run has random numbers of its own, and leaves the caller's as they were
            ACCEPTING.set(accepting)
            random.setstate(before[0])
            torch.set_rng_state(before[1])

    def sit(self, out: Path | None, root: Path, resume: bool, device: str) -> RunFolder:
        if (processes := os.environ.get("WORLD_SIZE", "1")) not in ("", "0", "1"):
            raise UserError(
                f"{processes} processes were started to train together, and a run trains on one "
                "device: start one, without torchrun"
            )
        self.device, where = device, choose_device(device)
        if self.config.train.deterministic:
            # cuBLAS is repeatable only with a workspace of its own, which it must find set when
            # it starts: before anything is on the device.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        if self.tensorboard:
            writer_class()
            if out is not None:
                RunFolder(out).inside("tensorboard")
        if out is not None and not resume:
            RunFolder.expect_vacant(out)
        given = self.config
        expect_room(self.task, given, where)
        data = self.task.load_data(given)
        self.config = self.task.resolve(given, data)
        expect_room(self.task, self.config, where, data)
        if resume:
            self.resumed(out, data, where, given)
        else:
            self.refuse_ignored(given)
        progress = None
        try:
            progress = self.trained(data, where, out, root, resume)
        except KeyboardInterrupt:
            if self.folder is not None:
                self.say(f"stopped; what is done is saved. Go on: {self.how_to_go_on()}")
            raise
        except Diverged as trouble:
            raise UserError(f"{trouble}: {self.how_to_go_on(slower=4)}") from None
        except Exception as trouble:
            if not is_out_of_memory(trouble):
                raise
        if progress is None:
            # Only here, where neither model nor traceback holds on to what did not fit.
            raise self.too_large(data, where)
        self.finished(progress)
        assert self.folder is not None
        return self.folder

    def announce(self, model: nn.Module, data: Any, where: torch.device) -> None:
        """What is about to be trained, on what, and where."""
        self.say(data.words())
        for sentence in getattr(data.metadata, "skipped", ())[:10]:
            self.say(f"left out: {sentence}")
        self.say(f"{parameters(model):,} parameters on {device_name(where, threads=False)}")
        if self.recipe is not None and self.recipe.about.expected:
            self.say(expectation(self.recipe, self.departs))
        elif self.recipe is not None:
            why = f", {self.recipe.why}" if self.recipe.why else ""
            self.say(f"recipe {self.recipe.name}{why}: {self.recipe.about.description}")

    def begun(self, out: Path | None, root: Path, data: Any, where: torch.device) -> None:
        """Make a new folder, with what was asked and what the data are."""
        name = f"{self.task.name}-{Path(data.name).stem or 'data'}"
        folder = RunFolder.create(name, root) if out is None else RunFolder.at(out)
        about = {} if self.recipe is None else {"recipe": self.recipe.name}
        if self.options:
            about["own"] = " ".join(self.options)
        with folder.locked():
            RunFolder.expect_vacant(folder.path)  # another may have come at the same moment
            try:
                folder.write_config(self.config, task=self.task.name, regard=__version__, **about)
                self.note_facts(folder, data, where)
            except UserError:
                folder.withdraw("config.toml", "data.json", "machine.json", ".lock")
                raise
        self.folder = folder
        for words in self.unlogged:
            folder.add_log(words)

    def refuse_ignored(self, given: Any, kept: Any = None) -> None:
        """Refuse what is said of a model whose start decides it, and tell what its recipe says.

        What counts is what is not as in the recipe or, where a run goes on, as was kept of it.
        """
        start = None if self.task.start is None else self.task.start(given, self.config)
        if start is None:
            return
        plain = self.task.config()
        recipe = plain if self.recipe is None else self.recipe.config(self.task.config)
        new = differences(to_values(given), to_values(recipe if kept is None else kept))
        for name, has in start.decides.items():
            if name in new:
                raise ConfigError(
                    f"{name}={new[name][0]!r} has no effect: {start.name} {has}; leave it out",
                    key=name,
                    value=new[name][0],
                )
        idle = ", ".join(name for name in start.decides if name in departures(recipe, plain))
        if idle and self.recipe is not None:
            self.say(f"{start.name} decides {idle}, and not the recipe {self.recipe.name}")

    def resumed(self, out: Path | None, data: Any, where: torch.device, given: Any) -> None:
        """Take up the folder to go on in, if it is a run of this very configuration and data."""
        if out is None:
            raise UserError("--resume needs the run to go on with: --out runs/…")
        folder, config = RunFolder.open(out), self.config
        edits = folder.edits()
        about = folder.about()
        if about.get("task") != self.task.name:
            other = about.get("task", "a task it does not name")
            raise UserError(f"{out} is a run of {other}, not of {self.task.name}")
        if missing := not_given(folder, self.options):
            raise UserError(
                f"{out} was begun with code of your own, which a run does not keep: go on from "
                f"Python, by rg.train({self.task.name!r}, out={str(out)!r}, resume=True, "
                f"{missing}=…)"
            )
        if self.options and "own" not in about:
            raise UserError(f"{out} was begun without {' '.join(self.options)}=: begin another run")
        kept = folder.config(self.task.config)
        self.refuse_ignored(given, kept)
        changed = differences(to_values(config), to_values(kept))
        for name, (now, before) in changed.items():
            if name not in MAY_CHANGE:
                raise ConfigError(
                    f"{out} was started with {name} = {before!r}, not {now!r}: a resumed run "
                    "keeps its configuration; leave that out, or start another run",
                    key=name,
                    value=now,
                )
        facts = folder.read_facts("data")
        if facts is not None and facts.get("digest") != data.metadata.digest:
            raise UserError(f"{config.data} has changed since {out} was begun; begin another run")
        with folder.locked():  # where another process writes, this one goes no further
            if edits:
                folder.manifest.adopt()
            self.note_facts(folder, data, where)
            if changed:
                words = {name: word for name, word in about.items() if name != "format"}
                folder.write_config(config, **words)
        self.folder, self.done = folder, (folder.latest_state() or (0,))[0]
        for trouble in edits:
            self.say(f"{trouble}; accepted, and from here on part of the run")
        for name, (now, before) in changed.items():
            self.say(f"from here on {name} is {now}, not {before}")

    def note_facts(self, folder: RunFolder, data: Any, where: torch.device) -> None:
        """Note what data and machine are, unless that was done: a start can be killed halfway."""
        for name, values in (("data", to_values(data.metadata)), ("machine", machine(where))):
            if folder.read_facts(name) is None:
                folder.write_facts(name, values)

    def built(self, data: Any) -> nn.Module:
        """The model with its first weights, or what the configuration has against it."""
        torch.manual_seed(self.config.train.seed)
        try:
            return self.task.build_model(self.config, data.metadata, **self.options)
        except ValueError as trouble:
            raise UserError(str(trouble)) from None

    def trained(
        self, data: Any, device: torch.device, out: Path | None, root: Path, resume: bool
    ) -> Progress:
        task, config = self.task, self.config
        model = self.built(data).to(device)
        self.announce(model, data, device)
        batches = task.batches(config, data, device)
        objective = task.loss(config, data.metadata)
        epochs = config.train.epochs
        steps = steps_of(config.train, len(batches))
        left = max(0.0, 1 - self.done / steps)
        how = replace(config.train, cuda_graph="off", compile="off")
        if config.train.threads != "auto":
            torch.set_num_threads(config.train.threads)
        watching: Report | None = None
        if left:
            of = estimate(model, batches, objective, config.train, measured=task.measured(data))
            how = replace(
                how,
                **{
                    field: "on"
                    for field, name in (("cuda_graph", "capture"), ("compile", "compile"))
                    if getattr(of, name)
                },
            )
            held = f", {of.bytes / 1e9:.1f} GB" if of.bytes else ""
            self.say(
                f"{epochs} {'epoch' if epochs == 1 else 'epochs'} of {len(batches):,} "
                f"{'batch' if len(batches) == 1 else 'batches'}: "
                f"about {duration(left * of.seconds)}{' more' * bool(self.done)}{held}"
                f"{', steps recorded and replayed' * of.capture}{', compiled first' * of.compile}"
            )
            watching = correction(of.seconds, steps, self.say, first=int(of.compile))
            if of.chosen_threads is not None:
                self.keep_threads(of.chosen_threads, of.threads or {})
        if not resume:
            self.begun(out, root, data, device)
        assert self.folder is not None
        self.say(f"writing {self.folder.path}")
        with (
            display(
                self.console,
                self.say,
                epochs=epochs,
                steps=steps,
                unit=task.unit,
                memory=memory_of(device),
                best=config.train.keep_weights == "best",
            ) as shown,
            board(self.folder.inside("tensorboard") if self.tensorboard else None) as noted,
        ):
            return train(
                model,
                batches,
                objective,
                task.evaluate_quick(config, data, device),
                how,
                self.folder,
                resume=resume,
                report=both(shown, noted, watching),
            )

    def keep_threads(self, chosen: int, seconds: Mapping[int, float]) -> None:
        """Keep in the configuration how many threads were taken, and say why if it was a choice."""
        if len(seconds) > 1:
            few, many = min(seconds), max(seconds)
            gain = seconds[few] / seconds[many] if seconds[many] else 1.0
            self.say(
                f"{chosen} of {many} threads: a step is {gain:.2g} times as fast with all of them "
                f"(--threads {chosen} does the same again)"
            )
        if self.config.train.threads != chosen:
            self.config = replace(self.config, train=replace(self.config.train, threads=chosen))
            if self.folder is not None:  # of a run that goes on
                about = self.folder.about()
                words = {name: word for name, word in about.items() if name != "format"}
                self.folder.write_config(self.config, **words)

    def too_large(self, data: Any, device: torch.device) -> UserError:
        """After an out-of-memory error: find a batch that fits, and say which."""
        task, config = self.task, self.config
        field = batch_field(config)
        size: int = getattr(config, field)

        def fits(batch: int) -> bool:
            if device.type == "cuda":
                torch.cuda.empty_cache()
            smaller = replace(config, **{field: batch})
            try:
                estimate(
                    task.build_model(smaller, data.metadata, **self.options).to(device),
                    task.batches(smaller, data, device),
                    task.loss(smaller, data.metadata),
                    config.train,
                    measured=0,
                )
            except Exception as trouble:
                if is_out_of_memory(trouble):
                    return False
                raise
            return True

        if fits(size):
            return UserError(
                f"memory ran out although a batch of {size} {task.batched} fits: something "
                "else took it, or measuring did; free some and go on, or take a smaller model"
            )
        smaller = largest_that_fits(fits, size)
        return does_not_fit(size, smaller, device, task.batched)

    def how_to_go_on(self, slower: int = 1) -> str:
        """The command that goes on with this run, as it is typed."""
        assert self.folder is not None
        words = ["regard", "train", self.task.name, "--out", str(self.folder.path), "--resume"]
        if self.device != "auto":
            words += ["--device", self.device]
        if slower > 1:
            optimiser = self.config.train.optimizer
            words += ["--train.optimizer.lr", f"{optimiser.lr / slower:g}"]
            if optimiser.name == "muon":
                words += ["--train.optimizer.muon-lr", f"{optimiser.muon_lr / slower:g}"]
        return shlex.join(words)

    def finished(self, at: Progress) -> None:
        epochs = self.config.train.epochs
        if at.step == self.done:
            most = max(epochs, at.epoch)
            more = f"--epochs {2 * most}" if at.epoch >= epochs else "--train.patience 0"
            self.say(
                f"nothing is left to do: {at.epoch} of {epochs} epochs are done. Go further: "
                f"{self.how_to_go_on()} {more}"
            )
        elif at.epoch < epochs:
            since = at.epoch - 1 - at.best_epoch
            self.say(
                f"stopped after {since} {'epoch' if since == 1 else 'epochs'} that were no better, "
                f"as train.patience asks. Go on: {self.how_to_go_on()} --train.patience 0"
            )
        waited = at.waited / at.seconds if at.seconds else 0.0
        self.say(
            f"{duration(at.seconds)} in all, {waited:.1%} of it waiting for data; kept the "
            f"weights of epoch {at.best_epoch + 1}"
        )


def not_given(folder: RunFolder, options: Mapping[str, Any]) -> str:
    """What of the user's own a run was made with, and is not among these options."""
    wanted = str(folder.about().get("own", "")).split()
    return next((name for name in wanted if name not in options), "")


def expectation(recipe: Recipe, departs: Sequence[str]) -> str:
    """What a recipe promises, before a run that follows it or departs from it."""
    about = recipe.about
    figure = f"{about.metric} {figure_words(about.metric, about.expected)}"
    there = f"in about {duration(about.minutes * 60)} on {about.hardware}"
    if not departs:
        return f"recipe {recipe.name}: {figure} is to be expected, {there}"
    return (
        f"recipe {recipe.name} unchanged: {figure}, {there};\nthis run changes {few_names(departs)}"
    )


def departures(config: Any, recipe: Any) -> list[str]:
    """Fields in which a configuration is not its recipe's; seed and threads are nobody's choice."""
    changed = differences(to_values(config), to_values(recipe))
    return [name for name in changed if name not in (SEED, THREADS)]


def figure_words(name: str, value: float) -> str:
    """A figure as people say it: a share in per cent, what is on a scale of its own plainly."""
    plain = abs(value) > 1 or re.search("cider|bleu|loss", name, re.IGNORECASE)
    return f"{value:.4g}" if plain else f"{value:.1%}"


def both(*reports: Report | None) -> Report:
    def report(at: Progress) -> None:
        for one in reports:
            if one is not None:
                one(at)

    return report


def parameters(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


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
