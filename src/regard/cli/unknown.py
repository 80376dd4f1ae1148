"""What is answered to a flag that a command does not have."""

from __future__ import annotations

from collections.abc import Iterable

from regard.fields import Names
from regard.typos import typo_of
from regard.usual_names import answer_flag


def unknown_flag(flag: str, known: Iterable[str], names: Names | None, command: str) -> str:
    """A sentence: what the flag is called here, which one was meant, or which there are."""
    flags = list(known)
    word = flag.lstrip("-").replace("-", "_")
    several = names.meant(word) or names.meant(word.removeprefix("no_")) if names else ()
    if len(several) > 1:
        return f"{flag} is in several tables: type {' or '.join(map(typed, several))}"
    if "." in flag and (near := typo_of(flag, flags)):
        return f"there is no {flag}; did you mean {near}?"  # rather than answered by its last part
    if answer := answer_flag(flag, flags):
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
    """The flag that was mistyped, or nothing; its last part alone may have been typed."""
    ends = {each: each for each in flags}
    for each in flags:  # what follows a table's name is held against every field of that table
        for end in ends_of(each):
            ends.setdefault(end, each)
    near = typo_of(flag, ends)
    return ends[near] if near else ""


def ends_of(flag: str) -> list[str]:
    """A flag by its full name, and by every end of it."""
    parts = flag.removeprefix("--").split(".")
    return [f"--{'.'.join(parts[at:])}" for at in range(len(parts))]


def typed(name: str) -> str:
    return f"--{name.replace('_', '-')}"
