"""Heads of width D/H: a projection keeps its D² weights whatever H is, and the cost stays put."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention, attend
from regard.count.flops import forward_flops
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.counting import Counting
from regard.lab.evidence import Evidence, equal
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure


def measure(
    width: int = 64, tokens: int = 64, heads: tuple[int, ...] = (1, 2, 4, 8, 16), seed: int = 0
) -> Evidence:
    """Weights and multiply-adds of layers with more and more heads, narrow ones and wide ones.

    Args:
        width: numbers in a token, D.
        tokens: tokens that read one another.
        heads: numbers of heads, H; from the first on growing, each a divisor of the width.
        seed: where the random numbers start.
    """
    if len(heads) < 2 or min(heads) == max(heads):
        raise UserError(f"heads={heads}: at least two numbers of heads, so that they compare")
    many = max(heads)
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, width, generator=draw)
    narrow = {h: MultiHeadAttention(width, h, bias=False, attention=attend) for h in heads}
    full = {
        h: MultiHeadAttention(width, h, head_width=width, bias=False, attention=attend)
        for h in heads
    }
    sliced = {h: nn.Conv1d(width, width, 1, groups=h, bias=False) for h in heads}
    cost, cost_full = ({h: counted(layers[h], x) for h in heads} for layers in (narrow, full))
    square, hand = width * width, 4 * tokens * width**2 + 2 * tokens**2 * width
    of_one = {h: narrow[h].to_q.weight.numel() for h in heads}
    shared = MultiHeadAttention(width, many, kv_heads=1, bias=False).to_k.weight.numel()
    return Evidence(
        deciding=f"{of_one[many]:,} weights at {many} heads, not {square // many:,}",
        written=(
            equal(
                "heads of D/H: least multiply-adds at any H, against most",
                min(cost.values()),
                max(cost.values()),
            ),
            equal(f"weights of one projection, {many} heads: D²/H", of_one[many], square // many),
        ),
        corrected=(
            equal("weights of one projection, fewest at any H: D²", min(of_one.values()), square),
            equal("weights of one projection, most at any H: D²", max(of_one.values()), square),
            equal(
                f"each head its own slice, {many} heads: D²/H",
                sliced[many].weight.numel(),
                square // many,
            ),
            equal("heads of D/H: least multiply-adds, by hand", min(cost.values()), hand),
            equal("heads of D/H: most multiply-adds, by hand", max(cost.values()), hand),
            equal("the same as the library counts", forward_flops(narrow[many], x) / 2, hand),
            equal(
                f"heads of D: weights of one projection, {many} heads: H D²",
                full[many].to_q.weight.numel(),
                many * square,
            ),
            equal(f"heads of D: multiply-adds, {many} heads", cost_full[many], many * hand),
        ),
        controls=(
            equal(f"keys shared by {many} heads: weights of one projection", shared, square),
            equal(
                f"heads of D: multiply-adds, {many} heads, against those of D/H",
                cost_full[many],
                hand,
            ),
        ),
        series={
            "heads": [float(h) for h in heads],
            "multiply-adds, heads of D/H": list(cost.values()),
            "multiply-adds, heads of D": list(cost_full.values()),
            "seconds, heads of D/H": [seconds(narrow[h], x) for h in heads],
            "seconds, heads of D": [seconds(full[h], x) for h in heads],
        },
    )


def counted(layer: MultiHeadAttention, x: Tensor) -> float:
    """The multiply-adds of all matrix products of one pass."""
    with torch.no_grad(), Counting() as counts:
        layer(x)
    return float(counts.products)


def seconds(layer: MultiHeadAttention, x: Tensor, times: int = 3) -> float:
    """The fastest of a few passes, on whatever else this machine is doing."""
    took = []
    with torch.no_grad():
        for _ in range(times):
            began = time.perf_counter()
            layer(x)
            took.append(time.perf_counter() - began)
    return min(took)


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        found["heads"],
        {
            name: [each / 1e6 for each in found[f"multiply-adds, {name}"]]
            for name in ("heads of D", "heads of D/H")
        },
        title="What more heads cost",
        across="heads, H",
        up="million multiply-adds of the layer",
        about="Heads that share the width cost what one head does; full-width heads, H times that.",
    )


def ask(numbers: np.random.Generator) -> Question:
    heads = int(numbers.choice([2, 4, 8, 16]))
    width = heads * int(numbers.integers(2, 9)) * 4
    return Question(
        f"Tokens have ${width}$ numbers, and ${heads}$ heads are ${width // heads}$ wide each. How "
        "many weights do all queries together need, and how many if each head were as wide as a "
        "token? (two numbers, without biases)",
        (float(width * width), float(heads * width * width)),
        tolerance=0.0,
        why=f"${heads} \\cdot {width} \\cdot {width // heads}$ and "
        f"${heads} \\cdot {width} \\cdot {width}$",
    )


CLAIM = Claim(
    id="head-width",
    source="E 12.5",
    statement="Heads of width $D/H$ keep the cost down: the total number of parameters is $D^2/H$.",
    verdict="corrected",
    truth="They keep it down to what one head costs: $H \\cdot D \\cdot D/H = D^2$ weights a "
    "projection, whatever $H$. $D^2/H$ is the share of one head, or the total if each head "
    "projects its own slice of a token alone; heads as wide as a token cost $H$ times as much.",
    measure=measure,
    plot=plot,
    ask=ask,
)
