"""What a trained captioner says of an image: a file, an array, or one of its own data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.tasks.caption.data import CaptionData, inputs_of, part_of
from regard.tasks.caption.features import frozen_encoder
from regard.tasks.caption.metrics import CaptionWriter, captioner
from regard.tasks.caption.writing import Written, write
from regard.tasks.image_data import shared
from regard.tasks.image_inputs import Picture, parse_images
from regard.tasks.inputs import OwnSplit, Unreadable
from regard.tasks.task import Show

BROKEN = "\ufffd"  # what stands for bytes that are no letter, or not yet


@dataclass(frozen=True)
class Prediction:
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


def parse_inputs(
    trained: CaptionWriter, inputs: Iterable[Any], data: Callable[[], CaptionData]
) -> Iterator[Picture | Unreadable]:
    """What a user names, as pictures; those of the run's own data come with a caption."""

    def open_split(split: str) -> OwnSplit[Picture]:
        own = data()
        part = part_of(own, split)

        def item(row: int) -> Picture:
            pixels = np.ascontiguousarray(part.images[row])
            return Picture(f"{own.name} {split}:{row}", pixels, part.captions[row][0])

        return OwnSplit(own.name, "rows", len(part), item)

    return parse_images(inputs, trained.metadata, open_split)


def predict(trained: CaptionWriter, pictures: Sequence[Picture]) -> list[Prediction]:
    """A caption for each picture."""
    answers = []
    for start in range(0, len(pictures), 64):
        group = pictures[start : start + 64]
        texts = written(trained, seen_of(trained, group))
        answers += [
            Prediction(picture.name, text.text, text.score, picture.truth)
            for picture, text in zip(group, texts, strict=True)
        ]
    return answers


def speak(trained: CaptionWriter, picture: Picture, show: Show) -> Prediction:
    """What `predict` says of one picture, each piece shown once no draft can take it back."""
    words, shown = trained.metadata.words, ""

    def hear(_: int, numbers: list[int]) -> bool:
        nonlocal shown
        text = words.decode(numbers).rstrip(BROKEN)
        if text.startswith(shown) and text != shown:
            show(text[len(shown) :])
            shown = text
        return False

    seen, config = seen_of(trained, [picture]), trained.config.generation
    (text,) = write(captioner(trained), seen, trained.metadata, config, listen=hear)
    if text.text.startswith(shown):
        show(text.text[len(shown) :])
    return Prediction(picture.name, text.text, text.score, picture.truth)


def written(trained: CaptionWriter, seen: Tensor) -> list[Written]:
    return write(captioner(trained), seen, trained.metadata, trained.config.generation)


def seen_of(trained: CaptionWriter, pictures: Sequence[Picture]) -> Tensor:
    """Pictures as the model takes them: pixels made ready, or the features of a frozen encoder."""
    return encoded(trained, images_of(trained, pictures))


def images_of(trained: CaptionWriter, pictures: Sequence[Picture]) -> Float[Tensor, "b k y x"]:
    """Pictures as the encoder takes them."""
    pixels = shared(np.stack([picture.pixels for picture in pictures])).to(trained.device)
    return inputs_of(trained.config, trained.metadata)(pixels.float() / 255)


@torch.no_grad()
def encoded(trained: CaptionWriter, images: Float[Tensor, "b k y x"]) -> Tensor:
    """Images as the model takes them: as they are, or seen by the frozen encoder."""
    if not trained.config.kept:
        return images
    # Rounded as those that are kept, or a near tie between two words could go the other way.
    encoder = frozen_encoder().to(trained.device)
    return encoder.features(images, trained.config.feature_stage).half().float()
