"""The same figures for TensorBoard, where it is installed and asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import UserError
from regard.train.loop import Progress, Report


@contextmanager
def board(folder: Path | None) -> Iterator[Report | None]:
    """Gives a function that writes each epoch's figures into `folder`; None without one."""
    if folder is None:
        yield None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("TensorBoard is not installed: pip install 'regard[tensorboard]'") from None
    with SummaryWriter(str(folder)) as writer:
        lines = 0

        def report(at: Progress) -> None:
            nonlocal lines
            if at.lines > lines:
                lines = at.lines
                for name, value in at.figures.items():
                    writer.add_scalar(name.replace(".", "/"), value, at.step)
                writer.flush()

        yield report
