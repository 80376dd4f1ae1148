"""Texts and their labels from one table; and what is wrong there.

    read = read_labels(Path("own.csv.gz"))          # a line above names the columns
    read.texts[0], read.labels[0], read.lines[0]
    read.seconds[0]                                 # where a column of second texts was asked for
    read.faults                                     # a sentence for each row that is no use
    read_texts(Path("own.csv"))                     # texts alone, whether they have labels or not

A .csv has commas or semicolons between its columns, and a .tsv tabs; either may be packed by gzip.
Texts with such signs, or with line breaks, stand in quotation marks. In a .tsv that has a row in
each line, marks that do not enclose a whole column are part of the text, as its authors meant.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from regard.data.listing import SPELLINGS, same_letters
from regard.data.pair_files import ending, lines_of
from regard.errors import UserError, nearest

TEXT_COLUMNS = "text, sentence, review, content"
LABEL_COLUMNS = "label, class, sentiment, target"
TABLES = ("csv", "tsv")
LONGEST_FIELD = 1 << 26  # characters of one text: more is no table
NO_UTF8 = re.compile("[\udc80-\udcff]")  # what decoding makes of bytes that are no character
ENCLOSED = re.compile('"((?:[^"]|"")*)"')  # by marks, of which those inside are doubled


class Columns(NamedTuple):
    """Which columns count, of how many, and whether the first row only names them."""

    text: int
    label: int | None  # None where only texts are asked for
    width: int
    named: bool
    pair: int | None = None  # where the second texts are, if there are any


class Read(NamedTuple):
    """Rows that are of use, with the lines they start at, and why others are not."""

    path: Path
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    lines: tuple[int, ...]
    faults: tuple[str, ...]
    columns: Columns
    seconds: tuple[str, ...] = ()

    def only(self, rows: Iterable[int]) -> Read:
        """Some of the rows, without the faults of others."""
        rows = list(rows)
        return self._replace(
            texts=tuple(self.texts[row] for row in rows),
            labels=tuple(self.labels[row] for row in rows),
            lines=tuple(self.lines[row] for row in rows),
            faults=(),
            seconds=tuple(self.seconds[row] for row in rows) if self.seconds else (),
        )


Row = tuple[int, list[str]]  # the line it starts at, and its columns


class NoUse(Exception):
    """A row that cannot be used; the words say why."""


def read_labels(
    path: Path, text: str = "", label: str = "", like: Columns | None = None, pair: str = ""
) -> Read:
    """A table of texts and labels; `text` and `label` name the columns where they need names.

    `like` are the columns of another table that goes with this one, and settles what is in doubt.
    `pair` names the column of second texts, if the labels are of pairs.
    """
    faults: list[str] = []
    rows = list(rows_of(path, faults))
    if not rows:
        raise UserError(faults[0] if faults else f"{path} is empty")
    columns = find_columns(path, rows, text, label, like, pair)
    texts, labels, lines, seconds = [], [], [], []
    for line, row in rows[columns.named :]:
        try:
            one, second, other = used(row, columns)
        except NoUse as why:
            faults.append(f"{path}, line {line} {why}")
        else:
            texts.append(one)
            labels.append(other)
            lines.append(line)
            seconds += [second] * (columns.pair is not None)
    if columns.named and len(rows) == 1 and not faults:
        raise UserError(f"{path} has names of columns, but no row below them")
    return Read(
        *(path, tuple(texts), tuple(labels), tuple(lines), tuple(faults), columns, tuple(seconds))
    )


def read_texts(path: Path, text: str = "", pair: str = "") -> list[tuple[int, str, str]]:
    """The line, the text and the second text of each row; whatever else stands there is passed by.

    An empty text is one too, so that there is something for every row; other faults are errors.
    """
    faults: list[str] = []
    rows = list(rows_of(path, faults))
    if not rows:
        raise UserError(faults[0] if faults else f"{path} is empty")
    columns = find_texts(path, rows, text, pair)
    found = []
    for line, row in rows[columns.named :]:
        try:
            check_row(row, columns.width)
        except NoUse as why:
            faults.append(f"{path}, line {line} {why}")
            continue
        one = row[columns.text].strip()
        second = "" if columns.pair is None else row[columns.pair].strip()
        if columns.pair is not None and one and not second:
            faults.append(f"{path}, line {line} has an empty second text")
        found.append((line, one, second))
    if faults:
        more = f" (and {len(faults) - 1:,} more like this)" if len(faults) > 1 else ""
        raise UserError(faults[0] + more)
    return found


def check_row(row: list[str], width: int) -> None:
    """Refuse a row with more or fewer columns, or with bytes that are no text."""
    if len(row) != width:
        given = f"{len(row)} column{'s' * (len(row) > 1)}"
        raise NoUse(f"has {given}, but the first line has {width}")
    if wrong := NO_UTF8.search("".join(row)):
        raise NoUse(
            f"is not UTF-8: a byte 0x{ord(wrong[0]) - 0xDC00:02x} there belongs to no character"
        )


def used(row: list[str], columns: Columns) -> tuple[str, str, str]:
    """A row's text, its second text if there are such, and its label."""
    check_row(row, columns.width)
    assert columns.label is not None
    text, label = row[columns.text].strip(), same_letters(row[columns.label].strip())
    second = "" if columns.pair is None else row[columns.pair].strip()
    if not text:
        raise NoUse("has an empty text")
    if columns.pair is not None and not second:
        raise NoUse("has an empty second text")
    if not label:
        raise NoUse("has no label")
    return text, second, label


