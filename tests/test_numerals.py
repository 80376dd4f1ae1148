"""Numbers are spelled as in school, read back, and none is learnt that is asked about."""

import re
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import expect_error
from regard.data.images import SPLITS
from regard.data.pairs import read_pairs
from regard.data.synthetic.numerals import drawn, numerals, read, spelled

NUMBERS = st.integers(0, 999_999)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (7, "seven"),
        (10, "ten"),
        (13, "thirteen"),
        (15, "fifteen"),
        (18, "eighteen"),
        (20, "twenty"),
        (40, "forty"),
        (84, "eighty-four"),
        (100, "one hundred"),
        (101, "one hundred one"),
        (219, "two hundred nineteen"),
        (990, "nine hundred ninety"),
        (1_000, "one thousand"),
        (1_001, "one thousand one"),
        (12_012, "twelve thousand twelve"),
        (100_000, "one hundred thousand"),
        (300_070, "three hundred thousand seventy"),
        (347_512, "three hundred forty-seven thousand five hundred twelve"),
        (999_999, "nine hundred ninety-nine thousand nine hundred ninety-nine"),
    ],
)
def test_a_number_is_spelled_and_read(number, words):
    assert spelled(number) == words and read(words) == number


@given(NUMBERS)
def test_what_is_spelled_is_read_back(number):
    assert read(spelled(number)) == number


# Digit by digit from a table, and by no arithmetic: a rule of its own to check the other by.
ONES = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
TEENS = [
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def three_digits(digits: str) -> str:
    hundreds, tens, ones = map(int, digits)
    last = TEENS[ones] if tens == 1 else "-".join(filter(None, (TENS[tens], ONES[ones])))
    return " ".join(filter(None, (hundreds and f"{ONES[hundreds]} hundred", last)))


@given(NUMBERS)
def test_a_number_is_two_groups_of_three_digits(number):
    groups = re.findall("...", f"{number:06}")
    left, right = map(three_digits, groups)
    words = " ".join(filter(None, (left and f"{left} thousand", right)))
    assert spelled(number) == (words or "zero")


@given(st.integers(0, 9_999))
def test_no_two_numbers_are_spelled_alike(number):
    assert spelled(number) != spelled(number + 1) and spelled(number) != spelled(number * 10 + 10)


@pytest.mark.parametrize("number", [-1, 1_000_000, 10**12])
def test_a_number_that_is_too_large_is_a_sentence(number):
    with expect_error(ValueError):
        spelled(number)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "dog",
        "Twelve",
        "twelve ",
        "two  hundred",
        "two one",
        "twenty one",
        "twenty-zero",
        "one hundred and one",
        "hundred",
        "thousand",
        "zero thousand",
        "one thousand zero",
        "ten hundred",
        "one thousand thousand",
        "one thousand one thousand",
        "nine hundred thousand hundred thousand",
        "one hundred-one",
        "12",
    ],
)
def test_any_other_text_is_no_number(words):
    with expect_error(ValueError):
        read(words)


@given(st.lists(st.sampled_from(["one", "twelve", "sixty", "hundred", "thousand", "zero"])))
def test_a_text_of_the_right_words_is_read_only_as_it_is_spelled(words):
    text = " ".join(words)
    try:
        number = read(text)
    except ValueError:
        return
    assert spelled(number) == text


# The parallel texts


@pytest.fixture(scope="module")
def pairs():
    return numerals()


def numbers_in(part) -> list[int]:
    return [int(text) for text in part.source if text.isdigit()]


def test_each_number_is_there_once_in_both_directions(pairs):
    for name in SPLITS:
        part = pairs[name]
        both = set(zip(part.source, part.target, strict=True))
        assert len(both) == len(part) == 2 * len(numbers_in(part))
        for source, target in both:
            digits, words = (source, target) if source.isdigit() else (target, source)
            assert read(words) == int(digits) and (target, source) in both


def test_what_is_asked_about_was_never_learnt(pairs):
    train, validation, test = (set(numbers_in(pairs[name])) for name in SPLITS)
    assert not (train & validation or train & test or validation & test)
    assert pairs.shared("validation") == pairs.shared("test") == 0
    assert 19_000 < len(train) < 21_000 and 900 < len(validation) < 1_100
    assert 1_900 < len(test) < 2_100


def test_every_word_and_digit_is_learnt_and_all_lengths_are_in_each_part(pairs):
    words = set(re.split("[ -]", " ".join(pairs["train"].source)))
    assert {*ONES, *TEENS, *TENS, "zero", "hundred", "thousand", *"0123456789"} - {""} <= words
    for name in SPLITS:
        lengths = Counter(len(str(number)) for number in numbers_in(pairs[name]))
        assert set(lengths) == {1, 2, 3, 4, 5, 6} - ({1} if name != "train" else set())
        assert lengths[4] == lengths[5] == lengths[6] > lengths[3] > lengths[2]
    below_100 = {number for name in SPLITS for number in numbers_in(pairs[name]) if number < 100}
    assert below_100 == set(range(100))


def test_they_are_the_same_on_every_machine(pairs):
    assert pairs.digest == read_pairs("numerals").digest
    assert pairs.digest == "e808c4599ef7341997aaf2b18ee7aac8ccf58846cdb8603fabd95ca389976ceb"
    assert pairs.exact and pairs.licence == "Apache-2.0"


@pytest.mark.parametrize("digits", [1, 2, 6])
def test_drawn_numbers_have_as_many_digits_as_asked(digits):
    some = list(islice(drawn(digits), 100))
    assert len(set(some)) == len(some) == (9, 90, 100)[min(digits, 3) - 1]
    assert {len(str(number)) for number in some} == {digits}
