"""Quality against what it costs: every choice a dot with its spread, named beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.tasks.processes import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Told(NamedTuple):
    """How the table and the picture call things."""

    title: str
    quality: str  # the deciding figure in words
    deciding: str  # … and its key
    flops: str  # of what
    speed: str
    shown: Callable[[float], str]
    scale: float = 1.0  # of the deciding figure in the picture
    further: Mapping[str, tuple[str, Callable[[float], str]]] = {}  # more columns, by key


def draw(lines: Sequence[Row], told: Told, path: Path) -> Figure:
    """Quality against what it costs: one panel for FLOPs and, where timed, one for speed."""
    from regard.look.figures import WIDTH, Page, drawing

    panels = [("flops", told.flops, 1e-6)]
    if all("items_per_second" in line for line in lines):
        panels.append(("items_per_second", told.speed, 1.0))
    left, between, top, tall = 0.72, 0.35, 0.95, 3.4  # inches
    wide = (WIDTH - left - 0.2 - between * (len(panels) - 1)) / len(panels)
    seeds = max(line["seeds"] for line in lines)
    spread = f"Dots: the mean of {seeds} seeds. Bars: the least and the greatest of them."
    with drawing(told.title):
        page = Page(top + tall + 0.55)
        page.title(left, told.title)
        page.words(left, 0.52, spread if seeds > 1 else "One seed.")
        for at, (key, words, unit) in enumerate(panels):
            axes = page.axes(left + at * (wide + between), top, wide, tall)
            draw_panel(axes, lines, told, key, unit)
            axes.set_xlabel(words)
            if at == 0:
                axes.set_ylabel(told.quality)
            else:
                axes.tick_params(labelleft=False)
        return page.saved(path)


class Point(NamedTuple):
    """A dot, the ends of its bar, and what is written beside it."""

    x: float
    y: float
    low: float
    high: float
    name: str
    colour: str


def short(value: float) -> str:
    """A number on an axis: 300k, 1.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:,.10g}{letter}"
    return f"{value:,.10g}"


# By what is done instead of reading everything; each hue has a lightness of its own too.
FAMILIES = {"full": "#1b1f24", "linear": "#c2185b", "learned": "#c2185b"}
FAMILIES |= {"channels": "#6a4fb3", "davit": "#b35c00"}
SPARSE = "#0072b2"


def draw_panel(axes: Axes, lines: Sequence[Row], told: Told, key: str, unit: float) -> None:
    """Every choice as a dot with its spread, named beside it."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    points = []
    for line in lines:
        seen = line[told.deciding]
        value, low, high = (seen[name] * told.scale for name in ("mean", "low", "high"))
        x, colour = line[key] * unit, FAMILIES.get(line["choice"], SPARSE)
        axes.plot([x, x], [low, high], color=colour, linewidth=1.4, solid_capstyle="butt")
        axes.plot([x], [value], "o", color=colour, markersize=5, markeredgecolor="white")
        points.append(Point(x, value, low, high, line["choice"], colour))
    axes.margins(x=0.16, y=0.1)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.tick_params(color="#c3ccd6", labelsize=8)
    axes.grid(color="#e9edf2", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    name_points(axes, points)


# Where a name may stand, in points from its dot: right, left, above, below, then further off.
AROUND = [(7, 0), (-7, 0), (0, 9), (0, -9), (7, 9), (7, -9), (-7, 9), (-7, -9)]
AROUND += [
    (x * far, y * far) for far in (2, 3, 4, 5) for x, y in ((7, 9), (7, -9), (-7, 9), (-7, -9))
]


def name_points(axes: Axes, points: Sequence[Point]) -> None:
    """Names beside their dots, each at the first place that nothing else takes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    measures = FigureCanvasAgg(axes.figure).get_renderer()  # type: ignore[arg-type, no-untyped-call]
    axes.autoscale_view()  # dots are where they will be from here on
    frame, dot = axes.get_window_extent(), 4.0 * axes.figure.dpi / 72
    dots, bars = [], []
    for point in points:
        ends = [axes.transData.transform((point.x, y)) for y in (point.y, point.low, point.high)]
        (x, y), (_, low), (_, high) = ends
        dots.append(Bbox([[x - dot, y - dot], [x + dot, y + dot]]))
        bars.append(Bbox([[x - dot / 4, low], [x + dot / 4, high]]))
    boxes: list[Bbox] = []
    for own, (x, y, _, _, name, colour) in enumerate(points):
        taken = [*dots[:own], *dots[own + 1 :], *bars, *boxes]
        for across, up in AROUND:
            far = max(abs(across), abs(up)) > 12
            line = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6}
            label = axes.annotate(
                name,
                (x, y),
                (across, up),
                textcoords="offset points",
                color=colour,
                fontsize=8,
                ha="left" if across > 0 else "right" if across < 0 else "center",
                va="center" if not up else "bottom" if up > 0 else "top",
                arrowprops=line if far else None,
            )
            label.update_positions(measures)
            box = Text.get_window_extent(label, measures)  # without the line to its dot
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1
            if (inside and not any(map(box.overlaps, taken))) or (across, up) == AROUND[-1]:
                boxes.append(box)
                break
            label.remove()
