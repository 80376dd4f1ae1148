"""Flags from fields: argparse's arguments made from dataclasses, and what is typed read into them.

A command has a dataclass of its own flags. Some have a configuration besides, and each of its
fields is a flag too, by its last part where that is clear and always in full: `--width 96` and
`--model.width 96`. Types, defaults and words come from the fields; every value goes
through `config.coerce`, as it would from a file.
"""

from __future__ import annotations

import argparse
import re
import sys
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from regard.cli.help import (
    Layout,
    columns,
    filled,
    is_many,
    meaning,
    members,
    placeholder,
    shown_place,
)
from regard.cli.unknown import unknown_flag
from regard.config import coerce
from regard.errors import UserError
from regard.fields import Leaf, Names, helps, tables

if TYPE_CHECKING:
    from regard.cli import Command

T = TypeVar("T")
Device = Literal["auto", "cpu", "cuda", "mps"]
NUMBER = re.compile(r"-(\d|\.\d|inf\b|nan\b)")  # how a value begins that is no flag
POSITIONAL = {"positional": True}  # metadata of a field that is typed in its place
REPEATED = {"repeated": True}  # of one whose flag may be typed again, for one more value


class Group(NamedTuple):
    """Flags under one heading of the help."""

    title: str
    leaves: tuple[Leaf, ...]


def parse(
    command: Command,
    options: type[T],
    args: Sequence[str],
    config: Any = None,
    *,
    under: str = "",
    more: Sequence[Group] = (),
) -> tuple[T, dict[str, Any]]:
    """What is typed, as the command's own options and as changes to a configuration.

    `config` has the defaults of the configuration, and `under` the dotted name it stands under.
    The changes are by dotted name, those of `more` flags among them.
    """
    flags = Flags(command, options, config, under, more)
    end = args.index("--") if "--" in args else len(args)
    if {"-h", "--help"} & set(args[:end]):
        print(flags.help())
        raise SystemExit(0)
    given, words = flags.read(args[:end])
    given |= flags.placed([*words, *args[end + 1 :]])
    own = {each.name: given.pop(each.name) for each in flags.own if each.name in given}
    for leaf in flags.own:
        if leaf.name not in own and leaf.default is MISSING:
            raise UserError(f"{command.typed}: {placeholder(leaf)} is missing: {flags.usage}")
    return options(**own), given


def from_terminal(kind: type[T], words: str) -> T:
    """What is typed behind a script of its own, `python -m …`; a mistake ends it in a sentence."""
    from regard.cli import Command

    try:
        return parse(Command(f"python -m {main_module()}", words, ()), kind, sys.argv[1:])[0]
    except UserError as mistake:
        print(mistake, file=sys.stderr)
        raise SystemExit(2) from None


