"""Softmax at (−3, 1, 100, 5, −1): all derivatives are about zero, so it hardly moves there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.attention import attend
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_least, at_most, equal
from regard.lab.figures import heat
from regard.lab.oracles import exact_softmax
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL = 1e-30  # what is called about zero


def measure(z: tuple[float, ...] = (-3.0, 1.0, 100.0, 5.0, -1.0)) -> Evidence:
    """The Jacobian by a formula that does not cancel, beside mpmath with sixty digits.

    Args:
        z: the scores that softmax is given.
    """
    if len(z) < 2:
        raise ValueError(f"{len(z)} scores in z: it takes two to compare")
    scores = torch.tensor(z, dtype=torch.float64)
    y = weights(scores)
    ours = jacobian(y)
    exact = exact_softmax(z)
    wanted = [
        [y_i * ((i == j) - y_j) for j, y_j in enumerate(exact)] for i, y_i in enumerate(exact)
    ]
    off = max(
        abs(ours[i, j].item() - float(want)) / max(abs(float(want)), 1e-300)
        for i, row in enumerate(wanted)
        for j, want in enumerate(row)
    )
    largest = ours.abs().max().item()
    place = divmod(int(ours.abs().argmax()), len(z))
    top = int(scores.argmax())
    own = f"∂y{top + 1}/∂z{top + 1}"  # of the largest weight, by its own score
    # Sensitive would mean that a change of the scores shows in the weights.
    step = torch.zeros_like(scores)
    step[0] = 1.0
    moved = (weights(scores + step) - y).abs().max().item()
    flat = jacobian(weights(torch.zeros_like(scores))).abs().max().item()
    rounded = torch.autograd.functional.jacobian(weights, scores)[top, top].item()
    return Evidence(
        deciding=f"largest of {ours.numel()} derivatives {largest:.4g}",
        written=(at_least("how far a score that moves by 1 moves a weight", moved, 0.01),),
        corrected=(
            at_most("largest derivative", largest, SMALL),
            equal(f"its row, where that of {own} is {top + 1}", place[0] + 1, top + 1),
            equal("its column", place[1] + 1, top + 1),
            equal(f"{own} by autograd in float64, which rounds it", rounded, 0.0),
            at_most("relative error against mpmath", off, 1e-12),
            at_most("how far a score that moves by 1 moves a weight", moved, SMALL),
        ),
        controls=(at_most("largest derivative where all scores are equal", flat, SMALL),),
        series={
            "z": list(z),
            "jacobian": ours.tolist(),
            f"{own} by autograd in float64": rounded,
        },
    )


def weights(scores: torch.Tensor) -> torch.Tensor:
    """Softmax as attention computes it: one query, keys whose products with it are the scores."""
    one = scores.new_ones(1, 1)
    return attend(one, scores[:, None], scores[:, None], beta=1.0).weights[0]


def jacobian(y: torch.Tensor) -> torch.Tensor:
    """yᵢ (δᵢⱼ − yⱼ), with 1 − yᵢ as the sum of the others: 1 − y itself would round to 0."""
    same = torch.eye(len(y), dtype=torch.bool)
    others = torch.where(same, 0.0, y).sum(-1)
    return torch.where(same, y * others, -torch.outer(y, y))


def plot(evidence: Evidence) -> Figure:
    numbers = np.abs(np.array(evidence.series["jacobian"]))
    labels = [f"{score:g}" for score in evidence.series["z"]]
    return heat(
        np.log10(numbers.clip(1e-300)),
        title="Every derivative of softmax at this z, as a power of ten",
        rows=("weight of", labels),
        columns=("with respect to the score", labels),
    )


def ask(numbers: np.random.Generator) -> Question:
    z = np.sort(numbers.choice(np.arange(-3, 4), 3, replace=False)).astype(float)
    y = np.exp(z - z.max())
    y /= y.sum()
    scores = ", ".join(f"{score:g}" for score in z)
    return Question(
        f"For $z = ({scores})$ and $y = \\mathrm{{softmax}}(z)$, what is "
        "$\\partial y_1 / \\partial z_2$?",
        float(-y[0] * y[1]),
        why=f"$-y_1 y_2$ with $y_1 = {y[0]:.4g}$ and $y_2 = {y[1]:.4g}$",
    )


CLAIM = Claim(
    id="softmax-jacobian",
    source="E 12.4",
    statement="For $z = (-3, 1, 100, 5, -1)$ all 25 derivatives of softmax are about zero, so "
    "softmax is very sensitive there.",
    verdict="corrected",
    truth="They are about zero, so it is insensitive there: saturated. The largest is "
    "$\\partial y_3/\\partial z_3 = y_3 \\sum_{j \\ne 3} y_j$, which $y_3 (1 - y_3)$ rounds to "
    "0 in float64.",
    measure=measure,
    plot=plot,
    ask=ask,
)
