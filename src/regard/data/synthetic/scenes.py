"""Small pictures of coloured shapes, drawn on demand, that know exactly what they show.

    picture = scene(7, "train")
    pixels = draw(picture)  # uint8, 3 × 64 × 64; from scene_drawing

A scene has two to five things (shape, colour, size, box) on light textured paper. Things never
overlap, unless one is inside another. `scene(index, split, seed)` is a pure function, and any
index will do: all draws are whole numbers of a counter-based generator, and all drawing is exact
or rounded arithmetic, so every machine makes the same scenes and the same pixels.

**What training never shows.** A kind of thing is a colour and a shape, as in "red star". Two
different kinds can stand in four to six relations: either left of the other, either above the
other and, where it can be drawn, either inside the other. A hash holds out exactly one of them
for every two kinds (`held_out`), whatever the seed.

- In "train" and "validation" no two things anywhere in a picture stand in a held-out relation.
- In "test" every picture has things that do, and `Scene.relations`, the ones that captions may
  describe, are the held-out ones only.

So each colour, shape, kind and relation is seen in training, and so are any two kinds together,
but no combination kind × relation × kind that the test describes.

**When a relation holds.** "left of": the whole box of the one is left of the whole box of the
other; "above" likewise; "inside": the box of the one lies within the box of the other. "right
of", "below" and "around" are the same three, told from the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from typing import NamedTuple, TypeVar
from zlib import crc32

import numpy as np

from regard.data.images import SPLITS

CANVAS = 64  # pixels; boxes are counted in these, whatever size is drawn
GAP = 2  # pixels of paper between two boxes, and at the border

SHAPES = ("circle", "square", "triangle", "diamond", "star", "heart", "cross", "ring")
# Told apart by lightness where hues meet for colour-blind eyes: dark to light this is black,
# purple, blue, red, green, orange, pink, yellow.
COLOURS = {
    "red": (200, 30, 40),
    "orange": (240, 136, 24),
    "yellow": (250, 218, 48),
    "green": (20, 160, 110),
    "blue": (44, 98, 206),
    "purple": (110, 36, 142),
    "pink": (248, 158, 196),
    "black": (40, 42, 50),
}
SIZES = {"small": (10, 12), "medium": (15, 18), "large": (23, 28)}  # least and largest side
HOLDER = (26, 30)  # side of what has something inside
# Side of the square that is free inside a holder, in hundredths of the holder's side.
ROOM = {"circle": 70, "square": 80, "diamond": 50, "ring": 46}
RELATIONS = ("left of", "above", "inside")
PAPERS = ((244, 240, 228), (232, 240, 244), (234, 243, 232), (244, 234, 234), (238, 234, 244))
TEXTURES = ("plain", "grain", "stripes", "checks", "dots", "weave")

TINT = 10  # how far a thing's colour strays from its name's, in levels of 255
LAYOUT, WORDING = 0, 1  # streams of random numbers that a scene has

T = TypeVar("T")
Box = tuple[int, int, int, int]  # left, top, right, bottom, in pixels of 64 × 64


class Kind(NamedTuple):
    """What a thing is called: its colour and its shape."""

    colour: str
    shape: str


class Relation(NamedTuple):
    """That one thing is, say, left of another; both by their place in `Scene.things`."""

    subject: int
    name: str
    other: int


@dataclass(frozen=True)
class Thing:
    """One shape in a picture. It touches all four sides of its box."""

    shape: str
    colour: str
    size: str
    box: Box
    paint: tuple[int, int, int] = (0, 0, 0)  # the very red, green and blue, 0 … 255

    @property
    def kind(self) -> Kind:
        return Kind(self.colour, self.shape)


@dataclass(frozen=True)
class Background:
    """Light paper: its colour, its texture and where that starts, and a fall of light."""

    paper: tuple[int, int, int] = PAPERS[0]
    texture: str = "plain"
    start: tuple[int, int] = (0, 0)  # down, across
    fall: int = 0  # levels from the middle to the bottom edge, where it is darker if positive


@dataclass(frozen=True)
class Scene:
    """What a picture shows, and the relations in it that captions may describe."""

    seed: int
    things: tuple[Thing, ...]
    background: Background
    relations: tuple[Relation, ...]


def scene(index: int, split: str, seed: int = 0) -> Scene:
    """Scene number `index` of a split, the same every time; a seed names another collection."""
    if split not in SPLITS:
        raise ValueError(f"split {split!r} is none of {', '.join(SPLITS)}")
    if not 0 <= index < 1 << 64 or not 0 <= seed < 1 << 62:
        raise ValueError(f"index {index} or seed {seed} is negative or beyond 64 and 62 bits")
    own = (4 * seed + SPLITS.index(split)) << 64 | index
    draws = Draws(own, LAYOUT)
    places = lay_out(draws)
    pairs = [
        Relation(i, name, j)
        for i, j in permutations(range(len(places)), 2)
        for name in relations_of(places[i].box, places[j].box)
    ]
    kinds = name_kinds(draws, len(places), pairs, unseen=split == "test")
    things = tuple(
        Thing(kind.shape, kind.colour, place.size, place.box, tinted(draws, kind.colour))
        for place, kind in zip(places, kinds, strict=True)
    )
    relations = tuple(
        pair
        for pair in pairs
        if kinds[pair.subject] != kinds[pair.other]
        and (split != "test" or held_out(kinds[pair.subject], pair.name, kinds[pair.other]))
    )
    return Scene(own, things, draw_background(draws), relations)


def relations_of(one: Box, other: Box) -> tuple[str, ...]:
    """Which relations the first box has to the second; none, one, or both left of and above."""
    holds = {
        "left of": one[2] <= other[0],
        "above": one[3] <= other[1],
        "inside": one[0] >= other[0]
        and one[1] >= other[1]
        and one[2] <= other[2]
        and one[3] <= other[3],
    }
    return tuple(name for name in RELATIONS if holds[name])


def held_out(subject: Kind, relation: str, other: Kind) -> bool:
    """Whether training never shows that `subject` is, say, left of `other`."""
    return Held(subject, relation, other) in all_held()


def hold_out(one: Kind, two: Kind) -> Held:
    """The one relation between two kinds that is held out, by a hash of their names."""
    first, second = sorted((one, two))
    options = [
        Held(subject, name, other)
        for name in RELATIONS
        for subject, other in ((first, second), (second, first))
        if name != "inside" or fits_inside(subject, other)
    ]
    return options[crc32(" ".join((*first, *second)).encode()) % len(options)]


def fits_inside(inner: Kind, outer: Kind) -> bool:
    """Whether the one is ever drawn inside the other: it must have room and be told apart."""
    return outer.shape in ROOM and inner.colour != outer.colour


class Draws:
    """Whole numbers that depend on a seed and a stream only, not on the machine.

    numpy promises that the raw output of a bit generator never changes; its distributions it may
    improve, so none is used.
    """

    def __init__(self, seed: int, stream: int) -> None:
        self._source = np.random.Philox(key=seed, counter=stream << 128)
        self._ready: list[int] = []

    def below(self, count: int) -> int:
        """A number from 0 to count − 1, each as likely as the others up to 2^−64 count."""
        if not self._ready:
            self._ready = self._source.random_raw(64).tolist()
        return self._ready.pop() * count >> 64

    def between(self, least: int, most: int) -> int:
        return least + self.below(most - least + 1)

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]


class Place(NamedTuple):
    """Where something will be, before it is decided what."""

    size: str
    box: Box


class Held(NamedTuple):
    """A kind in a relation to another kind."""

    subject: Kind
    relation: str
    other: Kind


KINDS = tuple(Kind(colour, shape) for colour in COLOURS for shape in SHAPES)


def lay_out(draws: Draws) -> list[Place]:
    """Two to five places that keep apart, one of them inside the first every third time."""
    count = draws.between(2, 5)
    holds = draws.chance(34)
    while True:  # until all fit, which is nearly always at once
        places: list[Place] = []
        if holds:
            outer = free_box(draws, draws.between(*HOLDER), places)
            assert outer is not None  # nothing is in its way
            places = [Place("large", outer), Place("small", box_inside(draws, outer))]
        while len(places) < count:
            size = draws.pick(("small", "medium", "medium", "large"))
            box = free_box(draws, draws.between(*SIZES[size]), places)
            if box is None:
                break
            places.append(Place(size, box))
        else:
            return places


def free_box(draws: Draws, side: int, places: Sequence[Place]) -> Box | None:
    """A square that keeps its distance from all places, or None after ten attempts."""
    for _ in range(10):
        left = draws.between(GAP, CANVAS - GAP - side)
        top = draws.between(GAP, CANVAS - GAP - side)
        wide = (left - GAP, top - GAP, left + side + GAP, top + side + GAP)
        if all(apart(wide, place.box) for place in places):
            return left, top, left + side, top + side
    return None


def apart(one: Box, other: Box) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def box_inside(draws: Draws, outer: Box) -> Box:
    """A small box in the middle of a large one, give or take a pixel, that fits in any holder."""
    left, top, right, _ = outer
    room = (right - left) * min(ROOM.values()) // 100
    side = draws.between(SIZES["small"][0], min(SIZES["small"][1], room))
    free = right - left - side
    across, down = ((free + draws.below(2)) // 2 for _ in range(2))
    return left + across, top + down, left + across + side, top + down + side


def name_kinds(draws: Draws, count: int, pairs: Sequence[Relation], unseen: bool) -> list[Kind]:
    """A colour and a shape for each place, such that the split's rule is kept.

    With `unseen`, one pair of things is made a held-out combination; without, none may be.
    """
    while True:  # a thing that finds no kind starts all again, which is rare
        kinds: dict[int, Kind] = {}
        if unseen:
            inside = [pair for pair in pairs if pair.name == "inside"]
            one, name, two = draws.pick(inside if inside and draws.chance(50) else pairs)
            kinds[one], _, kinds[two] = draws.pick(combinations_held(name))
            if not all(may_be(number, kinds[number], kinds, pairs, unseen) for number in kinds):
                continue
        for number in range(count):
            for _ in range(0 if number in kinds else 40):
                kind = draws.pick(KINDS)
                if len(kinds) > 1 and draws.chance(35):  # so that there is something to count
                    kind = draws.pick(list(kinds.values()))
                if may_be(number, kind, kinds, pairs, unseen):
                    kinds[number] = kind
                    break
        if len(kinds) == count:
            return [kinds[number] for number in range(count)]


def may_be(
    number: int, kind: Kind, kinds: dict[int, Kind], pairs: Sequence[Relation], unseen: bool
) -> bool:
    """Whether thing `number` may be of this kind, beside those that have theirs."""
    for one, name, two in pairs:
        if number == one and two in kinds:
            held = Held(kind, name, kinds[two])
        elif number == two and one in kinds:
            held = Held(kinds[one], name, kind)
        elif number == two and name == "inside" and kind.shape not in ROOM:
            return False
        else:
            continue
        if name == "inside" and not fits_inside(held.subject, held.other):
            return False
        if not unseen and held in all_held():
            return False
    # The first two differ, or a scene of two would have no relation to tell.
    return len(kinds) != 1 or number in kinds or kind not in kinds.values()


@cache
def all_held() -> frozenset[Held]:
    """Every combination that training never shows: one for any two kinds."""
    return frozenset(hold_out(one, two) for one, two in combinations(KINDS, 2))


@cache
def combinations_held(relation: str) -> tuple[Held, ...]:
    return tuple(sorted(held for held in all_held() if held.relation == relation))


def tinted(draws: Draws, colour: str) -> tuple[int, int, int]:
    """The colour, a little lighter or darker, and a little off its hue."""
    light = draws.between(-TINT, TINT)
    red, green, blue = (
        min(255, max(0, level + light + draws.between(-TINT, TINT) // 2))
        for level in COLOURS[colour]
    )
    return red, green, blue


def draw_background(draws: Draws) -> Background:
    light = draws.between(-4, 4)
    red, green, blue = (level + light + draws.between(-2, 2) for level in draws.pick(PAPERS))
    return Background(
        (red, green, blue),
        draws.pick(TEXTURES),
        (draws.below(CANVAS), draws.below(CANVAS)),
        draws.between(-5, 5),
    )
