"""Sentences that praise or blame, from a small grammar: texts with labels that every machine has.

    reviews()                   # 24,000 sentences to learn from, 1,000 to choose by, 2,000 to test
    draw = Draw(7)
    tree = review(draw, good=True)
    tree.text, tree.good        # "nobody would deny that the soup was far from bland", True

Which words occur says little: they are negated, conceded, quoted and denied again. What a sentence
says is computed from the tree it was made of, and never from its words.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, islice
from typing import NamedTuple, TypeVar

from regard.data.labelled import LABELLED, Labelled, LabelledSet

T = TypeVar("T")
SIZES = {"train": 24_000, "validation": 1_000, "test": 2_000}
LEARNT = 4  # negations on top of one another, at the most, in what is learnt from


@dataclass(frozen=True)
class Leaf:
    """Words that are put into a template; of those that judge, whether they praise."""

    text: str
    good: bool = True
    depth: int = 0
    templates: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Tree:
    """A template with its parts, one of which decides what the whole says.

    Each of its `flips` negations turns that round. What other parts say is conceded, quoted or a
    name, and changes nothing.
    """

    template: str
    parts: tuple[Tree | Leaf, ...]
    decides: int
    flips: int = 0

    @cached_property
    def text(self) -> str:
        return self.template.format(*(part.text for part in self.parts))

    @cached_property
    def good(self) -> bool:
        """Whether it praises."""
        return self.parts[self.decides].good != bool(self.flips % 2)

    @cached_property
    def depth(self) -> int:
        """How many negations stand over the word that judges."""
        return self.flips + self.parts[self.decides].depth

    @cached_property
    def templates(self) -> frozenset[str]:
        """Every template in it."""
        return frozenset({self.template}).union(*(part.templates for part in self.parts))


class Way(NamedTuple):
    """A template, and how many negations it has."""

    template: str
    flips: int = 0


class Whole(NamedTuple):
    """Something to review, what a visitor has of it, and what it has to be judged by."""

    name: str
    time: str
    kind: str
    aspects: tuple[str, ...]


# Words. Those of a kind can be said of each thing of this kind. Negated, they say the opposite:
# "not dull" is praise, which "not catastrophic" is not; such strong words are never negated.

WHOLES = (
    Whole("film", "film", "show", ("plot", "acting", "dialogue", "music", "ending", "costumes")),
    Whole("novel", "novel", "show", ("plot", "style", "dialogue", "ending")),
    Whole("play", "play", "show", ("plot", "acting", "dialogue", "costumes")),
    Whole("concert", "concert", "show", ("singing", "music", "songs", "hall")),
    Whole("restaurant", "meal", "place", ("soup", "wine", "dessert", "bread", "service")),
    Whole("hotel", "stay", "place", ("rooms", "breakfast", "service", "pool", "garden")),
)
KINDS = {
    **dict.fromkeys(("soup", "wine", "dessert", "bread", "breakfast"), "food"),
    **dict.fromkeys(("service", "rooms", "pool", "garden", "hall", "costumes"), "place"),
}
PRAISE = {
    "show": ("good", "impressive", "enjoyable", "charming", "delightful"),
    "food": ("good", "tasty", "delightful", "delicious"),
    "place": ("good", "pleasant", "impressive", "delightful", "lovely"),
}
BLAME = {
    "show": ("bad", "poor", "disappointing", "dull", "tedious", "boring"),
    "food": ("bad", "poor", "disappointing", "bland"),
    "place": ("bad", "disappointing", "dreary", "mediocre"),
}
STRONG = {True: ("superb", "excellent", "wonderful"), False: ("terrible", "awful", "dreadful")}
NOUNS = {True: ("treat", "delight", "joy"), False: ("disappointment", "letdown", "mess")}
OUTCOMES = {True: ("success", "hit"), False: ("failure", "flop")}  # of the whole only
PEOPLE = ("the critics", "my friends", "the neighbours", "the visitors", "the students")
TITLES = ("garden", "thief", "duck", "winter", "sailor", "house")

# Templates. The second of two lists is held back for the test; its words occur in the first.

CLAIMS = [Way("{0} {1}"), Way("{0} not {1}", 1), Way("{0} far from {1}", 1)]
CLAIMS_HELD = [Way("{0} anything but {1}", 1), Way("{0} by no means {1}", 1)]
NAMINGS = [Way("{0} a {1}"), Way("{0} anything but a {1}", 1), Way("{0} by no means a {1}", 1)]
NAMINGS_HELD = [Way("{0} far from a {1}", 1)]

# Under "nobody would say that" these would leave a doubt, so they stand on their own.
OWN_CLAIMS = [
    *(Way(f"{{0}} {word} {{1}}") for word in ("very", "truly", "really", "always")),
    *(Way(f"{{0}} {word} {{1}}", 1) for word in ("hardly", "never")),
    Way("{0} not {1} at all", 1),
]
OWN_NAMINGS = [Way("{0} truly a {1}"), Way("{0} hardly a {1}", 1), Way("{0} no {1}", 1)]
OWN_NAMINGS_HELD = [Way("{0} never a {1}", 1), Way("{0} not a {1} at all", 1)]
MINUTES = [Way("I did {1} every minute of {0}"), Way("I did not {1} a minute of {0}", 1)]

SPEAKERS = (  # of whom the first four may report on the last four
    Way("nobody would {verb} that {0}", 1),
    Way("everybody would {verb} that {0}"),
    Way("only a fool would {verb} that {0}", 1),
    Way("any sensible person would {verb} that {0}"),
    Way("I would never {verb} that {0}", 1),
    Way("I would always {verb} that {0}"),
    Way("it would be wrong to {verb} that {0}", 1),
    Way("it would be right to {verb} that {0}"),
    Way("the critics were wrong to {verb} that {0}", 1),
    Way("the critics were right to {verb} that {0}"),
)
VERBS = (
    *(Way("say"), Way("deny", 1), Way("claim"), Way("doubt", 1), Way("believe")),
    *(Way("dispute", 1), Way("share the view"), Way("reject the view", 1)),
)
CONTRASTS = [
    *map(Way, ("{0}, but {1}", "although {0}, {1}", "though {0}, {1}")),
    *map(Way, ("{0}; even so, {1}", "{1}, even though {0}")),
]
CONTRASTS_HELD = [*map(Way, ("{1}, although {0}", "{1}, though {0}", "even though {0}, {1}"))]
RESCUES = [Way("{0}, but {1} did {2} {3}"), Way("{0}, and even {1} could not {2} {3}", 1)]
RESCUES_HELD = [Way("{1} did {2} {3}, though {0}"), Way("{1} did {2} {3}, although {0}")]
QUOTES = [
    *(Way('{0} were right to call {1} "{2}"'), Way('{0} were wrong to call {1} "{2}"', 1)),
    Way('{0} called {1} "{2}", and they were right'),
    Way('{0} called {1} "{2}", and they were wrong', 1),
    Way('{0} called {1} "{2}", and I could not agree more'),
    Way('{0} called {1} "{2}", and I could not disagree more', 1),
    *(Way('I agree with {0} who call {1} "{2}"'), Way('I disagree with {0} who call {1} "{2}"', 1)),
]
QUOTES_HELD = [
    *(Way('{0} who called {1} "{2}" were right'), Way('{0} who called {1} "{2}" were wrong', 1)),
    Way('I could not agree more with {0} who called {1} "{2}"'),
    Way('I could not disagree more with {0} who called {1} "{2}"', 1),
]
ASIDES = {
    True: [Way('{0} called {1} "{2}", and {3}')],
    False: [Way('{0} called {1} "{2}", but {3}')],
}
ASIDES_HELD = {
    True: [Way('{3}, and {0} called it "{2}"')],
    False: [Way('{3}, although {0} called it "{2}"')],
}


def speeches(of: Sequence[int], held: bool) -> list[Way]:
    """Every way to say or deny something that is learnt from, or that is held back: a third."""
    return [
        Way(SPEAKERS[n].template.replace("{verb}", verb.template), SPEAKERS[n].flips + verb.flips)
        for n in of
        for m, verb in enumerate(VERBS)
        if ((n // 2 + m) % 3 == 0) == held
    ]


SPEECHES, SPEECHES_HELD = (speeches(range(10), held) for held in (False, True))
OUTER, OUTER_HELD = (speeches(range(4), held) for held in (False, True))
INNER, INNER_HELD = (speeches(range(6, 10), held) for held in (False, True))
HELD = frozenset(
    way.template
    for ways in (
        *(CLAIMS_HELD, NAMINGS_HELD, OWN_NAMINGS_HELD, CONTRASTS_HELD, RESCUES_HELD),
        *(QUOTES_HELD, *ASIDES_HELD.values(), SPEECHES_HELD),
    )
    for way in ways
)


def reviews() -> LabelledSet:
    """The same sentences on every machine, each once, as many that praise as that blame.

    What is learnt from has at most four negations on top of one another. One of sixteen sentences
    of the test has five, and the rest is built in ways that occur nowhere else; its words are all
    known.
    """
    seen: set[str] = set()
    parts = {}
    for seed, (part, size) in enumerate(SIZES.items()):
        trees = list(islice(different(seed, part == "test", seen), size))
        texts = tuple(sentence(tree) for tree in trees)
        # False and True are the numbers of the classes negative and positive.
        parts[part] = Labelled(texts, tuple(int(tree.good) for tree in trees))
    named = LABELLED["reviews"]
    return LabelledSet("reviews", named.classes, parts, named.licence, named.source)


def different(seed: int, test: bool, seen: set[str]) -> Iterator[Tree]:
    """Trees that praise and blame in turn, whose sentences nobody has seen.

    In the test, two of 32 are deeper than any that is learnt from; the others have new templates.
    """
    draw = Draw(seed, test)
    for turn in count():
        deeper = test and turn % 32 >= 30
        while True:
            tree = review(draw, turn % 2 == 0, deeper)
            fits = (tree.depth > LEARNT) == deeper
            new = deeper or bool(tree.templates & HELD)
            if fits and new == test and tree.text not in seen:
                break
        seen.add(tree.text)
        yield tree


def sentence(tree: Tree) -> str:
    """What a tree says, from a capital to a full stop."""
    return f"{tree.text[0].upper()}{tree.text[1:]}."


# How trees grow. Each function is told whether what it makes shall praise.


class Draw:
    """Choices that look drawn and are the same on every machine."""

    def __init__(self, seed: int, held: bool = False) -> None:
        self._number = random.Random(seed).random  # which Python promises never to change
        self.held = held  # whether templates that are held back may be drawn

    def one(self, of: Sequence[T]) -> T:
        return of[int(self._number() * len(of))]

    def way(self, learnt: Sequence[Way], held: Sequence[Way] = ()) -> Way:
        """A template; one of those held back as often as one of the others, if at all."""
        return self.one(held if self.held and held and self.chance(0.5) else learnt)

    def chance(self, share: float) -> bool:
        return self._number() < share


def review(draw: Draw, good: bool, deep: bool = False) -> Tree:
    """Any sentence of the grammar; a deep one is of a kind that can be negated often."""
    kinds: tuple[Callable[[Draw, Whole, bool], Tree], ...] = (spoken, reported, quoted)
    if not deep:
        kinds += (spoken, judged, contrast, contrast, rescue, aside)
    return draw.one(kinds)(draw, draw.one(WHOLES), good)


def judged(draw: Draw, whole: Whole, good: bool) -> Tree:
    """Something about the whole or a part of it, as a reviewer would say it."""
    if draw.chance(0.5):
        return verdict(draw, whole, good)
    return claim(draw, aspect(draw, whole), good, alone=True)


def spoken(draw: Draw, whole: Whole, good: bool) -> Tree:
    """What somebody would say or deny."""
    way = draw.way(SPEECHES, SPEECHES_HELD)
    return Tree(way.template, (statement(draw, whole, turned(good, way)),), 0, way.flips)


def reported(draw: Draw, whole: Whole, good: bool) -> Tree:
    """What somebody would say of what others say or deny."""
    outer, inner = draw.way(OUTER, OUTER_HELD), draw.way(INNER, INNER_HELD)
    base = statement(draw, whole, turned(turned(good, outer), inner))
    return Tree(outer.template, (Tree(inner.template, (base,), 0, inner.flips),), 0, outer.flips)


def statement(draw: Draw, whole: Whole, good: bool) -> Tree:
    """What can be denied without leaving a doubt."""
    if draw.chance(0.6):
        return claim(draw, aspect(draw, whole), good, alone=False)
    return claim(draw, whole.name, good, whole.kind, alone=False)


def verdict(draw: Draw, whole: Whole, good: bool, again: bool = False) -> Tree:
    """A judgement of the whole, which is called "it" if it is mentioned again."""
    if draw.chance(0.8):
        return claim(draw, "" if again else whole.name, good, whole.kind, alone=True)
    way = draw.way(MINUTES)
    praises = turned(good, way)
    word = Leaf("enjoy" if praises else "regret", praises)
    return Tree(way.template, (Leaf(f"the {whole.time}"), word), 1, way.flips)


def contrast(draw: Draw, whole: Whole, good: bool) -> Tree:
    """One thing is conceded, which changes nothing in the judgement of the whole."""
    conceded = claim(draw, aspect(draw, whole), not good, alone=True)
    way = draw.way(CONTRASTS, CONTRASTS_HELD)
    return Tree(way.template, (conceded, verdict(draw, whole, good)), 1, way.flips)


def rescue(draw: Draw, whole: Whole, good: bool) -> Tree:
    """One thing saves what another would have ruined, or cannot; or the other way round."""
    way = draw.way(RESCUES, RESCUES_HELD)
    saves = turned(good, way)
    first = aspect(draw, whole)
    other = draw.one([name for name in whole.aspects if name != first])
    verb = Leaf("save" if saves else "ruin", saves)
    conceded = claim(draw, first, not saves, alone=True)
    parts = (conceded, Leaf(f"the {other}"), verb, Leaf(f"the {whole.time}"))
    return Tree(way.template, parts, 2, way.flips)


def quoted(draw: Draw, whole: Whole, good: bool) -> Tree:
    """Others are quoted, and said to be right or wrong; somebody may say or deny that in turn."""
    if draw.chance(0.7):
        return quote(draw, whole, good, QUOTES, QUOTES_HELD)
    way = draw.way(OUTER, OUTER_HELD)
    inner = quote(draw, whole, turned(good, way), QUOTES[:2], QUOTES_HELD[:2])
    return Tree(way.template, (inner,), 0, way.flips)


def quote(draw: Draw, whole: Whole, good: bool, learnt: Sequence[Way], held: Sequence[Way]) -> Tree:
    way = draw.way(learnt, held)
    parts = (Leaf(draw.one(PEOPLE)), *quotation(draw, whole, turned(good, way)))
    return Tree(way.template, parts, 2, way.flips)


def aside(draw: Draw, whole: Whole, good: bool) -> Tree:
    """Others are quoted, but the reviewer judges."""
    praises = draw.chance(0.3) == good
    alike = praises == good
    way = draw.way(ASIDES[alike], ASIDES_HELD[alike])
    judgement = verdict(draw, whole, good, again=way in ASIDES[alike])
    parts = (Leaf(draw.one(PEOPLE)), *quotation(draw, whole, praises), judgement)
    return Tree(way.template, parts, 3, way.flips)


def quotation(draw: Draw, whole: Whole, praises: bool) -> tuple[Leaf, Leaf]:
    """What is judged, and the quoted judgement."""
    word = draw.one((PRAISE if praises else BLAME)[whole.kind])
    return Leaf(f"the {whole.name}"), Leaf(word, praises)


def claim(draw: Draw, name: str, good: bool, whole: str = "", *, alone: bool) -> Tree:
    """Something is good or bad, or not, or a success; without a name it is "it".

    `whole` is the kind of a whole thing. What stands alone may be stronger, and more idiomatic,
    than what somebody else will deny.
    """
    if draw.chance(0.35):
        more = (OWN_NAMINGS, OWN_NAMINGS_HELD) if alone else ([], [])
        way = draw.way([*NAMINGS, *more[0]], [*NAMINGS_HELD, *more[1]])
        praises = turned(good, way)
        word = draw.one(NOUNS[praises] + (OUTCOMES[praises] if whole else ()))
    else:
        way = draw.way([*CLAIMS, *(OWN_CLAIMS if alone else [])], CLAIMS_HELD)
        praises = turned(good, way)
        strong = alone and way == CLAIMS[0] and draw.chance(0.3)
        words = (PRAISE if praises else BLAME)[whole or KINDS.get(name, "show")]
        word = draw.one(STRONG[praises] if strong else words)
    title = f' "{titled(draw)}"' if whole and name and draw.chance(0.3) else ""
    subject = f"the {name}{title}" if name else "it"
    verb = "were" if name.endswith("s") else "was"
    return Tree(way.template, (Leaf(f"{subject} {verb}"), Leaf(word, praises)), 1, way.flips)


def titled(draw: Draw) -> str:
    """A name that praises or blames by chance."""
    words = draw.one((PRAISE, BLAME))["show"] + STRONG[draw.chance(0.5)]
    return f"The {draw.one(words)} {draw.one(TITLES)}".title()


def aspect(draw: Draw, whole: Whole) -> str:
    return draw.one(whole.aspects)


def turned(good: bool, way: Way) -> bool:
    """What must be said below a template for this to be said by it."""
    return good != bool(way.flips % 2)
