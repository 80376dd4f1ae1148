"""Where figures come from: one line under a table, and a footnote for each row that differs."""

from collections import Counter
from collections.abc import Sequence

from results_page.records import Facts

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
NAMED = {"device": "{}", "torch": "torch {}", "commit": "commit {}", "date": "{}"}


def origin(facts: Facts) -> str:
    """Where the one record of a table comes from."""
    others = [f"{name} {number}" for name, number in facts.get("versions", {}).items()]
    places = [facts["device"], f"torch {facts['torch']}", *others, f"Python {facts['python']}"]
    places += [f"commit {facts['commit']}", facts["date"]]
    return f"Measured by `{facts['command']}` on {', '.join(places)}."


def origins(found: Sequence[Facts]) -> tuple[list[str], str]:
    """For the records of a table's rows: a mark each, and the line that explains the marks.

    Most rows agree and have no mark; a footnote says only in what its rows differ.
    """
    places = [{name: facts[name] for name in NAMED} for facts in found]
    usual = dict(Counter(tuple(place.items()) for place in places).most_common(1)[0][0])
    others: list[dict[str, str]] = []
    for place in places:
        if place != usual and place not in others:
            others.append(place)
    marks = ["" if place == usual else raised(others.index(place) + 1) for place in places]
    line = f"Measured on {told(usual)}."
    for number, other in enumerate(others, 1):
        differs = {name: value for name, value in other.items() if value != usual[name]}
        line += f" {raised(number)} {told(differs)}."
    return marks, line


def told(place: dict[str, str]) -> str:
    return ", ".join(NAMED[name].format(value) for name, value in place.items())


def raised(number: int) -> str:
    return str(number).translate(RAISED)
