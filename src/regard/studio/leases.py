"""A training belongs to the studio that started it, by a lease that the studio renews.

    RUNS/.studio/RUN.json    who trains there, who started it, and whether it goes on without them
    RUNS/.studio/RUN.lease   an empty file, touched every few seconds by the studio

The training looks at its own lease (leased.py). Once nobody has renewed it for a while, or somebody
has withdrawn it, the training saves and stops by itself. So any studio that sees the folder can
stop a training, whoever started it, and no process is ever sent a signal because of a number that
stands in a file.
"""

from __future__ import annotations

import glob
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.config import build, to_values
from regard.errors import UserError
from regard.run_folder import RunFolder
from regard.studio.alive import Process, is_running

FOLDER = ".studio"  # beside the folders of runs
SECONDS = 15.0  # without renewal, after which a training takes its studio for gone
RENEW = 3.0  # seconds between two renewals
STARTING = 60.0  # seconds that a training is given to say which process it is
LARGEST = 20_000  # bytes of a record


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is known of a training while it runs."""

    task: str
    data: str
    recipe: str | None = None
    epochs: int
    began: str
    """When it was started, as ISO time."""
    keep: bool
    """Whether it goes on when its studio is gone."""
    seconds: float
    """Without renewal, after which its studio counts as gone."""
    studio: Process
    trainer: Process | None = None
    """None until it has said so itself."""


@dataclass(frozen=True)
class Lease:
    """The two files of one training."""

    folder: Path
    name: str

    @classmethod
    def of(cls, run: Path) -> Lease:
        """That of the training in the folder of a run."""
        here = Path(os.path.realpath(run))
        return cls(here.parent / FOLDER, here.name)

    @property
    def record_path(self) -> Path:
        return self.folder / f"{self.name}.json"

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.lease"

    @property
    def run(self) -> Path:
        return self.folder.parent / self.name

    def grant(self, record: Record) -> None:
        """Let a training begin, for as long as the lease is renewed."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.path.unlink(missing_ok=True)
            self.write(record)  # first: a lease without a record would belong to nobody
            self.path.touch(exist_ok=False)
        except OSError as trouble:
            raise UserError(f"cannot write {self.path}: {trouble.strerror}") from None

    def write(self, record: Record) -> None:
        values = json.dumps(to_values(record))
        RunFolder(self.folder).write_text(self.record_path.name, values)

    def read(self) -> Record | None:
        """What stands there, if it is a record."""
        try:
            if not stat.S_ISREG(os.lstat(self.record_path).st_mode):
                return None
            with self.record_path.open("rb") as file:
                values: Any = json.loads(file.read(LARGEST))
            return build(Record, values) if isinstance(values, dict) else None
        except (OSError, ValueError, TypeError, RecursionError, UserError):
            return None

    def running(self) -> Record | None:
        """The record of a training whose process runs."""
        record = self.read()
        if record is None or record.trainer is None or not is_running(record.trainer):
            return None
        return record

    def renew(self) -> None:
        """Say that the studio is there; a lease that was withdrawn stays so."""
        with suppress(OSError):
            if stat.S_ISREG(os.lstat(self.path).st_mode):
                os.utime(self.path)

    def renewed(self) -> int | None:
        """A number that changes with each renewal; None once the lease was withdrawn."""
        try:
            return os.lstat(self.path).st_mtime_ns
        except FileNotFoundError:
            return None

    def withdraw(self) -> None:
        """Let the training save and stop."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as trouble:
            raise UserError(f"cannot delete {self.path}: {trouble.strerror}") from None

    def take_over(self, studio: Process) -> None:
        """Renew it from now on in place of a studio that has gone."""
        record = self.read()
        if record is not None:
            with suppress(UserError):  # on a full disk, the training saves and stops
                self.write(replace(record, studio=studio))
                self.renew()

    def clear(self) -> None:
        """Forget a training that has ended, and the folder where it was the last."""
        drafts = self.folder.glob(f".{glob.escape(self.record_path.name)}.*.draft")
        for path in (self.path, self.record_path, *drafts):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()

    def is_stale(self, now: float) -> bool:
        """Whether its training has ended, or never began; `now` is the time of the clock."""
        record = self.read()
        if record is not None and record.trainer is not None:
            return not is_running(record.trainer)
        with suppress(OSError):
            return abs(now - os.lstat(self.record_path).st_mtime) > STARTING
        return True


def leases_in(folders: Iterable[Path]) -> Iterator[Lease]:
    """All leases beside the runs in some folders."""
    for folder in {Path(os.path.realpath(each)) for each in folders}:
        try:
            names = sorted(os.listdir(folder / FOLDER))
        except OSError:
            continue
        for name in names:
            if name.endswith(".json") and not name.startswith("."):
                yield Lease(folder / FOLDER, name.removesuffix(".json"))
