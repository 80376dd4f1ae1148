"""β from 0 to ∞: from the plain mean of the values to the one value whose key matches best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.attention import attend
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_most
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(keys: int = 6, width: int = 8, seed: int = 0) -> Evidence:
    """How far the read is from the mean and from the best value, as β goes from 1e-3 to 1e3.

    Args:
        keys: keys that the query may read.
        width: numbers in a query, a key and a value.
        seed: where the random numbers start.
    """
    if keys < 2:
        raise ValueError(f"keys={keys}: it takes two to compare")
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(n, width, generator=draw, dtype=torch.float64) for n in (1, keys, keys))
    scores = (q @ k.mT)[0]
    order = scores.argsort(descending=True)
    best, gap = order[0], float(scores[order[0]] - scores[order[1]])
    betas = np.logspace(-3, 3, 61)
    reads = torch.cat([attend(q, k, v, beta=float(beta)).output for beta in betas])
    to_best, to_mean = (reads - v[best]).norm(dim=-1), (reads - v.mean(0)).norm(dim=-1)
    farthest = float((v - v[best]).norm(dim=-1).max())
    bound = (keys - 1) * np.exp(-betas * gap) * farthest
    # Two keys that match best: the mean of their values, however large β is.
    tied = k.clone()
    tied[order[1]] = tied[order[0]]
    of_tied = attend(q, tied, v, beta=1e3).output[0]
    mean_of_tied = v[order[:2]].mean(0)
    return Evidence(
        deciding=f"β = 1000: {to_best[-1]:.1e} from the best value",
        written=(
            at_most(
                "distance from the best value over its bound, at the most",
                float((to_best.numpy() / (bound + ROUNDING)).max()),
                1.0,
            ),
            at_most("β = 1000: distance from the best value", float(to_best[-1]), 1e-6),
            at_most(
                "β = 0: distance from the mean of the values",
                float((attend(q, k, v, beta=0.0).output[0] - v.mean(0)).norm()),
                ROUNDING,
            ),
            at_most(
                "a tie, β = 1000: distance from the mean of the tied",
                float((of_tied - mean_of_tied).norm()),
                1e-6,
            ),
        ),
        controls=(
            at_most("β = 1: distance from the best value", float(to_best[30]), 1e-6),
            at_most("β = 1: distance from the mean", float(to_mean[30]), 1e-6),
            at_most(
                "a tie: distance from one of the tied", float((of_tied - v[best]).norm()), 1e-6
            ),
        ),
        series={
            "beta": betas.tolist(),
            "to the best value": to_best.tolist(),
            "to the mean": to_mean.tolist(),
            "bound": bound.tolist(),
        },
    )


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    shown = {
        name: [max(value, 1e-16) for value in found[name]]
        for name in ("to the best value", "to the mean", "bound")
    }
    return lines(
        found["beta"],
        shown,
        title="From the mean of all values to one of them",
        across="β",
        up="distance of the read",
        log="xy",
        about="The bound is (m − 1) · exp(−β · gap) · the farthest value.",
    )


def ask(numbers: np.random.Generator) -> Question:
    a, b = numbers.choice(np.arange(1, 10), 2, replace=False)
    return Question(
        f"Two keys have the scores $1$ and $0$, and the values ${a}$ and ${b}$. What is read as "
        "$\\beta \\to \\infty$, and at $\\beta = 0$? (two numbers, in this order)",
        (float(a), (float(a) + float(b)) / 2),
        why="the value of the best key, and the mean of both",
    )


CLAIM = Claim(
    id="beta-limits",
    source="B 1.1b to d",
    statement="With large $\\beta$ one value vector is preserved; with $\\beta = 0$ the plain mean "
    "of the values is read.",
    verdict="holds",
    truth="The read comes as near to the best value as "
    "$(m-1)\\, e^{-\\beta \\cdot \\mathrm{gap}} \\max_i \\lVert v_i - v_* \\rVert$; where several "
    "keys match best, the mean of theirs is read.",
    measure=measure,
    plot=plot,
    ask=ask,
)
