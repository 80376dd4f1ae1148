"""Texts and their labels from one table; and what is wrong there.

    read = read_labels(Path("own.csv.gz"))          # a line above names the columns
    read.texts[0], read.labels[0], read.lines[0]
    read.seconds[0]                                 # where a column of second texts was asked for
    read.splits[0]                                  # the part of a row, where a column says it
    read.faults                                     # a sentence for each row that is no use
    read_texts(Path("own.csv"))                     # texts alone, whether they have labels or not

`tables` says which files are read, and how. Of a large one, texts lie in a file of their own and
nothing but their places and labels is in memory.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.images import SPLITS
from regard.data.listing import SPELLINGS, is_missing, same_letters
from regard.data.stored_texts import TextWriter, only
from regard.data.tables import (
    NO_UTF8,
    TABLES,
    NotText,
    Row,
    ending,
    first_rows,
    not_utf8,
    rows_of,
)
from regard.errors import DataIssue, Located, at_line, nearest

TEXT_COLUMNS = "text, sentence, review, content"
LABEL_COLUMNS = "label, class, sentiment, target"
USUAL = (*TEXT_COLUMNS.split(", "), *LABEL_COLUMNS.split(", "))
SPLIT_COLUMN = "split"
LONGEST_LABEL = 1_000  # characters: what is longer is no name of a class
DIGIT = re.compile(r"-?[0-9]")  # labels such as 0 and 1, or -1
MOST_FAULTS = 10_000  # sentences that are written out; further ones are counted


class Columns(NamedTuple):
    """Which columns count, of how many, and whether the first row only names them."""

    text: int
    label: int | None  # None where only texts are asked for
    width: int
    named: bool
    pair: int | None = None  # where the second texts are, if there are any
    split: int | None = None  # where it stands which part a row belongs to, if anywhere


class Read(NamedTuple):
    """Rows that are of use, with the lines they start at, and why others are not."""

    path: Path
    texts: Sequence[str]
    labels: tuple[str, ...]
    lines: Sequence[int]
    faults: tuple[str, ...]
    columns: Columns
    seconds: Sequence[str] = ()
    splits: tuple[str, ...] = ()  # train, validation or test; none where no column says it
    more: int = 0  # faults that are only counted

    def only(self, rows: Iterable[int]) -> Read:
        """Some of the rows, without the faults of others."""
        kept = np.fromiter(rows, np.int64)
        return self._replace(
            texts=only(self.texts, kept),
            labels=tuple(self.labels[row] for row in kept),
            lines=array("q", (self.lines[row] for row in kept)),
            faults=(),
            seconds=only(self.seconds, kept) if self.seconds else (),
            splits=tuple(self.splits[row] for row in kept) if self.splits else (),
            more=0,
        )


class NoUse(Exception):
    """A row that cannot be used; the words say why, and the kind is one of a `DataIssue`."""

    def __init__(self, words: str, kind: str = "") -> None:
        super().__init__(words)
        self.kind = kind or getattr(words, "kind", "")


def read_labels(
    path: Path, text: str = "", label: str = "", like: Columns | None = None, pair: str = ""
) -> Read:
    """A table of texts and labels; `text` and `label` name the columns where they need names.

    `like` are the columns of another table that goes with this one, and settles what is in doubt.
    `pair` names the column of second texts, if the labels are of pairs.
    """
    first, rows = begun(path, text, label, pair)
    columns = find_columns(path, first, text, label, like, pair)
    texts, seconds = TextWriter(), TextWriter()
    labels: list[str] = []
    splits: list[str] = []
    known: dict[str, str] = {}  # each label once, however often it occurs
    lines = array("q")
    faults: list[str] = []
    more = 0
    for row in below(rows, columns):
        try:
            one, second, other, split = used(row, columns)
        except NoUse as why:
            if len(faults) < MOST_FAULTS:
                faults.append(
                    Located(f"{path}, line {row.line} {why}", path, row.line, kind=why.kind)
                )
            else:
                more += 1
            continue
        texts.add(one)
        labels.append(known.setdefault(other, other))
        lines.append(row.line)
        if columns.pair is not None:
            seconds.add(second)
        if columns.split is not None:
            splits.append(split)
    if columns.named and not labels and not faults:
        raise DataIssue(f"{path} has names of columns, but no row below them", path, kind="empty")
    rows_of_use = texts.done(), tuple(labels), lines
    return Read(path, *rows_of_use, tuple(faults), columns, seconds.done(), tuple(splits), more)


class TextRow(NamedTuple):
    """A row of a table that is asked about, or why it cannot be: in words, or nothing."""

    line: int
    text: str
    second: str = ""
    fault: str = ""  # to be said after file and line: "has …"; text and second are empty then


def read_texts(path: Path, text: str = "", pair: str = "") -> Iterator[TextRow]:
    """Row by row what is asked about; whatever else stands there is passed by.

    `text` and `pair` name the columns of texts and second texts, where their names do not tell. A
    row that cannot be used (a column too many, no UTF-8, no second text) comes with its `fault`,
    and the next ones follow; an empty text is a text. What is wrong with the whole table, such as a
    column that is not there, is a `UserError`, before the first row or where it is met.
    """
    first, rows = begun(path, text, pair)
    columns = find_texts(path, first, text, pair)
    for row in below(rows, columns):
        try:
            check_row(row, columns.width)
            one = a_text(row.cells[columns.text])
            second = "" if columns.pair is None else a_text(row.cells[columns.pair])
            if columns.pair is not None and one and not second:
                raise NoUse("has an empty second text", "empty")
        except NoUse as why:
            yield TextRow(row.line, "", "", str(why))
        else:
            yield TextRow(row.line, one, second)


def begun(path: Path, *names: str) -> tuple[list[Row], Iterator[Row]]:
    """The first rows that can be read, by which columns are found, and all rows.

    A table of which no row can be read is an error.
    """
    first, rows = first_rows(rows_of(path, (*USUAL, *names)))
    whole = [row for row in first if not row.fault]
    if not whole:
        where, fault = at_line(path, first[0].line), first[0].fault
        raise DataIssue(f"{where} {fault}", where, kind=getattr(fault, "kind", ""))
    return whole, rows


def below(rows: Iterator[Row], columns: Columns) -> Iterator[Row]:
    """The rows below the names of columns, if there are such; those with a fault as well."""
    head = columns.named
    for row in rows:
        if head and not row.fault:
            head = False
        else:
            yield row


def check_row(row: Row, width: int) -> None:
    """Refuse a row with more or fewer columns, or with bytes that are no text."""
    if row.fault:
        raise NoUse(row.fault)
    if len(row.cells) != width:
        given = f"{len(row.cells)} column{'s' * (len(row.cells) > 1)}"
        raise NoUse(f"has {given}, but the first line has {width}", "columns")
    for cell in row.cells:
        if not cell.isascii() and (wrong := NO_UTF8.search(cell)):
            raise NoUse(not_utf8(wrong[0]), "encoding")


def a_text(cell: str) -> str:
    """A cell without the spaces around it."""
    if isinstance(cell, NotText):
        raise NoUse(f"has {cell} where a text should stand", "type")
    return cell.strip()


def used(row: Row, columns: Columns) -> tuple[str, str, str, str]:
    """A row's text, its second text if there are such, its label, and its part if it says so."""
    check_row(row, columns.width)
    assert columns.label is not None
    text, label = a_text(row.cells[columns.text]), same_letters(a_text(row.cells[columns.label]))
    second = "" if columns.pair is None else a_text(row.cells[columns.pair])
    if not text:
        raise NoUse("has an empty text", "empty")
    if columns.pair is not None and not second:
        raise NoUse("has an empty second text", "empty")
    if is_missing(label):
        instead = f", but {label!r}, which stands for none" if label else ""
        raise NoUse(f"has no label{instead}", "label")
    if len(label) > LONGEST_LABEL:
        raise NoUse(
            f"has a label of {len(label):,} characters, where at most {LONGEST_LABEL:,} name a "
            f"class: {label[:20]}…",
            "label",
        )
    split = "" if columns.split is None else a_text(row.cells[columns.split])
    if split and split.lower() not in SPELLINGS:
        words = f"has split {split[:40]!r}; there are {', '.join(SPLITS)}"
        raise NoUse(f"{words} (rename the column if it means something else)", "split")
    return text, second, label, SPELLINGS[split.lower()] if split else "train"


