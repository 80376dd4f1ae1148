"""Language models: how well they predict text that they have not read."""

from results_page import published
from results_page.cells import basics, spread, turned
from results_page.commands import data_name, label, split_name
from results_page.origins import origins
from results_page.records import Facts, Interval, runs_of, seen


def foretold() -> list[str]:
    """Every recorded language model."""
    found = runs_of("language")
    if not found:
        return []
    marks, line = origins(found)
    columns = [column(facts, mark) for facts, mark in zip(found, marks, strict=True)]
    return [
        "## Language models (`language`)",
        FORETOLD,
        turned(list(columns[0]), [list(each.values()) for each in columns]),
        line,
        f"{published.SHAKESPEARE}{side_by_side()}",
    ]


def column(facts: Facts, mark: str) -> dict[str, str]:
    return {
        "recipe": label(facts) + mark,
        "measured on": f"{data_name(facts)}, {split_name(facts)}",
        "loss, nats a token": spread(seen(facts, "loss"), 3, 1),
        "bits per byte": spread(seen(facts, "bits_per_byte"), 3, 1),
        "perplexity per word": spread(seen(facts, "word_perplexity"), 1, 1),
        "… line ends counted": spread(seen(facts, "word_perplexity_with_eos"), 1, 1),
        **basics(facts),
    }


def side_by_side() -> str:
    """What compares with the published figure: all of validation, measured after the last epoch."""
    losses: list[Interval | None] = [
        {"value": run["last"]["val/loss"]}
        for facts in runs_of("language")
        # Older records of other recipes measured a part of validation only.
        if facts["recipe"] == "shakespeare-large"
        for run in facts["runs"]
    ]
    if not losses:
        return ""
    return f" Measured in that way, `shakespeare-large` has {spread(losses, 3, 1)}."


FORETOLD = (
    "By `regard train language --recipe RECIPE --test`. Tiny Shakespeare has no test: its figure "
    "is on validation, which training prints without `--test`. Intervals are over blocks of the "
    "text. Windows slide by half their length, which gives a lower loss than windows side by side. "
    "WikiText-2 is cut into byte pairs, so no unknown words flatter its perplexity per word. A "
    "word is what stands between spaces; figures that are published on WikiText count the end of "
    "each line as one too, and compare with the row below."
)
