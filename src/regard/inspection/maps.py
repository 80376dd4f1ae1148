"""How much of each patch an image model read on its way to the answer, layer by layer.

    maps = image_maps(model, images)
    maps.heads[0, -1, 2]    the last layer's third head, on the grid of image 0's patches
    maps.rollout[0]         all layers multiplied
    image_maps(model, images, patch=5)      the same for what the sixth patch read

The model runs as it always does, watched. Maps are shares of 1, on the host, as numpy arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import watch
from regard.models.vit import ViT

ENTRIES = 1 << 25  # of the maps, or of what is watched, in memory at once: 128 MB in float32


@dataclass(frozen=True)
class ImageMaps:
    """What the answer read of each patch, in every head of every layer, and in all together.

    The answer is read off the class token, and then these are its weights; what it read of
    itself is left out and not made up for, so a map sums to less than 1. With mean pooling every
    patch answers alike, and these are the mean of their weights.
    """

    heads: Float[np.ndarray, "b layers heads rows columns"]
    rollout: Float[np.ndarray, "b rows columns"]

    @property
    def layer_count(self) -> int:
        """Layers of attention in the model."""
        return self.heads.shape[1]

    @property
    def head_count(self) -> int:
        """Heads in each layer."""
        return self.heads.shape[2]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.heads.shape[3], self.heads.shape[4]


def image_maps(
    model: ViT, images: Float[Tensor, "b k y x"], *, patch: int | None = None
) -> ImageMaps:
    """Maps of each image, of any size the model can read.

    With `patch`, which counts along the rows of the grid from 0, they are of what that patch read
    instead of the answer. The model is left as it was: in training mode if it was in it, without
    gradients, unwatched.
    """
    if not len(images):
        raise ValueError("there are 0 images to look at; maps need at least 1")
    device = next(model.parameters()).device
    grid = (
        images.shape[-2] // model.config.patch_size,
        images.shape[-1] // model.config.patch_size,
    )
    count = grid[0] * grid[1]
    if patch is not None and not 0 <= patch < count:
        raise ValueError(f"patch={patch}: the image has {count}, from 0 to {count - 1}")
    rows = answer_rows(model) if patch is None else [patch]
    heads, rollout = [], []
    with evaluating(model), torch.no_grad():
        for part in images.split(images_at_once(model, grid)):
            with watch(model) as seen:
                model(part.to(device))
            layers = [layer.weights(rows=rows) for layer in seen.values()]
            through = seen.rollout() if rows is None else seen.rollout()[..., rows, :]
            heads.append(to_host(torch.stack([mean(each, count) for each in layers], 1), grid))
            rollout.append(to_host(mean(through, count), grid))
    return ImageMaps(np.concatenate(heads), np.concatenate(rollout))


def answer_rows(model: ViT) -> list[int] | None:
    """The rows of a map that the answer is read off: the class token's, which is last, or all."""
    return None if model.class_token is None else [-1]


def mean(weights: Float[Tensor, "*b n m"], patches: int) -> Float[Tensor, "*b p"]:
    """What some rows read of each patch; a class token stands after the patches."""
    return weights[..., :patches].mean(-2)


def to_host(maps: Float[Tensor, "*b p"], grid: tuple[int, int]) -> Float[np.ndarray, "*b y x"]:
    """The same on the grid of patches, in numbers that numpy has."""
    wide = torch.promote_types(maps.dtype, torch.float32)
    return maps.to("cpu", wide).unflatten(-1, grid).numpy()


def images_at_once(model: ViT, grid: tuple[int, int]) -> int:
    """How many images keep both a layer's whole map and all that is watched within bounds."""
    config, n = model.config, grid[0] * grid[1] + 1
    a_map = config.heads * n * n
    watched = 4 * config.layers * n * config.width  # q, k, v and the read
    return max(1, ENTRIES // max(a_map, watched))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """In eval mode, and after it every module in the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
