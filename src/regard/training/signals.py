"""What stops the `regard` process: Ctrl-C, and the signals by which a system ends it.

Slurm, a cloud that takes a machine back and `kill` send SIGTERM; a terminal that is closed sends
SIGHUP. Here all of them raise `Stopped`, as Ctrl-C raises KeyboardInterrupt, so that whatever is
under way can save and say how to go on. `import regard` changes nothing: only the command line
listens, while a command runs.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)


class Stopped(KeyboardInterrupt):
    """The process is asked to end, by the signal of this number."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number

    def __str__(self) -> str:
        if self.number == signal.SIGINT:
            return "stopped by the keyboard"
        return f"stopped by {signal.Signals(self.number).name}"


class Listener:
    """Raises at the first signal; those that repeat it must not break off what is being saved."""

    def __init__(self) -> None:
        self.ended = False
        self.terminals = [each for each in (1, 2) if os.isatty(each)]

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.ended:
            self.noted(number)
            raise Stopped(number)

    def noted(self, number: int) -> None:
        self.ended = True
        if number == getattr(signal, "SIGHUP", None):
            nowhere = os.open(os.devnull, os.O_WRONLY)  # to write to a closed terminal is an error
            for terminal in self.terminals:
                os.dup2(nowhere, terminal)
            os.close(nowhere)


@contextmanager
def listening() -> Iterator[None]:
    """Within, signals that end a process raise, unless it was started so as not to hear them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    listener, before = Listener(), {}
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup does with SIGHUP
            before[number] = signal.signal(number, listener)
    try:
        yield
    finally:
        restore(before)


@contextmanager
def deferred(note: Callable[[int], None]) -> Iterator[None]:
    """Within, a signal that would raise is noted instead; a second Ctrl-C raises all the same."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is interrupted
        return
    noted = False

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        noted = True
        for listener in before.values():
            if isinstance(listener, Listener):
                listener.noted(number)
        note(number)

    listened = [each for each in ENDING if isinstance(signal.getsignal(each), Listener)]
    before: dict[int, Any] = {}
    for number in (signal.SIGINT, *listened):
        before[number] = signal.signal(number, hear)
    try:
        yield
    finally:
        restore(before)


def restore(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        # None stands for one that was not set by Python, which cannot set it again.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def code_of(stop: KeyboardInterrupt) -> int:
    """The exit code, as shells count: 128 and the number of the signal."""
    return 128 + getattr(stop, "number", signal.SIGINT)


def words_of(stop: KeyboardInterrupt) -> str:
    return str(stop if isinstance(stop, Stopped) else Stopped())
