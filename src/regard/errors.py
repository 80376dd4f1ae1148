"""What a person did wrong, as exceptions that know what they are about.

    try:
        rg.train("classify", recipe="mine.toml")
    except rg.UserError as wrong:       # every mistake; str(wrong) is the sentence that is shown
        ...

A `ConfigError` knows the key (`train.epochs`) and the value, a `DataIssue` the file, the line and
the kind of fault (`encoding`). Whoever handles them, as tests do, asks these fields; sentences
may be put better at any time.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable
from os import PathLike, fspath
from typing import Any, TypeVar

E = TypeVar("E", bound="UserError")


class UserError(Exception):
    """Shown as one sentence without a traceback; it names the file, line or flag, and what to do.

    Library code raises `ValueError` with the numbers in it; this one is for whatever a user typed,
    pointed to or left out.
    """

    def __str__(self) -> str:
        """The sentence, with half surrogate pairs and the like spelt so that it can be printed."""
        return super().__str__().encode(errors="backslashreplace").decode()

    def reworded(self: E, sentence: str) -> E:
        """The same mistake, with the same fields, in other words."""
        other = copy.copy(self)
        other.args = (sentence,)
        return other


class ConfigError(UserError):
    """A configuration that cannot be: a key that is not there, or a value that it cannot have."""

    def __init__(self, sentence: str, *, key: str = "", value: Any = None, file: str = "") -> None:
        super().__init__(sentence)
        self.key = key  # dotted, as in `model.width`; empty where no key is to blame
        self.value = value  # as it was given
        self.file = file  # where it was read; empty if from no file


class FieldError(ValueError):
    """A dataclass's own word on one of its fields; `config.build` makes a `ConfigError` of it."""

    def __init__(self, sentence: str, field: str) -> None:
        super().__init__(sentence)
        self.field = field  # dotted where it is one of a field's own, as model.context_length

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.field)


class FieldTypeError(FieldError, TypeError):
    """The same where the value is of another type than the field."""


class Located(str):
    """Words about a file, or a place in one, that know the file, the line and the kind of fault."""

    file: str
    line: int | None
    kind: str

    def __new__(
        cls,
        words: str,
        file: str | PathLike[str] = "",
        line: int | None = None,
        *,
        kind: str = "",
    ) -> Located:
        """`file` may be a place itself, as `at_line` makes it."""
        made = super().__new__(cls, words)
        if isinstance(file, Located):
            line = file.line if line is None else line
            file = file.file
        made.file, made.line, made.kind = fspath(file), line, kind
        return made


class DataIssue(UserError):
    """Something wrong with a file of data, or a line of it."""

    def __init__(
        self,
        sentence: str,
        file: str | PathLike[str] = "",
        line: int | None = None,
        *,
        kind: str = "",
    ) -> None:
        """`file` may be words that know where they stand, whose kind counts if none is given."""
        super().__init__(str(sentence))
        known = sentence if isinstance(sentence, Located) and not file else file
        place = Located("", known, line, kind=kind or getattr(known, "kind", ""))
        self.file = place.file  # empty where it is about no file
        self.line = place.line  # counted from 1; None where it is about the whole file
        self.kind = place.kind  # a word that stays: `empty`, `encoding`, `label`

    @property
    def located(self) -> Located:
        """The sentence, for lists of what is wrong."""
        return Located(str(self), self.file, self.line, kind=self.kind)


def at_line(file: str | PathLike[str], line: int) -> Located:
    """A place to begin a sentence with: own.csv, line 3."""
    return Located(f"{file}, line {line}", file, line)


def located(trouble: UserError) -> Located:
    """A mistake as words in a list, with what is known of its place."""
    return trouble.located if isinstance(trouble, DataIssue) else Located(str(trouble))


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say after a name that nobody has: the one that was meant, or all there are."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"


def nearest_widths(width: int, heads: int) -> str:
    """Which widths split into so many heads, near one that does not."""
    low = width // heads * heads
    if low == 0:
        return f"the smallest width that does is {heads}"
    return f"nearest widths are {low} and {low + heads}"
