"""How runs learned, epoch by epoch: one panel a quantity, one colour a run.

    curves_figure({"10 epochs": ten, "30 epochs": thirty}, Path("curves.png"), title="CIFAR-10")
    gap(thirty).difference    how much better it is on images it has learned from

A run's lines are those of its metrics.jsonl: `epoch`, and figures such as `train_eval/accuracy` and
`val/accuracy`: the images it was measured on, a slash, and the quantity.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from regard.run_folder.metric_lines import (
    deciding,
    is_measured,
    lower_is_better,
    metric,
    quantity_of,
    split_of,
)
from regard.visualization.figures import INK, MUTED, WIDTH, Page, drawing, inches, quiet

# Told apart by every kind of colour vision (the nearest two differ by 17 in CIELAB), on white.
COLOURS = ("#1f5fa8", "#d55e00", "#009e73", "#cc79a7", "#1b1f24", "#e69f00", "#aa3377", "#7a3b00")
DASHES: dict[str, Any] = {"validation": "-", "train": (0, (4, 1.6))}
OTHER_DASHES: Any = (0, (1, 1.4))
BEST: dict[str, Any] = {"marker": "o", "markersize": 4.2, "zorder": 6}
TEST: dict[str, Any] = {
    **{"marker": "D", "markersize": 6.0, "zorder": 5},
    **{"markerfacecolor": "white", "markeredgewidth": 1.5},
}
WIDER = 2.0  # points that a line grows by for each run that lies on it

LEFT, RIGHT, BETWEEN = 0.62, 0.22, 0.62  # inches
ABOVE, TALL, BELOW = 0.34, 2.3, 0.5  # of each panel
LONGEST = 3.4  # of a run's name: two in a row

Line: TypeAlias = Mapping[str, float | int]


class Gap(NamedTuple):
    """How much better a run is on the images it has learned from than on others."""

    train: float
    held_out: float
    difference: float
    epoch: int


def gap(lines: Sequence[Line]) -> Gap:
    """The deciding figure in training less that in validation, at the last epoch with both.

    Of a loss it is validation less training, so that a gap above 0 is always what was memorised.
    """
    key = deciding_key(lines) or "val/accuracy"
    if lower_is_better(key) and any("val/accuracy" in line for line in lines):
        key = "val/accuracy"
    sign = -1 if lower_is_better(key) else 1
    of_train = metric("train", quantity_of(key))
    for number, line in reversed(list(enumerate(lines, start=1))):
        train, held_out = value_of(line, of_train), value_of(line, key)
        if math.isfinite(train - held_out):
            return Gap(train, held_out, sign * (train - held_out), epoch_of(line, number))
    raise ValueError(
        f"a gap lies between {of_train} and {key}, and none of {len(lines)} lines has both"
    )


def curves_figure(
    runs: Mapping[str, Sequence[Line]],
    path: Path | Sequence[Path],
    *,
    title: str,
    marks: Mapping[str, Mapping[str, float]] | None = None,
) -> Figure:
    """Every quantity of up to 8 runs over their epochs, saved as PNG, SVG or PDF by suffix.

    Validation is a solid line, training a dashed and lighter one. A dot marks the epoch with the
    best validation, the one whose weights are kept; `marks` are what those weights come to on
    test, by run and quantity, `{"10 epochs": {"accuracy": 0.83}}`, as diamonds at that epoch.
    Where runs are equal the shorter lie on the longer, which are wider there and stay in sight.
    """
    marks = {} if marks is None else marks
    if len(runs) > len(COLOURS):
        raise ValueError(
            f"{len(runs)} runs are too many for one figure, which has {len(COLOURS)} colours that "
            "can be told apart"
        )
    if strange := [name for name in marks if name not in runs]:
        raise ValueError(f"marks name {strange[0]!r}, which is not among the {len(runs)} runs")
    with drawing(title, *runs):
        panels = quantities(runs, marks)
        columns = min(2, len(panels)) or 1
        wide = (WIDTH - LEFT - RIGHT - (columns - 1) * BETWEEN) / columns
        legend = legend_rows(signs(runs, marks, panels))
        head = 0.5 + 0.24 * len(legend)
        rows = -(-len(panels) // columns) or 1
        page = Page(head + rows * (ABOVE + TALL + BELOW))
        page.title(0.22, fitting(title, WIDTH - 0.44, size=13, weight="bold"))
        draw_legend(page, legend)
        for number, quantity in enumerate(panels):
            row, column = divmod(number, columns)
            top = head + row * (ABOVE + TALL + BELOW) + ABOVE
            axes = page.axes(LEFT + column * (wide + BETWEEN), top, wide, TALL)
            draw_quantity(axes, quantity, runs, marks)
        if not panels:
            page.words(WIDTH / 2, head + TALL / 2, "No epoch has been measured yet.", ha="center")
        return page.saved(path, colours=None)


def quantities(
    runs: Mapping[str, Sequence[Line]], marks: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """What has at least one number to show, in the order of its first appearance, loss last."""
    keys = [key for lines in runs.values() for line in lines for key in line if is_measured(key)]
    found = dict.fromkeys(quantity_of(key) for key in keys)
    found |= dict.fromkeys(key for marked in marks.values() for key in marked)
    shown = [quantity for quantity in found if has_numbers(quantity, runs, marks)]
    return sorted(shown, key=lambda quantity: (quantity == "loss", quantity != "accuracy"))


def has_numbers(
    quantity: str, runs: Mapping[str, Sequence[Line]], marks: Mapping[str, Mapping[str, float]]
) -> bool:
    measured = any(
        is_measured(key) and quantity_of(key) == quantity and math.isfinite(value_of(line, key))
        for lines in runs.values()
        for line in lines
        for key in line
    )
    return measured or any(
        runs[name] and math.isfinite(value_of(marked, quantity)) for name, marked in marks.items()
    )


def draw_quantity(
    axes: Axes,
    quantity: str,
    runs: Mapping[str, Sequence[Line]],
    marks: Mapping[str, Mapping[str, float]],
) -> None:
    """One panel: each run's lines, its dot and its diamond, the longest run at the bottom."""
    scale = 100.0 if in_percent(quantity) else 1.0
    hues = dict(zip(runs, COLOURS, strict=False))
    found = [Course.of(name, lines, quantity, scale) for name, lines in runs.items() if lines]
    courses = sorted(found, key=lambda course: -len(course.epochs))
    for at, course in enumerate(courses):
        for split in course.values:
            draw_line(axes, course, split, courses[at + 1 :], hues[course.name])
    final = {name: scale * value_of(marked, quantity) for name, marked in marks.items()}
    tests = [(one.kept, final.get(one.name, math.nan)) for one in courses]
    bests = [(one.kept, one.best) for one in courses]
    for places, marker in ((tests, TEST), (bests, BEST)):  # dots last: a diamond is hollow
        for at, (course, place) in enumerate(zip(courses, places, strict=True)):
            draw_point(axes, place, places[at + 1 :], hues[course.name], marker)
    axes.set_title(quantity.replace("_", " "), loc="left", fontsize=9.5, weight="bold", pad=7)
    axes.set_xlabel("epoch", fontsize=8, labelpad=3)
    quiet(axes, "y")
    give_room(axes, quantity)
    axes.set_xticks(ticks(*axes.get_xlim(), integer=True))
    axes.set_yticks(ticks(*axes.get_ylim()))
    if in_percent(quantity):
        axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 100])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))


