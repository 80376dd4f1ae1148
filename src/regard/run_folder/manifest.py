"""A SHA-256 of every file that decides what a run answers: `manifest.json`.

    {"config.toml": "9f86d0…", "metrics.jsonl": ["60303a…", "fd61a0…"], …}

A file that was edited or damaged has another digest, and is named when the run is loaded. This is
no signature: whoever edits a file can edit the manifest too.

A process can be killed at any moment. So before files change, the manifest admits what they will be
beside what they are (a list, with null for a file that is not there yet); once they have changed,
what they were is dropped.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import UserError
from regard.run_folder.drafts import PLAIN, in_a_sentence, lock, write_whole

MANIFEST = "manifest.json"
CONFIG, DATA, METRICS, WEIGHTS = "config.toml", "data.json", "metrics.jsonl", "model.safetensors"
DECIDING = (CONFIG, DATA, METRICS, WEIGHTS)  # looked at whenever a run is loaded
LISTED = re.compile(
    "|".join((*map(re.escape, DECIDING), r"machine\.json", r"evaluation-\w+\.json"))
)
DIGEST = re.compile("[0-9a-f]{64}")
LARGEST = 2**20  # bytes of a manifest
LARGE = 2**20  # bytes of a file whose digest is remembered while the file stays as it is
WAITLESS = getattr(os, "O_NONBLOCK", 0)  # a pipe by the name of a file is no file
TRIES = 50  # to read a file and the manifest of one moment, while a training changes both

Digests = dict[str, tuple[str | None, ...]]  # what each file may be; None where it need not be


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def whole_lines(data: bytes) -> bytes:
    """Without a last line that was cut short: a line counts once it has its end."""
    return data[: data.rfind(b"\n") + 1]


@dataclass(frozen=True)
class Manifest:
    """The manifest of the run in a folder."""

    folder: Path
    known: dict[str, tuple[object, str]] = field(default_factory=dict, compare=False, repr=False)

    def read(self) -> Digests | None:
        """What each file may be; None where there is no manifest."""
        path = self.folder / MANIFEST
        try:
            with path.open("rb") as file:
                text = file.read(LARGEST + 1)
        except FileNotFoundError:
            return None
        except OSError as trouble:
            raise UserError(f"{path} cannot be read: {trouble.strerror}") from None
        try:
            values = json.loads(text) if len(text) <= LARGEST else None
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise UserError(f"{path} is damaged: it is no table of digests")
        found: Digests = {}
        for name, value in values.items():
            digests = tuple(value) if isinstance(value, list) else (value,)
            if not LISTED.fullmatch(name) or not digests or not all(map(is_digest, digests)):
                raise UserError(f"{path} is damaged: {name[:60]!r} is no file of a run's digest")
            found[name] = digests
        return found

    def digest(self, name: str) -> str | None:
        """The digest of a file as it is now, None if it is not there.

        Of metrics it is that of the whole lines, and none where there is no line.
        """
        path = self.folder / name
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | WAITLESS | PLAIN), "rb") as file:
                facts = os.fstat(file.fileno())
                if not stat.S_ISREG(facts.st_mode):
                    raise UserError(f"{path} cannot be read: it is no file")
                marks = (facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size)
                if name in self.known and self.known[name][0] == marks:
                    return self.known[name][1]
                if name == METRICS:
                    lines = whole_lines(file.read())
                    return digest_of(lines) if lines else None
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return None
        except OSError as trouble:
            raise UserError(f"{path} cannot be read: {trouble.strerror}") from None
        if facts.st_size >= LARGE:
            self.known[name] = marks, found
        return found

    def trouble(self, name: str) -> str:
        """What is wrong with a file that is not as it was written, in words; none if it is.

        A file that is gone is for whoever needs it to tell.
        """
        path = self.folder / name
        try:
            before = self.read()
            for _ in range(TRIES):
                digest, now = self.digest(name), self.read()
                if digest is None:
                    return ""
                if now is None:
                    return (
                        f"{self.folder} has no {MANIFEST}: it is not whole, or an earlier version "
                        "of regard wrote it"
                    )
                if digest in (before or {}).get(name, ()) or digest in now.get(name, ()):
                    return ""
                if now == before:
                    break
                before = now  # it is being written
        except UserError as damage:
            return str(damage)
        return f"{path} is not the file that training wrote: it was edited, or is damaged"

    @contextmanager
    def changing(self, digests: Mapping[str, str]) -> Iterator[None]:
        """Within, files are put in place that have these digests; until then they may be as before.

        What goes wrong within leaves both admitted, for the next one that has the run's lock.
        """
        try:
            known = self.read()
        except UserError:
            known = None
        if known is None and (self.folder / CONFIG).exists():
            digests = {}  # it has lost its manifest, and a part of one is none
        if all((known or {}).get(name) == (digest,) for name, digest in digests.items()):
            yield
            return
        self.update({name: (None, digest) for name, digest in digests.items()}, keep=True)
        yield
        self.update({name: (digest,) for name, digest in digests.items()})

    def update(self, changes: Mapping[str, tuple[str | None, ...]], *, keep: bool = False) -> None:
        """Write other digests of some files, or, to `keep` what they may be, more of them."""
        path = self.folder / MANIFEST
        with in_a_sentence(path), alone(self.folder):
            known = self.read() or {}
            if keep:
                changes = {
                    name: tuple(dict.fromkeys((*known.get(name, digests[:1]), *digests[1:])))
                    for name, digests in changes.items()
                }
            write_whole(path, as_json({**known, **changes}))

    def settle(self) -> None:
        """Drop what files are not: after a change that was broken off. The run's lock is held."""
        try:
            known = self.read() or {}
        except UserError:
            return  # whoever loads it is told
        found = {name: self.digest(name) for name, may in known.items() if len(may) > 1}
        settled = {name: (one,) for name, one in found.items() if one in known[name]}
        if settled:
            self.update(settled)

    def adopt(self) -> None:
        """Take every file as it is now for what was written: its edit has been accepted."""
        names = [name for name in sorted(os.listdir(self.folder)) if LISTED.fullmatch(name)]
        found = {name: (digest,) for name in names if (digest := self.digest(name)) is not None}
        path = self.folder / MANIFEST
        with in_a_sentence(path), alone(self.folder):
            write_whole(path, as_json(found))

    def only_begun(self) -> bool:
        """Whether it was left by a start that was killed before there was any file."""
        try:
            known = self.read()
        except UserError:
            return False
        return bool(known) and all(None in may for may in (known or {}).values())


def as_json(digests: Mapping[str, tuple[str | None, ...]]) -> bytes:
    values = {name: may[0] if len(may) == 1 else list(may) for name, may in digests.items()}
    return (json.dumps(values, indent=1) + "\n").encode()


def is_digest(value: object) -> bool:
    return value is None or (isinstance(value, str) and DIGEST.fullmatch(value) is not None)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time changes the manifest of a run that is trained and measured at once."""
    if os.name == "nt":  # which locks no folders
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | PLAIN)
    try:
        lock(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)
