"""`regard compare RUN RUN…`: curves of several runs on one figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.parse import POSITIONAL, Device, parse
from regard.errors import UserError
from regard.tasks import TASKS

if TYPE_CHECKING:
    from regard.cli import Command

MOST = 8  # runs on one figure: so many colours can be told apart


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard compare`."""

    runs: tuple[Path, ...] = field(default=(), metadata=POSITIONAL)
    """Folders of runs."""
    task: str | None = None
    """Train this first, once for each of --epochs."""
    recipe: str | None = None
    """The recipe to train with; by default the one made for the data."""
    data: str | None = None
    """The data to train on."""
    epochs: tuple[int, ...] = ()
    """How long to train, for example 10 30 50."""
    test: bool = False
    """Also measure on test the runs that have not been yet."""
    out: Path = Path("compare.png")
    """The figure, as .png, .svg or .pdf."""
    device: Device = "auto"
    """Where to run."""
    accept_edits: bool = False
    """Load runs although files of theirs were edited."""


def read(command: Command, args: Sequence[str]) -> Callable[[], None]:
    """The call to be made."""
    return partial(compare, parse(command, Options, args)[0])


def compare(options: Options) -> None:
    """Put the curves of several runs on one figure, and say how much each has memorised."""
    from regard.runs.compare import draw_comparison, rows_of, table_of
    from regard.runs.run import load, train
    from regard.tasks.several import one_task

    out, epochs, device = options.out, options.epochs, options.device
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise UserError(f"{out}: a comparison is drawn as .png, .svg or .pdf")
    if epochs and options.task is None:
        task = next(iter(TASKS))
        raise UserError(f"--epochs needs --task: regard compare --task {task} --epochs …")
    count = len(options.runs) + len(epochs)
    if count > MOST:
        raise UserError(f"{count} runs: {MOST} can be told apart on a figure")
    runs = [load(run, device=device, accept_edits=options.accept_edits) for run in options.runs]
    if options.task is not None:
        for count in epochs:
            run = train(
                options.task,
                data=options.data,
                recipe=options.recipe,
                epochs=count,
                device=device,
            )
            runs.append(run)
    if not runs:
        raise UserError("compare what? regard compare RUN RUN…, or --task with --epochs 10 30 50")
    one_task(runs)
    for run in runs:
        if options.test and run.evaluated("test") is None:
            run.evaluate("test")
    print(table_of(rows_of(runs)))
    try:
        draw_comparison(runs, out)
    except OSError as trouble:
        raise UserError(f"cannot write {out}: {trouble.strerror or trouble}") from None
    print(f"written: {out}")
