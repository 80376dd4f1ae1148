"""Whether a process still runs. A number may be given to another one; not with the same start.

me = this_process()
is_running(me)                  # True, in any process of this machine, until we end
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")  # of Linux


@dataclass(frozen=True)
class Process:
    """A process of this machine, by its number and by when it started."""

    pid: int
    started: str


def this_process() -> Process:
    """The process that asks."""
    return Process(os.getpid(), started_at(os.getpid()) or "")


def is_running(process: Process) -> bool:
    """Whether just this process still runs, and not another one that was given its number."""
    return bool(process.started) and started_at(process.pid) == process.started


def started_at(pid: int) -> str | None:
    """When the process of this number started, in the system's own words; None if it has ended."""
    if pid <= 0:
        return None
    if sys.platform == "win32":
        return _on_windows(pid)
    if PROC.joinpath("self", "stat").exists():
        return _on_linux(pid)
    return _by_ps(pid)


def _on_linux(pid: int) -> str | None:
    try:
        text = PROC.joinpath(str(pid), "stat").read_text(errors="replace")
        boot = PROC.joinpath("sys", "kernel", "random", "boot_id").read_text().strip()
    except OSError:
        return None
    # After the name, which may hold anything: the state first, the start the twentieth.
    parts = text.rpartition(")")[2].split()
    return None if parts[0] in "ZX" else f"{boot} {parts[19]}"  # Z has ended and was not asked for


def _by_ps(pid: int) -> str | None:
    try:
        words = subprocess.run(
            ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
            capture_output=True,
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
            text=True,
            timeout=10,
        ).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None
    return None if not words or words[0].startswith("Z") else " ".join(words[1:])


def _on_windows(pid: int) -> str | None:
    if sys.platform != "win32":
        return None
    import ctypes
    from ctypes import wintypes

    kernel = ctypes.windll.kernel32
    kernel.OpenProcess.restype = wintypes.HANDLE
    handle = wintypes.HANDLE(kernel.OpenProcess(0x1000, False, pid))  # to ask, and nothing else
    if not handle:
        return None
    try:
        code, times = wintypes.DWORD(), [wintypes.FILETIME() for _ in range(4)]
        if not kernel.GetExitCodeProcess(handle, ctypes.byref(code)) or code.value != 259:
            return None
        if not kernel.GetProcessTimes(handle, *map(ctypes.byref, times)):
            return None
        return f"{times[0].dwHighDateTime} {times[0].dwLowDateTime}"
    finally:
        kernel.CloseHandle(handle)
