"""Does the second sentence follow from the first? Pairs with answers that are computed.

    pairs = inference_pairs(1_000, seed=0)
    pairs[0].first              # "The cook stole the mirror before returning it."
    pairs[0].second             # "The cook does not have the mirror."
    pairs[0].follows            # True

A sentence means a set of worlds, those in which it is true, and the second follows from the first
if it is true in every world in which the first is. Each rule lists its worlds (who has what, who is
taller than whom, how many there are) and says of each template when it is true there; no answer is
written down, and none is read off the words. To each pair that is true there is one that is false
and has, as nearly as can be, the same words in the same sentences.

Three readings are settled here. A story is told to its end: who bought a thing and did no more has
it. A bare number is a least number: three are two as well. And of whatever is spoken of there is
some: if every dog slept, some dog did.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple, TypeVar

from regard.data.synthetic.inference_rules import RULES
from regard.data.synthetic.inference_worlds import Pair

T = TypeVar("T")
HELD = 5  # one of so many combinations of words is held back
TRIES = 1_000  # in a row that bring nothing new, before a rule counts as used up


class InferencePair(NamedTuple):
    """Two sentences, whether the second follows from the first, and what decides it."""

    first: str
    second: str
    follows: bool
    rule: str


def inference_pairs(
    count: int, seed: int, *, held: bool = False, half: int | None = None
) -> list[InferencePair]:
    """Different pairs, rule by rule in turn, true and false in turn, the same on every machine.

    Pairs that are `held` have no sentence in common with those that are not. Each sentence of a
    rule has one entry of the rule's first list of words and one of its second. If their places in
    these lists add up to a multiple of 5, it is held, and else it is not; rules that can say the
    same have the same two lists. So every word is known from training, and each fifth combination
    is new. Of what is held, a `half` is that of the even multiples, 0, or of the odd ones, 1: two
    that have no sentence in common either.
    """
    if count < 0:
        raise ValueError(f"there cannot be {count} pairs")
    if half not in (None, 0, 1) or (half is not None and not held):
        raise ValueError(f"half={half} and held={held}: what is held has the halves 0 and 1")
    number = random.Random(seed).random  # which Python promises never to change
    names = list(RULES)
    seen: set[tuple[str, str]] = set()
    pairs = []
    for turn in range(count):
        round_, at = divmod(turn, len(names))
        name, wanted = names[at], (round_ + at) % 2 == 0
        for _ in range(TRIES):
            pair = draw(name, wanted, number, held, half)
            if pair[:2] not in seen:
                break
        else:
            raise ValueError(f"rule {name} has no more pairs after {len(seen):,} of {count:,}")
        seen.add(pair[:2])
        pairs.append(pair)
    return pairs


def draw(
    name: str, wanted: bool, number: Callable[[], float], held: bool, half: int | None = None
) -> InferencePair:
    """A pair of a rule with the answer that is wanted."""

    def one(of: Sequence[T]) -> T:
        return of[int(number() * len(of))]

    rule = RULES[name]
    places = [one(range(len(some))) for some in rule.words]
    while not belongs(places[0] + places[1], held, half):
        places[:2] = (one(range(len(some))) for some in rule.words[:2])
    words = [some[place] for some, place in zip(rule.words, places, strict=True)]
    true, twins = one(twins_of(name))
    first, second = true if wanted else one(twins)
    return InferencePair(sentence(first, words), sentence(second, words), wanted, name)


def belongs(total: int, held: bool, half: int | None) -> bool:
    """Whether words whose places add up to this are among those asked for."""
    multiple, rest = divmod(total, HELD)
    return (rest == 0) == held and half in (None, multiple % 2)


def sentence(template: str, words: Sequence[str | tuple[str, ...]]) -> str:
    """A template with its words, from a capital to a full stop."""
    text = template.format(*words)
    return f"{text[0].upper()}{text[1:]}."


@cache
def twins_of(name: str) -> list[tuple[Pair, list[Pair]]]:
    """Each true pair of templates, with the false ones that come nearest to it in words.

    Each is there twice: with the nearest of all, and with the nearest that have the same second
    sentence. The former hide the answer from who compares the words of both sentences, the latter
    from who reads the second one only.
    """
    _, firsts, seconds = RULES[name]
    answers = {
        (first, second): firsts[first] <= worlds
        for first, (second, worlds) in product(firsts, (seconds or firsts).items())
        if first != second
    }
    false = [pair for pair, follows in answers.items() if not follows]
    twins = []
    for pair, follows in answers.items():
        same = [other for other in false if other[1] == pair[1]]
        twins += [(pair, nearest(pair, some)) for some in (false, same) if follows and some]
    return twins


def nearest(pair: Pair, others: Iterable[Pair]) -> list[Pair]:
    """The pairs that agree best in which words only one sentence has, and then in words at all."""
    others = least(others, lambda other: len(bag(*pair) ^ bag(*other)))
    return least(
        others,
        lambda other: len(bag(pair[0]) ^ bag(other[0])) + len(bag(pair[1]) ^ bag(other[1])),
    )


def least(some: Iterable[T], size: Callable[[T], int]) -> list[T]:
    """All that are smallest."""
    sizes = [(size(one), one) for one in some]
    smallest = min(number for number, _ in sizes)
    return [one for number, one in sizes if number == smallest]


@cache
def bag(first: str, second: str = "") -> frozenset[str]:
    """The words of a template, or those that only one of two has."""
    return frozenset(first.replace(",", "").split()) ^ frozenset(second.replace(",", "").split())
