"""Convolution and attention alike: all positions at once, one layer after the other."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, attend
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.counting import chain, enough
from regard.lab.evidence import Evidence, at_least, at_most, equal
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

ROUNDING = 1e-12
SHORTEST = 4  # tokens


def measure(tokens: int = 64, layers: int = 6, width: int = 8, seed: int = 0) -> Evidence:
    """Count the operations that wait for one another, by the graph that autograd keeps.

    Args:
        tokens: tokens of the longest sequence; more than 4.
        layers: layers of the deepest stack; at least two.
        width: numbers in a token.
        seed: where the random numbers start.
    """
    enough(width=(width, 1))
    if tokens <= SHORTEST or layers < 2:
        raise UserError(f"tokens={tokens}, layers={layers}: more than {SHORTEST}, and at least 2")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        conv = nn.Conv1d(width, width, 3, padding=1).double()
        layer = MultiHeadAttention(width, 1, attention=attend).double()
        cell = nn.RNNCell(width, width).double()
        x = torch.randn(tokens, width, dtype=torch.float64)
        order = torch.randperm(tokens).tolist()

    kinds: dict[str, Callable[[Tensor], Tensor]] = {
        "convolution": lambda x: conv(x.mT).mT,
        "attention": layer,
        "recurrence": lambda x: recurrent(cell, x),
    }
    lengths = [n for n in (SHORTEST, 8, 16, 32, 64, 128, 256) if n < tokens] + [tokens]
    depths = list(range(1, layers + 1))
    by_length = {name: [chain(run(x[:n].clone())) for n in lengths] for name, run in kinds.items()}
    by_depth = {
        name: [chain(stacked(kinds[name], x, depth)) for depth in depths]
        for name in ("convolution", "attention")
    }
    stretch = {name: found[-1] / found[0] for name, found in by_length.items()}
    # Fewest steps that any further layer adds.
    added = {name: min(b - a for a, b in pairwise(found)) for name, found in by_depth.items()}
    alone: dict[str, Callable[[int], Tensor]] = {
        "convolution": lambda at: one_of_convolution(conv, x, at),
        "attention": lambda at: layer(x[at : at + 1], x)[0],
        "recurrence": lambda at: cell(x[at]),  # its memory is what it would have to wait for
    }
    with torch.no_grad():
        off = {
            name: max(float((one(at) - whole[at]).abs().max()) for at in order)
            for (name, one), whole in ((each, kinds[each[0]](x)) for each in alone.items())
        }
    deep = by_depth["attention"][-1] / by_depth["attention"][0]
    again = f"{tokens} tokens over {lengths[0]}"
    return Evidence(
        deciding=f"steps: × {stretch['attention']:.3g} by tokens, × {deep:.3g} by layers",
        written=(
            at_least(f"steps of a convolution, {again}", stretch["convolution"], 2),
            at_most(f"steps of {layers} attention layers over those of one", deep, 1),
        ),
        corrected=(
            equal(f"steps of a convolution, {again}", stretch["convolution"], 1),
            equal(f"steps of attention, {again}", stretch["attention"], 1),
            at_least("steps that a further convolution adds", added["convolution"], 1),
            at_least("steps that a further attention layer adds", added["attention"], 1),
            at_most("convolution, each position by itself: off by", off["convolution"], ROUNDING),
            at_most("attention, each position by itself: off by", off["attention"], ROUNDING),
        ),
        controls=(
            equal(f"steps of a recurrent layer, {again}", stretch["recurrence"], 1),
            at_most("recurrence, each position by itself: off by", off["recurrence"], ROUNDING),
        ),
        series={"tokens": lengths, "steps": by_length, "layers": depths, "by layers": by_depth},
    )


def stacked(run: Callable[[Tensor], Tensor], x: Tensor, depth: int) -> Tensor:
    for _ in range(depth):
        x = run(x)
    return x


def recurrent(cell: nn.RNNCell, x: Tensor) -> Tensor:
    state, states = torch.zeros_like(x[0]), []
    for token in x:
        state = cell(token, state)
        states.append(state)
    return torch.stack(states)


def one_of_convolution(conv: nn.Conv1d, x: Tensor, at: int) -> Tensor:
    """One position of a convolution, from the three tokens that it sees."""
    seen = F.pad(x, (0, 0, 1, 1))[at : at + 3]
    return F.conv1d(seen.mT, conv.weight, conv.bias)[:, 0]


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        [float(n) for n in found["tokens"]],
        {name: [float(n) for n in counts] for name, counts in found["steps"].items()},
        title="Steps that wait for one another, in one layer",
        across="tokens",
        up="operations in a row",
        about="Attention and convolution take all positions at once; layers follow one another.",
    )


def ask(numbers: np.random.Generator) -> Question:
    layers, tokens = int(numbers.integers(2, 13)), int(numbers.integers(20, 200))
    return Question(
        f"A layer at one position is one step, and steps that do not need one another are taken at "
        f"once. How many steps must follow one another for ${tokens}$ tokens in a CNN of ${layers}$"
        f" layers, in a transformer of ${layers}$ layers, and in one recurrent layer? (three "
        "numbers, in this order)",
        (float(layers), float(layers), float(tokens)),
        tolerance=0.0,
        why="layer after layer in the first two, token after token in the last",
    )


CLAIM = Claim(
    id="parallel-cnn",
    source="A 2.3",
    statement="CNNs process a sequence sequentially, by layers, and the Transformer processes it "
    "in parallel.",
    verdict="corrected",
    truth="Both take all positions of a layer at once and their layers one after the other; what "
    "must go token by token is a recurrent layer.",
    measure=measure,
    plot=plot,
    ask=ask,
)