# Which columns


def find_columns(
    path: Path, rows: Sequence[Row], text: str, label: str, like: Columns | None, pair: str
) -> Columns:
    """The columns of text and label: as asked for, by their usual names, or by what is in them.

    A column of second texts is one only if it is asked for.
    """
    where, head = names_above(path, rows)
    if len(head) < 2:
        raise no_columns(where, " has 1 column: there must be two, a text and a label")
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
            there = ", ".join(head)
            words = f" names no {what} column ({names}); there are {there}: say with "
            raise no_columns(where, words + f"--{what}-column which it is")
    assert ours is not None and theirs is not None
    for one, other, what in (
        (ours, theirs, "the text and its label"),
        (ours, second, "the first text and the second"),
        (theirs, second, "the second text and the label"),
    ):
        if one == other:
            raise no_columns(where, f": column {head[one]!r} cannot be both {what}")
    split = named_column(where, head, "", SPLIT_COLUMN, "part", flags=False)
    if split in (ours, theirs, second):
        split = None
    return Columns(ours, theirs, len(head), named=True, pair=second, split=split)


def find_texts(path: Path, rows: Sequence[Row], text: str, pair: str) -> Columns:
    """The columns of texts and of second texts, where nothing says that there are labels."""
    where, head = names_above(path, rows)
    second = named_column(where, head, pair, "", "second text")
    known = text if text.strip().lower() in head else ""
    ours = named_column(where, head, known, TEXT_COLUMNS, "text", second, flags=False)
    labels = [at for at, name in enumerate(head) if name in LABEL_COLUMNS.split(", ")]
    if ours is None and len(head) == 2 and len(labels) == 1 and second is None:
        ours = 1 - labels[0]
    if ours is not None:
        return Columns(ours, None, len(head), named=True, pair=second)
    keys = ending(path).lower() == "jsonl"  # which are names, whatever they look like
    if len(head) == 1:
        return Columns(0, None, 1, named=keys)
    if second is None and not keys and (columns := guessed(rows)):
        return columns
    names = ", ".join(name[:40] for name in head)
    one = (text or "text").strip().lower()
    raise no_columns(where, f" names no text column, but {names}: call one {one!r}")


