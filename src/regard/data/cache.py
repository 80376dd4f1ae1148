"""Decoded images kept as memory-mapped arrays in the user's cache, so that each is decoded once.

An entry is a folder named by a digest of what went in (paths, sizes and times of the files, the
size asked for, the rule of decoding). It is written beside its place and renamed into it when
complete; one that is damaged is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import PIL
from PIL import Image

from regard.data.decode import decode, fit
from regard.data.images import (
    SPLITS,
    ArrayImages,
    Channels,
    FileImages,
    Images,
    ImageSet,
    Pixels,
    Split,
    digest_of_files,
)
from regard.data.workers import Outcome, Target, decode_all
from regard.errors import DataIssue, UserError
from regard.paths import cache_folder, cached
from regard.progress import progress
from regard.run_folder.drafts import draft_folder

RULE = 2  # raised when the same files would give other pixels
IN_MEMORY = 2**30  # bytes kept in memory where the cache cannot be written


def at_size(
    images: ImageSet,
    size: int,
    channels: Channels = 3,
    *,
    skip_bad: bool = False,
    workers: int | None = None,
) -> ImageSet:
    """The same set as squares of `size`, ready to be batched.

    A file that cannot be decoded is a `UserError`; with `skip_bad` it is left out and named in
    `skipped`. Where the cache cannot be written (no space, no permission) the pixels are kept in
    memory, or decoded each time if they are more than a gibibyte.
    """
    ready: dict[str, Split] = {}
    skipped = list(images.skipped)
    for name in SPLITS:
        split = images[name]
        done = squares(split.images, size, channels, skip_bad=skip_bad, workers=workers)
        skipped += done.bad.values()
        ready[name] = Split(done.images, np.delete(split.labels, list(done.bad)))
    for number, words in enumerate(images.classes):
        if skipped and number not in ready["train"].labels:
            raise DataIssue(
                f"{images.name}: no readable image of {words!r} is left for training", kind="empty"
            )
    return replace(
        images,
        train=ready["train"],
        validation=ready["validation"],
        test=ready["test"],
        skipped=tuple(skipped),
    )


def squares(
    images: Images, size: int, channels: Channels, *, skip_bad: bool, workers: int | None
) -> Done:
    """Images as squares of `size`; those that cannot be decoded are left out, or the first told."""
    if isinstance(images, ArrayImages):
        return Done(resized(images, size, channels), {})
    done = decoded(FileImages(images.paths, size, channels), workers)
    if done.bad and not skip_bad:
        first = images.paths[next(iter(done.bad))]
        raise DataIssue(first_of(list(done.bad.values())), first, kind="image")
    return done


def first_of(troubles: list[str]) -> str:
    """The first of several sentences, and how many more there are."""
    more = len(troubles) - 1
    return troubles[0] + (f" (and {more} more; `regard data check` lists them)" if more else "")


def resized(images: ArrayImages, size: int, channels: Channels) -> ArrayImages:
    """Arrays at another size or with other channels, by the same rule as files."""
    if images.pixels.shape[1:] == (channels, size, size):
        return images
    out = np.empty((len(images), channels, size, size), np.uint8)
    with progress("resizing images", len(images)) as advance:
        for row in range(len(images)):
            pixels = images[row].transpose(1, 2, 0)
            picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
            out[row] = fit(picture, size, channels)
            advance(1)
    return ArrayImages(out, images.digest())


class Done(NamedTuple):
    """Decoded images, and what is wrong with those left out, by their row before."""

    images: ArrayImages | FileImages
    bad: dict[int, str]


def decoded(images: FileImages, workers: int | None = None) -> Done:
    """From the cache if they are there, else decoded and put there."""
    size, channels = sized(images)
    entry = Entry(store_folder() / key(images))
    if found := entry.read():
        return found
    needed = len(images) * channels * size * size
    try:
        store_folder().mkdir(parents=True, exist_ok=True)
        if needed < shutil.disk_usage(store_folder()).free * 0.9:
            entry.write(images, workers)
            if found := entry.read():
                return found
    except OSError:
        pass  # read-only or full: the images are still there, only not kept
    return decoded_in_memory(images) if needed <= IN_MEMORY else checked(images, workers)


def sized(images: FileImages) -> tuple[int, Channels]:
    if images.size is None:
        raise ValueError("images are decoded at one size, and none is given")
    return images.size, images.channels


def decoded_in_memory(images: FileImages) -> Done:
    good, digests, bad = [], [], {}
    size, channels = sized(images)
    with progress("reading images", len(images)) as advance:
        for row, path in enumerate(images.paths):
            try:
                pixels, digest = decode(path, size, channels)
            except UserError as trouble:
                bad[row] = str(trouble)
            else:
                good.append(pixels)
                digests.append(digest)
            advance(1)
    pixels = np.stack(good) if good else np.empty((0, channels, size, size), np.uint8)
    return Done(ArrayImages(pixels, digest_of_files(digests)), bad)


def checked(images: FileImages, workers: int | None) -> Done:
    """Decoded again each time they are asked for; read once now, to find the bad ones."""
    bad = troubles(decode_all(images.paths, None, workers=workers))
    paths = tuple(path for row, path in enumerate(images.paths) if row not in bad)
    return Done(replace(images, paths=paths), bad)


def troubles(outcomes: list[Outcome]) -> dict[int, str]:
    return {row: outcome.trouble for row, outcome in enumerate(outcomes) if outcome.trouble}


def key(images: FileImages) -> str:
    """Changes when a file, their order, the size asked for or the way of decoding does."""
    settings = f"{RULE} {PIL.__version__} {images.size} {images.channels}"
    text = hashlib.sha256(settings.encode())
    for path in images.paths:
        try:
            facts = path.stat()
        except OSError as trouble:
            raise DataIssue(
                f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
            ) from None
        line = f"\n{path.absolute()}\0{facts.st_size}\0{facts.st_mtime_ns}"
        text.update(line.encode(errors="surrogateescape"))
    return text.hexdigest()[:32]


def store_folder() -> Path:
    return cache_folder() / "images"


@dataclass(frozen=True)
class Entry:
    """One folder of the store: `pixels.npy`, and `facts.json` to check it by."""

    folder: Path

    def read(self) -> Done | None:
        """What is kept, or None if it is not there or not whole."""
        try:
            facts = json.loads((self.folder / "facts.json").read_text(encoding="utf-8"))
            file = self.folder / "pixels.npy"
            if file.stat().st_size != facts["bytes"]:
                return None
            pixels: Pixels = np.lib.format.open_memmap(file, mode="r")
            bad = {int(row): str(words) for row, words in facts["bad"].items()}
            if pixels.dtype != np.uint8 or list(pixels.shape) != facts["shape"]:
                return None
            return Done(ArrayImages(pixels, str(facts["digest"])), bad)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def write(self, images: FileImages, workers: int | None) -> None:
        """Decode into a folder beside, and give it its name when it is complete."""
        with draft_folder(self.folder) as beside:
            file = beside / "pixels.npy"
            size, channels = sized(images)
            shape = (len(images), channels, size, size)
            target = Target(str(file), begin(file, shape), size, channels)
            outcomes = decode_all(images.paths, target, workers=workers)
            bad = troubles(outcomes)
            if bad:
                without(file, bad)
            facts = {
                "shape": [len(images) - len(bad), *shape[1:]],
                "bytes": file.stat().st_size,
                "digest": digest_of_files(o.digest for o in outcomes if not o.trouble),
                "bad": bad,
            }
            (beside / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
            # Another process may have been faster, or left something that is not whole.
            if self.read() is None:
                shutil.rmtree(self.folder, ignore_errors=True)
                os.replace(beside, self.folder)


def begin(file: Path, shape: tuple[int, ...]) -> int:
    """Make a file for an array of bytes, and say where the array starts in it."""
    with file.open("wb") as out:
        layout = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, layout)
        start = out.tell()
        out.truncate(start + int(np.prod(shape)))
    return start


def without(file: Path, rows: dict[int, str]) -> None:
    """Write the array again with some of its rows left out."""
    whole = np.load(file, mmap_mode="r")
    good = [row for row in range(len(whole)) if row not in rows]
    smaller = file.with_suffix(".good")
    begin(smaller, (len(good), *whole.shape[1:]))
    with smaller.open("r+b") as out:
        out.seek(0, os.SEEK_END)
        out.seek(-len(good) * int(np.prod(whole.shape[1:])), os.SEEK_END)
        for row in good:
            out.write(whole[row].tobytes())
    del whole  # some systems rename no file that is mapped
    os.replace(smaller, file)


class Kept(NamedTuple):
    """Something in the cache that can be made again."""

    path: Path
    bytes: int


def kept() -> Iterator[Kept]:
    """Every entry of the store, and what an interrupted run left there."""
    for folder in cached(store_folder()):
        if folder.is_dir():
            yield Kept(folder, sum(f.stat().st_size for f in folder.iterdir() if f.is_file()))
