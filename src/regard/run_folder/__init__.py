"""A run is a folder that explains itself. `RunFolder` alone knows its file names and how they are
written: whole or not at all, so that a process killed at any moment leaves a folder that loads.

    config.toml          what was asked, with the format's version
    data.json            what the run must know of its data
    metrics.jsonl        one line an epoch
    model.safetensors    the weights that evaluate and predict use
    manifest.json        a SHA-256 of each of these, by which an edited one is known
    state/STEP/          optimiser, random numbers and position in the data, to go on exactly
    log.txt, curves.png, report.html, …
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.config import build, parse_toml, table, to_toml
from regard.errors import UserError
from regard.run_folder.drafts import (
    clear_drafts,
    drafts_of,
    in_a_sentence,
    link_words,
    lock,
    open_own,
    remove,
    sync,
    write_whole,
)
from regard.run_folder.manifest import (
    DECIDING,
    LISTED,
    MANIFEST,
    METRICS,
    WEIGHTS,
    Manifest,
    digest_of,
    whole_lines,
)
from regard.run_folder.metric_lines import read_line
from regard.run_folder.states import is_state, place_for, states_in
from regard.run_folder.tensor_files import as_safetensors, read_safetensors

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
FORMAT = 2  # of the folder; a reader refuses any other
APPENDED = (METRICS, "log.txt")  # written in place; all else is written anew and put there
# Whether runs that a command opens on its way, as one to begin from, may have edited files.
ACCEPTING: ContextVar[bool] = ContextVar("accepting edits", default=False)


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, at `path`; with `accept_edits`, also if files of it were edited."""

    path: Path
    accept_edits: bool = False

    @classmethod
    def create(cls, name: str, root: Path = Path("runs")) -> RunFolder:
        """A new folder `root/name-NNN` with the first number that is free."""
        stem = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
        with in_a_sentence(root):
            root.mkdir(parents=True, exist_ok=True)
            numbers = (_number(entry.name, stem) for entry in root.iterdir())
            number = 1 + max((n for n in numbers if n is not None), default=0)
            while True:
                path = root / f"{stem}-{number:03d}"
                try:
                    path.mkdir()  # the system decides between two that try at once
                    return cls(path)
                except FileExistsError:
                    number += 1

    @classmethod
    def at(cls, path: Path) -> RunFolder:
        """A new folder at a path of the user's choice, which must not hold anything yet."""
        with in_a_sentence(path):
            path.mkdir(parents=True, exist_ok=True)
        cls.expect_vacant(path)
        return cls(path)

    @staticmethod
    def expect_vacant(path: Path) -> None:
        """Refuse a folder that holds something; what a killed start leaves is nothing."""
        with in_a_sentence(path):
            entries = list(path.iterdir()) if os.path.isdir(path) else []
        visible = [entry.name for entry in entries if not entry.name.startswith(".")]
        if visible and not (visible == [MANIFEST] and Manifest(path).only_begun()):
            raise UserError(f"{path} is not empty, and a run is never overwritten")

    @classmethod
    def open(cls, path: Path, *, accept_edits: bool | None = None) -> RunFolder:
        """An existing run; edits are accepted where the command does, unless it is said here."""
        if not os.path.isdir(path):  # unlike `is_dir`, not stopped by a path that is too long
            raise UserError(f"there is no run {path}")
        if not os.path.isfile(path / "config.toml"):
            raise UserError(f"{path} is not a run: it has no config.toml")
        return cls(path, ACCEPTING.get() if accept_edits is None else accept_edits)

    # Edits

    @cached_property
    def manifest(self) -> Manifest:
        return Manifest(self.path)

    def expect_unedited(self) -> None:
        """Refuse a run whose answers an edited file would decide; where it is accepted, say so."""
        for trouble in self.edits():
            print(f"regard: {trouble}; loaded all the same", file=sys.stderr)

    def edits(self) -> list[str]:
        """What was edited of a run for which that is accepted; of others the first is an error."""
        troubles = dict.fromkeys(self._trouble(name) for name in DECIDING)
        return [trouble for trouble in troubles if trouble]

    def _trouble(self, name: str) -> str:
        trouble = self.manifest.trouble(name) if LISTED.fullmatch(name) else ""
        if trouble and not self.accept_edits:
            raise UserError(f"{trouble}; restore the file, or load it as it is with --accept-edits")
        return trouble

    # Configuration

    def write_config(self, config: Any, **about: str) -> None:
        """Keep the configuration, and a few words about it such as the task."""
        head = "".join(f"{key} = {json.dumps(word)}\n" for key, word in about.items())
        self.write_text("config.toml", f"format = {FORMAT}\n{head}\n[run]\n{_nested(config)}")

    def about(self) -> dict[str, Any]:
        """The words beside the configuration: the format, the task."""
        return {key: value for key, value in self._config().items() if key != "run"}

    def config(self, kind: type[T]) -> T:
        """The configuration, as the dataclass it was written from."""
        source = str(self.path / "config.toml")
        return build(kind, table(self._config(), "run", source=source), source=source)

    def _config(self) -> dict[str, Any]:
        self._trouble("config.toml")
        values = parse_toml(self.path / "config.toml")
        written = values.get("format")
        if written == 1:
            raise UserError(
                f"{self.path / 'config.toml'} has format 1, of an earlier regard whose fields and "
                "weights had other names: train it again, or use the version that wrote it"
            )
        if type(written) is not int or written != FORMAT:
            raise UserError(
                f"{self.path / 'config.toml'} has format {written!r}, and this version reads "
                f"{FORMAT}: update regard, or use the version that wrote the run"
            )
        return values

    # Metrics

    def add_metrics(
        self, line: Mapping[str, Any], weights: Mapping[str, Tensor] | None = None
    ) -> None:
        """Append one line, and put in place the weights that it tells of, if they are to be kept.

        A line cut short by a crash is not carried on.
        """
        text, path = (json.dumps(line, allow_nan=True) + "\n").encode(), self.path / METRICS
        files = {} if weights is None else {WEIGHTS: as_safetensors(weights, checked=False)}
        before = self._lines()
        digests = {name: digest_of(data) for name, data in files.items()}
        if not before or not self.manifest.trouble(METRICS):  # an edit stays one
            digests[METRICS] = digest_of(before + text)
        with self.manifest.changing(digests):
            for name, data in files.items():
                self._put(name, data)
            with in_a_sentence(path), open_own(path, os.O_RDWR | os.O_CREAT) as file:
                file.truncate(len(before))
                file.seek(len(before))
                file.write(text)
                file.flush()
                os.fsync(file.fileno())

    def metrics(self) -> list[dict[str, Any]]:
        """Every line that is whole."""
        self._trouble(METRICS)
        path = self.path / METRICS
        texts = self._lines().decode("utf-8", "replace").splitlines()
        read = (read_line(text, f"{path}, line {at}") for at, text in enumerate(texts, start=1))
        return [line for line in read if line is not None]

    def _lines(self) -> bytes:
        try:
            return whole_lines((self.path / METRICS).read_bytes())
        except FileNotFoundError:
            return b""

    def keep_metrics(self, count: int) -> None:
        """Forget the lines after the first `count`: a resumed run writes them again."""
        kept = self.metrics()[:count]
        self.write_text(METRICS, "".join(json.dumps(line) + "\n" for line in kept))

    def add_log(self, words: str) -> None:
        """Append to what the run said."""
        path = self.path / "log.txt"
        with in_a_sentence(path), open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as file:
            file.write((words + "\n").encode("utf-8", "replace"))

    # Facts

    def write_facts(self, name: str, values: Mapping[str, Any]) -> None:
        """Plain values as `name.json`."""
        self.write_text(f"{name}.json", json.dumps(values, indent=1, ensure_ascii=False) + "\n")

    def read_facts(self, name: str) -> dict[str, Any] | None:
        """What was written under this name, or None if nothing was."""
        path = self.path / f"{name}.json"
        self._trouble(path.name)
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except RecursionError:
            raise UserError(f"{path} is damaged: it is nested too deeply") from None
        except (OSError, ValueError) as trouble:
            raise UserError(f"{path} is damaged and cannot be read: {trouble}") from None
        if not isinstance(values, dict):
            raise UserError(f"{path} is damaged: it holds no table of facts")
        return values

    # Weights and state

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], **about: str) -> None:
        """Tensors as safetensors; what no manifest lists has a checksum of what it holds within."""
        self.write_bytes(name, as_safetensors(tensors, **about, checked=name != WEIGHTS))

    def read_tensors(self, name: str) -> dict[str, Tensor]:
        """Tensors as they were written, or a sentence about what happened to the file."""
        self._trouble(name)
        return self._read_tensors(name)[0]

    def write_state(self, step: int, tensors: Mapping[str, Tensor], text: str) -> None:
        """Everything needed to go on after `step`: tensors, and a text that belongs to them."""
        with self.writing_state(step) as folder:
            folder.write_text("state.json", text)
            folder.write_tensors("state.safetensors", tensors, text=digest_of(text.encode()))

    def read_state(self) -> tuple[Path, dict[str, Tensor], str] | None:
        """The newest whole state: its folder, tensors and text."""
        found = self.latest_state()
        if found is None:
            return None
        folder = found[1]
        tensors, about = folder._read_tensors("state.safetensors")
        path = folder.path / "state.json"
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as trouble:
            words = getattr(trouble, "strerror", None) or trouble
            raise UserError(f"{path} is damaged and cannot be read: {words}") from None
        if about.get("text", digest_of(text.encode())) != digest_of(text.encode()):
            raise UserError(f"{path} is damaged: it is not the text that was written")
        return folder.path, tensors, text

    def _read_tensors(self, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
        path = self.path / name
        if not path.is_file():
            raise UserError(f"{self.path} has no {name}: it may not have reached its first epoch")
        return read_safetensors(path)

    @contextmanager
    def writing_state(self, step: int) -> Iterator[RunFolder]:
        """A folder for everything needed to go on after `step`; it counts once it is whole."""
        parent = self.path / "state"
        with in_a_sentence(parent):
            parent.mkdir(exist_ok=True)
            draft = parent / f"{step:09d}.draft"
            if is_state(draft):
                remove(draft)
            draft.mkdir()
        try:
            yield RunFolder(draft)
        except BaseException:
            remove(draft)  # on a full disk, half a state is in the way
            raise
        with in_a_sentence(parent):
            final = place_for(parent, step)
            os.replace(draft, final)
            sync(parent)
            for old in parent.iterdir():
                if old != final and is_state(old):
                    remove(old)

    def latest_state(self) -> tuple[int, RunFolder] | None:
        """The newest whole state and its step."""
        step, _, path = max(states_in(self.path / "state"), default=(0, 0, None))
        return None if path is None else (step, RunFolder(path))

    # Files

    def write_text(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        self.write_bytes(name, text.encode())

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file whole or not at all, and where it decides answers, note its digest."""
        with self.manifest.changing({name: digest_of(data)} if LISTED.fullmatch(name) else {}):
            self._put(name, data)

    def _put(self, name: str, data: bytes) -> None:
        with in_a_sentence(self.path / name):
            clear_drafts(self.path)
            write_whole(self.path / name, data)

    def inside(self, name: str) -> Path:
        """The place of what is added to, unless that is a link, which could lead out of the run."""
        path = self.path / name
        if path.is_symlink():
            raise UserError(link_words(path))
        return path

    def withdraw(self, *names: str) -> None:
        """Take away a run that could not begin: these files, and the folder if it is then empty."""
        clear_drafts(self.path)
        for name in names:
            with suppress(OSError):
                (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):
            if not (self.path / "config.toml").exists():
                (self.path / MANIFEST).unlink(missing_ok=True)
            self.path.rmdir()

    @contextmanager
    def drafting(self, *names: str) -> Iterator[list[Path]]:
        """Paths to write to, which take their names together once all are written."""
        with in_a_sentence(self.path):
            clear_drafts(self.path)
            with drafts_of(*(self.path / name for name in names)) as drafts:
                yield drafts

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for writing; a second process is refused, a dead one holds nothing.

        What a process left that was killed while it wrote is put in order.
        """
        path = self.path / ".lock"
        with in_a_sentence(path):
            file = open_own(path, os.O_RDWR | os.O_CREAT)
        with file:  # which also lets go of the lock
            if not lock(file.fileno()):
                raise UserError(f"{self.path} is being written by another process")
            for name in APPENDED:
                self.inside(name)
            clear_drafts(self.path)
            self.manifest.settle()
            yield


def epochs_in(lines: Sequence[Mapping[str, Any]]) -> int:
    """How many epochs are over by lines of metrics: those that nobody measured have no line."""
    return int(lines[-1].get("epoch", len(lines))) if lines else 0


def _nested(config: Any) -> str:
    """The TOML of a configuration, its tables moved under [run]."""
    return re.sub(r"^\[", "[run.", to_toml(config), flags=re.MULTILINE)


def _number(name: str, stem: str) -> int | None:
    found = re.fullmatch(re.escape(stem) + r"-(\d{3,})", name)
    return int(found[1]) if found else None
