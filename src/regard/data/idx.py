"""The idx format of MNIST and its relatives: a magic number, the sizes, then plain bytes."""

import gzip
import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from regard.data.images import ArrayImages, Split
from regard.data.packed import unpacked
from regard.errors import DataIssue, UserError

FILES = {  # split → (images, labels)
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
LARGEST = 2**31  # bytes in one file, unpacked


def holds_idx(folder: Path) -> bool:
    """Whether the images for training are there, packed or not."""
    try:
        return located(folder, FILES["train"][0]) is not None
    except UserError:  # several sets, which whoever reads them says
        return True


def read_idx(folder: Path, split: str, classes: int | None = None) -> Split:
    """One of the two official splits; every label must be below `classes` if that is given."""
    images_name, labels_name = FILES[split]
    pixels = read_array(file_in(folder, images_name), 3)
    labels = read_array(file_in(folder, labels_name), 1).astype(np.int64)
    if len(pixels) != len(labels):
        raise DataIssue(
            f"{folder}: {len(pixels)} images in {images_name}, but {len(labels)} labels in "
            f"{labels_name}; the two do not belong together",
            folder,
            kind="size",
        )
    if classes is not None and len(labels) and labels.max() >= classes:
        raise DataIssue(
            f"{folder / labels_name}: label {labels.max()} at image {labels.argmax()}; "
            f"with {classes} classes the highest is {classes - 1}",
            folder / labels_name,
            kind="label",
        )
    return Split(ArrayImages(pixels[:, None]), labels)


def shape_of(folder: Path) -> tuple[int, ...]:
    """Images for training, rows and columns, as the file's own head says; nothing else is read."""
    path = file_in(folder, FILES["train"][0])
    with content_of(path) as stream:
        return shape_from(stream, 3, path)


def first_labels(folder: Path, count: int) -> tuple[int, ...]:
    """The labels of the first images for training."""
    path = file_in(folder, FILES["train"][1])
    with content_of(path) as stream:
        shape_from(stream, 1, path)
        return tuple(stream.read(count))


def located(folder: Path, name: str) -> Path | None:
    """A file as it is or gzipped; some unpackers write a dot for the hyphen before idx.

    EMNIST and others put a name of their own in front, and write test for t10k.
    """
    for spelt in (name, name.replace("-idx", ".idx")):
        for path in (folder / spelt, folder / f"{spelt}.gz"):
            if os.path.isfile(path):  # unlike `is_file`, not stopped by a path that is too long
                return path
    try:
        there = sorted(folder.iterdir()) if os.path.isdir(folder) else []
    except OSError:
        return None  # whoever reads it next says why
    spellings = {path: plain_name(path) for path in there if path.is_file()}
    others = [path for path, spelt in spellings.items() if f"-{spelt}".endswith(f"-{name}")]
    if len({spellings[path] for path in others}) > 1:
        names = ", ".join(path.name for path in others)
        raise DataIssue(
            f"{folder} has {names}: give each set a folder of its own", folder, kind="several"
        )
    return others[0] if others else None


def plain_name(path: Path) -> str:
    """A name as the authors of MNIST would have spelt it: emnist-letters-t10k-images-idx3-ubyte."""
    name = path.name.removesuffix(".gz").replace(".idx", "-idx")
    return re.sub(r"\btest-(?=(images|labels)-idx)", "t10k-", name)


def file_in(folder: Path, name: str) -> Path:
    if path := located(folder, name):
        return path
    raise DataIssue(f"{folder} has no {name} or {name}.gz", folder, kind="missing")


@contextmanager
def content_of(path: Path) -> Iterator[BufferedIOBase]:
    """A file as a stream of what it says, with its damage as a sentence."""
    try:
        with path.open("rb") as file:
            yield unpacked(file, path) if path.suffix == ".gz" else file
    except (EOFError, zlib.error, gzip.BadGzipFile) as damage:
        raise DataIssue(
            f"{path} is damaged or cut short ({damage})", path, kind="damaged"
        ) from None
    except OSError as trouble:
        raise DataIssue(
            f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
        ) from None


def read_array(path: Path, dimensions: int) -> UInt8[np.ndarray, "..."]:
    """The array of bytes in one file, checked to be as long as it says."""
    with content_of(path) as stream:
        shape = shape_from(stream, dimensions, path)
        count = int(np.prod(shape, dtype=object))
        if count > LARGEST:
            raise DataIssue(
                f"{path} says it holds {shape}, which is more than {LARGEST} bytes",
                path,
                kind="size",
            )
        data = stream.read(count + 1)  # never more than one byte beyond what is due
    if len(data) != count:
        had = "more" if len(data) > count else str(len(data))
        raise DataIssue(
            f"{path} says it holds {shape}, which is {count} bytes, but has {had}",
            path,
            kind="size",
        )
    return np.frombuffer(data, np.uint8).reshape(shape)


def shape_from(stream: BufferedIOBase, dimensions: int, path: Path) -> tuple[int, ...]:
    """The sizes at the head of a file, after the number that says what it is."""
    head = stream.read(4 + 4 * dimensions)
    magic = bytes((0, 0, 8, dimensions))  # 8: unsigned bytes
    if len(head) < 4 + 4 * dimensions or head[:4] != magic:
        raise DataIssue(
            f"{path} is no idx file of bytes in {dimensions} dimensions: it begins with "
            f"{head[:4].hex(' ') or 'nothing'}, not {magic.hex(' ')}",
            path,
            kind="format",
        )
    return struct.unpack(f">{dimensions}I", head[4:])