def names_above(path: Path, rows: Sequence[Row]) -> tuple[Located, list[str]]:
    """What the first row calls the columns, as names are compared, and where it stands."""
    where, head = at_line(path, rows[0].line), [name.strip().lower() for name in rows[0].cells]
    if NO_UTF8.search("".join(head)):
        words = f"{where} is not UTF-8: save the file as UTF-8 first"
        raise DataIssue(words, where, kind="encoding")
    return where, head


def no_columns(where: str, words: str) -> DataIssue:
    """What is wrong with the names of columns."""
    return DataIssue(f"{where}{words}", where, kind="column")


def named_column(
    where: str,
    head: list[str],
    requested: str,
    usual: str,
    what: str,
    taken: int | None = None,
    *,
    flags: bool = True,
) -> int | None:
    """The column that is requested, or else the one of a usual name that is not taken, if any.

    `flags` are what a user may be told to say it with.
    """
    if requested and requested.strip().lower() not in head:
        near = nearest(requested.strip().lower(), head)
        raise no_columns(where, f" has no column {requested!r}; {near}")
    # A column without a name, such as the numbers of the rows, is none of these.
    names = (
        [requested.strip().lower()] if requested else [name for name in usual.split(", ") if name]
    )
    found = [at for at, name in enumerate(head) if name in names and (requested or at != taken)]
    if len(found) > 1:
        alike = len({head[at] for at in found}) == 1
        words = f" has {len(found)} columns that may be the {what}, "
        words += f"{' and '.join(head[at] for at in found)}: "
        cure = "rename one" if alike or not flags else f"say with --{what}-column which it is"
        raise no_columns(where, words + cure)
    return found[0] if found else None


def guessed(rows: Sequence[Row]) -> Columns | None:
    """Two columns without names: labels recur, in the first row as well, and texts hardly do.

    Or labels are numbers below ten, as 0 and 1: the first row has one, which is no column's name.
    """
    first = rows[0].cells
    if len(first) != 2:
        return None
    counts = [
        Counter(row.cells[at].strip() for row in rows if len(row.cells) == 2) for at in (0, 1)
    ]
    label = 0 if len(counts[0]) < len(counts[1]) else 1
    recurs = counts[label][first[label].strip()] > 1  # a name of a column would not
    plain = recurs and 2 * len(counts[label]) <= len(counts[1 - label])
    if not plain:
        digits = [all(DIGIT.fullmatch(cell) for cell in some) for some in counts]
        label, plain = digits.index(True) if any(digits) else 0, digits.count(True) == 1
    return Columns(1 - label, label, 2, named=False) if plain else None


def unnamed(path: Path, rows: Sequence[Row], like: Columns | None) -> Columns:
    """Columns that nothing names: as in the table that goes with this one, or as they look."""
    line, first = rows[0].line, rows[0].cells
    keys = ending(path).lower() == "jsonl"  # which are names, whatever they look like
    found = like if like and not like.named and len(first) == 2 else guessed(rows)
    if found and not keys:
        return found
    names = ", ".join(name.strip()[:40] for name in first)
    raise no_columns(
        at_line(path, line),
        f" names neither a text column ({TEXT_COLUMNS}) nor a label column ({LABEL_COLUMNS}), "
        f"but {names}: say with --text-column and --label-column which they are"
        + ("" if keys else "; above rows alone put a line of names, such as text,label"),
    )


# Files


def head_of(path: Path) -> list[str]:
    """The columns of the first row, as names are compared."""
    found = next((row for row in rows_of(path, USUAL) if not row.fault), Row(1, []))
    return [name.strip().lower() for name in found.cells]


def part_files(folder: Path) -> dict[str, Path]:
    """The tables of a folder that are named after parts."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem = path.name.removesuffix(".gz").rpartition(".")[0]
        part = SPELLINGS.get(stem.lower())
        if part and ending(path).lower() in TABLES and path.is_file():
            if part in found:
                both = f"{found[part].name} and {path.name}"
                words = f"{folder} has two files for {part}, {both}: keep one"
                raise DataIssue(words, folder, kind="several")
            found[part] = path
    return found
