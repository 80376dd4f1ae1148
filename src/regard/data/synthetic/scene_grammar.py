"""What can be said of a scene: the claims, the sentences for them, and which are true.

    parse("a red star is inside a large ring")  # what it claims, or None if it is no caption
    true_of("two red circles and a blue square", picture)

A caption makes one claim or two, joined by ", and". A claim is one of four: that there are some
things (`Listed`), that one is somewhere (`Placed`), that two are related (`Related`), or how many
of all have a colour (`Share`). Captions are lower case, have no full stop, and use 70 words.

**When a caption is true.** "a" asks for at least one such thing, a number for exactly so many,
among all that answer to the words said: "two circles" counts circles of every colour. Claims are
judged one by one. Relations are those of `scenes`. For places a picture has three columns and
three rows, and the centre of a thing decides; captions place only what is at least two pixels
clear of a boundary, and a judge forgives two pixels beyond it. `scene_telling` makes captions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from typing import NamedTuple

from regard.data.synthetic.scenes import (
    CANVAS,
    COLOURS,
    RELATIONS,
    SHAPES,
    Scene,
    Thing,
    relations_of,
)

NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
SIZE_WORDS = {
    "small": ("small", "little"),
    "medium": ("medium-sized",),
    "large": ("large", "big"),
}
PLURALS = {shape: "crosses" if shape == "cross" else f"{shape}s" for shape in (*SHAPES, "shape")}

# How a relation is told: from the first thing's side, and from the other's.
FORWARD = {
    "left of": ("left of", "to the left of"),
    "above": ("above", "over"),
    "inside": ("inside", "in"),
}
BACKWARD = {
    "left of": ("right of", "to the right of"),
    "above": ("below", "under", "beneath"),
    "inside": ("around",),
}
# Column and row, 0 … 2 from the left and from the top; None where the words leave it open.
PLACES: dict[tuple[int | None, int | None], tuple[str, ...]] = {
    (0, 0): ("at the top left", "in the top left corner"),
    (2, 0): ("at the top right", "in the top right corner"),
    (0, 2): ("at the bottom left", "in the bottom left corner"),
    (2, 2): ("at the bottom right", "in the bottom right corner"),
    (0, None): ("on the left",),
    (2, None): ("on the right",),
    (None, 0): ("at the top",),
    (None, 2): ("at the bottom",),
    (1, 1): ("in the middle", "in the centre"),
}
CLEAR, FORGIVEN = -2, 2  # pixels beyond a column or row at which a thing still counts as in it


@dataclass(frozen=True)
class Group:
    """Some things by their looks; None is what was not said, and as a number it is "a"."""

    number: int | None
    size: str | None
    colour: str | None
    shape: str | None

    def fits(self, thing: Thing) -> bool:
        """Whether the thing looks like this."""
        return (
            self.size in (None, thing.size)
            and self.colour in (None, thing.colour)
            and self.shape in (None, thing.shape)
        )


@dataclass(frozen=True)
class Listed:
    """There are these things."""

    groups: tuple[Group, ...]


@dataclass(frozen=True)
class Placed:
    """One such thing is in this column and row."""

    group: Group
    place: tuple[int | None, int | None]


@dataclass(frozen=True)
class Related:
    """One such thing is left of, above or inside another such thing."""

    subject: Group
    relation: str
    other: Group


@dataclass(frozen=True)
class Share:
    """Of so many things in all, so many have the colour."""

    total: int
    number: int
    colour: str


Claim = Listed | Placed | Related | Share


@dataclass(frozen=True)
class Meaning:
    """All that a caption claims."""

    claims: tuple[Claim, ...]


def parse(caption: str) -> Meaning | None:
    """What the caption claims; None if it is not, to the letter, one of this grammar."""
    clauses = recognise(caption)
    return None if clauses is None else Meaning(tuple(clause.claim for clause in clauses))


def true_of(caption: str | Meaning, scene: Scene) -> bool:
    """Whether everything that the caption claims holds; what is no caption is not true."""
    meaning = parse(caption) if isinstance(caption, str) else caption
    return meaning is not None and all(holds(claim, scene.things) for claim in meaning.claims)


def mentioned(caption: str, scene: Scene) -> list[tuple[int, int]]:
    """Which words name which things: pairs of a word's place in the caption and a thing's.

    Words are counted as `caption.split()` has them. Only colours and nouns are given, and only
    where they can mean one thing alone: nothing for "two red circles", and nothing for "a red
    circle" if either of two would make the claim true. Of a partly false caption, what is true
    still names things.
    """
    named = []
    for claim, phrases in recognise(caption) or ():
        meant = referents(claim, scene.things)
        for phrase, things in zip(phrases, meant, strict=True):
            if len(things) == 1 and phrase.group.number in (None, 1):
                named += [(word, things[0]) for word in phrase.words]
    return sorted(named)


def holds(claim: Claim, things: Sequence[Thing]) -> bool:
    """Whether one claim is true of the things."""
    if isinstance(claim, Listed):
        found = [sum(map(group.fits, things)) for group in claim.groups]
        return all(
            number >= 1 if group.number is None else number == group.number
            for number, group in zip(found, claim.groups, strict=True)
        )
    if isinstance(claim, Share):
        coloured = sum(thing.colour == claim.colour for thing in things)
        return (len(things), coloured) == (claim.total, claim.number)
    return all(referents(claim, things))


def referents(claim: Claim, things: Sequence[Thing]) -> list[list[int]]:
    """For each phrase of a claim, the things it can mean."""
    if isinstance(claim, Listed):
        return [[i for i, thing in enumerate(things) if g.fits(thing)] for g in claim.groups]
    if isinstance(claim, Share):
        return [[i for i, thing in enumerate(things) if thing.colour == claim.colour]]
    if isinstance(claim, Placed):
        column, row = claim.place
        return [
            [
                i
                for i, thing in enumerate(things)
                if claim.group.fits(thing)
                and is_in(column, thing.box[0] + thing.box[2], FORGIVEN)
                and is_in(row, thing.box[1] + thing.box[3], FORGIVEN)
            ]
        ]
    pairs = [
        (i, j)
        for i, j in permutations(range(len(things)), 2)
        if claim.subject.fits(things[i])
        and claim.other.fits(things[j])
        and claim.relation in relations_of(things[i].box, things[j].box)
    ]
    return [sorted({i for i, _ in pairs}), sorted({j for _, j in pairs})]


def is_in(third: int | None, ends: int, slack: int) -> bool:
    """Whether the middle between two ends, given as their sum, is in this third of the canvas."""
    if third is None:
        return True
    least, most = third * CANVAS, (third + 1) * CANVAS  # of three times the middle
    beyond_first = third == 0 or 3 * ends >= 2 * (least - 3 * slack)
    return beyond_first and (third == 2 or 3 * ends <= 2 * (most + 3 * slack))


class Frame(NamedTuple):
    """A sentence with gaps: @ for a phrase about one thing, # about several."""

    text: str
    whole: bool  # a sentence, not a heading
    swapped: bool = False  # tells the other thing of a relation first


