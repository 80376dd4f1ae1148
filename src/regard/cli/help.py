"""How a flag is described in `--help`: its value, its meaning, the field it sets, its default."""

from __future__ import annotations

import argparse
import shutil
import textwrap
import types
import typing
from dataclasses import MISSING
from pathlib import Path
from typing import Any, Literal

from regard.fields import Leaf

WORDS = {int: "N", float: "X", str: "TEXT", Path: "PATH"}
WIDEST = 100  # columns; a terminal may have fewer


def meaning(leaf: Leaf, is_field: bool) -> str:
    """What a flag means, and its default; of a field of the configuration, which one it sets."""
    words, default = " ".join(leaf.help.split()), shown(leaf.default)
    if is_field:
        words += f" ({leaf.name} = {default or 'empty'})"
    elif default and leaf.default is not None and leaf.default is not False:
        words += f" (default: {default})"
    return words.replace("%", "%%")


def columns() -> int:
    """How wide the help is."""
    return min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)


def members(hint: Any) -> tuple[Any, ...]:
    """The types that a value may have."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if union else (hint,)


def is_many(hint: Any) -> bool:
    """Whether several words may be typed for a value."""
    return any(typing.get_origin(kind) is tuple for kind in members(hint))


def placeholder(leaf: Leaf) -> str:
    """The word that stands for a value in the help."""
    if "positional" in leaf.metadata and typing.get_origin(leaf.hint) is not Literal:
        word = leaf.name.upper()
        return word.removesuffix("S") if is_many(leaf.hint) else word
    found = []
    for kind in members(leaf.hint):
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is Literal:
            found.append(",".join(map(str, inner)))
        elif origin is tuple:
            found.append(f"{WORDS.get(inner[0], 'VALUE')} …")
        elif kind is not types.NoneType:
            found.append(WORDS.get(kind, "VALUE"))
    several = any("," in each for each in found)
    return f"{{{','.join(found)}}}" if several else "|".join(found)


def shown_place(leaf: Leaf) -> str:
    """How an argument stands in a line of usage."""
    word = placeholder(leaf) + (" …" if is_many(leaf.hint) else "")
    return word if leaf.default is MISSING else f"[{word}]"


def shown(value: Any) -> str:
    """A default, as it is typed."""
    if value is MISSING or value == "" or value == ():
        return ""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def filled(text: str, width: int) -> str:
    """Paragraphs in lines of this width; lines that begin with a space stay as they are."""
    return "\n".join(
        line if line[:1] == " " else textwrap.fill(line, width) for line in text.splitlines()
    )


class Layout(argparse.RawDescriptionHelpFormatter):
    """The help in argparse's columns, each flag with its short form, and its value once."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return str(action.metavar)
        first = action.option_strings[0]
        if action.nargs == 0:
            return f"{first}, {action.option_strings[1]}"
        return f"{first} {action.metavar}"
