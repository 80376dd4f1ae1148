"""Equal weights on all tokens give their mean; a running linear layer is the identity map."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, window
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.oracles import apart
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(tokens: int = 24, width: int = 8, heads: int = 2, seed: int = 0) -> Evidence:
    """One layer under three maps, beside Conv1d(kernel_size=1) with the weight W_O·W_V.

    Args:
        tokens: tokens of the sequence, 2 or more.
        width: numbers in a token.
        heads: heads of the layer; they split the width.
        seed: where the random numbers start.
    """
    enough(tokens=(tokens, 1), width=(width, 1))
    torch.manual_seed(seed)
    layer = MultiHeadAttention(width, heads).double()
    x = torch.randn(tokens, width, dtype=torch.float64)
    with torch.no_grad():
        weight = layer.to_out.weight @ layer.to_v.weight
        bias = layer.to_out.weight @ layer.to_v.bias + layer.to_out.bias
        running = F.conv1d(x.mT[None], weight[..., None], bias)[0].mT
        of_v_alone = F.conv1d(x.mT[None], layer.to_v.weight[..., None], layer.to_v.bias)[0].mT
        itself = layer(x, mask=window(1))
        neighbours = layer(x, mask=window(2))
        layer.beta = 0.0
        equal = layer(x)
    mean = F.linear(x.mean(0), weight, bias)
    missed = apart(equal, running)
    return Evidence(
        deciding=f"equal weights miss by {missed:.2g}, own {apart(itself, running):.0e}",
        written=(
            at_most("equal weights on all tokens: distance from Conv1d(1)", missed, ROUNDING),
            at_least(
                "equal weights: how far positions differ from one another",
                float(equal.std(0).max()),
                0.01,
            ),
        ),
        corrected=(
            at_most(
                "equal weights: distance of every position from the mean, projected",
                apart(equal, mean),
                ROUNDING,
            ),
            at_most(
                "all weight on the own token: distance from Conv1d(1)",
                apart(itself, running),
                ROUNDING,
            ),
        ),
        controls=(
            at_most(
                "weight on neighbours too: distance from Conv1d(1)",
                apart(neighbours, running),
                ROUNDING,
            ),
            at_most(
                "all weight on the own token: distance from Conv1d(1) of W_V without W_O",
                apart(itself, of_v_alone),
                ROUNDING,
            ),
        ),
        series={
            "Conv1d(1)": running[:, 0].tolist(),
            "all weight on the own token": itself[:, 0].tolist(),
            "equal weights on all tokens": equal[:, 0].tolist(),
        },
    )


def plot(evidence: Evidence) -> Figure:
    count = len(next(iter(evidence.series.values())))
    return lines(
        [float(position) for position in range(count)],
        evidence.series,
        title="What equal weights on all tokens read: the same everywhere",
        across="position",
        up="the first number of the output",
        about="The identity map and the convolution are one line: they differ by rounding.",
    )


def ask(numbers: np.random.Generator) -> Question:
    x = [int(value) for value in numbers.choice(np.arange(1, 13), 4, replace=False)]
    weight = int(numbers.integers(2, 6))
    tokens = ", ".join(map(str, x))
    return Question(
        f"Tokens of one number, $({tokens})$, pass a self-attention with $W_O W_V = {weight}$. "
        "What is the second output if all weights are equal, and if every token reads itself "
        "alone? (two numbers, in this order)",
        (weight * sum(x) / 4, float(weight * x[1])),
        why=f"${weight}$ times the mean of all, and ${weight} \\cdot {x[1]}$",
    )


CLAIM = Claim(
    id="as-pointwise",
    source="B 1.3d",
    statement="Equal weights on all tokens turn self-attention into a running linear layer, that "
    "is a pointwise convolution.",
    verdict="corrected",
    truth="Equal weights give every position the mean of all tokens. The running linear layer "
    "is the identity map, each token reading itself alone: then the layer is Conv1d with a kernel "
    "of 1 and the weight $W_O W_V$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
