"""A run is a folder that explains itself. `RunFolder` alone knows its file names and how they are
written: whole or not at all, so that a process killed at any moment leaves a folder that loads.

    config.toml          what was asked, with the format's version
    metrics.jsonl        one line an epoch
    model.safetensors    the weights that evaluate and predict use
    state/STEP/          optimiser, random numbers and position in the data, to go on exactly
    log.txt, curves.png, report.html, …
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from regard.config import build, parse_toml, table, to_toml
from regard.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
FORMAT = 1  # of the folder; a reader refuses a newer one
GUARDED = ("config.toml", "data.json", "metrics.jsonl", "model.safetensors")  # written when locked


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run, at `path`."""

    path: Path

    @classmethod
    def create(cls, name: str, root: Path = Path("runs")) -> RunFolder:
        """A new folder `root/name-NNN` with the first number that is free."""
        stem = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run"
        with _said(root):
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
        with _said(path):
            path.mkdir(parents=True, exist_ok=True)
        cls.expect_vacant(path)
        return cls(path)

    @staticmethod
    def expect_vacant(path: Path) -> None:
        """Refuse a folder that holds something; hidden files, as a killed start leaves, do not."""
        with _said(path):
            if os.path.isdir(path) and any(not e.name.startswith(".") for e in path.iterdir()):
                raise UserError(f"{path} is not empty, and a run is never overwritten")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run."""
        if not os.path.isdir(path):  # unlike `is_dir`, not stopped by a path that is too long
            raise UserError(f"there is no run {path}")
        if not os.path.isfile(path / "config.toml"):
            raise UserError(f"{path} is not a run: it has no config.toml")
        return cls(path)

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
        values = parse_toml(self.path / "config.toml")
        written = values.get("format")
        if type(written) is not int or not 1 <= written <= FORMAT:
            raise UserError(
                f"{self.path / 'config.toml'} has format {written!r}; this version reads 1 to "
                f"{FORMAT}: update regard, or run it with the version that wrote the run"
            )
        return values

    # Metrics

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        """Append one line; a line cut short by a crash is not carried on."""
        text = json.dumps(line, allow_nan=True) + "\n"
        path = self.path / "metrics.jsonl"
        with _said(path), path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    text = "\n" + text
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def metrics(self) -> list[dict[str, Any]]:
        """Every line that is whole."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        lines = []
        for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # killed in the middle of it
            if isinstance(line, dict):
                lines.append(line)
        return lines

    def keep_metrics(self, count: int) -> None:
        """Forget the lines after the first `count`: a resumed run writes them again."""
        kept = self.metrics()[:count]
        self.write_text("metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))

    def add_log(self, words: str) -> None:
        """Append to what the run said."""
        path = self.path / "log.txt"
        with _said(path), path.open("a", encoding="utf-8") as file:
            file.write(words + "\n")

    # Facts

    def write_facts(self, name: str, values: Mapping[str, Any]) -> None:
        """Plain values as `name.json`."""
        self.write_text(f"{name}.json", json.dumps(values, indent=1, ensure_ascii=False) + "\n")

    def read_facts(self, name: str) -> dict[str, Any] | None:
        """What was written under this name, or None if nothing was."""
        path = self.path / f"{name}.json"
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as trouble:
            raise UserError(f"{path} is damaged and cannot be read: {trouble}") from None
        if not isinstance(values, dict):
            raise UserError(f"{path} is damaged: it holds no table of facts")
        return values

    # Weights and state

    def write_tensors(self, name: str, tensors: Mapping[str, Tensor], **about: str) -> None:
        """Tensors as safetensors, with a checksum of what they hold."""
        from safetensors.torch import save

        whole = {key: tensor.detach().contiguous().cpu() for key, tensor in tensors.items()}
        self.write_bytes(name, save(whole, metadata={**about, "sha256": _checksum(whole)}))

    def read_tensors(self, name: str) -> dict[str, Tensor]:
        """Tensors as they were written, or a sentence about what happened to the file."""
        return self._read_tensors(name)[0]

    def digest_of_tensors(self, name: str) -> str:
        """The checksum that a file of tensors was written with, read off its head alone."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path / name, framework="pt") as file:
                return str((file.metadata() or {}).get("sha256", ""))
        except (SafetensorError, OSError, ValueError):
            return ""

    def write_state(self, step: int, tensors: Mapping[str, Tensor], text: str) -> None:
        """Everything needed to go on after `step`: tensors, and a text that belongs to them."""
        with self.writing_state(step) as folder:
            folder.write_text("state.json", text)
            folder.write_tensors("state.safetensors", tensors, text=_digest(text))

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
        if about.get("text", _digest(text)) != _digest(text):
            raise UserError(f"{path} is damaged: it is not the text that was written")
        return folder.path, tensors, text

    def _read_tensors(self, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
        from safetensors import SafetensorError, safe_open

        path = self.path / name
        if not path.is_file():
            raise UserError(f"{self.path} has no {name}: it may not have reached its first epoch")
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as trouble:
            raise UserError(f"{path} is damaged and cannot be read: {trouble}") from None
        if "sha256" in metadata and metadata["sha256"] != _checksum(tensors):
            raise UserError(f"{path} is damaged: its numbers are not those that were written")
        return tensors, metadata

    @contextmanager
    def writing_state(self, step: int) -> Iterator[RunFolder]:
        """A folder for everything needed to go on after `step`; it counts once it is whole."""
        parent = self.path / "state"
        with _said(parent):
            parent.mkdir(exist_ok=True)
            draft = parent / f"{step:09d}.draft"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
        try:
            yield RunFolder(draft)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)  # on a full disk, half a state is in the way
            raise
        with _said(parent):
            # A second state of the same step stands beside the first until it is in place.
            turn = max((turn for at, turn, _ in self._states() if at == step), default=-1) + 1
            final = parent / (f"{step:09d}" if not turn else f"{step:09d}-{turn}")
            os.replace(draft, final)
            _sync(parent)
            for old in parent.iterdir():
                if old != final:
                    shutil.rmtree(old, ignore_errors=True)

    def latest_state(self) -> tuple[int, RunFolder] | None:
        """The newest whole state and its step."""
        step, _, path = max(self._states(), default=(0, 0, None))
        return None if path is None else (step, RunFolder(path))

    def _states(self) -> list[tuple[int, int, Path]]:
        """Whole states: the step, which of several of that step, and where."""
        parent = self.path / "state"
        found = []
        for entry in parent.iterdir() if parent.is_dir() else ():
            if name := re.fullmatch(r"(\d+)(?:-(\d+))?", entry.name):
                found.append((int(name[1]), int(name[2] or 0), entry))
        return found

    # Files

    def write_text(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        self.write_bytes(name, text.encode())

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write beside, make sure it is on the disk, then put it in place in one step."""
        path = self.path / name
        draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
        with _said(path):
            try:
                with draft.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(draft, path)
                _sync(path.parent)
            finally:
                draft.unlink(missing_ok=True)

    def withdraw(self, *names: str) -> None:
        """Take away a run that could not begin: these files, and the folder if it is then empty."""
        for name in names:
            with suppress(OSError):
                (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    @contextmanager
    def drafting(self, *names: str) -> Iterator[list[Path]]:
        """Paths to write to, which take their names together once all are written."""
        drafts = [self.path / f".draft-{os.getpid()}-{name}" for name in names]
        with _said(self.path):
            try:
                yield drafts
                for draft, name in zip(drafts, names, strict=True):
                    os.replace(draft, self.path / name)
            finally:
                for draft in drafts:
                    draft.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for writing; a second process is refused, a dead one holds nothing."""
        path = self.path / ".lock"
        with _said(path):
            file = path.open("a+")
        try:
            if not _lock(file.fileno()):
                raise UserError(f"{self.path} is being written by another process")
            for name in GUARDED:  # what a process killed while writing left half done
                for draft in self.path.glob(f".{name}.*.draft"):
                    draft.unlink(missing_ok=True)
            yield
        finally:
            file.close()  # which also lets go of the lock


def epochs_in(lines: Sequence[Mapping[str, Any]]) -> int:
    """How many epochs are over by lines of metrics: those that nobody measured have no line."""
    return int(lines[-1].get("epoch", len(lines))) if lines else 0


def _nested(config: Any) -> str:
    """The TOML of a configuration, its tables moved under [run]."""
    return re.sub(r"^\[", "[run.", to_toml(config), flags=re.MULTILINE)


def _number(name: str, stem: str) -> int | None:
    found = re.fullmatch(re.escape(stem) + r"-(\d{3,})", name)
    return int(found[1]) if found else None


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    import torch

    digest = hashlib.sha256()
    for key in sorted(tensors):
        tensor = tensors[key]
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _lock(descriptor: int) -> bool:
    """Take the lock of an open file if nobody has it; it goes with the process."""
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sync(folder: Path) -> None:
    """Make sure a renamed entry survives a power cut; Windows has no such call."""
    if os.name != "nt":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """What the system refuses, in a sentence that names the path."""
    try:
        yield
    except OSError as trouble:
        raise UserError(f"cannot write {path}: {trouble.strerror or trouble}") from None
