"""Images with one or more captions each, in three splits.

    captions = read_captions("flickr8k")        # or "photos/", "photos/captions.csv", "coco.json"
    captions.train.captions[0]                  # ("A girl going into a wooden building .", …)

`caption_files` says which files are read.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from regard.data.cache import first_of, squares
from regard.data.caption_files import list_captions
from regard.data.caption_rows import CaptionItem, CaptionListing
from regard.data.flickr import FLICKR8K, flickr8k_place
from regard.data.images import SPLITS, Channels, FileImages, Images, joined
from regard.data.registry import resolve
from regard.data.splits import TEST, VALIDATION, divide
from regard.errors import DataIssue


@dataclass(frozen=True, eq=False)
class CaptionSplit:
    """Images, and what people wrote about each one."""

    images: Images
    captions: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.images) != len(self.captions):
            raise ValueError(
                f"{len(self.images)} images cannot have captions for {len(self.captions)}"
            )
        for row, texts in enumerate(self.captions):
            if not texts:
                raise ValueError(f"image {row} of {len(self.captions)} has no caption")

    def __len__(self) -> int:
        return len(self.captions)

    def texts(self) -> Iterator[str]:
        """Every caption, image by image: what a vocabulary is fitted to."""
        return (text for texts in self.captions for text in texts)

    def only(self, rows: Int64[np.ndarray, "b"]) -> "CaptionSplit":
        """Some of its images, in the order named."""
        return CaptionSplit(self.images.only(rows), tuple(self.captions[row] for row in rows))


@dataclass(frozen=True, eq=False)
class CaptionSet:
    """A data set: three splits, and whose it is."""

    name: str
    train: CaptionSplit
    validation: CaptionSplit
    test: CaptionSplit
    licence: str = "your own"
    source: str = ""
    skipped: tuple[str, ...] = ()  # a sentence for each thing that was left out

    def __getitem__(self, split: str) -> CaptionSplit:
        if split not in SPLITS:
            raise ValueError(f"no split {split!r}; there are {', '.join(SPLITS)}")
        found: CaptionSplit = getattr(self, split)
        return found

    def whole(self) -> CaptionSplit:
        """All images, whichever split they are in."""
        parts = [self[name] for name in SPLITS]
        captions = sum((part.captions for part in parts), ())
        return CaptionSplit(joined([part.images for part in parts]), captions)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of everything a model could learn from: splits, images, captions.

        Decoding at another size, or moving the files elsewhere, leaves it as it is.
        """
        text = hashlib.sha256()
        for name in SPLITS:
            split = self[name]
            text.update(f"{name} {len(split)} {split.images.digest()}\n".encode())
            text.update(json.dumps(split.captions).encode())
        return text.hexdigest()


def read_captions(data: str | Path, *, skip_bad: bool = False) -> CaptionSet:
    """A set of images with captions, by its path or its name in the folders that are searched.

    The first fault is a `UserError`. With `skip_bad`, a row or an image that is no use is left out
    and named in `skipped`; what makes the whole file doubtful is an error all the same.
    """
    listing = list_captions(place_of(data))
    if wrong := (*listing.problems, *(() if skip_bad else listing.faults)):
        raise DataIssue(first_of(list(wrong)), wrong[0])
    return from_listing(listing)


def place_of(data: str | Path) -> Path:
    """Where captions lie that are said by a path or a name; flickr8k is a name and no folder."""
    return flickr8k_place() if data == FLICKR8K else resolve(data)


def captions_at_size(
    captions: CaptionSet,
    size: int,
    channels: Channels = 3,
    *,
    skip_bad: bool = False,
    workers: int | None = None,
) -> CaptionSet:
    """The same set with its images as squares of `size`, decoded once and kept in the cache.

    A file that cannot be decoded is a `UserError`; with `skip_bad` it is left out with its
    captions and named in `skipped`.
    """
    ready: dict[str, CaptionSplit] = {}
    skipped = list(captions.skipped)
    for name in SPLITS:
        split = captions[name]
        done = squares(split.images, size, channels, skip_bad=skip_bad, workers=workers)
        skipped += done.bad.values()
        left = tuple(texts for row, texts in enumerate(split.captions) if row not in done.bad)
        ready[name] = CaptionSplit(done.images, left)
    if len(captions.train) and not len(ready["train"]):
        raise DataIssue(f"{captions.name}: no readable image is left for training", kind="empty")
    return replace(
        captions,
        train=ready["train"],
        validation=ready["validation"],
        test=ready["test"],
        skipped=tuple(skipped),
    )


def from_listing(listing: CaptionListing) -> CaptionSet:
    """The set; a split that is missing is held out of the images for training."""
    given: dict[str, list[CaptionItem]] = {split: [] for split in SPLITS}
    for item in listing.items:
        given[item.split or "train"].append(item)
    train = given["train"]
    rows = divide(
        np.zeros(len(train), np.int64),
        [item.key for item in train],
        validation=0.0 if given["validation"] else VALIDATION,
        test=0.0 if given["test"] else TEST,
    )

    def files(items: list[CaptionItem]) -> CaptionSplit:
        paths = tuple(item.path for item in items)
        return CaptionSplit(FileImages(paths), tuple(item.captions for item in items))

    return CaptionSet(
        listing.name,
        train=files([train[row] for row in rows.train]),
        validation=files(given["validation"] or [train[row] for row in rows.validation]),
        test=files(given["test"] or [train[row] for row in rows.test]),
        licence=listing.licence,
        source=listing.source,
        skipped=listing.faults,
    )
