"""What attention learns and what it computes, in numbers, beside a dense layer for all tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from regard.attention import MultiHeadAttention, watch
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, equal
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure


def measure(tokens: int = 6, width: int = 8, heads: int = 4) -> Evidence:
    """Numbers counted in a layer of the library, in torch's own, and in one dense layer.

    Args:
        tokens: tokens that read one another, N; at least 2.
        width: numbers in a token, D; at least 2.
        heads: heads among which the width is split, H; at least 2.
    """
    for name, value in (("tokens", tokens), ("width", width), ("heads", heads)):
        if value < 2:
            raise UserError(f"{name}={value}: at least 2, or different counts come out the same")
    n, d, h = tokens, width, heads
    layer, single = MultiHeadAttention(d, h), MultiHeadAttention(d, 1)
    theirs = nn.MultiheadAttention(d, h)
    dense = nn.Linear(n * d, n * d)
    weights, biases = count(layer.to_q, layer.to_k, layer.to_v)
    of_dense = count(dense)
    return Evidence(
        deciding=f"{biases} biases, not 3; dense: {of_dense[1]}, not {n * n}",
        written=(
            equal("weights of q, k and v: 3D²", weights, 3 * d * d),
            equal("biases of q, k and v: 3", biases, 3),
            equal("attention weights, one head: N²", weights_read(single, n), n * n),
            equal("weights of a dense layer: D²N²", of_dense[0], d * d * n * n),
            equal("biases of a dense layer: N²", of_dense[1], n * n),
        ),
        corrected=(
            equal("weights of q, k and v: 3D²", weights, 3 * d * d),
            equal("biases of q, k and v: 3D", biases, 3 * d),
            equal("weights in torch's own layer: 3D²", theirs.in_proj_weight.numel(), 3 * d * d),
            equal("biases in torch's own layer: 3D", theirs.in_proj_bias.numel(), 3 * d),
            equal(f"attention weights, {h} heads: HN²", weights_read(layer, n), h * n * n),
            equal("weights of a dense layer: D²N²", of_dense[0], d * d * n * n),
            equal("biases of a dense layer: DN", of_dense[1], d * n),
        ),
        controls=(
            equal(
                "keys and values shared by all heads: 3D²",
                count(*projections(MultiHeadAttention(d, h, kv_heads=1)))[0],
                3 * d * d,
            ),
            equal(
                "no biases: 3D", count(*projections(MultiHeadAttention(d, h, bias=False)))[1], 3 * d
            ),
            equal(
                "a dense layer for each token alone: D²N²", count(nn.Linear(d, d))[0], d * d * n * n
            ),
        ),
        series=growth(d),
    )


def count(*layers: nn.Linear) -> tuple[int, int]:
    """Weights and biases of linear layers."""
    biases = [layer.bias for layer in layers]
    return (
        sum(layer.weight.numel() for layer in layers),
        sum(0 if bias is None else bias.numel() for bias in biases),
    )


def projections(layer: MultiHeadAttention) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    return layer.to_q, layer.to_k, layer.to_v


def weights_read(layer: MultiHeadAttention, tokens: int) -> int:
    """Numbers in the maps of a layer that reads so many tokens."""
    with torch.no_grad(), watch(layer) as watching:
        layer(torch.zeros(tokens, layer.to_q.in_features))
    (seen,) = watching.values()
    return seen.weights().numel()


def growth(width: int) -> dict[str, list[float]]:
    """What real layers have, for more and more tokens; torch's meta device holds no numbers."""
    sizes = [2**i for i in range(1, 10)]
    attention = MultiHeadAttention(width, 1)
    dense = [nn.Linear(n * width, n * width, device="meta") for n in sizes]
    return {
        "tokens": [float(n) for n in sizes],
        "q, k and v": [float(sum(count(*projections(attention)))) for _ in sizes],
        "one map of attention weights": [float(n * n) for n in sizes],
        "a dense layer": [float(sum(count(layer))) for layer in dense],
    }


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    names = ("a dense layer", "one map of attention weights", "q, k and v")
    return lines(
        found["tokens"],
        {name: found[name] for name in names},
        title="Numbers in attention, and in a dense layer for all tokens",
        across="tokens",
        up="numbers",
        log="xy",
        about="What q, k and v learn does not grow with the tokens. A map is computed.",
    )


def ask(numbers: np.random.Generator) -> Question:
    n, d = int(numbers.integers(3, 20)), int(numbers.integers(2, 9)) * 8
    return Question(
        f"${n}$ tokens have ${d}$ numbers each. How many biases do the queries, keys and values of "
        "self-attention have together, and how many does one dense layer have that maps all "
        "numbers of all tokens to as many? (two numbers, in this order)",
        (3.0 * d, float(n * d)),
        tolerance=0.0,
        why=f"$3 \\cdot {d}$ and ${n} \\cdot {d}$: one for each number that is computed",
    )


CLAIM = Claim(
    id="count-attention",
    source="E 12.1",
    statement="Queries, keys and values take $3D^2$ weights and $3$ biases, and $N^2$ attention "
    "weights are computed; a dense layer takes $D^2 N^2$ weights and $N^2$ biases.",
    verdict="corrected",
    truth="The weights are right; the biases are $3D$ and $DN$, one for each number that comes "
    "out, and there are $N^2$ attention weights for each head.",
    measure=measure,
    plot=plot,
    ask=ask,
)
