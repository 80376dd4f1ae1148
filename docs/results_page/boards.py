"""The boards of CIFAR-10: how accurate, how soon, and how small."""

from statistics import fmean

from results_page.cells import right_on_test, table
from results_page.courses import (
    GOALS,
    PATCHES,
    PICTURE,
    STEMS,
    images_per_second,
    once,
    seconds_to,
    with_courses,
)
from results_page.records import Facts, made_on, runs_of

SIZES = (0.15, 0.3, 1.0, 4.0)  # millions of parameters


def boards() -> list[str]:
    """Both boards with their picture, and the best of each size."""
    found = list(with_courses())
    if not found:
        return []
    head = ["command", "parameters", "test accuracy", *(f"to {goal:.0%}" for goal in GOALS)]
    head += ["whole time", "of which once", "images/s", "on"]
    parts = ["## Boards of CIFAR-10", BOARDS, PUBLISHED]
    for board, words in STEMMED.items():
        there = [facts for which, facts in found if which == board]
        if there:
            parts += [f"### {board.capitalize()}", words, table(head, [*map(board_row, there)])]
            parts += [f"`{each['recipe']}`: {each['note']}" for each in there if "note" in each]
    parts.append(
        f"![Accuracy on validation against seconds since the first batch](../results/{PICTURE}.png)"
    )
    return [*parts, *by_size()]


def board_row(facts: Facts) -> list[str]:
    courses = [run["course"] for run in facts["runs"]]
    # A line of a course is an epoch, or a few where it was measured after every few.
    images = [facts["parts"][0] * run["epochs"] / len(run["course"]) for run in facts["runs"]]
    rate = fmean(map(images_per_second, courses, images))
    return [
        f"`{facts['command']}`",
        f"{facts['parameters']:,}",
        right_on_test(facts),
        *(time_to([seconds_to(course, goal) for course in courses]) for goal in GOALS),
        f"{fmean(course[-1][0] for course in courses):.0f} s",
        f"{fmean(map(once, courses)):.0f} s",
        f"{rate:,.0f}",
        made_on(facts),
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
            cells = right_on_test(best), f"{best['parameters']:,}", f"`{best['command']}`"
            row = [row[0], *cells]
        rows.append(row)
    head = ["fewer than", "best test accuracy", "parameters", "command"]
    return ["### By size", BY_SIZE, table(head, rows)]


BOARDS = (
    "How soon a model gets to 90, 94 and 95%. That is its accuracy on validation, 5,000 training "
    "images held out, after each epoch or each four; settings were chosen on the same images "
    "([what was tried](#what-was-tried)). Test was read once at the end of each run, and plays no "
    "part in the times. They count from the first batch on, with compiling, recording and "
    "measuring, and are means over the seeds that got there, blank where none did. *Of which once* "
    "is compiling and recording: what it took to the first measuring more than from one to the "
    "next, by their median. *Images/s* is that of the other epochs, with their measuring. A single "
    "seed is one draw: where there are three, they differ by some tenths of a point. Both DaViTs "
    "shared their GPU with other runs, so that their times are those of a crowd, and too long. The "
    "picture leaves compiling out."
)
PUBLISHED = (
    "Published, for comparison: ViT-Lite with 3.7 million parameters 91.4% in 200 epochs; with "
    "convolutions, CCT-2 with 0.28 million 89.2% in 200, CCT-6 with 3.2 million 94.8% in 200 and "
    "CCT-7 with 3.8 million 96.5% in 300 (SHI-Labs/Compact-Transformers); a ResNet-18 96.0% in 7 "
    "minutes on one A100 (KellerJordan/cifar10-airbench). Of how soon a ViT gets there, no public "
    "figure was found."
)
STEMMED = {
    PATCHES: "A ViT whose patches are cut out and multiplied by one matrix, without any "
    "convolution that looks around.",
    STEMS: "At most two convolutions before the first block: a ViT behind two, or a DaViT, whose "
    "stem is one. A DaViT also has depthwise convolutions of 3 × 3 in its blocks, and joins 2 × 2 "
    "tokens between its stages.",
}
BY_SIZE = (
    "The best mean on test of all runs on CIFAR-10 in `results/run-*.json`, whatever their stem. "
    "Where two rows are the same, no model between the two sizes was recorded that is better."
)
