"""What is said where a user names several things: to look at, or runs to be told of together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.runs.run import Run

NAMED = 3  # of several things, those that are named
LONGEST = 60  # letters of a name that are shown


def few_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(name[:LONGEST] for name in names[:NAMED]) + more


def expect_one(path: Path, count: int, thing: str) -> None:
    """Refuse to draw several things as one picture."""
    if count > 1:
        raise UserError(
            f"{path} holds one {thing}, and {count} were given; "
            "name one, or write them all to an .html"
        )


def one_task(runs: Sequence[Run]) -> None:
    """Refuse runs of several tasks, whose figures have nothing in common."""
    for run in runs:
        if run.task.name != runs[0].task.name:
            raise UserError(
                f"{runs[0].folder.path} is a run of {runs[0].task.name} and {run.folder.path} one "
                f"of {run.task.name}: name runs of one task"
            )
