"""The feed-forward: two linear layers with a non-linearity between, on each token alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from regard.attention import MultiHeadAttention
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most
from regard.lab.figures import lines
from regard.lab.oracles import apart
from regard.lab.question import Question
from regard.models import MLP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(tokens: int = 10, width: int = 8, hidden: int = 32, seed: int = 0) -> Evidence:
    """The library's feed-forward beside two Conv1d(1), and beside one linear layer.

    Args:
        tokens: tokens of the sequence, 2 or more.
        width: numbers in a token.
        hidden: numbers between the two layers.
        seed: where the random numbers start.
    """
    enough(tokens=(tokens, 1), width=(width, 1), hidden=(hidden, 1))
    torch.manual_seed(seed)
    layer = MLP(width, hidden, "gelu").double()
    straight = MLP(width, hidden, "gelu").double()
    straight.load_state_dict(layer.state_dict())
    straight.activation = nn.Identity()
    attention = MultiHeadAttention(width, 1).double()
    x = torch.randn(tokens, width, dtype=torch.float64)
    others = x.clone()
    others[1:] = torch.randn(tokens - 1, width, dtype=torch.float64)
    with torch.no_grad():
        into, out = layer.fc1, layer.fc2
        between = F.gelu(F.conv1d(x.mT[None], into.weight[..., None], into.bias))
        convolved = F.conv1d(between, out.weight[..., None], out.bias)[0].mT
        one = F.linear(x, out.weight @ into.weight, out.weight @ into.bias + out.bias)
        moved = apart(layer(others)[0], layer(x)[0])
        by_attention = apart(attention(others)[0], attention(x)[0])
        folded, bent = apart(straight(x), one), apart(layer(x), one)
        steps = torch.linspace(-4, 4, 81, dtype=torch.float64)
        along = steps[:, None] * F.normalize(x[0], dim=0)
        curves = {
            "GELU between": layer(along)[:, 0].tolist(),
            "nothing between": straight(along)[:, 0].tolist(),
        }
        off = apart(layer(x), convolved)
    return Evidence(
        deciding=f"{off:.0e} from two Conv1d(1), {bent:.2g} from one",
        written=(
            at_most("distance from two Conv1d(1) with GELU between", off, ROUNDING),
            at_most("how far other tokens move what a token becomes", moved, ROUNDING),
            at_most("without a non-linearity: distance from one linear layer", folded, ROUNDING),
        ),
        controls=(
            at_most("with the non-linearity: distance from one linear layer", bent, ROUNDING),
            at_most("how far other tokens move what a token reads", by_attention, ROUNDING),
        ),
        series={"along": steps.tolist(), **curves},
    )


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        found["along"],
        {name: found[name] for name in ("GELU between", "nothing between")},
        title="The non-linearity is what makes two layers more than one",
        across="how far along one direction a token lies",
        up="the first number of the output",
    )


def ask(numbers: np.random.Generator) -> Question:
    x = int(numbers.choice([-3, -2, -1, 1, 2, 3]))
    into, out = numbers.integers(1, 5, 2), numbers.integers(1, 5, 2)
    hidden = [max(0, int(into[0]) * x), max(0, -int(into[1]) * x)]
    answer = int(out[0]) * hidden[0] + int(out[1]) * hidden[1]
    together = (int(out[0]) * int(into[0]) - int(out[1]) * int(into[1])) * x
    return Question(
        f"A feed-forward without biases has $W_1 = ({into[0]}, -{into[1]})^\\top$, ReLU, and "
        f"$W_2 = ({out[0]}, {out[1]})$. What does it make of $x = {x}$, and what without ReLU? "
        "(two numbers, in this order)",
        (float(answer), float(together)),
        why=f"ReLU leaves $({hidden[0]}, {hidden[1]})$; without it the layer is $W_2 W_1 x$",
    )


CLAIM = Claim(
    id="ffn",
    source="B 1.4d",
    statement="The feed-forward of a block is two linear layers with a non-linearity between them.",
    verdict="holds",
    truth="It acts on each token alone, so it is two convolutions with a kernel of 1. Without the "
    "non-linearity it would be one linear layer, $W_2 W_1$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