class Flags:
    """The flags of one command, and the fields that they set."""

    def __init__(
        self, command: Command, options: type[Any], config: Any, under: str, more: Sequence[Group]
    ) -> None:
        self.command = command
        self.own = own_leaves(options)
        self.places = [each for each in self.own if "positional" in each.metadata]
        self.names = None if config is None else Names(config, under)
        flagged = tuple(each for each in self.own if "positional" not in each.metadata)
        self.groups = [Group("flags", flagged), *more]
        if self.names is not None:
            about = {under[:-1]: type(config).__doc__ or ""} | tables(config, under)
            for table in dict.fromkeys(each.table for each in self.names.leaves.values()):
                inside = [each for each in self.names.leaves.values() if each.table == table]
                words = about.get(table, "").rstrip(".")
                title = f"[{table}] {words}".rstrip() if table else "configuration"
                self.groups.append(Group(title, tuple(inside)))
        # As it is typed → the field, and of a switch what it is switched to.
        self.known: dict[str, tuple[Leaf, bool]] = {}
        taken = {each.name for group in self.groups[: 1 + len(more)] for each in group.leaves}
        for group in self.groups:
            for leaf in group.leaves:
                for flag, on in self.spelt(leaf, taken):
                    if flag in self.known:
                        raise ValueError(
                            f"{flag} would set {self.known[flag][0].name}, and {leaf.name}"
                        )
                    self.known[flag] = leaf, on
        self.usage = " ".join((command.typed, *map(shown_place, self.places), "[FLAGS]"))

    def spelt(self, leaf: Leaf, taken: Iterable[str]) -> Iterator[tuple[str, bool]]:
        """How a flag may be typed, the shortest first; of a switch, to be on and to be off."""
        names = [leaf.name]
        if self.names is not None and self.is_field(leaf):
            full = [name for name, meant in self.names.full.items() if meant == leaf.name]
            short = self.names.short(leaf.name)
            names = [*dict.fromkeys(([] if short in taken else [short]) + full[::-1])]
        for name in names:
            *path, last = name.replace("_", "-").split(".")
            for on in (True, False) if leaf.hint is bool else (True,):
                yield f"--{'.'.join([*path, last if on else f'no-{last}'])}", on

    def is_field(self, leaf: Leaf) -> bool:
        """Whether a flag sets a field of the configuration, and is not the command's own."""
        return self.names is not None and self.names.leaves.get(leaf.name) is leaf

    def read(self, args: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """The values of flags by field, and the words that stand without a flag."""
        parser = self.parser()
        checked = [self.checked(word) for word in args]
        try:
            typed, words = parser.parse_known_args(checked)
        except argparse.ArgumentError as trouble:
            names = str(trouble.argument_name).split("/")
            flag = next((word for word in checked if word in names), names[0])
            word = placeholder(self.known[flag][0])
            raise UserError(
                f"{flag} needs a value: {flag} {word}; one that begins with - is typed {flag}=-…"
            ) from None
        given = {}
        for name, (flag, values) in vars(typed).items():
            leaf, on = self.known[flag]
            given[name] = on if leaf.hint is bool else value_of(leaf, flag, values)
        return given, words

    def checked(self, word: str) -> str:
        """A word as argparse may read it, or a sentence where it is a flag that nobody has."""
        flag, equals, value = word.partition("=")
        if flag[:1] != "-" or flag == "-" or NUMBER.match(flag) or len(flag.split()) > 1:
            return word
        flag = flag.replace("_", "-")
        if flag not in self.known:
            raise UserError(unknown_flag(flag, self.known, self.names, self.command.typed))
        leaf, on = self.known[flag]
        if leaf.hint is not bool or not equals:
            return f"{flag}{equals}{value}"
        wanted = coerce(bool, value, key=flag) == on
        return next(
            name for name, (each, to) in self.known.items() if each is leaf and to == wanted
        )

    def placed(self, words: Sequence[str]) -> dict[str, Any]:
        """The values of what is typed in its place."""
        given: dict[str, Any] = {}
        left = list(words)
        for leaf in self.places:
            word = placeholder(leaf)
            if is_many(leaf.hint):
                given[leaf.name] = coerce(leaf.hint, left, key=word)
                left = []
            elif left:
                given[leaf.name] = coerce(leaf.hint, left.pop(0), key=word)
        if left:
            raise UserError(f"{self.command.typed} has no place for {left[0]!r}: {self.usage}")
        return given

    def parser(self) -> argparse.ArgumentParser:
        """argparse's parser: it knows how many words a flag takes, and lays out the help."""
        examples = [f"  {line}" for line in self.command.examples]
        width = columns()
        parser = argparse.ArgumentParser(
            prog=self.command.typed,
            usage=self.usage,
            description=filled(self.command.summary, width),
            epilog="\n".join(("examples:", *examples)) if examples else None,
            formatter_class=lambda prog: Layout(prog, max_help_position=26, width=width),
            add_help=False,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            exit_on_error=False,
        )
        parser._negative_number_matcher = NUMBER
        for group in self.groups:
            if not group.leaves:
                continue
            made = parser.add_argument_group(group.title)
            for leaf in group.leaves:
                switch = leaf.hint is bool
                made.add_argument(
                    *(flag for flag, (each, _) in self.known.items() if each is leaf),
                    dest=leaf.name,
                    action=Given,
                    const="repeated" in leaf.metadata,
                    nargs=0 if switch else "*" if is_many(leaf.hint) else None,
                    metavar=None if switch else placeholder(leaf),
                    help=meaning(leaf, self.is_field(leaf)),
                )
        return parser

    def help(self) -> str:
        """The text of `--help`."""
        parser = self.parser()
        for group in parser._action_groups:  # those that argparse made by itself are empty
            if group.title == "options":
                group.title = None
        places = parser.add_argument_group("arguments")
        parser._action_groups.insert(0, parser._action_groups.pop())
        for leaf in self.places:
            places.add_argument(leaf.name, metavar=placeholder(leaf), help=meaning(leaf, False))
        if self.names is not None:
            words = "Each setting is also a flag by its full name, in brackets: --train.epochs 5."
            parser.description = f"{parser.description}\n\n{words}"
        return parser.format_help().rstrip()


class Given(argparse.Action):
    """Keeps what was typed for a field, and how the flag was spelt."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if self.const and hasattr(namespace, self.dest):  # it may be typed again
            values = getattr(namespace, self.dest)[1] + values
        setattr(namespace, self.dest, (option_string, values))


def own_leaves(options: type[Any]) -> list[Leaf]:
    """The fields of a command's own flags."""
    hints, help_on = typing.get_type_hints(options), helps(options)
    return [
        Leaf(each.name, hints[each.name], each.default, help_on.get(each.name, ""), each.metadata)
        for each in fields(options)
    ]


def value_of(leaf: Leaf, flag: str, typed: Any) -> Any:
    """What was typed after a flag as a value of its field; numbers may be parted by commas."""
    if not is_many(leaf.hint):
        return coerce(leaf.hint, typed, key=flag)
    kinds = members(leaf.hint)
    if len(kinds) > 1 and len(typed) == 1:
        try:
            return coerce(leaf.hint, typed[0], key=flag)
        except UserError:
            pass  # then it is several values in one word, or a single one
    several = next(kind for kind in kinds if typing.get_origin(kind) is tuple)
    if typing.get_args(several)[0] is not str:
        typed = [part for word in typed for part in word.split(",") if part]
    return coerce(leaf.hint, typed, key=flag)


def main_module() -> str:
    """The name of the module that was started with `python -m`."""
    spec = sys.modules["__main__"].__spec__
    return "" if spec is None else spec.name.removesuffix(".__main__")


def after(args: Sequence[str], flag: str) -> str | None:
    """What stands after a flag, where it decides how the rest is read; the last is what counts."""
    found = None
    for at, word in enumerate(args):
        if word == flag and at + 1 < len(args):
            found = args[at + 1]
        elif word.startswith(f"{flag}="):
            found = word.removeprefix(f"{flag}=")
    return found


def is_on(args: Sequence[str], flag: str) -> bool:
    """Whether a switch is on, where it decides how the rest is read."""
    found = False
    for word in args:
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        if name == flag:
            found = not equals or coerce(bool, value, key=flag)
        elif name == flag.replace("--", "--no-", 1):
            found = False
    return found
