"""Tiny data sets in the official formats, written byte by byte as their authors' programs did."""

import gzip
import struct
import tarfile
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(folder: Path, *, packed: bool = True, count: int = 40, side: int = 28) -> np.ndarray:
    """MNIST with `count` images for training, four of each class, and ten for test."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (count + 10, side, side), np.uint8)
    labels = np.arange(count + 10, dtype=np.uint8) % 10
    for name, part in (("train", slice(count)), ("t10k", slice(count, None))):
        for kind, array in (("images-idx3", pixels), ("labels-idx1", labels)):
            data = idx_bytes(array[part])
            path = folder / f"{name}-{kind}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(data) if packed else data)
    return pixels


CIFAR_FILES = (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch")


def cifar_batches(rows: int = 20) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Labels and rows of 3072 bytes for each of the six files."""
    random = np.random.default_rng(1)
    return {
        name: (
            np.arange(rows, dtype=np.uint8) % 10,
            random.integers(0, 256, (rows, 3072), np.uint8),
        )
        for name in CIFAR_FILES
    }


def write_cifar_binary(folder: Path, rows: int = 20) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (labels, pixels) in cifar_batches(rows).items():
        records = np.concatenate((labels[:, None], pixels), axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    (folder / "batches.meta.txt").write_text("airplane\nautomobile\n")


def write_cifar_pickled(folder: Path, rows: int = 20) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, (labels, pixels) in cifar_batches(rows).items():
        (folder / name).write_bytes(pickled(labels, pixels))


def pickled(labels: np.ndarray, pixels: np.ndarray, kind: bytes = b"u1") -> bytes:
    """What cPickle of Python 2 wrote at protocol 2 for a batch, opcode by opcode."""

    def text(words: bytes) -> bytes:
        return b"U" + bytes([len(words)]) + words

    def number(value: int) -> bytes:
        return b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value)

    rows, width = pixels.shape
    data = pixels.tobytes()
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x05cnumpy\nndarray\nq\x06K\x00\x85"
        + (text(b"b") + b"\x87Rq\x07")
        + (b"(K\x01" + number(rows) + number(width) + b"\x86")
        + (b"cnumpy\ndtype\nq\x08" + text(kind) + b"K\x00K\x01\x87Rq\x09")
        + (b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89")
        + (b"T" + struct.pack("<i", len(data)) + data + b"tb")
    )
    return (
        b"\x80\x02}q\x01("
        + (text(b"batch_label") + text(b"training batch 1 of 5"))
        + (text(b"labels") + b"]q\x02(" + b"".join(map(number, labels.tolist())) + b"e")
        + (text(b"data") + array)
        + (text(b"filenames") + b"]q\x03(" + text(b"camion_s_000148.png") * rows + b"e")
        + b"u."
    )


def write_archive(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)


def write_photos(folder: Path, counts: dict[str, int], side: int = 12, seed: int = 0) -> None:
    """Different PNGs, so many in each sub-folder."""
    random = np.random.default_rng(seed)
    for name, count in counts.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            pixels = random.integers(0, 256, (side, side + 4, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def write_bomb(path: Path, side: int = 30_000) -> None:
    """A PNG of a hundred bytes that says it has 900 million pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
