"""Time and memory against n: a row of panels a family, beside what reads everything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import cycle, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.growth import Points, per_head

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DENSE = "dense"  # the family that the others are measured by, grey in every panel
FAMILIES = {
    "Windows on a text": ("window",),
    "On a grid, as of an image": ("grid",),
    "Published patterns": ("pattern",),
    "Linear attention, and attention of channels": ("linear", "channels"),
}
LOOKS = (("-", "o"), ((0, (5, 2)), "s"), ((0, (2, 1.5)), "^"), ("-.", "D"), ("-", "v"))
LEFT, BETWEEN, RIGHT = 0.62, 0.62, 0.12  # inches
TOP, ABOVE, TALL, BELOW = 1.2, 0.34, 1.6, 0.12  # of the page, then of a row
SHARE = 0.53  # of a panel's width that its lines take; the rest is for their names


class Panel(NamedTuple):
    """A measure that is drawn: its words, where a row has it, and the exponent of its growth."""

    words: str
    what: str | None  # None where a row has the pass itself
    unit: float
    exponent: str

    def points(self, rows: Iterable[Mapping[str, Any]], way: str, heads: int) -> Points:
        found = per_head(rows, way) if self.what is None else per_head(rows, self.what, way)
        return [(n, value * heads * self.unit) for n, value in found]

    def lines(self, rows: Iterable[Mapping[str, Any]], heads: int) -> tuple[Points, Points]:
        """Of a contender's rows, those with backward, and from the last of them on forward alone.

        The latter is empty where nothing was measured forward alone.
        """
        own = list(rows)
        both = self.points(own, "both", heads)
        if all("both" in row for row in own):
            return both, []
        last = both[-1][0] if both else 0
        return both, [point for point in self.points(own, "forward", heads) if point[0] >= last]


PANELS = (
    Panel("ms, forward + backward", None, 1e3, "slope"),
    Panel("MB at the peak, above q, k and v", "bytes", 1e-6, "slope_bytes"),
)


def draw(facts: Mapping[str, Any], path: Path) -> Figure:
    """Time and memory against n on logarithmic axes, each line named; the scales are the same."""
    import matplotlib

    from regard.visualization.figures import INK, STYLE, WIDTH, Page

    summaries = facts["summary"]
    wide, down = (WIDTH - LEFT - BETWEEN - RIGHT) / 2, ABOVE + TALL + BELOW
    families = {
        words: [name for name, one in summaries.items() if one["family"] in kinds]
        for words, kinds in FAMILIES.items()
    }
    shown = {words: names for words, names in families.items() if names}
    with matplotlib.rc_context(STYLE):
        page = Page(TOP + len(shown) * down + 0.4)
        page.title(0.22, "What attention costs")
        page.words(0.22, 0.52, about(facts), fontsize=8)
        for column, panel in enumerate(PANELS):
            x = LEFT + column * (wide + BETWEEN)
            page.words(x, TOP, panel.words, va="bottom", color=INK, fontsize=9)
            drawn = lines_of(facts, panel)
            for row, (words, names) in enumerate(shown.items()):
                axes = page.axes(x, TOP + row * down + ABOVE, wide, TALL)
                set_scale(axes, drawn.values(), last=row == len(shown) - 1)
                draw_panel(axes, {name: drawn[name] for name in drawn if name in names}, drawn)
                if column == 0:
                    axes.set_title(words, loc="left", fontsize=9, weight="bold", pad=5)
        return page.saved(path)


def about(facts: Mapping[str, Any]) -> str:
    """What was measured, and how to read it."""
    rows, heads = facts["rows"], facts["batch"] * facts["heads"]
    words = (
        f"{facts['device']}, {facts['dtype']}, batch {facts['batch']}, {facts['heads']} heads of "
        f"{facts['head_width']}, torch {facts['torch']}. Beside a name: how it grows.\n"
        "Grey, in every panel: what reads everything."
    )
    if any("both" not in row for row in rows):
        words += " Hollow: forward alone."
    if any(row["batch"] * row["heads"] < heads for row in rows):
        words += f" The longest had fewer heads; scaled to {heads}."
    return words


class Lines(NamedTuple):
    """What is drawn of a contender."""

    words: str
    both: Points
    alone: Points
    dense: bool


def lines_of(facts: Mapping[str, Any], panel: Panel) -> dict[str, Lines]:
    """Of every contender, by its name."""
    heads, found = facts["batch"] * facts["heads"], {}
    for name, summary in facts["summary"].items():
        own = [row for row in facts["rows"] if row["name"] == name]
        words = name + grows(summary[panel.exponent])
        found[name] = Lines(words, *panel.lines(own, heads), summary["family"] == DENSE)
    return found


def set_scale(axes: Axes, everyone: Iterable[Lines], *, last: bool) -> None:
    """Axes with room for names on the right; the sizes are told below the last panel alone."""
    from regard.visualization.figures import quiet

    points = [point for lines in everyone for point in (*lines.both, *lines.alone)]
    sizes = sorted({n for n, _ in points})
    low, high = min(y for _, y in points) / 1.6, 1.6 * max(y for _, y in points)
    across = math.log(sizes[-1] / sizes[0]) / SHARE or 1.0
    right = sizes[0] * math.exp(0.97 * across)
    axes.set(xscale="log", yscale="log", ylim=(low, high))
    axes.set_xlim(sizes[0] * math.exp(-0.03 * across), right)
    axes.set_xticks(sizes, [short(n) for n in sizes] if last else [])
    marks = round_numbers(low, high)
    axes.set_yticks(marks, [f"{mark:,.10g}" for mark in marks])
    axes.minorticks_off()
    quiet(axes)
    if last:
        axes.set_xlabel("tokens, n", x=SHARE / 2)


def draw_panel(axes: Axes, family: Mapping[str, Lines], everyone: Mapping[str, Lines]) -> None:
    """One line a contender; where only forward was asked of it, hollow marks joined by dots."""
    from regard.visualization.figures import GREY, HUES, MUTED
    from regard.visualization.labels import Named, name_ends

    dense = [lines for lines in everyone.values() if lines.dense]
    drawn = list(zip(dense, repeat(GREY), cycle(LOOKS), strict=False))
    drawn += zip(family.values(), cycle(HUES), cycle(LOOKS), strict=False)
    ends = []
    for (words, both, alone, _), colour, (dashes, marker) in drawn:
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3.4}
        if both:
            axes.plot(*zip(*both, strict=True), linestyle=dashes, linewidth=1.3, **look)
        if alone:
            look |= {"linestyle": (0, (1, 1.5)), "linewidth": 0.9, "markerfacecolor": "white"}
            axes.plot(*zip(*alone, strict=True), **look)
        if both or alone:
            ends.append(Named(*(alone or both)[-1], words, MUTED if colour == GREY else colour))
    name_ends(axes, ends, parse_math=True, fontsize=7.5)


def grows(exponent: float | None) -> str:
    return "" if exponent is None else f"  $n^{{{exponent:.2f}}}$"


def round_numbers(low: float, high: float) -> list[float]:
    """Powers of ten between two numbers; where there are fewer than three, twos and fives too."""
    for leads in ((1,), (1, 2, 5)):
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [lead * 10.0**power for power in powers for lead in leads]
        found = [number for number in found if low <= number <= high]
        if len(found) > 2:
            break
    return found


def short(n: int) -> str:
    """A number of tokens for an axis."""
    for unit, size in (("M", 1 << 20), ("k", 1 << 10)):
        if n >= size and n % size == 0:
            return f"{n // size}{unit}"
    return str(n)
