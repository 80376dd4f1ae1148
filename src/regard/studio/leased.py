"""A training as the studio starts it: `regard train …`, in a process that looks after its lease.

    python -m regard.studio.leased RUN classify --recipe=digits --out=RUN

A thread looks at the lease of RUN. When nobody renews it any more, or it was withdrawn, the process
interrupts itself as Ctrl-C would, so that the training ends its step, saves and stops.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from regard.cli import main
from regard.errors import UserError
from regard.run_folder import RunFolder
from regard.studio.alive import this_process
from regard.studio.leases import Lease, Record

STOP = signal.SIGTERM  # by which a training is told to save and stop
LOOK = 0.5  # seconds between two looks at the lease
AGAIN = 600.0  # seconds after which a process that was told to stop and did not is told again
GONE = "the studio that started this training is gone: it saves and stops"


def leased(run: Path, arguments: list[str]) -> int:
    """Train with these arguments for as long as the lease of a run allows; the exit code."""
    lease = Lease.of(run)
    record = lease.read()
    if record is None:
        print("regard: the studio has withdrawn this training", file=sys.stderr)
        return 130
    me = this_process()
    if signal.getsignal(STOP) is signal.SIG_IGN:  # as a shell leaves what it starts behind it
        signal.signal(STOP, signal.default_int_handler)
    try:
        lease.write(replace(record, trainer=me))
        threading.Thread(target=look_after, args=(lease, record), daemon=True).start()
        return main(["train", *arguments])
    except UserError as trouble:
        print(f"regard: {trouble}", file=sys.stderr)
        return 2
    finally:
        now = lease.read()
        if now is not None and now.trainer == me:
            lease.clear()


def look_after(
    lease: Lease,
    record: Record,
    *,
    interrupt: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Interrupt this process once its lease has run out or was withdrawn; then return no more.

    How long the lease was not renewed is counted in looks, of which each counts for little more
    than it should take: after a laptop was asleep, or this process was halted, its studio has the
    time to renew first, whatever the clock says.
    """
    interrupt = interrupt_this_process if interrupt is None else interrupt
    last, silence, before = lease_mark(lease), 0.0, clock()
    while True:
        mark, now = lease_mark(lease), clock()
        silence = silence + min(now - before, 2 * LOOK) if mark == last else 0.0
        last, before = mark, now
        if mark is None:
            break
        if silence > record.seconds and not record.keep:
            say(lease.run, GONE)
            break
        wait(LOOK)
    while True:
        interrupt()
        wait(AGAIN)


def lease_mark(lease: Lease) -> int | None:
    """A number that changes with each renewal, None if withdrawn; trouble looks like silence."""
    try:
        return lease.renewed()
    except OSError:
        return 0


def say(run: Path, words: str) -> None:
    """To the log of a run that has begun, and to whoever still listens."""
    with suppress(OSError, UserError):
        if (run / "config.toml").is_file():
            RunFolder(run).add_log(words)
    with suppress(OSError, ValueError):
        print(words, flush=True)


def interrupt_this_process() -> None:
    """What Ctrl-C does; where that is a signal, one that wakes a main thread that waits."""
    if os.name == "nt":
        _thread.interrupt_main(STOP)
    else:
        os.kill(os.getpid(), STOP)


if __name__ == "__main__":
    sys.exit(leased(Path(sys.argv[1]), sys.argv[2:]))
