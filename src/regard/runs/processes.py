"""Many trainings, each in a process of its own, and a file in which what they found is kept."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from regard.hardware.device import choose_device
from regard.hardware.machine import machine
from regard.progress import progress

Row = dict[str, Any]
MARK = "FOUND "  # before the line in which a process says what it found


def tell(rows: Sequence[Row]) -> None:
    """What a process hands back to the one that started it."""
    print(MARK + json.dumps(rows))


def in_processes(
    module: str,
    jobs: Mapping[str, Sequence[str]],
    workers: int,
    *,
    words: str = "training",
    runs: Path | None = None,
) -> Iterator[list[Row]]:
    """The rows that each job tells, as they come, `workers` jobs at a time.

    Jobs are flags for a module, by the names they are called by if they fail. One that fails does
    not stop the others; what went wrong is raised when all are done. Whoever stops listening, as
    at Ctrl-C or a signal, ends those that are under way and those that wait.
    """
    troubles: list[str] = []
    running: set[subprocess.Popen[str]] = set()
    with progress(words, len(jobs)) as advance, ThreadPoolExecutor(workers) as pool:
        waiting = [
            pool.submit(in_process, module, name, jobs[name], runs, running) for name in jobs
        ]
        try:
            for done in as_completed(waiting):
                advance(1)
                trouble = done.exception()
                if trouble is None:
                    yield done.result()
                else:
                    troubles.append(str(trouble))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.terminate()
            raise
    if troubles:
        raise RuntimeError("\n".join(troubles))


def in_process(
    module: str,
    name: str,
    words: Sequence[str],
    runs: Path | None,
    running: set[subprocess.Popen[str]],
) -> list[Row]:
    """One job in a process of its own, listed while it runs; what goes wrong there is said here."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", module, *words, "--runs", str(runs or folder)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            running.add(process)
            try:
                out, errors = process.communicate()
            finally:
                running.discard(process)
    lines = [line for line in out.splitlines() if line.startswith(MARK)]
    if not lines:
        raise RuntimeError(f"{name}: {errors.strip()[-2000:]}")
    rows: list[Row] = json.loads(lines[0].removeprefix(MARK))
    return rows


def written(path: Path, *, command: str, device: str, **facts: Any) -> None:
    """A file of results: what was typed, on which machine and commit, and what came of it."""
    whole = {"command": command, **machine(choose_device(device)), **facts}
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
