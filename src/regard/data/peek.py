"""What the images of a data set look like, from a header or a few files, before anything is read.

peek("mnist/")      # Peek(channels=1, rows=28, columns=28, images=60000)
peek("photos/")     # None: they differ in size
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from regard.data import cifar, idx
from regard.data.decode import SUFFIXES
from regard.data.listing import PATH_COLUMNS, column, hidden, table
from regard.data.registry import EMBEDDED, KNOWN, find, resolve
from regard.errors import UserError

LOOKED_AT = 24  # files that are opened, of as many folders as there are


class Peek(NamedTuple):
    """The shape that all images seemed to have, and how many there are or may be."""

    channels: int
    rows: int
    columns: int
    images: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.rows, self.columns


def peek(data: str) -> Peek | None:
    """The shape of a set's images by its name or path; None if they have no one shape.

    Nothing is wrong with data here: who reads them says what is.
    """
    if data in EMBEDDED:
        return None
    path = find(KNOWN[data]) if data in KNOWN else resolve(data)
    if path is None:
        return None
    try:
        if cifar.holds_cifar(path):
            return Peek(3, 32, 32, 50_000)
        if idx.holds_idx(path):
            count, rows, columns = idx.shape_of(path)
            return Peek(1, rows, columns, count)
        files = list(files_of(path))
        shapes = {shape_of(file) for file in islice(spread(files), LOOKED_AT)}
    except (UserError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return Peek(*shapes.pop(), len(files)) if len(shapes) == 1 else None


def files_of(path: Path) -> Iterator[Path]:
    """The images in a folder at any depth, or those that a table names."""
    if path.is_dir():
        for place, inside, names in os.walk(path):
            inside[:] = sorted(name for name in inside if not hidden(name))
            for name in sorted(names):
                if not hidden(name) and os.path.splitext(name)[1].lower() in SUFFIXES:
                    yield Path(place, name)
    elif path.is_file() and path.suffix.lower() in (".csv", ".tsv"):
        rows = table(path, [])
        at = column([name.strip().lower() for name in next(rows, (1, []))[1]], PATH_COLUMNS)
        for _, row in rows:
            if at is not None and len(row) > at and row[at].strip():
                yield path.parent / row[at].strip()


def spread(files: list[Path]) -> Iterator[Path]:
    """Some of many files from the first to the last, so that every class has a turn."""
    step = max(1, len(files) // LOOKED_AT)
    return iter(files[::step])


def shape_of(file: Path) -> tuple[int, int, int]:
    """Channels, rows and columns of an image; one in colours that are all grey has one channel."""
    with warnings.catch_warnings(), Image.open(file) as image:
        warnings.simplefilter("ignore")  # of what readers refuse
        grey = image.mode in ("1", "L", "LA", "I;16", "I;16L", "I;16B", "I")
        if not grey and max(image.size) <= 64:  # cheap to see in full
            red, green, blue = image.convert("RGB").split()
            grey = red.tobytes() == green.tobytes() == blue.tobytes()
        return (1 if grey else 3), image.height, image.width
