"""What a figure was measured on: the processor, the versions, the commit and the day."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import __version__

if TYPE_CHECKING:
    import torch


def machine(device: torch.device) -> dict[str, Any]:
    """Everything that a recorded figure says about where it comes from."""
    import torch

    return {
        "device": device_name(device),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "regard": __version__,
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def device_name(device: torch.device, *, threads: bool = True) -> str:
    """The make of a GPU, or of the processor and, unless that is open, its threads in use."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "cpu":
        number = torch.get_num_threads()
        return cpu_name() + f", {number} thread{'s' * (number > 1)}" * threads
    return str(device)


def commit() -> str | None:
    """The commit of regard itself, with a + where its source differs from it.

    REGARD_COMMIT names it where there is no history.
    """
    if named := os.environ.get("REGARD_COMMIT"):
        return named
    here = Path(__file__).parents[3]  # the checkout, unless regard was installed elsewhere
    if not (here / ".git").exists():
        return None

    def git(*words: str) -> str:
        # The index is the user's: `status` alone would take its lock, to refresh it.
        command = ("git", "--no-optional-locks", "-C", str(here), *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def cpu_name() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        text = listing.read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE):
            return found[1].strip()
    if sys.platform == "darwin":
        command = ("sysctl", "-n", "machdep.cpu.brand_string")
        return subprocess.run(command, capture_output=True, text=True, timeout=5).stdout.strip()
    return platform.processor() or platform.machine()
