"""What a person sees while a model trains: a live bar on a terminal, a line an epoch elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from regard.run_folder.metric_lines import quantity_of, split_of
from regard.training.fit import Progress, Report

if TYPE_CHECKING:
    from rich.console import Console

REFRESH = 0.1  # seconds between two states of the bar


@contextmanager
def display(
    console: Console,
    say: Callable[[str], None],
    *,
    epochs: int,
    steps: int,
    unit: str,
    memory: Callable[[], int | None],
    best: bool = True,
) -> Iterator[Report]:
    """Gives the function to call with the progress of a run of so many epochs and steps.

    The bar is drawn on `console` if that is a terminal; `say` gets a line for every epoch that is
    measured, which says if it is the `best` so far, unless the last is kept whatever it is.
    """
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    live = Bars(
        TextColumn("epoch {task.fields[epoch]} of {task.fields[epochs]}"),
        BarColumn(bar_width=12 if console.width < 100 else 24),
        TextColumn("{task.fields[words]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    bar = live.add_task("", total=steps, epoch=1, epochs=epochs, words="")
    pace = Pace()
    shown: float = 0.0
    lines: int | None = None

    def report(at: Progress) -> None:
        nonlocal shown, lines
        pace.saw(at)
        if lines is None:  # epochs of an earlier sitting have been told
            lines = at.lines if at.batch else at.lines - 1
        if at.lines > lines:  # an epoch is over
            lines = at.lines
            words = [f"epoch {at.epoch:>{len(str(epochs))}} of {epochs}"]
            words += [
                f"{split_of(name)} {words_of(name)} {written(name, x)}"
                for name, x in few(at.figures)
            ]
            words += [f"{pace.items_a_second:,.0f} {unit}/s"] if pace.items_a_second else []
            if best and at.best_epoch == at.epoch - 1:
                words.append("best so far")
            say("  ".join(words))
        now = time.monotonic()
        if now - shown < REFRESH and at.step < steps:
            return
        shown = now
        loss = f"loss {written('loss', at.loss / at.items)}" if at.items else ""
        figures = [f"{words_of(name)} {written(name, x)}" for name, x in few(at.figures)[:1]]
        parts = [loss, *figures, f"{pace.items_a_second:,.0f} {unit}/s"]
        parts += [f"{duration(pace.left(at, steps))} left"]
        parts += [f"{held / 1e9:.1f} GB"] if console.width >= 85 and (held := memory()) else []
        epoch = min(at.epoch + 1, epochs)
        live.update(bar, completed=at.step, epoch=epoch, words="  ".join(filter(None, parts)))

    with live:
        yield report


def words_of(name: str) -> str:
    """What is measured, as words: balanced accuracy for val/balanced_accuracy."""
    return quantity_of(name).replace("_", " ")


def few(figures: dict[str, float]) -> list[tuple[str, float]]:
    """The figures worth a place in a line: those of the deciding kind, by split."""
    first = next(iter(figures), "")
    kind = quantity_of(first)
    return [(name, x) for name, x in figures.items() if name.endswith(kind)]


def written(name: str, x: float) -> str:
    """A figure with three digits that count, so that what is small is seen to move."""
    if name.endswith(("accuracy", "/true_captions")):
        return f"{x:.{percent_places(x)}%}"
    return f"{x:.3f}" if not 0 < abs(x) < 0.0995 else f"{x:#.3g}"


def percent_places(share: float) -> int:
    """Decimals that show three digits of a share in per cent; one where it is 0 or no number."""
    size = abs(100 * share)
    if not 0 < size < 9.995:
        return 1
    return min(6, 2 - math.floor(math.log10(size)))


class Pace:
    """How fast a run goes: over the last steps, measuring between epochs left out."""

    def __init__(self) -> None:
        self.started: tuple[float, int] | None = None  # seconds and step when it was first seen
        self.epoch: tuple[int, float, float] = (-1, 0.0, 0.0)
        self.items_a_second = 0.0

    def saw(self, at: Progress) -> None:
        if self.started is None:
            self.started = (at.seconds, at.step)
        if at.epoch != self.epoch[0]:
            self.epoch = (at.epoch, at.seconds, at.items)
        _, since, items = self.epoch
        if at.items > items and at.seconds > since:
            self.items_a_second = (at.items - items) / (at.seconds - since)

    def left(self, at: Progress, steps: int) -> float | None:
        """Seconds to the end, at the pace of this sitting, measuring included."""
        if self.started is None or at.step <= self.started[1]:
            return None
        return (at.seconds - self.started[0]) / (at.step - self.started[1]) * (steps - at.step)


def duration(seconds: float | None) -> str:
    """Seconds as a person says them."""
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
