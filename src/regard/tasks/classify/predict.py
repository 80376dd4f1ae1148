"""What a trained classifier says of an image: a file, an array, or one of its own data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, UInt8

from regard.data.images import SPLITS
from regard.errors import UserError
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.classify.data import ClassifyData, Metadata
from regard.tasks.image_data import shared
from regard.tasks.image_inputs import Picture, parse_images
from regard.tasks.inputs import OwnSplit, Unreadable
from regard.tasks.task import Trained

Classifier = Trained[ClassifyConfig, Metadata]


@dataclass(frozen=True)
class Prediction:
    """What the model says of one image: classes by falling probability."""

    name: str
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]
    truth: str | None = None

    def __str__(self) -> str:
        known = "" if self.truth is None else f"  (it is {self.truth})"
        best = "  ".join(
            f"{share:6.1%} {word}"
            for word, share in list(zip(self.classes, self.probabilities, strict=True))[:3]
        )
        return f"{self.name}:  {best}{known}"

    def to_values(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "input": self.name,
            "answer": self.classes[0],
            "probabilities": dict(zip(self.classes, self.probabilities, strict=True)),
        }
        return values if self.truth is None else {**values, "truth": self.truth}


def parse_inputs(
    trained: Classifier, inputs: Iterable[Any], data: Callable[[], ClassifyData]
) -> Iterator[Picture | Unreadable]:
    """What a user names, as pictures; those of the run's own data come with their class."""

    def open_split(split: str) -> OwnSplit[Picture]:
        own = data()
        if split not in SPLITS:
            raise UserError(f"no split {split!r}; there are {', '.join(SPLITS)}")
        part = own.images[split]

        def item(row: int) -> Picture:
            truth = own.metadata.classes[part.labels[row]]
            pixels = np.ascontiguousarray(part.images[row])
            return Picture(f"{own.name} {split}:{row}", pixels, truth)

        return OwnSplit(own.name, "rows", len(part), item)

    return parse_images(inputs, trained.metadata, open_split, trained.metadata.classes)


@torch.no_grad()
def probabilities(
    trained: Classifier, pixels: UInt8[np.ndarray, "n k y x"]
) -> Float32[np.ndarray, "n classes"]:
    images = trained.metadata.inputs(shared(pixels).to(trained.device))
    found: Float32[np.ndarray, "n classes"] = (
        trained.model(images).float().softmax(-1).cpu().numpy()
    )
    return found


def predict(trained: Classifier, pictures: Sequence[Picture]) -> list[Prediction]:
    """The classes of each picture, the most probable first."""
    answers, names = [], trained.metadata.classes
    for start in range(0, len(pictures), 256):
        group = pictures[start : start + 256]
        shares = probabilities(trained, np.stack([picture.pixels for picture in group]))
        for picture, row in zip(group, shares, strict=True):
            order = np.argsort(-row, kind="stable")
            answers.append(
                Prediction(
                    picture.name,
                    tuple(names[at] for at in order),
                    tuple(float(row[at]) for at in order),
                    picture.truth,
                )
            )
    return answers