class Phrase(NamedTuple):
    """A phrase found in a caption, and which of the caption's words are its colour and noun."""

    group: Group
    words: tuple[int, ...]


class Clause(NamedTuple):
    """A claim as it stands in a caption; its phrases are in the order of `referents`."""

    claim: Claim
    phrases: tuple[Phrase, ...]


def groups_of(claim: Claim) -> tuple[Group, ...]:
    """The groups that a claim is about, in the order of `referents`."""
    if isinstance(claim, Listed):
        return claim.groups
    if isinstance(claim, Placed):
        return (claim.group,)
    return (claim.subject, claim.other) if isinstance(claim, Related) else ()


def about(claim: Claim, groups: tuple[Group, ...]) -> Claim:
    """The same claim about other groups."""
    if isinstance(claim, Listed):
        return Listed(groups)
    if isinstance(claim, Placed):
        return Placed(groups[0], claim.place)
    return Related(groups[0], claim.relation, groups[1]) if isinstance(claim, Related) else claim


def blank(claim: Claim) -> Claim:
    """The claim with no more about its groups than the grammar asks for: whether one or several.

    These are the keys of the table of frames.
    """
    return about(claim, tuple(MANY if g.number in NUMBERS_MANY else ONE for g in groups_of(claim)))


@cache
def frames() -> dict[Claim, list[Frame]]:
    """Every way to say something: the one table that both speaking and reading use."""
    table: dict[Claim, list[Frame]] = {}
    for number in range(1, 6):
        for groups in product((ONE, MANY), repeat=number):
            table[Listed(groups)] = list(list_frames(groups))
    for place in PLACES:
        table[Placed(ONE, place)] = list(place_frames(place))
    for relation in RELATIONS:
        table[Related(ONE, relation, ONE)] = list(relation_frames(relation))
    for total, number, colour in product(range(2, 6), range(1, 5), COLOURS):
        if number < total:
            share = Share(total, number, colour)
            table[share] = list(share_frames(share))
    return table


@cache
def readings() -> dict[str, tuple[Frame, Claim]]:
    """The same table from the other end: what a sentence with gaps claims."""
    return {frame.text: (frame, claim) for claim, ways in frames().items() for frame in ways}


def list_frames(groups: Sequence[Group]) -> Iterator[Frame]:
    marks = ["@" if group is ONE else "#" for group in groups]
    listed = " and ".join((", ".join(marks[:-1]), marks[-1])) if len(marks) > 1 else marks[0]
    yield Frame(listed, False)
    yield Frame(f"a picture of {listed}", False)
    yield Frame(f"an image with {listed}", False)
    yield Frame(f"the picture shows {listed}", True)
    yield Frame(f"we see {listed}", True)
    yield Frame(f"there {'is' if marks[0] == '@' else 'are'} {listed}", True)


