"""How long the studio makes one wait."""

from results_page.cells import folded, table
from results_page.origins import origin
from results_page.records import Facts, read, recorded

RECORD = "studio-cpu"
FRAMES = 2 / 60  # seconds: the second frame after an act, on a screen of 60 Hz


def studio() -> list[str]:
    if not recorded(RECORD):
        return []
    facts = read(RECORD)
    text, found = facts["text"], facts["figures"]
    visits, live, saved = found["clients"], found["studio"], found["saved page"]
    names = [name for name in live if isinstance(live[name], dict)]
    unloaded = live["first useful paint, the run not loaded, s"]
    questions = [
        [kind, each["count"], f"{each['median_ms']:.0f}", f"{each['worst_ms']:.0f}"]
        for kind, each in visits["questions"].items()
    ]
    return [
        "## The studio",
        f"A text of {text['tokens']} tokens, read by {text['layers']} layers of {text['heads']} "
        f"heads. Chromium {facts['browser']} and the studio share the machine. {PAINTS} "
        f"{1e3 * FRAMES:.0f} ms at least. The saved page has {saved['size, MB']:g} MB. With the "
        f"run not loaded yet, the first useful paint took {unloaded:.1f} s.",
        table(
            ["median (slowest of 20)", "in the studio", "a saved page"],
            [[name, waited(live, name), waited(saved, name)] for name in names],
        ),
        facts["note"],
        f"{visits['clients']} clients asked two small runs without a pause for "
        f"{visits['seconds']:g} s, and had {visits['answers']:,} answers and "
        f"{len(visits['errors'])} errors.",
        *folded(
            "How long the clients waited, in ms",
            table(["question", "answers", "median", "worst"], questions),
        ),
        origin(facts),
    ]


def waited(page: Facts, name: str) -> str:
    each = page.get(name)
    return "" if each is None else f"{each['median']:g} ({each['slowest of 20']:g})"


PAINTS = (
    "*First paint* is the page without an answer. At the *first useful paint* words are shaded and "
    "the arcs and small maps of all heads are there, so it waits for the model. Each page opens in "
    "a new window unless the table says otherwise. An act is timed to the second frame after it,"
)