class Course(NamedTuple):
    """One quantity of one run: its numbers on each split, and those of the weights kept."""

    name: str
    epochs: list[int]
    values: dict[str, Float[np.ndarray, "n"]]
    kept: int  # the epoch
    best: float  # on validation; NaN where nothing says which epoch that was

    @classmethod
    def of(cls, name: str, lines: Sequence[Line], quantity: str, scale: float) -> Course:
        epochs = [epoch_of(line, number) for number, line in enumerate(lines, start=1)]
        values = {
            split: scale * np.array([value_of(line, metric(split, quantity)) for line in lines])
            for split in splits(lines, quantity)
        }
        if (row := best_epoch(lines)) is None:
            return cls(name, epochs, values, epochs[-1], math.nan)
        best = scale * value_of(lines[row], metric("validation", quantity))
        return cls(name, epochs, values, epochs[row], best)


def draw_line(axes: Axes, course: Course, split: str, above: Sequence[Course], colour: str) -> None:
    """One figure over the epochs, wider where others lie on it; a lone number is a point."""
    epochs, values = course.epochs, course.values[split]
    main = split == "validation"
    tone = colour if main else tuple(1 - 0.6 * (1 - part) for part in to_rgb(colour))
    style: dict[str, Any] = {"color": tone, "zorder": 3 if main else 2}  # paler, not transparent
    dashes, thick = DASHES.get(split, OTHER_DASHES), 1.6 if main else 1.2
    covered = sum(
        (lies_on(other, course, split) for other in above), start=np.zeros(len(epochs), int)
    )
    for count in range(max(covered), 0, -1):
        wide = thick + WIDER * count
        look = dashes if dashes == "-" else (0, [part * thick / wide for part in dashes[1]])
        hidden = np.where(covered >= count, values, np.nan)
        axes.plot(epochs, hidden, linestyle=look, linewidth=wide, solid_capstyle="butt", **style)
    axes.plot(epochs, values, linestyle=dashes, linewidth=thick, **style)
    there = np.isfinite(np.concatenate(([np.nan], values, [np.nan])))
    alone = there[1:-1] & ~there[:-2] & ~there[2:]
    sign, size = ("o", 3) if main else ("_", 7)
    axes.plot(
        np.asarray(epochs)[alone], values[alone], sign, markersize=size, clip_on=False, **style
    )


