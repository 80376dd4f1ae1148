"""Noise on a key without a mean of its own still moves the mean of what is read, a little."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.attention import attend
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.claims.key_noise import USUAL
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # of σ, for the picture


def measure(
    keys: int = 6,
    width: int = 8,
    beta: float = 0.5,
    sigma: float = 0.05,
    draws: int = 10_000,
    seed: int = 0,
) -> Evidence:
    """Spread and mean of the change over noise drawn in pairs ±ε, which cancel the first order.

    Args:
        keys: keys that the query may read; at least two.
        width: numbers in a query, a key and a value.
        beta: the factor of the scores.
        sigma: standard deviation of each number of the noise.
        draws: pairs of noise.
        seed: where the random numbers start.
    """
    enough(draws=(draws, 1))
    if beta <= 0 or sigma <= 0:
        raise ValueError(f"beta={beta}, sigma={sigma}: above 0, or nothing changes")
    if keys < 2:
        raise UserError(f"--keys {keys}: a key alone has all the weight, whatever it is; 2 or more")
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(n, width, generator=draw, dtype=torch.float64) for n in (1, keys, keys))
    read, weights = attend(q, k, v, beta=beta)
    j = int((weights[0] - USUAL).abs().argmin())
    share, towards = float(weights[0, j]), v[j] - read[0]
    noise = torch.randn(draws, width, generator=draw, dtype=torch.float64)

    def change(scale: float, by: torch.Tensor = noise) -> torch.Tensor:
        """Of the read, along v_j − h, as a share of it: for −ε and for ε."""
        moved = k.repeat(2, draws, 1, 1)
        moved[0, :, j] -= scale * by
        moved[1, :, j] += scale * by
        wide = (2, draws, -1, -1)
        found = attend(q.expand(wide), moved, v.expand(wide), beta=beta).output[..., 0, :]
        return (found - read) @ towards / (towards @ towards)

    found = change(sigma)
    pairs = found.mean(0)
    spread, mean = float(found.std()), float(pairs.mean())
    error = float(pairs.std()) / math.sqrt(draws)  # of that mean
    u = beta * sigma * float(q.norm())  # standard deviation of the score's change
    predicted_spread, predicted_mean = share * u, 0.5 * share * (1 - 2 * share) * u**2
    across = noise - (noise @ q.mT) / (q @ q.mT) * q
    exact = expected(share, u)
    swept = {factor: change(sigma * factor) for factor in FACTORS}
    return Evidence(
        deciding=f"mean {mean / predicted_mean:.2f}, "
        f"spread {spread / predicted_spread:.2f} of the formulas",
        written=(
            at_most(
                "standard deviation against β a_j σ ‖q‖, relative",
                abs(spread / predicted_spread - 1),
                0.05,
            ),
            at_most(
                "mean against ½ β² a_j (1 − 2a_j) σ² ‖q‖², relative",
                abs(mean / predicted_mean - 1),
                0.1,
            ),
            at_most("mean against quadrature, in standard errors", abs(mean - exact) / error, 5.0),
            at_least("mean in standard errors: it is not zero", abs(mean) / error, 10.0),
            at_most("mean over the standard deviation: it is slight", abs(mean) / spread, 0.2),
        ),
        controls=(
            at_most("mean against zero, in standard errors", abs(mean) / error, 5.0),
            at_most(
                "noise across q: standard deviation against the formula, relative",
                abs(float(change(sigma, across).std()) / predicted_spread - 1),
                0.05,
            ),
            at_most(
                "formula of the mean without 1 − 2a_j, relative",
                abs(mean / (0.5 * share * u**2) - 1),
                0.1,
            ),
        ),
        series={
            "β σ ‖q‖": [u * factor for factor in FACTORS],
            "standard deviation": [float(each.std()) for each in swept.values()],
            "standard deviation, told": [share * u * factor for factor in FACTORS],
            "mean": [abs(float(each.mean())) for each in swept.values()],
            "mean, told": [abs(predicted_mean) * factor**2 for factor in FACTORS],
            "weight": share,
        },
    )


def expected(share: float, u: float) -> float:
    """The mean change by quadrature, from the weight itself: no attention, no draws."""
    nodes, importance = np.polynomial.hermite_e.hermegauss(60)
    grown = share * np.exp(u * nodes)
    weight = grown / (1 - share + grown)
    # All others keep their proportions, so the read moves along v_j − h alone.
    along = (weight - share) / (1 - share)
    return float(importance @ along / importance.sum())


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    names = ("standard deviation", "mean", "mean, told")
    return lines(
        found["β σ ‖q‖"],
        {name: found[name] for name in names},
        title="Noise on one key: how far the read spreads, and drifts",
        across="β σ ‖q‖",
        up="share of ‖v_j − h‖",
        log="xy",
        about=f"A key of weight {found['weight']:.2g}. The mean grows with the square, "
        "as told while noise is small.",
    )


def ask(numbers: np.random.Generator) -> Question:
    weight = float(numbers.choice([0.1, 0.2, 0.25, 0.3, 0.4]))
    sigma, length = float(numbers.choice([0.01, 0.02, 0.05])), int(numbers.integers(1, 5))
    far = int(numbers.integers(2, 9))
    u = sigma * length
    return Question(
        f"Numbers of mean $0$ and standard deviation ${sigma:g}$ are added to a key of the weight "
        f"${weight:g}$; $\\beta = 1$, $\\lVert q \\rVert = {length}$, and its value lies ${far}$ "
        "above what is read. What are, to lowest order, the standard deviation and the mean of "
        "the change of the read? (two numbers, in this order)",
        (weight * u * far, 0.5 * weight * (1 - 2 * weight) * u**2 * far),
        why="$\\beta a_j \\sigma \\lVert q \\rVert (v_j - h)$, and half of "
        "$\\beta^2 a_j (1 - 2 a_j) \\sigma^2 \\lVert q \\rVert^2 (v_j - h)$",
    )


CLAIM = Claim(
    id="key-noise-mean",
    source="B 1.1e",
    statement="The same holds of noise: a zero-mean Gaussian $\\epsilon$ on one key changes the "
    "output slightly.",
    verdict="holds",
    truth="The change has the standard deviation "
    "$\\beta a_j \\sigma \\lVert q \\rVert \\lVert v_j - h \\rVert$. Its mean is smaller and not "
    "zero, though that of the noise is: half of "
    "$\\beta^2 a_j (1 - 2 a_j) \\sigma^2 \\lVert q \\rVert^2 (v_j - h)$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
