"""The small parts of a transformer beside attention: feed-forward, embeddings, first weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "swiglu": F.silu,
}
GATED = {"swiglu"}
NORMS: dict[str, Callable[..., nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


class FeedForward(nn.Module):
    """Two linear layers with a non-linearity between, on each token alone.

    A gated one multiplies the activated hidden layer by a second, linear one (Shazeer 2020).
    """

    def __init__(
        self, width: int, hidden: int, activation: str = "gelu", *, bias: bool = True
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.to_hidden = nn.Linear(width, hidden, bias=bias)
        self.to_gate = nn.Linear(width, hidden, bias=bias) if activation in GATED else None
        self.to_out = nn.Linear(hidden, width, bias=bias)

    def forward(self, x: Float[Tensor, "*b n c"]) -> Float[Tensor, "*b n c"]:
        hidden = self.activation(self.to_hidden(x))
        if self.to_gate is not None:
            hidden = hidden * self.to_gate(x)
        return self.to_out(hidden)


class StochasticDepth(nn.Module):
    """In training, skip the whole branch for some samples and scale the others up to match."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Float[Tensor, "b ..."]) -> Float[Tensor, "b ..."]:
        if not self.training or self.share == 0:
            return x
        kept = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) >= self.share
        return x * kept.to(x.dtype) / (1 - self.share)


class PatchEmbed(nn.Module):
    """Cut an image into patches, row by row, and project each to the model's width."""

    def __init__(self, patch: int, channels: int, width: int) -> None:
        super().__init__()
        self.patch = patch
        self.project = nn.Linear(channels * patch * patch, width)

    def forward(self, images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b n c"]:
        p = self.patch
        height, width = images.shape[-2:]
        if height % p or width % p or not height or not width:
            raise ValueError(
                f"an image of {height} × {width} pixels does not split into patches of {p} × {p}"
            )
        cut = images.unflatten(-1, (-1, p)).unflatten(-3, (-1, p))  # b k rows p columns p
        return self.project(cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2))


class TokenEmbed(nn.Module):
    """One vector a word; 2017 scales them by √width, so that positions do not drown them."""

    def __init__(self, words: int, width: int, *, scaled: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.scale = math.sqrt(width) if scaled else 1.0

    def forward(self, words: Int[Tensor, "*b n"]) -> Float[Tensor, "*b n c"]:
        return self.table(words) * self.scale


def initialise(model: nn.Module, how: Literal["modern", "2017"], layers: int) -> None:
    """Give every linear layer and embedding its first weights.

    "2017" draws linear weights from Xavier's uniform and embeddings with variance 1 / width.
    "modern" draws all from a normal of 0.02 cut at two deviations, and shrinks what is added to
    the residual stream by √(2 · layers), so that depth does not change its size at the start.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            if how == "2017":
                nn.init.xavier_uniform_(module.weight)
            else:
                residual = name.endswith("to_out")
                std = 0.02 / math.sqrt(2 * layers) if residual else 0.02
                nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            std = module.embedding_dim**-0.5 if how == "2017" else 0.02
            nn.init.normal_(module.weight, std=std)
