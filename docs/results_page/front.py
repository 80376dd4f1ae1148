"""The tables of the README: a row for each recipe, and a few of the page."""

from statistics import fmean

from regard.tasks.pretrain.views import ASKED
from results_page.cells import lasting, right_on_test, table, times
from results_page.records import Facts, read, recorded, runs_of


def measured() -> str:
    """The table of the README: a few rows of the page."""
    gpu, cpu = read("bench-attention-cuda"), read("bench-attention-cpu")

    def against(facts: Facts, pattern: str) -> str:
        seen = [row for row in facts["rows"] if row["pattern"] == pattern][-1]["both"]
        return times(seen["torch"] / seen["fused"])

    def writing(device: str, row: int) -> str:
        rates = read(f"bench-decoding-{device}")["rows"][row]["words_per_second"]
        return times(rates["regard"] / rates["transformers"])

    def captions(device: str) -> str:
        rates = [row["captions_per_second"] for row in read(f"bench-captions-{device}")["rows"]]
        ratios = [rate["regard"] / rate["transformers"] for rate in rates]
        return f"{times(min(ratios))} to {times(max(ratios))}"

    slowest = {
        name: max(
            row["seconds"]["watched"] / row["seconds"]["plain"] - 1
            for row in read(f"bench-watch-{name}")["rows"]
        )
        for name in ("cuda", "cpu")
    }
    devices = ("cuda", "cpu")
    alone, together = ([writing(device, row) for device in devices] for row in (0, 1))
    told = [captions(device) for device in devices]
    n = [max(row["m"] for row in facts["rows"]) for facts in (gpu, cpu)]
    rows = [
        [
            f"causal attention, {n[0]:,} and {n[1]:,} tokens, forward + backward, "
            "times as fast as torch's own call",
            *(against(facts, "causal") for facts in (gpu, cpu)),
        ],
        [
            "the same, second half of the queries behind a cache",
            *(against(facts, "causal, second half behind a cache") for facts in (gpu, cpu)),
        ],
        [
            "the same, causal window of 256",
            *(against(facts, "causal window 256") for facts in (gpu, cpu)),
        ],
        ["a text written after a prompt, times as fast as transformers", *alone],
        ["the same, 64 and 16 texts at once", *together],
        ["captions, greedy and with 5 beams, times as fast as transformers", *told],
        ["what watching every layer costs, at most", *(f"{x:+.1%}" for x in slowest.values())],
        *sooner(),
    ]
    speed = table(["", f"one {gpu['device']}, bfloat16", "two CPU cores, float32"], rows)
    models = [
        [f"`{facts['command']} --test`", f"{facts['parameters']:,}", what(facts), took(facts)]
        for task, what in TOLD.items()
        for facts in runs_of(task)
        if len(facts["command"].split()) == 5  # the recipe as it is
    ]
    return f"{table(['trained with', 'parameters', 'on test', 'in'], models)}\n\n{speed}"


def sooner() -> list[list[str]]:
    """For the README: how much sooner a goal is reached than by transformers' Trainer."""
    names = [f"bench-reach-{device}" for device in ("cuda", "cpu")]
    there = [read(name)["rows"] if recorded(name) else [] for name in names]
    goals = {row["recipe"]: row["goal"] for rows in there for row in rows}

    def less(rows: list[Facts], recipe: str) -> str:
        found = next((row for row in rows if row["recipe"] == recipe), None)
        if found is None or found["ratio"]["Trainer"] is None:
            return ""
        return "> " * found["seconds"]["Trainer"]["bound"] + times(found["ratio"]["Trainer"])

    return [
        [
            f"time to {goal:.0%} on validation with {recipe}, times less than transformers' "
            "Trainer as it comes",
            *(less(rows, recipe) for rows in there),
        ]
        for recipe, goal in goals.items()
    ]


def accuracy(facts: Facts) -> str:
    return f"accuracy {right_on_test(facts)}"


def in_short(facts: Facts) -> str:
    """What a captioner came to, in a few words: the mean of its seeds."""
    figures = [run["figures"] for run in facts["runs"]]

    def mean(name: str) -> float:
        return fmean(each[name]["value"] for each in figures)

    if "true" in figures[0]:
        return f"{mean('true'):.1%} of captions true, {mean('pointing, attention'):.1%} point at it"
    return f"BLEU-4 {100 * mean('BLEU-4'):.1f}, CIDEr-D {mean('CIDEr-D'):.2f}"


def as_translated(facts: Facts) -> str:
    """What a translator came to, in a few words."""
    figures = [run["figures"] for run in facts["runs"]]
    name = "exact" if facts["data"] == "numerals" else "BLEU"
    value = 100 * sum(each[name]["value"] for each in figures) / len(figures)
    return f"{facts['split']}: {name} {value:.1f}, {len(figures)} seeds"


def as_foretold(facts: Facts) -> str:
    """What a language model came to, in a few words."""
    figures = [run["figures"] for run in facts["runs"]]
    loss, bits, words = (
        sum(each[name]["value"] for each in figures) / len(figures)
        for name in ("loss", "bits_per_byte", "word_perplexity")
    )
    if facts["data"] == "wikitext-2":
        return f"{facts['split']}: perplexity per word {words:.1f}, bits per byte {bits:.2f}"
    return f"{facts['split']}: loss {loss:.3f}, bits per byte {bits:.2f}"


def as_answered(facts: Facts) -> str:
    """What a pretrained reader came to, in a few words."""
    figures = [run["figures"] for run in facts["runs"]]
    shares = {name: fmean(each[name]["value"] for each in figures) for name in ASKED}
    return "right: " + ", ".join(f"{name} {value:.1%}" for name, value in shares.items())


TOLD = {
    "classify": accuracy,
    "caption": in_short,
    "translate": as_translated,
    "language": as_foretold,
    "sentiment": accuracy,
    "pretrain": as_answered,
}


def took(facts: Facts) -> str:
    seconds = sum(run["seconds"] for run in facts["runs"]) / len(facts["runs"])
    return f"{lasting(seconds)}, {facts['device']}"
