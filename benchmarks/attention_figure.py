"""Fused, plain and torch's own attention against n, a panel a pattern."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from benchmarks.sparse_figure import round_numbers, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKERS = {"plain": "s", "torch": "^", "fused": "o"}
LEFT, BETWEEN, RIGHT = 0.62, 0.16, 0.12  # inches
TOP, TALL, BELOW = 1.36, 2.2, 0.5
SHARE = 0.66  # of a panel's width that its lines take; the rest is for their names


def draw(facts: Mapping[str, Any], path: Path) -> Figure:
    """Milliseconds against n on logarithmic axes that all patterns share, each line named."""
    import matplotlib

    from regard.visualization.figures import STYLE, WIDTH, Page

    rows = facts["rows"]
    patterns = list(dict.fromkeys(row["pattern"] for row in rows))
    wide = (WIDTH - LEFT - RIGHT - BETWEEN * (len(patterns) - 1)) / len(patterns)
    times = [1e3 * seconds for row in rows for seconds in row["both"].values()]
    with matplotlib.rc_context(STYLE):
        page = Page(TOP + TALL + BELOW)
        page.title(0.22, "Attention: fused, plain and by torch")
        page.words(0.22, 0.52, about(facts), fontsize=8)
        for at, pattern in enumerate(patterns):
            axes = page.axes(LEFT + at * (wide + BETWEEN), TOP, wide, TALL)
            axes.set(xscale="log", yscale="log", ylim=(min(times) / 1.5, 1.5 * max(times)))
            draw_panel(axes, [row for row in rows if row["pattern"] == pattern])
            axes.set_title(fill(pattern, 20), loc="left", fontsize=9, weight="bold", pad=6)
            if at == 0:
                axes.set_ylabel("ms, forward + backward")
            else:
                axes.tick_params(labelleft=False)
        return page.saved(path)


def about(facts: Mapping[str, Any]) -> str:
    return (
        f"{facts['device']}, {facts['dtype']}, batch {facts['batch']}, {facts['heads']} heads of "
        f"{facts['head_width']}, torch {facts['torch']}.\n"
        "Fused is attend_fused, plain is attend, torch is scaled_dot_product_attention."
    )


def draw_panel(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """A line a contender, as far as it was measured."""
    from regard.visualization.figures import GREY, HUES, MUTED, quiet
    from regard.visualization.labels import Named, name_ends

    sizes = [row["m"] for row in rows]
    across = math.log(sizes[-1] / sizes[0]) / SHARE or 1.0
    axes.set_xlim(sizes[0] * math.exp(-0.05 * across), sizes[0] * math.exp(0.95 * across))
    axes.set_xticks(sizes, [short(m) for m in sizes])
    marks = round_numbers(*axes.get_ylim())
    axes.set_yticks(marks, [f"{mark:,.10g}" for mark in marks])
    axes.minorticks_off()
    axes.set_xlabel("tokens")
    quiet(axes)
    ends = []
    for (name, marker), colour in zip(MARKERS.items(), (GREY, HUES[1], HUES[0]), strict=True):
        seen = [(row["m"], 1e3 * row["both"][name]) for row in rows if name in row["both"]]
        if seen:
            axes.plot(
                *zip(*seen, strict=True), color=colour, marker=marker, markersize=4, linewidth=1.4
            )
            ends.append(Named(*seen[-1], name, MUTED if colour == GREY else colour))
    name_ends(axes, ends)
