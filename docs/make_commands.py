"""Write docs/commands.md from the commands themselves: `python docs/make_commands.py`.

What a command takes is read where `--help` reads it: the signature of its function, the words
below that, and the fields of a task's configuration. Fields with a dot in their flags are left to
`--help`, or the page could not be read.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from tyro.conf import Positional

from regard.cli import COMMANDS, Command
from regard.count.subjects import PARTS
from regard.models import MODELS
from regard.studio.forms import helps
from regard.tasks import TASKS

PAGE = Path(__file__).parent / "commands.md"
NAMED = {"train": next(iter(TASKS)), "count": next(iter(MODELS))}  # with which flags are shown
FIELDS = ("config", "asking")  # arguments that stand for the fields of a configuration
WORDS = {int: "N", float: "X", str: "TEXT", Path: "PATH"}
ABOUT = """\
# Commands

`regard --help` lists the commands, and `regard COMMAND --help` says the same as this page, with
every field of a configuration. The page is written from the commands themselves, by
`python docs/make_commands.py`.

- A flag without a value is switched on by its name, and off with `--no-` before it: `--no-report`.
- The exit code is 0 on success and only then: 1 where something was found to be wrong, 2 for a
  mistake in what was typed or in the data, 130 after Ctrl-C and 143 after SIGTERM. A mistake is
  said in one sentence."""
MORE = {
    "demo": "[The README](../README.md) shows what it draws.",
    "train": """\
Every field of the configuration is a flag as well, with a dot for each table in it:
`--model.width 96`, `--train.optimiser.rate 1e-3`. `regard train TASK --help` lists them with the
defaults of the recipe, `regard train --help` lists the recipes, and
[training.md](training.md) explains both. Each task also has flags without a dot, below.""",
    "evaluate": "[looking.md](looking.md#measuring) explains the figures.",
    "predict": """\
Of a run that writes texts, how it writes can be said anew: `regard predict RUN --help` lists those
flags too, such as `--speaking.tokens 50`.""",
    "look": "[looking.md](looking.md#looking) says what the maps show.",
    "compare": "[looking.md](looking.md#comparing) says what is drawn.",
    "average": "[training.md](training.md#one-run-of-several) says when that pays.",
    "studio": "[studio.md](studio.md) shows the pages.",
    "data": "[data.md](data.md) says which files are read, and where they are looked for.",
    "lab": """\
Where one claim is named, its numbers are flags: `regard lab softmax-jacobian --help`.
[lab.md](lab.md) says what a verdict is, [theory.md](theory.md) lists the claims.""",
    "count": f"""\
