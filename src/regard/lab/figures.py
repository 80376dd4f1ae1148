"""Pictures of what a claim found, in the style of the others: lines, bars, cells, maps and images.

Each returns a figure that is not saved yet. Lines are named where they end, so that nobody has to
match colours with a legend. Those that coincide are all seen: each has dashes and marks of its own,
and is wider where others lie on it. Of shades, the darker is the more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from regard.visualization.figure_image import DEPTHS, wrapped
from regard.visualization.figures import HUES, INK, MUTED, SHADES, Page, drawing, inches, quiet
from regard.visualization.labels import Named, name_ends

SIZE = (6.4, 4.0)  # inches
EDGE, LEFT, BELOW = 0.25, 0.8, 0.65  # of the page, and between its side or foot and the axes
COLOURS = (*HUES, INK)
LOOKS: Any = (  # dashes, in widths of the line, and marks
    *(("-", "o"), ((0, (4, 2)), "s"), ((0, (1, 1.4)), "^"), ((0, (6, 1.5, 1, 1.5)), "D")),
    *(((0, (2, 2)), "v"), ((0, (8, 3)), "P")),
)
MANY = 12  # points of a line that are all marked; of more, some, evenly along it
THICK, WIDER = 1.6, 2.0  # points: a line, and what it grows by for each that lies on it
LARGEST, SMALLER = 5.6, 0.6  # … the first line's marks, and how much less each next one's are
TALLEST = 2.4  # inches that a map or an image may be high
POWERS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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
    """Up to 6 curves over shared x; `log` is "x", "y", "xy" or nothing."""
    if len(series) > len(COLOURS):
        raise ValueError(
            f"{len(series)} lines are more than {len(COLOURS)}, which can be told apart"
        )
    with drawing(title, about, across, up, *series):
        page, axes = _framed(title, about)
        axes.set(
            xlabel=across,
            ylabel=up,
            xscale="log" if "x" in log else "linear",
            yscale="log" if "y" in log else "linear",
        )
        looks = list(zip(series.items(), COLOURS, LOOKS, strict=False))
        ends = []
        for at, ((name, values), colour, (dashes, mark)) in enumerate(looks):
            axes.plot(
                *(x, values, mark),
                color=colour,
                linestyle=dashes,
                linewidth=THICK,
                markersize=LARGEST - SMALLER * at,
                markeredgewidth=0,
                markevery=1 if len(x) <= MANY else (0.12 * (at + 0.5) / len(looks), 0.12),
            )
            seen = [
                (over, value)
                for over, value in zip(x, values, strict=True)
                if math.isfinite(value)
                and (over > 0 or "x" not in log)
                and (value > 0 or "y" not in log)
            ]
            if seen:
                ends.append(Named(*seen[-1], name, colour))
        named = len(series) > 1
        _room(axes, x, max(inches(name, fontsize=8) for name in series) + 0.24 if named else 0.1)
        _widen(axes)
        quiet(axes)
        if named:
            name_ends(axes, ends)
        return page.figure


def bars(
    values: Mapping[str, float | int], *, title: str, up: str, log: bool = False, about: str = ""
) -> Figure:
    """One bar a name, with its number above."""
    with drawing(title, about, up, *values):
        page, axes = _framed(title, about)
        at = np.arange(len(values))
        drawn = axes.bar(at, list(values.values()), width=0.6, color=COLOURS[0])
        axes.bar_label(drawn, [_written(v) for v in values.values()], fontsize=8, padding=2)
        axes.set_xticks(at, [name.replace(" ", "\n", 1) for name in values])
        axes.set(ylabel=up, yscale="log" if log else "linear")
        axes.margins(y=0.12)  # for the number on the highest
        _mark_up(axes)
        quiet(axes, "y")
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
    with drawing(title, about, rows[0], columns[0]):
        page, axes = _framed(title, about)
        low, high = float(np.min(values)), float(np.max(values))
        axes.imshow(values, cmap=SHADES, vmin=low, vmax=high, aspect="auto")
        for (y, x), value in np.ndenumerate(values):
            if values.size <= 100:
                axes.text(x, y, f"{value:.3g}", ha="center", va="center", color=INK, fontsize=8)
        axes.set_xticks(range(values.shape[1]), columns[1])
        axes.set_yticks(range(values.shape[0]), rows[1])
        axes.set(xlabel=columns[0], ylabel=rows[0])
        quiet(axes)
        axes.grid(visible=False)
        return page.figure


def maps(
    pictures: Mapping[str, Any], *, title: str, about: str = "", one_scale: bool = False
) -> Figure:
    """Numbers as shades, side by side with their names above.

    White is 0, or the least where there are numbers below it.
    """
    scale = "" if one_scale else "; each has its own scale"
    about = f"{about} Darker is more{scale}.".strip()
    return _side_by_side(pictures, DEPTHS, title, about, one_scale)


def images(pictures: Mapping[str, Any], *, title: str, about: str = "") -> Figure:
    """What is to be looked at, as grey on white, side by side with their names above."""
    return _side_by_side(pictures, "Greys", title, about)


def _side_by_side(
    pictures: Mapping[str, Any],
    shades: Colormap | str,
    title: str,
    about: str,
    one_scale: bool = False,
) -> Figure:
    numbers = {name: np.asarray(picture, float) for name, picture in pictures.items()}
    everything = np.concatenate([each.ravel() for each in numbers.values()])
    with drawing(title, about, *pictures):
        gap, names = 0.2, 0.22
        widest = (SIZE[0] - 2 * EDGE + gap) / len(pictures) - gap
        aspect = max(each.shape[0] / each.shape[1] for each in numbers.values())
        width = min(widest, TALLEST / aspect)
        top = _below(about) + names
        page = Page(top + width * aspect + EDGE, SIZE[0])
        _head(page, title, about)
        for at, (name, picture) in enumerate(numbers.items()):
            axes = page.axes(EDGE + at * (widest + gap), top, width, width * aspect)
            scale = everything if one_scale else picture
            low, high = float(np.nanmin(scale)), float(np.nanmax(scale))
            axes.imshow(picture, cmap=shades, vmin=min(low, 0.0), vmax=high)
            axes.set_anchor("NW")
            axes.set_title(name, fontsize=8.5, color=INK, loc="left", pad=4)
        return page.figure


def _framed(title: str, about: str) -> tuple[Page, Axes]:
    page = Page(SIZE[1], SIZE[0])
    _head(page, title, about)
    top = _below(about) + 0.05
    return page, page.axes(LEFT, top, SIZE[0] - LEFT - EDGE, SIZE[1] - top - BELOW)


def _head(page: Page, title: str, about: str) -> None:
    page.words(EDGE, 0.2, title, fontsize=11, weight="bold", color=INK)
    page.words(EDGE, 0.5, "\n".join(_about(about)), fontsize=8, color=MUTED)


def _about(about: str) -> list[str]:
    return wrapped(about, SIZE[0] - 2 * EDGE, fontsize=8)


def _below(about: str) -> float:
    """Inches from the top of a page to what is drawn on it."""
    return 0.6 + 0.18 * len(_about(about))


def _room(axes: Axes, x: Sequence[float | int], wide: float) -> None:
    """Limits that are final, with so many inches on the right of the lines, and marks to read."""
    log = axes.get_xscale() == "log"
    x = [each for each in x if each > 0 or not log]
    low, high = float(min(x)), float(max(x))
    whole = SIZE[0] - LEFT - EDGE
    share = 0.97 - wide / whole  # of the axes' width that lines take
    places = np.log10(x) if log else np.asarray(x, float)
    span = (float(np.ptp(places)) or 1.0) / share
    left, right = places.min() - 0.03 * span, places.min() + 0.97 * span
    axes.set_xlim(*((10**left, 10**right) if log else (left, right)))
    axes.set_ylim(axes.get_ylim())
    axes.xaxis.label.set_x(0.03 + share / 2)
    counted = all(float(each).is_integer() for each in x)
    if counted and len(x) <= MANY:
        words = [_written(each) for each in x]
        kept = _apart(words, places * whole / span)
        axes.set_xticks([x[at] for at in kept], [words[at] for at in kept])
        axes.minorticks_off()
    elif log:
        _powers(axes, "x", low, high)
    else:
        axes.set_xticks(_round(low, high, integer=counted))
    _mark_up(axes)


def _apart(words: Sequence[str], middles: Float[np.ndarray, "n"]) -> list[int]:
    """Which of the words in a row do not touch, by their places in inches; the last is kept."""
    kept: list[int] = []
    free = math.inf  # up to where there is room
    for at in reversed(range(len(words))):
        half = inches(words[at], fontsize=8) / 2 + 0.04
        if middles[at] + half <= free:
            kept.insert(0, at)
            free = middles[at] - half
    return kept


def _widen(axes: Axes) -> None:
    """Where later lines lie on one it is wider, so that it stays in sight; limits are final."""
    drawn = list(axes.lines)
    heights = [axes.transData.transform(line.get_xydata())[:, 1] for line in drawn]
    for at, (line, (dashes, _)) in enumerate(zip(drawn, LOOKS, strict=False)):
        covered = sum(
            (np.isclose(other, heights[at], 0, 1.5) for other in heights[at + 1 :]),
            start=np.zeros(len(heights[at]), int),
        )
        for count in range(covered.max(initial=0), 0, -1):
            wide = THICK + WIDER * count
            look = dashes if dashes == "-" else (0, [part * THICK / wide for part in dashes[1]])
            axes.plot(
                line.get_xdata(),
                np.where(covered >= count, line.get_ydata(), np.nan),
                color=line.get_color(),
                linestyle=look,
                linewidth=wide,
                dash_capstyle="butt",
                solid_capstyle="butt",
                zorder=1.9,  # below all of them
            )


def _mark_up(axes: Axes) -> None:
    """Round numbers on the left of axes whose limits are final."""
    if axes.get_yscale() == "log":
        _powers(axes, "y", *axes.get_ylim())
    else:
        axes.set_yticks(_round(*axes.get_ylim()))


def _round(low: float, high: float, *, integer: bool = False) -> list[float]:
    found = MaxNLocator(7, integer=integer, steps=[1, 2, 5, 10]).tick_values(low, high)
    return [float(each) for each in found if low <= each <= high]


def _powers(axes: Axes, axis: str, low: float, high: float) -> None:
    """Mark an axis at about six powers of ten; of fewer than three, at twos and fives too."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, -(-(last - first + 1) // 8))
    found = [10.0**power for power in range(first, last + 1) if power % step == 0]
    if len(found) < 3:
        every = [lead * 10.0**power for power in range(first - 1, last + 1) for lead in (1, 2, 5)]
        found = [each for each in every if low / 1.001 <= each <= 1.001 * high]
    small = all(1e-3 <= each <= 1e4 for each in found)
    words = [_written(each) if small else _written(each, 1.0, 10.0) for each in found]
    axes.set(**{f"{axis}ticks": found, f"{axis}ticklabels": words})
    axes.minorticks_off()


def _written(value: float | int, least: float = 1e-3, most: float = 1e7) -> str:
    """A number in four digits or whole; as a power of ten if very small or large: 1.4·10⁻¹⁶."""
    if value == 0 or not math.isfinite(value) or least <= abs(value) < most:
        return f"{value:,.0f}" if 1000 <= abs(value) < most else f"{value:.4g}"
    lead, _, power = f"{value:.1e}".partition("e")
    lead = "" if float(lead) == 1 else f"{float(lead):g}·"
    return f"{lead}10{str(int(power)).translate(POWERS)}"
