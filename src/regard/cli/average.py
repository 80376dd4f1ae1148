"""`regard average RUN RUN…`: one run of several, the mean of their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.parse import POSITIONAL, Device, parse

if TYPE_CHECKING:
    from regard.cli import Command


@dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of `regard average`."""

    runs: tuple[Path, ...] = field(default=(), metadata=POSITIONAL)
    """Folders of runs."""
    out: Path | None = None
    """The folder of the new one; by default beside the first of them."""
    device: Device = "auto"
    """Where they are measured."""
    test: bool = False
    """Also measure the new one on test."""
    accept_edits: bool = False
    """Load runs although files of theirs were edited."""


def read(command: Command, args: Sequence[str]) -> Callable[[], None]:
    """The call to be made."""
    words = (
        "For runs that began from the same trained weights and differ in their seeds or in how "
        "they were trained. All are measured on validation beside their mean."
    )
    command = command._replace(summary=f"{command.summary}\n\n{words}")
    return partial(average, parse(command, Options, args)[0])


def average(options: Options) -> None:
    """Make one run of several: the mean of their weights."""
    from regard.runs.average import average as average_runs
    from regard.runs.run import load

    device, accepted = options.device, options.accept_edits
    loaded = [load(run, device=device, accept_edits=accepted) for run in options.runs]
    averaged = average_runs(loaded, options.out)
    print(averaged)
    run = averaged.run
    if options.test and run.test_split == "validation":
        print("there is no test to measure it on")
    elif options.test:
        print(run.task.summary(run.evaluate(run.test_split), run.test_split))
    where = run.folder.path
    shown = f"regard look {where} --split {run.test_split} --index 0"
    print(f"next: regard evaluate {where}    {shown}")
