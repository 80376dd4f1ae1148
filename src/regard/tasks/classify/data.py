"""Images on their way to the model: read, placed where the model is, and cut into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from regard.data.augment import ImageBatch
from regard.data.cache import at_size
from regard.data.images import SPLITS, ArrayImages, Channels, ImageSet, Split
from regard.data.registry import read_images
from regard.errors import ConfigError, UserError
from regard.hardware.memory import machine_memory
from regard.models.sizes import in_bytes
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.image_data import ImageMetadata, batch_seeds, resident, statistics

AHEAD = 4  # batches decoded before they are needed, where files are read anew each time


@dataclass(frozen=True, kw_only=True)
class Metadata(ImageMetadata):
    """What a run must know of its data to be used without them."""

    classes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ClassifyData:
    """An image set at the size of the model, and its facts."""

    images: ImageSet
    metadata: Metadata
    enlarged: str = ""  # from which size, if images were smaller than the model reads them

    @property
    def name(self) -> str:
        return self.images.name

    def words(self) -> str:
        """One line: what there is."""
        train, validation, test = self.metadata.images
        skipped = (
            f", {len(self.metadata.skipped)} unreadable left out" if self.metadata.skipped else ""
        )
        return (
            f"{self.name}: {train:,} training images, {validation:,} for validation, {test:,} for "
            f"test, {len(self.metadata.classes)} classes, {self.metadata.size} × "
            f"{self.metadata.size} "
            f"pixels{self.enlarged and f' (enlarged from {self.enlarged})'}{skipped}"
        )


def read(config: ClassifyConfig) -> ClassifyData:
    """The images a configuration names, at the size its model wants."""
    found = read_images(config.data)
    enlarged = smaller(found, config.chosen.image_size)
    images, channels = sized(config, found)
    for name in ("train", "validation"):
        if not len(images[name]):
            raise UserError(f"{images.name} has no image in {name}; training needs some")
    mean, deviation = statistics(images.train.images)
    return ClassifyData(
        images,
        Metadata(
            data=images.name,
            digest=images.digest,
            classes=images.classes,
            size=config.chosen.image_size,
            channels=channels,
            mean=mean,
            deviation=deviation,
            images=(len(images.train), len(images.validation), len(images.test)),
            skipped=images.skipped,
        ),
        enlarged,
    )


def smaller(found: ImageSet, size: int) -> str:
    """Rows and columns of the first image, if its shorter side has to be enlarged to this size."""
    try:
        *_, rows, columns = found.train.images[0].shape if len(found.train) else (size, size)
    except UserError:
        return ""  # it is left out, or refused with its reason
    return f"{rows} × {columns}" if min(rows, columns) < size else ""


def read_other(config: ClassifyConfig, facts: Metadata) -> ClassifyData:
    """Images that a run was not trained on, with its classes; some of these may have none."""
    found = read_images(config.data, learning=False)
    if strange := [word for word in found.classes if word not in facts.classes]:
        raise UserError(f"{config.data} has classes that the run does not know: {few(strange)}")
    images, channels = sized(config, found)
    number = np.array([facts.classes.index(word) for word in images.classes], np.int64)
    train, validation, test = (
        Split(images[name].images, number[images[name].labels]) for name in SPLITS
    )
    theirs = replace(
        facts,
        data=images.name,
        digest=images.digest,
        channels=channels,
        images=(len(train), len(validation), len(test)),
        skipped=images.skipped,
    )
    images = replace(images, classes=facts.classes, train=train, validation=validation, test=test)
    return ClassifyData(images, theirs)


def few(names: Sequence[str]) -> str:
    """The first of several names, and how many there are."""
    first = ", ".join(names[:5])
    return first if len(names) <= 5 else f"{first}, … ({len(names)} in all)"


def sized(config: ClassifyConfig, found: ImageSet) -> tuple[ImageSet, Channels]:
    """Images at the size that the model wants, and how many channels they have then."""
    channels = 1 if config.chosen.channels == 1 else own_channels(found)
    expect_memory(config, found, channels)
    return at_one_size(found, config.chosen.image_size, channels, config.skip_invalid), channels


def expect_memory(config: ClassifyConfig, found: ImageSet, channels: Channels) -> None:
    """Refuse images at a size at which memory does not hold them; files are kept on the disk."""
    there = [found[name].images for name in SPLITS]
    count = sum(len(images) for images in there if isinstance(images, ArrayImages))
    size, room = config.chosen.image_size, machine_memory()
    needed = count * channels * size * size
    if room is not None and needed > room:
        raise ConfigError(
            f"{config.table}.image_size = {size} makes {in_bytes(needed)} of {count:,} images; "
            "this "
            f"machine has {in_bytes(room)}: take less",
            key=f"{config.table}.image_size",
            value=size,
        )


def at_one_size(found: ImageSet, size: int, channels: Channels, skip_bad: bool) -> ImageSet:
    try:
        return at_size(found, size, channels, skip_bad=skip_bad)
    except UserError as trouble:
        if skip_bad:
            raise
        raise trouble.reworded(
            f"{trouble}; --skip-invalid leaves out what cannot be read"
        ) from None


def own_channels(images: ImageSet) -> Channels:
    pixels = images.train.images
    return 1 if isinstance(pixels, ArrayImages) and pixels.pixels.shape[1] == 1 else 3


class ImageBatches:
    """Training images in an order that seed and epoch decide.

    Where an epoch does not split into full batches, the few images left over sit it out; which
    they are changes with the order. So every batch has one shape, which compiled and captured
    steps need.
    """

    def __init__(self, split: Split, batch: int, seed: int, device: torch.device) -> None:
        self.split, self.seed, self.device = split, seed, device
        self.batch = min(batch, len(split))
        self.labels = torch.from_numpy(split.labels).to(device)
        self.pixels = resident(split.images, device)

    def __len__(self) -> int:
        return len(self.split) // self.batch

    def epoch(self, number: int, start: int) -> Iterator[ImageBatch]:
        order = np.random.default_rng([self.seed, number]).permutation(len(self.split))
        # On the device once an epoch, for a copy a batch would keep it waiting.
        chosen = torch.from_numpy(order).to(self.device).split(self.batch)[start : len(self)]
        seeds = batch_seeds(self.seed, number, len(self))[start:]
        held = self.pixels
        if held is None:
            images = self.taken(
                [order[at * self.batch :][: self.batch] for at in range(start, len(self))]
            )
        else:
            images = (held.index_select(0, rows) for rows in chosen)
        for pixels, rows, seed in zip(images, chosen, seeds, strict=True):
            yield ImageBatch(pixels, self.labels.index_select(0, rows), seed)

    def taken(self, groups: list[Int64[np.ndarray, "b"]]) -> Iterator[UInt8[Tensor, "b k y x"]]:
        """The pixels of each group, a few groups ahead of the one that is asked for."""
        on_gpu = self.device.type == "cuda"

        def take(rows: Int64[np.ndarray, "b"]) -> UInt8[Tensor, "b k y x"]:
            pixels = torch.from_numpy(self.split.images.take(rows))
            return pixels.pin_memory() if on_gpu else pixels

        with ThreadPoolExecutor(AHEAD) as threads:
            waiting = (threads.submit(take, rows) for rows in groups)
            ahead = list(islice(waiting, AHEAD))
            while ahead:
                yield ahead.pop(0).result().to(self.device, non_blocking=True)
                ahead += islice(waiting, 1)
