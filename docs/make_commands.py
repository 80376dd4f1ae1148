"""Write docs/commands.md from the commands themselves: `python docs/make_commands.py`.

What a command takes is read where `--help` reads it: its own fields, and those of a task's
configuration. Fields in the tables of a configuration are left to `--help`, or the page could not
be read.
"""

from __future__ import annotations

from dataclasses import MISSING
from importlib import import_module
from pathlib import Path

from regard.cli import COMMANDS, Command
from regard.cli.help import is_many, placeholder
from regard.cli.parse import own_leaves
from regard.count.subjects import PARTS
from regard.fields import Leaf, Names, leaves, tables
from regard.models import MODELS
from regard.tasks import TASKS

PAGE = Path(__file__).parent / "commands.md"
NAMED = {"train": next(iter(TASKS)), "count": next(iter(MODELS))}  # with which flags are shown
FIRST = {"train": "TASK"}  # a word that decides which flags there are
ABOUT = """\
# Commands

`regard --help` lists the commands, and `regard COMMAND --help` says the same as this page, with
every field of a configuration. The page is written from the commands themselves, by
`python docs/make_commands.py`.

- A flag without a value is switched on by its name, and off with `--no-` before it: `--no-report`.
- `--flag value` and `--flag=value` are the same. Several values are parted by spaces; numbers also
  by commas, `--betas 0.9,0.95`. What stands after `--` is no flag, whatever it begins with.
- The exit code is 0 on success and only then: 1 where something was found to be wrong, 2 for a
  mistake in what was typed or in the data, 130 after Ctrl-C and 143 after SIGTERM. A mistake is
  said in one sentence."""
MORE = {
    "demo": "[A page of the tour](tour/3-vit.md) shows what it draws of digits.",
    "train": """\
Every field of the configuration is a flag as well, by its last part, `--width 96`, and always by
its full name, `--model.width 96`: where two tables have a field of one name, the one nearer to the
top is meant, and of two that are equally near the full name must be typed. A table that comes in
kinds is given its kind by the name of the table. `regard train TASK --help` lists all with the
defaults of the recipe, `regard train --help` lists the recipes, and
[training.md](training.md) explains both. Below stand the fields of every task's `[train]`, and for
each task those in no table.""",
    "evaluate": "[looking.md](looking.md#evaluation-metrics-with-intervals) explains the figures.",
    "predict": """\
Of a run that writes texts, how it writes can be said anew: `regard predict RUN --help` lists those
flags too, such as `--temperature 0.5` and `--seed 7`.""",
    "look": "[looking.md](looking.md#looking-attention-maps-and-attributions) says what maps show.",
    "compare": "[looking.md](looking.md#comparing-runs) says what is drawn.",
    "average": "[training.md](training.md#weight-averaging-one-run-of-several): when it pays.",
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
    own = own_leaves(import_module(command.module).Options)
    places = [leaf for leaf in own if "positional" in leaf.metadata]
    words = [FIRST[name]] if name in FIRST else []
    usage = " ".join((f"regard {name}", *words, *map(typed_in_place, places), "[FLAGS]"))
    parts = [
        f"## `regard {name}`",
        f"{capital(command.summary)}.",
        f"```\n{usage}\n```",
        table(own),
    ]
    if name in MORE:
        parts.append(MORE[name])
    if name == "train":
        parts.append(f"### `regard train` of every task\n\n{table(training(), defaults=False)}")
        parts += map(task_section, TASKS)
        parts.append("### Examples of `regard train`")
    return "\n\n".join([*parts, "```\n" + "\n".join(command.examples) + "\n```"])


def task_section(name: str) -> str:
    """What a task alone can be told."""
    config = TASKS[name].load_config()()
    own = [leaf for leaf in leaves(config) if not leaf.table]
    listed = ", ".join(f"`[{each}]`" for each in tables(config))
    return (
        f"### `regard train {name}`\n\n{capital(TASKS[name].summary)}.\n\n"
        f"{table(own, defaults=False)}\n\nAnd the fields of {listed}."
    )


def training() -> list[Leaf]:
    """How a run trains, by flags that every task understands."""
    names = [Names(entry.load_config()()) for entry in TASKS.values()]
    return [
        leaf._replace(name=max((each.short(name) for each in names), key=len))
        for name, leaf in names[0].leaves.items()
        if name.startswith("train.") and all(name in each.leaves for each in names)
    ]


def typed(leaf: Leaf) -> str:
    """How an argument is typed, with a word for its value."""
    if "positional" in leaf.metadata:
        return typed_in_place(leaf)
    flag = f"--{leaf.name.replace('_', '-')}"
    if leaf.hint is bool:
        return flag
    return f"{flag} {placeholder(leaf).strip('{}').replace(',', '|')}"


def typed_in_place(leaf: Leaf) -> str:
    """How an argument without a flag is typed; in brackets where it may be left out."""
    word = placeholder(leaf).strip("{}").replace(",", "|") + ("…" if is_many(leaf.hint) else "")
    return word if leaf.default is MISSING else f"[{word}]"


def shown(leaf: Leaf) -> str:
    """A default that says something."""
    value = leaf.default
    if isinstance(value, bool):
        return "on" if value else ""
    return "" if value in (None, "", (), MISSING) else str(value)


def sentence(words: str) -> str:
    return capital(plain(words).rstrip(".")) + "."


def capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def plain(words: str) -> str:
    """Words for a cell of a table."""
    return " ".join(words.split())


def table(own: list[Leaf], defaults: bool = True) -> str:
    """A row for each argument; what stands in a cell must not end it."""
    values = defaults and any(map(shown, own))
    head = ["argument", *["default"] * values, "what it means"]
    rows = []
    for leaf in own:
        default = f"`{shown(leaf)}`" if shown(leaf) else ""
        rows.append([f"`{typed(leaf)}`", *[default] * values, sentence(leaf.help)])
    safe = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *safe])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
    print("wrote docs/commands.md")
