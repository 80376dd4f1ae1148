"""What is said where a user names several things to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.errors import UserError

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
