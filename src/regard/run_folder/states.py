"""The states of a run, each a folder in `state/` that is named by its step.

`state/` may be a link to where there is more room, and other things may lie there. So a state is
known by its name and by all that it holds, and nothing else is read, replaced or removed.
"""

from __future__ import annotations

import os
import re
from itertools import count
from pathlib import Path

STATE = re.compile(r"(\d{9,})(?:-(\d+))?")  # its step, and which of several of that step


def states_in(parent: Path) -> list[tuple[int, int, Path]]:
    """Whole states: the step, which of several of that step, and where."""
    found = []
    for entry in parent.iterdir() if parent.is_dir() else ():
        if (name := STATE.fullmatch(entry.name)) and is_state(entry):
            found.append((int(name[1]), int(name[2] or 0), entry))
    return found


def place_for(parent: Path, step: int) -> Path:
    """Where a new state goes: a second one of a step stands beside the first until it is whole."""
    turn = max((turn for at, turn, _ in states_in(parent) if at == step), default=-1) + 1
    names = (f"{step:09d}" + f"-{each}" * bool(each) for each in count(turn))
    return next(parent / name for name in names if not os.path.lexists(parent / name))


def is_state(path: Path) -> bool:
    """Whether a folder is a state, whole or half written; only a draft may be empty."""
    draft = path.name.endswith(".draft")
    if path.is_symlink() or not STATE.fullmatch(path.name.removesuffix(".draft")):
        return False
    try:
        entries = list(os.scandir(path))
    except OSError:
        return False
    files = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    visible = [name for name in files if not name.startswith(".")]
    ours = all(name.endswith((".json", ".safetensors")) for name in visible)
    return len(files) == len(entries) and ours and (draft or bool(visible))
