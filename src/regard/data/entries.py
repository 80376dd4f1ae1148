"""What all vocabularies share: their special entries, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
SPECIALS = ("padding", "start", "end")
PADDING, START, END, UNKNOWN = range(4)
BYTES = 256


@dataclass(frozen=True)
class Entries:
    """Numbers for what no text can spell come first, by name; a vocabulary adds its own."""

    specials: tuple[str, ...]

    padding: ClassVar[int] = PADDING
    start: ClassVar[int] = START
    end: ClassVar[int] = END

    def __len__(self) -> int:
        raise NotImplementedError

    def special(self, name: str) -> int:
        if name not in self.specials:
            raise ValueError(f"no special entry {name!r}; there are {', '.join(self.specials)}")
        return self.specials.index(name)

    def named(self, number: int) -> str:
        """A special entry as people may be shown it, or nothing for one of the texts' own."""
        check_number(number, len(self))
        return f"<{self.specials[number]}>" if number < len(self.specials) else ""


def number_kind(size: int) -> np.dtype:
    """The smallest kind of number that has room for `size` entries, of two: 16 bits or 32."""
    import numpy as np

    return np.dtype(np.uint16 if size <= 2**16 else np.uint32)


def valid_text(text: str) -> str:
    """The text itself, if UTF-8 can write it: half of a surrogate pair is no sign."""
    try:
        text.encode()
    except UnicodeEncodeError as wrong:
        sign = text[wrong.start]
        raise ValueError(f"sign {wrong.start} of the text, {sign!r}, is no Unicode") from None
    return text


def all_of(kind: type[T], values: Iterable[object]) -> tuple[T, ...]:
    """The same values, if all are of a kind."""
    sure = []
    for value in values:
        if not isinstance(value, kind):
            raise ValueError(f"{value!r} stands where {kind.__name__} should")
        sure.append(value)
    return tuple(sure)


def check_specials(specials: tuple[str, ...], first: tuple[str, ...]) -> None:
    if specials[: len(first)] != first or len(set(specials)) < len(specials):
        raise ValueError(
            f"special entries {', '.join(map(str, specials)) or 'none'}: they begin with "
            f"{', '.join(first)}, and each is there once"
        )


def check_room(size: int, specials: tuple[str, ...]) -> None:
    if size <= len(specials):
        raise ValueError(f"size={size} leaves no room beside {len(specials)} special entries")


def check_bytes_fit(size: int, specials: tuple[str, ...]) -> None:
    if size < BYTES + len(specials):
        raise ValueError(
            f"size={size} is less than {BYTES} bytes and {len(specials)} special entries"
        )


def check_number(number: int, size: int) -> None:
    if not 0 <= number < size:
        raise ValueError(f"number {number} is not among the {size} entries of this vocabulary")