def lies_on(upper: Course, lower: Course, split: str) -> Int[np.ndarray, "n"]:
    """1 at every epoch of the lower run where the upper one has the same number, else 0."""
    theirs = dict(zip(upper.epochs, upper.values.get(split, ()), strict=False))
    own = zip(lower.epochs, lower.values[split], strict=True)
    return np.array([int(same(value, theirs.get(epoch, math.nan))) for epoch, value in own])


def same(one: float, other: float) -> bool:
    """Whether no eye can part them in a picture."""
    return math.isclose(one, other, rel_tol=2e-3)


def draw_point(
    axes: Axes,
    place: tuple[int, float],
    above: Sequence[tuple[int, float]],
    colour: str,
    marker: dict[str, Any],
) -> None:
    """A dot or a diamond, whole even at the end of an axis; nothing where there is no number.

    It is larger where others lie on it.
    """
    epoch, value = place
    if math.isfinite(value):
        covered = sum(epoch == other[0] and same(value, other[1]) for other in above)
        look = {**marker, "markersize": marker["markersize"] + 2 * WIDER * covered}
        axes.plot(epoch, value, markeredgecolor=colour, color=colour, clip_on=False, **look)


def give_room(axes: Axes, quantity: str) -> None:
    """Whole epochs on the axis, never more than 100%, and some height where all is equal."""
    low, high = axes.dataLim.intervalx
    if low == high:
        axes.set_xlim(low - 0.5, high + 0.5)
    else:
        axes.set_xlim(low, high + 0.015 * (high - low))
    low, high = axes.dataLim.intervaly
    room = max(0.06 * (high - low), 1e-3 * max(abs(low), abs(high)), 1e-6)
    room = max(room, 0.5) if in_percent(quantity) else room
    bottom, top = low - room, high + room
    if in_percent(quantity):
        bottom, top = max(bottom, -0.8), min(top, 100.8)
    axes.set_ylim(bottom, top)


def ticks(low: float, high: float, *, integer: bool = False) -> list[float]:
    """About six round numbers between the ends."""
    found = MaxNLocator(6, integer=integer, min_n_ticks=1).tick_values(low, high)
    return [float(tick) for tick in found if low <= tick <= high]


# The legend: signs with their words, in as many rows as they need.


class Sign(NamedTuple):
    """A piece of line or a marker, and what it stands for."""

    words: str
    colour: str
    dashes: Any = "-"
    marker: Mapping[str, Any] = MappingProxyType({})  # in place of a line


