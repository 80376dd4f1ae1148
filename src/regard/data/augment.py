"""Training images varied a batch at a time, on the device where they are.

Images are `(b k y x)` floats in 0 … 1, grey or coloured, of any size. Each variation is a pure
function of the images and of one number per image, so that the same numbers give the same
result; `Augment` draws the numbers from a generator that the caller owns. Shapes never depend on
values and nothing is read back to the host, so all of it can be captured in a CUDA graph.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Int64, UInt8
from torch import Tensor

from regard.data.config import MAGNITUDES, AugmentConfig
from regard.data.randaugment import draw_operations, randaugment
from regard.data.resample import resample

ERASED = (0.02, 1 / 3)  # least and largest share of the area (Zhong et al. 2017)
ERASED_ASPECT = 10 / 3  # height over width, relative to the image's, or its inverse
ZOOM_ASPECT = 4 / 3  # the same, of resized crops (Szegedy et al. 2014)


@dataclass(frozen=True)
class ImageBatch:
    """Images as they were read, and the seed of the random numbers that will vary them."""

    images: UInt8[Tensor, "b k y x"]
    labels: Int64[Tensor, "b"]
    seed: int
    generator: torch.Generator | None = None  # of a recorded step, which seeds it itself

    def numbers(self) -> torch.Generator:
        """Random numbers, the same each time for the same seed."""
        return self.generator or seeded(self.seed, self.images.device)


def seeded(seed: int, device: torch.device) -> torch.Generator:
    """Random numbers on a device, from a seed."""
    return torch.Generator(device).manual_seed(seed)


class Mixed(NamedTuple):
    """Images that show `labels` with `weight`, and `others` with the rest of it."""

    images: Float[Tensor, "b k y x"]
    labels: Int[Tensor, "b"]
    others: Int[Tensor, "b"]
    weight: Float[Tensor, "b"]

    def targets(self, classes: int) -> Float[Tensor, "b classes"]:
        """The same as a distribution over classes for each image."""
        none = self.weight.new_zeros(len(self.weight), classes)
        shown = none.scatter_add(1, self.labels[:, None], self.weight[:, None])
        return shown.scatter_add(1, self.others[:, None], 1 - self.weight[:, None])


@dataclass(frozen=True)
class Augment:
    """What `config` asks for, drawn anew for every batch: the last step before the model."""

    config: AugmentConfig

    def __call__(
        self,
        images: Float[Tensor, "b k y x"],
        labels: Int[Tensor, "b"],
        generator: torch.Generator,
    ) -> Mixed:
        """The batch, varied. The generator is on the images' device, and moves on."""
        config, (b, _, y, x) = self.config, images.shape
        if not images.is_floating_point():
            raise ValueError(f"images are {images.dtype}; make them floats in 0 … 1 first")
        if generator.device.type != images.device.type:
            raise ValueError(
                f"images are on {images.device}, but the generator is on {generator.device}"
            )
        if config.padding_mode == "reflect" and config.crop_padding >= min(y, x):
            raise ValueError(
                f"images of {y} × {x} have no reflection of crop_padding={config.crop_padding} "
                "pixels"
            )

        if config.crop_scale < 1:
            share = draw(b, generator, config.crop_scale, 1.0)
            aspect = draw_aspect(b, generator, ZOOM_ASPECT)
            images = zoom(images, draw_box(share, aspect, y, x, generator))
        if config.crop_padding:
            ends = (-config.crop_padding, config.crop_padding + 1)
            top, left = torch.randint(*ends, (2, b), generator=generator, device=images.device)
            images = crop(images, top, left, config.padding_mode, config.fill)
        if config.hflip:
            images = flip(images, draw(b, generator) < 0.5)
        if config.randaugment_ops:
            strength = config.randaugment_magnitude / MAGNITUDES
            draws = [draw_operations(b, strength, generator) for _ in range(config.randaugment_ops)]
            images = randaugment(images, draws, config.fill)
        if config.random_erasing:
            share = draw(b, generator, *ERASED) * (draw(b, generator) < config.random_erasing)
            aspect = draw_aspect(b, generator, ERASED_ASPECT)
            images = erase(images, draw_box(share, aspect, y, x, generator), config.fill)
        if config.mixup_alpha or config.cutmix_alpha:
            return mix(images, labels, *self._draw_mix(b, y, x, generator))
        return Mixed(images, labels, labels, torch.ones(b, device=images.device))

    def _draw_mix(
        self, b: int, y: int, x: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "b"], Float[Tensor, "b 1 #y #x"]]:
        """A partner for each image, and how much of the image itself is kept where."""
        config = self.config
        partner = draw(b, generator).argsort()
        keep = torch.ones(b, 1, 1, 1, device=generator.device)
        if config.mixup_alpha:
            keep = draw_beta(b, config.mixup_alpha, generator)[:, None, None, None]
        if config.cutmix_alpha:
            share = 1 - draw_beta(b, config.cutmix_alpha, generator)
            box = draw_box(share, torch.ones_like(share), y, x, generator)
            cut = draw(b, generator) < (0.5 if config.mixup_alpha else 1.0)
            keep = (~inside(box, y, x)).float().where(cut[:, None, None, None], keep)
        if config.mix_prob < 1:
            alone = draw(b, generator) >= config.mix_prob
            keep = keep.masked_fill(alone[:, None, None, None], 1.0)
        return partner, keep


