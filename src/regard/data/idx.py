"""The idx format of MNIST and its relatives: a magic number, the sizes, then plain bytes."""

import gzip
import os
import struct
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from regard.data.images import ArrayImages, Split
from regard.errors import UserError

FILES = {  # split → (images, labels)
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
LARGEST = 2**31  # bytes in one file, unpacked


def holds_idx(folder: Path) -> bool:
    """Whether the images for training are there, packed or not."""
    return located(folder, FILES["train"][0]) is not None


def read_idx(folder: Path, split: str, classes: int | None = None) -> Split:
    """One of the two official splits; every label must be below `classes` if that is given."""
    images_name, labels_name = FILES[split]
    pixels = read_array(file_in(folder, images_name), 3)
    labels = read_array(file_in(folder, labels_name), 1).astype(np.int64)
    if len(pixels) != len(labels):
        raise UserError(
            f"{folder}: {len(pixels)} images in {images_name}, but {len(labels)} labels in "
            f"{labels_name}; the two do not belong together"
        )
    if classes is not None and len(labels) and labels.max() >= classes:
        raise UserError(
            f"{folder / labels_name}: label {labels.max()} at image {labels.argmax()}; "
            f"with {classes} classes the highest is {classes - 1}"
        )
    return Split(ArrayImages(pixels[:, None]), labels)


def located(folder: Path, name: str) -> Path | None:
    """A file as it is or gzipped; some unpackers write a dot for the hyphen before idx."""
    for spelt in (name, name.replace("-idx", ".idx")):
        for path in (folder / spelt, folder / f"{spelt}.gz"):
            if os.path.isfile(path):  # unlike `is_file`, not stopped by a path that is too long
                return path
    return None


def file_in(folder: Path, name: str) -> Path:
    if path := located(folder, name):
        return path
    raise UserError(f"{folder} has no {name} or {name}.gz")


def read_array(path: Path, dimensions: int) -> UInt8[np.ndarray, "..."]:
    """The array of bytes in one file, checked to be as long as it says."""
    try:
        with path.open("rb") as file:
            stream = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
            return array_from(stream, dimensions, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as damage:
        raise UserError(f"{path} is damaged or cut short ({damage})") from None
    except OSError as trouble:
        raise UserError(f"{path} cannot be read: {trouble.strerror}") from None


def array_from(stream: BufferedIOBase, dimensions: int, path: Path) -> UInt8[np.ndarray, "..."]:
    head = stream.read(4 + 4 * dimensions)
    magic = bytes((0, 0, 8, dimensions))  # 8: unsigned bytes
    if len(head) < 4 + 4 * dimensions or head[:4] != magic:
        raise UserError(
            f"{path} is no idx file of bytes in {dimensions} dimensions: it begins with "
            f"{head[:4].hex(' ') or 'nothing'}, not {magic.hex(' ')}"
        )
    shape = struct.unpack(f">{dimensions}I", head[4:])
    count = int(np.prod(shape, dtype=object))
    if count > LARGEST:
        raise UserError(f"{path} says it holds {shape}, which is more than {LARGEST} bytes")
    data = stream.read(count + 1)  # never more than one byte beyond what is due
    if len(data) != count:
        had = "more" if len(data) > count else str(len(data))
        raise UserError(f"{path} says it holds {shape}, which is {count} bytes, but has {had}")
    return np.frombuffer(data, np.uint8).reshape(shape)
