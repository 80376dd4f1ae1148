"""What watching a model costs."""

from results_page.cells import table
from results_page.origins import origin
from results_page.records import by_device


def watching() -> list[str]:
    """Every layer watched, or the last alone, beside none."""
    found = by_device("bench-watch")
    rows = []
    for machine, facts in found.items():
        for row in facts["rows"]:
            seconds = row["seconds"]
            more = [
                f"{seconds[name] / seconds['plain'] - 1:+.1%}" if name in seconds else ""
                for name in CONTENDERS
            ]
            cells = [machine, row["model"], row["batch"], row["pass"]]
            rows.append([*cells, f"{1e3 * seconds['plain']:.1f}", *more])
    if not rows:
        return []
    head = ["machine", "ViT", "batch", "pass", "unwatched, ms", "all layers", "the last layer"]
    line = " ".join(map(origin, found.values()))
    return ["### What watching costs", WATCHING, table(head, rows), line]


CONTENDERS = ("watched", "last layer watched")
WATCHING = (
    "`watch` keeps references and computes nothing. But memory that is kept cannot be used again: "
    "a watched forward pass without gradients needs fresh memory for each layer. The commands of "
    "regard ask the C library to keep freed memory "
    "(`regard.hardware.memory.keep_freed_memory()`), so this costs little. "
    "Watching only the layers of interest avoids it."
)
