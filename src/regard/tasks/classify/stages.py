"""What tokens read of their windows, in a model of stages: maps on a grid for each stage.

No rollout here: stages have grids of their own, and between windows it is channels that speak,
whose maps have no places.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionRecord, watch
from regard.inspection.maps import ENTRIES, evaluating, to_host
from regard.models.davit import DaViT, Grid

WORDS = (
    "What tokens read of each token of their window, by window block and head, as a mean over all "
    "tokens. Between windows channels are read instead, and those maps have no places. Maps are "
    "recomputed from the queries and keys of this very pass."
)


def window_maps(
    model: DaViT, images: Float[Tensor, "b k y x"]
) -> list[Float[np.ndarray, "b pairs heads rows columns"]]:
    """For each stage how much its tokens were read, in every head of every window block.

    A map sums to 1, and the part of a window is the share of tokens in it.
    """
    if not len(images):
        raise ValueError("there are 0 images to look at; maps need at least 1")
    config, device = model.config, next(model.parameters()).device
    first = (images.shape[-2] // config.patch_size, images.shape[-1] // config.patch_size)
    grids: list[Grid] = [(first[0] >> at, first[1] >> at) for at in range(len(config.widths))]
    largest = max(h * (y * x) ** 2 for h, (y, x) in zip(config.heads, grids, strict=True))
    names = [name for at in range(len(grids)) for name in window_layers(model, at)]
    found: list[list[np.ndarray]] = [[] for _ in grids]
    with evaluating(model), torch.no_grad():
        for part in images.split(max(1, ENTRIES // largest)):
            with watch(model, *names) as seen:
                model(part.to(device))
            for at, grid in enumerate(grids):
                layers = [read_of_each(seen[name]) for name in window_layers(model, at)]
                found[at].append(to_host(torch.stack(layers, 1), grid))
    return [np.concatenate(parts) for parts in found]


def window_layers(model: DaViT, stage: int) -> list[str]:
    """The names of a stage's layers that read windows: those of every other block."""
    return [f"stages.{stage}.blocks.{2 * at}.attention" for at in range(model.config.depths[stage])]


def read_of_each(layer: AttentionRecord) -> Float[Tensor, "b h n"]:
    return layer.weights().mean(-2)
