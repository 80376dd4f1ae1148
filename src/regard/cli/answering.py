"""What `regard predict` and `regard look` have in common: what is typed as items, and faults."""

from __future__ import annotations

import json as encoder
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.tasks import TASKS, find

if TYPE_CHECKING:
    from regard.runs.run import Run
    from regard.tasks.inputs import Unreadable

FAULTS = 20  # that are told one by one
FILES = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".gz", ".md")  # in which the name of one ends


def how_it_answers(args: Sequence[str]) -> tuple[str, Any]:
    """How the run that is named in `args` answers, and what its configuration calls that."""
    from regard.run_folder import RunFolder

    words = (word for word in args if not word.startswith("-"))
    # A word may be a text of any length, which only this way of asking takes calmly.
    place = next((word for word in words if os.path.isfile(f"{word}/config.toml")), None)
    if place is None:
        return "", None
    folder = RunFolder.open(Path(place), accept_edits="--accept-edits" in args)
    task = folder.about().get("task")
    if task not in TASKS:
        return "", None  # which loading it tells
    loaded = find(str(task)).load()
    if not loaded.asking:
        return "", None
    return loaded.asking, getattr(folder.config(loaded.config), loaded.asking)


def items_typed(
    run: Run,
    inputs: Sequence[str],
    file: Path | None,
    text_column: str | None,
    split: str | None,
    index: Sequence[int],
) -> Iterator[Any]:
    """What stands on a command line as items: arguments, then the file, then rows of the data."""
    from regard.tasks.inputs import TextFile

    values = values_typed(run, inputs)
    if file is not None:
        values.append(TextFile(file, text_column or ""))
    elif text_column:
        raise UserError(f"--text-column {text_column} is for texts in a file: name it with --file")
    return run.items(*values, split=split, indices=tuple(index) or None)


def what_to_name(run: Run) -> str:
    """How a command about a run goes on, where nothing was named."""
    about = "photo.png" if run.task.asks_about == "images" else '"a text"'
    return f"{run.folder.path} {about}, or --split {run.test_split} --index 0"


def values_typed(run: Run, inputs: Sequence[str]) -> list[Any]:
    """Arguments as values: of texts what they say, of images their paths, and - as what comes."""
    from regard.tasks.inputs import Named, StandardInput

    if run.task.asks_about == "texts":
        for text in inputs:
            if words := perhaps_meant(text):
                print(words, file=sys.stderr)
    return [
        StandardInput() if text == "-" else Named(f"argument {number}", text)
        for number, text in enumerate(inputs, start=1)
    ]


def perhaps_meant(text: str) -> str:
    """What to say where a text looks like something else; it is taken for a text all the same."""
    from regard.tasks.inputs import ROW

    if row := ROW.fullmatch(text):
        return f"{text} was taken as a text; of the data it is --split {row[1]} --index {row[2]}"
    there = os.path.isfile(text)  # which takes a text of any length calmly
    if there or (text.lower().endswith(FILES) and len(text.split()) == 1):
        is_one = "is a file here, and " if there else ""
        return f"{text} {is_one}was taken as a text; for the texts in a file: --file {text}"
    return ""


class Faults:
    """Items that could not be read, told on standard error as they come."""

    def __init__(self, skip: bool) -> None:
        self.skip, self.count = skip, 0

    def add(self, fault: Unreadable) -> None:
        self.count += 1
        if self.count <= FAULTS:
            print(f"{'left out' if self.skip else 'regard'}: {fault}", file=sys.stderr)

    def code(self) -> int:
        """The exit code: 1 where something could not be read, unless that was to be skipped."""
        if self.count > FAULTS:
            print(f"and {self.count - FAULTS:,} more that could not be read", file=sys.stderr)
        return int(self.count > 0 and not self.skip)


def print_answers(
    run: Run,
    items: Iterator[Any],
    changes: Mapping[str, Any],
    *,
    json: bool,
    csv: Path | None,
    skip_invalid: bool,
) -> int:
    """Answer items one after the other, as lines, as JSON or into a table; returns the code."""
    from regard.tasks.csv_file import csv_file, row_of
    from regard.tasks.inputs import Unreadable

    lines = not json and csv is None
    live = lines and sys.stdout.isatty()
    # An empty line for a text that was not read, so that lines stay aligned with what was asked.
    aligned = lines and not live and run.task.asks_about == "texts" and not skip_invalid
    faults, count, seed = Faults(skip_invalid), 0, None
    with nullcontext() if csv is None else csv_file(csv) as add:
        for answer in run.answers(items, show=tell if live else None, **changes):
            wrong = isinstance(answer, Unreadable)
            if wrong:
                faults.add(answer)
            if add is not None and not (wrong and skip_invalid):
                add(row_of(answer))
                count += 1
            if wrong:
                print("\n" * aligned, end="")
                continue
            seed = getattr(answer, "seed", None)
            if json:
                print(encoder.dumps(answer.to_values(), ensure_ascii=False))
            elif lines and not live:
                print(answer)
    if csv is not None:
        print(f"written: {csv}, {count:,} rows", file=sys.stderr if json else sys.stdout)
    if lines and seed is not None and without_seed(run, changes):
        print(f"drawn with --seed {seed}", file=sys.stderr)
    return faults.code()


def without_seed(run: Run, changes: Mapping[str, Any]) -> bool:
    config = run.changed(changes).config
    return getattr(getattr(config, run.task.asking, None), "seed", None) is None


def readable_items(items: Iterator[Any], skip_invalid: bool) -> tuple[list[Any], int]:
    """The items that can be looked at, and the exit code; what is none is told."""
    from regard.tasks.inputs import Unreadable, few_enough

    faults = Faults(skip_invalid)
    found = []
    for item in few_enough(items):
        if isinstance(item, Unreadable):
            faults.add(item)
        else:
            found.append(item)
    return found, faults.code()


def tell(piece: str) -> None:
    """Show a piece of text at once."""
    print(piece, end="", flush=True)


def prove(run: Run, items: Iterator[Any], *, check: bool, explain: bool, json: bool) -> int:
    """Print what is shown of a run's cache on some items; the code is 1 if that does not hold."""
    from rich.console import Console

    from regard.tasks.inputs import readable

    given = [*readable(items)]
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    proofs = run.check_cache(*given) if check else []
    proofs += run.explain_cache(*given) if explain else []
    for proof in proofs:
        if json:
            print(encoder.dumps(proof.to_values(), ensure_ascii=False))
        else:
            console.print(proof.__rich__() if hasattr(proof, "__rich__") else str(proof))
    return int(not all(proof.holds for proof in proofs))
