"""What was tried: settings that were compared before one of them was kept."""

from typing import Any

from results_page.cells import table
from results_page.origins import origin
from results_page.records import Facts, named, read


def tried() -> list[str]:
    """One table a record, `results/tried-*.json`, the best of each recipe first."""
    parts: list[str] = []
    for name in named("tried-*"):
        facts = read(name)
        also = list(dict.fromkeys(key for row in facts["rows"] for key in row.get("also", {})))
        rows = sorted(facts["rows"], key=lambda row: (row["recipe"], -row["validation"]))
        seeds = "one seed" if facts["seeds"] == 1 else f"{facts['seeds']} seeds"
        head = ["recipe", "changed", "parameters", "epochs", "accuracy", *also]
        parts += [
            f"## {name.removeprefix('tried-').removesuffix('-cuda').removesuffix('-cpu')}",
            f"{facts['words']}. One row a setting, {seeds} each; accuracy on {facts['split']}.",
            table(head, [line(row, also) for row in rows]),
            *then(facts),
            origin(facts),
        ]
    return parts


def line(row: Facts, also: list[str]) -> list[Any]:
    seen = row.get("also", {})
    return [
        row["recipe"],
        ", ".join(f"`{key} = {value}`" for key, value in row["changes"].items()) or "nothing",
        f"{row['parameters']:,}",
        row["epochs"],
        f"{row['validation']:.1%}",
        *(f"{seen[key]:.1%}" if key in seen else "" for key in also),
    ]


def then(facts: Facts) -> list[str]:
    """What was measured after the choice."""
    return [
        f"{later['words']}: {later['mean']:.1%} ± {later['deviation']:.1%} "
        f"({', '.join(f'{value:.1%}' for value in later['values'])}), by `{later['command']}`."
        for later in facts.get("then", ())
    ]


TRIED = (
    "Settings that were compared before some were kept, the failures included. They were compared "
    "on held-out images or texts that no test figure of [results.md](results.md) is measured on. "
    "With one seed each, rows that differ by half a point may as well stand the other way round."
)
