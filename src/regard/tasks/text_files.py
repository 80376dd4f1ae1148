"""The texts of a file, one at a time and in their order, however large it is.

A .txt, or what has another ending, is read by line; a .csv or .tsv by row, a .jsonl by line too.
Of the last three the texts are under a name: a column, or a key. All may be packed by gzip.
"""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from regard.data.label_files import TEXT_COLUMNS, head_of, read_texts
from regard.data.pair_files import ending
from regard.data.text import opened
from regard.errors import DataIssue, UserError, nearest
from regard.tasks.inputs import TextFile, Unreadable

LONGEST_LINE = 1 << 22  # bytes: more is no text that could be answered, and is not kept in memory
USUAL = TEXT_COLUMNS.split(", ")


class Columns(NamedTuple):
    """What a run calls the columns of its texts and of their second texts."""

    text: str = ""
    pair: str = ""


class Text(NamedTuple):
    """A text, where it stands, and its second part where it is a pair in two columns."""

    place: str
    text: str
    second: str | None = None


def texts_in(file: TextFile, columns: Columns) -> Iterator[Text | Unreadable]:
    """The texts of a file; what is wrong with it as a whole is one more thing that is no text."""
    path, column = file
    try:
        if os.path.isdir(path):
            raise DataIssue(f"{path} is a folder: name the files in it", path, kind="folder")
        kind = ending(path).lower()
        if kind == "json":
            raise DataIssue(
                f"{path}: write one object a line, and call it .jsonl", path, kind="format"
            )
        if kind == "jsonl":
            yield from objects_in(path, column, columns)
        elif kind == "csv" or (kind == "tsv" and names_texts(path, column, columns)):
            yield from rows_in(path, column, columns)
        elif column:
            raise DataIssue(
                f"--text-column {column}: {path} has lines, and no columns", path, 1, kind="column"
            )
        else:
            with opened(path) as lines:
                yield from lines_in(str(path), lines)
    except UserError as trouble:
        yield Unreadable(str(path), str(trouble))


def lines_in(name: str, file: BinaryIO) -> Iterator[Text | Unreadable]:
    """Each line, an empty one too: so answers stay aligned with what was asked."""
    number = 0
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        place = f"{name}, line {number}"
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if len(line) > LONGEST_LINE:
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)
            yield Unreadable(place, f"has more than {LONGEST_LINE:,} bytes: cut it into texts")
        elif b"\0" in line:
            yield Unreadable(place, "has a NUL byte: it is no text, or not UTF-8")
        else:
            try:
                yield Text(place, line.decode().removesuffix("\n").removesuffix("\r"))
            except UnicodeDecodeError as wrong:
                byte = line[wrong.start]
                words = f"is not UTF-8: a byte 0x{byte:02x} there belongs to no character"
                yield Unreadable(place, words)
    if not number:
        yield Unreadable(name, "is empty")


def objects_in(path: Path, key: str, columns: Columns) -> Iterator[Text | Unreadable]:
    """The text of each object, which stands in a line of its own; or each text that is one."""
    with opened(path) as file:
        for line in lines_in(str(path), file):
            if isinstance(line, Unreadable):
                yield line
            elif not line.text.strip():
                yield Text(line.place, "")
            else:
                yield object_in(line, key, columns)


def object_in(line: Text, key: str, columns: Columns) -> Text | Unreadable:
    try:
        values = json.loads(line.text)
    except (ValueError, RecursionError):
        return Unreadable(line.place, "is not JSON: there must be one object in each line")
    if isinstance(values, str) and not key:
        return Text(line.place, values)
    if not isinstance(values, dict):
        return Unreadable(line.place, "is no object with a text in it")
    wanted = [key] if key else [name for name in (columns.text, *USUAL) if name]
    found = next((name for name in wanted if name in values), None)
    if found is None:
        return Unreadable(line.place, f"has no {wanted[0]!r}; {hint(key, values)}")
    text, second = values[found], None
    if columns.pair and found != columns.pair:
        if columns.pair not in values:
            return Unreadable(line.place, f"has no {columns.pair!r}, which holds the second text")
        second = values[columns.pair]
    for name, value in ((found, text), (columns.pair, second)):
        if not isinstance(value, str) and not (value is second is None and name != found):
            return Unreadable(line.place, f"has {value!r:.40} under {name!r}, which is no text")
    return Text(line.place, text, second)


def hint(key: str, values: dict[str, Any]) -> str:
    if key:
        return nearest(key, values)
    return f"there are {', '.join(map(str, values))[:80]}: name the key with --text-column"


def names_texts(path: Path, column: str, columns: Columns) -> bool:
    """Whether the first line of a .tsv names columns; else a line is a text, tabs and all."""
    head = head_of(path)
    if columns.pair:
        return columns.pair.strip().lower() in head
    return not {(column or columns.text).strip().lower(), *USUAL}.isdisjoint(filter(None, head))


def rows_in(path: Path, column: str, columns: Columns) -> Iterator[Text | Unreadable]:
    """The texts of a table, row by row; whatever else stands there is passed by."""
    if column and column.strip().lower() not in (head := head_of(path)):
        raise DataIssue(
            f"{path}, line 1 has no column {column!r}; {nearest(column, head)}",
            path,
            1,
            kind="column",
        )
    for row in read_texts(path, column or columns.text, columns.pair):
        place = f"{path}, line {row.line}"
        if row.fault:
            yield Unreadable(place, row.fault)
        else:
            yield Text(place, row.text, row.second if columns.pair else None)
