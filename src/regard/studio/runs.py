"""Runs as the page lists them, read off their folders each time.

A folder that cannot be understood is a row with the state "broken" and a sentence that says why:
one bad run hides none of the others.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from regard.config import to_values
from regard.errors import UserError
from regard.run_folder import RunFolder, epochs_in
from regard.run_folder.metric_lines import deciding
from regard.studio.kinds import kind_of
from regard.studio.training import Trainings
from regard.tasks import find

LOG = 20_000  # bytes of a log that are shown
HEAD = 16_000_000  # bytes that the head of a file of weights may have
TROUBLES = (UserError, OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Read:
    """What a folder says of its run."""

    about: Mapping[str, Any]
    config: Any
    metrics: list[dict[str, Any]]
    facts: Mapping[str, Any]

    @property
    def epochs(self) -> int:
        return int(self.config.train.epochs)

    @property
    def deciding(self) -> str | None:
        """The figure by which the weights to keep are chosen: the first one on validation."""
        return deciding(self.metrics[-1] if self.metrics else ())

    @property
    def complete(self) -> bool:
        """Whether no epoch is left: all are done, or patience was over before."""
        done, patience = epochs_in(self.metrics), int(self.config.train.patience)
        lines = self.metrics
        best = [
            epochs_in(lines[: at + 1]) - 1 for at, line in enumerate(lines) if line.get("is_best")
        ]
        return done >= self.epochs or bool(patience and best and done - 1 - best[-1] >= patience)


class Runs:
    """The runs in a folder and those named beside it, by names that can stand in an address."""

    def __init__(self, root: Path, named: Sequence[Path], trainings: Trainings) -> None:
        self.root, self.trainings = root, trainings
        self.named = [RunFolder.open(path).path for path in named]

    def paths(self) -> dict[str, Path]:
        """All runs by name: those in the root by that of their folder."""
        inside = [path for path in folders_in(self.root) if (path / "config.toml").is_file()]
        inside.sort(key=lambda path: not is_name(path.name))  # whose name can stay has it first
        found: dict[str, Path] = {}
        places = set()
        for path in (*inside, *self.trainings.paths(), *self.named):
            place = os.path.realpath(path)
            if place not in places:
                places.add(place)
                found[free_name(os.path.basename(place), found)] = path
        return found

    def find(self, name: str) -> Path:
        """The folder of a run, or the answer that there is none."""
        found = self.paths().get(name)
        if found is None:
            raise HTTPException(404, f"there is no run {name[:80]!r}")
        return found

    def rows(self) -> list[dict[str, Any]]:
        """All runs, the latest first."""
        found = [self.row(name, path) for name, path in self.paths().items()]
        return sorted(found, key=lambda row: str(row["modified"]), reverse=True)

    def row(self, name: str, path: Path) -> dict[str, Any]:
        """One run in a line of the list."""
        try:
            read = read_run(path)
            return {"id": name, **self.summary(path, read)}
        except TROUBLES as trouble:
            return {"id": name, **self.unread(path, trouble)}

    def whole(self, name: str) -> dict[str, Any]:
        """One run with its configuration, figures and log."""
        path = self.find(name)
        more: dict[str, Any] = {"config": {}, "metrics": []}
        try:
            read = read_run(path)
            row = self.summary(path, read)
            more = {"config": to_values(read.config), "metrics": read.metrics}
        except TROUBLES as trouble:
            row = self.unread(path, trouble)
        log = tail(path / "log.txt") or self.trainings.words(path)
        return {"id": name, **row, **more, "log": log, "report": has_report(path)}

    def summary(self, path: Path, read: Read) -> dict[str, Any]:
        task = find(str(read.about.get("task"))).load()
        input_kind, writes = kind_of(task, read.facts)
        name, lines = read.deciding, read.metrics
        kept = next(
            (line for line in reversed(lines) if line.get("is_best")), lines[-1] if lines else {}
        )
        values = [line.get(name) for line in lines] if name else []
        value = kept.get(name) if name else None
        return {
            "task": task.name,
            "data": str(read.facts.get("data") or read.config.data),
            "recipe": read.about.get("recipe"),
            "state": self.state(path, read),
            "epoch": epochs_in(lines),
            "epochs": read.epochs,
            "figure": {"name": name, "value": value} if is_number(value) else None,
            "spark": [each for each in values if is_number(each)],
            "parameters": count_of(path / "model.safetensors"),
            "modified": modified(path),
            "input": input_kind,
            "writes": writes,
            "owner": self.owner(path),
            "error": self.trainings.failure(path),
        }

    def state_now(self, name: str) -> tuple[Path, str]:
        """Where a run is, and its state alone."""
        path = self.find(name)
        try:
            return path, self.state(path, read_run(path))
        except TROUBLES:
            return path, "training" if self.trainings.is_alive(path) else "broken"

    def state(self, path: Path, read: Read) -> str:
        if self.trainings.is_alive(path):
            return "training"
        if read.complete:
            return "done"
        return "training" if is_locked(path) else "stopped"

    def owner(self, path: Path) -> str | None:
        """Who has started the training of a run: a studio, with which it ends or not, or none."""
        return self.trainings.owner(path) or ("terminal" if is_locked(path) else None)

    def unread(self, path: Path, trouble: Exception) -> dict[str, Any]:
        """A row for a folder that does not say what it holds: it is being made, or it is broken."""
        begun = self.trainings.begun(path)
        alive = self.trainings.is_alive(path)
        return {
            "task": begun.task if begun else None,
            "data": begun.data if begun else None,
            "recipe": begun.recipe if begun else None,
            "state": "training" if alive else "broken",
            "epoch": 0,
            "epochs": begun.epochs if begun else None,
            "figure": None,
            "spark": [],
            "parameters": None,
            "modified": begun.began if begun and not path.exists() else modified(path),
            "input": None,
            "writes": False,
            "owner": self.owner(path),
            "error": None if alive else self.trainings.failure(path) or str(trouble),
        }

    def stop(self, name: str) -> None:
        """Let a training that a studio has started come to its end."""
        path = self.find(name)
        if not self.trainings.is_alive(path):
            locked = is_locked(path)
            where = (
                "was not started by a studio: stop it in its own terminal or notebook, with Ctrl-C"
            )
            raise HTTPException(409, f"{name} {where if locked else 'does not train'}")
        self.trainings.stop(path)

    def resume(self, name: str, keep: bool | None = None) -> None:
        """Go on with a run that was stopped."""
        path = self.find(name)
        read = read_run(path)
        if self.state(path, read) == "training":
            raise HTTPException(409, f"{name} is training already")
        if read.complete:
            raise HTTPException(
                409, f"{name} is done: {epochs_in(read.metrics)} epochs of {read.epochs}"
            )
        self.trainings.resume(path, read.about, read.config, keep)


def read_run(path: Path) -> Read:
    """What a folder says, or an error in a sentence."""
    folder = RunFolder.open(path)
    try:
        about = folder.about()
        config = folder.config(find(str(about.get("task"))).load_config())
        return Read(about, config, folder.metrics(), facts_of(path))
    except UserError:
        raise
    except TROUBLES as trouble:
        raise UserError(f"{path} is damaged and cannot be read: {trouble}") from None


def facts_of(path: Path) -> Mapping[str, Any]:
    """The little of a run's facts about its data that is shown, read when they change."""
    try:
        seen = (path / "data.json").stat()
    except OSError:
        return {}
    return _facts(path, seen.st_mtime_ns, seen.st_size)


