"""Trainings that the studio starts: each a process of its own, as if typed into a terminal.

    python -m regard train TASK --recipe=NAME --out=ROOT/ID --train.epochs=2

What the page asks for is checked before anything starts, and is then said in the program's own
words: the flags are made from the configuration that came out, not from what came in. So nothing
in a request can become another flag, and a run is written nowhere but into its new folder.
"""

from __future__ import annotations

import logging
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from starlette.exceptions import HTTPException

from regard.config import change, to_values
from regard.errors import UserError, nearest
from regard.runs import RunFolder
from regard.studio.forms import is_own, joined
from regard.tasks import find
from regard.tasks.recipe import Recipe, recipes

log = logging.getLogger("regard.studio")
MOST = 4  # trainings at once
WORDS = 20_000  # bytes of what a process said that are shown
PATIENCE = 5.0  # seconds before a training that was told to stop is told again
STOPPED = (0, 130, -signal.SIGINT)  # how a training ends that came to its end, or was told to


@dataclass
class Training:
    """A process that trains, and what was asked of it."""

    path: Path
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    task: str
    data: str
    recipe: str | None
    epochs: int
    told: float = -math.inf  # when it was last told to stop
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    reading: threading.Lock = field(default_factory=threading.Lock)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def words(self) -> str:
        """The last of what it said."""
        try:
            with self.reading:
                size = self.output.seek(0, os.SEEK_END)
                self.output.seek(max(0, size - WORDS))
                return self.output.read().decode("utf-8", "replace")
        except (OSError, ValueError):  # also when it is closed
            return ""


class Trainings:
    """All trainings that were started here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[Path, Training] = {}
        self.lock = threading.Lock()  # requests are answered in several threads

    def start(self, task: str, recipe: str, changes: Mapping[str, Any]) -> str:
        """Begin a run by a recipe with some of its fields changed; its name."""
        chosen = recipe_of(task, recipe)
        kind = find(task).load_config()
        config = chosen.config(kind)
        wanted = changed(chosen, config, changes, task)
        flags = flags_of(config, wanted)
        with self.lock:
            self.expect_room()
            words = re.sub(r"[^A-Za-z0-9.-]+", "-", Path(wanted.data).stem) or "data"
            folder = RunFolder.create(f"{task}-{words}"[:80], self.root)
            arguments = [task, f"--recipe={recipe}", f"--out={folder.path}", *flags]
            self.begin(folder.path, arguments, task, wanted, recipe)
        return folder.path.name

    def resume(self, path: Path, about: Mapping[str, Any], config: Any) -> None:
        """Go on with the run in a folder."""
        task = str(about.get("task"))
        find(task)  # a folder may say anything
        with self.lock:
            if self.is_alive(path):
                raise HTTPException(409, f"{path.name} is training already")
            self.expect_room()
            recipe = about.get("recipe")
            self.begin(path, [task, f"--out={path}", "--resume"], task, config, recipe)

    def begin(
        self, path: Path, arguments: Sequence[str], task: str, config: Any, recipe: str | None
    ) -> None:
        # Appending, the process writes at the end wherever we have read.
        output = tempfile.TemporaryFile("ab+")  # noqa: SIM115
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "regard", "train", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is for the studio, which says so
            )
        except OSError as trouble:
            output.close()
            raise UserError(f"no training can be started: {trouble.strerror}") from None
        if path in self.known:  # it goes on: what was said before is in its log
            self.known[path].output.close()
        self.known[path] = Training(
            path, process, output, task, str(config.data), recipe, config.train.epochs
        )

    def expect_room(self) -> None:
        running = sum(each.alive for each in self.known.values())
        if running >= MOST:
            raise HTTPException(409, f"{running} trainings are running: stop one, or wait for it")

    def stop(self, path: Path) -> None:
        """Tell a training to stop, as Ctrl-C does: it keeps its state."""
        training = self.known.get(path)
        # Told a second time at once, as by a double click, it would leave off saving.
        if training is not None and time.monotonic() - training.told > PATIENCE:
            training.told = time.monotonic()
            interrupt(training.process)

    def stop_all(self, seconds: float = 20.0) -> None:
        """Stop what is running, and wait for it."""
        running = [path for path in self.known if self.is_alive(path)]
        if running:
            names = ", ".join(path.name for path in running)
            log.warning("stopping %s; what is done is saved, and can be gone on with", names)
        for path in running:
            self.stop(path)
        until = time.monotonic() + seconds
        for training in self.known.values():
            try:
                training.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                training.process.kill()  # what it saved last is kept all the same
                training.process.wait()
            self.failure(training.path)
            training.output.close()

    def paths(self) -> list[Path]:
        """Folders of the runs that were started here, also of those that have no files yet."""
        return list(self.known)

    def begun(self, path: Path) -> Training | None:
        return self.known.get(path)

    def is_alive(self, path: Path) -> bool:
        training = self.known.get(path)
        return training is not None and training.alive

    def words(self, path: Path) -> str:
        """What the process of a run said last."""
        training = self.known.get(path)
        return "" if training is None else training.words()

    def failure(self, path: Path) -> str | None:
        """Why a training ended before its time, in its own last words."""
        training = self.known.get(path)
        if training is None or training.alive:
            return None
        began, code = (path / "config.toml").exists(), training.process.returncode
        if not began:
            RunFolder(path).withdraw(".lock")  # so that its name is free again
        if code in STOPPED:
            return None if began else "it was stopped before it began"
        said = training.words().strip().splitlines()
        return said[-1].removeprefix("regard: ") if said else f"it ended with the code {code}"


def recipe_of(task: str, name: str) -> Recipe:
    """A recipe that comes with regard, and no file."""
    find(task)
    known = recipes(task)
    if name not in known:
        raise UserError(f"no recipe {name!r} for {task}; {nearest(name, known)}")
    return known[name]


def changed(chosen: Recipe, config: Any, changes: Mapping[str, Any], task: str) -> Any:
    """The configuration of a recipe with some fields changed, or a sentence about one of them."""
    if "data" not in changes and is_own(chosen, task):
        raise UserError(f"the recipe {chosen.name} is for data of your own: say where they are")
    values = to_values(config)
    said = {}
    for name, value in changes.items():
        now = value_at(values, name)
        if isinstance(value, dict) or isinstance(now, dict):
            raise UserError(f"{name} is a table: name a field in it, as {name}.…")
        if isinstance(now, tuple) and isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        said[name] = value
    return change(config, said)


def value_at(values: Mapping[str, Any], name: str) -> Any:
    found: Any = values
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def flags_of(before: Any, after: Any) -> list[str]:
    """How a terminal is told what differs between two configurations."""
    old, new = joined(before), joined(after)
    flags = []
    for name, value in new.items():
        if value == old[name]:
            continue
        if isinstance(value, bool):
            *path, last = name.split(".")
            flags.append(f"--{'.'.join([*path, last if value else f'no-{last}'])}")
        elif isinstance(value, tuple):
            words = [str(each) for each in value]
            for word in words:
                if word.startswith("-"):  # the one place where a value could pass for a flag
                    raise UserError(f"{name}: {word!r} begins with a dash, and cannot be passed on")
            flags += [f"--{name}", *words]
        else:
            flags.append(f"--{name}={value}")
    for flag in flags:
        if "\0" in flag:
            raise UserError("a text with a zero byte cannot be passed on")
    return flags


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, which Windows cannot send to one process: there it is ended between two states."""
    with suppress(OSError):
        if os.name == "nt":
            process.terminate()
        else:
            process.send_signal(signal.SIGINT)
