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
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cache
from itertools import combinations, permutations, product
from operator import eq, ge, gt, le, lt
from types import MappingProxyType
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Worlds = frozenset[Hashable]
Forms = Mapping[str, Worlds]  # templates, and the worlds in which each is true
Pair = tuple[str, str]  # templates of a first sentence and a second, or two forms of a verb
Words = Sequence[str | tuple[str, ...]]  # what may fill a place; forms of a word go together
HELD = 5  # one of so many combinations of words is held back
TRIES = 1_000  # in a row that bring nothing new, before a rule counts as used up


class InferencePair(NamedTuple):
    """Two sentences, whether the second follows from the first, and what decides it."""

    first: str
    second: str
    follows: bool
    rule: str


class Rule(NamedTuple):
    """Words for places {0}, {1} and so on, and templates that may stand first and second."""

    words: tuple[Words, ...]
    firsts: Forms
    seconds: Forms = MappingProxyType({})  # none: the same may stand second


def inference_pairs(count: int, seed: int, *, held: bool = False) -> list[InferencePair]:
    """Different pairs, rule by rule in turn, true and false in turn, the same on every machine.

    Pairs that are `held` have no sentence in common with those that are not. Each sentence of a
    rule has one entry of the rule's first list of words and one of its second. If their places in
    these lists add up to a multiple of 5, it is held, and else it is not; rules that can say the
    same have the same two lists. So every word is known from training, and each fifth combination
    is new.
    """
    if count < 0:
        raise ValueError(f"there cannot be {count} pairs")
    number = random.Random(seed).random  # which Python promises never to change
    names = list(RULES)
    seen: set[tuple[str, str]] = set()
    pairs = []
    for turn in range(count):
        round_, at = divmod(turn, len(names))
        name, wanted = names[at], (round_ + at) % 2 == 0
        for _ in range(TRIES):
            pair = draw(name, wanted, number, held)
            if pair[:2] not in seen:
                break
        else:
            raise ValueError(f"rule {name} has no more pairs after {len(seen):,} of {count:,}")
        seen.add(pair[:2])
        pairs.append(pair)
    return pairs


def draw(name: str, wanted: bool, number: Callable[[], float], held: bool) -> InferencePair:
    """A pair of a rule with the answer that is wanted."""

    def one(of: Sequence[T]) -> T:
        return of[int(number() * len(of))]

    rule = RULES[name]
    places = [one(range(len(some))) for some in rule.words]
    while ((places[0] + places[1]) % HELD == 0) != held:
        places[:2] = (one(range(len(some))) for some in rule.words[:2])
    words = [some[place] for some, place in zip(rule.words, places, strict=True)]
    true, twins = one(twins_of(name))
    first, second = true if wanted else one(twins)
    return InferencePair(sentence(first, words), sentence(second, words), wanted, name)


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


# What templates mean. Each function lists some worlds, and for each template those it is true in.

Claims = Mapping[str, bool]  # templates, and the state in which each is true
EITHER_WAY = frozenset(product((True, False), repeat=2))  # both, one, the other, neither
ONE_WAY = EITHER_WAY - {(True, True)}
QUANTITIES: Mapping[str, Callable[[Iterable[bool]], bool]] = {
    "every": all,
    "some": any,
    "no": lambda those: not any(those),
    "not every": lambda those: not all(those),
}
SHARES: Mapping[str, Callable[[int, int], bool]] = {
    "all": lambda some, whole: some == whole,
    "not all": lambda some, whole: some < whole,
    "most": lambda some, whole: 2 * some > whole,
    "at most half": lambda some, whole: 2 * some <= whole,
    "some": lambda some, whole: some > 0,
    "none": lambda some, whole: some == 0,
}
BOUNDS: Mapping[str, Callable[[int, int], bool]] = {
    "": ge,
    "at least ": ge,
    "more than ": gt,
    "exactly ": eq,
    "at most ": le,
    "fewer than ": lt,
}
FRAMES = {
    "": True,
    "it is true that ": True,
    "it is not true that ": False,
    "it is false that ": False,
}


