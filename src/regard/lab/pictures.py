"""Pictures of what a claim found, in the style of the others: lines, bars, and a map of numbers.

Each returns a figure that is not saved yet. Lines are named at their ends where there is room, so
that nobody has to match colours with a legend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.look.figures import INK, MUTED, SHADES, Page, drawing

SIZE = (6.4, 4.0)  # inches
# Told apart with every kind of colour vision, and by how dark they are.
COLOURS = ("#1f5fa8", "#b35806", "#117a65", "#c2185b", "#6a51a3", "#1b1f24", "#8c6d00")
DASHES = ("-", "--", ":", "-.")


def lines(
    x: Sequence[float | int],
    series: Mapping[str, Sequence[float | int]],
    *,
    title: str,
    across: str,
    up: str,
    log: str = "",
    about: str = "",
) -> Figure:
    """Curves over shared x; `log` is "x", "y", "xy" or nothing."""
    with drawing(title, across, up, *series):
        page, axes = _framed(title, about)
        for at, (name, values) in enumerate(series.items()):
            colour, dash = COLOURS[at % len(COLOURS)], DASHES[at // len(COLOURS) % len(DASHES)]
            axes.plot(x, values, color=colour, linestyle=dash, linewidth=1.6, label=name)
        axes.set(
            xlabel=across,
            ylabel=up,
            xscale="log" if "x" in log else "linear",
            yscale="log" if "y" in log else "linear",
        )
        _ticks(axes, x)
        axes.grid(color="#e9edf2", linewidth=0.7)
        if len(series) > 1:
            axes.legend(frameon=False, fontsize=8, labelcolor=INK)
        return page.figure


def bars(
    values: Mapping[str, float | int], *, title: str, up: str, log: bool = False, about: str = ""
) -> Figure:
    """One bar a name, with its number above."""
    with drawing(title, up, *values):
        page, axes = _framed(title, about)
        at = np.arange(len(values))
        drawn = axes.bar(at, list(values.values()), width=0.6, color=COLOURS[0])
        axes.bar_label(drawn, [f"{v:,.4g}" for v in values.values()], fontsize=8, padding=2)
        axes.set_xticks(at, [name.replace(" ", "\n", 1) for name in values])
        axes.set(ylabel=up, yscale="log" if log else "linear")
        return page.figure


def heat(
    values: Float[np.ndarray, "rows columns"],
    *,
    title: str,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    about: str = "",
) -> Figure:
    """A number in every cell, and how large it is as a shade; labels are what, and of which."""
    with drawing(title, rows[0], columns[0]):
        page, axes = _framed(title, about, square=True)
        low, high = float(np.min(values)), float(np.max(values))
        axes.imshow(values, cmap=SHADES, vmin=low, vmax=high, aspect="auto")
        for (y, x), value in np.ndenumerate(values):
            if values.size <= 100:
                axes.text(x, y, f"{value:.3g}", ha="center", va="center", color=INK, fontsize=8)
        axes.set_xticks(range(values.shape[1]), columns[1])
        axes.set_yticks(range(values.shape[0]), rows[1])
        axes.set(xlabel=columns[0], ylabel=rows[0])
        return page.figure


def images(pictures: Mapping[str, Any], *, title: str, about: str = "") -> Figure:
    """Grey pictures side by side, each on a scale of its own, with its name above."""
    with drawing(title, *pictures):
        page = Page(3.1, SIZE[0])
        _head(page, title, about)
        side = (SIZE[0] - 0.3 - 0.2 * len(pictures)) / len(pictures)
        for at, (name, picture) in enumerate(pictures.items()):
            axes = page.axes(0.25 + at * (side + 0.2), 1.0, side, min(side, 1.95))
            axes.imshow(np.asarray(picture), cmap="gray")
            axes.set_title(name, fontsize=8.5, color=INK, loc="left", pad=4)
        return page.figure


def _framed(title: str, about: str, *, square: bool = False) -> tuple[Page, Axes]:
    page = Page(SIZE[1], SIZE[0])
    _head(page, title, about)
    top = 0.85 if about else 0.65
    width = SIZE[0] - 1.0 if not square else 4.2
    axes = page.axes(0.8, top, width, SIZE[1] - top - 0.65)
    axes.xaxis.set_major_locator(_automatic())
    axes.yaxis.set_major_locator(_automatic())
    axes.tick_params(color="#c3ccd6", labelsize=8, labelcolor=INK)
    axes.spines[["top", "right"]].set_visible(False)
    return page, axes


def _head(page: Page, title: str, about: str) -> None:
    page.words(0.25, 0.2, title, fontsize=11, weight="bold", color=INK)
    if about:
        page.words(0.25, 0.5, about, fontsize=8, color=MUTED)


def _ticks(axes: Axes, x: Sequence[float | int]) -> None:
    """Marks that can be read: whole numbers for what is counted, and words as plain numbers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    if axes.get_xscale() == "linear" and all(float(each).is_integer() for each in x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_formatter(NullFormatter())


def _automatic() -> Any:
    from matplotlib.ticker import AutoLocator

    return AutoLocator()
