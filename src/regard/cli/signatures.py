"""Functions whose signatures are the flags of a command, fitted to what is typed.

A recipe or a run decides what the defaults are, and whether there is a flag at all, so a signature
is changed before tyro reads it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

T = TypeVar("T")
Device = Literal["auto", "cpu", "cuda", "mps"]


def value_of(args: Sequence[str], flag: str) -> str | None:
    """What stands after a flag, before anything is parsed."""
    for at, word in enumerate(args):
        if word == flag and at + 1 < len(args):
            return args[at + 1]
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None


def unchecked(kind: type[Any]) -> type[Any]:
    """The same fields, which may contradict one another.

    Those of a configuration as a whole are checked by `build`, in a sentence; tyro would take
    what it says of them for a fault of the program.
    """
    return type(kind.__name__, (kind,), {"__post_init__": lambda _: None, "__doc__": kind.__doc__})


def without(function: Callable[..., T], name: str) -> Callable[..., T]:
    """The same function without one of its arguments, for tyro to read."""
    signature = inspect.signature(function)
    left = [each for each in signature.parameters.values() if each.name != name]
    vars(function)["__signature__"] = signature.replace(parameters=left)
    return function


def with_default(function: Callable[..., T], name: str, value: Any) -> Callable[..., T]:
    """The same function with a default for one of its arguments, for tyro to read."""
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(default=value) if parameter.name == name else parameter
        for parameter in signature.parameters.values()
    ]
    vars(function)["__signature__"] = signature.replace(parameters=parameters)
    return function
