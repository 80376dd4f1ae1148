"""Runs that are ready to answer: loaded when first asked, kept while there is room.

    loaded = Loaded(limit=2 << 30)
    answers = await loaded.ask(path, lambda run: run.predict("a text"))

Everything that takes time happens in threads, so the server goes on serving. A run answers one
question at a time, others wait their turn, and a question whose asker has gone is dropped when its
turn comes. The run that was not asked for longest goes first when weights take more than `limit`
bytes. One whose weights have changed on the disk, as while it is being trained, is loaded anew.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

from torch import nn

from regard.runs.run import Run, load

T = TypeVar("T")
Gone = Callable[[], Awaitable[bool]]
LIMIT = 2 << 30  # bytes of weights
MOST = 8  # runs: some also hold the data they were asked about
THREADS = 4
MARKS = ("model.safetensors", "config.toml", "data.json")  # a run with others is another run
WAIT = 0.01  # seconds between two looks at whether it is one's turn


class AskerGone(Exception):
    """Nobody waits for the answer any more."""


@dataclass(frozen=True)
class Held:
    """A run in memory, how much of it its weights take, and what its files were like."""

    run: Run
    size: int
    marks: tuple[tuple[int, int] | None, ...]


class Loaded:
    """Runs by their folder, those that were asked last at the end."""

    def __init__(
        self,
        limit: int = LIMIT,
        *,
        most: int = MOST,
        device: str = "auto",
        load: Callable[..., Run] = load,
    ) -> None:
        if limit < 0 or most < 1:
            raise ValueError(f"limit={limit} and most={most}: room for at least one run is needed")
        self.limit, self.most, self.device, self.load = limit, most, device, load
        self.runs: OrderedDict[Path, Held] = OrderedDict()
        self.turns: dict[Path, Lock] = {}
        self.guard = Lock()  # of the two tables
        self.threads = ThreadPoolExecutor(THREADS, thread_name_prefix="studio-run")

    async def ask(self, path: Path, question: Callable[[Run], T], *, gone: Gone | None = None) -> T:
        """What a run answers, which is loaded first if it must be."""
        return await self.within(path, lambda: question(self.run_of(path)), gone=gone)

    async def within(self, path: Path, work: Callable[[], T], *, gone: Gone | None = None) -> T:
        """Do some work in a thread when it is this run's turn.

        The turn lasts until the thread is done, even if nobody waits for it any more.
        """
        turn = self.turn_of(path)
        # Looked at, not waited for: a lock that a thread waits for would keep that thread from
        # other runs, and one of asyncio belongs to one event loop.
        while not turn.acquire(blocking=False):
            await asyncio.sleep(WAIT)
        try:
            if gone is not None and await gone():
                raise AskerGone
            future = self.threads.submit(work)
        except BaseException:
            turn.release()
            raise
        # Called in every case, also if it is cancelled before a thread takes it up.
        future.add_done_callback(lambda _: turn.release())
        return await asyncio.wrap_future(future)

    def run_of(self, path: Path) -> Run:
        """The run in a folder, as it is on the disk now. To be called in a thread."""
        path, marks = path.absolute(), marks_of(path)
        with self.guard:
            held = self.runs.get(path)
            if held is not None and held.marks == marks:
                self.runs.move_to_end(path)
                return held.run
            self.runs.pop(path, None)  # so that not both are in memory
        del held
        run = self.load(path, device=self.device)
        size = size_of(run.model)
        with self.guard:
            self.runs[path] = Held(run, size, marks)
            self.runs.move_to_end(path)
            while len(self.runs) > self.most or (self.size > self.limit and len(self.runs) > 1):
                self.runs.popitem(last=False)
        return run

    def holds(self, path: Path) -> bool:
        """Whether a run is ready to be asked, as it is on the disk now."""
        with self.guard:
            held = self.runs.get(path.absolute())
        return held is not None and held.marks == marks_of(path)

    @property
    def size(self) -> int:
        """Bytes of all weights that are held."""
        return sum(held.size for held in self.runs.values())

    def turn_of(self, path: Path) -> Lock:
        with self.guard:
            return self.turns.setdefault(path.absolute(), Lock())

    def close(self) -> None:
        """Let go of everything; what runs now is not waited for."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        with self.guard:
            self.runs.clear()


def marks_of(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """By what a changed run is known: time and size of its files."""
    return tuple(mark_of(path / name) for name in MARKS)


def mark_of(file: Path) -> tuple[int, int] | None:
    try:
        facts = file.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


def size_of(model: nn.Module) -> int:
    """Bytes of parameters and buffers, shared ones counted once."""
    tensors = {id(each): each for each in (*model.parameters(), *model.buffers())}
    return sum(each.numel() * each.element_size() for each in tensors.values())
