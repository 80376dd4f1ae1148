"""The small parts of a transformer beside attention: feed-forward, embeddings, first weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.models.norm import LayerNorm

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "swiglu": F.silu,
}
GATED = {"swiglu"}
NORMS: dict[str, Callable[..., nn.Module]] = {"layernorm": LayerNorm, "rmsnorm": nn.RMSNorm}


class MLP(nn.Module):
    """Two linear layers with a non-linearity between, on each token alone.

    A gated one multiplies the activated hidden layer by a second, linear one (Shazeer 2020).
    """

    def __init__(
        self, width: int, mlp_width: int, activation: str = "gelu", *, bias: bool = True
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.fc1 = nn.Linear(width, mlp_width, bias=bias)
        self.gate = nn.Linear(width, mlp_width, bias=bias) if activation in GATED else None
        self.fc2 = nn.Linear(mlp_width, width, bias=bias)

    def forward(self, x: Float[Tensor, "*b n c"]) -> Float[Tensor, "*b n c"]:
        hidden = self.activation(self.fc1(x))
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        return self.fc2(hidden)


class DropPath(nn.Module):
    """In training, skip the whole branch for some samples and scale the others up to match."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.drop_prob = share

    def forward(self, x: Float[Tensor, "b ..."]) -> Float[Tensor, "b ..."]:
        if not self.training or self.drop_prob == 0:
            return x
        kept = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) >= self.drop_prob
        return x * kept.to(x.dtype) / (1 - self.drop_prob)


class PatchEmbed(nn.Module):
    """Cut an image into patches, row by row, and project each to the model's width.

    With `normalise`, each patch first passes a LayerNorm of its own: a token then says what
    its pixels do around their mean, not how bright the light was.
    """

    def __init__(
        self,
        patch: int,
        channels: int,
        width: int,
        *,
        normalise: bool = False,
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.patch_size, pixels = patch, channels * patch * patch
        self.norm = LayerNorm(pixels, eps=eps) if normalise else nn.Identity()
        self.project = nn.Linear(pixels, width)

    def forward(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b n c"]:
        p = self.patch_size
        _check_splits(images, p)
        cut = images.unflatten(-1, (-1, p)).unflatten(-3, (-1, p))  # b k rows p columns p
        pixels = cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # b n (k p p)
        return self.project(self.norm(pixels))


class ConvStem(nn.Module):
    """Two convolutions that end on the same grid as patches would, row by row.

    Cut patches cannot share an edge, and one matrix cannot bend: two overlapping convolutions
    with a non-linearity between give tokens that already know edges (Xiao et al. 2021). Two are
    the fewest that can; all other reading across the image is left to attention.
    """

    def __init__(self, patch: int, channels: int, width: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.patch_size = patch
        # Most pixels are dropped early, where channels are few: a stride of 2 if the patch has
        # one to give. The second stride completes the patch, and is 1 for a patch of 2 or 1.
        first = 2 if patch % 2 == 0 else 1
        between = max(1, width // 2)
        self.conv = _conv(channels, between, first)
        # Not a BatchNorm, through which an image would change with its neighbours in the batch;
        # and over the channels of each place alone, so that a token still sees its place alone.
        self.norm = LayerNorm(between, eps=eps)
        self.project = _conv(between, width, patch // first)

    def forward(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b n c"]:
        _check_splits(images, self.patch_size)
        seen = self.conv(images).movedim(1, -1)  # b y x c, where the norm wants the channels
        hidden = F.gelu(self.norm(seen)).movedim(-1, 1)
        return self.project(hidden).flatten(2).mT


def make_head(width: int, hidden: Sequence[int], classes: int) -> nn.Module:
    """From one vector to the scores of the classes: linear layers with GELU between."""
    if not hidden:
        return nn.Linear(width, classes)
    layers: list[nn.Module] = []
    for wide, next_wide in pairwise((width, *hidden)):
        layers += [nn.Linear(wide, next_wide), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(hidden[-1], classes))


class TokenEmbedding(nn.Embedding):
    """One vector a word; 2017 scales them by √width, so that positions do not drown them."""

    def __init__(self, words: int, width: int, *, scaled: bool = False) -> None:
        super().__init__(words, width)
        self.scale = math.sqrt(width) if scaled else 1.0

    def forward(self, words: Int[Tensor, "*b n"]) -> Float[Tensor, "*b n c"]:
        return super().forward(words) * self.scale


def init_weights(
    model: nn.Module, how: Literal["trunc_normal", "xavier_uniform"], layers: int
) -> None:
    """Give every linear layer, convolution and embedding its first weights.

    "xavier_uniform" draws linear weights from Xavier's uniform, and embeddings with variance
    1 / width. "trunc_normal" draws all from a normal of 0.02 cut at two deviations, and shrinks
    what is added to the residual stream by √(2 · layers), so that depth does not change its size
    at the start.
    """
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            if how == "xavier_uniform":
                nn.init.xavier_uniform_(module.weight)
            else:
                residual = name.endswith(("to_out", "fc2"))
                std = 0.02 / math.sqrt(2 * layers) if residual else 0.02
                nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            std = module.embedding_dim**-0.5 if how == "xavier_uniform" else 0.02
            nn.init.normal_(module.weight, std=std)


def check_images(images: Tensor, channels: int) -> None:
    """Refuse in a sentence what is no batch of images with so many channels."""
    if images.ndim != 4:
        raise ValueError(
            f"images have {images.ndim} axes, {tuple(images.shape)}; a batch has 4: "
            "(images, channels, height, width)"
        )
    if not images.is_floating_point():
        raise TypeError(f"images hold {images.dtype}; a model reads numbers, often 0 … 1")
    if images.shape[-3] != channels:
        raise ValueError(f"images have {images.shape[-3]} channels and the model reads {channels}")


def _check_splits(images: Tensor, patch: int) -> None:
    height, width = images.shape[-2:]
    if height % patch or width % patch or not height or not width:
        raise ValueError(
            f"an image of {height} × {width} pixels does not split into patches of "
            f"{patch} × {patch}"
        )


def _conv(inside: int, outside: int, stride: int) -> nn.Conv2d:
    """A convolution that divides the image's sides by `stride` exactly, and skips no pixel.

    A kernel one wider than its stride overlaps the next by a pixel; 3 is the smallest that looks
    around. With one row of zeros around, n rows give ⌊(n + 2 − kernel) / stride⌋ + 1 = n / stride.
    """
    return nn.Conv2d(inside, outside, max(3, stride + 1), stride, padding=1)