def signs(
    runs: Mapping[str, Sequence[Line]],
    marks: Mapping[str, Mapping[str, float]],
    panels: Sequence[str],
) -> list[list[Sign]]:
    """The runs by their colours, and below them what dashes, dots and diamonds mean."""
    names = (fitting(name, LONGEST) for name in runs)
    colours = [Sign(name, colour) for name, colour in zip(names, COLOURS, strict=False)]
    found = dict.fromkeys(
        split for lines in runs.values() for quantity in panels for split in splits(lines, quantity)
    )
    kinds = [
        Sign(split, MUTED, DASHES.get(split, OTHER_DASHES))
        for split in sorted(found, key=lambda split: split != "validation")
    ]
    chosen = dict.fromkeys(key for key in map(deciding_key, runs.values()) if key)
    if chosen:
        words = " or ".join(quantity_of(key).replace("_", " ") for key in chosen)
        kinds.append(Sign(f"best validation {words}", MUTED, marker=BEST))
    if any(quantity in marked for marked in marks.values() for quantity in panels):
        kinds.append(Sign("test, with the weights kept", MUTED, marker=TEST))
    return [colours, kinds]


def legend_rows(groups: Sequence[Sequence[Sign]]) -> list[list[tuple[float, Sign]]]:
    """Each sign with its place from the left, in inches; a group starts a new row."""
    rows: list[list[tuple[float, Sign]]] = []
    for group in groups:
        x = math.inf
        for sign in group:
            wide = before(sign) + inches(sign.words) + 0.22
            if x + wide > WIDTH:
                rows.append([])
                x = 0.22
            rows[-1].append((x, sign))
            x += wide
    return rows


def before(sign: Sign) -> float:
    """Inches from the start of a sign to its words."""
    return 0.2 if sign.marker else 0.31


def draw_legend(page: Page, rows: Sequence[Sequence[tuple[float, Sign]]]) -> None:
    for number, row in enumerate(rows):
        y = 0.62 + 0.24 * number
        for x, sign in row:
            page.words(x + before(sign), y + 0.04, sign.words, va="baseline", color=INK)
            ends = [x + 0.08] if sign.marker else [x, x + 0.24]
            style = {"color": sign.colour, "linestyle": sign.dashes, **sign.marker}
            places = [end / WIDTH for end in ends], [1 - y / page.height] * len(ends)
            page.figure.add_artist(Line2D(*places, linewidth=1.8, **style))


def fitting(words: str, room: float, **font: Any) -> str:
    """Words on one line, without their middle if they are wider than so many inches."""
    words = " ".join(words.split())
    if inches(words, **font) <= room:
        return words

    def ends(kept: int) -> str:
        return f"{words[: -(-kept // 2)]}…{words[len(words) - kept // 2 :]}"

    too_many = bisect_right(range(len(words)), room, key=lambda kept: inches(ends(kept), **font))
    return ends(max(0, too_many - 1))


# What a line of metrics says.


def splits(lines: Sequence[Line], quantity: str) -> list[str]:
    """The images a quantity was measured on, such as train and validation."""
    keys = dict.fromkeys(key for line in lines for key in line if is_measured(key))
    return [split_of(key) for key in keys if quantity_of(key) == quantity]


def value_of(line: Mapping[str, float | int], key: str) -> float:
    """The number, or NaN where there is none."""
    value = line.get(key, math.nan)
    return float(value) if isinstance(value, float | int) else math.nan


def epoch_of(line: Line, number: int) -> int:
    epoch = value_of(line, "epoch")
    return int(epoch) if math.isfinite(epoch) else number


def deciding_key(lines: Sequence[Line]) -> str | None:
    """What the best epoch is the best in: the first figure of validation, as training has it."""
    return deciding(key for line in lines for key in line)


def best_epoch(lines: Sequence[Line]) -> int | None:
    """The row whose weights were kept: the last that says so, else the best, earliest of equals."""
    marked = [row for row, line in enumerate(lines) if line.get("is_best") is True]
    if marked:
        return marked[-1]
    if (key := deciding_key(lines)) is None:
        return None
    sign = -1 if lower_is_better(key) else 1
    values = [sign * value_of(line, key) for line in lines]
    there = [row for row, value in enumerate(values) if math.isfinite(value)]
    return max(there, key=lambda row: values[row]) if there else None


def in_percent(quantity: str) -> bool:
    return quantity.endswith("accuracy") or quantity in ("top5", "true_captions")
