"""Pictures that a user names: a file, a folder, an array, or a row of a run's own data."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image

from regard.data.decode import SUFFIXES, decode, fit, flatten, upright
from regard.data.images import SPLITS
from regard.errors import UserError
from regard.tasks.pixels import ImageFacts


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


def open_pictures(
    facts: ImageFacts, inputs: Sequence[Any], from_split: Callable[[str, int], Picture]
) -> list[Picture]:
    """Paths, `split:row` of the run's own data, PIL images or arrays, as pictures.

    A folder stands for the images in it.
    """
    pictures: list[Picture] = []
    for number, thing in enumerate(inputs):
        if isinstance(thing, Picture):
            pictures.append(thing)
        elif isinstance(thing, (str, Path)):
            row = re.fullmatch(rf"({'|'.join(SPLITS)}):(-?\d+)", str(thing))
            if row:
                pictures.append(from_split(row[1], int(row[2])))
            else:
                pictures += from_path(Path(thing), facts)
        else:
            pictures.append(Picture(f"image {number + 1}", from_memory(thing, facts)))
    return pictures


def check_row(data: str, split: str, row: int, count: int) -> None:
    """Refuse a row that a split does not have."""
    if not 0 <= row < count:
        raise UserError(f"{split}:{row}: {split} of {data} has the rows 0 to {count - 1}")


def from_path(path: Path, facts: ImageFacts) -> list[Picture]:
    """A file, or the images of a folder; of a folder, what cannot be read is named and left out."""
    if not os.path.isdir(path):  # unlike `is_dir`, not stopped by a path that is too long
        return [from_file(path, facts)]
    pictures = []
    for file in files_at(path):
        try:
            pictures.append(from_file(file, facts))
        except UserError as trouble:
            print(f"left out: {trouble}", file=sys.stderr)
    if not pictures:
        raise UserError(f"{path} has no image in it that can be read")
    return pictures


def files_at(path: Path) -> list[Path]:
    """Every image of a folder."""
    found = sorted(
        file
        for file in path.iterdir()
        if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")
    )
    if not found:
        raise UserError(f"{path} has no image in it")
    return found


def from_file(path: Path, facts: ImageFacts) -> Picture:
    return Picture(str(path), decode(path, facts.size, facts.kinds).pixels)


def from_memory(image: Any, facts: ImageFacts) -> UInt8[np.ndarray, "k y x"]:
    """A PIL image, or an array of bytes or of 0 … 1: (y x), (y x c) or (c y x)."""
    if not isinstance(image, Image.Image):
        if isinstance(image, torch.Tensor):
            image = image.detach().cpu().numpy()
        array = np.asarray(image)
        if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
            array = array.transpose(1, 2, 0)
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[..., 0]
        flat = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
        if not flat or not array.size:
            raise ValueError(
                f"an array of shape {array.shape} is no image: (y x), (y x 3), (y x 4), (3 y x)"
            )
        if np.issubdtype(array.dtype, np.floating):
            if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
                raise ValueError("an image of floats lies in 0 … 1, and this one does not")
            array = np.rint(array * 255).astype(np.uint8)
        elif array.dtype != np.uint8:
            raise ValueError(f"an image holds bytes or floats in 0 … 1, not {array.dtype}")
        image = Image.fromarray(array)
    return fit(flatten(upright(image)), facts.size, facts.kinds)
