"""A key that moves a little moves the read a little, along its value less what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.attention import attend
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.oracles import relative
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

USUAL = 0.2  # a weight at which neither the key nor the others are all there is


def measure(keys: int = 6, width: int = 8, beta: float = 0.5, seed: int = 0) -> Evidence:
    """The change to first order, beside autograd and differences; and how it fails as ε grows.

    Args:
        keys: keys that the query may read; at least two.
        width: numbers in a query, a key and a value.
        beta: the factor of the scores.
        seed: where the random numbers start.
    """
    if keys < 2:
        raise UserError(f"--keys {keys}: a key alone has all the weight, whatever it is; 2 or more")
    draw = torch.Generator().manual_seed(seed)
    q, k, v, away = (
        torch.randn(n, width, generator=draw, dtype=torch.float64) for n in (1, keys, keys, 1)
    )
    read, weights = attend(q, k, v, beta=beta)
    j = int((weights[0] - USUAL).abs().argmin())
    share, towards = float(weights[0, j]), v[j] - read[0]
    # Along ε = size · (…) the score grows by `size`; across q, nothing happens.
    across = (away - (away @ q.mT) / (q @ q.mT) * q)[0]
    epsilon = q[0] / (beta * float(q @ q.mT)) + across

    def moved(size: float, by: torch.Tensor = epsilon) -> torch.Tensor:
        return shifted(q, k, v, beta, j, size * by) - read[0]

    predicted = beta * share * float(q[0] @ epsilon) * towards
    _, slope = torch.autograd.functional.jvp(
        lambda by: shifted(q, k, v, beta, j, by), torch.zeros_like(epsilon), epsilon
    )
    step = 1e-4
    differences = (moved(step) - moved(-step)) / (2 * step)

    sizes = np.logspace(-3.5, -1, 26)
    rest = [float((moved(size) - size * predicted).norm()) for size in sizes]
    # Two keys with one score: weights of ½ each, where the second order is zero.
    even = torch.stack([k[j], k[j] + across])
    middle = attend(q, even, v[:2], beta=beta).output[0]
    half = [
        float(
            (
                shifted(q, even, v[:2], beta, 0, size * epsilon)
                - middle
                - size * 0.5 * (v[0] - middle)
            ).norm()
        )
        for size in sizes
    ]
    exponent, exponent_half = (
        growth(sizes[:16], rest[:16]),
        growth(sizes[10:], half[10:]),
    )
    return Evidence(
        deciding=f"remainder grows with ε^{exponent:.3f}; ε^{exponent_half:.3f} at ½",
        written=(
            at_most("formula against autograd, relative", relative(predicted, slope), 1e-10),
            at_most(
                "formula against differences, relative", relative(predicted, differences), 1e-6
            ),
            at_least("power of ε with which the remainder shrinks", exponent, 1.9),
            at_most("power of ε with which the remainder shrinks", exponent, 2.1),
            at_least("the same where the weight is ½", exponent_half, 2.9),
            at_most("ε across q: change of the read", float(moved(1.0, across).norm()), 1e-12),
            at_most(
                "β q·ε = 0.001: change of the read over ‖v_j − h‖",
                float(moved(1e-3).norm() / towards.norm()),
                1e-3,
            ),
        ),
        controls=(
            at_most(
                "β q·ε = 10: change of the read over ‖v_j − h‖",
                float(moved(10.0).norm() / towards.norm()),
                1e-3,
            ),
            at_most(
                "formula with v_j for v_j − h, against autograd, relative",
                relative(beta * share * float(q[0] @ epsilon) * v[j], slope),
                1e-10,
            ),
            at_least("power of ε where the weight is not ½", exponent, 2.9),
        ),
        series={
            "β q·ε": sizes.tolist(),
            "remainder": rest,
            "remainder at ½": half,
            "change": [float(moved(size).norm()) for size in sizes],
            "weight": share,
        },
    )


def shifted(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, beta: float, j: int, by: torch.Tensor
) -> torch.Tensor:
    """What is read once key j has moved."""
    there = torch.zeros(len(k), 1, dtype=k.dtype)
    there[j] = 1.0
    return attend(q, k + there * by, v, beta=beta).output[0]


def growth(sizes: np.ndarray, values: list[float]) -> float:
    """The power with which values grow: the slope of their logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        found["β q·ε"],
        {
            "the change itself": found["change"],
            f"left by the formula, weight {found['weight']:.2g}": found["remainder"],
            "left by the formula, weight ½": found["remainder at ½"],
        },
        title="A key moves by ε: the read moves in proportion",
        across="β q·ε",
        up="length of the difference",
        log="xy",
        about="What the first order leaves shrinks with the square of ε; with the cube at ½.",
    )


def ask(numbers: np.random.Generator) -> Question:
    weight = float(numbers.choice([0.1, 0.2, 0.25, 0.4, 0.6]))
    beta, along = float(numbers.choice([0.5, 1.0, 2.0])), float(numbers.integers(1, 6)) / 100
    value, read = (int(n) for n in numbers.choice(np.arange(-5, 10), 2, replace=False))
    return Question(
        f"A key with the weight ${weight:g}$ and the value ${value}$ moves by $\\epsilon$ with "
        f"$q \\cdot \\epsilon = {along:g}$; $\\beta = {beta:g}$, and ${read}$ was read before. By "
        "how much does the read change, to first order?",
        beta * weight * along * (value - read),
        why="$\\beta\\, a_j\\, (q \\cdot \\epsilon)\\, (v_j - h)$",
    )


CLAIM = Claim(
    id="key-noise",
    source="B 1.1e",
    statement="A small change $\\epsilon$ of one key changes the output slightly.",
    verdict="holds",
    truth="$\\Delta h \\approx \\beta\\, a_j\\, (q \\cdot \\epsilon)\\, (v_j - h)$, and what this "
    "leaves shrinks with the square of $\\epsilon$ (the cube at $a_j = 1/2$). Nothing changes for "
    "$\\epsilon \\perp q$; much does where $\\beta\\, q \\cdot \\epsilon$ is large.",
    measure=measure,
    plot=plot,
    ask=ask,
)
