"""Time and memory of attention at less than n², and from where on it pays."""

from benchmarks.growth import beaten
from results_page.cells import code, folded, rate, table
from results_page.origins import origin
from results_page.records import DEVICES, Facts, read, recorded


def cheaper_costs() -> list[str]:
    """One table a machine."""
    parts: list[str] = []
    for device, words in DEVICES.items():
        name = f"bench-cheaper-{device}"
        if recorded(name):
            facts = read(name)
            paths = table(PATHS, [path(facts, method) for method in facts["summary"]])
            parts += [
                f"**On {words}.** {shape(facts)}",
                f"![Time and memory against the number of tokens](../results/{name}.png)",
                table(HEAD, [row(facts, method) for method in facts["summary"]]),
                *folded("Which kernel each method took", paths),
                *left_out(facts),
                origin(facts),
            ]
    return ["### Time and memory", COSTS, *parts] if parts else []


def row(facts: Facts, method: str) -> list[str]:
    """A method at the largest size of which both passes were measured, and how it grows."""
    told, last, ratio = facts["summary"][method], largest(facts, method), ""
    if told["times_full"] and method != "full":
        ratio = f"{told['times_full']['ratio']:.1f} at {told['times_full']['n']:,}"
    return [
        method,
        f"{last['n']:,}",
        rate(1e3 * scaled(facts, last, last["both"])),
        power(told["slope"]),
        rate(scaled(facts, last, last["bytes"]["both"]) / 1e6),
        power(told["slope_bytes"]),
        ratio,
        *(beaten(told["beats"].get(rival)) for rival in ("full", "causal")),
    ]


def path(facts: Facts, method: str) -> list[str]:
    """The kernel at the very size that the time is told of."""
    last = largest(facts, method)
    return [method, f"{last['n']:,}", code(last["path"])]


def largest(facts: Facts, method: str) -> Facts:
    """The row with the most tokens that has forward and backward."""
    rows = [row for row in facts["rows"] if row["name"] == method and "both" in row]
    return max(rows, key=lambda row: int(row["n"]))


def scaled(facts: Facts, row: Facts, value: float) -> float:
    """A measure with as many heads as all others: the longest texts were measured with fewer."""
    return value * heads(facts) / heads(row)


def heads(facts: Facts) -> int:
    """Heads of all texts of a batch."""
    return int(facts["batch"] * facts["heads"])


def power(exponent: float | None) -> str:
    return "" if exponent is None else f"n<sup>{exponent:.2f}</sup>"


def shape(facts: Facts) -> str:
    """Batch, heads, head width and dtype; and which texts had fewer heads and were scaled."""
    words = (
        f"Batch {facts['batch']}, {facts['heads']} heads of width {facts['head_width']}, "
        f"{facts['dtype']}."
    )
    fewer = {
        f"{row['n']:,} tokens were measured with batch {row['batch']} and {row['heads']} heads"
        for row in facts["rows"]
        if "both" in row and heads(row) < heads(facts)
    }
    if not fewer:
        return words
    return f"{words} {'; '.join(sorted(fewer))}, and are scaled to these {heads(facts)} heads."


def left_out(facts: Facts) -> list[str]:
    """What was not measured, from which size on, and why: one entry a reason."""
    first: dict[str, Facts] = {}
    for left in facts["left_out"]:
        first.setdefault(left["name"], left)
    reasons: dict[tuple[int, str], list[str]] = {}
    for name, left in first.items():
        reasons.setdefault((left["n"], left["why"]), []).append(name)
    told = [f"{', '.join(names)} from {n:,} tokens ({why})" for (n, why), names in reasons.items()]
    return [f"Left out: {'; '.join(told)}."] if told else []


HEAD = (
    *("method", "tokens", "ms", "grows as", "peak MB", "grows as", "× full"),
    *("beats full", "beats causal"),
)
PATHS = ("method", "tokens", "path")
COSTS = (
    "Forward + backward at the largest size that was measured, and how time and memory grow over "
    "the upper half of the sizes. *× full* is how many times as long full attention takes. *Beats* "
    "is the number of tokens from which a method takes less time. Memory is the peak above q, k "
    "and v, gradients included."
)
