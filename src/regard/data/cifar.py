"""CIFAR-10 in its two official layouts, as a folder or still in its tar.gz.

The python layout is pickled; it is read as data, and nothing in it is run (see inert.py).
"""

import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64, UInt8

from regard.data.images import ArrayImages, Split
from regard.data.inert import Call, read_inert
from regard.data.text import opened
from regard.errors import DataIssue, UserError

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
SIDE = 32
RECORD = 3 * SIDE * SIDE
ROWS = 10_000  # images in each of the six files
LARGEST = 2**26  # bytes in one of them; 31 million in the official ones

TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)
FOLDERS = ("cifar-10-batches-bin", "cifar-10-batches-py")
ARCHIVES = ("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz")


class Batch(NamedTuple):
    """What one of the six files holds."""

    pixels: UInt8[np.ndarray, "n 3 y x"]
    labels: Int64[np.ndarray, "n"]


def holds_cifar(path: Path) -> bool:
    """Whether this is a folder with the first batch, or an archive by its official name."""
    if path.name in ARCHIVES:
        return os.path.isfile(path)
    # Unlike `is_file`, this is not stopped by a path that is too long.
    return any(os.path.isfile(path / name) for name in (TRAIN[0], f"{TRAIN[0]}.bin"))


def read_cifar(path: Path, rows: int = ROWS) -> dict[str, Split]:
    """The official splits, train and test, from a folder or an archive in either layout."""
    found: dict[str, Batch] = {}
    for name, data in members(path) if path.is_file() else files(path):
        where = f"{path}, {name}"
        parse = parse_binary if name.endswith(".bin") else parse_pickled
        batch = parse(data, where)
        if len(batch.labels) != rows:
            raise DataIssue(
                f"{where} has {len(batch.labels)} images, not {rows}", where, kind="size"
            )
        if batch.labels.max() >= len(CLASSES):
            raise DataIssue(
                f"{where}: label {batch.labels.max()}; the highest is 9", where, kind="label"
            )
        found[name.removesuffix(".bin")] = batch
    if missing := [name for name in (*TRAIN, *TEST) if name not in found]:
        raise DataIssue(
            f"{path} lacks {', '.join(missing)} (or the same with .bin)", path, kind="missing"
        )
    return {
        split: Split(
            ArrayImages(np.concatenate([found[name].pixels for name in names])),
            np.concatenate([found[name].labels for name in names]),
        )
        for split, names in (("train", TRAIN), ("test", TEST))
    }


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The batches in a folder; the binary one where both layouts are there."""
    for name in (*TRAIN, *TEST):
        for spelt in (f"{name}.bin", name):
            path = folder / spelt
            if path.is_file():
                try:
                    with path.open("rb") as stream:
                        data = limited(stream, f"{path}")
                except OSError as trouble:
                    raise DataIssue(
                        f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
                    ) from None
                yield spelt, data
                break


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """The batches in a tar.gz, read where they lie: nothing is unpacked to disk."""
    wanted = {spelt for name in (*TRAIN, *TEST) for spelt in (name, f"{name}.bin")}
    try:
        with opened(archive) as file, tarfile.open(fileobj=file) as tar:
            for member in tar:
                name = member.name.rpartition("/")[2]
                stream = tar.extractfile(member) if name in wanted and member.isfile() else None
                if stream is not None:
                    yield name, limited(stream, f"{archive}, {name}")
    except (tarfile.TarError, EOFError, zlib.error, OSError) as damage:
        raise DataIssue(
            f"{archive} is damaged or cut short ({damage})", archive, kind="damaged"
        ) from None


def limited(stream: Any, where: str) -> bytes:
    data: bytes = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise DataIssue(f"{where} has more than {LARGEST >> 20} MiB", where, kind="size")
    return data


def parse_binary(data: bytes, where: str) -> Batch:
    """Records of one byte for the label and 3072 for red, green and blue."""
    if not data or len(data) % (1 + RECORD):
        raise DataIssue(
            f"{where} has {len(data)} bytes, which are not records of {1 + RECORD}",
            where,
            kind="size",
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, 1 + RECORD)
    return Batch(records[:, 1:].reshape(-1, 3, SIDE, SIDE), records[:, 0].astype(np.int64))


def parse_pickled(data: bytes, where: str) -> Batch:
    """A pickled dictionary with `data`, an array of bytes, and `labels`, a list of numbers."""
    try:
        batch = read_inert(data)
    except UserError as refused:
        raise DataIssue(f"{where} {refused}", where, kind="inert") from None
    except Exception as damage:  # a damaged pickle fails in whatever way its bytes lead to
        raise DataIssue(
            f"{where} is damaged or cut short ({damage})", where, kind="damaged"
        ) from None
    batch = batch if isinstance(batch, dict) else {}
    array, labels = batch.get("data"), batch.get("labels")
    if not isinstance(array, Call) or not isinstance(labels, list):
        raise DataIssue(
            f"{where} has no `data` and `labels` as CIFAR-10 has them", where, kind="format"
        )
    if not all(type(label) is int and 0 <= label < 256 for label in labels):
        raise DataIssue(f"{where}: its labels are not numbers from 0 to 9", where, kind="label")
    pixels = pixels_of(array, len(labels))
    if pixels is None:
        raise DataIssue(
            f"{where}: its data are not {len(labels)} rows of {RECORD} bytes", where, kind="size"
        )
    return Batch(pixels, np.array(labels, np.int64))


def pixels_of(array: object, rows: int) -> UInt8[np.ndarray, "n 3 y x"] | None:
    """The images, if this is how `rows` times 3072 unsigned bytes are pickled."""
    match array:
        case Call(
            state=(
                _,
                (count, width),
                Call(arguments=("u1", *_)),
                columns_first,
                str() | bytes() as data,
            )
        ):
            # Python 2 made no difference between bytes and text.
            plain = data.encode("latin-1", "ignore") if isinstance(data, str) else data
            if (count, width) != (rows, RECORD) or len(plain) != rows * RECORD:
                return None
            flat = np.frombuffer(plain, np.uint8)
            table = flat.reshape(RECORD, rows).T if columns_first else flat
            return table.reshape(rows, 3, SIDE, SIDE)
    return None
