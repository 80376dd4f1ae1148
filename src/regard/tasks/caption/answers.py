"""What a trained captioner says of an image: a file, an array, or one of its own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.tasks.caption.data import CaptionData, inputs_of, part_of
from regard.tasks.caption.features import frozen_encoder
from regard.tasks.caption.judging import CaptionWriter, captioner
from regard.tasks.caption.writing import Written, write
from regard.tasks.pictures import Picture, check_row, open_pictures
from regard.tasks.pixels import shared


@dataclass(frozen=True)
class Answer:
    """What the model says of one image, and what people said of it, if that is known."""

    name: str
    caption: str
    score: float
    truth: str | None = None

    def __str__(self) -> str:
        known = "" if self.truth is None else f"  (given: {self.truth})"
        return f"{self.name}:  {self.caption}{known}"

    def to_values(self) -> dict[str, Any]:
        values: dict[str, Any] = {"input": self.name, "answer": self.caption, "score": self.score}
        return values if self.truth is None else {**values, "truth": self.truth}


def opened(
    trained: CaptionWriter, inputs: Sequence[Any], data: Callable[[], CaptionData]
) -> list[Picture]:
    """What a user names, as pictures; a row of the run's own data comes with a caption."""

    def from_split(split: str, row: int) -> Picture:
        own = data()
        part = part_of(own, split)
        check_row(own.name, split, row, len(part))
        pixels = np.ascontiguousarray(part.images[row])
        return Picture(f"{own.name} {split}:{row}", pixels, part.captions[row][0])

    return open_pictures(trained.facts, inputs, from_split)


def predict(trained: CaptionWriter, pictures: Sequence[Picture]) -> list[Answer]:
    """A caption for each picture."""
    answers = []
    for start in range(0, len(pictures), 64):
        group = pictures[start : start + 64]
        texts = written(trained, seen_of(trained, group))
        answers += [
            Answer(picture.name, text.text, text.score, picture.truth)
            for picture, text in zip(group, texts, strict=True)
        ]
    return answers


def written(trained: CaptionWriter, seen: Tensor) -> list[Written]:
    return write(captioner(trained), seen, trained.facts, trained.config.writing)


@torch.no_grad()
def seen_of(trained: CaptionWriter, pictures: Sequence[Picture]) -> Tensor:
    """Pictures as the model takes them: pixels made ready, or the features of a frozen encoder."""
    config, device = trained.config, trained.device
    pixels = shared(np.stack([picture.pixels for picture in pictures])).to(device)
    images = inputs_of(config, trained.facts)(pixels.float() / 255)
    if not config.kept:
        return images
    # Rounded as those that are kept, or a near tie between two words could go the other way.
    return frozen_encoder().to(device).features(images, config.depth).half().float()
