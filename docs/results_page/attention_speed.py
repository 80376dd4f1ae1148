"""How fast attention is."""

from results_page.cells import folded, table
from results_page.origins import origin
from results_page.records import DEVICES, Facts, read, recorded

HEAD = ("pattern", "n × m", "pass", "ms", "quartiles", "× torch", "× plain", "of peak")
PASSES = {"forward": "forward", "both": "forward + backward"}


def attention() -> list[str]:
    """One table a machine: the largest size, and all others at a click."""
    parts: list[str] = []
    for device, words in DEVICES.items():
        name = f"bench-attention-{device}"
        if recorded(name):
            parts += measured(read(name), name, words)
    return ["### Attention", ATTENTION, *parts] if parts else []


def measured(facts: Facts, name: str, machine: str) -> list[str]:
    shape = (
        f"**On {machine}.** Batch {facts['batch']}, {facts['heads']} heads of width "
        f"{facts['head_width']}, {facts['dtype']}. The peak is {facts['peak_flops'] / 1e12:.3g} "
        "TFLOP/s."
    )
    longest = max(row["m"] for row in facts["rows"])
    large = [line for row in facts["rows"] if row["m"] == longest for line in lines(facts, row)]
    everything = [line for row in facts["rows"] for line in lines(facts, row)]
    growth = ", ".join(f"{pattern} n^{slope:.2f}" for pattern, slope in facts["growth"].items())
    decoded = "; ".join(
        f"{who} {first * 1e6:,.0f} µs a step in a first text, {later * 1e6:,.0f} µs in a second"
        for who, (first, later) in facts["decoding"].items()
    )
    return [
        shape,
        f"![Time against length for each pattern](../results/{name}.png)",
        table(HEAD, large),
        *folded(f"All sizes ({len(everything)} rows)", table(HEAD, everything)),
        f"Growth between the two largest sizes, forward + backward: {growth}. "
        f"Decoding, one query and one more key at each step: {decoded}.",
        origin(facts),
    ]


def lines(facts: Facts, row: Facts) -> list[list[str]]:
    """One size of a pattern: forward, and forward + backward."""
    found = []
    for way, words in PASSES.items():
        seen, (low, high) = row[way], row["quartiles"][way]["fused"]
        found.append(
            [
                row["pattern"],
                f"{row['n']:,} × {row['m']:,}",
                words,
                f"{seen['fused'] * 1e3:.2f}",
                f"{low * 1e3:.2f} … {high * 1e3:.2f}",
                f"{seen['torch'] / seen['fused']:.2f}",
                f"{seen['plain'] / seen['fused']:.1f}" if "plain" in seen else "",
                f"{row['flop'][way] / seen['fused'] / facts['peak_flops']:.0%}",
            ]
        )
    return found


ATTENTION = (
    "`attend_fused` at the largest size. *× torch* is against `scaled_dot_product_attention`, with "
    "its causal flag where it has one and a dense mask where it has none; *× plain* is against "
    "`attend`. *Of peak* is the share of the speed of a large matrix product in the same run."
)
