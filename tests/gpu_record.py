"""Writes what a run of the CUDA tests found, and on which card, to one JSON file."""

import json
import os
import subprocess
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest


class GpuRecord:
    """A pytest plugin: collects one outcome a test and writes them when the run is over."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, str] = {}
        self.started = time.perf_counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # A test has three phases; the body decides, unless another phase went wrong or skipped.
        decides = report.when == "call" or report.outcome != "passed"
        if decides and self.outcomes.get(report.nodeid) != "failed":
            self.outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        import torch

        # A run that could test nothing must not replace the record of one that did.
        if not torch.cuda.is_available() or not self.outcomes:
            return
        counts = Counter(self.outcomes.values())
        record = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "commit": commit(),
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "exit_status": int(exitstatus),
            **{outcome: counts[outcome] for outcome in ("passed", "failed", "skipped")},
            "seconds": round(time.perf_counter() - self.started, 2),
            "tests": [
                {"id": test, "outcome": outcome} for test, outcome in sorted(self.outcomes.items())
            ],
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def commit() -> str | None:
    """The commit that is checked out, with a + when files differ from it; None where none is."""
    if named := os.environ.get(
        "REGARD_COMMIT"
    ):  # a copy of the files may come without their history
        return named
    try:
        head = ask_git("rev-parse", "HEAD")
        # The record itself is rewritten by every run and says nothing about the code.
        changed = ask_git("status", "--porcelain", "--", ".", ":!results")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + "+" * bool(changed)


def ask_git(*words: str) -> str:
    done = subprocess.run(("git", *words), check=True, capture_output=True, text=True)
    return done.stdout.strip()