def place_frames(place: tuple[int | None, int | None]) -> Iterator[Frame]:
    for words in PLACES[place]:
        yield Frame(f"@ {words}", False)
        yield Frame(f"a picture of @ {words}", False)
        yield Frame(f"@ is {words}", True)
        yield Frame(f"there is @ {words}", True)
        yield Frame(f"{words} there is @", True)
        yield Frame(f"{words} we see @", True)


def relation_frames(relation: str) -> Iterator[Frame]:
    for words in (*FORWARD[relation], *BACKWARD[relation]):
        swapped = words in BACKWARD[relation]
        yield Frame(f"@ {words} @", False, swapped)
        yield Frame(f"a picture of @ {words} @", False, swapped)
        yield Frame(f"@ is {words} @", True, swapped)
        yield Frame(f"there is @ {words} @", True, swapped)
        yield Frame(f"we see @ {words} @", True, swapped)
        if words not in ("left of", "right of"):  # "left of a star is a ring" is no English
            yield Frame(f"{words} @ is @", True, not swapped)
            yield Frame(f"{words} @ there is @", True, not swapped)
    if relation == "inside":
        yield Frame("@ with @ inside", False, True)
        yield Frame("@ contains @", True, True)


def share_frames(share: Share) -> Iterator[Frame]:
    total, them = NUMBERS[share.total], f"{NUMBERS[share.number]} of them"
    verb = "is" if share.number == 1 else "are"
    yield Frame(f"{total} shapes, {them} {share.colour}", False)
    yield Frame(f"there are {total} shapes, {them} {share.colour}", True)
    yield Frame(f"there are {total} shapes and {them} {verb} {share.colour}", True)


def recognise(caption: str) -> list[Clause] | None:
    """The clauses of a caption with what its words mean, or None."""
    texts = caption.split(", and ")
    if len(texts) > 2 or re.search(GAPS, caption):
        return None
    clauses, start = [], 0
    for text in texts:
        clause = recognise_clause(text, start, whole=len(texts) > 1)
        if clause is None:
            return None
        clauses.append(clause)
        start += text.count(" ") + 2  # its own words, and the "and" after it
    return clauses


def recognise_clause(text: str, start: int, whole: bool) -> Clause | None:
    """One clause, whose first word is number `start` of its caption."""
    found = list(NOUN_PHRASE.finditer(text))
    phrases = [read_phrase(match, start + text.count(" ", 0, match.start())) for match in found]
    several = iter([phrase.group.number in NUMBERS_MANY for phrase in phrases])
    skeleton = NOUN_PHRASE.sub(lambda _: "#" if next(several) else "@", text)
    frame, claim = readings().get(text) or readings().get(skeleton) or (None, None)
    if frame is None or claim is None or (whole and not frame.whole):
        return None
    if isinstance(claim, Share):
        group = Group(claim.number, None, claim.colour, None)
        return Clause(claim, (Phrase(group, (start + text.count(" "),)),))
    # "one star is left of a ring" would have to say that no other is; so it is not said.
    if not isinstance(claim, Listed) and any(phrase.group.number for phrase in phrases):
        return None
    phrases = phrases[:: -1 if frame.swapped else 1]
    return Clause(about(claim, tuple(phrase.group for phrase in phrases)), tuple(phrases))


def read_phrase(match: re.Match[str], start: int) -> Phrase:
    """A noun phrase whose first word is number `start`; its last word is the noun."""
    count, size, colour, noun = match["count"], match["size"], match["colour"], match["noun"]
    last = start + match[0].count(" ")
    shape = SINGULAR[noun]
    group = Group(
        NUMBER_OF.get(count),
        None if size is None else SIZE_OF[size],
        colour,
        None if shape == "shape" else shape,
    )
    return Phrase(group, (last,) if colour is None else (last - 1, last))


GAPS = "[@#]"
ONE, MANY = Group(None, None, None, None), Group(2, None, None, None)
NUMBERS_MANY = frozenset(NUMBERS) - {1}
NUMBER_OF = {word: number for number, word in NUMBERS.items()}
SIZE_OF = {word: size for size, words in SIZE_WORDS.items() for word in words}
SINGULAR = {form: noun for noun, plural in PLURALS.items() for form in (noun, plural)}


def noun_phrase() -> re.Pattern[str]:
    """What matches a noun phrase and nothing else: article and number agree with what follows."""
    sizes, colours = "|".join(SIZE_OF), "|".join(COLOURS)
    some, several = "|".join(NUMBERS[n] for n in NUMBERS_MANY), "|".join(PLURALS.values())
    return re.compile(
        rf"\b(?P<count>a(?= [^aeiou])|an(?= [aeiou])|one|(?P<many>{some}))"
        rf"(?: (?P<size>{sizes}))?(?: (?P<colour>{colours}))?"
        rf" (?P<noun>(?(many)(?:{several})|(?:{'|'.join(PLURALS)})))\b"
    )


NOUN_PHRASE = noun_phrase()