# Which columns


def find_columns(
    path: Path, rows: list[Row], text: str, label: str, like: Columns | None, pair: str
) -> Columns:
    """The columns of text and label: as asked for, by their usual names, or by what is in them.

    A column of second texts is one only if it is asked for.
    """
    line, first = rows[0]
    head = [name.strip().lower() for name in first]
    where = f"{path}, line {line}"
    if NO_UTF8.search("".join(head)):
        raise UserError(f"{where} is not UTF-8: save the file as UTF-8 first")
    if len(head) < 2:
        raise UserError(f"{where} has 1 column: there must be two, a text and a label")
    second = named_column(where, head, pair, "", "second text")
    ours = named_column(where, head, text, TEXT_COLUMNS, "text", second)
    theirs = named_column(where, head, label, LABEL_COLUMNS, "label", second)
    if ours is None and theirs is None:
        return unnamed(path, rows, like)
    if len(head) == 2 and second is None:  # if one of two is known, so is the other
        ours = 1 - (theirs or 0) if ours is None else ours
        theirs = 1 - ours if theirs is None else theirs
    for at, what, names in ((ours, "text", TEXT_COLUMNS), (theirs, "label", LABEL_COLUMNS)):
        if at is None:
            raise UserError(
                f"{where} names no {what} column ({names}); there are "
                f"{', '.join(head)}: say with --{what} which it is"
            )
    assert ours is not None and theirs is not None
    for one, other, what in (
        (ours, theirs, "the text and its label"),
        (ours, second, "the first text and the second"),
        (theirs, second, "the second text and the label"),
    ):
        if one == other:
            raise UserError(f"{where}: column {head[one]!r} cannot be both {what}")
    return Columns(ours, theirs, len(head), named=True, pair=second)


def find_texts(path: Path, rows: list[Row], text: str, pair: str) -> Columns:
    """The columns of texts and of second texts, where nothing says that there are labels."""
    line, first = rows[0]
    head, where = [name.strip().lower() for name in first], f"{path}, line {line}"
    if NO_UTF8.search("".join(head)):
        raise UserError(f"{where} is not UTF-8: save the file as UTF-8 first")
    second = named_column(where, head, pair, "", "second text")
    known = text if text.strip().lower() in head else ""
    ours = named_column(where, head, known, TEXT_COLUMNS, "text", second, flags=False)
    labels = [at for at, name in enumerate(head) if name in LABEL_COLUMNS.split(", ")]
    if ours is None and len(head) == 2 and len(labels) == 1 and second is None:
        ours = 1 - labels[0]
    if ours is not None:
        return Columns(ours, None, len(head), named=True, pair=second)
    if len(head) == 1:
        return Columns(0, None, 1, named=False)
    if second is None and (columns := guessed(rows)):
        return columns
    raise UserError(
        f"{where} names no text column, but {', '.join(name[:40] for name in head)}: call one "
        f"{(text or 'text').strip().lower()!r}"
    )


def named_column(
    where: str,
    head: list[str],
    asked: str,
    usual: str,
    what: str,
    taken: int | None = None,
    *,
    flags: bool = True,
) -> int | None:
    """The column that is asked for, or else the one of a usual name that is not taken, if any.

    `flags` are what a user may be told to say it with.
    """
    if asked and asked.strip().lower() not in head:
        raise UserError(f"{where} has no column {asked!r}; {nearest(asked.strip().lower(), head)}")
    # A column without a name, such as the numbers of the rows, is none of these.
    names = [asked.strip().lower()] if asked else [name for name in usual.split(", ") if name]
    found = [at for at, name in enumerate(head) if name in names and (asked or at != taken)]
    if len(found) > 1:
        alike = len({head[at] for at in found}) == 1
        raise UserError(
            f"{where} has {len(found)} columns that may be the {what}, "
            f"{' and '.join(head[at] for at in found)}: "
            + ("rename one" if alike or not flags else f"say with --{what} which it is")
        )
    return found[0] if found else None


