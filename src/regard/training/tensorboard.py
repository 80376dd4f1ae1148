"""The same figures for TensorBoard, where it is installed and asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.training.fit import Progress, Report


@contextmanager
def board(folder: Path | None) -> Iterator[Report | None]:
    """Gives a function that writes each epoch's figures into `folder`; None without one."""
    if folder is None:
        yield None
        return
    with writer_class()(str(folder)) as writer:
        lines: int | None = None

        def report(at: Progress) -> None:
            nonlocal lines
            if lines is None:  # epochs of an earlier sitting have been written
                lines = at.lines if at.batch else at.lines - 1
            if at.lines > lines:
                lines = at.lines
                for name, value in at.figures.items():
                    writer.add_scalar(name, value, at.step)
                writer.flush()

        yield report


def writer_class() -> Any:
    """TensorBoard's own writer, or a sentence where there is none."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "TensorBoard is not installed; in the folder of regard: "
            "pip install '.[tensorboard]' -c constraints.txt"
        ) from None
    return SummaryWriter
