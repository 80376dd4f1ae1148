"""How fast models train: images and tokens a second."""

from results_page.cells import folded, rate, table, times, with_quartiles
from results_page.origins import origin
from results_page.records import Facts, by_device, read, recorded
from results_page.writing_speed import contenders


def training_speed() -> list[str]:
    """Images a second: one column a model and batch, and all that was measured at a click."""
    found = by_device("bench-training")
    if not found:
        return []
    lines = [(machine, row) for machine, facts in found.items() for row in facts["rows"]]
    everyone = ["regard", *contenders([row["images_per_second"] for _, row in lines])]
    head = [f"{machine}<br>{row['model']}<br>batch {row['batch']}" for machine, row in lines]
    rows = [[who, *(beside(row["images_per_second"], who) for _, row in lines)] for who in everyone]
    dtypes = ", ".join(f"{facts['dtype']} on {machine}" for machine, facts in found.items())
    details = [cells for machine, row in lines for cells in detailed(machine, row)]
    return [
        "### Training on images",
        f"{SPEED} {dtypes}.",
        table(["images/s", *head], rows),
        *folded("Parameters and quartiles", table(DETAILS, details)),
        " ".join(map(origin, found.values())),
    ]


def beside(rates: dict[str, float], who: str) -> str:
    """A rate, and how many times as fast regard is."""
    if who not in rates:
        return ""
    ratio = "" if who == "regard" else f" ({times(rates['regard'] / rates[who])}×)"
    return f"{rate(rates[who])}{ratio}"


def detailed(machine: str, row: Facts) -> list[list[str]]:
    return [
        [
            machine,
            row["model"],
            f"{row['batch']}",
            who,
            f"{row['parameters'][who]:,}",
            with_quartiles(rate(speed), *map(rate, row["quartiles"][who])),
        ]
        for who, speed in row["images_per_second"].items()
    ]


DETAILS = ("machine", "model", "batch", "who", "parameters", "images/s")
SPEED = (
    "Whole training loops on images of 32 × 32 pixels in memory: the same batch, AdamW and "
    "augmentation (crop and flip, by regard for all). In brackets, how many times as fast *regard* "
    "is: regard's own loop with all that it checks and saves, and with CUDA graphs on a GPU. "
    "*Regard, plain loop* is the same model in the loop that the others run in; *regard, compiled* "
    "is regard's loop with `torch.compile`. Compiling and capturing are not timed. Arithmetic:"
)


def translation_speed() -> list[str]:
    """Tokens a second in training, beside torch.nn.Transformer."""
    name = "bench-translation-cpu"
    if not recorded(name):
        return []
    facts = read(name)
    ours = facts["rows"]["regard"]["tokens_per_second"]
    rows = [
        [
            who,
            f"{row['parameters']:,}",
            f"{row['padding']:.1%}",
            with_quartiles(rate(row["tokens_per_second"]), *map(rate, row["quartiles"])),
            times(ours / row["tokens_per_second"]),
        ]
        for who, row in facts["rows"].items()
    ]
    head = ["who", "parameters", "padding", "tokens/s (quartiles)", "× time"]
    return ["### Training a translator", PADDED, table(head, rows), origin(facts)]


PADDED = (
    "On two CPU cores. *Padding* is the share of a batch that fills texts up to the longest; it is "
    "not counted as tokens. *× time* is how many times as long as regard the same pairs take. "
    "*Regard* puts pairs of similar length together; *regard, pairs in order* has the same batches "
    "as `torch.nn.Transformer`."
)
