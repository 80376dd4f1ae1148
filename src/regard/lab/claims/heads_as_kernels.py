"""Heads are kernels of a convolution only if their maps are fixed and the same at every place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import (
    MultiHeadAttention,
    PositionalEncoding,
    Positions,
    relative_bias,
    window,
)
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most
from regard.lab.figures import bars
from regard.lab.oracles import relative
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-10
SEQUENCES = 64


def measure(
    heads: int = 3, head_width: int = 2, reach: int = 1, tokens: int = 16, seed: int = 0
) -> Evidence:
    """Layers whose maps know offsets alone, beside Conv1d; then maps that know more.

    Args:
        heads: heads of the layer; two or more.
        head_width: numbers that each head reads of a token.
        reach: how far a head reads to either side; kernels are 2 · reach + 1 long.
        tokens: tokens of a sequence.
        seed: where the random numbers start.
    """
    enough(head_width=(head_width, 1), tokens=(tokens, 3))
    draw = torch.Generator().manual_seed(seed)
    width = heads * head_width

    def made(place: PositionalEncoding) -> MultiHeadAttention:
        """A layer with random weights, in which all keys score the same but for the place."""
        layer = MultiHeadAttention(
            width, heads, pos_embed=place, mask=window(reach + 1), bias=False
        )
        layer = layer.double().requires_grad_(False)
        for parameter in layer.parameters():
            parameter.normal_(generator=draw)
        layer.to_q.weight.zero_()
        return layer

    x = torch.randn(SEQUENCES, tokens, width, generator=draw, dtype=torch.float64)
    offsets = relative_bias(heads, reach)
    layer = made(offsets)
    taps = offsets.table.softmax(-1).flip(-1)  # the bias is told by q − k, a kernel by k − q
    to_v = layer.to_v.weight.unflatten(0, (heads, -1))  # h d c
    to_out = layer.to_out.weight.unflatten(1, (heads, -1))  # c h d
    kernel = torch.einsum("ohd,hdi,hk->oik", to_out, to_v, taps)
    full, full_read = conv(x, kernel), inner(layer(x), reach)
    mirrored = conv(x, kernel.flip(-1))
    shared = conv(x, torch.einsum("ohd,hdi,k->oik", to_out, to_v, taps[0]))

    # Each head reads its own numbers of a token alone, and nothing mixes them afterwards.
    sliced = made(offsets)
    taps = offsets.table.softmax(-1).flip(-1)
    blocks = torch.randn(heads, head_width, head_width, generator=draw, dtype=torch.float64)
    sliced.to_v.weight.copy_(torch.block_diag(*blocks))
    sliced.to_out.weight.copy_(torch.eye(width))
    grouped = torch.einsum("hdi,hk->hdik", blocks, taps).flatten(0, 1)
    own, own_read = conv(x, grouped, heads), inner(sliced(x), reach)

    by_content = made(relative_bias(heads, reach))
    by_content.to_q.weight.normal_(generator=draw)
    by_place = made(EachPlace(heads, tokens))
    differing = [inner(other(x), reach) for other in (by_content, by_place)]
    content, placed = (relative(best(x, read, reach), read) for read in differing)
    errors = {
        "offsets, own slices": relative(own, own_read),
        "offsets, all numbers": relative(full, full_read),
        "maps by place": placed,
        "maps by content": content,
    }
    return Evidence(
        deciding=f"fixed {errors['offsets, all numbers']:.0e}, by content {content:.2f} off",
        inside=(
            at_most("own slices against Conv1d with groups", relative(own, own_read), ROUNDING),
            at_most("full W_V against an ordinary Conv1d", relative(full, full_read), ROUNDING),
        ),
        outside=(
            at_most("maps by content against the best Conv1d", content, ROUNDING),
            at_most("fixed maps, another at each place, against the best Conv1d", placed, ROUNDING),
        ),
        controls=(
            at_most("the kernel mirrored", relative(mirrored, full_read), ROUNDING),
            at_most("one map for all heads", relative(shared, full_read), ROUNDING),
        ),
        series=errors,
    )


class EachPlace(PositionalEncoding):
    """A number for each pair of places: a map that no content changes, and no shift keeps."""

    def __init__(self, heads: int, tokens: int) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(heads, tokens, tokens))

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        return self.table


def conv(x: Tensor, kernel: Tensor, groups: int = 1) -> Tensor:
    """torch's Conv1d where the whole kernel lies within the sequence: b n c in and out."""
    return F.conv1d(x.mT, kernel, groups=groups).mT


def inner(read: Tensor, reach: int) -> Tensor:
    """Without the borders, where a window has fewer keys and softmax makes up for them."""
    return read[:, reach : read.shape[1] - reach]


def best(x: Tensor, read: Tensor, reach: int) -> Tensor:
    """What the ordinary Conv1d that comes nearest to a read gives, by least squares."""
    seen = x.unfold(1, 2 * reach + 1, 1).flatten(2).flatten(0, 1)  # (b n) (c k)
    wanted = read.flatten(0, 1)
    return (seen @ torch.linalg.lstsq(seen, wanted).solution).view_as(read)


def plot(evidence: Evidence) -> Figure:
    return bars(
        {name: max(error, 1e-17) for name, error in evidence.series.items()},
        title="How far a layer of several heads is from a convolution",
        up="difference, relative",
        log=True,
        about="Maps that know the offset alone: the kernel that follows from them. Others: the "
        "best there is.",
    )


def ask(numbers: np.random.Generator) -> Question:
    maps = [(0.25, 0.5, 0.25), (0.5, 0.5, 0.0), (0.0, 0.5, 0.5), (0.2, 0.6, 0.2)]
    first, second = (maps[int(at)] for at in numbers.choice(len(maps), 2, replace=False))
    a, b = int(numbers.integers(1, 6)), -int(numbers.integers(1, 6))
    taps = tuple(float(a * p + b * r) for p, r in zip(first, second, strict=True))
    weights = [", ".join(f"{p:g}" for p in each) for each in (first, second)]
    return Question(
        "Tokens are single numbers. Whatever they are, head 1 gives the token before, the token "
        f"itself and the one after the weights $({weights[0]})$, head 2 $({weights[1]})$; their "
        f"products of $W_O$ and $W_V$ are ${a}$ and ${b}$. Which three taps has the "
        "convolution that both together are? (in the same order)",
        taps,
        why=f"${a}$ times the first map and ${b}$ times the second, added",
    )


CLAIM = Claim(
    id="heads-as-kernels",
    source="B 1.2b",
    statement="The heads of multi-head attention are like several kernels of a convolution.",
    verdict="depends",
    truth="So they are where maps do not depend on the input and are the same at every place: "
    "heads that read slices of their own are a Conv1d with as many groups, with a full $W_V$ an "
    "ordinary one. A map that depends on content is no convolution.",
    measure=measure,
    plot=plot,
    ask=ask,
)
