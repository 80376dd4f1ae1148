"""Attention at less than n²: what it does to a model, and what it costs."""

from regard.bench.growth import beaten
from results_page.cells import exponent, table
from results_page.records import machine, named, origin, read, recorded


def cheaper() -> list[str]:
    """Models with their attention exchanged: quality beside what it costs."""
    parts: list[str] = []
    for name in named("cheaper-*"):
        facts, rows = read(name), []
        seen = "accuracy" if "accuracy" in facts["summary"][0] else "loss"
        for line in facts["summary"]:
            quality = line[seen]
            form = "{:.1%}" if seen == "accuracy" else "{:.3f}"
            mean, low, high = (form.format(quality[which]) for which in ("mean", "low", "high"))
            speed, peak = line.get("items_per_second"), line.get("peak_bytes")
            rows.append(
                [
                    line["choice"],
                    f"`{line['words']}`".replace("|", "\\|")
                    if "(" in line["words"]
                    else line["words"],
                    f"{mean} ({low} to {high})",
                    f"{line['parameters']:,}",
                    f"{line['flops'] / 1e6:.2f}",
                    "" if speed is None else f"{speed:,.0f}",
                    "" if peak is None else f"{peak / 1e6:,.0f}",
                ]
            )
            if seen == "loss":
                rows[-1].append(f"{line['bits_per_byte']['mean']:.3f}")
                rows[-1].append(f"{line['kept_bytes'] / 1e3:,.0f}")
        title, quality, each, rate, *more = CHEAPER[seen]
        costs = ["parameters", f"MFLOP {each}", rate, "peak MB"]
        parts += [
            f"## {title}",
            f"{origin(facts)} {ONE_RECIPE} {EXCHANGED[seen]}",
            f"![{quality} against FLOPs and speed](../results/{name}.png)",
            table(["choice", "who reads whom, and how", quality, *costs, *more], rows),
        ]
    return parts


CHEAPER = {
    "accuracy": ("A ViT made cheaper", "test accuracy", "an image", "images/s"),
    "loss": (
        *("A language model made cheaper", "loss, nats a token", "a token", "tokens/s"),
        *("bits per byte", "kB kept to write on"),
    ),
}
ONE_RECIPE = (
    "One recipe, attention exchanged: the mean of the seeds, the least and the greatest. FLOPs are "
    "those of matrix products and convolutions in a forward pass, of attention the pairs that the "
    "mask lets read; a kernel may compute more. Speed is that of training, with the choices taking "
    "turns alone on the device, steps recorded where that pays; peak is the most memory that a "
    "training step held, model and optimiser included."
)
EXCHANGED = {
    "accuracy": "The test images were read once a run. DaViT is another model, of about as many "
    "parameters, trained alike.",
    "loss": "Held-out text in windows that slide by half their length. What is kept to write on "
    "is that of one text of a full window, in float32.",
}


def cheaper_costs(name: str) -> list[str]:
    """Time and memory of all that is cheaper than full attention, and from where on it pays."""
    if not recorded(name):
        return []
    facts, rows = read(name), []
    for method, seen in facts["summary"].items():
        ratio = seen["times_full"]
        rows.append(
            [
                method,
                f"`{seen['path']}`".replace("|", "\\|"),  # which ends a cell otherwise
                f"{1e3 * seen['seconds']:,.0f} at {seen['n']:,}" if "n" in seen else "",
                exponent(seen["slope"]),
                f"{seen['bytes'] / 1e6:,.0f}" if "n" in seen else "",
                exponent(seen["slope_bytes"]),
                f"{ratio['ratio']:.1f} at {ratio['n']:,}" if ratio and method != "full" else "",
                *(beaten(seen["beats"].get(rival)) for rival in ("full", "causal")),
            ]
        )
    left_out = {}
    for left in reversed(facts["left_out"]):
        left_out[left["name"]] = f"{left['name']} from {left['n']:,} tokens on ({left['why']})"
    more = [f"Left out: {'; '.join(left_out.values())}."] if left_out else []
    head = ["method", "path", "ms, forward + backward", "n^", "peak MB", "n^", "× full"]
    return [
        f"## Cheaper attention on {machine(name)}",
        f"{origin(facts)} {CHEAPER_COSTS}",
        f"![Time and memory against the number of tokens](../results/{name}.png)",
        table([*head, "beats full", "beats causal"], rows),
        *more,
    ]


CHEAPER_COSTS = (
    "*n^* is the exponent with which time, and then memory, grows over the upper half of the "
    "sizes; *× full* is how many times as long full attention takes; *beats* is the number of "
    "tokens from which a method takes less time. The path is that of the largest size. Memory is "
    "the peak above q, k and v themselves, gradients included."
)
