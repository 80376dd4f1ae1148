"""Whether a model has maps of places to show: where channels read channels, it has none.

A map between channels has the shape of one between tokens when a text has as many tokens as a head
is wide. So it is told by its kind, and never by its shape.
"""

from __future__ import annotations

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.channel import ChannelAttention, ChannelCall
from regard.attention.watch import Watch
from regard.errors import UserError

CHANNEL_WORDS = "In this model channels read channels, and there is no map of places to show."


def has_places(model: nn.Module) -> bool:
    """Whether tokens read tokens anywhere in it; a map between channels has no places."""
    layers = [layer for layer in model.modules() if isinstance(layer, MultiHeadAttention)]
    return not all(isinstance(layer.attention, ChannelAttention) for layer in layers)


def expect_places(path: Path, model: nn.Module) -> None:
    """Refuse to draw maps that a model does not have."""
    if not has_places(model):
        raise UserError(f"{path}: {CHANNEL_WORDS[0].lower()}{CHANNEL_WORDS[1:-1]}")


def token_maps(seen: Watch) -> Float[Tensor, "b layers h n m"]:
    """The maps of all layers that were watched, if all are between tokens."""
    check_tokens(seen)
    return torch.stack([layer.weights() for layer in seen.values()], 1)


def check_tokens(seen: Watch) -> None:
    """Refuse a layer whose map is between channels, whatever its shape is."""
    for name, layer in seen.items():
        if isinstance(layer.call, ChannelCall):
            d, n = layer.call.q.shape[-1], layer.call.q.shape[-2]
            raise ValueError(
                f"in {name} channels read channels: its maps are of {d} × {d} channels, and there "
                f"is none of its {n} tokens"
            )
