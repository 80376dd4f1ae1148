"""Labelled images in three splits: the one type that every reader returns."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Int64, UInt8

from regard.data.decode import decode, digest_of
from regard.progress import progress

SPLITS = ("train", "validation", "test")

Pixels = UInt8[np.ndarray, "n c y x"]
Channels = Literal[1, 3]


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Images of one size, in memory or mapped from a file."""

    pixels: Pixels
    origin: str = ""  # the digest of the files these were decoded from

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, row: int) -> UInt8[np.ndarray, "c y x"]:
        return np.asarray(self.pixels[row])

    def take(self, rows: Sequence[int] | Int64[np.ndarray, "b"]) -> UInt8[np.ndarray, "b c y x"]:
        return np.asarray(self.pixels[np.asarray(rows, np.int64)])

    def only(self, rows: Int64[np.ndarray, "b"]) -> "ArrayImages":
        """Some of the images, in the order named."""
        return ArrayImages(self.take(rows))

    def digest(self) -> str:
        """The SHA-256 of the content, wherever it lies."""
        if self.origin:
            return self.origin
        text = hashlib.sha256(repr(self.pixels.shape).encode())
        text.update(np.ascontiguousarray(self.pixels).data)
        return text.hexdigest()


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images in files, decoded each time they are asked for; without a size, each at its own."""

    paths: tuple[Path, ...]
    size: int | None = None
    channels: Channels = 3

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> UInt8[np.ndarray, "c y x"]:
        return decode(self.paths[row], self.size, self.channels).pixels

    def take(self, rows: Sequence[int] | Int64[np.ndarray, "b"]) -> UInt8[np.ndarray, "b c y x"]:
        if self.size is None:
            raise ValueError("images of different sizes make no batch; give them one by `at_size`")
        if not len(rows):
            return np.empty((0, self.channels, self.size, self.size), np.uint8)
        return np.stack([self[int(row)] for row in rows])

    def only(self, rows: Int64[np.ndarray, "b"]) -> "FileImages":
        """Some of the images, in the order named."""
        return replace(self, paths=tuple(self.paths[int(row)] for row in rows))

    def digest(self) -> str:
        """The SHA-256 of the content, wherever it lies; reads every file."""
        digests = []
        with progress("reading images", len(self)) as advance:
            for path in self.paths:
                digests.append(digest_of(path))
                advance(1)
        return digest_of_files(digests)


Images = ArrayImages | FileImages


def digest_of_files(digests: Iterable[str]) -> str:
    """One digest for many files, in their order."""
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Split:
    """Images, and the number of the class that each one shows."""

    images: Images
    labels: Int64[np.ndarray, "n"]

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise ValueError(f"{len(self.images)} images cannot have {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.labels)

    def only(self, rows: Int64[np.ndarray, "b"]) -> "Split":
        """Some of its images, in the order named."""
        return Split(self.images.only(rows), self.labels[rows])


def joined(images: Sequence[Images]) -> Images:
    """The images of several splits, one after the other."""
    arrays = [each.pixels for each in images if isinstance(each, ArrayImages)]
    if len(arrays) == len(images):
        return ArrayImages(np.concatenate(arrays))
    files = [each for each in images if isinstance(each, FileImages)]
    if len(files) != len(images):
        raise ValueError("some splits are in memory and others in files")
    return replace(files[0], paths=sum((each.paths for each in files), ()))


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A data set: what its classes are called, three splits, and whose it is."""

    name: str
    classes: tuple[str, ...]
    train: Split
    validation: Split
    test: Split
    licence: str = "your own"
    source: str = ""
    skipped: tuple[str, ...] = ()  # a sentence for each file that was left out as unreadable

    def __post_init__(self) -> None:
        for name in SPLITS:
            labels = self[name].labels
            if len(labels) and not 0 <= labels.min() <= labels.max() < len(self.classes):
                raise ValueError(
                    f"{self.name}, {name}: labels from {labels.min()} to {labels.max()} "
                    f"do not fit {len(self.classes)} classes"
                )

    def __getitem__(self, split: str) -> Split:
        if split not in SPLITS:
            raise ValueError(f"no split {split!r}; there are {', '.join(SPLITS)}")
        found: Split = getattr(self, split)
        return found

    def whole(self) -> Split:
        """All images, whichever split they are in."""
        parts = [self[name] for name in SPLITS]
        labels = np.concatenate([part.labels for part in parts])
        return Split(joined([part.images for part in parts]), labels)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of everything a model could learn from: classes, splits, labels, images.

        Decoding at another size, or moving the files elsewhere, leaves it as it is.
        """
        text = hashlib.sha256("\n".join(self.classes).encode())
        for name in SPLITS:
            split = self[name]
            text.update(f"\n{name} {len(split)} {split.images.digest()}".encode())
            text.update(split.labels.astype("<i8").tobytes())
        return text.hexdigest()