def crop(
    images: Float[Tensor, "b k y x"],
    top: Int[Tensor, "b"],
    left: Int[Tensor, "b"],
    edge: Literal["constant", "reflect"] = "constant",
    fill: float = 0.0,
) -> Float[Tensor, "b k y x"]:
    """The window of the images' own size whose corner is at (top, left), which may be negative."""
    _, k, y, x = images.shape
    rows = top[:, None] + torch.arange(y, device=images.device)
    columns = left[:, None] + torch.arange(x, device=images.device)
    if edge == "reflect":  # without repeating the border
        rows = y - 1 - (y - 1 - rows.abs()).abs()
        columns = x - 1 - (x - 1 - columns.abs()).abs()
    index = rows.clamp(0, y - 1)[:, :, None] * x + columns.clamp(0, x - 1)[:, None]
    index = index.flatten(1)[:, None].expand(-1, k, -1)  # b k (y x)
    seen = images.flatten(2).gather(-1, index).view_as(images)
    if edge == "reflect":
        return seen
    outside = ((rows < 0) | (rows >= y))[:, :, None] | ((columns < 0) | (columns >= x))[:, None]
    return seen.masked_fill_(outside[:, None], fill)


def flip(images: Float[Tensor, "b k y x"], chosen: Bool[Tensor, "b"]) -> Float[Tensor, "b k y x"]:
    """The chosen images with left and right exchanged."""
    return images.flip(-1).where(chosen[:, None, None, None], images)


class Box(NamedTuple):
    """A rectangle for each image, in whole pixels kept as floats; of no height, it is empty."""

    top: Float[Tensor, "b"]
    left: Float[Tensor, "b"]
    height: Float[Tensor, "b"]
    width: Float[Tensor, "b"]


def inside(box: Box, y: int, x: int) -> Bool[Tensor, "b 1 y x"]:
    """Which pixels the box covers."""
    top, left, height, width = (side[:, None] for side in box)
    rows = torch.arange(y, device=top.device)
    columns = torch.arange(x, device=top.device)
    down = (rows >= top) & (rows < top + height)
    across = (columns >= left) & (columns < left + width)
    return (down[:, :, None] & across[:, None])[:, None]


def zoom(images: Float[Tensor, "b k y x"], box: Box) -> Float[Tensor, "b k y x"]:
    """What the box shows, enlarged to the whole image (bilinear)."""
    _, _, y, x = images.shape
    zero = torch.zeros_like(box.top)
    matrix = torch.stack((box.width / x, zero, box.left, zero, box.height / y, box.top), -1)
    return resample(images, matrix.unflatten(-1, (2, 3)))


