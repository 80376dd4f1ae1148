"""Multi-head attention: split, attend in each head, put the reads side by side, project."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, attend
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most
from regard.lab.figures import bars
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(
    width: int = 24, heads: int = 4, tokens: int = 7, batch: int = 2, seed: int = 0
) -> Evidence:
    """The layer beside torch's own with the same weights, and beside a loop over heads.

    Args:
        width: numbers in a token; the heads split it.
        heads: heads of the layer; two or more, for their order to matter.
        tokens: tokens that read one another.
        batch: sequences at once.
        seed: where the random numbers start.
    """
    enough(width=(width, 1), tokens=(tokens, 1), batch=(batch, 1))
    draw = torch.Generator().manual_seed(seed)
    layer = MultiHeadAttention(width, heads).double().requires_grad_(False)
    for parameter in layer.parameters():  # biases too, which torch would start at 0
        parameter.normal_(0, width**-0.5, generator=draw)
    x = torch.randn(batch, tokens, width, generator=draw, dtype=torch.float64)

    ours = layer(x)
    theirs, maps = torchs(layer)(x, x, x, average_attn_weights=False)
    reads, weights = by_head(layer, x)
    joined, out, d = torch.cat(reads, -1), layer.to_out, width // heads
    pieces = [F.linear(read, out.weight[:, h * d : (h + 1) * d]) for h, read in enumerate(reads)]
    same = {
        "torch's own layer": theirs,
        "a loop over heads": out(joined),
        "heads projected, then added": torch.stack(pieces).sum(0) + out.bias,
    }
    other = {
        "heads in reverse": out(torch.cat(reads[::-1], -1)),
        "heads interleaved": out(torch.stack(reads, -1).flatten(-2)),
        "not projected": joined,
    }
    errors = {name: float((way - ours).abs().max()) for name, way in (same | other).items()}
    of_torch = errors["torch's own layer"]
    return Evidence(
        deciding=f"difference from torch's own layer {of_torch:.1e}",
        written=(
            *(at_most(f"{name}: largest difference", errors[name], ROUNDING) for name in same),
            at_most(
                "maps of the heads, against torch's own: largest difference",
                float((torch.stack(weights, 1) - maps).abs().max()),
                ROUNDING,
            ),
        ),
        controls=tuple(
            at_most(f"{name}: largest difference", errors[name], ROUNDING) for name in other
        ),
        series=errors,
    )


def by_head(layer: MultiHeadAttention, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """What each head reads, and its map: a head is a band of rows of the three projections."""
    reads, maps = [], []
    for band in range(layer.heads):
        rows = slice(band * layer.head_width, (band + 1) * layer.head_width)
        q, k, v = (
            F.linear(x, to.weight[rows], to.bias[rows])
            for to in (layer.to_q, layer.to_k, layer.to_v)
        )
        read, weights = attend(q, k, v)
        reads.append(read)
        maps.append(weights)
    return reads, maps


def torchs(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch's own layer with the same weights."""
    projections = (layer.to_q, layer.to_k, layer.to_v)
    theirs = nn.MultiheadAttention(
        layer.to_out.out_features, layer.heads, batch_first=True, dtype=torch.float64
    )
    theirs.load_state_dict(
        {
            "in_proj_weight": torch.cat([to.weight for to in projections]),
            "in_proj_bias": torch.cat([to.bias for to in projections]),
            "out_proj.weight": layer.to_out.weight,
            "out_proj.bias": layer.to_out.bias,
        }
    )
    return theirs.eval().requires_grad_(False)


def plot(evidence: Evidence) -> Figure:
    short = {
        "torch's own layer": "torch's layer",
        "a loop over heads": "loop over heads",
        "heads projected, then added": "projected, added",
    }
    return bars(
        {short.get(name, name): max(error, 1e-17) for name, error in evidence.series.items()},
        title="Other ways to compute the layer, and how far they are from it",
        up="largest difference",
        log=True,
        about="The first three are the same sum. The others join the heads in another way.",
    )


def ask(numbers: np.random.Generator) -> Question:
    heads, d = int(numbers.choice([2, 3, 4, 8, 12])), int(numbers.choice([8, 16, 32, 64]))
    width, tokens = heads * d, int(numbers.integers(5, 20))
    return Question(
        f"${tokens}$ tokens of width ${width}$ are read by ${heads}$ heads that split the width. "
        "How wide is the read of one head, how wide are all of them side by side, and how many "
        "weights has $W^O$, without biases? (three numbers, in this order)",
        (float(d), float(width), float(width**2)),
        tolerance=0.0,
        why=f"${width} / {heads}$, then ${heads} \\cdot {d}$, then ${width}^2$",
    )


CLAIM = Claim(
    id="multihead-concat",
    source="B 1.2a and D",
    statement="In multi-head attention the heads are split, attended, concatenated, and projected "
    "by $W^O$.",
    verdict="holds",
    truth="This is what torch's own layer computes too. It is the same to project the read of each "
    "head by its own columns of $W^O$ and to add the results: $\\sum_i W^O_i h_i$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
