"""What templates of sentences mean: the worlds in which each is true.

Each function lists some worlds (who has what, who is taller than whom, how many there are), and
for each template those it is true in. Words come later: places are {0}, {1} and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import combinations, permutations, product
from operator import eq, ge, gt, le, lt

Worlds = frozenset[Hashable]
Forms = Mapping[str, Worlds]  # templates, and the worlds in which each is true
Pair = tuple[str, str]  # templates of a first sentence and a second, or two forms of a verb
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
    with_verbs = plain | {
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
        for claims in (with_verbs, plain)
    )
    return firsts, seconds
