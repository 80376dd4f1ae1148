"""Numbers in digits and in English words: a small language pair that every machine has.

    spelled(347_512)        # "three hundred forty-seven thousand five hundred twelve"
    read("twelve")          # 12
    numerals()              # 23,000 numbers as parallel texts, each in both directions

There is one right translation, so a model can be right or wrong and nothing between. To find it, a
word must be read together with its place: the 4 in 347512 is forty here and thousands there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import islice

from regard.data.pairs import PAIRS, Pairs, PairSet

TOO_LARGE = 1_000_000
SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
VALUES = {
    **{word: value for value, word in enumerate(SMALL)},
    **{word: 10 * value for value, word in enumerate(TENS, start=2)},
}
EACH = 7_300  # numbers of four, of five and of six digits; of shorter ones all there are
SHARES = (20, 1, 2)  # in 23: train, validation, test


def spelled(number: int) -> str:
    """A number below a million in words, as Americans write it: without "and", without commas."""
    if not 0 <= number < TOO_LARGE:
        raise ValueError(f"{number} is not spelled here; numbers are from 0 to {TOO_LARGE - 1}")
    thousands, rest = divmod(number, 1000)
    if thousands:
        return f"{spelled(thousands)} thousand" + (f" {spelled(rest)}" if rest else "")
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return f"{SMALL[hundreds]} hundred" + (f" {spelled(rest)}" if rest else "")
    if number < len(SMALL):
        return SMALL[number]
    tens, ones = divmod(number, 10)
    return TENS[tens - 2] + (f"-{SMALL[ones]}" if ones else "")


def read(words: str) -> int:
    """The number that `spelled` spells so; any other text is a `ValueError`."""
    number = group = 0
    for word in re.split("[ -]", words):
        if word == "thousand":
            number, group = group * 1000, 0
        elif word == "hundred":
            group *= 100
        elif word in VALUES:
            group += VALUES[word]
        else:
            raise ValueError(f"{word!r} in {words[:80]!r} is no word of a number")
    number += group
    # "two one" also adds up to 3: only what is spelled like this is a number.
    if number >= TOO_LARGE or spelled(number) != words:
        raise ValueError(f"{words[:80]!r} is not how a number is spelled")
    return number


def numerals() -> PairSet:
    """Numbers of one to six digits, each to be put into words, and its words into digits.

    A number is in one part only. All below 21 and all round tens are for training, which so has
    every word there is; of the others, each length is divided alike.
    """
    named = PAIRS["numerals"]
    parts: tuple[list[int], ...] = ([*range(20), *range(20, 100, 10)], [], [])
    for numbers in (
        sorted((n for n in range(21, 100) if n % 10), key=fingerprint),
        sorted(range(100, 1000), key=fingerprint),
        *(islice(drawn(digits), EACH) for digits in (4, 5, 6)),
    ):
        for part, some in zip(parts, shared_out(list(numbers)), strict=True):
            part += some
    train, validation, test = map(both_ways, parts)
    return PairSet(
        "numerals",
        named.languages,
        {"train": train, "validation": validation, "test": test},
        licence=named.licence,
        origin=named.source,
        exact=True,
    )


def both_ways(numbers: Iterable[int]) -> Pairs:
    """For each number two pairs: digits to words, words to digits."""
    texts = [(str(number), spelled(number)) for number in numbers]
    return Pairs(
        tuple(side for digits, words in texts for side in (digits, words)),
        tuple(side for digits, words in texts for side in (words, digits)),
    )


def drawn(digits: int) -> Iterator[int]:
    """Different numbers of so many digits in an order that is the same on every machine."""
    least, turn = 10 ** (digits - 1), 0
    seen: set[int] = set()
    while len(seen) < 9 * least:
        number = least + fingerprint(f"{digits} {turn}") % (9 * least)
        turn += 1
        if number not in seen:
            seen.add(number)
            yield number


def shared_out(numbers: list[int]) -> Iterator[list[int]]:
    """The numbers cut in three by SHARES."""
    start = 0
    for share in SHARES:
        end = start + share
        yield numbers[len(numbers) * start // sum(SHARES) : len(numbers) * end // sum(SHARES)]
        start = end


def fingerprint(what: object) -> int:
    """A number that looks drawn, and is always the same for the same thing."""
    return int.from_bytes(hashlib.sha256(str(what).encode()).digest()[:8])
