"""What a user names when asking about texts: words, files, standard input, rows of the data."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from regard.data.text import text_of

T = TypeVar("T")


def asked(
    inputs: Sequence[Any],
    kind: type[T],
    from_line: Callable[[str, str], T],
    from_split: Callable[[str, int], T],
) -> list[T]:
    """Everything a user names, as what the model is asked about.

    A file stands for its lines and `-` for those that come from standard input; `test:3` is that
    row of the run's own data. Anything else is the text itself, one a line. `from_line` is given
    a name and a text, `from_split` a part and a row.
    """
    found: list[T] = []
    for thing in inputs:
        if isinstance(thing, kind):
            found.append(thing)
            continue
        text = str(thing)
        if row := re.fullmatch(r"(train|validation|test\w*):(\d+)", text):
            found.append(from_split(row[1], int(row[2])))
            continue
        if text == "-":
            lines = lines_of("standard input", sys.stdin.read())
        elif isinstance(thing, Path) or (len(text) < 4096 and os.path.isfile(text)):
            lines = lines_of(text, text_of(Path(text)))
        else:
            lines = lines_of("", text)
        found += [from_line(name, line) for name, line in lines]
    return found


def lines_of(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Each line with a name, an empty one too: so answers stay aligned with what was asked."""
    lines = text.removeprefix("\ufeff").removesuffix("\n").split("\n")
    for number, line in enumerate((each.removesuffix("\r") for each in lines), start=1):
        yield line if not name else f"{name}, line {number}" if len(lines) > 1 else name, line
