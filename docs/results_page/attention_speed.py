"""How fast attention is, and what watching it costs."""

from results_page.cells import table
from results_page.records import machine, origin, read


def attention(name: str) -> list[str]:
    facts = read(name)
    shape = (
        f"Batch {facts['batch']}, {facts['heads']} heads of {facts['head_width']}, "
        f"{facts['dtype']}. Peak is a large matrix product in the same run, "
        f"{facts['peak_flops'] / 1e12:.3g} TFLOP/s. *torch* is `scaled_dot_product_attention` with "
        "its causal flag where it has one and a mask written out beforehand where it has none; "
        "*plain* is `attend`."
    )
    head = ["pattern", "n × m", "pass", "fused", "quartiles", "against torch", "against plain"]
    rows = []
    for row in facts["rows"]:
        for way, words in (("forward", "forward"), ("both", "forward + backward")):
            seen, (low, high) = row[way], row["quartiles"][way]["fused"]
            rows.append(
                [
                    row["pattern"],
                    f"{row['n']} × {row['m']}",
                    words,
                    f"{seen['fused'] * 1e3:.2f} ms",
                    f"{low * 1e3:.2f} … {high * 1e3:.2f}",
                    f"{seen['torch'] / seen['fused']:.2f}",
                    f"{seen['plain'] / seen['fused']:.1f}" if "plain" in seen else "",
                    f"{row['flop'][way] / seen['fused'] / facts['peak_flops']:.0%}",
                ]
            )
    growth = ", ".join(f"{pattern} n^{slope:.2f}" for pattern, slope in facts["growth"].items())
    decoded = "; ".join(
        f"{who} {first * 1e6:,.0f} µs a step in a first text, {later * 1e6:,.0f} µs in a second"
        for who, (first, later) in facts["decoding"].items()
    )
    return [
        f"## Attention on {machine(name)}",
        origin(facts),
        shape,
        f"![Time against length for each pattern](../results/{name}.png)",
        table([*head, "of peak"], rows),
        f"Growth between the two largest sizes, forward + backward: {growth}.",
        f"Decoding, one query and one key more at each step: {decoded}.",
    ]


WATCHING = (
    "`watch` keeps references and computes nothing. What is kept cannot be used again, though: a "
    "forward pass without gradients needs fresh memory for each layer when it is watched. The "
    "commands of regard ask the C library to keep freed memory "
    "(`regard.memory.keep_freed_memory()`), so that this costs little; in a process that does not, "
    "the first row on a CPU was measured at 15%. Watching only the layers of interest avoids it."
)


def watching(name: str) -> list[str]:
    facts = read(name)
    rows = []
    for row in facts["rows"]:
        seconds = dict(row["seconds"])
        plain = seconds.pop("plain")
        shown = [f"{seconds[k] / plain - 1:+.1%}" if k in seconds else "" for k in CONTENDERS]
        rows.append([row["model"], row["batch"], row["pass"], f"{plain * 1e3:.1f} ms", *shown])
    head = ["ViT", "batch", "pass", "unwatched", "all layers watched", "the last layer alone"]
    return [origin(facts), table(head, rows)]


CONTENDERS = ("watched", "last layer watched")
