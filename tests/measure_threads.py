"""What the choice of threads costs and saves, on an idle machine and beside a busy process.

    python tests/measure_threads.py --out results/threads-cpu.json

Whole commands take turns, five times over: a small model on which a second thread hardly pays
(digits by its recipe), and one on which it does. A competing process is started by this script,
before the command or once it has said how long it will take. *Waiting as before* is what libgomp
does where nobody asks for anything else: threads spin for about a millisecond.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from regard.hardware.machine import machine

ROUNDS = 5
BEFORE = "300000"  # turns of libgomp's loop where neither it nor a policy is set
DIGITS = ("--quiet",)
LARGE = ("--model.patch-size", "1", "--model.width", "128", "--model.heads", "4", "--epochs", "2")


class Case(NamedTuple):
    """One way to train, and what else the machine does."""

    name: str
    flags: Sequence[str]
    threads: str
    busy: str = "no"  # or "before" the command, or "after" its estimate
    waiting: str = ""  # turns of the loop; "" leaves that to the command


CASES = (
    Case("digits, 1 thread, waiting as before", DIGITS, "1", waiting=BEFORE),
    Case("digits, 2 threads, waiting as before", DIGITS, "2", waiting=BEFORE),
    Case("digits, auto", DIGITS, "auto"),
    Case("digits, 1 thread, busy", DIGITS, "1", "before"),
    Case("digits, auto, busy", DIGITS, "auto", "before"),
    Case("digits, auto, busy after the estimate", DIGITS, "auto", "after"),
    Case("large, 1 thread, waiting as before", LARGE, "1", waiting=BEFORE),
    Case("large, 2 threads, waiting as before", LARGE, "2", waiting=BEFORE),
    Case("large, auto", LARGE, "auto"),
    Case("large, 1 thread, busy", LARGE, "1", "before"),
    Case("large, auto, busy", LARGE, "auto", "before"),
    Case("large, auto, busy after the estimate", LARGE, "auto", "after"),
)
FLOORS = (  # what, beside which of these the quicker, and how many times that it may take
    ("digits, auto", CASES[0:2], 1.3),
    ("digits, auto, busy", CASES[3:4], 1.3),
    ("digits, auto, busy after the estimate", CASES[3:4], 1.3),
    ("large, auto", CASES[6:8], 1.1),
)


@contextmanager
def competitor() -> Iterator[None]:
    """A process that never rests."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def clean() -> dict[str, str]:
    """The environment without anything that says how many threads there are and how they wait."""
    marks = ("OMP_", "GOMP_", "KMP_", "MKL_")
    return {name: value for name, value in os.environ.items() if not name.startswith(marks)}


def seconds(case: Case, folder: Path) -> tuple[float, int]:
    """How long the whole command takes, and with how many threads it trained."""
    command = [sys.executable, "-m", "regard", "train", "classify", "--out", str(folder)]
    command += ["--no-report", "--threads", case.threads, *case.flags]
    environment = clean() | ({"GOMP_SPINCOUNT": case.waiting} if case.waiting else {})
    with ExitStack() as rivals:
        if case.busy == "before":
            rivals.enter_context(competitor())
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        if case.busy == "after":
            # Written after the estimate; or the command has ended, which is told below.
            while not (folder / "config.toml").exists() and process.poll() is None:
                time.sleep(0.02)
            rivals.enter_context(competitor())
        if process.wait():
            raise SystemExit(f"{case.name}: exit code {process.returncode}")
        took = time.perf_counter() - began
    kept = tomllib.loads((folder / "config.toml").read_text())["run"]["train"]["threads"]
    return took, int(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", default="", help="cases whose name begins so")
    given = parser.parse_args()
    cases = [case for case in CASES if case.name.startswith(given.only)]
    times: dict[str, list[float]] = {case.name: [] for case in cases}
    threads: dict[str, list[int]] = {case.name: [] for case in cases}
    with tempfile.TemporaryDirectory() as root:
        for number in range(given.rounds):
            for at, case in enumerate(cases):
                took, kept = seconds(case, Path(root) / f"{number}-{at}")
                times[case.name].append(round(took, 2))
                threads[case.name].append(kept)
                print(f"{case.name}: {took:.1f} s, {kept} threads", flush=True)
    middle = {name: median(each) for name, each in times.items()}
    rows = []
    for name, others, most in FLOORS:
        if name in middle:
            ratio = middle[name] / min(middle[other.name] for other in others)
            rows.append({"case": name, "ratio": round(ratio, 3), "at_most": most})
            print(f"{name}: {ratio:.2f} times, at most {most}: {'met' if ratio <= most else 'NOT'}")
    if given.out:
        values = {
            "command": f"python tests/measure_threads.py --out {given.out}",
            **machine(torch.device("cpu")),
            "rounds": given.rounds,
            "seconds": times,
            "threads": threads,
            "floors": rows,
        }
        given.out.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    return int(any(row["ratio"] > row["at_most"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
