"""`regard predict RUN INPUT…`: what a run answers about images or texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.cli.parse import POSITIONAL, Device, parse
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.cli import Command


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard predict`."""

    run: Path = field(metadata=POSITIONAL)
    """Folder of the run."""
    inputs: tuple[str, ...] = field(default=(), metadata=POSITIONAL)
    """Texts as they stand here, or images and folders of images; - is standard input."""
    file: Path | None = None
    """A file of texts, a .txt by line, a .csv or .tsv by row, a .jsonl by object."""
    text_column: str | None = None
    """The column or key of its texts, if it is not as the run's own."""
    split: str | None = None
    """Ask about the run's own data, train, validation or test."""
    index: tuple[int, ...] = ()
    """Which items of that split, from 0; by default all."""
    device: Device = "auto"
    """Where to run it."""
    json: bool = False
    """Print one JSON object a line."""
    csv: Path | None = None
    """Write a table with a row for each answer to this file."""
    skip_invalid: bool = False
    """Leave out what cannot be read; the exit code is 0 all the same."""
    check_cache: bool = False
    """Prove on these texts that scores through the cache are those without."""
    explain_cache: bool = False
    """Show what one more token computes anew."""
    accept_edits: bool = False
    """Load the run although files of it were edited."""


def read(command: Command, args: Sequence[str]) -> Callable[[], int]:
    """The call to be made; the fields of how the run answers are flags too."""
    from regard.cli.answering import how_it_answers

    table, default = how_it_answers(args)
    try:
        options, changes = parse(command, Options, args, default, under=f"{table}.")
    except UserError:
        if default is None and args and not args[0].startswith("-"):
            from regard.run_folder import RunFolder

            RunFolder.open(Path(args[0]))  # without a run, which flags it has is not the question
        raise
    return partial(predict, options, changes)


def predict(options: Options, changes: Mapping[str, Any]) -> int:
    """Ask a run, and print what it answers."""
    from regard.cli.answering import items_typed, print_answers, prove, what_to_name
    from regard.runs.run import load

    run = load(options.run, device=options.device, accept_edits=options.accept_edits)
    items = items_typed(
        run, options.inputs, options.file, options.text_column, options.split, options.index
    )
    check, explain = options.check_cache, options.explain_cache
    if check or explain:
        return prove(run, items, check=check, explain=explain, json=options.json)
    if not (options.inputs or options.file or options.split):
        raise UserError(f"predict what? regard predict {what_to_name(run)}")
    return print_answers(
        run, items, changes, json=options.json, csv=options.csv, skip_invalid=options.skip_invalid
    )
