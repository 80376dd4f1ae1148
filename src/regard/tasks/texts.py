"""What a user names when asking about texts: words, files, standard input, rows of the data."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from regard.data.text import decoded_text, text_of
from regard.errors import UserError

T = TypeVar("T")
NAMES = (".txt", ".csv", ".tsv", ".gz")  # what the name of a file ends in, and a word hardly ever


def asked(
    inputs: Sequence[Any],
    kind: type[T],
    from_line: Callable[[str, str], T],
    from_split: Callable[[str, int], T],
    from_table: Callable[[Path], Sequence[T] | None] = lambda path: None,
) -> list[T]:
    """Everything a user names, as what the model is asked about.

    A file stands for its lines and `-` for those that come from standard input; `test:3` is that
    row of the run's own data. Anything else is the text itself, one a line. `from_line` is given
    a name and a text, `from_split` a part and a row; `from_table` is given a file, and gives
    nothing for one that has a text in each line.
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
        file = file_of(thing)
        rows = None if file is None else from_table(file)
        if rows is None:
            rows = [from_line(name, line) for name, line in lines_of(*named_text(thing))]
        found += rows
    return found


class Verbatim(str):
    """A text as it was typed into a page: no name of a file, whatever it looks like."""


def named_text(thing: Any) -> tuple[str, str]:
    """What a user names, with its text: a file, standard input, or words, which have no name."""
    if (file := file_of(thing)) is not None:
        return str(thing), text_of(file)
    if str(thing) == "-" and not isinstance(thing, Verbatim):
        return "standard input", standard_input()
    return "", str(thing)


def file_of(thing: Any) -> Path | None:
    """The file that is meant, if one is."""
    if isinstance(thing, Verbatim) or str(thing) == "-":
        return None
    return Path(thing) if isinstance(thing, Path) or names_file(str(thing)) else None


def standard_input() -> str:
    """What comes from standard input, read as a file is, whatever the terminal speaks."""
    raw = getattr(sys.stdin, "buffer", None)
    return sys.stdin.read() if raw is None else decoded_text("standard input", raw.read())


def names_file(text: str) -> bool:
    """Whether a file is meant rather than a text; what can only be meant as one must be there."""
    if os.path.isfile(text):
        return True
    if os.path.isdir(text):
        raise UserError(f"{text} is a folder: name the files in it, or write more than this word")
    folder = os.path.dirname(text)
    one_word = len(text.split()) == 1
    if one_word and (text.lower().endswith(NAMES) or (folder and os.path.isdir(folder))):
        try:
            os.stat(text)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            raise UserError(f"{text} is not there") from None
        except OSError as trouble:
            raise UserError(f"{text} cannot be read: {trouble.strerror}") from None
    return False


def lines_of(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Each line with a name, an empty one too: so answers stay aligned with what was asked."""
    lines = text.removeprefix("\ufeff").removesuffix("\n").split("\n")
    for number, line in enumerate((each.removesuffix("\r") for each in lines), start=1):
        yield line if not name else f"{name}, line {number}" if len(lines) > 1 else name, line
