"""Images on their way to the model: read, placed where the model is, and cut into batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from regard.data.augment import ImageBatch
from regard.data.catalogue import read_images
from regard.data.images import ArrayImages, Channels, Images, ImageSet, Pixels, Split
from regard.data.store import at_size
from regard.errors import UserError
from regard.tasks.classify.config import ClassifyConfig

AHEAD = 4  # batches decoded before they are needed, where files are read anew each time
SHARE = 4  # data are kept on a GPU when they take at most one part in so many of what is free


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a run must know of its data to be used without them."""

    data: str
    digest: str
    classes: tuple[str, ...]
    size: int
    channels: int
    mean: tuple[float, ...]  # of the training pixels, 0 … 1, by channel
    deviation: tuple[float, ...]
    images: tuple[int, int, int]  # in train, validation and test
    skipped: tuple[str, ...] = ()

    def normalised(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b k y x"]:
        """Pixels in 0 … 1 as the model wants them: with mean 0 and deviation 1 by channel."""
        mean, deviation = scale_of(self, images.device)
        return (images - mean) / deviation

    def inputs(self, pixels: UInt8[Tensor, "b k y x"]) -> Float[Tensor, "b k y x"]:
        """Pixels as they were read, as the model wants them."""
        return self.normalised(pixels.float() / 255)


@lru_cache(maxsize=8)
def scale_of(facts: Facts, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and deviation, on the device once and not at every step."""
    mean, deviation = torch.tensor([facts.mean, facts.deviation], device=device)
    return mean.view(1, -1, 1, 1), deviation.view(1, -1, 1, 1)


@dataclass(frozen=True, eq=False)
class ClassifyData:
    """An image set at the size of the model, and its facts."""

    images: ImageSet
    facts: Facts

    @property
    def name(self) -> str:
        return self.images.name

    def words(self) -> str:
        """One line: what there is."""
        train, validation, test = self.facts.images
        skipped = f", {len(self.facts.skipped)} unreadable left out" if self.facts.skipped else ""
        return (
            f"{self.name}: {train:,} images to train on, {validation:,} to choose by, {test:,} to "
            f"test, {len(self.facts.classes)} classes, {self.facts.size} × {self.facts.size} "
            f"pixels{skipped}"
        )


def read(config: ClassifyConfig) -> ClassifyData:
    """The images a configuration names, at the size its model wants."""
    found = read_images(config.data)
    size = config.model.image
    channels = 1 if config.model.channels == 1 else own_channels(found)
    images = at_one_size(found, size, channels, config.skip_bad)
    for name in ("train", "validation"):
        if not len(images[name]):
            raise UserError(f"{images.name} has no image in {name}; training needs some")
    mean, deviation = statistics(images.train.images)
    return ClassifyData(
        images,
        Facts(
            data=images.name,
            digest=images.digest,
            classes=images.classes,
            size=size,
            channels=channels,
            mean=mean,
            deviation=deviation,
            images=(len(images.train), len(images.validation), len(images.test)),
            skipped=images.skipped,
        ),
    )


def at_one_size(found: ImageSet, size: int, channels: Channels, skip_bad: bool) -> ImageSet:
    try:
        return at_size(found, size, channels, skip_bad=skip_bad)
    except UserError as trouble:
        if skip_bad:
            raise
        raise UserError(f"{trouble}; --skip-bad leaves out what cannot be read") from None


def own_channels(images: ImageSet) -> Channels:
    pixels = images.train.images
    return 1 if isinstance(pixels, ArrayImages) and pixels.pixels.shape[1] == 1 else 3


def statistics(images: Images, most: int = 50_000) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation of the pixels by channel, over at most so many images, evenly chosen."""
    rows = np.arange(0, len(images), max(1, -(-len(images) // most)))
    counts = np.zeros((images[0].shape[0], 256), np.int64)
    for start in range(0, len(rows), 1024):
        pixels = images.take(rows[start : start + 1024])
        for channel in range(len(counts)):
            counts[channel] += np.bincount(pixels[:, channel].reshape(-1), minlength=256)
    values, shares = np.arange(256) / 255, counts / counts.sum(1, keepdims=True)
    mean = shares @ values
    deviation = np.sqrt(np.maximum(shares @ values**2 - mean**2, 0))
    # A channel that never changes says nothing, and must not be divided by 0.
    deviation = np.where(deviation < 1e-4, 1.0, deviation)
    return tuple(map(float, mean)), tuple(map(float, deviation))


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
        groups = [order[at * self.batch :][: self.batch] for at in range(start, len(self))]
        # On the device once an epoch, for a copy a batch would keep it waiting.
        chosen = torch.from_numpy(order).to(self.device).split(self.batch)[start : len(self)]
        seeds = batch_seeds(self.seed, number, len(self))[start:]
        images = self.taken(groups) if self.pixels is None else (self.pixels[it] for it in chosen)
        for pixels, rows, seed in zip(images, chosen, seeds, strict=True):
            yield ImageBatch(pixels, self.labels[rows], seed)

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


def batch_seeds(seed: int, epoch: int, count: int) -> list[int]:
    """A seed for the random numbers of each batch, the same however a run came to it."""
    states = np.random.SeedSequence([seed, epoch]).generate_state(count, np.uint64)
    return (states >> np.uint64(1)).tolist()


def resident(images: Images, device: torch.device) -> UInt8[Tensor, "n k y x"] | None:
    """All images as one tensor on the device, or None where they do not fit or are not decoded."""
    if not isinstance(images, ArrayImages):
        return None
    if device.type == "cpu":
        return shared(images.pixels)
    if device.type == "cuda" and images.pixels.nbytes > torch.cuda.mem_get_info(device)[0] / SHARE:
        return None
    return shared(images.pixels).to(device)


def placed(images: Images, device: torch.device) -> Callable[[slice], UInt8[Tensor, "b k y x"]]:
    """A function from rows to their pixels on the device, where they lie already if they fit."""
    held = resident(images, device)
    if held is not None:
        return lambda rows: held[rows]
    return lambda rows: shared(images.take(np.arange(rows.start, rows.stop))).to(device)


def shared(pixels: Pixels) -> UInt8[Tensor, "n k y x"]:
    """An array as a tensor without a copy; pages of a mapped file are read when first used."""
    with warnings.catch_warnings():
        # torch warns that such an array must not be written to; nothing here does.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(np.asarray(pixels))
