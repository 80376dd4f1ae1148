"""What `regard count` says of models on a GPU, beside what was found there."""

from typing import Any

from results_page.cells import code, folded, table
from results_page.origins import origin
from results_page.records import Facts, read, recorded

RECORD = "count-cuda"
TICK = "✓"


def counted() -> list[str]:
    """Closed forms beside three ways to measure, and estimates beside real steps."""
    if not recorded(RECORD):
        return []
    facts = read(RECORD)
    head = ["model", "parameters", "multiply-adds, G", "by operators", "by torch"]
    head += ["activations, MB", "by allocator"]
    commands = [[model(row), code(row["command"])] for row in facts["rows"]]
    made = ["model", "estimated ms a step", "real", "ratio", "estimated MB", "real", "ratio"]
    return [
        "### Counted on a GPU",
        COUNTED,
        table(head, [counts(row) for row in facts["rows"]]),
        ESTIMATED,
        table(made, [estimates(row) for row in facts["rows"]]),
        *folded("The commands", table(["model", "command"], commands)),
        origin(facts),
    ]


def counts(row: Facts) -> list[Any]:
    products, held = row["multiply_adds"], row["activations"]
    return [
        model(row),
        f"{row['parameters']['closed']:,}",
        f"{products['closed'] / 1e9:,.3f}",
        beside(products["measured"], products["closed"], 1e9, 3),
        beside(products["torch"], products["closed"], 1e9, 3),
        f"{held['closed'] / 1e6:,.1f}",
        beside(held["measured"], held["closed"], 1e6, 1),
    ]


def estimates(row: Facts) -> list[Any]:
    seen = row["estimate"]
    return [
        model(row),
        f"{1e3 * seen['seconds']:.1f}",
        f"{1e3 * seen['real']:.1f}",
        f"{seen['seconds'] / seen['real']:.2f}",
        f"{seen['bytes'] / 1e6:,.0f}",
        f"{seen['real_bytes'] / 1e6:,.0f}",
        f"{seen['bytes'] / seen['real_bytes']:.2f}",
    ]


def beside(measured: int, closed: int, unit: float, digits: int) -> str:
    """A tick for the same number; else the number, and by how much it differs."""
    if measured == closed:
        return TICK
    return f"{measured / unit:,.{digits}f} ({measured / closed - 1:+.1%})"


def model(row: Facts) -> str:
    """Its kind, and its recipe where it has one."""
    kind, *words = row["command"].removeprefix("regard count ").split()
    return " ".join([kind, *(words[1:2] if words[:1] == ["--recipe"] else [])])


COUNTED = (
    "A tick is the very same number as the closed form. Multiply-adds are those of a forward pass, "
    "in attention of the pairs that the mask lets read. *By operators* counts what is executed, by "
    "its shapes and with the mask. *By torch* is its `FlopCounterMode`, which knows no mask: where "
    "a kernel is given a causal one, it counts what the mask leaves out as well. Activations are "
    "what is kept for the backward pass, in float32."
)
ESTIMATED = (
    "The estimate of a training step with AdamW, in time and in peak memory, adds up what layers "
    "add to a model ([how](count.md#how-long-will-it-train-throughput)). Training is in bfloat16 "
    "where that serves, and holds less than the activations above. *Real* steps of the whole "
    "model took turns with it."
)
