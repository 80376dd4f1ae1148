"""√d_model is the scale of one head that is as wide as the model; of H heads it is √(d_model/H)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from regard.attention import MultiHeadAttention, watch
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

NEAR = 0.2  # how far a variance of random scores may be from one
BATCH, TOKENS = 8, 32


def measure(width: int = 256, heads: tuple[int, ...] = (1, 2, 4, 8, 16), seed: int = 0) -> Evidence:
    """The variance of the scores of a layer that runs, for each number of heads.

    Args:
        width: numbers in a token, d_model.
        heads: how many heads share the width, one of them first; each divides it.
        seed: where the random numbers start.
    """
    enough(width=(width, 1), heads=(heads, 1))
    if heads[0] != 1 or any(each < 2 for each in heads[1:]):
        raise UserError(f"heads={heads}: one head first, then more")
    by_model = [variance(width, each, width**-0.5, seed) for each in heads]
    by_head = [variance(width, each, (width / each) ** -0.5, seed) for each in heads]
    own = [variance(width, each, None, seed) for each in heads]
    return Evidence(
        deciding=f"{heads[-1]} heads: variance {by_model[-1]:.3g} by √d_model",
        inside=(
            at_most(
                "one head, by √d_model: variance of the scores, less 1", away(by_model[0]), NEAR
            ),
            *(
                at_most(f"{each} heads, by √(d_model/{each}): variance less 1", away(found), NEAR)
                for each, found in zip(heads[1:], by_head[1:], strict=True)
            ),
            at_most(
                "the library's own scale: variance off from this",
                max(abs(a - b) for a, b in zip(own, by_head, strict=True)),
                1e-12,
            ),
        ),
        outside=tuple(
            at_most(f"{each} heads, by √d_model: variance of the scores, less 1", away(found), NEAR)
            for each, found in zip(heads[1:], by_model[1:], strict=True)
        ),
        controls=(
            at_most(
                "one head, unscaled: variance less 1", away(variance(width, 1, 1.0, seed)), NEAR
            ),
        ),
        series={"heads": list(heads), "by √d_model": by_model, "by √(d_model / heads)": by_head},
    )


def variance(width: int, heads: int, beta: float | None, seed: int) -> float:
    """Of β q·k in a layer whose queries and keys have unit variance."""
    draw = torch.Generator().manual_seed(seed)
    layer = MultiHeadAttention(width, heads, beta=beta, bias=False).double()
    with torch.no_grad(), watch(layer) as seen:
        for projection in (layer.to_q, layer.to_k):
            projection.weight.normal_(std=width**-0.5, generator=draw)
        layer(torch.randn(BATCH, TOKENS, width, generator=draw, dtype=torch.float64))
        (call,) = (each.call for each in seen.values())
        return float((call.beta * call.q @ call.k.mT).square().mean())


def away(variance: float) -> float:
    return abs(variance - 1)


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    names = ("by √d_model", "by √(d_model / heads)")
    return lines(
        [float(each) for each in found["heads"]],
        {name: found[name] for name in names},
        title="The variance of scores that are divided",
        across="heads",
        up="variance",
    )


def ask(numbers: np.random.Generator) -> Question:
    heads = int(numbers.choice([2, 4, 8, 16]))
    width = heads * int(numbers.choice([16, 32, 64]))
    return Question(
        f"A layer with $d_{{model}} = {width}$ has ${heads}$ heads, and queries and keys of unit "
        "variance. By which number are scores to be divided, and what is their variance if they "
        "are divided by $\\sqrt{d_{model}}$? (two numbers, in this order)",
        (math.sqrt(width / heads), 1 / heads),
        why=f"$\\sqrt{{{width // heads}}}$; a sum of ${width // heads}$ products over ${width}$",
    )


CLAIM = Claim(
    id="scale-dmodel",
    source="C 1",
    statement="Scores are scaled by $\\sqrt{d_{model}}$.",
    verdict="depends",
    truth="Right for one head as wide as the model. A score of one of $H$ heads sums $d/H$ "
    "products, with $d = d_{model}$, so $\\sqrt{d/H}$ keeps its variance at 1, and "
    "$\\sqrt{d}$ leaves $1/H$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
