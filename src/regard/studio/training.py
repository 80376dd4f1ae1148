"""Trainings that the studio starts: each a process of its own, as if typed into a terminal.

    python -m regard.studio.leased ROOT/ID TASK --recipe=NAME --out=ROOT/ID --train.epochs=2

which is `regard train TASK --recipe=NAME …`, ended when the studio is (leases.py). What the page
asks for is checked before anything starts, and is then said in the program's own words: the flags
are made from the configuration that came out, not from what came in. So nothing in a request can
become another flag, and a run is written nowhere but into its new folder.
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
from typing import IO, Any, Literal

from starlette.exceptions import HTTPException

from regard.config import change, to_values
from regard.errors import ConfigError, UserError, nearest
from regard.hardware.device import choose_device
from regard.run_folder import RunFolder
from regard.runs.recipe import Recipe, recipes
from regard.studio import leases
from regard.studio.alive import is_running, this_process
from regard.studio.forms import is_own, joined
from regard.studio.leases import Lease, Record, leases_in
from regard.studio.places import Places
from regard.tasks import find
from regard.tasks.bounds import expect_room

log = logging.getLogger("regard.studio")
PROGRAM = (sys.executable, "-P", "-m", "regard.studio.leased")
MOST = 4  # trainings at once
WORDS = 20_000  # bytes of what a process said that are shown
PATIENCE = 5.0  # seconds before a training that was told to stop is told again
STOPPED = (0, 130, 143, -signal.SIGINT, -signal.SIGTERM)  # it came to its end, or was told to stop
LARGEST = 2**53  # of whole numbers, beyond which a page cannot tell one from the next

Owner = Literal["studio", "kept", "terminal"]


@dataclass
class Training:
    """A process that trains, and what was asked of it."""

    path: Path
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    lease: Lease
    record: Record
    stop_sent_at: float = -math.inf  # when it was last told to stop
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
    """All trainings that were started here, and those that another studio has left running."""

    def __init__(
        self, root: Path, *, places: Places | None = None, keep_training: bool = False
    ) -> None:
        self.root = root
        self.places = Places(root) if places is None else places
        self.keep_training = keep_training  # where nothing is said of a training
        self.me = this_process()
        self.known: dict[Path, Training] = {}
        self.lock = threading.Lock()  # requests are answered in several threads
        self.closing = threading.Event()

    def start(
        self, task: str, recipe: str, changes: Mapping[str, Any], keep: bool | None = None
    ) -> str:
        """Begin a run by a recipe with some of its fields changed; its name."""
        chosen = recipe_of(task, recipe)
        kind = find(task).load_config()
        config = chosen.config(kind)
        wanted = changed(chosen, config, changes, task)
        wanted = self.places.confined(task, wanted, changes)
        check_size(task, wanted)
        flags = flags_of(config, wanted)
        with self.lock:
            self.expect_room()
            words = re.sub(r"[^A-Za-z0-9.-]+", "-", Path(wanted.data).stem) or "data"
            folder = RunFolder.create(f"{task}-{words}"[:80], self.root)
            arguments = [task, f"--recipe={recipe}", f"--out={folder.path}", *flags]
            self.begin(folder.path, arguments, task, wanted, recipe, keep)
        return folder.path.name

    def resume(
        self, path: Path, about: Mapping[str, Any], config: Any, keep: bool | None = None
    ) -> None:
        """Go on with the run in a folder."""
        task = str(about.get("task"))
        find(task)  # a folder may say anything
        with self.lock:
            if self.is_alive(path):
                raise HTTPException(409, f"{path.name} is training already")
            self.expect_room()
            recipe = about.get("recipe")
            self.begin(path, [task, f"--out={path}", "--resume"], task, config, recipe, keep)

    def begin(
        self,
        path: Path,
        arguments: Sequence[str],
        task: str,
        config: Any,
        recipe: str | None,
        keep: bool | None,
    ) -> None:
        record = Record(
            task=task,
            data=str(config.data),
            recipe=recipe,
            epochs=config.train.epochs,
            began=datetime.now(UTC).isoformat(timespec="seconds"),
            keep=self.keep_training if keep is None else keep,
            seconds=leases.SECONDS,
            studio=self.me,
        )
        lease = Lease.of(path)
        lease.grant(record)
        # Appending, the process writes at the end wherever we have read.
        output = tempfile.TemporaryFile("ab+")  # noqa: SIM115
        try:
            process = subprocess.Popen(
                [*PROGRAM, str(path), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is for the studio, which says so
            )
        except OSError as trouble:
            output.close()
            lease.clear()
            raise UserError(f"no training can be started: {trouble.strerror}") from None
        if path in self.known:  # it goes on: what was said before is in its log
            self.known[path].output.close()
        self.known[path] = Training(path, process, output, lease, record)

    def expect_room(self) -> None:
        running = sum(map(self.is_alive, self.paths()))
        if running >= MOST:
            raise HTTPException(409, f"{running} trainings are running: stop one, or wait for it")

    def stop(self, path: Path) -> None:
        """Tell a training to stop, as Ctrl-C does: it keeps its state."""
        training = self.known.get(path)
        if training is None or not training.alive:
            Lease.of(path).withdraw()  # that of another studio, if there is one
            return
        # Told a second time at once, as by a double click, it would leave off saving.
        if time.monotonic() - training.stop_sent_at > PATIENCE:
            again, training.stop_sent_at = math.isfinite(training.stop_sent_at), time.monotonic()
            if again:
                interrupt(training.process)
            else:
                training.lease.withdraw()

    # Leases

    def renew_often(self) -> None:
        """Renew leases until it closes: what a thread does as long as the studio is there."""
        while True:
            try:
                self.renew()
            except Exception:  # whatever happens to one lease, the others want to be renewed
                log.exception("a lease could not be renewed")
            if self.closing.wait(leases.RENEW):
                return

    def renew(self) -> None:
        """Renew what is ours, take over what a studio that is gone has left, clear what is over."""
        for lease in leases_in(self.folders()):
            record = lease.running()
            if record is None:
                self.clear(lease)
                self.renew_if_ours(lease)
            elif record.studio == self.me:
                lease.renew()
            elif not record.keep and not is_running(record.studio):
                lease.take_over(self.me)

    def renew_if_ours(self, lease: Lease) -> None:
        """A training that has not said yet which process it is."""
        if any(each.lease == lease and each.alive for each in list(self.known.values())):
            lease.renew()

    def clear(self, lease: Lease) -> None:
        """Forget a lease whose training has ended."""
        ours = any(each.lease == lease and each.alive for each in list(self.known.values()))
        if not ours and lease.is_stale(time.time()):
            lease.clear()

    def folders(self) -> set[Path]:
        """Where runs lie that were started here, or by a studio before."""
        return {self.root, *(each.lease.run.parent for each in list(self.known.values()))}

    # The end

    def stop_all(self, seconds: float = 20.0) -> None:
        """Stop what is running, but for what is to go on, and wait for it."""
        running = [path for path in self.paths() if self.is_alive(path)]
        kept = [path for path in running if self.owner(path) == "kept"]
        ours = [path for path in running if path not in kept and self.is_ours(path)]
        if ours:
            names = ", ".join(path.name for path in ours)
            log.warning("stopping %s; what is done is saved, and can be gone on with", names)
        if kept:
            names = ", ".join(path.name for path in kept)
            log.warning("%s: goes on training; a studio on %s can stop it", names, self.root)
        for path in ours:
            with suppress(UserError):  # its lease runs out
                self.stop(path)
        until = time.monotonic() + seconds
        for path in ours:
            self.wait_for(path, until)
        for training in list(self.known.values()):
            self.failure(training.path)
            training.output.close()
        self.closing.set()

    def wait_for(self, path: Path, until: float) -> None:
        training = self.known.get(path)
        if training is None:  # of a studio before: it has no process of ours, and ends by itself
            while self.is_alive(path) and time.monotonic() < until:
                time.sleep(0.1)
            return
        try:
            training.process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            training.process.kill()  # what it saved last is kept all the same
            training.process.wait()

    # What is known of them

    def paths(self) -> list[Path]:
        """Folders of the runs that were started here or are running still, some without files."""
        found = {os.path.realpath(path): path for path in list(self.known)}
        for lease in leases_in([self.root]):
            if str(lease.run) not in found and lease.running() is not None:
                found[str(lease.run)] = self.root / lease.name
        return list(found.values())

    def begun(self, path: Path) -> Record | None:
        """What was asked of a training that was started here, or of one that is running."""
        training = self.known.get(path)
        if training is not None and training.alive:
            return training.record
        return Lease.of(path).running() or (training.record if training is not None else None)

    def is_alive(self, path: Path) -> bool:
        training = self.known.get(path)
        if training is not None and training.alive:
            return True
        return Lease.of(path).running() is not None

    def is_ours(self, path: Path) -> bool:
        """Whether it is this studio that renews the lease of a training."""
        record = self.begun(path)
        return record is not None and record.studio == self.me

    def owner(self, path: Path) -> Owner | None:
        """Whether a training ends with its studio, or goes on; None where no studio started it."""
        record = self.begun(path) if self.is_alive(path) else None
        return None if record is None else "kept" if record.keep else "studio"

    def words(self, path: Path) -> str:
        """What the process of a run said last."""
        training = self.known.get(path)
        return "" if training is None else training.words()

    def failure(self, path: Path) -> str | None:
        """Why a training ended before its time, in its own last words."""
        training = self.known.get(path)
        if training is None or self.is_alive(path):
            return None
        began, code = (path / "config.toml").exists(), training.process.returncode
        training.lease.clear()
        if not began:
            RunFolder(path).withdraw(".lock")  # so that its name is free again
        if code in STOPPED:
            return None if began else "it was stopped before it began"
        lines = training.words().strip().splitlines()
        return lines[-1].removeprefix("regard: ") if lines else f"it ended with the code {code}"


def check_size(task: str, config: Any) -> None:
    """Refuse numbers that no machine has room for, before a process is started."""
    for name, value in joined(config).items():
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ConfigError(
                f"{name} = {str(value)[:20]}…: whole numbers go up to {LARGEST:,}",
                key=name,
                value=value,
            )
    expect_room(find(task).load(), config, choose_device())


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
    settings = {}
    for name, value in changes.items():
        now = value_at(values, name)
        if isinstance(value, dict) or isinstance(now, dict):
            raise ConfigError(
                f"{name} is a table: name a field in it, as {name}.…", key=name, value=value
            )
        if isinstance(now, tuple) and isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        settings[name] = value
    return change(config, settings)


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
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            *path, last = flag.split(".")
            flags.append(f"--{'.'.join([*path, last if value else f'no-{last}'])}")
        elif isinstance(value, tuple):
            words = [str(each) for each in value]
            for word in words:
                if word.startswith("-"):  # the one place where a value could pass for a flag
                    raise UserError(f"{name}: {word!r} begins with a dash, and cannot be passed on")
            flags += [f"--{flag}", *words]
        else:
            flags.append(f"--{flag}={value}")
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
