"""How fast models write: tokens and captions a second."""

from results_page.cells import rate, table, times, with_quartiles
from results_page.origins import origin
from results_page.records import Facts, by_device


def decoding_speed() -> list[str]:
    """Tokens a second after a prompt, beside transformers with the same weights."""
    found = by_device("bench-decoding")
    if not found:
        return []
    lines = [(machine, row) for machine, facts in found.items() for row in facts["rows"]]
    others = contenders([row["words_per_second"] for _, row in lines])
    rows = []
    for machine, row in lines:
        cells = [f"{machine}, {row['dtype']}", row["model"], f"{row['batch']}"]
        cells += [speed(row, "words_per_second"), *ratios(row["words_per_second"], others)]
        rows.append(cells)
    lengths = {
        f"{row['words']} tokens after a prompt of {row['prompt']} on {machine}"
        for machine, row in lines
    }
    head = ["machine", "model", "texts at once", "tokens/s (quartiles)"]
    return [
        "### Writing text",
        f"Greedy decoding, {' and '.join(sorted(lengths, reverse=True))}. {BESIDE}",
        table([*head, *(f"× {who}" for who in others)], rows),
        " ".join(map(origin, found.values())),
    ]


def caption_speed() -> list[str]:
    """Captions a second beside transformers with the same weights."""
    found = by_device("bench-captions")
    if not found:
        return []
    lines: dict[tuple[str, int, int], list[str]] = {}
    for facts in found.values():
        for row in facts["rows"]:
            cells = lines.setdefault((row["model"], row["batch"], row["beams"]), [])
            cells += [speed(row, "captions_per_second")]
            cells += ratios(row["captions_per_second"], ["transformers"])
    head = ["model", "batch", "beams"]
    for machine, facts in found.items():
        head += [f"{machine}, {facts['dtype']}", "×"]
    left_out = [
        f"Left out: {each}, {why}."
        for facts in found.values()
        for each, why in facts["left_out"].items()
    ]
    return [
        "### Writing captions",
        f"Captions/s, beside transformers. {BESIDE}",
        table(head, [[*key, *cells] for key, cells in lines.items()]),
        *left_out,
        " ".join(map(origin, found.values())),
    ]


def contenders(rates: list[dict[str, float]]) -> list[str]:
    """Everyone but regard, in the order in which they were recorded."""
    return [who for who in dict.fromkeys(who for each in rates for who in each) if who != "regard"]


def speed(row: Facts, unit: str) -> str:
    """Regard's speed and its quartiles."""
    low, high = row["quartiles"]["regard"]
    return with_quartiles(rate(row[unit]["regard"]), rate(low), rate(high))


def ratios(rates: dict[str, float], others: list[str]) -> list[str]:
    return [times(rates["regard"] / rates[who]) if who in rates else "" for who in others]


BESIDE = (
    "Regard's speed (quartiles), and after × how many times as fast it is as others with the same "
    "weights."
)
