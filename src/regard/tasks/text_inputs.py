"""Texts that a run is asked about: a str is a text and nothing else, a Path a file of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from regard.tasks.inputs import (
    NoItem,
    OwnSplit,
    Rows,
    StandardInput,
    TextFile,
    Unreadable,
    described,
    holds_several,
    is_file,
    items_of,
    one_by_one,
    standard_input,
)
from regard.tasks.text_files import Columns, Text, lines_in, texts_in

T = TypeVar("T")
PLAIN = Columns()
LONGEST_TEXT = 1_000_000  # characters of one text: a book


@dataclass(frozen=True)
class TextReader(Generic[T]):
    """How a task makes its items of texts and of its own data."""

    item: type[T]  # what was made before is taken as it is
    from_text: Callable[[str, str, str | None], T]
    """`(name, text, second)`: an item, or `NoItem`; the second is None for what is no pair."""
    open_split: Callable[[str], OwnSplit[T]]
    pairs: bool = False  # whether it reads two texts together; in one line, a tab is between them
    columns: Columns = PLAIN


def parse_texts(inputs: Iterable[Any], reader: TextReader[T]) -> Iterator[T | Unreadable]:
    """What a user passes, item by item.

    A str is a text. A Path or an open file has a text in each line or row. Of a task that reads
    pairs, a tuple of two is one; of others, it is two texts.
    """

    def single(value: Any) -> bool:
        return isinstance(value, reader.item) or not holds_several(value) or is_pair(value, reader)

    for place, value in one_by_one(inputs, single):
        if isinstance(value, reader.item):
            yield value
        elif isinstance(value, Rows):
            yield from items_of(value, reader.open_split)
        elif isinstance(value, str):
            item = item_of(Text(place, str(value)), reader, name=str(value))
            yield item
        elif isinstance(value, list | tuple) and is_pair(tuple(value), reader):
            item = item_of(Text(place, *value), reader, name="\t".join(value))
            yield item
        elif (texts := texts_of(value, reader.columns)) is not None:
            for text in texts:
                item = item_of(text, reader)
                yield item
        elif isinstance(value, bytes | bytearray):
            yield Unreadable(place, "is bytes, and no text: decode them first")
        else:
            yield Unreadable(place, described(value, "text"))


def is_pair(value: Any, reader: TextReader[Any]) -> bool:
    """Whether a value is two texts that are read together."""
    pair = reader.pairs and type(value) is tuple and len(value) == 2
    return pair and all(isinstance(each, str) for each in value)


def texts_of(value: Any, columns: Columns) -> Iterator[Text | Unreadable] | None:
    """The texts of a file, if a value is one."""
    if isinstance(value, Path):
        value = TextFile(value)
    if isinstance(value, TextFile):
        return texts_in(value, columns)
    if isinstance(value, StandardInput):
        return lines_in(value.name, standard_input())
    if is_file(value):
        name = value.name if isinstance(getattr(value, "name", None), str) else "file"
        return (typed_lines if isinstance(value.read(0), str) else lines_in)(name, value)
    return None


def typed_lines(name: str, file: Iterable[str]) -> Iterator[Text]:
    """The lines of a file that was opened as text."""
    for number, line in enumerate(file, start=1):
        yield Text(f"{name}, line {number}", line.removesuffix("\n").removesuffix("\r"))


def item_of(text: Text | Unreadable, reader: TextReader[T], name: str = "") -> T | Unreadable:
    """A text as a task's item, or why it is none."""
    if isinstance(text, Unreadable):
        return text
    try:
        for part in (text.text, text.second or ""):
            check_text(part)
        return reader.from_text(name or text.place, text.text, text.second)
    except NoItem as why:
        return Unreadable(text.place, str(why))


def check_text(text: str) -> None:
    """Refuse what no vocabulary should be given."""
    if len(text) > LONGEST_TEXT:
        raise NoItem(
            f"has {len(text):,} characters, and at most {LONGEST_TEXT:,} are read: cut it into "
            "several texts"
        )
    try:
        text.encode()
    except UnicodeEncodeError as wrong:
        sign = ascii(text[wrong.start])
        raise NoItem(
            f"has half a character at {wrong.start}, {sign}, which is no Unicode"
        ) from None
