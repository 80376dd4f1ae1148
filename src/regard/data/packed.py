"""Gzip as a stream that stops where a file unpacks to far more than any text or picture does.

    with path.open("rb") as plain:
        file = unpacked(plain, path)            # reads and seeks like a file that was never packed

English packs 3 to 4 times smaller, digits of MNIST 5, a csv that repeats itself 20 to 50; a file
made to fill a memory packs a thousand times. So what has given more than `FREE` bytes and more than
`RATIO` times what was read of it is refused, where it stands, and nothing of it was kept.
"""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path
from typing import BinaryIO

from regard.errors import DataIssue

GZIP = b"\x1f\x8b"  # how a packed file begins, and no text in UTF-8
RATIO = 100  # times as many bytes as it has packed: more is no text
FREE = 2**25  # bytes that any file may unpack to
STEP = 2**20  # bytes at a time


def unpacked(packed: BinaryIO, path: Path) -> io.BufferedReader:
    """What a file holds that gzip packed; `path` is what it is called where it is refused."""
    return io.BufferedReader(Unpacking(packed, path), STEP)


class Unpacking(io.RawIOBase):
    """The bytes of a packed file, with an eye on how many there are for each that is read."""

    def __init__(self, packed: BinaryIO, path: Path) -> None:
        self.packed, self.path = packed, path
        self.stream = gzip.GzipFile(fileobj=packed)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # type: ignore[no-untyped-def]  # any writable buffer
        # A step at a time, however much is asked for: so no more than a step is unpacked too much.
        count = self.stream.readinto(memoryview(buffer).cast("B")[:STEP])
        given = self.stream.tell()
        if given > FREE and given > RATIO * self.packed.tell():
            raise DataIssue(
                f"{self.path} has unpacked to {given / 1e6:,.0f} MB from "
                f"{self.packed.tell() / 1e3:,.0f} kB, more than {RATIO} times as much: if that is "
                "right, unpack it yourself and give the plain file",
                self.path,
                kind="bomb",
            )
        return count

    def tell(self) -> int:
        return self.stream.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Backward from the beginning again, forward by reading: gzip has no other way."""
        target = offset if whence == os.SEEK_SET else offset + self.tell()
        if whence == os.SEEK_END:
            while self.read(STEP):
                pass
            target = offset + self.tell()
        if target < self.tell():
            self.stream.seek(0)
        while (left := target - self.tell()) > 0 and self.read(min(left, STEP)):
            pass
        return self.tell()

    def close(self) -> None:
        self.stream.close()
        super().close()
