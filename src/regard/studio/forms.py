"""Recipes as forms: every field of a configuration with its kind, its default and what it means.

The words are those that stand under the fields in the source, as `--help` shows them.
"""

from __future__ import annotations

import typing
from typing import Any, Literal

from regard.fields import leaves
from regard.runs.recipe import Recipe, recipes
from regard.tasks import TASKS

KINDS = {bool: "bool", int: "int", float: "float"}


def forms(where: str = "") -> list[dict[str, Any]]:
    """The recipes that can be followed here: their data are embedded, on this machine, or yours.

    `where` is what is said of data besides: from where the page may take them.
    """
    found = []
    for task, entry in TASKS.items():
        kind = entry.load_config()
        for name, recipe in recipes(task).items():
            own = is_own(recipe, task)
            config = recipe.config(kind)
            if not (own or is_here(config.data)):
                continue
            lines = fields_of(config)
            for line in lines:
                if line["name"] == "data":
                    line["help"] = f"{line['help']} {where}".strip()
                if own and line["name"] == "data":
                    line["default"] = ""  # to be said
            found.append(
                {
                    "task": task,
                    "name": name,
                    "words": recipe.about.description or entry.summary,
                    "default": recipe.about.default and not own,
                    "fields": lines,
                }
            )
    return found


def is_own(recipe: Recipe, task: str) -> bool:
    """Whether a recipe is for data of the user's own: it names none, and another does instead."""
    if recipe.values.get("data"):
        return False
    default = TASKS[task].load_config()().data
    return any(each.values.get("data") == default for each in recipes(task).values())


def is_here(data: str) -> bool:
    """Whether data of this name are embedded, or lie on this machine."""
    from regard.cli.data import CAPTIONED
    from regard.data.corpus import CORPORA, find_corpus
    from regard.data.labelled import LABELLED, find_labelled
    from regard.data.pairs import PAIRS, find_pairs
    from regard.data.registry import EMBEDDED, KNOWN, find, named_place, resolve

    if data in EMBEDDED:
        return True
    if data in KNOWN:
        return find(KNOWN[data]) is not None
    if data in CAPTIONED:
        return not CAPTIONED[data].address or named_place(data) is not None
    if data in CORPORA:
        return not CORPORA[data].places or find_corpus(data) is not None
    if data in PAIRS:
        return not PAIRS[data].places or find_pairs(data) is not None
    if data in LABELLED:
        return not LABELLED[data].places or find_labelled(data) is not None
    return resolve(data).exists()


def fields_of(config: Any) -> list[dict[str, Any]]:
    """The fields of a configuration and of the tables in it, by dotted name."""
    found: list[dict[str, Any]] = []
    for leaf in leaves(config):
        line = {
            "name": leaf.name,
            "kind": KINDS.get(leaf.hint, "text"),
            "default": shown(leaf.default),
        }
        if typing.get_origin(leaf.hint) is Literal:
            line |= {"kind": "choice", "choices": list(typing.get_args(leaf.hint))}
        found.append({**line, "help": leaf.help})
    return found


def shown(value: Any) -> Any:
    """A value as it is typed into a field: several are parted by commas."""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else value


def joined(config: Any) -> dict[str, Any]:
    """All values of a configuration by dotted name."""
    return {leaf.name: leaf.default for leaf in leaves(config)}