def erase(
    images: Float[Tensor, "b k y x"], box: Box, fill: float = 0.0
) -> Float[Tensor, "b k y x"]:
    """Images whose box shows `fill` (Zhong et al. 2017)."""
    return images.masked_fill(inside(box, *images.shape[-2:]), fill)


def mix(
    images: Float[Tensor, "b k y x"],
    labels: Int[Tensor, "b"],
    partner: Int[Tensor, "b"],
    keep: Float[Tensor, "b 1 #y #x"],
) -> Mixed:
    """Image i as far as `keep`, 0 … 1, says, and image `partner[i]` for the rest.

    The label weighs what the image does: the mean of `keep`.
    """
    seen = keep * images + (1 - keep) * images.index_select(0, partner)
    return Mixed(seen.to(images.dtype), labels, labels[partner], keep.mean((1, 2, 3)))


def mixup(
    images: Float[Tensor, "b k y x"],
    labels: Int[Tensor, "b"],
    partner: Int[Tensor, "b"],
    weight: Float[Tensor, "b"],
) -> Mixed:
    """Two images seen through each other (Zhang et al. 2017)."""
    return mix(images, labels, partner, weight[:, None, None, None])


def cutmix(
    images: Float[Tensor, "b k y x"],
    labels: Int[Tensor, "b"],
    partner: Int[Tensor, "b"],
    box: Box,
) -> Mixed:
    """A box of one image in another (Yun et al. 2019)."""
    return mix(images, labels, partner, (~inside(box, *images.shape[-2:])).float())


def draw(
    count: int, generator: torch.Generator, low: float = 0.0, high: float = 1.0
) -> Float[Tensor, "count"]:
    """Numbers uniform in low … high, on the generator's device."""
    return low + (high - low) * torch.rand(count, generator=generator, device=generator.device)


def draw_aspect(count: int, generator: torch.Generator, most: float) -> Float[Tensor, "count"]:
    """Heights over widths, between `most` and its inverse, tall as often as wide."""
    return (draw(count, generator, -1.0, 1.0) * math.log(most)).exp()


def draw_box(
    share: Float[Tensor, "b"],
    aspect: Float[Tensor, "b"],
    y: int,
    x: int,
    generator: torch.Generator,
) -> Box:
    """Boxes with this share of the area of y × x pixels, anywhere inside, each place as likely.

    `aspect` is height over width relative to the image's own, and gives way where a box would
    not fit. The share is met up to rounding: half a pixel of width. Unlike the published code of
    cutmix, which cuts boxes off at the border, a box is never smaller than asked.
    """
    height = ((share * aspect).sqrt() * y).round()
    height = height.maximum((share * y).ceil()).clamp(1, y)  # or it would be wider than x
    width = (share * (x * y) / height).round().clamp(max=x)
    b = len(share)
    top = (draw(b, generator) * (y - height + 1)).floor().minimum(y - height)
    left = (draw(b, generator) * (x - width + 1)).floor().minimum(x - width)
    return Box(top, left, height, width)


def draw_beta(count: int, alpha: float, generator: torch.Generator) -> Float[Tensor, "count"]:
    """Numbers from Beta(α, α), without rejection: shapes must not depend on luck.

    If T has Student's distribution with 2α degrees of freedom, ½ + ½ T / √(2α + T²) has this
    one, and T = cos(2πu) √(2α (v^(−1/α) − 1)) for uniform u and v (Bailey 1994).
    """
    cosine = (2 * math.pi * draw(count, generator)).cos()
    power = draw(count, generator) ** (1 / alpha)
    square = cosine.square() * (1 - power)
    return 0.5 + 0.5 * cosine.sign() * (square / (power + square)).sqrt()
