"""What the fields of a configuration are called, and what they mean.

A field has a dotted name, `model.width`, and its last part, `width`, is enough wherever that is
clear. Flags, keywords in Python and the forms of the studio all read names and meanings here. No
torch, and nothing is run: what a field means is the string under it in the source.
"""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from regard.config import change
from regard.errors import UserError

KIND = ("name", "kind")  # the field of a table that says which kind of thing the table describes
OWNERS = {
    "seed": "train",
    "vocab_size": "tokenizer",
}  # whose a short name is, where several have it


class Leaf(NamedTuple):
    """One field: its dotted name, its type, its value or default, and what it means."""

    name: str
    hint: Any
    default: Any = MISSING
    help: str = ""
    metadata: Mapping[str, Any] = {}

    @property
    def table(self) -> str:
        """The dotted name of the table it stands in; empty for the configuration itself."""
        return self.name.rpartition(".")[0]


def leaves(config: Any, under: str = "") -> Iterator[Leaf]:
    """Every field of a configuration and of the tables in it, in the order of the source."""
    hints, help_on = typing.get_type_hints(type(config)), helps(type(config))
    for each in fields(config):
        value, name = getattr(config, each.name), f"{under}{each.name}"
        if each.init and is_dataclass(value):
            yield from leaves(value, f"{name}.")
        elif each.init:
            yield Leaf(name, hints[each.name], value, help_on.get(each.name, ""), each.metadata)


def tables(config: Any, under: str = "") -> dict[str, str]:
    """What each table of a configuration is about, by dotted name."""
    found: dict[str, str] = {}
    help_on = helps(type(config))
    for each in fields(config):
        value, name = getattr(config, each.name), f"{under}{each.name}"
        if each.init and is_dataclass(value):
            found[name] = help_on.get(each.name, "")
            found |= tables(value, f"{name}.")
    return found


def helps(kind: type[Any]) -> Mapping[str, str]:
    """What stands under each field of a dataclass, and of those it is made from."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if "__dataclass_fields__" in vars(base):
            found |= _strings(base.__module__).get(base.__qualname__, {})
    return found


class Names:
    """Which field of a configuration a word means, whether it is a flag or a keyword.

    The full name always does. So does its end, where no other field that ends so stands as near to
    the top: `width` for `model.width`, and not for `model.encoder.width`. A table that comes in
    kinds may be given its kind by the name of the table.
    """

    def __init__(self, config: Any, under: str = "") -> None:
        self.leaves = {leaf.name: leaf for leaf in leaves(config, under)}
        self.full = {name: name for name in self.leaves}
        for name, leaf in self.leaves.items():
            if leaf.table and name.rpartition(".")[2] in KIND and leaf.table not in self.leaves:
                self.full[leaf.table] = name
        # Tables that a configuration does not use, such as that of a model which is not trained.
        self.idle = tuple(f"{under}{table}." for table in getattr(config, "idle", ()))

    def meant(self, word: str) -> tuple[str, ...]:
        """The fields that a word may mean: one where it is clear, several where it is not."""
        if word in self.full:
            return (self.full[word],)
        found = [name for name in self.full if name.endswith(f".{word}") and not _is_kind(name)]
        found = [name for name in found if not name.startswith(self.idle)] or found
        owned = f"{OWNERS.get(word)}.{word}"
        if owned in found:
            return (owned,)
        depth = min((name.count(".") for name in found), default=0)
        return tuple(self.full[name] for name in found if name.count(".") == depth)

    def short(self, name: str) -> str:
        """The shortest word that means this field."""
        leaf = self.leaves[name]
        last = name.rpartition(".")[2]
        word = leaf.table.rpartition(".")[2] if leaf.table and last in KIND else last
        return word if self.meant(word) == (name,) else name

    def field(self, word: str) -> str:
        """The field that a word means, in full; a word that means none is left as it is."""
        found = self.meant(word)
        if len(found) > 1:
            raise UserError(f"{word} is in several tables: write {' or '.join(found)}")
        return found[0] if found else word


def in_full(config: Any, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes by the full names of their fields; one that says which table counts goes before."""
    for name in KIND:
        if name in changes and hasattr(config, name):
            config = change(config, {name: changes[name]})
    names = Names(config)
    return {names.field(name): value for name, value in changes.items()}


def _is_kind(name: str) -> bool:
    return name.rpartition(".")[2] in KIND


@cache
def _strings(module: str) -> Mapping[str, Mapping[str, str]]:
    """The strings under the fields of every class of a module, which is read once."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):  # of a class that was typed, there is no source
        return {}
    return {place: _under(node.body) for place, node in _classes(tree.body, "")}


def _classes(body: list[ast.stmt], under: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield f"{under}{node.name}", node
            yield from _classes(node.body, f"{under}{node.name}.")


def _under(body: list[ast.stmt]) -> dict[str, str]:
    return {
        line.target.id: inspect.cleandoc(after.value.value)
        for line, after in pairwise(body)
        if isinstance(line, ast.AnnAssign)
        and isinstance(line.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }
