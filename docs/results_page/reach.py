"""Time to an accuracy, beside transformers' Trainer."""

from results_page.cells import table
from results_page.origins import origin
from results_page.records import DEVICES, Facts, read, recorded


def reached() -> list[str]:
    """One table a machine."""
    parts: list[str] = []
    for device, words in DEVICES.items():
        name = f"bench-reach-{device}"
        if recorded(name):
            parts += [f"### Time to an accuracy on {words}", *measured(read(name), name)]
    return parts


def measured(facts: Facts, name: str) -> list[str]:
    rows = [cells for row in facts["rows"] for cells in lines(row)]
    limits = "; ".join(
        f"{row['recipe']}: {row['seeds']} seeds, stopped after {row['limit']:.0f} s"
        for row in facts["rows"]
    )
    return [
        f"{REACHED} ({limits}).",
        table(["goal", "parameters", "who", "seconds (minimum … maximum)", "× time"], rows),
        f"![Accuracy against seconds of training](../results/{name}.png)",
        *(f"Left out: {each}, {why}." for each, why in facts["left_out"].items()),
        origin(facts),
    ]


def lines(row: Facts) -> list[list[str]]:
    """Everyone's time to one goal; `>` where a run that was stopped stands for its time."""
    found = []
    for who, seen in row["seconds"].items():
        time = f"{seen['median']:.1f} ({seen['low']:.1f} … {seen['high']:.1f})"
        cells = [f"{row['goal']:.0%}, `{row['recipe']}`", f"{row['parameters']:,}", who]
        found.append([*cells, "> " * seen["bound"] + time, times_as_long(row, who)])
    return found


def times_as_long(row: Facts, who: str) -> str:
    """How many times as long as regard it takes, and at least so where it was stopped."""
    ratio = row["ratio"][who]
    return "" if ratio is None else f"{'> ' * row['seconds'][who]['bound']}{ratio:.1f}"


REACHED = (
    "One model with the same first weights learns from the same images in three ways that take "
    "turns: by regard's recipe; by transformers' `Trainer` with its default arguments, but more "
    "epochs; and by the `Trainer` with the batch, learning rate and schedule of the recipe, which "
    "leaves it its own AdamW, loop and data loading. All are evaluated on the same validation "
    "images after equally many images, and the clocks stop meanwhile. *× time* is how many times "
    "as long as regard it takes. Times are medians over seeds, because some runs were stopped "
    "before they got there"
)