A subject is the folder of a run, a model
({", ".join(f"`{name}`" for name in MODELS)}),
or a part of one ({", ".join(f"`{name}`" for name in PARTS)}). Its fields are flags too:
`regard count vit --help`. [count.md](count.md) explains what is printed.""",
    "doctor": "[faq.md](faq.md#the-gpu-is-not-used) says what to do where a GPU is not used.",
}


class Argument(NamedTuple):
    """One thing that can be said to a command: how it is typed, and what it means."""

    typed: str
    default: str
    meaning: str
    flag: bool


def page() -> str:
    """The whole page as Markdown."""
    listed = "\n".join(
        f"| [`{name}`](#regard-{name}) | {plain(command.summary)} |"
        for name, command in COMMANDS.items()
    )
    sections = [section(name, command) for name, command in COMMANDS.items()]
    contents = f"| command | what it does |\n|---|---|\n{listed}"
    return "\n\n".join([ABOUT, contents, *sections]) + "\n"


def section(name: str, command: Command) -> str:
    """One command: how it is typed, its arguments and examples."""
    said = list(arguments(function_of(name, command)))
    words = " ".join(each.typed for each in said if not each.flag)
    flags = "[FLAGS]" if any(each.flag for each in said) else ""
    usage = " ".join(filter(None, (f"regard {name}", words, flags)))
    parts = [
        f"## `regard {name}`",
        f"{capital(command.summary)}.",
        f"```\n{usage}\n```",
        table(said),
    ]
    if name in MORE:
        parts.append(MORE[name])
    if name == "train":
        parts += map(task_section, TASKS)
        parts.append("### Examples of `regard train`")
    return "\n\n".join([*parts, "```\n" + "\n".join(command.examples) + "\n```"])


def task_section(name: str) -> str:
    """What a task alone can be told."""
    kind: Any = TASKS[name].load_config()
    hints, meanings = get_type_hints(kind), helps(kind)
    tables = [each.name for each in fields(kind) if is_dataclass(hints[each.name])]
    said = [
        Argument(flag(each.name, hints[each.name]), "", sentence(meanings[each.name]), True)
        for each in fields(kind)
        if each.name not in tables
    ]
    dotted = ", ".join(f"`--{each}.…`" for each in tables)
    return (
        f"### `regard train {name}`\n\n{capital(TASKS[name].summary)}.\n\n{table(said)}\n\n"
        f"And by field: {dotted}."
    )


def function_of(name: str, command: Command) -> Callable[..., Any]:
    """The function whose signature is the flags."""
    found = command.load()
    return found([NAMED[name]] if name in NAMED else []) if command.adapts else found


def arguments(function: Callable[..., Any]) -> Iterator[Argument]:
    """What a function takes, in its order, but for the fields of a configuration."""
    hints, meanings = get_type_hints(function, include_extras=True), meanings_of(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if name in FIELDS:
            continue
        hint, marks = unwrapped(hints[name])
        many = parameter.kind is parameter.VAR_POSITIONAL
        needed = not many and parameter.default is parameter.empty
        if many or needed or in_place(marks):
            word = "|".join(map(str, get_args(hint))) if get_origin(hint) is Literal else ""
            word = word or (name.removesuffix("s") if many else name).upper()
            typed = f"{word}…" if many else word
            yield Argument(typed if needed else f"[{typed}]", "", meanings[name], flag=False)
        else:
            default = shown(parameter.default)
            yield Argument(flag(name, hint), default, meanings[name], flag=True)


def unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without what is said about it, and that."""
    marks = getattr(hint, "__metadata__", ())
    return (hint.__origin__ if marks else hint), marks


def in_place(marks: tuple[Any, ...]) -> bool:
    """Whether an argument is marked as one that is typed without a flag."""
    return any(mark in getattr(Positional[int], "__metadata__", ()) for mark in marks)


def flag(name: str, hint: Any) -> str:
    """How a flag is typed, with a word for its value."""
    dashed = f"--{name.replace('_', '-')}"
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    if hint is bool:
        return dashed
    if get_origin(hint) is Literal:
        return f"{dashed} {'|'.join(map(str, kinds))}"
    if get_origin(hint) is tuple:
        return f"{dashed} {WORDS[kinds[0]]} …"
    return f"{dashed} {WORDS[kinds[0] if kinds else hint]}"


def shown(value: Any) -> str:
    """A default that says something."""
    if isinstance(value, bool):
        return "on" if value else ""
    return "" if value in (None, "", ()) else str(value)


def meanings_of(function: Callable[..., Any]) -> dict[str, str]:
    """What the words below a signature say of each argument."""
    _, _, told = (inspect.getdoc(function) or "").partition("Args:\n")
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", told, re.MULTILINE)
    return {name: sentence(" ".join(words.split())) for name, words in found}


def sentence(words: str) -> str:
    return capital(plain(words).rstrip(".")) + "."


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def plain(words: str) -> str:
    """Words for a cell of a table."""
    return " ".join(words.split())


def table(said: list[Argument]) -> str:
    """A row for each argument; what stands in a cell must not end it."""
    values = any(each.default for each in said)
    head = ["argument", *["default"] * values, "what it means"]
    rows = [
        [f"`{each.typed}`", *[f"`{each.default}`" if each.default else ""] * values, each.meaning]
        for each in said
    ]
    safe = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *safe])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
    print("wrote docs/commands.md")
