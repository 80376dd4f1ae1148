"""Answers to items, some at a time: what is asked about may be longer than memory is large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from typing import Any

from regard.tasks.inputs import Unreadable
from regard.tasks.task import Show, Task, Trained

AT_ONCE = 256  # items that are read before the model is asked


def answered(
    task: Task[Any, Any, Any],
    trained: Trained[Any, Any],
    items: Iterable[Any],
    show: Show | None = None,
) -> Iterator[Any]:
    """The answers to each item, in order; an `Unreadable` stays where it is.

    `show` is called with each piece of text as it is written, a line's end after each answer.
    """
    items = iter(items)
    streams = show is not None and task.stream is not None
    while some := list(islice(items, 1 if streams else AT_ONCE)):
        good = [item for item in some if not isinstance(item, Unreadable)]
        found = answers_to(task, trained, good, show) if good else []
        share, rest = len(found) // max(1, len(good)), iter(found)
        for item in some:
            if isinstance(item, Unreadable):
                yield item
            else:
                yield from islice(rest, share)


def answers_to(
    task: Task[Any, Any, Any], trained: Trained[Any, Any], items: list[Any], show: Show | None
) -> list[Any]:
    if show is not None and task.stream is not None:
        return task.stream(trained, items, show)
    found = task.predict(trained, items)
    if show is not None:
        for answer in found:
            show(f"{answer}\n")
    return found


def seeded_once(trained: Trained[Any, Any], part: str, seed: int) -> Trained[Any, Any]:
    """The same with this seed, if answers are drawn by one that nobody has chosen."""
    how = getattr(trained.config, part, None)
    if how is None or getattr(how, "seed", 0) is not None:
        return trained
    return replace(trained, config=replace(trained.config, **{part: replace(how, seed=seed)}))


def names_of(how: Any) -> frozenset[str]:
    """The fields that decide how answers are made."""
    return frozenset(each.name for each in fields(how)) if is_dataclass(how) else frozenset()
