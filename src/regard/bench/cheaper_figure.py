"""Time and memory against n on logarithmic axes, each line named at its end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.bench.growth import Points, per_head

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Hues that differ in lightness too, one for a family; within it, markers and dashes tell apart.
FAMILIES = {
    "dense": "#1b1f24",
    "window": "#0072b2",
    "grid": "#00805c",
    "pattern": "#b35c00",
    "linear": "#c2185b",
    "channels": "#6a4fb3",
}
LOOKS = (("-", "o"), ((0, (5, 2)), "s"), ((0, (2, 1.5)), "^"), ("-.", "D"))
LABEL = 8  # points, the size of a label's letters


class Panel(NamedTuple):
    """A measure that is drawn: its words, where a row has it, and the exponent of its growth."""

    words: str
    what: str | None  # None where a row has the pass itself
    unit: float
    exponent: str

    def points(self, rows: Iterable[Mapping[str, Any]], way: str, heads: int) -> Points:
        found = per_head(rows, way) if self.what is None else per_head(rows, self.what, way)
        return [(n, value * heads * self.unit) for n, value in found]


PANELS = (
    Panel("ms, forward + backward", None, 1e3, "slope"),
    Panel("MB at the peak, above q, k and v", "bytes", 1e-6, "slope_bytes"),
)


def draw(facts: Mapping[str, Any], path: Path) -> Figure:
    """Time and memory against n on logarithmic axes, each line named at its end."""
    import matplotlib
    from matplotlib.figure import Figure

    from regard.look.figures import INK, MUTED, STYLE, WIDTH

    rows, heads, high = facts["rows"], facts["batch"] * facts["heads"], 4.9
    about = (
        f"{facts['device']}, {facts['dtype']}, batch {facts['batch']}, {facts['heads']} heads of "
        f"{facts['head_width']}, torch {facts['torch']}. Beside a name: how it grows."
    )
    if any("both" not in row for row in rows):
        about += " Hollow: forward alone."
    if any(row["batch"] * row["heads"] < heads for row in rows):
        about += f"\nThe longest texts had fewer heads, and are scaled to these {heads}."
    with matplotlib.rc_context({**STYLE, "axes.labelcolor": INK}):
        page = Figure((WIDTH * 1.3, high))
        page.text(0.012, 0.965, "What attention costs", fontsize=13, weight="bold", va="top")
        page.text(0.012, 0.9, about, color=MUTED, fontsize=8, va="top", linespacing=1.4)
        for at, panel in enumerate(PANELS):
            axes = page.add_axes((0.05 + 0.508 * at, 0.105, 0.265, 0.66))
            draw_panel(axes, panel, facts["summary"], rows, heads, high * 0.66)
            axes.set_title(panel.words, loc="left", fontsize=9, color=INK, pad=7)
        page.savefig(path, dpi=160)
    return page


def draw_panel(
    axes: Axes,
    panel: Panel,
    told: Mapping[str, Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    heads: int,
    high: float,
) -> None:
    """One line a contender; sizes of which it was only asked forward are hollow marks."""
    ends, seen = [], dict.fromkeys(FAMILIES, 0)
    for name, facts in told.items():
        colour = FAMILIES[facts["family"]]
        dashes, marker = LOOKS[seen[facts["family"]] % len(LOOKS)]
        seen[facts["family"]] += 1
        own = [row for row in rows if row["name"] == name]
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3.4}
        points = panel.points(own, "both", heads)
        alone = panel.points([row for row in own if "both" not in row], "forward", heads)
        if points:
            axes.plot(*zip(*points, strict=True), linestyle=dashes, linewidth=1.3, **look)
            ends.append(End(*points[-1], name, facts[panel.exponent], colour))
        if alone:
            look |= {"linestyle": "none", "markerfacecolor": "white"}
            axes.plot(*zip(*alone, strict=True), **look)
    axes.set(xscale="log", yscale="log", xlabel="tokens, n")
    sizes = sorted({row["n"] for row in rows})
    axes.set_xticks(sizes, [short(n) for n in sizes])
    marks = round_numbers(*axes.get_ylim())
    axes.set_yticks(marks, [f"{mark:,.10g}" for mark in marks])
    axes.minorticks_off()
    axes.tick_params(color="#c3ccd6", labelsize=8)
    axes.grid(color="#e9edf2", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    name_ends(axes, ends, high)


class End(NamedTuple):
    """Where a line ends, and what is written beside that."""

    n: int
    y: float
    name: str
    exponent: float | None
    colour: str


def name_ends(axes: Axes, ends: Sequence[End], high: float) -> None:
    """Names to the right of the axes, each as near to the end of its line as its neighbours let.

    `high` is the height of the axes in inches.
    """
    low, top = (math.log(y) for y in axes.get_ylim())
    right = axes.get_xlim()[1]
    wanted = [(math.log(end.y) - low) / (top - low) for end in ends]
    places = apart(wanted, LABEL * 1.32 / 72 / high)
    for (n, y, name, exponent, colour), place in zip(ends, places, strict=True):
        grows = "" if exponent is None else f"  $n^{{{exponent:.2f}}}$"
        axes.text(
            1.09,
            place,
            name + grows,
            transform=axes.transAxes,
            parse_math=True,
            color=colour,
            fontsize=LABEL,
            va="center",
        )
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "alpha": 0.55, "shrinkB": 3}
        axes.annotate(
            "",
            (n, y),
            (1.08, place),
            textcoords="axes fraction",
            annotation_clip=False,
            arrowprops={**line, "shrinkA": 0},
        )
    axes.set_xlim(right=right)


def apart(wanted: Sequence[float], gap: float) -> list[float]:
    """Places as near as can be to those wanted, in their order and `gap` from one another.

    Those that would touch are moved together, about the middle of what they want.
    """
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    groups: list[list[int]] = []
    for at in order:
        groups.append([at])
        while len(groups) > 1 and _first(groups[-1], wanted, gap) < gap * len(groups[-2]) + _first(
            groups[-2], wanted, gap
        ):
            last = groups.pop()
            groups[-1] += last
    places = [0.0] * len(wanted)
    for group in groups:
        for step, at in enumerate(group):
            places[at] = _first(group, wanted, gap) + step * gap
    return places


def _first(group: Sequence[int], wanted: Sequence[float], gap: float) -> float:
    """Where the lowest of a group is put."""
    return sum(wanted[at] - step * gap for step, at in enumerate(group)) / len(group)


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
