"""What a trained classifier says of an image: a file, an array, or one of its own data."""

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
from jaxtyping import Float32, UInt8
from PIL import Image

from regard.data.decode import SUFFIXES, decode, fit, flatten, upright
from regard.data.images import SPLITS, Channels
from regard.errors import UserError
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.classify.data import ClassifyData, Facts, shared
from regard.tasks.task import Trained

Classifier = Trained[ClassifyConfig, Facts]


@dataclass(frozen=True, eq=False)
class Picture:
    """One image ready for the model, where it came from, and what it shows if that is known."""

    name: str
    pixels: UInt8[np.ndarray, "k y x"]
    truth: str | None = None


@dataclass(frozen=True)
class Answer:
    """What the model says of one image: classes by falling probability."""

    name: str
    classes: tuple[str, ...]
    shares: tuple[float, ...]
    truth: str | None = None

    def __str__(self) -> str:
        known = "" if self.truth is None else f"  (it is {self.truth})"
        best = "  ".join(
            f"{share:6.1%} {word}"
            for word, share in list(zip(self.classes, self.shares, strict=True))[:3]
        )
        return f"{self.name}:  {best}{known}"

    def to_values(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "input": self.name,
            "answer": self.classes[0],
            "probabilities": dict(zip(self.classes, self.shares, strict=True)),
        }
        return values if self.truth is None else {**values, "truth": self.truth}


def open_pictures(
    trained: Classifier, inputs: Sequence[Any], data: Callable[[], ClassifyData]
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
                pictures.append(from_split(data(), row[1], int(row[2])))
            else:
                pictures += from_path(Path(thing), trained.facts)
        else:
            pictures.append(Picture(f"image {number + 1}", from_memory(thing, trained.facts)))
    return pictures


def from_path(path: Path, facts: Facts) -> list[Picture]:
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


def from_file(path: Path, facts: Facts) -> Picture:
    return Picture(str(path), decode(path, facts.size, channels_of(facts)).pixels)


def from_split(data: ClassifyData, split: str, row: int) -> Picture:
    images = data.images[split]
    if not 0 <= row < len(images):
        raise UserError(
            f"{split}:{row}: {split} of {data.name} has the rows 0 to {len(images) - 1}"
        )
    truth = data.facts.classes[images.labels[row]]
    return Picture(f"{data.name} {split}:{row}", np.ascontiguousarray(images.images[row]), truth)


def from_memory(image: Any, facts: Facts) -> UInt8[np.ndarray, "k y x"]:
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
    return fit(flatten(upright(image)), facts.size, channels_of(facts))


def channels_of(facts: Facts) -> Channels:
    return 1 if facts.channels == 1 else 3


@torch.no_grad()
def probabilities(
    trained: Classifier, pixels: UInt8[np.ndarray, "n k y x"]
) -> Float32[np.ndarray, "n classes"]:
    images = trained.facts.inputs(shared(pixels).to(trained.device))
    found: Float32[np.ndarray, "n classes"] = (
        trained.model(images).float().softmax(-1).cpu().numpy()
    )
    return found


def predict(trained: Classifier, pictures: Sequence[Picture]) -> list[Answer]:
    """The classes of each picture, the most probable first."""
    answers, names = [], trained.facts.classes
    for start in range(0, len(pictures), 256):
        group = pictures[start : start + 256]
        shares = probabilities(trained, np.stack([picture.pixels for picture in group]))
        for picture, row in zip(group, shares, strict=True):
            order = np.argsort(-row, kind="stable")
            answers.append(
                Answer(
                    picture.name,
                    tuple(names[at] for at in order),
                    tuple(float(row[at]) for at in order),
                    picture.truth,
                )
            )
    return answers
