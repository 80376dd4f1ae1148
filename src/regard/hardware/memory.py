"""How much memory there is; and freed memory kept for the next tensor, not handed back at once."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc's numbers, from malloc.h


def keep_freed_memory(upto: int = 1 << 30) -> bool:
    """Ask glibc to keep up to `upto` freed bytes, for the rest of the process; True if it will.

    By default it returns every large tensor to the system and asks for fresh pages at the next,
    which costs a small model on a CPU 15% of its time and more. This is a matter of the whole
    process, so commands call it and the library never does.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library, without this call
        return False
    trimming, mapping = mallopt(M_TRIM_THRESHOLD, upto), mallopt(M_MMAP_THRESHOLD, upto)
    return bool(trimming and mapping)


def machine_memory() -> int | None:
    """Bytes of memory that this process may have: the machine's, or what it was confined to.

    None where the system does not tell.
    """
    limits = [*cgroup_limits()]
    if sys.platform == "win32":
        limits += windows_memory()
    else:
        import resource

        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
        if allowed != resource.RLIM_INFINITY:
            limits.append(allowed)
    return min((limit for limit in limits if limit > 0), default=None)


def cgroup_limits(root: Path = Path("/sys/fs/cgroup"), own: Path | None = None) -> Iterator[int]:
    """What containers and batch systems allow: the group of this process and those around it."""
    try:
        groups = (own or Path("/proc/self/cgroup")).read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory") and "memory" not in controllers.split(","):
            continue
        base = root / "memory" if controllers else root
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        inside = base / path.lstrip("/")
        for folder in (inside, *inside.parents):
            if not folder.is_relative_to(base):
                break
            with suppress(OSError, ValueError):  # not there, or the word "max"
                yield int((folder / name).read_text(encoding="ascii"))


def windows_memory() -> list[int]:
    """What Windows says of its memory."""

    class Status(ctypes.Structure):
        _fields_: ClassVar[Any] = [
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            *((name, ctypes.c_ulonglong) for name in ("total", "free", "a", "b", "c", "d", "e")),
        ]

    status = Status(length=ctypes.sizeof(Status))
    windows: Any = getattr(ctypes, "windll", None)
    if windows is None or not windows.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return []
    return [int(status.total)]
