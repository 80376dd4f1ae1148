"""Lines of metrics.jsonl as they are read back: figures by name, each a number.

A run may come from anywhere, and whatever draws or compares its figures reckons with them. So a
word in the place of a number is a sentence that names file, line and figure.
"""

from __future__ import annotations

import json
from typing import Any

from regard.errors import UserError

LARGEST = 1e300  # a number beyond is no figure of a training
COUNTS = ("epoch", "step")


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
        if name == "best":
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