def guessed(rows: list[Row]) -> Columns | None:
    """Two columns without names: labels recur, in the first row as well, and texts hardly do."""
    first = rows[0][1]
    if len(first) != 2:
        return None
    counts = [Counter(row[at].strip() for _, row in rows if len(row) == 2) for at in (0, 1)]
    label = 0 if len(counts[0]) < len(counts[1]) else 1
    recurs = counts[label][first[label].strip()] > 1  # a name of a column would not
    plain = recurs and 2 * len(counts[label]) <= len(counts[1 - label])
    return Columns(1 - label, label, 2, named=False) if plain else None


def unnamed(path: Path, rows: list[Row], like: Columns | None) -> Columns:
    """Columns that nothing names: as in the table that goes with this one, or as they look."""
    line, first = rows[0]
    found = like if like and not like.named and len(first) == 2 else guessed(rows)
    if found:
        return found
    names = ", ".join(name.strip()[:40] for name in first)
    raise UserError(
        f"{path}, line {line} names neither a text column ({TEXT_COLUMNS}) nor a label column "
        f"({LABEL_COLUMNS}), but {names}: say with --text and --label which they are"
    )


# Rows


def rows_of(path: Path, faults: list[str]) -> Iterator[Row]:
    """The rows of a table, empty lines aside; where marks are in disorder is a fault."""
    lines = [line.removesuffix(b"\r").decode(errors="surrogateescape") for line in lines_of(path)]
    filled = [(n, line) for n, line in enumerate(lines, start=1) if line.strip()]
    tabs = ending(path).lower() != "csv"
    if tabs and len({line.count("\t") for _, line in filled}) == 1:
        for n, line in filled:
            yield n, [unmarked(column) for column in line.split("\t")]
        return
    sign = "\t" if tabs else separator(filled[0][1] if filled else "")
    text = io.StringIO("\n".join(lines) + "\n", newline="")
    reader = csv.reader(text, delimiter=sign, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            with long_fields():
                row = next(reader)
        except StopIteration:
            return
        except csv.Error as wrong:
            if "field limit" in str(wrong):
                raise UserError(
                    f"{path}, line {start} has a column of more than {LONGEST_FIELD:,} characters"
                ) from None
            # One stray mark can swallow any number of rows, which nobody would miss.
            if reader.line_num > start:
                raise UserError(
                    f"{path}, line {start} opens a quotation mark that nothing closes, not even "
                    f"line {min(reader.line_num, len(lines))}"
                ) from None
            faults.append(f"{path}, line {start} has quotation marks in disorder ({wrong})")
        else:
            if any(column.strip() for column in row) or len(row) > 1:
                yield start, row


@contextmanager
def long_fields() -> Iterator[None]:
    """Columns as long as a book; Python's own limit is 131,072 characters, for all readers."""
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def head_of(path: Path) -> list[str]:
    """The columns of the first row, as names are compared."""
    _, first = next(rows_of(path, []), (1, []))
    return [name.strip().lower() for name in first]


def unmarked(column: str) -> str:
    """A column without the marks that enclose it."""
    enclosed = ENCLOSED.fullmatch(column.strip())
    return enclosed[1].replace('""', '"') if enclosed else column


def separator(first: str) -> str:
    """What stands between the columns of a .csv: the sign that makes most sense of its first line.

    That is one that brings out a usual name, else one that makes two columns, else most columns.
    """
    usual = {*TEXT_COLUMNS.split(", "), *LABEL_COLUMNS.split(", ")}

    def sense(sign: str) -> tuple[bool, bool, int]:
        with long_fields():
            names = next(csv.reader([first], delimiter=sign), [])
        head = [name.strip().lower() for name in names]
        return len(head) > 1 and not usual.isdisjoint(head), len(head) == 2, len(head)

    return max(",;\t", key=sense)


# Files


def part_files(folder: Path) -> dict[str, Path]:
    """The tables of a folder that are named after parts."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem = path.name.removesuffix(".gz").rpartition(".")[0]
        part = SPELLINGS.get(stem.lower())
        if part and ending(path).lower() in TABLES and path.is_file():
            if part in found:
                raise UserError(
                    f"{folder} has two files for {part}, {found[part].name} and {path.name}: "
                    "keep one"
                )
            found[part] = path
    return found
