"""Several runs side by side: their curves on one figure, and how much each has memorised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError
from regard.run_folder import epochs_in
from regard.run_folder.metric_lines import deciding, lower_is_better, quantity_of
from regard.runs.report import marks
from regard.training.progress_line import percent_places
from regard.visualization.figure_curves import curves_figure, gap

if TYPE_CHECKING:
    from regard.runs.run import Run


@dataclass(frozen=True)
class Row:
    """What one run came to: shares of 1 or a loss, or None where nobody measured."""

    name: str
    epochs: int
    train: float | None
    validation: float | None
    gap: float | None  # training minus validation, both at the last epoch
    best: float | None  # on validation, at any epoch
    test: float | None
    seconds: float
    percent: bool = True  # how the figures are written; a loss is a number


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """One row a run."""
    rows = []
    for run in runs:
        lines = run.metrics
        if not lines:
            raise UserError(f"{run.folder.path} has no metrics yet: no epoch of it is over")
        try:
            apart = gap(lines)
        except ValueError as trouble:
            raise UserError(f"{run.folder.path / 'metrics.jsonl'}: {trouble}") from None
        key = deciding(lines[-1])
        assert key is not None  # or there were no gap
        best = min if lower_is_better(key) else max
        test = marks(run.folder).get(run.folder.path.name, {})
        rows.append(
            Row(
                run.folder.path.name,
                epochs_in(lines),
                apart.train,
                apart.held_out,
                apart.difference,
                best(line[key] for line in lines if key in line),
                test.get(quantity_of(key)),  # the same figure, or none
                float(lines[-1].get("train_seconds", 0.0)),
                not lower_is_better(key),
            )
        )
    return rows


def table_of(rows: Sequence[Row]) -> str:
    """The rows as text, shares in percent, with the decimals that the least of them needs."""
    least = min((row.best for row in rows if row.best and row.percent), key=abs, default=1.0)
    places = percent_places(least)
    head = ("run", "epochs", "train", "validation", "gap", "best", "test", "seconds")
    body = [
        (
            row.name,
            str(row.epochs),
            *(
                "-" if share is None else f"{share:.{places}%}" if row.percent else f"{share:.3f}"
                for share in (row.train, row.validation, row.gap, row.best, row.test)
            ),
            f"{row.seconds:.0f}",
        )
        for row in rows
    ]
    widths = [max(len(line[at]) for line in (head, *body)) for at in range(len(head))]

    def written(line: Sequence[str]) -> str:
        first, *others = line
        padded = (f"{word:>{wide}}" for word, wide in zip(others, widths[1:], strict=True))
        return f"{first:<{widths[0]}}  " + "  ".join(padded)

    return "\n".join(map(written, (head, *body)))


def draw_comparison(runs: Sequence[Run], path: Path) -> None:
    """Training and validation curves of every run, with its figure on test as a mark."""
    named = {}
    for name, run in zip(unique([run.folder.path for run in runs]), runs, strict=True):
        apart = gap(run.metrics)
        key = deciding(run.metrics[-1])
        plain = key is not None and lower_is_better(key)
        style = "+.3f" if plain else f"+.{percent_places(apart.held_out)}%"
        named[f"{name} (gap {apart.difference:{style}})"] = run
    curves_figure(
        {name: run.metrics for name, run in named.items()},
        path,
        title=f"{len(runs)} runs, and how much more each knows of what it learnt from",
        marks={
            name: marks(run.folder).get(run.folder.path.name, {}) for name, run in named.items()
        },
    )


def unique(paths: Sequence[Path]) -> list[str]:
    """Names of folders, longer where two would be the same."""
    names = [path.name for path in paths]
    return [
        name if names.count(name) == 1 else str(path)
        for name, path in zip(names, paths, strict=True)
    ]
