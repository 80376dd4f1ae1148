"""The rules by which one sentence follows from another: their words, and what may be said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from regard.data.synthetic.inference_words import (
    ACTS,
    BEINGS,
    COUNTS,
    CROWDS,
    DEALINGS,
    DEALS,
    DEEDS,
    DEGREES,
    DOINGS,
    DUTIES,
    FRUITS,
    GOODS,
    LOOKS,
    MANNERS,
    MORE_NAMES,
    NAMES,
    ORDERS,
    OTHER_DOINGS,
    OTHERS,
    PEOPLE,
    ROOMS,
    SITES,
    SPOTS,
    STATES,
    TAKINGS,
    THINGS,
    TIES,
    TRADES,
    TRAITS,
    TRIOS,
    VISITS,
    YET_MORE,
    YET_OTHERS,
)
from regard.data.synthetic.inference_worlds import (
    EITHER_WAY,
    ONE_WAY,
    Forms,
    chains,
    changes,
    connectives,
    denials,
    kinds,
    mutual,
    numbers,
    objects,
    relations,
    shares,
)

Words = Sequence[str | tuple[str, ...]]  # what may fill a place; forms of a word go together


class Rule(NamedTuple):
    """Words for places {0}, {1} and so on, and templates that may stand first and second."""

    words: tuple[Words, ...]
    firsts: Forms
    seconds: Forms = MappingProxyType({})  # none: the same may stand second


# A rule's first two lists of words decide what is held back.
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
