"""Many texts, or their numbers, in a file without a name, so that they may be larger than memory.

    kept = TextWriter()
    for text in texts: kept.add(text)
    kept.done()                 # a tuple while they are few, else a sequence that reads the file

The file lies in the cache folder, has no name there, and is gone with the process, however that
ends. Texts are read from it when they are asked for, and nothing of them stays.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import tempfile
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast, overload

import numpy as np
from jaxtyping import Int32, Int64, UInt64

from regard.errors import DataIssue
from regard.paths import cache_folder

IN_MEMORY = 2**24  # bytes of texts, or of numbers, that are not worth a file
OBJECT = 64  # bytes that a text takes beside its letters, about
BLOCK = 2**18  # bytes that are read at a time
AT_ONCE = 1_000  # texts that are spelt as JSON at a time
NEAR = 2**13  # texts among which those of one block are looked for


class TextWriter:
    """Takes one text after the other, and keeps them in memory while they are few."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.size = 0  # bytes of memory while there is no file, then bytes of the file
        self.file: BinaryIO | None = None
        self.ends = array("Q")

    def add(self, text: str) -> None:
        if self.file is not None:
            self.write(text)
            return
        self.texts.append(text)
        self.size += len(text) + OBJECT
        if self.size > IN_MEMORY:
            self.file, self.size = scratch_file(), 0
            for each in self.texts:
                self.write(each)
            self.texts.clear()

    def write(self, text: str) -> None:
        assert self.file is not None
        spelt = text.encode()
        put(self.file, spelt)
        self.size += len(spelt)
        self.ends.append(self.size)

    def done(self) -> Sequence[str]:
        """All texts, in their order."""
        if self.file is None:
            return tuple(self.texts)
        put(self.file, b"")
        ends = np.frombuffer(self.ends, np.uint64)
        starts = np.concatenate((np.zeros(1, np.uint64), ends[:-1]))
        return StoredTexts(self.file, starts, ends, threading.Lock())


@dataclass(frozen=True, eq=False)
class StoredTexts(Sequence[str]):
    """Texts in a file, each from one place to another; the file is read when they are asked for."""

    file: BinaryIO
    starts: UInt64[np.ndarray, "texts"]
    ends: UInt64[np.ndarray, "texts"]
    lock: threading.Lock

    def __len__(self) -> int:
        return len(self.ends)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> StoredTexts: ...
    def __getitem__(self, row: int | slice) -> str | StoredTexts:
        if isinstance(row, slice):
            return self.only(np.arange(len(self))[row])
        return self.read(int(self.starts[row]), int(self.ends[row])).decode()

    def __iter__(self) -> Iterator[str]:
        first = 0
        while first < len(self):
            # As many texts as lie in one block, in which there may be others between them.
            start = int(self.starts[first])
            near = slice(first, first + NEAR)
            far = (self.ends[near] > start + BLOCK) | (self.starts[near] < start)
            count = max(1, int(far.argmax()) if far.any() else len(far))
            ends = self.ends[first : first + count]
            block = self.read(start, int(ends.max()))
            for a, b in zip(
                self.starts[first : first + count].tolist(), ends.tolist(), strict=True
            ):
                yield block[a - start : b - start].decode()
            first += count

    def read(self, start: int, end: int) -> bytes:
        with self.lock:
            self.file.seek(start)
            return self.file.read(end - start)

    def only(self, rows: Int64[np.ndarray, "some"]) -> StoredTexts:
        """Some of the texts, in the order named."""
        return StoredTexts(self.file, self.starts[rows], self.ends[rows], self.lock)


class NumberWriter:
    """Takes numbers, a few at a time, and keeps them in memory while they are few."""

    def __init__(self) -> None:
        self.numbers = array("i")
        self.file: BinaryIO | None = None
        self.count = 0

    def add(self, numbers: Sequence[int]) -> None:
        self.numbers.extend(numbers)
        self.count += len(numbers)
        if len(self.numbers) * self.numbers.itemsize > (BLOCK if self.file else IN_MEMORY):
            self.file = self.file or scratch_file()
            self.flush()

    def flush(self) -> None:
        assert self.file is not None
        put(self.file, self.numbers.tobytes())
        del self.numbers[:]

    def done(self) -> Int32[np.ndarray, "total"]:
        """All numbers; of a file, mapped from it, and what is written to them stays in memory."""
        if self.file is None:
            return np.frombuffer(self.numbers, np.int32) if self.numbers else np.zeros(0, np.int32)
        self.flush()
        put(self.file, b"")
        mapped = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_COPY)
        return np.frombuffer(mapped, np.int32)


def scratch_file() -> BinaryIO:
    """A file without a name in the cache folder, or where the system keeps such files."""
    try:
        cache_folder().mkdir(parents=True, exist_ok=True)
        return cast(BinaryIO, tempfile.TemporaryFile(dir=cache_folder()))
    except OSError:
        return cast(BinaryIO, tempfile.TemporaryFile())


def put(file: BinaryIO, data: bytes) -> None:
    """Write, or flush where there is nothing to write; a full disk is a sentence."""
    try:
        if data:
            file.write(data)
        else:
            file.flush()
    except OSError as trouble:
        raise DataIssue(
            f"texts that are too many for memory go to a file in {cache_folder()}, and there "
            f"{os.strerror(trouble.errno or 0).lower()}: make room, or put it elsewhere with "
            "XDG_CACHE_HOME",
            kind="disk",
        ) from None


# Texts of either kind


def as_json(lists: Iterable[Sequence[str] | Sequence[int]]) -> Iterator[str]:
    """What `json.dumps` makes of a list of some lists, a piece at a time."""
    yield "["
    for number, each in enumerate(lists):
        yield ", [" if number else "["
        for at in range(0, len(each), AT_ONCE):
            yield ", " * bool(at) + json.dumps(tuple(each[at : at + AT_ONCE]))[1:-1]
        yield "]"
    yield "]"


def only(texts: Sequence[str], rows: Int64[np.ndarray, "some"]) -> Sequence[str]:
    """Some of the texts, in the order named."""
    if isinstance(texts, StoredTexts):
        return texts.only(rows)
    return tuple(texts[row] for row in rows.tolist())


def together(parts: Iterable[Sequence[str]]) -> Sequence[str]:
    """All texts of several parts."""
    kept = TextWriter()
    for part in parts:
        for text in part:
            kept.add(text)
    return kept.done()


def marks_of(texts: Iterable[str], count: int) -> UInt64[np.ndarray, "texts"]:
    """The first 8 bytes of each text's SHA-256, which stand for it: in the order of the hashes."""
    return np.fromiter(map(mark, texts), np.uint64, count)


def mark(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def sample(texts: Sequence[str], most: int) -> Int64[np.ndarray, "some"] | None:
    """Rows of texts that have at most so many letters together, by chance but the same each time.

    None if all of them have no more. Letters of texts in a file are counted as their bytes.
    """
    if isinstance(texts, StoredTexts):
        sizes = (texts.ends - texts.starts).astype(np.int64)
    else:
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    if int(sizes.sum()) <= most:
        return None
    order = np.random.default_rng(0).permutation(len(sizes))
    count = int(np.searchsorted(sizes[order].cumsum(), most, side="right"))
    return np.sort(order[: max(1, count)])