def changes(
    who: str, what: str, does: Pair, undoes: Pair, now: Claims, before: Claims
) -> tuple[Forms, Forms]:
    """Something is done, undone, or both. A world is the states it went through, in turn.

    Verbs are given as did and doing; claims, with the state in which they are true.
    """
    worlds = [(state, not state, state)[:length] for state in (True, False) for length in (1, 2, 3)]
    firsts: dict[str, Worlds] = {}
    for done, one, other in ((True, does, undoes), (False, undoes, does)):
        (did, doing), (undid, undoing) = one, other
        once, twice = frozenset({(not done, done)}), frozenset({(not done, done, not done)})
        firsts |= {
            f"{who} {did} {what}": once,
            f"{who} {did} {what} and then {undid} it": twice,
            f"{who} {did} {what} before {undoing} it": twice,
            f"{who} {undid} {what} after {doing} it": twice,
        }
    seconds = {
        text: frozenset(world for world in worlds if world[at] == done)
        for at, claims in ((-1, now), (0, before))
        for text, done in claims.items()
    }
    return firsts, seconds


def kinds(narrow: str, wide: str) -> Forms:
    """Every, some or no one of a narrow or a wide kind did something, or did it in some way.

    A world is who there is of the narrow kind, and who else of the wide one: somebody who did not
    do it (0), who did it (1), or who did it that way (2), or several of these.
    """
    somebody = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    return {
        f"{quantity} {noun} {verb}": frozenset(
            world
            for world in product(somebody, somebody)
            if test(did >= least for kind in world[:width] for did in kind)
        )
        for quantity, test in QUANTITIES.items()
        for noun, width in ((narrow, 1), (wide, 2))
        for verb, least in (("{1}", 1), ("{1} {2}", 2))
    }


def shares() -> Forms:
    """All, most, some or none did something, or did it in some way. A world is how many did."""
    worlds = [counts for counts in product(range(6), repeat=3) if 3 <= sum(counts) <= 5]
    return {
        f"{share} of the {{0}} {verb}": frozenset(
            world for world in worlds if test(sum(world[least:]), sum(world))
        )
        for share, test in SHARES.items()
        for verb, least in (("{1}", 1), ("{1} {2}", 2))
    }


def objects() -> Forms:
    """Somebody has something of a kind or lacks it. A world is which things of the kind there are.

    A thing is of the narrow kind or another of the wide one, and has the property {3} or has not.
    """
    things = list(product((True, False), repeat=2))
    worlds = [
        frozenset(thing for thing, there in zip(things, some, strict=True) if there)
        for some in product((True, False), repeat=4)
    ]
    return {
        f"{{2}} {{1[{lacks}]}} a {noun}": frozenset(
            world
            for world in worlds
            if any((a or not narrow) and (b or not plain) for a, b in world) != bool(lacks)
        )
        for lacks in (0, 1)
        for noun, narrow, plain in (
            *(("{0[0]}", True, False), ("{0[1]}", False, False)),
            *(("{3} {0[0]}", True, True), ("{3} {0[1]}", False, True)),
        )
    }


def connectives() -> Forms:
    """Somebody did all of some things, or one of them, or not. A world is which of three."""
    worlds = list(product((True, False), repeat=3))
    return {
        f"{frame}the {{0}} {series([f'{{{n + 2}}}' for n in some], joint)} {{1}}": frozenset(
            world for world in worlds if test(world[n] for n in some) == agrees
        )
        for frame, agrees in (("", True), ("it is not true that ", False))
        for joint, test in (("and", all), ("or", any))
        for size in (1, 2, 3)
        for some in combinations(range(3), size)
    }


def series(words: Sequence[str], joint: str) -> str:
    """One, two or more words in a row: "a", "a or b", "a, b or c"."""
    *others, last = words
    return f"{', '.join(others)} {joint} {last}" if others else last


def relations(worlds: Collection[tuple[bool, ...]], *ways: tuple[str, int, bool]) -> Forms:
    """One did something to another, or the other to the one. A world is which of these is so.

    `ways` are templates for {x} and {y}, which of them did it (0 or 1), and whether one did.
    """
    return {
        way.format(x=f"the {{{x}}}", y=f"the {{{1 - x}}}"): frozenset(
            world for world in worlds if world[x ^ doer] == did
        )
        for x in (0, 1)
        for way, doer, did in ways
    }


