"""Models with cheaper attention: quality beside what it costs."""

from results_page.cells import code, middle, table
from results_page.origins import origin
from results_page.records import Facts, named, read


def cheaper() -> list[str]:
    """One table a record, `results/cheaper-*.json`."""
    parts: list[str] = []
    for name in named("cheaper-*"):
        facts = read(name)
        seen = "accuracy" if "accuracy" in facts["summary"][0] else "loss"
        title, quality, each, rate, *more = CHEAPER[seen]
        costs = ["parameters", f"MFLOP {each}", rate, "peak MB"]
        head = ["choice", "attention", quality, *costs, *more]
        parts += [
            f"### {title}",
            EXCHANGED[seen],
            f"![{quality} against FLOPs and speed](../results/{name}.png)",
            table(head, [row(line, seen) for line in facts["summary"]]),
            origin(facts) + (f" Note: {facts['note']}." if "note" in facts else ""),
        ]
    return [ONE_RECIPE, *parts] if parts else []


def row(line: Facts, seen: str) -> list[str]:
    speed, peak, words = line.get("items_per_second"), line.get("peak_bytes"), line["words"]
    quality = middle(line[seen]) if seen == "accuracy" else middle(line[seen], 3, 1, "")
    cells = [
        line["choice"],
        code(words) if "(" in words else words,
        quality,
        f"{line['parameters']:,}",
        f"{line['flops'] / 1e6:.2f}",
        "" if speed is None else f"{speed:,.0f}",
        "" if peak is None else f"{peak / 1e6:,.0f}",
    ]
    if seen == "loss":
        cells += [f"{line['bits_per_byte']['mean']:.3f}", f"{line['kept_bytes'] / 1e3:,.0f}"]
    return cells


CHEAPER = {
    "accuracy": ("A ViT made cheaper", "test accuracy", "an image", "images/s"),
    "loss": (
        *("A language model made cheaper", "loss, nats", "a token", "tokens/s"),
        *("bits per byte", "cache, kB"),
    ),
}
ONE_RECIPE = (
    "What cheaper attention does to a model: one recipe, with its attention exchanged. FLOPs are "
    "those of matrix products and convolutions in a forward pass, in attention of the pairs that "
    "the mask lets read; a kernel may compute more. Speed is that of training: choices take turns "
    "alone on the GPU, with CUDA graphs where these pay. Peak is the most memory of a training "
    "step, model and optimiser included."
)
EXCHANGED = {
    "accuracy": "DaViT is another model with about as many parameters, trained alike.",
    "loss": "Windows slide by half their length over held-out text. The cache is that of one text "
    "of a full window, in float32.",
}
