"""What is answered to a flag that a command does not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib import import_module

from regard.fields import Names

NEAR = 0.8  # likeness from which on a flag is taken for another one, mistyped


def unknown_flag(flag: str, known: Iterable[str], names: Names | None, command: str) -> str:
    """A sentence: what the flag is called here, which one was meant, or which there are."""
    flags = list(known)
    word = flag.lstrip("-").replace("-", "_")
    several = names.meant(word) or names.meant(word.removeprefix("no_")) if names else ()
    if len(several) > 1:
        return f"{flag} is in several tables: type {' or '.join(map(typed, several))}"
    if answer := usual(flag, flags):
        return answer
    table = word.rpartition(".")[0]
    tables = dict.fromkeys(leaf.table for leaf in names.leaves.values()) if names else {}
    inside = [each for each in tables if table and (each == table or each.endswith(f".{table}"))]
    if names and inside:
        flags = [typed(name) for name in names.leaves if name.rpartition(".")[0] in inside]
    if near := nearest_flag(flag, flags):
        return f"there is no {flag}; did you mean {near}?"
    if inside:
        return f"there is no {flag}; in [{inside[0]}] there are {', '.join(flags)}"
    deep = {typed(names.short(name)) for name in names.leaves if "." in name} if names else set()
    shown = [each for each in flags if "." not in each and not each.startswith("--no-")]
    listed = ", ".join(each for each in shown if each not in deep)
    if deep:
        within = ", ".join(f"[{table}]" for table in tables if table)
        listed += f", and the fields of {within}: {command} --help"
    return f"there is no {flag}; {command} has {listed}"


def nearest_flag(flag: str, flags: list[str]) -> str:
    """The flag that was mistyped, or nothing: both the whole and the last part must be alike."""
    ends = {each: each for each in flags}
    for each in flags:  # `--optimiser.rat` is held against `--optimiser.rate` too
        for end in ends_of(each):
            ends.setdefault(end, each)
    for end in difflib.get_close_matches(flag, ends, n=5, cutoff=NEAR):
        last, other = (each.removeprefix("--").rpartition(".")[2] for each in (flag, end))
        if difflib.SequenceMatcher(None, last, other).ratio() >= NEAR:
            return ends[end]
    return ""


def usual(flag: str, known: list[str]) -> str:
    """What other libraries' name for something is called here, if it is one."""
    try:
        answer = import_module("regard.usual_names").answer_flag(flag, known)
    except ModuleNotFoundError:
        return ""
    return str(answer or "")


def ends_of(flag: str) -> list[str]:
    """A flag by its full name, and by every end of it."""
    parts = flag.removeprefix("--").split(".")
    return [f"--{'.'.join(parts[at:])}" for at in range(len(parts))]


def typed(name: str) -> str:
    return f"--{name.replace('_', '-')}"
