"""What a run can be asked: about an image, a text or a pair of texts; and whether it writes.

    kind_of("…")                           # ("image", False)
    kind_of("…", folder.read_facts("data"))  # ("pair", False), where its data are pairs

No task is named here. What a task makes of an input says it: an item of `parse_inputs` has
`pixels`, or a `text`, or room for a `second` text. A task that streams its answers writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_type_hints

from regard.tasks import TASKS, find
from regard.tasks.task import Task

Input = Literal["image", "text", "pair"]


def kind_of(
    task: str | Task[Any, Any, Any], facts: Mapping[str, Any] | None = None
) -> tuple[Input | None, bool]:
    """What runs of a task are asked about, and whether they write; nothing of an unknown task.

    A task that reads single texts or pairs, as its data are, says so in a run's `facts`, its
    data.json; without them it is taken to read single ones. Where only "pair" is said, the second
    text may be left out.
    """
    if isinstance(task, str):
        if task not in TASKS:  # a run of a later version, or a damaged one
            return None, False
        task = find(task).load()
    has = fields_parsed(task)
    pairs = "second" in has
    if pairs and "paired" in names_of(task.metadata):
        pairs = bool((facts or {}).get("paired", False))
    if "pixels" in has:
        return "image", task.stream is not None
    if "text" in has:
        return ("pair" if pairs else "text"), task.stream is not None
    return None, task.stream is not None


@cache
def fields_parsed(task: Task[Any, Any, Any]) -> frozenset[str]:
    """The fields of what a task makes of an input; none where its `parse_inputs` does not say."""
    try:
        made = get_type_hints(task.parse_inputs).get("return")
    except (NameError, TypeError):
        return frozenset()
    kinds = [each for kind in get_args(made) for each in (get_args(kind) or (kind,))]
    return frozenset().union(*map(names_of, kinds))


def names_of(kind: Any) -> frozenset[str]:
    """The fields of a dataclass; of anything else, none."""
    return frozenset(each.name for each in fields(kind)) if is_dataclass(kind) else frozenset()
