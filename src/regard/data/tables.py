"""Rows of a table, read as a stream: csv, tsv or JSON lines, packed by gzip or not.

    for row in rows_of(Path("own.csv.gz")):
        row.line, row.cells, row.fault      # the first row may be names of columns

Line ends, the sign between columns and what quotation marks mean are decided once, by the first
megabyte; from there on one row is held at a time, so a table may be larger than memory.

- A .csv has commas, semicolons, tabs or vertical bars between its columns: the sign that makes most
  sense of its first rows. Cells with such signs, or with line breaks, stand in quotation marks.
- A .tsv has tabs, and so has a file of any other name. Where each of its lines has equally many, a
  row is a line, and marks that do not enclose a whole cell are part of the text, as its authors
  meant.
- A .jsonl has an object in each line. The keys of the first megabyte are the columns, and come as
  the first row; numbers and truth values are spelt as they are in the file, null is empty.

Lines end with a line feed, perhaps after a carriage return, or with carriage returns alone, as
spreadsheets once wrote. A row that cannot be read comes with its fault in words; what makes the
whole file doubtful, such as a NUL byte, is a `UserError`.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from regard.data.text import opened
from regard.errors import DataIssue, Located

TABLES = ("csv", "tsv", "jsonl")
SIGNS = ",;\t|"  # between the columns of a csv; the first of those that make equal sense
HEAD = 2**20  # bytes by which everything is decided
TRIED = 20  # rows by which the sign between columns is chosen
LONGEST_LINE = 2**25  # bytes: more is no table
LONGEST_FIELD = 2**24  # characters of one cell: some books
NO_UTF8 = re.compile("[\udc80-\udcff]")  # what decoding makes of bytes that are no character
HALF = re.compile("[\ud800-\udfff]")  # half of a surrogate pair, which JSON can spell
ENCLOSED = re.compile('"((?:[^"]|"")*)"')  # by marks, of which those inside are doubled


class Row(NamedTuple):
    """The line that a row begins at, its cells, and why it is no use, if it is none."""

    line: int
    cells: list[str]
    fault: str = ""  # to be said after the number of the line: "has …"; there are no cells then


class NotText(str):
    """A list or an object of JSON, where a text could be; spelt as JSON, and not in full."""


def ending(path: Path) -> str:
    """What a name ends in, gz aside, without its point."""
    return Path(path.name.removesuffix(".gz")).suffix[1:]


def rows_of(
    path: Path, names: Iterable[str] = (), *, kind: str = "", strict: bool = True
) -> Iterator[Row]:
    """The rows of a table, empty lines aside.

    `names` are columns that may be there, by which the sign of a csv is known. `kind` is what the
    table is if its name does not tell. Without `strict` a quotation mark that is out of place is a
    letter, one that nothing closes takes in what follows, a NUL byte is a letter as well, and a
    table without a row is none the worse for it.
    """
    kind = kind or ending(path).lower()
    with opened(path) as file:
        head = file.read(HEAD).removeprefix(codecs.BOM_UTF8)
        if not head and strict:
            raise DataIssue(f"{path} is empty", path, kind="empty")
        blocks = chain([head], iter(lambda: file.read(HEAD), b""))
        lines = numbered(blocks, path, line_end(head), zeros=not strict)
        if kind == "jsonl":
            rows = of_objects(lines, whole_lines(head))
        elif kind != "csv" and len(tabs_in(head)) == 1:
            rows = of_lines(lines)
        else:
            apart = ((n, part) for n, line in lines for part in with_returns(line))
            sign = sign_of(whole_lines(head), names) if kind == "csv" else "\t"
            rows = of_cells(apart, sign, path, strict)
        empty = True
        for row in rows:
            empty = False
            yield row
        if empty and strict:
            raise DataIssue(f"{path} is empty", path, kind="empty")


def beginning(path: Path) -> list[str]:
    """The lines of the first megabyte that say something, by which a file is known."""
    with opened(path) as file:
        return whole_lines(file.read(HEAD).removeprefix(codecs.BOM_UTF8))


# Lines


def line_end(head: bytes) -> bytes:
    return b"\r" if b"\r" in head and b"\n" not in head else b"\n"


def numbered(
    blocks: Iterable[bytes], path: Path, end: bytes, *, zeros: bool = False
) -> Iterator[tuple[int, str]]:
    """Each line with its number; bytes that are no UTF-8 as half pairs."""
    for number, line in byte_lines(blocks, path, end, zeros=zeros):
        yield number, line.decode(errors="surrogateescape")


def byte_lines(
    blocks: Iterable[bytes], path: Path, end: bytes, *, zeros: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Each line with its number, without what ends it; `zeros` says whether NUL is a letter."""
    number, begun, size = 0, list[bytes](), 0  # pieces of a line that has not ended yet
    for block in chain(blocks, [b""]):
        *lines, left = block.split(end)
        if lines or not block:
            lines = [b"".join([*begun, *lines[:1]]), *lines[1:]]
            begun, size = [], 0
        if not block and not lines[0]:
            return  # the last line had its end
        for line in lines:
            number += 1
            if b"\0" in line and not zeros:
                raise DataIssue(
                    f"{path}, line {number} has a NUL byte: this is no text, or not UTF-8; save it "
                    "as UTF-8 first",
                    path,
                    number,
                    kind="encoding",
                )
            yield number, line.removesuffix(b"\r")
        begun.append(left)
        size += len(left)
        if size > LONGEST_LINE:
            raise DataIssue(
                f"{path}, line {number + 1} has more than {LONGEST_LINE:,} bytes: this is no table",
                path,
                number + 1,
                kind="size",
            )


