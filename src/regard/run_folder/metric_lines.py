"""Lines of metrics.jsonl as they are read back: figures by name, each a number.

A run may come from anywhere, and whatever draws or compares its figures reckons with them. So a
word in the place of a number is a sentence that names file, line and figure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from regard.errors import UserError

LARGEST = 1e300  # a number beyond is no figure of a training
COUNTS = ("epoch", "step")
PREFIXES = {"validation": "val", "train": "train_eval"}  # of a split's figures; train/… are others
LOWER_IS_BETTER = ("loss", "error", "perplexity")


def metric(split: str, quantity: str) -> str:
    """The name of a figure measured on a split: `val/accuracy`, `train_eval/loss`."""
    return f"{PREFIXES[split]}/{quantity}"


def is_measured(name: str) -> bool:
    """Whether a figure was measured on a split after an epoch, such as `val/loss`."""
    return name.partition("/")[0] in PREFIXES.values()


def split_of(name: str) -> str:
    """The split of a figure, in words: validation of `val/loss`, train of `train_eval/loss`."""
    prefix = name.partition("/")[0]
    return next((split for split, short in PREFIXES.items() if short == prefix), prefix)


def quantity_of(name: str) -> str:
    """What is measured, without where: accuracy of `val/accuracy`."""
    return name.partition("/")[2]


def deciding(names: Iterable[str]) -> str | None:
    """The figure that chooses the best epoch: the first one of validation."""
    return next((name for name in names if name.startswith("val/")), None)


def lower_is_better(quantity: str) -> bool:
    """Whether less of a quantity, or of a figure by its whole name, is better: of a loss it is."""
    return quantity.rpartition("/")[2] in LOWER_IS_BETTER


def read_line(text: str, where: str) -> dict[str, Any] | None:
    """The figures of one line; None of a line that is no JSON, as where a process was killed."""
    try:
        line = json.loads(text)
    except RecursionError:
        raise UserError(f"{where} is damaged: it is nested too deeply") from None
    except ValueError:
        return None
    if not isinstance(line, dict):
        return None
    for name, value in line.items():
        if name == "is_best":
            fits = isinstance(value, bool)
        elif name in COUNTS:
            fits = type(value) is int and 0 <= value < 2**63
        else:
            fits = is_figure(value)
        if not fits:
            raise UserError(f"{where} is damaged: {name!r:.80} is {value!r:.80}, and no number")
    return line


def is_figure(value: Any) -> bool:
    """Whether a value is a number that can be reckoned with; a loss may be NaN or infinite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, float) or abs(value) < LARGEST
