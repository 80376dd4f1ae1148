"""Accuracy against time on CIFAR-10: seconds to a goal, what compiling took, and the picture.

A course has [seconds since the first batch, accuracy on validation] after each epoch. Its seconds
include compiling, capturing CUDA graphs and evaluation; the picture leaves out compiling, which
depends on what was compiled before.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from regard.runs.recipe import recipes
from regard.tasks.classify.config import ClassifyConfig
from regard.visualization.figures import INK, MUTED, STYLE, WIDTH, Page
from results_page.records import RESULTS, Facts, runs_of

GOALS = (0.90, 0.94, 0.95)
PATCHES, STEMS = "patches alone", "small stems"
Course = Sequence[Sequence[float]]

PICTURE = "courses-cifar10"
COLOURS = {PATCHES: "#0072b2", STEMS: "#b35c00"}  # which differ in lightness too
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (2, 1.5)), "-.")  # one a recipe of a board
# Where words stand: above the left of the first run to get there, or below the right of the last.
BESIDE: dict[str, dict[str, Any]] = {
    STEMS: {"xytext": (-4, 3), "textcoords": "offset points", "va": "bottom", "ha": "right"},
    PATCHES: {"xytext": (4, -3), "textcoords": "offset points", "va": "top", "ha": "left"},
}
CLEAR = withStroke(linewidth=2.5, foreground="white")  # lines beneath do not reach the words
TICKS = (0.2, 0.5, 0.7, 0.8, 0.85, 0.9, 0.94, 0.95, 0.96, 0.97)


def with_courses() -> Iterator[tuple[str, Facts]]:
    """The recorded runs on CIFAR-10 that tell how they went, and the board of each."""
    for facts in runs_of("classify"):
        if facts["data"] == "cifar10" and all(run.get("course") for run in facts["runs"]):
            yield board_of(facts), facts


def board_of(facts: Facts) -> str:
    """By the stem: a ViT that cuts patches out, or a model that begins with convolutions."""
    config = recipes("classify")[facts["recipe"]].config(ClassifyConfig)
    changed = dict(re.findall(r"--(kind|model\.stem) (\S+)", facts["command"]))
    if changed.get("kind", config.kind) == "davit":
        return STEMS
    return PATCHES if changed.get("model.stem", config.model.stem) == "patch" else STEMS


def seconds_to(course: Course, goal: float) -> float | None:
    """When the accuracy is first as high, at the end of an epoch; None where it never is."""
    return next((seconds for seconds, seen in course if seen >= goal), None)


def compiling(course: Course) -> float:
    """What the first epoch took more than the others: compiling, and capturing CUDA graphs."""
    return course[0][0] - median(later[0] - before[0] for before, later in pairwise(course))


def uncompiled(facts: Facts) -> list[Course]:
    """The courses of a recipe's runs as if nothing had to be compiled."""
    courses = [run["course"] for run in facts["runs"]]
    return [[(seconds - compiling(one), seen) for seconds, seen in one] for one in courses]


def images_per_second(course: Course, images: int) -> float:
    """Of the epochs after the first, evaluation included."""
    return images * (len(course) - 1) / (course[-1][0] - course[0][0])


def draw(path: Path = RESULTS / f"{PICTURE}.png") -> Figure:
    """Accuracy on validation against seconds, a line a seed."""
    found = list(with_courses())
    about = (
        "Each line is a run, evaluated after every epoch or every few. Seconds count from its "
        "first batch, without compiling;\nthose written out are means over seeds. The axis is "
        "stretched: halving the error is the same step everywhere."
    )
    with matplotlib.rc_context({**STYLE, "axes.labelcolor": INK}):
        page = Page(4.6)
        page.title(0.22, "CIFAR-10: accuracy on validation against time")
        page.words(0.22, 0.52, about, fontsize=8)
        axes = page.axes(0.62, 1.02, WIDTH - 0.84, 3.06)
        dashes = {board: iter(DASHES) for board in COLOURS}
        for board, facts in found:
            draw_runs(axes, board, facts, next(dashes[board]))
        finish(axes, max(run[-1][0] for _, facts in found for run in uncompiled(facts)))
        # Runs end in the upper right; a slow one begins on the left.
        axes.legend(loc="lower right", frameon=False, fontsize=8, labelcolor="linecolor")
        return page.saved(path)


def draw_runs(axes: Axes, board: str, facts: Facts, dashes: Any) -> None:
    """The seeds of one recipe; where all of them reach a goal, their mean time to it."""
    colour = COLOURS[board]
    courses = uncompiled(facts)
    for course in courses:
        axes.plot(*zip(*course, strict=True), color=colour, linestyle=dashes, linewidth=1.3)
    for goal in GOALS:
        reached = [seconds for one in courses if (seconds := seconds_to(one, goal)) is not None]
        for seconds in reached:
            axes.plot(seconds, goal, "o", color=colour, markersize=4)
        if len(reached) == len(courses):
            at = (min if board == STEMS else max)(reached)
            told = axes.annotate(f"{fmean(reached):.0f} s", (at, goal), **BESIDE[board])
            told.set(color=colour, fontsize=8, path_effects=[CLEAR])
    words = f"{facts['recipe']}, {facts['parameters'] / 1e6:.2g} million parameters ({board})"
    axes.plot([], [], color=colour, linestyle=dashes, linewidth=1.3, label=words)


def finish(axes: Axes, longest: float) -> None:
    """Axes and goals. The error is on a logarithmic scale, with the smallest at the top."""
    axes.set_yscale(
        "function",
        functions=(lambda x: -np.log(np.maximum(1 - x, 1e-9)), lambda y: 1 - np.exp(-y)),
    )
    axes.set(xlim=(0, 1.04 * longest), ylim=(0.15, 0.975), xlabel="seconds since the first batch")
    axes.set_yticks(TICKS, [f"{tick:.0%}" for tick in TICKS])
    marks = range(0, int(1.04 * longest) + 1, 30 if longest < 400 else 60)
    axes.set_xticks(marks, [str(mark) for mark in marks])
    axes.minorticks_off()
    for goal in GOALS:
        axes.axhline(goal, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
    axes.tick_params(color="#c3ccd6", labelsize=8)
    axes.grid(axis="x", color="#e9edf2", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
