"""Text that stays in its files until it is read, block by block: it may be larger than memory.

    text = Text((Span(Path("book.txt"), 0, 9_000_000), "\\n", Span(Path("more.txt.gz"), 0, 5_000)))
    for block in text: ...      # about a megabyte each, cut where a word ends

Files are UTF-8, packed by gzip or not; what is damaged or is no UTF-8 is said in a sentence.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from regard.data.entries import valid_text
from regard.data.packed import GZIP, unpacked
from regard.errors import DataIssue

BLOCK = 2**20  # bytes that are read at a time


class Span(NamedTuple):
    """Some bytes of a file, counted as they are when unpacked."""

    path: Path
    start: int
    end: int

    @property
    def bytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Text:
    """Text in files or in memory, piece after piece, that is read in blocks.

    Iterating gives strings of about a megabyte. A block ends before a line break or a space that
    follows a word, so that all vocabularies encode the blocks as they encode the whole; only where
    a megabyte has none, it ends after any character.
    """

    pieces: tuple[Span | str, ...] = ()

    def __post_init__(self) -> None:
        for piece in self.pieces:
            if isinstance(piece, str):
                valid_text(piece)

    @cached_property
    def size(self) -> int:
        """Bytes, in UTF-8."""
        return sum(
            len(piece.encode()) if isinstance(piece, str) else piece.bytes for piece in self.pieces
        )

    def __iter__(self) -> Iterator[str]:
        held = ""
        for piece in self.pieces:
            for some in slices(piece) if isinstance(piece, str) else decoded(piece):
                held += some
                while len(held) >= BLOCK:
                    cut = last_break(held) or len(held)
                    yield held[:cut]
                    held = held[cut:]
        if held:
            yield held

    def digest(self) -> str:
        """The SHA-256 of its bytes, however they are cut into pieces; read once."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        text = hashlib.sha256()
        for piece in self.pieces:
            if isinstance(piece, str):
                text.update(piece.encode())
            else:
                for some in chunks(piece):
                    text.update(some)
        return text.hexdigest()


def last_break(text: str) -> int:
    """Where a text may be cut: before the last line break, or else space, after a word; or 0."""
    for sign in "\n\r \t":
        at = text.rfind(sign)
        while at > 0 and text[at - 1].isspace():
            at = text.rfind(sign, 0, at)
        if at > 0:
            return at
    return 0


def slices(text: str) -> Iterator[str]:
    return (text[start : start + BLOCK] for start in range(0, len(text), BLOCK))


def decoded(span: Span) -> Iterator[str]:
    """The characters of a span, as many at a time as a chunk has."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    given = 0
    start = span.start  # of what the decoder has seen but not given yet
    try:
        for some in chain(chunks(span), [b""]):
            yield decoder.decode(some, final=not some)
            given += len(some)
            start = span.start + given - len(decoder.getstate()[0])
    except UnicodeDecodeError as wrong:
        raise DataIssue(
            f"{span.path} is not UTF-8: byte {start + wrong.start}, "
            f"0x{wrong.object[wrong.start]:02x}, belongs to no character; save it as UTF-8 first",
            span.path,
            kind="encoding",
        ) from None


def chunks(span: Span) -> Iterator[bytes]:
    """The bytes of a span, a block at a time."""
    with opened(span.path) as file:
        file.seek(span.start)
        left = span.bytes
        while left:
            some = file.read(min(BLOCK, left))
            if not some:
                raise DataIssue(
                    f"{span.path} has become {left} bytes shorter since it was first looked at",
                    span.path,
                    kind="changed",
                )
            left -= len(some)
            yield some


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file's bytes, unpacked if it is packed; what is wrong with it is a sentence.

    A packed file that unpacks to far more than text does is refused (`packed`), as it is read.
    """
    try:
        with path.open("rb") as plain:
            packed = plain.read(len(GZIP)) == GZIP
            plain.seek(0)
            yield cast(BinaryIO, unpacked(plain, path)) if packed else plain
    except (EOFError, zlib.error, gzip.BadGzipFile) as damage:
        raise DataIssue(
            f"{path} is damaged or cut short ({damage})", path, kind="damaged"
        ) from None
    except OSError as trouble:
        raise DataIssue(
            f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
        ) from None