def chains() -> tuple[Forms, Forms]:
    """Three in an order, of which two neighbours at a time are told. A world is the order."""
    worlds = list(permutations(range(3)))
    firsts: dict[str, Worlds] = {}
    seconds: dict[str, Worlds] = {}

    def says(a: int, b: int, way: int) -> str:
        one, other = (a, b) if way == 0 else (b, a)
        return f"{{0[{one}]}} {{1[{way}]}} {{0[{other}]}}"

    for a, b, c in worlds:
        for one, two in product((0, 1), repeat=2):
            firsts[f"{says(a, b, one)}, and {says(b, c, two)}"] = frozenset({(a, b, c)})
            firsts[f"{says(b, c, two)}, and {says(a, b, one)}"] = frozenset({(a, b, c)})
    for a, b in permutations(range(3), 2):
        for way in (0, 1):
            seconds[says(a, b, way)] = frozenset(w for w in worlds if w.index(a) < w.index(b))
    return firsts, seconds


def mutual() -> tuple[Forms, Forms]:
    """Whose friend one is, is one's friend as well. A world is which of two are friends of {0}."""
    firsts: dict[str, Worlds] = {}
    seconds: dict[str, Worlds] = {}
    for n, (y, z) in enumerate(permutations(("{2}", "{3}"))):
        friends = frozenset(world for world in EITHER_WAY if world[n])
        alone = frozenset(world for world in friends if not world[1 - n])
        firsts[f"{{0}} is {{1[0]}} {{1[1]}} {y} but not {{1[1]}} {z}"] = alone
        firsts[f"{y} is {{1[0]}} {{1[1]}} {{0}}, but {z} is not"] = alone
        for one, other in permutations(("{0}", y)):
            seconds[f"{one} is {{1[0]}} {{1[1]}} {other}"] = friends
            seconds[f"{one} is not {{1[0]}} {{1[1]}} {other}"] = EITHER_WAY - friends
    return firsts, seconds


def numbers() -> Forms:
    """At least, at most or just so many, of a property or of any. A world is how many of both."""
    worlds = list(product(range(7), repeat=2))
    return {
        f"{{0}} {{3}} {bound}{{4[{n}]}} {noun}": frozenset(
            world for world in worlds if test(sum(world[:kinds]), n + 2)
        )
        for bound, test in BOUNDS.items()
        for n in range(3)
        for noun, kinds in (("{2} {1}", 1), ("{1}", 2))
    }


def denials() -> tuple[Forms, Forms]:
    """Somebody did something, or wanted to, or it is not true. A world is which of both."""
    did, wanted = (frozenset(world for world in EITHER_WAY if world[n]) for n in (0, 1))
    did_not, wanted_not = EITHER_WAY - did, EITHER_WAY - wanted
    plain = {"{1[0]}": did, "did not {1[1]}": did_not}
    told = plain | {
        "managed to {1[1]}": did,
        "did not manage to {1[1]}": did_not,
        "failed to {1[1]}": did_not,
        "did not fail to {1[1]}": did,
        "remembered to {1[1]}": did,
        "did not remember to {1[1]}": did_not,
        "forgot to {1[1]}": did_not,
        "did not forget to {1[1]}": did,
        "wanted to {1[1]}": wanted,
        "did not want to {1[1]}": wanted_not,
    }
    firsts, seconds = (
        {
            f"{outer}the {{0}} {inner}": true if agrees else EITHER_WAY - true
            for outer, agrees in FRAMES.items()
            for inner, true in claims.items()
        }
        for claims in (told, plain)
    )
    return firsts, seconds


# Words. A rule's first two lists decide what is held back.


def listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(", "))


def forms(text: str) -> tuple[tuple[str, ...], ...]:
    """Words with a stroke between the forms of each."""
    return tuple(tuple(word.split("/")) for word in text.split(", "))