@lru_cache(maxsize=1000)
def _facts(path: Path, changed: int, size: int) -> Mapping[str, Any]:
    facts = RunFolder(path).read_facts("data") or {}  # with all words that the run knows
    return {name: facts.get(name) for name in ("data", "paired")}


def is_locked(path: Path) -> bool:
    """Whether a process is writing a run; what cannot be asked for is taken for free.

    The lock is shared, and let go at once.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        with (path / ".lock").open("rb") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def count_of(path: Path) -> int | None:
    """The numbers in a file of weights, read off its head."""
    try:
        seen = path.stat()
        return _count(path, seen.st_mtime_ns, seen.st_size)
    except TROUBLES:
        return None


@lru_cache(maxsize=1000)
def _count(path: Path, changed: int, size: int) -> int:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= min(size, HEAD):
            raise ValueError(f"{path} has a head of {length} bytes")
        head = json.loads(file.read(length))
    return sum(math.prod(each["shape"]) for name, each in head.items() if name != "__metadata__")


def tail(path: Path, most: int = LOG) -> str:
    """The last lines of a file, as many as fit."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            text = file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
    return text.partition("\n")[2] if size > most and "\n" in text else text


def modified(path: Path) -> str:
    """When a run last wrote something."""
    times = []
    for name in ("config.toml", "metrics.jsonl", "log.txt", ""):
        try:
            times.append((path / name).stat().st_mtime)
        except OSError:
            continue
        if times and name == "log.txt":
            break  # the folder's own time counts only where there is nothing else
    return datetime.fromtimestamp(max(times, default=0.0), UTC).isoformat(timespec="seconds")


def has_report(path: Path) -> bool:
    """Whether a run has a report of its own; one that lies elsewhere is not its own."""
    report = path / "report.html"
    return report.is_file() and not report.is_symlink()


def folders_in(root: Path) -> list[Path]:
    try:
        return sorted(path for path in root.iterdir() if path.is_dir())
    except OSError:
        return []  # there is no run yet, and so no folder for them


def is_name(text: str) -> bool:
    """Whether a name can stand in an address as it is."""
    return re.fullmatch(r"[A-Za-z0-9._-]+", text) is not None


def free_name(text: str, taken: Mapping[str, Any]) -> str:
    """A name that can stand in an address, and that nobody has."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "run"
    stem = text if is_name(text) else stem
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
