"""`regard look RUN INPUT…`: where a run looked, as a page or a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.parse import POSITIONAL, Device, parse
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.cli import Command


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard look`."""

    run: Path = field(metadata=POSITIONAL)
    """Folder of the run."""
    inputs: tuple[str, ...] = field(default=(), metadata=POSITIONAL)
    """Texts as they stand here, or images and folders of images; - is standard input."""
    file: Path | None = None
    """A file of texts, a .txt by line, a .csv or .tsv by row, a .jsonl by object."""
    text_column: str | None = None
    """The column or key of its texts, if it is not as the run's own."""
    split: str | None = None
    """Look at the run's own data, train, validation or test."""
    index: tuple[int, ...] = ()
    """Which items of that split, from 0."""
    out: Path = Path("look.html")
    """.html with every layer and head to choose from, or .png, .svg, .pdf."""
    skip_invalid: bool = False
    """Leave out what cannot be read; the exit code is 0 all the same."""
    device: Device = "auto"
    """Where to run it."""
    accept_edits: bool = False
    """Load the run although files of it were edited."""


def read(command: Command, args: Sequence[str]) -> Callable[[], int]:
    """The call to be made."""
    return partial(look, parse(command, Options, args)[0])


def look(options: Options) -> int:
    """See where a run looked."""
    from regard.cli.answering import items_typed, readable_items, what_to_name
    from regard.runs.run import load

    run = load(options.run, device=options.device, accept_edits=options.accept_edits)
    if not (options.inputs or options.file or options.split):
        raise UserError(f"look at what? regard look {what_to_name(run)}")
    items = items_typed(
        run, options.inputs, options.file, options.text_column, options.split, options.index
    )
    readable, code = readable_items(items, options.skip_invalid)
    if not readable:
        raise UserError("nothing of this can be looked at")
    try:
        print(f"written: {run.look(*readable).write(options.out)}")
    except OSError as trouble:
        raise UserError(f"cannot write {options.out}: {trouble.strerror or trouble}") from None
    return code