PEOPLE = listed(
    "girl, pilot, baker, farmer, sailor, tailor, painter, gardener, singer, butcher, cook, student"
)
OTHERS = listed(
    "boy, doctor, dentist, lawyer, plumber, driver, waiter, banker, potter, soldier, porter, nurse"
)
TRIOS = forms(
    "Ann/Bob/Clara, David/Emma/Frank, Grace/Henry/Irene, James/Kate/Leo, Maria/Noah/Olga, "
    "Peter/Rosa/Simon, Tina/Victor/Wendy, Alice/Bruno/Cora, Diana/Edgar/Fiona, George/Hanna/Ivan, "
    "Julia/Karl/Linda, Mark/Nina/Oscar"
)
NAMES, MORE_NAMES, YET_MORE = (tuple(names) for names in zip(*TRIOS, strict=True))
THINGS = listed(
    "laptop, camera, bicycle, guitar, watch, coat, umbrella, suitcase, lamp, mirror, ring, map"
)
TRADES = forms(
    "bought/buying/sold/selling, found/finding/lost/losing, stole/stealing/returned/returning, "
    "borrowed/borrowing/returned/returning, received/receiving/donated/donating"
)
ROOMS = listed(
    "library, kitchen, museum, theatre, garage, cellar, church, station, shop, castle, tunnel, barn"
)
VISITS = forms(
    "entered/entering/left/leaving, went into/going into/went out of/going out of, "
    "walked into/walking into/walked out of/walking out of"
)
SITES = listed("kitchen, bedroom, office, cellar, school, hotel, factory, church")
STATES = tuple(
    (thing, *verbs)
    for verbs, things in {
        ("opened", "opening", "closed", "closing", "open", "closed"): "window, door, drawer",
        ("locked", "locking", "unlocked", "unlocking", "locked", "unlocked"): "gate, safe, shed",
        ("filled", "filling", "emptied", "emptying", "full", "empty"): "bucket, bathtub, bin",
        ("repaired", "repairing", "broke", "breaking", "intact", "broken"): "clock, heater, bell",
    }.items()
    for thing in listed(things)
)
BEINGS = forms(
    "poodle/dog, kitten/cat, pony/horse, violinist/musician, surgeon/doctor, novelist/writer, "
    "toddler/child, piglet/pig, duckling/duck, calf/cow"
)
CROWDS = listed(
    "dogs, cats, horses, musicians, doctors, writers, children, pigs, ducks, cows, tourists, pupils"
)
ACTS = listed("slept, ate, waited, rested, drank, played, hid, swam, danced, sat, wept, ran")
MANNERS = listed(
    "in the morning, on Monday, after the storm, before noon, in silence, for an hour, in the sun, "
    "near the river"
)
TRAITS = listed("young, small, big, tired, hungry, nervous, clever, quiet")
GOODS = forms(
    "rose/flower, novel/book, sedan/car, poodle/dog, kitten/cat, hammer/tool, beret/hat, "
    "sandal/shoe, dagger/knife, goblet/cup, sparrow/bird, rug/carpet"
)
DEALS = forms(
    "bought/did not buy, left with/left without, found/did not find, came with/came without, "
    "saw/never saw, owns/does not own, travelled with/travelled without, sold/did not sell, "
    "drew/never drew, appeared with/appeared without"
)
LOOKS = listed("new, red, small, white, big, cheap, beautiful, black")
DOINGS = listed("sang, read, ate, slept")
OTHER_DOINGS = listed("danced, drew, wept, prayed")
YET_OTHERS = listed("wrote, rested, sewed, shouted")
SPOTS = listed(
    "in the park, at the station, in the library, on the beach, on the train, in the garden, "
    "at the market, on the bridge"
)
DEEDS = forms(
    "praised/praise, helped/help, called/call, visited/visit, followed/follow, invited/invite, "
    "thanked/thank, blamed/blame, warned/warn, hired/hire, pushed/push, admired/admire"
)
DEALINGS = forms(
    "taught/teach/learnt from/learn from, lent money to/lend money to/borrowed money from/borrow "
    "money from, sold books to/sell books to/bought books from/buy books from, "
    "sent letters to/send letters to/got letters from/get letters from, "
    "gave advice to/give advice to/took advice from/take advice from, "
    "employed/employ/worked for/work for, chased/chase/fled from/flee from"
)
DEGREES = forms(
    "older/younger, taller/shorter, heavier/lighter, richer/poorer, faster/slower, "
    "stronger/weaker, louder/quieter, happier/sadder"
)
ORDERS = forms(
    "is older than/is younger than, is taller than/is shorter than, arrived before/arrived after, "
    "ran faster than/ran slower than, lives north of/lives south of, sat in front of/sat behind, "
    "is stronger than/is weaker than, left earlier than/left later than"
)
TIES = forms(
    "a cousin/of, a neighbour/of, a friend/of, a rival/of, an enemy/of, an ally/of, a partner/of, "
    "acquainted/with"
)
FRUITS = listed(
    "apples, pears, books, boxes, chairs, cups, flowers, hats, bottles, birds, horses, stamps"
)
TAKINGS = listed("bought, sold, found, saw, counted, drew, lost, owned")
COUNTS = forms(
    "two/three/four, three/four/five, four/five/six, five/six/seven, six/seven/eight, "
    "seven/eight/nine, eight/nine/ten"
)
DUTIES = forms(
    "locked the gate/lock the gate, paid the bill/pay the bill, fed the cat/feed the cat, "
    "watered the roses/water the roses, signed the letter/sign the letter, "
    "washed the dishes/wash the dishes, posted the parcel/post the parcel, "
    "cleaned the kitchen/clean the kitchen, switched off the lamp/switch off the lamp, "
    "finished the book/finish the book"
)

