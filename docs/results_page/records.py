"""What was recorded: the files of results/."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
Facts = dict[str, Any]


def read(name: str) -> Facts:
    facts: Facts = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return facts


def recorded(name: str, kind: str = "json") -> bool:
    """Whether there is such a file."""
    return (RESULTS / f"{name}.{kind}").exists()


def named(pattern: str) -> list[str]:
    """The records whose names are like this, in order."""
    return sorted(path.stem for path in RESULTS.glob(f"{pattern}.json"))


def runs_of(task: str) -> list[Facts]:
    """What was recorded of a task, by name."""
    return [facts for facts in map(read, named("run-*")) if facts["task"] == task]


def origin(facts: Facts) -> str:
    """Where a table comes from."""
    return (
        f"`{facts['command']}` on {facts['device']}, torch {facts['torch']}, Python "
        f"{facts['python']}, commit {facts['commit']}, {facts['date']}."
    )


def made_on(facts: Facts) -> str:
    """Where a row comes from, its command aside."""
    return f"{facts['device']}, torch {facts['torch']}, commit {facts['commit']}, {facts['date']}"


def machine(name: str) -> str:
    """What a record was measured on, as its name ends."""
    return "one H200" if name.endswith("cuda") else "two CPU cores"
