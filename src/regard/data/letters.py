"""The plainest vocabularies: a text's characters, or its bytes.

    vocabulary = fit_characters(texts, floor=1, size=10_000)
    vocabulary.decode(vocabulary.encode("To be,\\n")) == "To be,\\n"      # nothing is lower-cased

`vocabulary` chooses between these and those that join letters. `encode_array` gives what
`encode` gives, as an array and many times faster. Neither numpy nor torch is imported before it
is needed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from regard.data.entries import (
    BYTES,
    SPECIALS,
    UNKNOWN,
    Entries,
    check_bytes_fit,
    check_number,
    check_room,
    check_specials,
    number_kind,
    valid_text,
)

if TYPE_CHECKING:
    import numpy as np

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
            f"no character occurs min_frequency={floor} times; the most frequent occurs {most}"
        )
    check_room(size, specials)
    kept = sorted(sign for _, sign in known[: size - len(specials)])
    return CharacterVocabulary(specials, "".join(kept))


@dataclass(frozen=True)
class CharacterVocabulary(Entries):
    """Characters as they are, spaces and line breaks among them; any other is `<unknown>`."""

    characters: str

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
        return self.named(number) or self.characters[number - len(self.specials)]

    def to_text(self) -> str:
        kept = {"kind": "char", "specials": self.specials, "characters": self.characters}
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
class RawVocabulary(Entries):
    """The 256 bytes, which spell every text in UTF-8 and give it back exactly."""

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
        if shown := self.named(number):
            return shown
        return bytes([number - len(self.specials)]).decode("utf-8", errors="backslashreplace")

    def to_text(self) -> str:
        return json.dumps({"kind": "byte", "specials": self.specials})
