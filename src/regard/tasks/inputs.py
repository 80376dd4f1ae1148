"""What a run is asked about: values from Python, texts of files, rows of its own data.

    run.predict(["one text", "another"])     # any iterable: each value is an item
    run.predict(Path("texts.jsonl"))         # a file of texts; a str is never taken for one
    run.predict(split="test", indices=[0])   # Rows("test", (0,)): items of the run's own data

Tasks make items of their own of these, one at a time. What cannot be read becomes `Unreadable`,
with its place and the reason: Python raises it, a command reports it and answers the rest.
"""

from __future__ import annotations

import io
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from operator import index as whole
from pathlib import Path
from typing import Any, BinaryIO, Generic, NamedTuple, TypeVar

from regard.errors import UserError

T = TypeVar("T")
LOOKED_AT = 256  # items on one page
ROW = re.compile(r"(train|validation|test\w*):(\d+)")  # how rows were named once


class Named(NamedTuple):
    """A value, and where it stands in words of whoever gave it: "argument 2"."""

    place: str
    value: Any


class Rows(NamedTuple):
    """Items of the run's own data: some of a split, or all of it."""

    split: str
    indices: tuple[int, ...] | None = None


class TextFile(NamedTuple):
    """A file of texts, and the column or key they are under, if that needs to be named."""

    path: Path
    text_column: str = ""


class StandardInput(NamedTuple):
    """What comes from standard input: texts by line, or the bytes of an image."""

    name: str = "standard input"


class NoItem(ValueError):
    """Why something is no item that a run can answer, as the rest of a sentence about it."""


@dataclass(frozen=True)
class Unreadable:
    """An item that cannot be answered: where it stands, and why, as the rest of a sentence."""

    place: str
    reason: str

    def __str__(self) -> str:
        # What reads files names them in its sentences.
        return self.reason if self.reason.startswith(self.place) else f"{self.place} {self.reason}"


@dataclass(frozen=True)
class OwnSplit(Generic[T]):
    """A split of the run's own data, as items that can be asked about."""

    data: str  # the name of the data
    kind: str  # what is counted: images, texts, pairs, windows
    count: int
    item: Callable[[int], T]


def own_rows(split: str | None, indices: Any) -> tuple[Rows, ...]:
    """`split` and `indices` as a user passes them: a number, some, or none for all."""
    if split is None:
        if indices is None or indices == ():
            return ()
        raise UserError("an index counts within a split: name it, as in --split test or split=…")
    if indices is None:
        return (Rows(split),)
    some = indices if isinstance(indices, Iterable) and not isinstance(indices, str) else (indices,)
    try:
        found = tuple(-1 if isinstance(each, bool) else whole(each) for each in some)
    except TypeError:
        raise UserError(f"indices={indices!r:.60}: they are whole numbers, from 0") from None
    return (Rows(split, found),)


def items_of(rows: Rows, open_split: Callable[[str], OwnSplit[T]]) -> Iterator[T | Unreadable]:
    """The items of a split that are named; one that is not there is told apart."""
    split = open_split(rows.split)
    for index in range(split.count) if rows.indices is None else rows.indices:
        if not 0 <= index < split.count:
            there = f"the {split.kind} 0 to {split.count - 1:,}" if split.count else "none"
            words = f"is not there: {rows.split} of {split.data} has {there}"
            yield Unreadable(f"index {index} of {rows.split}", words)
            continue
        try:
            yield split.item(index)
        except NoItem as why:
            yield Unreadable(f"index {index} of {rows.split}", str(why))


def one_by_one(
    inputs: Iterable[Any], single: Callable[[Any], bool], name: str = "inputs"
) -> Iterator[tuple[str, Any]]:
    """Every value with its place; what is no single value is opened, once.

    One argument that holds several is as good as several arguments.
    """
    given = iter(inputs)
    first = list(islice(given, 2))
    opened = len(first) == 1 and not single(first[0])
    if opened:
        first, given = [], iter(first[0])
    for number, value in enumerate(chain(first, given)):
        place = f"{name}[{number}]"
        if isinstance(value, Named):
            place, value = value
        if opened or single(value):
            yield place, value
        else:
            yield from ((f"{place}[{at}]", each) for at, each in enumerate(value))


def holds_several(value: Any) -> bool:
    """Whether a value is opened into its parts: lists, arrays, columns, generators.

    Tables and sets are not: of them it is said why.
    """
    if isinstance(value, str | bytes | bytearray | memoryview | Path | Mapping | set | frozenset):
        return False
    if isinstance(value, Named | Rows | TextFile | StandardInput) or is_file(value):
        return False
    return not has_columns(value) and hasattr(value, "__iter__") and getattr(value, "ndim", 1) != 0


def is_file(value: Any) -> bool:
    """Whether a value is an open file, or reads like one."""
    return callable(getattr(value, "read", None)) and not isinstance(value, type)


def has_columns(value: Any) -> bool:
    """Whether a value is a table, as pandas or polars have them."""
    return hasattr(value, "columns") and hasattr(value, "__getitem__")


def described(value: Any, wanted: str) -> str:
    """Why a value is no text or no image, and what to give instead."""
    kind = type(value).__name__
    if isinstance(value, set | frozenset):
        return f"is a set, which has no order to tell answers apart by: give a list of {wanted}s"
    if isinstance(value, Mapping):
        return f"is a {kind}, which is not read: give its {wanted}s as a list"
    if has_columns(value):
        return f"is a {kind}, which has several columns: give one of them"
    if holds_several(value):
        return f"is a {kind} within another: give one list of {wanted}s"
    return f"is {'None' if value is None else f'{value!r:.40} ({kind})'}, and no {wanted}"


def standard_input() -> BinaryIO:
    """The bytes of standard input, whatever the terminal speaks."""
    raw: BinaryIO | None = getattr(sys.stdin, "buffer", None)
    return io.BytesIO(sys.stdin.read().encode()) if raw is None else raw


def readable(items: Iterable[T | Unreadable]) -> Iterator[T]:
    """The items; the first that is none is raised."""
    for item in items:
        if isinstance(item, Unreadable):
            raise UserError(str(item))
        yield item


def left_out(items: Iterable[T | Unreadable]) -> Iterator[T]:
    """The items; of what is none, a warning says how much that was, and where it began."""
    faults = 0
    first = None
    for item in items:
        if isinstance(item, Unreadable):
            faults, first = faults + 1, first or item
        else:
            yield item
    if faults:
        warnings.warn(f"left out: {faults:,}, the first as {first}", stacklevel=2)


def few_enough(items: Iterable[T]) -> list[T]:
    """As many items as one page holds, or a sentence on how many that is."""
    found = list(islice(items, LOOKED_AT + 1))
    if len(found) > LOOKED_AT:
        raise UserError(f"a look holds at most {LOOKED_AT} items: name fewer, as by --index")
    return found
