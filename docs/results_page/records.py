"""What was recorded: the files of results/."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
DEVICES = {"cuda": "one H200", "cpu": "two CPU cores"}  # by the end of a record's name

Facts = dict[str, Any]
Interval = dict[str, float]

# Runs that had others on the same GPU, by recipe and commit; newer records say so in a note.
SHARED = {
    ("cifar10-davit", "72ab033"),
    ("multi30k", "a958e9a"),
    ("multi30k-modern", "a958e9a"),
    ("reviews", "8e1353b"),
    ("sst2-minilm", "66078ac"),
}


def read(name: str) -> Facts:
    """A record, with its commands as they are typed today."""
    facts: Facts = json.loads(
        (RESULTS / f"{name}.json").read_text(encoding="utf-8"), object_hook=today
    )
    return facts


def today(facts: Facts) -> Facts:
    """The command in today's words, where the record has it beside the one that was run."""
    return {**facts, "command": facts["command_today"]} if "command_today" in facts else facts


def recorded(name: str, kind: str = "json") -> bool:
    """Whether there is such a file."""
    return (RESULTS / f"{name}.{kind}").exists()


def named(pattern: str) -> list[str]:
    """The records whose names are like this, in order."""
    return sorted(path.stem for path in RESULTS.glob(f"{pattern}.json"))


def by_device(name: str) -> dict[str, Facts]:
    """A benchmark's records, by what they were measured on."""
    found = {words: f"{name}-{device}" for device, words in DEVICES.items()}
    return {words: read(record) for words, record in found.items() if recorded(record)}


def runs_of(task: str) -> list[Facts]:
    """What was recorded of a task: data set by data set, the best first."""
    found = [facts for facts in map(read, named("run-*")) if facts["task"] == task]
    return sorted(found, key=lambda facts: (facts["data"], facts["split"], -facts["mean"]))


def seen(facts: Facts, name: str) -> list[Interval | None]:
    """A figure of every seed, or None where it was not measured."""
    return [run["figures"].get(name) for run in facts["runs"]]


def mean_of(facts: Facts, name: str) -> float:
    """A figure's mean over the seeds."""
    return fmean(run["figures"][name]["value"] for run in facts["runs"])


def seconds_of(facts: Facts) -> float:
    """The training time: the mean over the seeds, here and everywhere."""
    return fmean(run["seconds"] for run in facts["runs"])


def shared(facts: Facts) -> bool:
    """Whether other runs had the same GPU meanwhile, so that the times are too long."""
    noted = "the GPU was shared with other runs" in facts.get("note", "")
    return noted or (facts["recipe"], facts["commit"]) in SHARED


def notes(found: Sequence[Facts]) -> list[str]:
    """What is odd about records, as they say it."""
    return [f"`{facts['recipe']}`: {facts['note']}" for facts in found if "note" in facts]
