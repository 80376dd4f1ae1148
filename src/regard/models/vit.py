"""A vision transformer: an image is a grid of patches, and patches read one another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Mask, PositionalEncoding, learned_2d, rope_2d, sinusoidal_2d
from regard.attention.multi_head import Attention, check_fits
from regard.models.block import Block, last_norm, make_blocks
from regard.models.config import ViTConfig
from regard.models.layers import ConvStem, PatchEmbed, check_images, init_weights, make_head
from regard.models.sizes import expect_room


class ViT(nn.Module):
    """Images in, one score a class out.

    The class token, if there is one, comes last: its position, rows · columns, follows those of
    the patches, so that all positions are one range.
    """

    def __init__(self, config: ViTConfig, *, attention: Attention | None = None) -> None:
        super().__init__()
        expect_room(config)
        self.config = config
        self.patches = _stem(config)
        self.class_token = nn.Parameter(torch.zeros(config.width)) if config.pool == "cls" else None
        self.pos_embed = _place(config)
        self.mask = None if config.mask is None else Mask.parse(config.mask)
        for grid in set() if self.mask is None else self.mask.grids() - {config.grid}:
            raise ValueError(
                f"mask={config.mask!r} speaks of a grid of {grid[0]} × {grid[1]}, and image_size="
                f"{config.image_size} in patches of patch_size={config.patch_size} is one of "
                f"{config.grid[0]} × {config.grid[1]}"
            )
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = make_blocks(config, attention=attention)
        for block in self.blocks:
            assert isinstance(block, Block)
            check_fits(block.attention.attention, self.mask)
        self.norm = last_norm(config)
        self.head = make_head(config.width, config.head_hidden, config.num_classes)
        init_weights(self, config.init, config.layers)
        if self.class_token is not None:
            nn.init.normal_(self.class_token, std=0.02)

    def forward(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b classes"]:
        return self.head(self.pool(self.features(images)))

    def features(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b n c"]:
        """Every token after the last block: the patches row by row, then the class token."""
        config, p = self.config, self.config.patch_size
        check_images(images, config.channels)
        x = self.patches(images)
        grid = (images.shape[-2] // p, images.shape[-1] // p)
        if self.class_token is not None:
            x = torch.cat([x, self.class_token.expand(len(x), 1, -1)], 1)
        positions = range(x.shape[1])

        place, mask = self.pos_embed, self.mask
        if grid != config.grid:  # an image of another size: the same schemes on its own grid
            place = place.resize(grid)
            mask = None if mask is None else mask.at(grid)
        x = self.dropout(place.embed(x, positions))
        for block in self.blocks:
            x = block(x, positions=positions, place=place, mask=mask)
        return self.norm(x)

    def pool(self, tokens: Float[Tensor, "b n c"]) -> Float[Tensor, "b c"]:
        """The one vector that stands for the image."""
        return tokens.mean(1) if self.class_token is None else tokens[:, -1]


def _stem(config: ViTConfig) -> nn.Module:
    sizes = (config.patch_size, config.channels, config.width)
    if config.stem == "conv":
        return ConvStem(*sizes, eps=config.norm_eps)
    return PatchEmbed(*sizes, normalise=config.patch_norm, eps=config.norm_eps)


def _place(config: ViTConfig) -> PositionalEncoding:
    extra = 1 if config.pool == "cls" else 0
    schemes: dict[str, Callable[[], PositionalEncoding]] = {
        "learned": partial(learned_2d, config.grid, config.width, extra=extra),
        "sinusoidal": partial(sinusoidal_2d, config.grid, config.width),
        "rope": partial(rope_2d, config.grid),
        "none": PositionalEncoding,
    }
    return schemes[config.pos_embed]()
