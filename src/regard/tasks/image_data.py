"""Pixels on their way to a model: what a run must know of them, and where they lie."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.config import check_kinds
from regard.data.images import ArrayImages, Channels, Images, Pixels
from regard.errors import FieldError

LARGEST_SIDE = 16_384  # pixels; what is larger is no picture that a model sees
SHARE = 4  # data are kept on a GPU when they take at most one part in so many of what is free


@dataclass(frozen=True, kw_only=True)
class ImageMetadata:
    """What a run must know of its images to be used without them."""

    data: str
    digest: str
    size: int
    channels: int
    mean: tuple[float, ...]  # of the training pixels, 0 … 1, by channel
    deviation: tuple[float, ...]
    images: tuple[int, int, int]  # in train, validation and test
    skipped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_kinds(self)
        if not 1 <= self.size <= LARGEST_SIDE:
            raise FieldError(
                f"size={self.size}: an image has 1 to {LARGEST_SIDE:,} pixels a side", "size"
            )
        for name in ("mean", "deviation"):
            values = getattr(self, name)
            fits = all(isinstance(x, int | float) and math.isfinite(x) for x in values)
            if len(values) != self.channels or not fits:
                raise FieldError(
                    f"{name}={values}: a number for each of channels={self.channels}", name
                )
        if not all(x > 0 for x in self.deviation):
            raise FieldError(
                f"deviation={self.deviation}: pixels are divided by it, so above 0", "deviation"
            )

    @property
    def parts(self) -> tuple[int, int, int]:
        """How much there is to train on, to choose by and to test."""
        return self.images

    def normalised(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b k y x"]:
        """Pixels in 0 … 1 as the model wants them: with mean 0 and deviation 1 by channel."""
        mean, deviation = scale_of(self, images.device)
        return (images - mean) / deviation

    def inputs(self, pixels: UInt8[Tensor, "b k y x"]) -> Float[Tensor, "b k y x"]:
        """Pixels as they were read, as the model wants them."""
        return self.normalised(pixels.float() / 255)

    @property
    def kinds(self) -> Channels:
        """Grey or coloured, as readers want to be told."""
        return 1 if self.channels == 1 else 3


@lru_cache(maxsize=8)
def scale_of(facts: ImageMetadata, device: torch.device) -> tuple[Tensor, Tensor]:
    """Mean and deviation, on the device once and not at every step."""
    mean, deviation = torch.tensor([facts.mean, facts.deviation], device=device)
    return mean.view(1, -1, 1, 1), deviation.view(1, -1, 1, 1)


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
