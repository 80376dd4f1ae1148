"""What a scene is told in: several different captions, each true of it and always the same ones.

    captions(picture)  # ['a small star is left of …', …]

**What is told first.** People begin with what catches the eye, and so do captions: large things
before small ones, and of one size those further left. Of what is inside something, either may come
first. So a picture and the first words of a caption mostly settle which thing is spoken of next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from regard.data.synthetic.scene_grammar import (
    CLEAR,
    GAPS,
    NUMBERS,
    PLACES,
    PLURALS,
    SIZE_WORDS,
    Claim,
    Group,
    Listed,
    Placed,
    Related,
    Share,
    blank,
    frames,
    groups_of,
    is_in,
)
from regard.data.synthetic.scenes import SIZES, WORDING, Draws, Relation, Scene, Thing

# Which of size, colour and shape a list tells; things that answer to the same are told together.
LIST_STYLES = (
    *6 * ((False, True, True),),
    *2 * ((True, True, True),),
    *2 * ((False, False, True),),
    (False, True, False),
)
MOST = 20  # captions of one scene
ATTEMPTS = 5  # to tell something new in the way planned, before another relation is told


def captions(scene: Scene, count: int = 5) -> list[str]:
    """Different true captions, always the same ones; the first describes a relation."""
    if not 1 <= count <= MOST:
        raise ValueError(f"a scene has 1 to {MOST} captions, not {count}")
    if not scene.relations:
        raise ValueError(f"scene {scene.seed} has no relation that its captions could describe")
    draws = Draws(scene.seed, WORDING)
    plan = [tell_relation, *draws.shuffled((tell_relation, tell_list, tell_place, tell_two))]
    chosen: list[str] = []
    while len(chosen) < count:
        tell = plan[len(chosen)] if len(chosen) < len(plan) else draws.pick(plan)
        # A scene may have one list only and no clear place, but a relation has dozens of forms.
        for _ in range(ATTEMPTS):
            caption = tell(scene, draws)
            if caption is not None and caption not in chosen:
                break
        else:
            caption = tell_relation(scene, draws)
        if caption not in chosen:
            chosen.append(caption)
    return chosen


def tell_relation(scene: Scene, draws: Draws) -> str:
    """One relation that the scene offers, with the colour and shape of both things."""
    claim, swapped = relation_claim(scene, draws)
    return say(claim, draws, swapped=swapped)


def tell_place(scene: Scene, draws: Draws) -> str | None:
    claim = place_claim(scene, draws)
    return None if claim is None else say(claim, draws)


def tell_two(scene: Scene, draws: Draws) -> str | None:
    """A relation, and where something else is, in one sentence."""
    relation, swapped = relation_claim(scene, draws)
    kinds = {(group.colour, group.shape) for group in groups_of(relation)}
    place = place_claim(scene, draws, [t for t in scene.things if (t.colour, t.shape) in kinds])
    if place is None:
        return None
    first = say(relation, draws, whole=True, swapped=swapped)
    return f"{first}, and {say(place, draws, whole=True)}"


def tell_list(scene: Scene, draws: Draws) -> str:
    """All things, or how many there are and of what colour."""
    things = by_salience(scene.things)
    if draws.chance(25):
        colour = things[0].colour
        number = sum(thing.colour == colour for thing in things)
        if number < len(things):
            return say(Share(len(things), number, colour), draws)
    sized, coloured, shaped = draws.pick(LIST_STYLES)
    looks = [
        (
            thing.size if sized else None,
            thing.colour if coloured else None,
            thing.shape if shaped else None,
        )
        for thing in things
    ]
    once = 1 if draws.chance(10) else None  # "one" or "a"
    groups = [
        Group(looks.count(look) if looks.count(look) > 1 else once, *look)
        for look in dict.fromkeys(looks)
    ]
    return say(Listed(tuple(groups)), draws)


def relation_claim(scene: Scene, draws: Draws) -> tuple[Related, bool | None]:
    """A relation of the most salient thing that has one, and whether the other thing comes first.

    None leaves that open.
    """
    order = [scene.things.index(thing) for thing in by_salience(scene.things)]
    related = {each for relation in scene.relations for each in (relation.subject, relation.other)}
    first = next(each for each in order if each in related)
    ways: dict[tuple[str, bool], list[Relation]] = {}
    for relation in scene.relations:
        if first in (relation.subject, relation.other):
            ways.setdefault((relation.name, relation.other == first), []).append(relation)
    name, swapped = draws.pick(tuple(ways))
    relation = min(
        ways[name, swapped], key=lambda r: order.index(r.subject if swapped else r.other)
    )
    subject, other = scene.things[relation.subject], scene.things[relation.other]
    claim = Related(described(subject, draws), name, described(other, draws))
    return claim, None if name == "inside" else swapped


def place_claim(scene: Scene, draws: Draws, besides: Sequence[Thing] = ()) -> Placed | None:
    """Where the most salient thing is that is clearly somewhere, or None if there is no such."""
    for thing in by_salience(scene.things):
        places = [
            place
            for place in PLACES
            if is_in(place[0], thing.box[0] + thing.box[2], CLEAR)
            and is_in(place[1], thing.box[1] + thing.box[3], CLEAR)
        ]
        if places and thing not in besides:
            return Placed(described(thing, draws), draws.pick(places))
    return None


def by_salience(things: Sequence[Thing]) -> list[Thing]:
    """Large things before small ones, and of one size from left to right."""
    return sorted(things, key=lambda thing: (-SIZES[thing.size][0], *thing.box))


def described(thing: Thing, draws: Draws) -> Group:
    return Group(None, thing.size if draws.chance(35) else None, thing.colour, thing.shape)


def say(claim: Claim, draws: Draws, whole: bool = False, swapped: bool | None = None) -> str:
    """The claim in words; `whole` asks for a sentence rather than a heading.

    `swapped` decides whether the other thing of a relation comes before its subject.
    """
    frame = draws.pick(
        [
            frame
            for frame in frames()[blank(claim)]
            if (frame.whole or not whole) and swapped in (None, frame.swapped)
        ]
    )
    groups = groups_of(claim)
    phrases = iter([phrase_of(group, draws) for group in groups[:: -1 if frame.swapped else 1]])
    return re.sub(GAPS, lambda _: next(phrases), frame.text)


def phrase_of(group: Group, draws: Draws) -> str:
    """The group as a noun phrase: "a big red star", "two shapes"."""
    noun = group.shape or "shape"
    words = [] if group.size is None else [draws.pick(SIZE_WORDS[group.size])]
    words += [] if group.colour is None else [group.colour]
    words += [noun if group.number in (None, 1) else PLURALS[noun]]
    article = "an" if words[0][0] in "aeiou" else "a"
    return " ".join((article if group.number is None else NUMBERS[group.number], *words))
