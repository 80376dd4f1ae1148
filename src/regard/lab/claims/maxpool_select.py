"""Max pooling mixes: the maximum of each coordinate is one of the inputs only by chance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional as F

from regard.attention import attend
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12
WIDTHS = (1, 2, 3, 4, 5, 6, 8)


def measure(inputs: int = 5, width: int = 4, draws: int = 2000, seed: int = 0) -> Evidence:
    """How often the maximum is one of the inputs, beside a dense layer and hard attention.

    Args:
        inputs: vectors to choose from.
        width: numbers in a vector.
        draws: how many sets of vectors are drawn.
        seed: where the random numbers start.
    """
    enough(inputs=(inputs, 1), width=(width, 1), draws=(draws, 1))
    draw = torch.Generator().manual_seed(seed)
    x = drawn(inputs, width, draws, draw)
    off = from_nearest(x)
    share = float((off == 0).double().mean())
    # Any of them may be the one that is desired.
    wanted = x[torch.arange(draws), torch.randint(inputs, (draws,), generator=draw)]
    returned = float((pooled(x) == wanted).all(-1).double().mean())
    # One input above all others in every coordinate: the only way for it to be selected.
    above = x.clone()
    above[:, 0] = x.amax(1) + 1.0
    shares = {
        d: float((from_nearest(drawn(inputs, d, draws, draw)) == 0).double().mean()) for d in WIDTHS
    }
    chances = {d: float(inputs) ** (1 - d) for d in WIDTHS}

    # What is desired: the input that matches a query best, wherever it stands.
    q = torch.randn(width, generator=draw, dtype=torch.float64)
    best = (x @ q).argmax(1)
    desired = x[torch.arange(draws), best]
    order = torch.randperm(inputs, generator=draw).roll(1)
    query = q.expand(draws, 1, width)
    found = [attend(query, seen, seen, beta=math.inf).output[:, 0] for seen in (x, x[:, order])]
    by_attention = max(float((read - desired).abs().max()) for read in found)
    elsewhere = attend(query, x, x.roll(1, 1), beta=math.inf).output[:, 0]

    copy = torch.zeros(width, inputs, width, dtype=torch.float64)
    copy[:, 0] = torch.eye(width, dtype=torch.float64)
    copied = F.linear(x.flatten(1), copy.flatten(1))
    by_position = float((copied - x[:, 0]).abs().max())
    fitted = x.flatten(1) @ torch.linalg.lstsq(x.flatten(1), desired).solution
    by_dense = float((fitted - desired).norm() / desired.norm())
    return Evidence(
        deciding=f"the desired one in {returned:.2%}, any in {share:.2%}",
        written=(
            at_least(
                "an input chosen at random: share of draws in which max pooling returns it",
                returned,
                1 / inputs,  # as often as one that is picked blindly is the right one
            ),
        ),
        corrected=(
            at_least("distance of the maximum from the nearest input", float(off.mean()), 0.1),
            at_most(
                "one input largest everywhere: distance of the maximum from it",
                float((above.amax(1) - above[:, 0]).abs().max()),
                0.0,
            ),
            at_most(
                "share of draws less its chance, inputs^(1 − width), at the most over widths",
                max(abs(shares[d] - chances[d]) for d in WIDTHS),
                0.06,
            ),
            at_most("a fixed dense layer: distance from the place it copies", by_position, 0.0),
            at_least("the best dense layer for a choice by content: error", by_dense, 0.4),
            at_most("hard attention: distance from the best match", by_attention, ROUNDING),
        ),
        controls=(
            at_least(
                "one input largest everywhere: distance of the maximum from the nearest input",
                float(from_nearest(above).mean()),
                0.1,
            ),
            at_most(
                "the copying layer: distance from the best match",
                float((copied - desired).abs().max()),
                ROUNDING,
            ),
            at_most(
                "hard attention, each value with its neighbour's key: distance from the best match",
                float((elsewhere - desired).abs().max()),
                ROUNDING,
            ),
        ),
        series={
            "width": list(WIDTHS),
            "share of draws": list(shares.values()),
            "chance": list(chances.values()),
        },
    )


def drawn(inputs: int, width: int, draws: int, draw: torch.Generator) -> torch.Tensor:
    return torch.randn(draws, inputs, width, generator=draw, dtype=torch.float64)


def from_nearest(x: torch.Tensor) -> torch.Tensor:
    """How far the maximum of each set is from the nearest of its vectors; 0 if it is one."""
    return (x - pooled(x)[:, None]).norm(dim=-1).amin(-1)


def pooled(x: torch.Tensor) -> torch.Tensor:
    """The maximum of each coordinate."""
    return F.adaptive_max_pool1d(x.mT, 1)[..., 0]


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    shown = {
        "measured": [value if value > 0 else math.nan for value in found["share of draws"]],
        "inputs^(1 − width)": found["chance"],
    }
    return lines(
        [float(width) for width in found["width"]],
        shown,
        title="How often max pooling returns one of its inputs",
        across="numbers in a vector",
        up="share of draws",
        log="y",
        about="Independent coordinates. A width at which no draw did so is left out.",
    )


def ask(numbers: np.random.Generator) -> Question:
    inputs, width = int(numbers.integers(3, 7)), int(numbers.integers(2, 5))
    return Question(
        f"${inputs}$ vectors of ${width}$ independent, continuous random numbers each are max "
        "pooled, coordinate by coordinate. What is the probability that the result is one of "
        "these vectors?",
        float(inputs) ** (1 - width),
        why=f"the same vector is largest in all coordinates: "
        f"${inputs} \\cdot (1/{inputs})^{{{width}}}$",
    )


CLAIM = Claim(
    id="maxpool-select",
    source="B 1.1c",
    statement="In a dense architecture, max pooling can select the input vector that is desired.",
    verdict="corrected",
    truth="The maximum of each coordinate is one of $m$ vectors only if that one is largest "
    "everywhere, which for $d$ independent coordinates has the chance $m / m^d$. A dense layer "
    "copies a place and cannot choose by content; attention with large $\\beta$ can.",
    measure=measure,
    plot=plot,
    ask=ask,
)
