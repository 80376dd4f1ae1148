"""What stands in a table: figures with their spread, times, and the table itself."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from results_page.records import Facts, Interval, seconds_of, shared

SPREAD = "One seed: 95% interval. Several seeds: mean (minimum to maximum)."
SHARED_GPU = "† The GPU was shared with other runs, so the time is too long."


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def turned(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> str:
    """A table with a column for each record, where there are more figures than records."""
    head, *rows = zip(names, *columns, strict=True)
    return table(head, rows)


def folded(summary: str, *parts: str) -> list[str]:
    """Parts that open at a click."""
    return [f"<details>\n<summary>{summary}</summary>", *parts, "</details>"]


def code(words: str) -> str:
    """Words as they are typed; a bar would end the cell."""
    return f"`{words}`".replace("|", "\\|")


def between(value: float, low: float, high: float, digits: int = 1, unit: str = "") -> str:
    """A figure and what it lies between."""
    middle, least, most = (f"{number:.{digits}f}{unit}" for number in (value, low, high))
    return f"{middle} ({least} to {most})"


def spread(
    found: Sequence[Interval | None], digits: int = 1, scale: float = 100, unit: str = ""
) -> str:
    """One seed with its 95% interval, where it has one; of several mean, minimum and maximum."""
    known = [interval for interval in found if interval is not None]
    values = [scale * interval["value"] for interval in known]
    if not known:
        return ""
    if len(known) > 1:
        return between(fmean(values), min(values), max(values), digits, unit)
    if "low" not in known[0]:
        return f"{values[0]:.{digits}f}{unit}"
    return between(values[0], scale * known[0]["low"], scale * known[0]["high"], digits, unit)


def percent(found: Sequence[Interval | None], digits: int = 1) -> str:
    return spread(found, digits, unit="%")


def middle(seen: Interval, digits: int = 1, scale: float = 100, unit: str = "%") -> str:
    """A mean that was recorded with its minimum and maximum."""
    value, low, high = (scale * seen[name] for name in ("mean", "low", "high"))
    return between(value, low, high, digits, unit)


def with_quartiles(value: str, low: str, high: str) -> str:
    return f"{value} ({low} … {high})"


def rate(value: float) -> str:
    """So many a second, in three digits or as a whole number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2f}"


def lasting(seconds: float) -> str:
    """Seconds, or minutes where they are many."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 600 else f"{seconds / 60:.0f} min"


def took(facts: Facts) -> str:
    """How long training took, the mean over seeds, marked where the GPU was shared."""
    return f"{lasting(seconds_of(facts))}{'†' * shared(facts)}"


def epochs(facts: Facts) -> int:
    return int(facts["runs"][0]["epochs"])


def basics(facts: Facts) -> dict[str, str]:
    """What is said of every recorded run beside its figures."""
    return {
        "parameters": f"{facts['parameters']:,}",
        "seeds": f"{len(facts['runs'])}",
        "epochs": f"{epochs(facts)}",
        "time": took(facts),
    }
