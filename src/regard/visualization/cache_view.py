"""What one word more costs: the entries of its map that are new, those done, those never there.

    print(cache_grid(words, allowed))       # a sign an entry, for a short text

A row looks and a column is looked at. The signs differ without colour, which only a terminal gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from regard.visualization.figure_text import visible

MOST = 32  # words that a grid is drawn for: with their names it then fits 80 columns
LONGEST = 12  # columns for a word's own letters
NEW, DONE, NEVER = "#", "o", "."
STYLES = {NEW: "bold blue", DONE: "", NEVER: "dim"}


class Entries(NamedTuple):
    """How many entries of one head's map are of each kind, for the last of some words."""

    new: int  # of the last row: what is computed when that word comes
    done: int  # of the rows before, which do not change
    never: int  # that the mask shuts, the future first of all

    @property
    def whole(self) -> int:
        """What is computed anew when nothing is kept."""
        return self.new + self.done


def entries(allowed: Bool[np.ndarray, "n n"]) -> Entries:
    """Count them by what the mask lets each word look at."""
    new, every = int(allowed[-1].sum()), int(allowed.sum())
    return Entries(new, every - new, allowed.size - every)


def cache_grid(words: Sequence[str], allowed: Bool[np.ndarray, "n n"]) -> Text:
    """A line a word: its number, its letters, and a sign for each word it could look at."""
    n = len(words)
    if allowed.shape != (n, n) or not n:
        raise ValueError(f"{n} words have a map of {n} × {n}, not {allowed.shape}")
    if n > MOST:
        raise ValueError(f"a grid of {n} words is too large to read; at most {MOST} are drawn")
    shown = [visible(word) for word in words]
    width = min(LONGEST, max(map(cell_len, shown)))
    blank = " " * (width + 6)
    grid = Text()
    if n > 10:  # numbers of two digits stand one digit above the other
        tens = (str(column // 10) if column % 10 == 0 and column else " " for column in range(n))
        grid.append(f"{blank}{' '.join(tens)}".rstrip() + "\n")
    grid.append(f"{blank}{' '.join(str(column % 10) for column in range(n))}\n")
    for row, word in enumerate(shown):
        name = word if cell_len(word) <= width else f"{set_cell_size(word, width - 1)}…"
        grid.append(f"{row:>2} {set_cell_size(name, width)} | ")
        for column in range(n):
            sign = (NEW if row == n - 1 else DONE) if allowed[row, column] else NEVER
            grid.append(sign, STYLES[sign])
            grid.append(" " if column < n - 1 else "\n")
    return grid
