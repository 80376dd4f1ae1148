"""What stands in a table: figures with their spread, times, and the table itself."""

from typing import Any

from results_page.records import Facts


def table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def right_on_test(facts: Facts) -> str:
    """Accuracy with its spread: over seeds, or of one seed over the choice of images."""
    runs = facts["runs"]
    if len(runs) > 1:
        return f"{facts['mean']:.2%} ± {facts['deviation']:.2%} ({len(runs)} seeds)"
    seen = runs[0]["figures"]["accuracy"]
    return f"{seen['value']:.2%} ({seen['low']:.1%} to {seen['high']:.1%}, one seed)"


def figure(intervals: list[dict[str, float] | None], scale: int = 100, digits: int = 1) -> str:
    known = [interval for interval in intervals if interval is not None]
    if not known:
        return ""
    value, low, high = (scale * known[0][key] for key in ("value", "low", "high"))
    if len(known) > 1:
        values = [scale * interval["value"] for interval in known]
        value, low, high = sum(values) / len(values), min(values), max(values)
    seeds = f", {len(known)} seeds" if len(known) > 1 else ""
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f}{seeds})"


def ranged(values: list[float]) -> str:
    """The mean of shares, and if there are several the least and the greatest."""
    mean = f"{sum(values) / len(values):.1%}"
    return mean + (f" ({min(values):.1%} to {max(values):.1%})" if len(values) > 1 else "")


def spread(seen: dict[str, float]) -> str:
    return f"{seen['mean']:.1%} ({seen['low']:.1%} to {seen['high']:.1%})"


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def signed(gain: dict[str, float]) -> str:
    value, low, high = (100 * gain[name] for name in ("value", "low", "high"))
    return f"{value:+.1f} ({low:+.1f} to {high:+.1f})"


def exponent(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def rate(value: float) -> str:
    """So many a second, in three digits or as a whole number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2f}"


def lasting(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
