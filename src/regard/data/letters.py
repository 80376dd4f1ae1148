"""The plainest vocabularies, a text's characters or its bytes; and what all vocabularies share.

    vocabulary = fit_characters(texts, floor=1, size=10_000)
    vocabulary.decode(vocabulary.encode("To be,\\n")) == "To be,\\n"      # nothing is lower-cased

`vocabulary` has the two that join letters, and chooses among all four. `encode_array` gives what
`encode` gives, as an array and many times faster. Neither numpy nor torch is imported before it
is needed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeVar

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")
SPECIALS = ("padding", "start", "end")
PADDING, START, END, UNKNOWN = range(4)
BYTES = 256
STEP = 2**16  # characters that are looked up at a time
LOST = "\ufffd"  # �, which Unicode has for a character that could not be read


# Characters


def fit_characters(
    texts: Iterable[str], *, floor: int, size: int, extra: Sequence[str] = ()
) -> CharacterVocabulary:
    """The characters that occur at least `floor` times, in the order of their code points.

    Where there are more than `size` allows, the most frequent are kept.
    """
    specials = (*SPECIALS, "unknown", *extra)
    count: Counter[str] = Counter()
    for text in texts:
        count.update(valid_text(text))
    known = sorted((-n, sign) for sign, n in count.items() if n >= floor)
    if not known:
        most = max(count.values(), default=0)
        raise ValueError(
            f"no character occurs floor={floor} times; the most frequent occurs {most}"
        )
    check_room(size, specials)
    kept = sorted(sign for _, sign in known[: size - len(specials)])
    return CharacterVocabulary(specials, "".join(kept))


@dataclass(frozen=True)
class CharacterVocabulary:
    """Characters as they are, spaces and line breaks among them; any other is `<unknown>`."""

    specials: tuple[str, ...]
    characters: str

    padding: ClassVar[int] = PADDING
    start: ClassVar[int] = START
    end: ClassVar[int] = END
    unknown: ClassVar[int] = UNKNOWN

    def __post_init__(self) -> None:
        check_specials(self.specials, (*SPECIALS, "unknown"))
        valid_text(self.characters)
        if len(set(self.characters)) < len(self.characters):
            twice, n = Counter(self.characters).most_common(1)[0]
            raise ValueError(f"the character {twice!r} is there {n} times")

    def __len__(self) -> int:
        return len(self.specials) + len(self.characters)

    def encode(self, text: str) -> list[int]:
        numbers = self._numbers
        return [numbers.get(sign, UNKNOWN) for sign in valid_text(text)]

    def encode_array(self, text: str) -> np.ndarray:
        import numpy as np

        numbers = np.empty(len(valid_text(text)), self._table.dtype)
        # A little at a time: on the way, a character takes ten times the room of its number.
        for start in range(0, len(text), STEP):
            some = text[start : start + STEP]
            codes = np.frombuffer(some.encode("utf-32-le"), "<u4")
            self._table.take(codes, mode="clip", out=numbers[start : start + len(some)])
        return numbers

    def decode(self, numbers: Iterable[int]) -> str:
        """An unknown character becomes �."""
        shift, size = len(self.specials), len(self)
        signs = []
        for number in numbers:
            check_number(number, size)
            if number >= shift:
                signs.append(self.characters[number - shift])
            elif number == UNKNOWN:
                signs.append(LOST)
        return "".join(signs)

    def entry(self, number: int) -> str:
        check_number(number, len(self))
        shift = len(self.specials)
        return self.characters[number - shift] if number >= shift else f"<{self.specials[number]}>"

    def special(self, name: str) -> int:
        return number_of(name, self.specials)

    def to_text(self) -> str:
        kept = {"kind": "characters", "specials": self.specials, "characters": self.characters}
        return json.dumps(kept)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {sign: number for number, sign in enumerate(self.characters, len(self.specials))}

    @cached_property
    def _table(self) -> np.ndarray:
        """The number of every code point as far as the last known one, and one unknown beyond."""
        import numpy as np

        last = max(map(ord, self.characters), default=0)
        table = np.full(last + 2, UNKNOWN, number_kind(len(self)))
        for sign, number in self._numbers.items():
            table[ord(sign)] = number
        return table


# Bytes


def fit_raw(texts: Iterable[str], *, size: int, extra: Sequence[str] = ()) -> RawVocabulary:
    """All bytes, whatever the texts are: they are not read."""
    specials = (*SPECIALS, *extra)
    check_bytes_fit(size, specials)
    return RawVocabulary(specials)


@dataclass(frozen=True)
class RawVocabulary:
    """The 256 bytes, which spell every text in UTF-8 and give it back exactly."""

    specials: tuple[str, ...]

    padding: ClassVar[int] = PADDING
    start: ClassVar[int] = START
    end: ClassVar[int] = END

    def __post_init__(self) -> None:
        check_specials(self.specials, SPECIALS)

    def __len__(self) -> int:
        return len(self.specials) + BYTES

    def encode(self, text: str) -> list[int]:
        shift = len(self.specials)
        return [shift + byte for byte in valid_text(text).encode()]

    def encode_array(self, text: str) -> np.ndarray:
        import numpy as np

        numbers = np.frombuffer(valid_text(text).encode(), np.uint8).astype(number_kind(len(self)))
        numbers += len(self.specials)
        return numbers

    def decode(self, numbers: Iterable[int]) -> str:
        """Bytes that are no UTF-8, which only a model can write, become �."""
        shift, size = len(self.specials), len(self)
        found = bytearray()
        for number in numbers:
            check_number(number, size)
            if number >= shift:
                found.append(number - shift)
        return found.decode("utf-8", errors="replace")

    def entry(self, number: int) -> str:
        check_number(number, len(self))
        shift = len(self.specials)
        if number < shift:
            return f"<{self.specials[number]}>"
        return bytes([number - shift]).decode("utf-8", errors="backslashreplace")

    def special(self, name: str) -> int:
        return number_of(name, self.specials)

    def to_text(self) -> str:
        return json.dumps({"kind": "raw", "specials": self.specials})


# What all vocabularies share


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


def number_of(name: str, specials: tuple[str, ...]) -> int:
    if name not in specials:
        raise ValueError(f"no special entry {name!r}; there are {', '.join(specials)}")
    return specials.index(name)
