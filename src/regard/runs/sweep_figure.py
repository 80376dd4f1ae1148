"""Quality against what it costs: every choice a dot with its spread, named beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.runs.processes import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Labels(NamedTuple):
    """How the table and the picture call things."""

    title: str
    quality: str  # the deciding figure in words
    deciding: str  # … and its key
    flops: str  # of what
    speed: str
    shown: Callable[[float], str]
    scale: float = 1.0  # of the deciding figure in the picture
    further: Mapping[str, tuple[str, Callable[[float], str]]] = {}  # more columns, by key


def draw(lines: Sequence[Row], labels: Labels, path: Path) -> Figure:
    """Quality against what it costs: one panel for FLOPs and, where timed, one for speed."""
    from regard.visualization.figures import WIDTH, Page, drawing

    panels = [("flops", labels.flops, 1e-6)]
    if all("items_per_second" in line for line in lines):
        panels.append(("items_per_second", labels.speed, 1.0))
    left, between, top, tall = 0.72, 0.3, 0.95, 4.2  # inches
    wide = (WIDTH - left - 0.2 - between * (len(panels) - 1)) / len(panels)
    seeds = max(line["seeds"] for line in lines)
    spread = f"Dots: the mean of {seeds} seeds. Bars: the least and the greatest of them."
    with drawing(labels.title):
        page = Page(top + tall + 0.55)
        page.title(left, labels.title)
        page.words(left, 0.52, spread if seeds > 1 else "One seed.")
        for at, (key, words, unit) in enumerate(panels):
            axes = page.axes(left + at * (wide + between), top, wide, tall)
            draw_panel(axes, lines, labels, key, unit)
            axes.set_xlabel(words)
            if at == 0:
                axes.set_ylabel(labels.quality)
            else:
                axes.tick_params(labelleft=False)
        return page.saved(path)


def short(value: float) -> str:
    """A number on an axis: 300k, 1.5M."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:,.10g}{letter}"
    return f"{value:,.10g}"


# By what is done instead of reading everything, as places among the hues; else patterns.
FAMILIES = {"linear": 2, "learned": 2, "channels": 3, "davit": 1}
PATTERN = 0


def draw_panel(axes: Axes, lines: Sequence[Row], labels: Labels, key: str, unit: float) -> None:
    """Every choice as a dot with its spread, named beside it."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    from regard.visualization.figures import HUES, INK, quiet
    from regard.visualization.labels import Named, name_points

    points = []
    for line in lines:
        seen, name = line[labels.deciding], line["choice"]
        low, value, high = (seen[which] * labels.scale for which in ("low", "mean", "high"))
        x, colour = line[key] * unit, INK if name == "full" else HUES[FAMILIES.get(name, PATTERN)]
        axes.plot([x] * 3, [low, value, high], color=colour, linewidth=1.4, solid_capstyle="butt")
        dot: Any = {"markersize": 4.8, "markeredgecolor": "white", "markeredgewidth": 0.6}
        axes.plot([x], [value], "o", color=colour, **dot)
        points.append(Named(x, value, name, colour))
    axes.margins(x=0.24, y=0.08)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    quiet(axes)
    axes.autoscale_view()  # dots are where they will be from here on
    name_points(axes, points)
