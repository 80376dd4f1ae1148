"""Sentences, and the same words in another order that English allows: is this one that, inverted?

    invert("He left the city in 1920 .", Draw(0))       # "In 1920 he left the city ."
    inversion_pairs(sentences, seed=0)                  # half of them true

Sentences of our own grammar are inverted exactly (`regard.data.synthetic.grammar`). In others only
a time, a circumstance or a clause at one end is moved to the other, and only where closed lists of
words leave little doubt about what belongs to it; most sentences are left alone.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple, TypeVar

from regard.data.synthetic import grammar
from regard.data.synthetic.reviews import Draw

T = TypeVar("T")
FEWEST = 5  # words of a sentence: those of a shorter one have hardly an order that is wrong
TRIES = 200  # to find a shuffle, or another word, that will do
WORD = re.compile(r"""[^\s,.;:!?"“”()]+(?:[.,][^\s,.;:!?"“”()]+)*""")


class InversionPair(NamedTuple):
    """Two sentences, and whether the second is the first with its words in another good order."""

    first: str
    second: str
    inverted: bool
    kind: str  # "inverted", or else "shuffled", "other" or "changed"


def inversion_pairs(
    sentences: Sequence[str], seed: int, known: Collection[str] = frozenset()
) -> list[InversionPair]:
    """Each sentence that can be inverted twice: with its inversion, and with something else.

    What else is, as often each, a shuffle of its words; the inversion of another sentence about as
    long; and its own inversion with one word replaced by a word of the same kind. So all first
    sentences occur with both answers, and what is wrong with a second one is seen beside the first.

    Pairs contain none of the `known` sentences: give those of the pairs that were learnt from, as
    a changed one may by chance be what another split has.
    """
    draw = Draw(seed)
    found: dict[tuple[str, ...], tuple[str, str]] = {}
    for sentence in sentences:
        bag = tuple(sorted(WORD.findall(sentence.lower())))
        if len(bag) < FEWEST or bag in found:
            continue  # of sentences with the same words, one may be the inversion of another
        second = invert(sentence, draw)
        if second and sentence not in known and second not in known:
            found[bag] = (sentence, second)
    both = sorted(found.values(), key=lambda pair: (len(WORD.findall(pair[1])), pair))
    others = {pair[0]: after[1] for pair, after in pairwise([*both, *both[:1]])}
    ways: dict[str, Callable[[str, str, Draw], str | None]] = {
        "shuffled": shuffle,
        "other": lambda first, second, _: others[first] if others[first] != second else None,
        "changed": Kinds([second for _, second in both]).change,
    }

    pairs: list[InversionPair] = []
    times = Counter(dict.fromkeys(ways, 0))
    for first, second in shuffled(both, draw):
        for kind in sorted(ways, key=times.__getitem__):  # the rarest that will do
            wrong = ways[kind](first, second, draw)
            if wrong and wrong not in known:
                pairs.append(InversionPair(first, second, inverted=True, kind="inverted"))
                pairs.append(InversionPair(first, wrong, inverted=False, kind=kind))
                times[kind] += 1
                break
    return shuffled(pairs, draw)


def invert(sentence: str, draw: Draw) -> str | None:
    """The words of a sentence in another order that is as good, or None where none is safe."""
    found = inversions(sentence)
    return draw.one(found) if found else None


def inversions(sentence: str) -> list[str]:
    """Every other order that we know to be good."""
    return grammar.inversions(sentence) or moved(sentence)


# Seconds that are no inversions


def shuffle(first: str, second: str, draw: Draw) -> str | None:
    """The words of an inversion in no order: none follows one that it follows in either sentence.

    Signs stay where they are, and a capital begins the sentence.
    """
    words = WORD.findall(second)
    if words[0].lower() in WORD.findall(first):
        words[0] = words[0].lower()
    before = neighbours(first) | neighbours(second)
    for _ in range(TRIES):
        text = grammar.capitalised(rewritten(second, shuffled(words, draw)))
        if not before & neighbours(text):
            return text
    return None


def rewritten(text: str, words: Sequence[str]) -> str:
    """A text with these words in the places of its own."""
    left = iter(words)
    return WORD.sub(lambda _: next(left), text)


def neighbours(text: str) -> set[tuple[str, str]]:
    return {*pairwise(WORD.findall(text.lower()))}


class Kinds:
    """The words of some sentences by their rough kind, each as many times as it occurs.

    Drawn from these, words that replace others are as frequent as those that are replaced.
    """

    def __init__(self, sentences: Sequence[str]) -> None:
        self._words: defaultdict[str, list[str]] = defaultdict(list)
        for sentence in sentences:
            for word in WORD.findall(sentence)[1:]:
                self._words[kind_of(word)].append(word)

    def change(self, first: str, second: str, draw: Draw) -> str | None:
        """The second sentence with one word replaced, if there is a word to replace it."""
        places = [place for place in list(WORD.finditer(second))[1:] if kind_of(place[0])]
        for _ in range(TRIES if places else 0):
            place = draw.one(places)
            word = draw.one(self._words[kind_of(place[0])])
            if word not in WORD.findall(second):
                return second[: place.start()] + word + second[place.end() :]
        return None


@cache
def kind_of(word: str) -> str:
    """What a word has in common with others that could stand in its place, or nothing."""
    if word.isdecimal():
        return f"number of {len(word)} digits"
    if re.fullmatch(MONTHS, word):
        return "month"
    if word in grammar.kinds():
        return grammar.kinds()[word]
    if len(word) < 5 or not word.isalpha() or word in SMALL_WORDS:
        return ""
    # An ending tells a part of speech, more or less; "a" and "an" have to stay right.
    ending = word[-2:] if word[0].isupper() else word[-3:]
    return f"{'A' if word[0].isupper() else 'a'}{word[0].lower() in 'aeiou'}…{ending}"


def shuffled(items: Sequence[T], draw: Draw) -> list[T]:
    """The same in another order, each as likely (Fisher and Yates)."""
    mixed = list(items)
    for last in range(len(mixed) - 1, 0, -1):
        other = draw.one(range(last + 1))
        mixed[last], mixed[other] = mixed[other], mixed[last]
    return mixed


# Real sentences, by what they look like. Here signs stand apart from words, as in WikiText.


def moved(sentence: str) -> list[str]:
    """A sentence with its last phrase or clause first, or with its first one last, where safe."""
    body = sentence.removesuffix(".")
    if body == sentence or SIGNS.search(body):
        return []
    spaced = body.endswith(" ")
    body = body.rstrip() if spaced else body.replace(",", " ,")
    found = [text for text in (last_first(body), first_last(body)) if text]
    return [f"{text} ." if spaced else f"{text.replace(' ,', ',')}." for text in found]


def last_first(body: str) -> str | None:
    """What stands last, put first; a comma follows unless it is short."""
    found = LAST.fullmatch(body)
    if not found or not LOWERED.match(body):
        return None
    main, last = found["main"], found["clause"] or found["phrase"]
    if not apart(main, last):
        return None
    comma = " ," if found["clause"] or len(last.split()) > 2 else ""
    main = main if main.startswith("I ") else main[0].lower() + main[1:]
    return f"{grammar.capitalised(last)}{comma} {main}"


def first_last(body: str) -> str | None:
    """What stands first, put last; a comma precedes it if it concedes something."""
    found = FIRST.fullmatch(body[:1].lower() + body[1:])
    if not found:
        return None
    main, first = found["main"], found["head"] or found["time"]
    if not apart(main, first):
        return None
    comma = " ," if CONCEDES.match(first) else ""
    return f"{grammar.capitalised(main)}{comma} {first}"


def apart(main: str, moved: str) -> bool:
    """Whether `main` is a whole clause without others in it, to which all of `moved` belongs."""
    words = main.split()
    if (
        INNER.search(main)
        or OPEN_END.fullmatch(main)
        or (DATED.search(main) and DATED.search(moved))
    ):
        return False
    if words[0].isdecimal() or words[0].endswith("ing"):
        return False
    if main.count('"') % 2 or main.count("(") != main.count(")"):
        return False
    # In "it was a ship built in 1920" the time is the ship's; in "it was built" it is not.
    if PARTICIPLE.fullmatch(words[-1]):
        return len(words) < 4 or bool(HAS_VERB.search(" ".join(words[-3:-1])))
    return True


def one_of(words: str) -> str:
    """A pattern for any of these words; an underscore is a space in one of them."""
    return f"(?:{'|'.join(words.split())})".replace("_", " ")


def none_of(words: str) -> str:
    """A pattern for any other word."""
    return rf"(?!{one_of(words)}(?!\S))[^\s,]+"


CLAUSES = """that which who whom whose what whether how why where when while because although though
    if after before until unless once since than so but"""
PREPOSITIONS = """as to for by with from in on at of into during between against under over through
    about among within without upon via including despite following"""
VERBS = """is was are were be been being has had have did does do will would could can may might
    should must not"""
JOINTS = (
    f"{CLAUSES} {PREPOSITIONS} {VERBS} and or nor then otherwise"  # where something else begins
)
DETERMINERS = "the a an his her its their my our this these those both no many most some several"
SUBJECTS = f"{DETERMINERS} he she it they we I you there one"
WHEN = "when while because although though even_though after before until unless once if"

MONTHS = one_of(
    "January February March April May June July August September October November December"
)
YEAR = r"(?:1\d|20)\d\d"
SEASON = f"(?:the )?{one_of('spring summer autumn fall winter')}(?: of)?"
DAY = rf"(?:\d\d? {MONTHS}(?: {YEAR})?|{MONTHS} \d\d?(?: , {YEAR})?|[SMTWF][a-z]+day)"
PART = "(?:early |late |mid @-@ |mid-)?"
PERIOD = (
    rf"(?:{PART}{MONTHS}(?: {YEAR})?|{PART}(?:{SEASON} )?{YEAR}"
    rf"|the {PART}{YEAR}s|the {PART}\d\d?(?:st|nd|rd|th) century)"
)
SOME = rf"(?:{one_of('a an one two three four five six seven eight nine ten several many')}|\d\d?)"
SPAN = "(?:day|week|month|year|decade|season|hour|minute)s?"
NOUN = rf"{one_of(DETERMINERS)}(?: {none_of(JOINTS)}){{1,4}}(?: of(?: {none_of(JOINTS)}){{1,4}})?"
TIMES = (
    rf"(?:early |late |later )?in {PERIOD}",
    rf"on (?:the (?:morning|afternoon|evening|night) of )?{DAY}",
    rf"(?:by|since|until|before|after|around) (?:the end of )?(?:{DAY}|{PERIOD})",
    rf"between {PERIOD} and {PERIOD}",
    rf"from {PERIOD} (?:to|until) {PERIOD}",
    rf"(?:in )?the (?:same|following|next|previous) {SPAN}",
    rf"{SOME} {SPAN} later|(?:later )?that {SPAN}",
    r"at the age of \w+|at (?:this|that|the same) time",
)
CIRCUMSTANCES = (
    rf"for (?:the (?:next|first|last) )?{SOME} {SPAN}",
    rf"(?:{SOME} {SPAN} |shortly |soon |immediately )?(?:before|after|following) {NOUN}",
    rf"(?:during|throughout|despite|because of|prior to|in spite of) {NOUN}",
    rf"at the (?:time|end|beginning|start|height) of {NOUN}",
)
TIME, PHRASE = "|".join(TIMES), "|".join((*TIMES, *CIRCUMSTANCES))
CLAUSE = (
    rf"(?:{one_of(WHEN)} {one_of(SUBJECTS)}|(?:after|before|while|when|without) [a-z]+ing)"
    rf"(?: {none_of(f'{CLAUSES} and or')}){{2,12}}"
)
LAST = re.compile(
    rf"(?P<main>\S+(?: \S+){{2,}}?)(?: ,)? (?:(?P<clause>{CLAUSE})|(?P<phrase>{PHRASE}))"
)

# Where a comma says how far it goes, what stands first may be almost anything: but no remark on
# what was said before, nor a time that is followed by the rest of the sentence.
HEADS = """in on at during by throughout despite following upon within between from prior due under
    since after before until because_of early late shortly soon immediately"""
REMARKS = """in_fact in_addition in_contrast in_turn in_general in_particular in_short in_all
    in_response in_reality in_theory in_other_words on_average on_the_other_hand by_contrast by_then
    at_first at_last at_least from_there once_again"""
LONGER = rf"(?:{TIME}) (?!{one_of(PREPOSITIONS + ' and ,')}(?!\S)|\d)"
HEAD = (
    rf"(?!{one_of(REMARKS)} ,|{LONGER})(?:{one_of(WHEN)}(?: [^\s,\"()]+){{2,9}}"
    rf"|{one_of(HEADS)}(?: (?![\"()]){none_of(VERBS)}){{1,9}})"
)
FIRST = re.compile(
    rf"(?:(?P<head>{HEAD}) ,|(?P<time>{TIME})(?= {one_of(SUBJECTS)} )) "
    rf"(?P<main>{none_of(JOINTS)}(?: \S+){{2,30}})"
)

CONCEDES = re.compile(one_of("although though even_though while despite"))
LOWERED = re.compile(  # which have a capital only where they begin a sentence
    one_of(f"{SUBJECTS} two three four five six each every another other such few all") + " ",
    re.IGNORECASE,
)
SIGNS = re.compile(r"[“”\[\]:;?!—=/]|--|\.(?=\s)")  # of sentences that we leave alone
INNER = re.compile(rf" (?:{one_of(CLAUSES)}|,)(?!\S)", re.IGNORECASE)
DATED = re.compile(rf"\b{YEAR}\b|{MONTHS}")
OPEN = f"""{JOINTS} {DETERMINERS} next first last past previous same only even just especially
    particularly mainly mostly never either neither more less least long shortly soon early late
    later back immediately very too approximately around nearly roughly almost ever time times day
    days year years month months week weeks moment period point case lasts lasted determine
    determines know knows see sees ask asks asked tell tells told check checks decide decides"""
OPEN_END = re.compile(
    rf"(?:.* )?{one_of(OPEN)}", re.IGNORECASE
)  # after which something has to come
PARTICIPLE = re.compile("[a-z]+(?:ed|ing)|built|made|held|won|set|seen|known|written|found")
HAS_VERB = re.compile(rf"\b{one_of(VERBS + ' he she it they')}\b")
SMALL_WORDS = frozenset(f"{SUBJECTS} {OPEN} {WHEN}".split())