def lines_in(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of any file, each with its number; a file without a byte is a `UserError`."""
    with opened(path) as file:
        head = file.read(HEAD).removeprefix(codecs.BOM_UTF8)
        if not head:
            raise DataIssue(f"{path} is empty", path, kind="empty")
        blocks = chain([head], iter(lambda: file.read(HEAD), b""))
        yield from byte_lines(blocks, path, line_end(head))


def with_returns(line: str) -> Iterator[str]:
    """A line as the reader of csv wants it; a carriage return inside it may end a row as well."""
    *parts, last = line.split("\r")
    for part in parts:
        yield part + "\r"
    yield last + "\n"


def whole_lines(head: bytes) -> list[str]:
    """The lines of the first megabyte that say something, without one that is cut off."""
    lines = head.splitlines()
    if len(head) >= HEAD - len(codecs.BOM_UTF8) and len(lines) > 1:
        lines.pop()
    spelt = (line.decode(errors="surrogateescape") for line in lines)
    return [line for line in spelt if line.strip()]


def tabs_in(head: bytes) -> set[int]:
    """How many tabs there are in a line: in a table of plain lines it is one number."""
    lines = head.split(line_end(head))
    if len(head) >= HEAD - len(codecs.BOM_UTF8) and len(lines) > 1:
        lines.pop()
    return {line.count(b"\t") for line in lines if line.strip()}


# Rows


def of_lines(lines: Iterable[tuple[int, str]]) -> Iterator[Row]:
    """A row in each line, with tabs between its cells."""
    for number, line in lines:
        if line.strip():
            yield Row(number, [unmarked(cell) for cell in line.split("\t")])


def unmarked(cell: str) -> str:
    """A cell without the marks that enclose it."""
    enclosed = ENCLOSED.fullmatch(cell.strip()) if '"' in cell else None
    return enclosed[1].replace('""', '"') if enclosed else cell


def of_cells(
    lines: Iterator[tuple[int, str]], sign: str, path: Path, strict: bool
) -> Iterator[Row]:
    """Rows with a sign between cells, of which those in quotation marks may have line breaks."""
    feed = Feed(lines)
    reader = csv.reader(feed, delimiter=sign, strict=strict)
    while True:
        feed.numbers.clear()
        try:
            with long_fields():
                cells = next(reader)
        except StopIteration:
            return
        except csv.Error as wrong:
            first, last = feed.numbers[0], feed.numbers[-1]
            if "field limit" in str(wrong):
                raise DataIssue(
                    f"{path}, line {first} has a column of more than {LONGEST_FIELD:,} "
                    "characters: is a quotation mark without its partner?",
                    path,
                    first,
                    kind="quotes",
                ) from None
            # One stray mark can swallow any number of rows, which nobody would miss.
            if len(feed.numbers) > 1:
                raise DataIssue(
                    f"{path}, line {first} opens a quotation mark that nothing closes, not even "
                    f"line {last}",
                    path,
                    first,
                    kind="quotes",
                ) from None
            yield Row(
                first, [], Located(f"has quotation marks in disorder ({wrong})", kind="quotes")
            )
        else:
            if any(cell.strip() for cell in cells) or len(cells) > 1:
                yield Row(feed.numbers[0], cells)


class Feed:
    """Lines for the reader of csv, which remembers the numbers of those that a row was made of."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self.lines = lines
        self.numbers: list[int] = []

    def __iter__(self) -> Feed:
        return self

    def __next__(self) -> str:
        number, line = next(self.lines)
        self.numbers.append(number)
        return line


@contextmanager
def long_fields() -> Iterator[None]:
    """Cells as long as a book; Python's own limit is 131,072 characters, for all readers."""
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


# What stands between columns


def sign_of(lines: list[str], names: Iterable[str]) -> str:
    """What stands between the columns of a csv: the sign that makes most sense of its first rows.

    That is one that brings out a name of `names`, else one that makes two columns of the first row,
    else one that makes equally many of the most rows, else most columns.
    """
    known = {name.strip().lower() for name in names if name.strip()}

    def sense(sign: str) -> tuple[bool, bool, bool, int, int]:
        rows: list[list[str]] = []
        with long_fields(), suppress(csv.Error):  # whoever reads the rows says what is wrong
            rows.extend(csv.reader(lines[:TRIED], delimiter=sign))
        rows = rows or [[]]
        head = [name.strip().lower() for name in rows[0]]
        alike = sum(len(row) == len(head) for row in rows)
        named = len(head) > 1 and not known.isdisjoint(head)
        return named, len(head) == 2, len(head) > 1, alike, len(head)

    return max(SIGNS, key=sense)


# Objects of JSON


def of_objects(lines: Iterable[tuple[int, str]], head: list[str]) -> Iterator[Row]:
    """The names of the columns, and then an object in each line as the cells under them.

    Lines before the first object are faults, and come before the names.
    """
    found = (object_in(line) for line in head)
    names = [*dict.fromkeys(name for entry in found if isinstance(entry, dict) for name in entry)]
    named = False
    for number, line in lines:
        if not line.strip():
            continue
        entry = object_in(line)
        if isinstance(entry, str):
            yield Row(number, [], entry)
            continue
        names = names or [*entry]  # of a first object that is longer than the head
        if not named:
            named = True
            yield Row(1, [HALF.sub("\ufffd", name) for name in names])
        cells = [spelt(entry.get(name)) for name in names]
        if "\\u" in line and any(map(HALF.search, cells)):
            fault = "has half of a surrogate pair, which is no character"
            yield Row(number, [], Located(fault, kind="encoding"))
        else:
            yield Row(number, cells)


# Numbers stay as they are written: 1.0 is another label than 1, and no number is too long.
DECODE: Callable[[str], object] = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=str
).decode


def object_in(line: str) -> dict[str, object] | str:
    """The object of a line, or why it has none."""
    if wrong := NO_UTF8.search(line):
        return Located(not_utf8(wrong[0]), kind="encoding")
    try:
        entry = DECODE(line)
    except (ValueError, RecursionError) as trouble:
        return Located(f"is no JSON ({trouble})", kind="json")
    if not isinstance(entry, dict):
        fault = f'has {json.dumps(entry)[:40]} where an object such as {{"text": …}} should stand'
        return Located(fault, kind="type")
    return entry


def spelt(value: object) -> str:
    """A value of JSON as a cell."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return NotText(json.dumps(value)[:40])


def not_utf8(sign: str) -> str:
    """Why a line is no use that has a byte which belongs to no character."""
    return f"is not UTF-8: a byte 0x{ord(sign) - 0xDC00:02x} there belongs to no character"


def first_rows(rows: Iterator[Row], most: int = 1_000) -> tuple[list[Row], Iterator[Row]]:
    """Some rows from the beginning, at most a megabyte of them, and all rows again."""
    some: list[Row] = []
    size = 0
    for row in rows:
        some.append(row)
        size += sum(map(len, row.cells))
        if len(some) >= most or size > HEAD:
            break
    return some, chain(some, rows)
