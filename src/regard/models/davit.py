"""A DaViT: tokens read their window, channels read their group, and the grid halves by stages.

Window attention sees sharply and near; channel attention sees the whole image at once, at a cost
that grows with the number of tokens and not with its square (Ding et al. 2022).
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Mask, MultiHeadAttention, attend_fused
from regard.attention.channel import attend_channels
from regard.attention.masks import grid_windows
from regard.attention.multi_head import Attention
from regard.models.davit_config import DaViTConfig
from regard.models.layers import MLP, DropPath, check_images, init_weights
from regard.models.norm import LayerNorm
from regard.models.sizes import expect_room

Grid = tuple[int, int]


class DaViT(nn.Module):
    """Images in, one score a class out. `attention` is what the windows read with."""

    def __init__(self, config: DaViTConfig, *, attention: Attention = attend_fused) -> None:
        super().__init__()
        expect_room(config)
        self.config = config
        self.stem = Stem(config.channels, config.widths[0], config.patch_size, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.downs = nn.ModuleList(
            Halve(wide, next_wide, overlap=config.overlapping_downsample, eps=config.norm_eps)
            for wide, next_wide in pairwise(config.widths)
        )
        depth, self.stages = 0, nn.ModuleList()
        for width, heads, pairs in zip(config.widths, config.heads, config.depths, strict=True):
            shares = [
                config.drop_path * (depth + at) / max(1, config.layers - 1)
                for at in range(2 * pairs)
            ]
            self.stages.append(Stage(config, width, heads, shares, attention))
            depth += 2 * pairs
        self.norm = LayerNorm(config.widths[-1], eps=config.norm_eps)
        self.head = nn.Linear(config.widths[-1], config.num_classes)
        init_weights(self, config.init, config.layers)

    def forward(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b classes"]:
        return self.head(self.norm(self.features(images).mean(1)))

    def features(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b n c"]:
        """Every token of the last stage, row by row."""
        self.check(images)
        x = self.dropout(self.stem(images))
        grid = (
            images.shape[-2] // self.config.patch_size,
            images.shape[-1] // self.config.patch_size,
        )
        for number, stage in enumerate(self.stages):
            if number:
                x = self.downs[number - 1](x, grid)
                grid = (grid[0] // 2, grid[1] // 2)
            x = stage(x, grid)
        return x

    def check(self, images: Tensor) -> None:
        """Refuse in a sentence what is no batch of images that the stages can halve."""
        config = self.config
        check_images(images, config.channels)
        height, width = images.shape[-2:]
        if height % config.stride or width % config.stride or not height or not width:
            raise ValueError(
                f"an image of {height} × {width} pixels does not divide by {config.stride}, which "
                f"is patch_size={config.patch_size} doubled {len(config.widths) - 1} times"
            )


class Stage(nn.Module):
    """Pairs of blocks on one grid: even ones read windows, odd ones read channels.

    Where the grid does not divide, windows at its lower and right edge are smaller; the paper
    fills them up with zeros, which are then read like tokens. Where it does, both are the same.
    """

    def __init__(
        self,
        config: DaViTConfig,
        width: int,
        heads: int,
        drop_path: list[float],
        attention: Attention,
    ) -> None:
        super().__init__()
        self.window = config.window_size
        self.blocks = nn.ModuleList(
            AroundBlock(
                MultiHeadAttention(
                    width, heads, attention=attend_channels if at % 2 else attention
                ),
                MLP(width, config.mlp_ratio * width),
                width,
                eps=config.norm_eps,
                dropout=config.dropout,
                drop_path=share,
            )
            for at, share in enumerate(drop_path)
        )

    def forward(self, x: Float[Tensor, "b n c"], grid: Grid) -> Float[Tensor, "b n c"]:
        mask = None if self.window >= max(grid) else grid_windows(self.window, grid)
        for at, block in enumerate(self.blocks):
            x = block(x, grid, mask=None if at % 2 else mask)
        return x


class AroundBlock(nn.Module):
    """Read, then think about each token alone; before both, a convolution looks around.

    These depthwise 3 × 3 convolutions are all that says where tokens are: the zeros beyond the
    edge show it, so there are no positions to learn and no one size to learn them for.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: nn.Module,
        width: int,
        *,
        eps: float,
        dropout: float,
        drop_path: float,
    ) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, LayerNorm(width, eps=eps)
        self.mlp, self.mlp_norm = feed_forward, LayerNorm(width, eps=eps)
        around = partial(nn.Conv2d, width, width, 3, padding=1, groups=width)
        self.attention_around, self.mlp_around = around(), around()
        self.dropout, self.drop_path = nn.Dropout(dropout), DropPath(drop_path)

    def forward(
        self, x: Float[Tensor, "b n c"], grid: Grid, *, mask: Mask | None = None
    ) -> Float[Tensor, "b n c"]:
        x = x + on_grid(self.attention_around, x, grid)
        x = x + self.branch(self.attention(self.attention_norm(x), mask=mask))
        x = x + on_grid(self.mlp_around, x, grid)
        return x + self.branch(self.mlp(self.mlp_norm(x)))

    def branch(self, x: Tensor) -> Tensor:
        return self.drop_path(self.dropout(x))


class Stem(nn.Module):
    """Pixels to tokens by one convolution whose squares overlap, then a norm.

    For a patch of 4 it is the paper's: 7 × 7 with a stride of 4. Around a square of 2p − 1 pixels
    lie p − 1 zeros, so that n rows give n / p.
    """

    def __init__(self, channels: int, width: int, patch: int, *, eps: float) -> None:
        super().__init__()
        side = max(3, 2 * patch - 1)  # 3 is the smallest that looks around
        self.project = nn.Conv2d(channels, width, side, patch, padding=side // 2)
        self.norm = LayerNorm(width, eps=eps)

    def forward(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b n c"]:
        return self.norm(self.project(images).flatten(2).mT)


class Halve(nn.Module):
    """From one stage to the next: a norm, then a convolution with a stride of 2.

    The models of the paper join 2 × 2 tokens apart from all others, which is what its counts of
    parameters come out with; with `overlap` it is 3 × 3, as in Florence-2.
    """

    def __init__(self, width: int, next_width: int, *, overlap: bool, eps: float) -> None:
        super().__init__()
        self.norm = LayerNorm(width, eps=eps)
        self.project = nn.Conv2d(width, next_width, 2 + overlap, 2, padding=int(overlap))

    def forward(self, x: Float[Tensor, "b n c"], grid: Grid) -> Float[Tensor, "b m d"]:
        return on_grid(self.project, self.norm(x), grid)


def on_grid(conv: nn.Conv2d, x: Float[Tensor, "b n c"], grid: Grid) -> Float[Tensor, "b m d"]:
    """A convolution over tokens that lie on a grid, row by row."""
    return conv(x.mT.unflatten(-1, grid)).flatten(2).mT  # b n c → b c y x → b m d
