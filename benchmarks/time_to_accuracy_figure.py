"""Accuracy against seconds of training, a panel a subject and a line a seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.sparse_figure import round_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (2, 1.5)))  # by the order of the contenders


def draw(facts: Mapping[str, Any], path: Path) -> Figure:
    """One panel beside another, with the goal as a level line."""
    import matplotlib
    from matplotlib.figure import Figure

    from regard.visualization.figures import INK, MUTED, STYLE, WIDTH

    rows = facts["rows"]
    about = (
        f"{facts['device']}, torch {facts['torch']}, transformers "
        f"{facts['versions']['transformers']}. A line a seed; a dot where the goal is first met."
    )
    with matplotlib.rc_context({**STYLE, "axes.labelcolor": INK}):
        page = Figure((WIDTH, 3.6))
        page.text(0.012, 0.965, "How long until it is right", fontsize=13, weight="bold", va="top")
        page.text(0.012, 0.875, about, color=MUTED, fontsize=8, va="top")
        axes = page.subplots(1, len(rows), squeeze=False)[0]
        for each, row in zip(axes, rows, strict=True):
            draw_panel(each, row)
        axes[0].set_ylabel("right on validation")
        names, lines = list(rows[0]["runs"]), axes[0].get_lines()
        shown = [next(x for x in lines if x.get_label() == name) for name in names]
        page.legend(shown, names, loc="lower center", ncols=len(names), frameon=False)
        page.subplots_adjust(left=0.085, right=0.985, top=0.72, bottom=0.235, wspace=0.16)
        page.savefig(path, dpi=160)
    return page


def draw_panel(axes: Axes, row: Mapping[str, Any]) -> None:
    """The courses of one subject. Time is on a logarithmic axis, for some take ten times longer."""
    from matplotlib.ticker import PercentFormatter

    from regard.visualization.figures import HUES, MUTED, quiet

    for (who, runs), colour, dashes in zip(row["runs"].items(), HUES[:3], DASHES, strict=True):
        for at, run in enumerate(runs):
            seconds = [point[0] for point in run["points"]]
            right = [point[2] for point in run["points"]]
            label = who if at == 0 else "_"
            axes.plot(seconds, right, color=colour, linestyle=dashes, linewidth=1.2, label=label)
            if run["reached"] is not None:
                axes.plot(seconds[-1], right[-1], "o", color=colour, markersize=4)
    axes.axhline(row["goal"], color=MUTED, linewidth=0.7, zorder=0)
    axes.set(xscale="log", xlabel="seconds of training")
    low = min(0.9 * row["goal"], row["goal"] - 0.1)
    axes.set_ylim(max(0.0, low - 0.1), min(1.0, row["goal"] + 0.04))
    marks = round_numbers(*axes.get_xlim())
    axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_title(f"{row['goal']:.0%} on {row['recipe']}", loc="left", fontsize=9, pad=6)
    quiet(axes)
