"""The boards of CIFAR-10: how accurate, how soon, and how small."""

from statistics import fmean

from results_page import published
from results_page.cells import SHARED_GPU, percent, table
from results_page.commands import label
from results_page.courses import (
    GOALS,
    PATCHES,
    PICTURE,
    STEMS,
    compiling,
    images_per_second,
    seconds_to,
    with_courses,
)
from results_page.origins import origins
from results_page.records import Facts, runs_of, seen, shared

SIZES = (0.15, 0.3, 1.0, 4.0)  # millions of parameters


def boards() -> list[str]:
    """Both boards with their picture, and the best of each size."""
    found = list(with_courses())
    if not found:
        return []
    validation = found[0][1]["parts"][1]
    *first, last = (f"{goal:.0%}" for goal in GOALS)
    goals = f"{', '.join(first)} and {last}"
    parts = [
        "## CIFAR-10: accuracy against time",
        BOARDS.format(goals=goals, validation=f"{validation:,}"),
        f"![Accuracy on validation against seconds of training](../results/{PICTURE}.png)",
    ]
    for name, words in STEMMED.items():
        there = [facts for which, facts in found if which == name]
        if there:
            parts += [f"### {name.capitalize()}", words, *board(there)]
    return [*parts, *by_size(), published.CIFAR10]


def board(found: list[Facts]) -> list[str]:
    """One table, where its rows come from, and what is odd about them."""
    marks, line = origins(found)
    head = ["recipe", "parameters", "test accuracy", "seeds", *(f"to {goal:.0%}" for goal in GOALS)]
    rows = [board_row(facts, mark) for facts, mark in zip(found, marks, strict=True)]
    crowded = f" {SHARED_GPU}" if any(map(shared, found)) else ""
    return [table(head, rows), line + crowded, *map(remarks, found)]


def remarks(facts: Facts) -> str:
    """What compiling took, how fast it was then, and what is odd about the record."""
    courses = [run["course"] for run in facts["runs"]]
    # A line of a course is an epoch, or a few where it was measured after every few.
    images = [facts["parts"][0] * run["epochs"] / len(run["course"]) for run in facts["runs"]]
    speed = fmean(map(images_per_second, courses, images))
    note = f" {facts['note']}" if "note" in facts else ""
    return (
        f"{label(facts)}: {fmean(map(compiling, courses)):.0f} s of compiling, then {speed:,.0f} "
        f"images/s.{note}"
    )


def board_row(facts: Facts, mark: str) -> list[str]:
    courses = [run["course"] for run in facts["runs"]]
    return [
        label(facts) + mark + "†" * shared(facts),
        f"{facts['parameters']:,}",
        percent(seen(facts, "accuracy"), 2),
        f"{len(courses)}",
        *(time_to([seconds_to(course, goal) for course in courses]) for goal in GOALS),
    ]


def time_to(reached: list[float | None]) -> str:
    """The mean of the seeds; where some never got there, of the others, and how many they are."""
    there = [seconds for seconds in reached if seconds is not None]
    if not there:
        return ""
    some = f" ({len(there)} of {len(reached)} seeds)" if len(there) < len(reached) else ""
    return f"{fmean(there):.0f} s{some}"


def by_size() -> list[str]:
    """The best accuracy under each number of parameters, of all that was recorded."""
    runs = [facts for facts in runs_of("classify") if facts["data"] == "cifar10"]
    rows = []
    for size in SIZES:
        under = [facts for facts in runs if facts["parameters"] < 1e6 * size]
        row = [f"{size:g} million", "–", "–", "–"]
        if under:
            best = max(under, key=lambda facts: float(facts["mean"]))
            accuracy = percent(seen(best, "accuracy"), 2)
            row[1:] = [accuracy, f"{best['parameters']:,}", label(best)]
        rows.append(row)
    head = ["parameters below", "best test accuracy", "parameters", "recipe"]
    return ["### By size", BY_SIZE, table(head, rows)]


BOARDS = (
    "How soon a model reaches {goals} on validation: {validation} training images held out. "
    "Settings were chosen on the same images ([what was tried](tried.md)). The test set was read "
    "once, at the end of each run. Seconds count from the first batch and include compiling, "
    "capturing CUDA graphs and evaluation. They are means over the seeds that get there, and blank "
    "where none does. Compiling, with capturing, is the time to the first evaluation minus the "
    "median time between two; images/s and the picture leave it out."
)
STEMMED = {
    PATCHES: "A ViT on flat patches: no convolution looks beyond a patch.",
    STEMS: "At most two convolutions before the first block: a ViT behind two, or a DaViT behind "
    "one. A DaViT also has depthwise convolutions in its blocks, and merges tokens between stages.",
}
BY_SIZE = (
    "The best mean on test of all recorded runs on CIFAR-10. Where two rows are the same, no "
    "better model between the two sizes was recorded."
)
