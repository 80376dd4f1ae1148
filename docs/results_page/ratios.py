"""Speed in a few ratios, each beside the weak and the strong way to use the other library.

A ratio above 1 means that regard is faster. A row is what is done, against what, and the ratio on
each machine.
"""

from collections.abc import Callable, Iterable
from functools import partial

from results_page.cells import table, times
from results_page.reach import times_as_long
from results_page.records import DEVICES, Facts, by_device

Row = list[str]
MISSING = "–"


def ratios(rows: Iterable[Callable[[], list[Row]]]) -> str:
    head = ["", "against", *DEVICES.values()]
    return table(head, [row for make in rows for row in make()])


def on_each(name: str, told: Callable[[Facts], str]) -> Row:
    """A cell for each machine, from its record of a benchmark."""
    found = by_device(name)
    return [told(found[machine]) if machine in found else MISSING for machine in DEVICES.values()]


def pair(ours: float, *theirs: float | None) -> str:
    return " / ".join(MISSING if other is None else times(ours / other) for other in theirs)


def sizes(name: str, said: Callable[[Facts], str]) -> str:
    """What differs between the machines: said of a GPU first, and of a CPU in brackets."""
    first, *others = (said(facts) for facts in by_device(name).values())
    return first + "".join(f" (CPU: {other})" for other in others if other != first)


def causal_attention() -> list[Row]:
    name, pattern = "bench-attention", "causal"
    tokens = sizes(name, lambda facts: f"{longest(facts, pattern)['m']:,}")
    what = f"causal attention, forward + backward, {tokens} tokens"
    return [[what, "torch's SDPA, causal flag", *on_each(name, lambda f: sdpa(f, pattern))]]


def window_attention() -> list[Row]:
    pattern = "causal window 256"
    dense = on_each("bench-attention", lambda facts: sdpa(facts, pattern))
    return [[f"the same, {pattern}", "torch's SDPA, dense mask", *dense]]


def flex_attention() -> list[Row]:
    def told(facts: Facts) -> str:
        both, n = compared(facts)
        return times(both["FlexAttention", n] / both["window", n]) if n else MISSING

    name = "bench-cheaper"
    gpu = next(iter(by_device(name).values()))
    what = f"causal window {gpu['keys']}, {compared(gpu)[1]:,} tokens"
    return [[what, "FlexAttention, compiled", *on_each(name, told)]]


def compared(facts: Facts) -> tuple[dict[tuple[str, int], float], int]:
    """Seconds by method and size, and the largest size that FlexAttention has too, or 0."""
    both = {(row["name"], row["n"]): row["both"] for row in facts["rows"] if "both" in row}
    shared = [n for name, n in both if name == "FlexAttention" and ("window", n) in both]
    return both, max(shared, default=0)


def longest(facts: Facts, pattern: str) -> Facts:
    found = [row for row in facts["rows"] if row["pattern"] == pattern]
    return max(found, key=lambda row: int(row["m"]))


def sdpa(facts: Facts, pattern: str) -> str:
    seen = longest(facts, pattern)["both"]
    return times(seen["torch"] / seen["fused"])


def one_text() -> list[Row]:
    return writing(0, "generating one text")


def many_texts() -> list[Row]:
    batch = sizes("bench-decoding", lambda facts: str(facts["rows"][1]["batch"]))
    return writing(1, f"generating {batch} texts at once")


def writing(row: int, what: str) -> list[Row]:
    def told(facts: Facts) -> str:
        rates = facts["rows"][row]["words_per_second"]
        compiled = rates.get("transformers, static cache, compiled")
        return pair(rates["regard"], rates["transformers"], compiled)

    return [[what, "transformers, eager / compiled", *on_each("bench-decoding", told)]]


def captions() -> list[Row]:
    def told(facts: Facts) -> str:
        rates = [row["captions_per_second"] for row in facts["rows"]]
        found = [rate["regard"] / rate["transformers"] for rate in rates]
        return f"{times(min(found))} to {times(max(found))}"

    return [["generating captions", "transformers, eager", *on_each("bench-captions", told)]]


def training() -> list[Row]:
    def told(facts: Facts) -> str:
        rates = facts["rows"][-1]["images_per_second"]
        compiled = rates.get("regard, compiled"), rates.get("transformers, compiled")
        both = times(compiled[0] / compiled[1]) if None not in compiled else MISSING
        return f"{times(rates['regard'] / rates['transformers'])} / {both}"

    name = "bench-training"
    what = f"training a ViT, {sizes(name, lambda facts: str(facts['rows'][-1]['model']))}"
    return [[what, "transformers, as it comes / both compiled", *on_each(name, told)]]


def translating() -> list[Row]:
    def told(facts: Facts) -> str:
        rates = {who: row["tokens_per_second"] for who, row in facts["rows"].items()}
        other = rates["torch.nn.Transformer"]
        found = [rates[who] / other for who in ("regard", "regard, pairs in order")]
        return " / ".join(map(times, found))

    against = "torch.nn.Transformer, as it comes / same batches"
    return [["training an encoder-decoder", against, *on_each("bench-translation", told)]]


def sooner() -> list[Row]:
    """How much sooner a goal is reached than by transformers' Trainer."""
    found = by_device("bench-reach")
    goals = {row["recipe"]: row["goal"] for facts in found.values() for row in facts["rows"]}

    def told(recipe: str, facts: Facts) -> str:
        row = next((row for row in facts["rows"] if row["recipe"] == recipe), None)
        if row is None:
            return MISSING
        return " / ".join(times_as_long(row, who) for who in ("Trainer", "Trainer, our settings"))

    return [
        [
            f"time to {goal:.0%} on validation, `{recipe}`",
            "transformers' Trainer, defaults / our settings",
            *on_each("bench-reach", partial(told, recipe)),
        ]
        for recipe, goal in goals.items()
    ]


def soonest() -> list[Row]:
    return sooner()[:1]


def watching() -> list[Row]:
    def told(facts: Facts) -> str:
        seconds = [row["seconds"] for row in facts["rows"]]
        return f"{max(each['watched'] / each['plain'] - 1 for each in seconds):+.1%} time"

    return [["watching every layer, at most", "not watching", *on_each("bench-watch", told)]]


ALL = (
    *(causal_attention, window_attention, flex_attention, one_text, many_texts, captions),
    *(training, translating, sooner, watching),
)
SHORT = (causal_attention, one_text, captions, training, soonest, watching)
