"""How runs learned, epoch by epoch: one panel a quantity, one colour a run.

    curves_figure({"10 epochs": ten, "30 epochs": thirty}, Path("curves.png"), title="CIFAR-10")
    gap(thirty).difference    how much better it is on images it has learned from

A run's lines are those of its metrics.jsonl: `epoch`, and figures such as `train.accuracy` and
`validation.accuracy`, the word after the dot being the quantity and the one before it the images
it was measured on.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from regard.look.figures import INK, MUTED, UNREAD, WIDTH, Page, drawing, inches

# Told apart by every kind of colour vision (the nearest two differ by 17 in CIELAB), on white.
COLOURS = ("#1f5fa8", "#d55e00", "#009e73", "#cc79a7", "#1b1f24", "#e69f00", "#aa3377", "#7a3b00")
DASHES: dict[str, Any] = {"validation": "-", "train": (0, (4, 1.6))}
OTHER_DASHES: Any = (0, (1, 1.4))
BEST: dict[str, Any] = {"marker": "o", "markersize": 4.2, "zorder": 6}
TEST: dict[str, Any] = {
    **{"marker": "D", "markersize": 6.0, "zorder": 5},
    **{"markerfacecolor": "white", "markeredgewidth": 1.5},
}
SMALLER_IS_BETTER = ("loss", "error", "perplexity")

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
    """The deciding figure in training less that in validation, at the last epoch with both."""
    key = deciding_key(lines) or "validation.accuracy"
    if quantity_of(key) in SMALLER_IS_BETTER:
        key = "validation.accuracy"
    for number, line in reversed(list(enumerate(lines, start=1))):
        train, held_out = value_of(line, f"train.{quantity_of(key)}"), value_of(line, key)
        if math.isfinite(train - held_out):
            return Gap(train, held_out, train - held_out, epoch_of(line, number))
    raise ValueError(
        f"a gap lies between train.{quantity_of(key)} and {key}, and none of {len(lines)} "
        "lines has both"
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
    best validation, the one whose weights are kept; `marks` are final figures by run and
    quantity, `{"10 epochs": {"accuracy": 0.83}}`, as diamonds at the run's last epoch.
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
    keys = [key for lines in runs.values() for line in lines for key in line if "." in key]
    found = dict.fromkeys(quantity_of(key) for key in keys)
    found |= dict.fromkeys(key for marked in marks.values() for key in marked)
    shown = [quantity for quantity in found if has_numbers(quantity, runs, marks)]
    return sorted(shown, key=lambda quantity: (quantity == "loss", quantity != "accuracy"))


def has_numbers(
    quantity: str, runs: Mapping[str, Sequence[Line]], marks: Mapping[str, Mapping[str, float]]
) -> bool:
    measured = any(
        quantity_of(key) == quantity and math.isfinite(value_of(line, key))
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
    """One panel: each run's lines, its dot and its diamond."""
    scale = 100.0 if in_percent(quantity) else 1.0
    for colour, (name, lines) in zip(COLOURS, runs.items(), strict=False):
        if not lines:
            continue
        epochs = [epoch_of(line, number) for number, line in enumerate(lines, start=1)]
        for split in splits(lines, quantity):
            values = scale * np.array([value_of(line, f"{split}.{quantity}") for line in lines])
            draw_line(axes, epochs, values, colour, split)
        draw_point(axes, epochs[-1], scale * value_of(marks.get(name, {}), quantity), colour, TEST)
        if (best := best_epoch(lines)) is not None:
            value = scale * value_of(lines[best], f"validation.{quantity}")
            draw_point(axes, epochs[best], value, colour, BEST)  # last: a diamond is hollow
    axes.set_title(quantity, loc="left", fontsize=9.5, weight="bold", pad=7)
    axes.set_xlabel("epoch", fontsize=8, labelpad=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=MUTED, labelsize=8, length=2.5, width=0.6)
    axes.grid(axis="y", color=UNREAD, linewidth=0.7)
    axes.set_axisbelow(True)
    give_room(axes, quantity)
    axes.set_xticks(ticks(*axes.get_xlim(), integer=True))
    axes.set_yticks(ticks(*axes.get_ylim()))
    if in_percent(quantity):
        axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= 100])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}%"))


def draw_line(
    axes: Axes, epochs: Sequence[int], values: Float[np.ndarray, "n"], colour: str, split: str
) -> None:
    """One figure over the epochs; a number between two that are missing is a point."""
    main = split == "validation"
    style: dict[str, Any] = {"color": colour, "zorder": 3 if main else 2}
    style["alpha"] = 1.0 if main else 0.6
    dashes, thick = DASHES.get(split, OTHER_DASHES), 1.6 if main else 1.2
    axes.plot(epochs, values, linestyle=dashes, linewidth=thick, **style)
    there = np.isfinite(np.concatenate(([np.nan], values, [np.nan])))
    alone = there[1:-1] & ~there[:-2] & ~there[2:]
    sign, size = ("o", 3) if main else ("_", 7)
    axes.plot(
        np.asarray(epochs)[alone], values[alone], sign, markersize=size, clip_on=False, **style
    )


def draw_point(axes: Axes, epoch: int, value: float, colour: str, marker: dict[str, Any]) -> None:
    """A dot or a diamond, whole even at the end of an axis; nothing where there is no number."""
    if math.isfinite(value):
        axes.plot(epoch, value, markeredgecolor=colour, color=colour, clip_on=False, **marker)


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
    deciding = dict.fromkeys(key for key in map(deciding_key, runs.values()) if key)
    if deciding:
        words = " or ".join(quantity_of(key) for key in deciding)
        kinds.append(Sign(f"best validation {words}", MUTED, marker=BEST))
    if any(quantity in marked for marked in marks.values() for quantity in panels):
        kinds.append(Sign("test", MUTED, marker=TEST))
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


def quantity_of(key: str) -> str:
    return key.partition(".")[2]


def splits(lines: Sequence[Line], quantity: str) -> list[str]:
    """The images a quantity was measured on, such as train and validation."""
    keys = dict.fromkeys(key for line in lines for key in line if quantity_of(key) == quantity)
    return [key.partition(".")[0] for key in keys]


def value_of(line: Mapping[str, float | int], key: str) -> float:
    """The number, or NaN where there is none."""
    value = line.get(key, math.nan)
    return float(value) if isinstance(value, float | int) else math.nan


def epoch_of(line: Line, number: int) -> int:
    epoch = value_of(line, "epoch")
    return int(epoch) if math.isfinite(epoch) else number


def deciding_key(lines: Sequence[Line]) -> str | None:
    """What the best epoch is the best in: the first figure of validation, as training has it."""
    return next((key for line in lines for key in line if key.startswith("validation.")), None)


def best_epoch(lines: Sequence[Line]) -> int | None:
    """The row whose weights were kept: the last that says so, else the best, earliest of equals."""
    said = [row for row, line in enumerate(lines) if line.get("best") is True]
    if said:
        return said[-1]
    if (key := deciding_key(lines)) is None:
        return None
    sign = -1 if quantity_of(key) in SMALLER_IS_BETTER else 1
    values = [sign * value_of(line, key) for line in lines]
    there = [row for row, value in enumerate(values) if math.isfinite(value)]
    return max(there, key=lambda row: values[row]) if there else None


def in_percent(quantity: str) -> bool:
    return quantity.endswith("accuracy") or quantity in ("top5", "true")