RULES: Mapping[str, Rule] = {
    "possession": Rule(
        (PEOPLE, THINGS, TRADES),
        *changes(
            *("the {0}", "the {1}", ("{2[0]}", "{2[1]}"), ("{2[2]}", "{2[3]}")),
            {"the {0} has the {1}": True, "the {0} does not have the {1}": False},
            {"the {0} had the {1} at first": True, "the {0} did not have the {1} at first": False},
        ),
    ),
    "place": Rule(
        (PEOPLE, ROOMS, VISITS),
        *changes(
            *("the {0}", "the {1}", ("{2[0]}", "{2[1]}"), ("{2[2]}", "{2[3]}")),
            {"the {0} is in the {1}": True, "the {0} is not in the {1}": False},
            {"the {0} was in the {1} at first": True, "the {0} was not in the {1} at first": False},
        ),
    ),
    "state": Rule(
        (SITES, STATES, PEOPLE),
        *changes(
            *("the {2}", "the {0} {1[0]}", ("{1[1]}", "{1[2]}"), ("{1[3]}", "{1[4]}")),
            {
                **{"the {0} {1[0]} is {1[5]}": True, "the {0} {1[0]} is not {1[5]}": False},
                **{"the {0} {1[0]} is {1[6]}": False, "the {0} {1[0]} is not {1[6]}": True},
            },
            {
                "the {0} {1[0]} was {1[5]} at first": True,
                "the {0} {1[0]} was not {1[5]} at first": False,
                "the {0} {1[0]} was {1[6]} at first": False,
                "the {0} {1[0]} was not {1[6]} at first": True,
            },
        ),
    ),
    "kinds": Rule((BEINGS, ACTS, MANNERS), kinds("{0[0]}", "{0[1]}")),
    "modifiers": Rule((BEINGS, ACTS, MANNERS, TRAITS), kinds("{3} {0[1]}", "{0[1]}")),
    "shares": Rule((CROWDS, ACTS, MANNERS), shares()),
    "objects": Rule((GOODS, DEALS, NAMES, LOOKS), objects()),
    "connectives": Rule((PEOPLE, SPOTS, DOINGS, OTHER_DOINGS, YET_OTHERS), connectives()),
    "voice": Rule(
        (PEOPLE, OTHERS, DEEDS),
        relations(
            EITHER_WAY,
            *(("{x} {{2[0]}} {y}", 0, True), ("{x} did not {{2[1]}} {y}", 0, False)),
            *(("{x} was {{2[0]}} by {y}", 1, True), ("{x} was not {{2[0]}} by {y}", 1, False)),
            *(("it was {x} who {{2[0]}} {y}", 0, True), ("it was {x} that {y} {{2[0]}}", 1, True)),
        ),
    ),
    "converses": Rule(
        (PEOPLE, OTHERS, DEALINGS),
        relations(
            EITHER_WAY,
            *(("{x} {{2[0]}} {y}", 0, True), ("{x} did not {{2[1]}} {y}", 0, False)),
            *(("{x} {{2[2]}} {y}", 1, True), ("{x} did not {{2[3]}} {y}", 1, False)),
        ),
    ),
    "comparisons": Rule(
        (PEOPLE, OTHERS, DEGREES),
        relations(
            ONE_WAY,
            *(("{x} is {{2[0]}} than {y}", 0, True), ("{x} is not {{2[0]}} than {y}", 0, False)),
            *(("{x} is {{2[1]}} than {y}", 1, True), ("{x} is not {{2[1]}} than {y}", 1, False)),
        ),
    ),
    "order": Rule((TRIOS, ORDERS), *chains()),
    "mutual": Rule((NAMES, TIES, MORE_NAMES, YET_MORE), *mutual()),
    "numbers": Rule((NAMES, FRUITS, LOOKS, TAKINGS, COUNTS), numbers()),
    "denials": Rule((PEOPLE, DUTIES), *denials()),
}
