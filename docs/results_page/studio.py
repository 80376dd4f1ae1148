"""How long the studio makes one wait."""

from results_page.cells import table
from results_page.records import Facts, origin, read


def studio() -> list[str]:
    facts = read("studio-cpu")
    text, found = facts["text"], facts["figures"]
    visits, live, saved = found["clients"], found["studio"], found["saved page"]

    def said(page: Facts, name: str) -> str:
        each = page.get(name)
        return "" if each is None else f"{each['median']:g} ({each['slowest of 20']:g})"

    names = [name for name in live if isinstance(live[name], dict)]
    questions = [
        [kind, each["count"], f"{each['median_ms']:.0f}", f"{each['worst_ms']:.0f}"]
        for kind, each in visits["questions"].items()
    ]
    return [
        "## The studio",
        f"{origin(facts)} Chromium {facts['browser']} and the studio share the machine. A text of "
        f"{text['tokens']} tokens is read by {text['layers']} layers of {text['heads']} heads: "
        "median, and the slowest of twenty. *First paint* is the page without an answer; at the "
        "*first useful paint* words are shaded and the arcs and the small maps of all heads are "
        "there, so it waits for the model. Every page opens in a new window, which Chromium draws "
        "on the same cores meanwhile, but where the table says otherwise. An act is timed to the "
        "second frame after it, which is "
        f"33 ms at the least. The saved page has {saved['size, MB']:g} MB. With the run not loaded "
        "yet, the first useful paint took "
        f"{live['first useful paint, the run not loaded, s']:.1f} s.",
        table(
            ["", "in the studio", "a saved page"],
            [[name, said(live, name), said(saved, name)] for name in names],
        ),
        facts["note"],
        f"{visits['clients']} clients that asked two small runs without a pause for "
        f"{visits['seconds']:g} s had {visits['answers']:,} answers and {len(visits['errors'])} "
        "errors. How long they waited, in ms:",
        table(["question", "answers", "median", "worst"], questions),
    ]
