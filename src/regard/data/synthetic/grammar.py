"""Sentences from a small grammar, each with the other orders in which English allows its words.

    sentences(8_000, seed=0)        # "The donkey crept proudly towards the small market.", …
    inversions("Anna has never sold the boat.")     # ["Never has Anna sold the boat."]

A sentence is an order of phrases, and so are its inversions: nothing is guessed. Which phrases a
sentence has is read from it by a pattern that is made of the same rules as the sentence itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from string import Formatter
from typing import NamedTuple

from regard.data.synthetic.reviews import Draw


class Frame(NamedTuple):
    """An order of phrases, and the same phrases in others."""

    plain: str
    inverted: tuple[str, ...]


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


# Phrases, by words and phrases. No word is in two lists, so that any other of its list may stand
# in its place; none that may follow "a" begins with a vowel, and no verb tells one from many.

RULES: dict[str, tuple[str, ...]] = {
    "who": ("the {person}", "the {trait} {person}", "{name}", "the {creature}"),
    "person": _listed(
        """boy girl sailor farmer teacher doctor painter soldier merchant baker singer gardener
        hunter fisherman judge king queen poet thief traveller nurse pilot student carpenter"""
    ),
    "name": ("Anna", "Peter", "Maria", "Thomas", "Laura", "Martin", "Julia", "David", "Clara"),
    "trait": _listed("young tall proud lonely cheerful tired clever poor brave quiet hungry"),
    "creature": _listed("fox dog horse cat wolf bear swan goat deer donkey rabbit lion"),
    "went": _listed(
        """walked ran came marched wandered crept rode hurried limped strolled stumbled jumped
        raced climbed"""
    ),
    "how": _listed(
        """slowly quickly silently proudly happily sadly bravely carefully calmly nervously
        boldly wearily"""
    ),
    "where": ("{toward} the {spot}", "{toward} the {look} {spot}"),
    "toward": ("through", "past", "towards", "down to", "back to", "away from", "out of"),
    "place": ("{at} the {spot}", "{at} the {look} {spot}"),
    "at": ("near", "behind", "beside", "in front of", "opposite", "close to", "not far from"),
    "spot": _listed(
        """garden forest river village tower castle market harbour bridge church library station
        meadow mill square school theatre valley barn palace"""
    ),
    "look": _listed("narrow wide dark green famous peaceful ruined busy small new white"),
    "thing": ("the {item}", "the {make} {item}"),
    "a_thing": ("a {item}", "a {make} {item}"),
    "item": _listed(
        """box key letter lamp table picture clock chest coin map sword ring book crown cup drum
        bottle mirror ladder wheel basket boat carpet violin"""
    ),
    "make": _listed("wooden golden broken heavy large precious strange painted round secret"),
    "lay": ("lay", "stood", "rested", "remained"),
    "put": _listed("hidden buried found displayed kept forgotten discovered placed"),
    "has": ("has", "had"),
    "seldom": ("never", "seldom", "rarely", "never before", "nowhere"),
    "sold": _listed("sold seen touched missed polished wanted carried repaired admired"),
    "can": ("could", "would", "might", "should"),
    "sell": _listed("sell see find touch move paint carry hide repair buy take"),
    "in_no_way": ("under no circumstances", "in no way", "at no time", "on no account"),
    "only": ("only {place}", "only {time}", "only with {company}"),
    "company": ("a {tool}", "the help of {who}", "great effort"),
    "tool": _listed("lantern rope knife hammer spade needle torch stick"),
    "until": ("until {hour}", "until {event}"),
    "hour": ("{clock}", "{weekday}", "{month}"),
    "month": _listed("January February March April June July September October"),
    "event": ("{who} {came_back}", "the {noise} {stopped}", "the {spot} {was_dark}"),
    "came_back": ("returned", "fell asleep", "began to sing", "smiled", "arrived", "wept"),
    "noise": _listed("rain storm music bell wind snow thunder concert war"),
    "stopped": ("stopped", "began", "was over"),
    "was_dark": ("was closed", "was dark", "was full", "was silent"),
    "bought": _listed("bought lost stole mended noticed dropped opened described drew cleaned"),
    "time": (
        "on {weekday}",
        "in {month}",
        "at {clock}",
        "after the {noise}",
        "before the {noise}",
    ),
    "weekday": _listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "clock": ("noon", "midnight", "dawn", "sunset", "nightfall"),
    "when": ("{as} {event}",),
    "as": ("when", "while", "because", "although", "once", "since", "as soon as", "even though"),
    "high": _listed("bright beautiful terrible magnificent dangerous lovely peculiar wonderful"),
    "subject": ("the {spot}", "the {item}", "the {person}", "the {creature}", "the {noise}"),
    "result": ("{who} {came_back}", "{who} {bought} {thing}", "nobody {bought} {thing}"),
    "mood": _listed("joy sorrow fear pride shame relief fury despair gratitude"),
    "remark": ("{said_who} has {sold} {thing}", "{thing} is {place}", "nobody {bought} {thing}"),
    "said_who": ("my {relative}", "your {relative}", "somebody", "{name}"),
    "relative": _listed("mother father sister brother friend neighbour daughter son"),
    "said": _listed("said shouted whispered replied thought complained remarked muttered"),
}

FRAMES = {
    "manner": Frame(
        "{who} {went} {how} {where}.",
        ("{how} {went} {who} {where}.", "{how} {where} {went} {who}."),
    ),
    "direction": Frame("{who} {went} {where}.", ("{where} {went} {who}.",)),
    "place": Frame("{a_thing} {lay} {place}.", ("{place} {lay} {a_thing}.",)),
    "participle": Frame("{a_thing} was {put} {place}.", ("{put} {place} was {a_thing}.",)),
    "negative": Frame(
        "{who} {has} {seldom} {sold} {thing}.", ("{seldom} {has} {who} {sold} {thing}.",)
    ),
    "no way": Frame(
        "{who} {can} {in_no_way} {sell} {thing}.", ("{in_no_way} {can} {who} {sell} {thing}.",)
    ),
    "not until": Frame(
        "{who} did not {sell} {thing} {until}.", ("not {until} did {who} {sell} {thing}.",)
    ),
    "only": Frame("{who} {can} {sell} {thing} {only}.", ("{only} {can} {who} {sell} {thing}.",)),
    "so": Frame(
        "{subject} was so {high} that {result}.", ("so {high} was {subject} that {result}.",)
    ),
    "such": Frame(
        "the {mood} of {who} was such that {result}.",
        ("such was the {mood} of {who} that {result}.",),
    ),
    "speech": Frame('"{remark}," {who} {said}.', ('"{remark}," {said} {who}.',)),
    "time": Frame("{who} {bought} {thing} {time}.", ("{time} {who} {bought} {thing}.",)),
    "clause": Frame("{who} {bought} {thing} {when}.", ("{when}, {who} {bought} {thing}.",)),
}


def sentences(count: int, seed: int) -> list[str]:
    """Different sentences, of each frame as many; the first are the same whatever their number."""
    return list(islice(_different(Draw(seed)), count))


def inversions(sentence: str) -> list[str]:
    """The other orders of a sentence of this grammar; of any other sentence, none."""
    found = []
    for frame in FRAMES.values():
        if parts := _pattern(frame.plain).fullmatch(sentence):
            phrases = {name: _lowered(phrase) for name, phrase in parts.groupdict().items()}
            found += [capitalised(order.format(**phrases)) for order in frame.inverted]
    return found


@cache
def kinds() -> dict[str, str]:
    """Each word that a list has beside others, and the name of the first list that has it."""
    found: dict[str, str] = {}
    for name, choices in RULES.items():
        for word in choices:
            if word.isalpha():
                found.setdefault(word, name)
    return found


def capitalised(sentence: str) -> str:
    """With a capital, which may stand after a quotation mark."""
    at = 1 if sentence.startswith('"') else 0
    return sentence[:at] + sentence[at : at + 1].upper() + sentence[at + 1 :]


def _different(draw: Draw) -> Iterator[str]:
    seen: set[str] = set()
    while True:
        for frame in FRAMES.values():
            text = capitalised(_grown(frame.plain, draw))
            while text in seen:
                text = capitalised(_grown(frame.plain, draw))
            seen.add(text)
            yield text


def _grown(phrase: str, draw: Draw) -> str:
    """A phrase whose places are filled, and those in what fills them."""
    parts = Formatter().parse(phrase)
    return "".join(
        words + (_grown(draw.one(RULES[place]), draw) if place else "")
        for words, place, *_ in parts
    )


@cache
def _pattern(order: str) -> re.Pattern[str]:
    """What a sentence of this order looks like, with a group for each of its phrases."""
    return re.compile(
        "".join(
            re.escape(words) + (f"(?P<{place}>{_choices(place)})" if place else "")
            for words, place, *_ in Formatter().parse(order)
        ),
        re.IGNORECASE,
    )


@cache
def _choices(place: str) -> str:
    """Whatever a rule may say, as a regular expression."""
    ways = (
        "".join(re.escape(words) + (_choices(inner) if inner else "") for words, inner, *_ in parts)
        for parts in map(Formatter().parse, RULES[place])
    )
    return f"(?:{'|'.join(ways)})"


def _lowered(phrase: str) -> str:
    """A phrase as it stands inside a sentence: a name keeps its capital."""
    first = phrase.split()[0]
    return phrase if first in kinds() else phrase[0].lower() + phrase[1:]
