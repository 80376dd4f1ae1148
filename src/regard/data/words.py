"""Texts as the numbers of their words, lower-cased, with punctuation marks as words.

    words_of("The man's dog, 3.5 km away!")       # the man 's dog , 3.5 km away !
    vocabulary = fit_words(texts, floor=5, size=10_000)

Rare words have no entry and are read as `<unknown>`. numpy is not imported before it is needed.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar

from regard.data.entries import (
    SPECIALS,
    UNKNOWN,
    Entries,
    check_room,
    check_specials,
    number_kind,
)

if TYPE_CHECKING:
    import numpy as np


def words_of(text: str) -> list[str]:
    """The words and punctuation marks of a text, lower-cased.

    - A word is a run of letters, digits and the marks that belong to them. A hyphen or an
      apostrophe between two such runs keeps them together (t-shirt, o'clock), as do the joiners
      of Persian and Hindi, and a point or comma between two digits (3.5).
    - The endings 's 'd 'm 're 've 'll are words of their own: "man's" and "man 's" are the same.
    - Any other sign that is no space is a word; an emoji made of several signs is one.
    - Before this, ’ becomes ', and letters that can be written in two ways (é) are in one.

    A script that puts no spaces between words gives very long ones: use byte pairs for it.
    """
    text = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())
    return word_rule().findall(text.replace("’", "'"))


def normalised(text: str) -> str:
    """A text as a vocabulary of words gives it back: its words with one space between."""
    return " ".join(words_of(text))


def fit_words(
    texts: Iterable[str], *, floor: int, size: int, extra: Sequence[str] = ()
) -> WordVocabulary:
    """The words that occur at least `floor` times, most frequent first, equals by letter."""
    specials = (*SPECIALS, "unknown", *extra)
    count: Counter[str] = Counter()
    for text in texts:
        count.update(words_of(text))
    known = sorted((-n, word) for word, n in count.items() if n >= floor)
    if not known:
        most = max(count.values(), default=0)
        raise ValueError(
            f"no word occurs min_frequency={floor} times; the most frequent occurs {most}"
        )
    check_room(size, specials)
    return WordVocabulary(specials, tuple(word for _, word in known[: size - len(specials)]))


@dataclass(frozen=True)
class WordVocabulary(Entries):
    """Lower-cased words and punctuation; what is not among them is `<unknown>`."""

    words: tuple[str, ...]

    unknown: ClassVar[int] = UNKNOWN

    def __post_init__(self) -> None:
        check_specials(self.specials, (*SPECIALS, "unknown"))
        if len(set(self.words)) < len(self.words):
            twice, n = Counter(self.words).most_common(1)[0]
            raise ValueError(f"the word {twice!r} is there {n} times")

    def __len__(self) -> int:
        return len(self.specials) + len(self.words)

    def encode(self, text: str) -> list[int]:
        numbers = self._numbers
        return [numbers.get(word, UNKNOWN) for word in words_of(text)]

    def encode_array(self, text: str) -> np.ndarray:
        import numpy as np

        return np.array(self.encode(text), number_kind(len(self)))

    def decode(self, numbers: Iterable[int]) -> str:
        silent = set(range(len(self.specials))) - {UNKNOWN}
        return " ".join(self.entry(number) for number in numbers if number not in silent)

    def entry(self, number: int) -> str:
        return self.named(number) or self.words[number - len(self.specials)]

    def to_text(self) -> str:
        return json.dumps({"kind": "word", "specials": self.specials, "words": self.words})

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, len(self.specials))}


@cache
def word_rule() -> re.Pattern[str]:
    marks = "".join(f"{first}-{last}" for first, last in mark_ranges())
    letter = rf"[\w{marks}]"
    ending = rf"'(?:s|d|m|re|ve|ll)(?!{letter})"
    inside = rf"(?!{ending})['\-\u200c\u200d]|(?<=\d)[.,](?=\d)"
    word = rf"{letter}+(?:(?:{inside}){letter}+)*"
    flag = "[\U0001f1e6-\U0001f1ff]{2}"
    sign = rf"[^\w\s{marks}][{marks}\U0001f3fb-\U0001f3ff]*"  # with its shade or its form
    return re.compile(rf"{word}|{ending}|{flag}|{sign}(?:\u200d{sign})*")


def mark_ranges() -> Iterator[tuple[str, str]]:
    """Vowel signs, accents and the like, which Python's `\\w` leaves out."""
    first = last = -2
    for number in (*range(0x20000), *range(0xE0100, 0xE01F0)):  # no others have been assigned
        if unicodedata.category(chr(number))[0] == "M":
            if number > last + 1:
                if last >= 0:
                    yield chr(first), chr(last)
                first = number
            last = number
    yield chr(first), chr(last)
