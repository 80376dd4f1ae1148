"""The shapes of a 12-head layer, read off a layer that runs, in both orders of its axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention, trace_shapes, watch
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most, equal
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np

ROUNDING = 1e-12


def measure(
    batch: int = 1, tokens: int = 5, width: int = 768, heads: int = 12, seed: int = 0
) -> Evidence:
    """Trace a layer, and compare its map with the one of torch's own layer of the same weights.

    Args:
        batch: sequences.
        tokens: tokens in each; at least two.
        width: numbers in a token; a multiple of the heads.
        heads: heads that share the width.
        seed: where the random numbers start.
    """
    enough(batch=(batch, 1), tokens=(tokens, 1))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(width, heads).double()
        x = torch.randn(batch, tokens, width, dtype=torch.float64)
    steps = {step.name: step.shape for step in trace_shapes(layer, x, show=False)}
    d = width // heads
    published = {
        "tokens": (batch, tokens, width),
        "q per head": (batch, tokens, heads, d),
        "k and v per head": (batch, tokens, heads, d),
        "map = softmax(β q kᵀ)": (batch, heads, tokens, tokens),
        "z per head, tokens first": (batch, tokens, heads, d),
        "z, heads side by side": (batch, tokens, width),
    }
    # The library keeps the heads first, which is the document's order with two axes exchanged.
    kept = {
        "q, heads first": (batch, heads, tokens, d),
        "z per head = map · v": (batch, heads, tokens, d),
    }
    with torch.no_grad(), watch(layer) as seen:
        layer(x)
        (found,) = (each.weights() for each in seen.values())
        q, k = layer.to_q(x), layer.to_k(x)
        theirs = map_of_torch(layer, x)
        by_document = map_of(q.unflatten(-1, (heads, d)), k.unflatten(-1, (heads, d)))
        # The right shape by the wrong way: cut into heads before tokens, with no exchange.
        jumbled = [each.reshape(batch, heads, tokens, d).transpose(1, 2) for each in (q, k)]
        by_jumble = map_of(*jumbled)
    right = sum(steps.get(name) == shape for name, shape in published.items())
    return Evidence(
        deciding=f"{right} of {len(published)} shapes; map {list(found.shape)}",
        written=(
            equal("shapes that are as published", right, len(published)),
            equal(
                "shapes with the heads first, as the library keeps them",
                sum(steps.get(name) == shape for name, shape in kept.items()),
                len(kept),
            ),
            at_most("the map by the document's axes: off by", far(by_document, found), ROUNDING),
            at_most("torch's map with the same weights: off by", far(theirs, found), ROUNDING),
        ),
        controls=(
            at_most(
                "a map of this shape, but reshaped without the exchange: off by",
                far(by_jumble, found),
                ROUNDING,
            ),
        ),
        series={"steps": {name: list(shape) for name, shape in steps.items()}},
    )


def map_of(q: Tensor, k: Tensor) -> Tensor:
    """The map from b n h d, by hand."""
    return (torch.einsum("bnhd,bmhd->bhnm", q, k) / q.shape[-1] ** 0.5).softmax(-1)


def map_of_torch(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    theirs = nn.MultiheadAttention(x.shape[-1], layer.heads, batch_first=True).double()
    parts = layer.to_q, layer.to_k, layer.to_v
    theirs.in_proj_weight.copy_(torch.cat([each.weight for each in parts]))
    theirs.in_proj_bias.copy_(torch.cat([each.bias for each in parts]))
    _, weights = theirs(x, x, x, need_weights=True, average_attn_weights=False)
    assert weights is not None
    return weights


def far(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max()) if a.shape == b.shape else float("inf")


def ask(numbers: np.random.Generator) -> Question:
    heads = int(numbers.choice([2, 4, 6, 8, 12, 16]))
    width = heads * int(numbers.choice([16, 32, 64]))
    batch, tokens = int(numbers.integers(1, 9)), int(numbers.integers(4, 20))
    return Question(
        f"${batch}$ sequences of ${tokens}$ tokens, ${width}$ wide, pass a layer of ${heads}$ "
        "heads. How wide is one head, and how many attention weights are there in all? (two "
        "numbers, in this order)",
        (float(width // heads), float(batch * heads * tokens**2)),
        tolerance=0.0,
        why=f"${width} / {heads}$, and ${batch} \\cdot {heads} \\cdot {tokens}^2$",
    )


CLAIM = Claim(
    id="shapes-multihead",
    source="A 3",
    statement="With 12 heads, tokens are $[1, 5, 768]$, queries, keys and values per head "
    "$[1, 5, 12, 64]$, the map $[1, 12, 5, 5]$, what each head reads $[1, 5, 12, 64]$, and all "
    "heads side by side $[1, 5, 768]$.",
    verdict="holds",
    truth="The width is cut into heads and put together again, and each head has a map of its "
    "own. Most code keeps the heads before the tokens, $[1, 12, 5, 64]$: the same numbers with two "
    "axes exchanged, not merely reshaped.",
    measure=measure,
    ask=ask,
)
