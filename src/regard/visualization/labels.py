"""Names beside what they name, where points and lines are crowded.

    axes.plot(1, 2, "o"); axes.plot(1.1, 2, "o")
    name_points(axes, [Named(1, 2, "one", INK), Named(1.1, 2, "other", READ)])

A name stands beside its point where nothing else is nearer to it; else further off, with a thin
line from one to the other. Names of lines that end together stand in a column (`name_ends`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from regard.visualization.figures import extent

LETTERS = 8.0  # all lengths are in points, of which an inch has 72
STEP = 2.0  # between the places that stand for a line
FAR = (6.0, 12.0, 18.0, 25.0, 33.0, 42.0, 54.0, 68.0, 84.0)  # from a point to its name
DOT = 2.5  # how much of that line its point hides
JOINED = 9.0  # … from which on a line joins them
TURNS = (0, 8, 4, 12, 2, 14, 6, 10, 1, 15, 7, 9, 3, 13, 5, 11)  # sixteenths: right, left, up, …
MOST = 100  # places for a name that are compared with those of others
ROUNDS = 4  # in which each name chooses again, knowing where the others are


class Named(NamedTuple):
    """A point of a picture, in the units of its axes, and what is written beside it."""

    x: float
    y: float
    words: str
    colour: str


class Place(NamedTuple):
    """Where a name may stand: its lower left and upper right, and the line to its point."""

    low: Float[np.ndarray, "2"]
    high: Float[np.ndarray, "2"]
    far: float
    line: Float[np.ndarray, "k 2"]  # of no place where the name stands beside its point

    def around(self) -> tuple[Float[np.ndarray, "2"], Float[np.ndarray, "2"]]:
        """The lower left and upper right of the name with its line, and a little more."""
        if not len(self.line):
            return self.low - 1, self.high + 1
        ends = self.line[[0, -1]]
        return np.minimum(self.low, ends.min(0)) - 1, np.maximum(self.high, ends.max(0)) + 1

    def from_here(self, places: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n"]:
        """How far places are from the name; 0 within it."""
        apart = np.maximum(self.low - places, places - self.high).clip(min=0)
        return np.linalg.norm(apart, axis=-1)


def name_ends(axes: Axes, ends: Sequence[Named], **font: Any) -> None:
    """Name lines where they end: those that go furthest in a column on the right of all."""
    furthest = max((end.x for end in ends), default=0.0)
    last = [end for end in ends if end.x == furthest]
    font = {"fontsize": LETTERS, **font}
    sheet = Sheet(axes)
    at = [sheet.to_points(end) for end in last]
    sizes = [72 * np.array(extent(end.words, **font)) for end in last]
    gap = 1.32 * font["fontsize"]
    low, high = sheet.frame[:, 1] + (gap / 2, -gap / 2)
    middles = apart([float(y) for _, y in at], gap, float(low), float(high))
    column = []
    for end, own, size, middle in zip(last, at, sizes, middles, strict=True):
        low = np.array([own[0] + JOINED, middle - size[1] / 2])
        far = abs(middle - own[1]) > 1.0
        line = between(own, np.array([low[0] - 1.5, middle])) if far else np.empty((0, 2))
        column.append(Place(low, low + size, JOINED, line))
        sheet.write(end, column[-1], **font)
    name_points(axes, [end for end in ends if end.x != furthest], beside=column, **font)


def name_points(
    axes: Axes, points: Sequence[Named], beside: Sequence[Place] = (), **font: Any
) -> None:
    """Write every name where it is clearest, off all lines of the axes, whose limits are final.

    `beside` are the places of names that are there already.
    """
    font = {"fontsize": LETTERS, **font}
    sheet = Sheet(axes)
    lines = [traced(line) / sheet.dots for line in axes.lines]
    everything = np.concatenate([*lines, np.empty((0, 2))])
    choices = []
    for point in points:
        at = sheet.to_points(point)
        others = [line for line in lines if np.linalg.norm(line - at, axis=-1).min() > 0.5]
        foreign = np.concatenate([*others, np.empty((0, 2))])
        places = around(at, 72 * np.array(extent(point.words, **font)))
        priced = [(price(place, everything, foreign, sheet.frame), place) for place in places]
        choices.append(sorted(priced, key=lambda choice: choice[0])[:MOST])
    chosen: dict[int, Place] = {}
    for _ in range(ROUNDS):
        for number, options in enumerate(choices):
            taken = [*beside, *(place for other, place in chosen.items() if other != number)]
            prices = [alone + clash(place, taken) for alone, place in options]
            chosen[number] = options[int(np.argmin(prices))][1]
    for number, point in enumerate(points):
        sheet.write(point, chosen[number], **font)


class Sheet:
    """Axes with their lengths in points."""

    def __init__(self, axes: Axes) -> None:
        self.axes, self.dots = axes, axes.figure.dpi / 72
        self.frame = axes.get_window_extent().get_points() / self.dots

    def to_points(self, named: Named) -> Float[np.ndarray, "2"]:
        return np.asarray(self.axes.transData.transform((named.x, named.y)) / self.dots)

    def write(self, named: Named, place: Place, **font: Any) -> None:
        """The name at its place, and the line to its point."""
        back = self.axes.transData.inverted()
        x, y = back.transform((place.low + place.high) / 2 * self.dots)
        self.axes.text(x, y, named.words, ha="center", va="center", color=named.colour, **font)
        if len(place.line):
            ends = back.transform(place.line[[0, -1]] * self.dots)
            self.axes.add_artist(Line2D(*ends.T, color=named.colour, linewidth=0.7, zorder=1.5))


def apart(
    wanted: Sequence[float], gap: float, low: float = -math.inf, high: float = math.inf
) -> list[float]:
    """Places as near as can be to those wanted, in their order and `gap` from one another.

    Those that would touch are moved together, about the middle of what they want, and all
    between two ends, of which the upper one counts where there is no room for them.
    """
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    groups: list[list[int]] = []
    for at in order:
        groups.append([at])
        while len(groups) > 1 and first(groups[-1], wanted, gap) < gap * len(groups[-2]) + first(
            groups[-2], wanted, gap
        ):
            last = groups.pop()
            groups[-1] += last
    places = [0.0] * len(wanted)
    for group in groups:
        for step, at in enumerate(group):
            places[at] = first(group, wanted, gap) + step * gap
    for rank, at in enumerate(order):
        places[at] = max(places[at], low + rank * gap)
    for rank, at in enumerate(reversed(order)):
        places[at] = min(places[at], high - rank * gap)
    return places


def first(group: Sequence[int], wanted: Sequence[float], gap: float) -> float:
    """Where the lowest of a group is put."""
    return sum(wanted[at] - step * gap for step, at in enumerate(group)) / len(group)


def traced(line: Line2D) -> Float[np.ndarray, "n 2"]:
    """A line as places close to one another; its points alone where it has only these."""
    corners = line.get_transform().transform(line.get_xydata())
    corners = corners[np.isfinite(corners).all(-1)]
    if line.get_linestyle() == "None" or len(corners) < 2:
        return corners
    return np.concatenate([between(*ends) for ends in pairwise(corners)])


def between(start: Float[np.ndarray, "2"], end: Float[np.ndarray, "2"]) -> Float[np.ndarray, "n 2"]:
    count = 2 + int(np.linalg.norm(end - start) / STEP)
    return np.linspace(start, end, count)


def around(at: Float[np.ndarray, "2"], size: Float[np.ndarray, "2"]) -> Iterator[Place]:
    """Places for a name of some size, from near to far, and at each distance from the right on."""
    for far in FAR:
        for turn in TURNS:
            angle = turn * np.pi / 8
            way = np.array([np.cos(angle), np.sin(angle)])
            side = np.where(np.abs(way) < 0.3, 0, np.sign(way))  # of the point
            low = at + far * way + (side - 1) * size / 2
            end = at.clip(low - 1.5, low + size + 1.5)
            line = between(at, end) if far > JOINED else np.empty((0, 2))
            yield Place(low, low + size, far, line)


def price(
    place: Place,
    everything: Float[np.ndarray, "n 2"],
    foreign: Float[np.ndarray, "m 2"],
    frame: Float[np.ndarray, "2 2"],
) -> float:
    """How unclear a name would be there; foreign is what is drawn and not its own."""
    outside = (place.low < frame[0]) | (place.high > frame[1])
    covered = int((place.from_here(everything) < 2.5).sum())
    nearest = place.from_here(foreign).min(initial=np.inf)
    found = place.far + 1000 * outside.any() + 40 * min(covered, 10)
    if len(place.line):
        away = place.line[np.linalg.norm(place.line - place.line[0], axis=-1) > DOT]
        low, high = place.line.min(0) - 3, place.line.max(0) + 3
        close = foreign[((foreign > low) & (foreign < high)).all(-1)]
        gaps = np.linalg.norm(away[:, None] - close, axis=-1)
        crossed = int((gaps.min(-1, initial=np.inf) < 2.5).sum())
        found += 5 + 20 * min(crossed, 5) + 15 * (nearest < JOINED)
    elif nearest < 1.3 * place.far:  # it might seem to belong there
        found += 80 if nearest < place.far else 20
    return float(found)


def clash(place: Place, taken: Sequence[Place]) -> float:
    """How much a name and its line there would lie on other names and their lines."""
    found, (low, high) = 0.0, place.around()
    for other in taken:
        below, above = other.around()
        if (low > above).any() or (high < below).any():
            continue
        met = (place.low < other.high + 1.5) & (other.low < place.high + 1.5)
        found += 500 * met.all()
        found += 200 * (place.from_here(other.line) < 1.5).any()
        found += 200 * (other.from_here(place.line) < 1.5).any()
        gaps = np.linalg.norm(place.line[2:, None] - other.line[2:], axis=-1)  # off their points
        found += 100 * (gaps < 1.5).any()
    return float(found)
