"""`regard evaluate RUN…`: the final figures of runs, with intervals, on data they have not seen."""

from __future__ import annotations

import json as encoder
import sys
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
    """The flags of `regard evaluate`."""

    runs: tuple[Path, ...] = field(default=(), metadata=POSITIONAL)
    """Folders of runs; of several, the mean and the spread are said too."""
    data: str | None = None
    """Other data than they were trained on, of classes that they know."""
    split: str | None = None
    """train, validation, test or all; by default test (validation if there is no test), and all of
    other data."""
    text_column: str | None = None
    """The column of other data that holds the texts, if it is not as the runs' own."""
    label_column: str | None = None
    """The column that holds the labels."""
    text_pair_column: str | None = None
    """The column that holds the second texts."""
    skip_invalid: bool = False
    """Leave out of other data what is of no use."""
    device: Device = "auto"
    """Where to run them."""
    save_results: Path | None = None
    """Write the figures of all, with command, hardware and seeds, to this .json."""
    json: bool = False
    """Print the figures as JSON, one object a line."""
    accept_edits: bool = False
    """Load runs although files of theirs were edited."""


def read(command: Command, args: Sequence[str]) -> Callable[[], None]:
    """The call to be made."""
    return partial(evaluate, parse(command, Options, args)[0])


def evaluate(options: Options) -> None:
    """Measure runs, and say or keep what was found."""
    from regard.runs.promise import promise_kept
    from regard.runs.record import recorded, spread
    from regard.runs.report import write_curves
    from regard.runs.run import READING, load
    from regard.tasks.several import one_task

    runs, data, record = options.runs, options.data, options.save_results
    if not runs:
        raise UserError("evaluate what? regard evaluate RUN…")
    if data is not None and record is not None:
        raise UserError("--save-results keeps figures on a run's own data; leave --data out")
    loaded = [load(run, device=options.device, accept_edits=options.accept_edits) for run in runs]
    one_task(loaded)
    split = options.split or (loaded[0].test_split if data is None else "all")
    reading = {name: getattr(options, name) for name in READING}
    given = {name: value for name, value in reading.items() if value not in (None, False)}
    judged = []
    for run in loaded:
        used = None if data is None else run.other(data, **given)
        if run is loaded[0] and (
            skipped := getattr(getattr(used, "metadata", None), "skipped", ())
        ):
            print(f"left out: {len(skipped):,}, the first as {skipped[0]}", file=sys.stderr)
        judged.append(run.evaluate(split, data=used, **(given if data is None else {})))
    for run, figures in zip(loaded, judged, strict=True):
        if options.json:
            print(encoder.dumps(figures.to_values()))
            continue
        words = split if data is None else f"{data}, {split}"
        print(run.task.summary(figures, words if len(runs) == 1 else f"{run.folder.path}: {words}"))
        if data is None:
            write_curves(run.folder)
            print(f"report: {run.report(split)}")
            if split == run.test_split and (kept := promise_kept(run, figures)):
                print(kept)
    same = data is not None or len({run.metadata.digest for run in loaded}) == 1
    if len(runs) > 1 and same and not options.json:
        print(spread(judged))
    if record is not None:
        try:
            text = encoder.dumps(recorded(loaded, judged, split), indent=1) + "\n"
            record.write_text(text, encoding="utf-8")
        except OSError as trouble:
            raise UserError(f"cannot write {record}: {trouble.strerror}") from None
        print(f"written: {record}", file=sys.stderr)
