"""How fast models write: words and captions a second."""

from results_page.cells import rate, table
from results_page.records import machine, origin, read, recorded


def decoding_speed(name: str) -> list[str]:
    """Words a second after a prompt, beside transformers with the same weights."""
    if not recorded(name):
        return []
    facts, rows = read(name), []
    for row in facts["rows"]:
        rates = row["words_per_second"]
        low, high = row["quartiles"]["regard"]
        ratios = [f"{rates['regard'] / rates[who]:.2f}" for who in rates if who != "regard"]
        cells = [row["model"], row["dtype"], str(row["batch"]), f"{rates['regard']:,.0f}"]
        rows.append([*cells, f"{low:,.0f} … {high:,.0f}", *ratios])
    first = facts["rows"][0]
    who = [f"× {each}" for each in first["words_per_second"] if each != "regard"]
    head = ["model", "numbers", "texts at once", "words/s", "quartiles", *who]
    said = f"{first['words']} words after a prompt of {first['prompt']}, the likeliest each time."
    title = f"## Words a second on {machine(name)}"
    return [title, f"{origin(facts)} {said} {BESIDE}", table(head, rows)]


def caption_speed(name: str) -> list[str]:
    """Captions a second beside transformers with the same weights."""
    if not recorded(name):
        return []
    facts = read(name)
    rows = []
    for row in facts["rows"]:
        rates = row["captions_per_second"]
        low, high = row["quartiles"]["regard"]
        ratios = [f"{rates['regard'] / rates[who]:.2f}" for who in rates if who != "regard"]
        cells = [row["model"], str(row["batch"]), str(row["beams"]), rate(rates["regard"])]
        rows.append([*cells, f"{rate(low)} … {rate(high)}", *ratios])
    who = [f"× {each}" for each in facts["rows"][0]["captions_per_second"] if each != "regard"]
    left_out = [f"Left out: {each}, {why}." for each, why in facts["left_out"].items()]
    head = ["model", "batch", "beams", "captions/s", "quartiles", *who]
    title = f"## Captions a second on {machine(name)}"
    return [title, f"{origin(facts)} {BESIDE}", table(head, rows), *left_out]


BESIDE = "Regard's speed, and after × how many times as fast it is as others with the same weights."
