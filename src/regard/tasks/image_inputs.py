"""Images that a run is asked about: paths, bytes, files, arrays, batches, rows of its own data."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from regard.data.decode import (
    LARGEST_FILE,
    SUFFIXES,
    UnsupportedPixels,
    decode,
    decode_bytes,
    fit,
    flatten,
    upright,
)
from regard.data.listing import hidden, images_in, list_folder, subfolders
from regard.errors import UserError
from regard.tasks.image_data import ImageMetadata
from regard.tasks.inputs import (
    ROW,
    NoItem,
    OwnSplit,
    Rows,
    StandardInput,
    TextFile,
    Unreadable,
    described,
    holds_several,
    is_file,
    items_of,
    one_by_one,
    standard_input,
)


@dataclass(frozen=True, eq=False)
class Picture:
    """One image ready for the model, where it came from, and what it shows if that is known."""

    name: str
    pixels: UInt8[np.ndarray, "k y x"]
    truth: str | None = None

    def shown(self) -> UInt8[np.ndarray, "y x *c"]:
        """The pixels as they are painted: (y x) or (y x c)."""
        pixels = self.pixels.transpose(1, 2, 0)
        return pixels[..., 0] if pixels.shape[2] == 1 else pixels


def parse_images(
    inputs: Iterable[Any],
    facts: ImageMetadata,
    open_split: Callable[[str], OwnSplit[Picture]],
    classes: Collection[str] = (),
) -> Iterator[Picture | Unreadable]:
    """What a user passes, image by image.

    A str or a Path is the path of an image or of a folder. In a folder with sub-folders each of
    these is a class, as in training, and the truth where it is one of `classes`. Bytes and open
    files hold an image; arrays hold one or a batch.
    """

    def single(value: Any) -> bool:
        return (
            isinstance(value, Picture | Image.Image) or is_array(value) or not holds_several(value)
        )

    for place, value in one_by_one(inputs, single):
        if isinstance(value, Picture):
            yield value
        elif isinstance(value, Rows):
            yield from items_of(value, open_split)
        elif isinstance(value, str | Path):
            yield from from_path(Path(value), facts, classes)
        elif isinstance(value, TextFile):
            yield from from_file(value, facts, classes)
        elif isinstance(value, Image.Image):
            yield made(place, partial(from_pil, value, facts))
        elif isinstance(value, bytes | bytearray | memoryview):
            yield from_bytes(place, bytes(value), facts)
        elif isinstance(value, StandardInput):
            yield from_bytes(value.name, standard_input().read(LARGEST_FILE + 1), facts)
        elif is_file(value):
            yield from_open_file(place, value, facts)
        elif is_array(value):
            yield from from_array(place, value, facts)
        else:
            yield Unreadable(place, described(value, "image"))


def made(place: str, pixels: Callable[[], UInt8[np.ndarray, "k y x"]]) -> Picture | Unreadable:
    """A picture, or why there is none."""
    try:
        return Picture(place, pixels())
    except NoItem as why:
        return Unreadable(place, str(why))


# Files


def from_path(
    path: Path, facts: ImageMetadata, classes: Collection[str]
) -> Iterator[Picture | Unreadable]:
    """A file, or the images of a folder, one after the other."""
    if not os.path.isdir(path):  # unlike `is_dir`, not stopped by a path that is too long
        yield from_image_file(path, facts)
        return
    try:
        found = files_at(path)
    except OSError as trouble:
        yield Unreadable(str(path), f"cannot be read: {trouble.strerror}")
        return
    if not found:
        yield Unreadable(str(path), "has no image in it")
    for file, label in found:
        yield from_image_file(file, facts, label if label in classes else None)


def files_at(folder: Path) -> list[tuple[Path, str | None]]:
    """Every image of a folder, those in sub-folders with the class they have in training."""
    entries = sorted(entry for entry in folder.iterdir() if not hidden(entry.name))
    loose = [entry for entry in entries if entry.suffix.lower() in SUFFIXES and entry.is_file()]
    found: list[tuple[Path, str | None]] = [(path, None) for path in loose]
    if any(images_in(inner)[0] for inner in subfolders(folder)):
        found += [(item.path, item.label) for item in list_folder(folder, learning=False).items]
    return found


def from_image_file(
    path: Path, facts: ImageMetadata, truth: str | None = None
) -> Picture | Unreadable:
    try:
        return Picture(str(path), decode(path, facts.size, facts.kinds).pixels, truth)
    except UserError as why:
        reason = str(why)
        if (row := ROW.fullmatch(str(path))) and not os.path.exists(path):
            reason += f"; an image of the data is --split {row[1]} --index {row[2]}"
        return Unreadable(str(path), reason)


def from_file(
    file: TextFile, facts: ImageMetadata, classes: Collection[str]
) -> Iterator[Picture | Unreadable]:
    """What is named as a file: images have no columns."""
    if file.text_column:
        raise UserError(f"--text-column {file.text_column} is for texts; this run looks at images")
    yield from from_path(file.path, facts, classes)


def from_open_file(place: str, file: Any, facts: ImageMetadata) -> Picture | Unreadable:
    name = getattr(file, "name", None)
    place = name if isinstance(name, str) else place
    data = file.read(LARGEST_FILE + 1)
    if isinstance(data, str):
        return Unreadable(place, "was opened as text: open images with open(path, 'rb')")
    return from_bytes(place, data, facts)


def from_bytes(place: str, data: bytes, facts: ImageMetadata) -> Picture | Unreadable:
    if not data:
        return Unreadable(place, "is empty")
    if len(data) > LARGEST_FILE:
        return Unreadable(place, f"has over {LARGEST_FILE >> 20} MiB, more than are read")
    try:
        return Picture(place, decode_bytes(place, data, facts.size, facts.kinds).pixels)
    except UserError as why:
        return Unreadable(place, str(why))


# Memory


def is_array(value: Any) -> bool:
    """Whether a value is numbers in an array; one of other things is opened like a list."""
    return isinstance(value, torch.Tensor) or (
        isinstance(value, np.ndarray) and value.dtype.kind not in "OUST"
    )


def from_array(place: str, value: Any, facts: ImageMetadata) -> Iterator[Picture | Unreadable]:
    """An image, or each of a batch.

    An axis of channels has 1, 3 or 4 at the end, or 1 or 3 at the front. Three axes without one
    are grey images, one after the other.
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    shape = value.shape
    last = value.ndim >= 3 and shape[-1] in (1, 3, 4)
    first = value.ndim >= 3 and shape[-3] in (1, 3) and not last
    if value.ndim == 2 or (value.ndim == 3 and (last or first)):
        yield made(place, partial(from_memory, value, facts, first))
    elif value.ndim == 3 or (value.ndim == 4 and (last or first)):
        for number, image in enumerate(value):
            yield made(f"{place}[{number}]", partial(from_memory, image, facts, first))
    else:
        yield Unreadable(
            place,
            f"has the shape {shape}, which is no image: (y x), (y x c), (c y x), or a batch of "
            "these, with 1 or 3 channels, or 4 at the end",
        )


def from_memory(
    array: np.ndarray, facts: ImageMetadata, channels_first: bool
) -> UInt8[np.ndarray, "k y x"]:
    """An array of bytes or of 0 … 1: (y x), (y x c) or (c y x)."""
    if not array.size:
        raise NoItem(f"has the shape {array.shape}: it has no pixels")
    if channels_first:
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if np.issubdtype(array.dtype, np.floating):
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise NoItem("has floats outside 0 … 1: divide them by 255, or pass uint8")
        array = np.rint(array * 255).astype(np.uint8)
    elif array.dtype != np.uint8:
        raise NoItem(f"holds {array.dtype}: an image is uint8, or floats in 0 … 1")
    return from_pil(Image.fromarray(np.ascontiguousarray(array)), facts)


def from_pil(image: Image.Image, facts: ImageMetadata) -> UInt8[np.ndarray, "k y x"]:
    try:
        return fit(flatten(upright(image)), facts.size, facts.kinds)
    except UnsupportedPixels as kind:
        raise NoItem(f"has {kind}: make it 8 or 16 bits a channel") from None
    except (OSError, SyntaxError, Image.DecompressionBombError) as damage:
        raise NoItem(f"is damaged or cut short ({damage})") from None
