"""How fast models learn: images and tokens a second, and time to an accuracy."""

from results_page.cells import table
from results_page.records import machine, origin, read, recorded


def training_speed(name: str) -> list[str]:
    if not recorded(name):
        return []
    facts = read(name)
    rows = []
    for row in facts["rows"]:
        ours = row["images_per_second"]["regard"]
        for who, rate in row["images_per_second"].items():
            low, high = row["quartiles"][who]
            rows.append(
                [
                    row["model"],
                    row["batch"],
                    who,
                    f"{row['parameters'][who]:,}",
                    f"{rate:,.0f}",
                    f"{low:,.0f} … {high:,.0f}",
                    "" if who == "regard" else f"{ours / rate:.2f}",
                ]
            )
    head = ["model", "batch", "who", "parameters", "images/s", "quartiles", "regard is × as fast"]
    return [f"## Training speed on {machine(name)}", origin(facts), SPEED, table(head, rows)]


SPEED = (
    "Whole training loops on images of 32 × 32 pixels in memory: the same batch, arithmetic, AdamW "
    "and augmentation (crop and flip, by regard for all). *regard* is regard's own loop with all "
    "that it checks and saves, and on a GPU with recorded steps; *regard, plain loop* is the same "
    "model in the loop that the others run in. Compiling and recording are not timed."
)


def translation_speed(name: str) -> list[str]:
    """Real tokens a second in training, beside torch.nn.Transformer."""
    if not recorded(name):
        return []
    facts = read(name)
    ours = facts["rows"]["regard"]["tokens_per_second"]
    rows = [
        [
            who,
            f"{row['parameters']:,}",
            f"{row['padding']:.1%}",
            f"{row['tokens_per_second']:,.0f}",
            " … ".join(f"{x:,.0f}" for x in row["quartiles"]),
            f"{ours / row['tokens_per_second']:.2f}",
        ]
        for who, row in facts["rows"].items()
    ]
    head = ["who", "parameters", "padding", "real tokens/s", "quartiles", "× time"]
    return [
        f"## Translation, trained on {machine(name)}",
        f"{origin(facts)} {PADDED}",
        table(head, rows),
    ]


PADDED = (
    "Batches are filled up to their longest text: *padding* is the share of such filling, which "
    "the real tokens leave out. *× time* is how many times as long as regard the same pairs take."
)


def reached(name: str) -> list[str]:
    """Seconds to an accuracy, beside transformers' Trainer."""
    if not recorded(name):
        return []
    facts, rows = read(name), []
    for row in facts["rows"]:
        for who, seen in row["seconds"].items():
            more, ratio = "> " * seen["bound"], row["ratio"][who]
            rows.append(
                [
                    f"{row['goal']:.0%} on {row['recipe']}",
                    f"{row['parameters']:,}",
                    who,
                    f"{more}{seen['median']:.1f} s",
                    f"{seen['low']:.1f} … {seen['high']:.1f}",
                    "" if ratio is None else f"{more}{ratio:.1f}",
                ]
            )
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    limits = "; ".join(
        f"{row['recipe']}: {row['seeds']} seeds, given up after {row['limit']:.0f} s"
        for row in facts["rows"]
    )
    said = f"{versions}. Medians over seeds ({limits})."
    head = ["goal", "parameters", "who", "time to it", "least … most", "× time"]
    return [
        f"## Time to an accuracy on {machine(name)}",
        f"{origin(facts)} {said}",
        REACHED,
        table(head, rows),
        f"![Accuracy against seconds of training](../results/{name}.png)",
        *(f"Left out: {each}, {why}." for each, why in facts["left_out"].items()),
    ]


REACHED = (
    "One model with the same first weights learns from the same images in three ways that take "
    "turns: by regard's recipe; by transformers' `Trainer` with its default arguments (but for "
    "the number of epochs, for in three it does not get there); and by the `Trainer` with the "
    "batch, rate and schedule of the recipe, which leaves its AdamW, its loop and the way of its "
    "data. All are asked the same validation images after equally many images, and their clocks "
    "stand still meanwhile. *× time* is how many times as long as by the recipe it takes."
)
