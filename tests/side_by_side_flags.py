"""Every flag of before beside the one that sets the same field now, as a table in Markdown.

    python tests/side_by_side_flags.py > flags.md

`fixtures/flags_before.json` keeps the flags of each command before they were made from
fields, `refused` those that always ended in an error, and `fixtures/flags_now.json`, where there
is one, what is called otherwise since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from regard.cli import COMMANDS
from regard.cli.parse import Flags
from regard.fields import Leaf
from regard.runs.recipe import choose_recipe
from regard.tasks import TASKS, find

FIXTURES = Path(__file__).parent / "fixtures"
BEFORE = json.loads((FIXTURES / "flags_before.json").read_text(encoding="utf-8"))
# "command" → command, "command flag" → flag: what is not in here is called as it was.
RENAMED = FIXTURES / "flags_now.json"
NOW: Mapping[str, str] = (
    json.loads(RENAMED.read_text(encoding="utf-8")) if RENAMED.is_file() else {}
)


def command_now(command: str) -> str:
    """How a command of before is typed now, with its task, model or claim."""
    return NOW.get(command, command)


def flag_now(command: str, flag: str) -> str:
    """What a flag of before is called now."""
    return NOW.get(f"{command} {flag}", flag)


class Seen(Exception):
    """Thrown where the help would be written, with the flags that it would list."""

    def __init__(self, flags: Flags) -> None:
        self.flags = flags


def script_flags(command: str) -> set[str]:
    """What a command reads that stands outside by now, `python -m …`."""
    module = import_module(f"{command.removeprefix('python -m ')}.__main__")
    return {flag for action in module.arguments()._actions for flag in action.option_strings}


def flags_of(command: str) -> Flags:
    """What a command reads, such as `train classify` or `predict language`."""
    name, *words = command.split()

    def instead_of_help(flags: Flags) -> str:
        raise Seen(flags)

    def how_it_answers(_: Any) -> tuple[str, Any]:
        task = find(words[0]).load()
        if not task.asking:
            return "", None
        config = choose_recipe(words[0]).config(TASKS[words[0]].load_config())
        return task.asking, getattr(config, task.asking)

    with (
        patch.object(Flags, "help", instead_of_help),
        patch("regard.cli.answering.how_it_answers", how_it_answers),
    ):
        try:
            COMMANDS[name].read([*words, "--help"])
        except Seen as seen:
            return seen.flags
    raise AssertionError(f"regard {command} --help shows no flags")


def row(command: str, flag: str, known: Mapping[str, tuple[Leaf, bool]]) -> str:
    """One flag of before, what is typed now, the shortest first, and the field it sets."""
    leaf, on = known[flag_now(command, flag)]
    names = [name for name, (each, to) in known.items() if each is leaf and to == on]
    return f"| `{flag}` | {', '.join(f'`{name}`' for name in names)} | `{leaf.name}` |"


def page() -> str:
    """The whole table, by command."""
    parts = []
    for command, before in BEFORE.items():
        if command_now(command).startswith("python"):
            parts.append(f"## regard {command} → {command_now(command)}")
            continue
        now = flags_of(command_now(command))
        shared = set(BEFORE.get(command.split()[0], {}).get("flags", ()))
        rows = [
            row(command, flag, now.known)
            for flag in (*before["flags"], *before["off"])
            if " " not in command or flag not in shared
        ]
        title = f"## regard {command}"
        if command_now(command) != command:
            title += f" → regard {command_now(command)}"
        parts.append("\n".join((title, "", "| before | now | field |", "|---|---|---|", *rows)))
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(page())
