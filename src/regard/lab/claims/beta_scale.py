"""Why β = 1/√d: without it a typical query stops learning as heads widen, but not every one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.attention import attend
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

VALUES = 8  # numbers in a value: a few, as their width plays no part
FIGURES = ("entropy", "to scores, mean", "to scores, median", "to q, mean", "to q, median")


def measure(
    widths: tuple[int, ...] = (4, 16, 64, 256, 1024, 4096),
    keys: int = 8,
    samples: int = 192,
    seed: int = 0,
) -> Evidence:
    """Entropy and gradients of random queries against the width, with 1/√d and without it.

    Args:
        widths: widths of queries and keys, from narrow to wide.
        keys: keys that each query may read.
        samples: queries, each with keys and values of its own.
        seed: where the random numbers start.
    """
    enough(widths=(widths, 2), keys=(keys, 2), samples=(samples, 1))
    scaled, unscaled, variances = [], [], []
    for d in widths:
        draw = torch.Generator().manual_seed(seed)
        q, k, v, up = (
            torch.randn(samples, n, wide, generator=draw, dtype=torch.float64)
            for n, wide in ((1, d), (keys, d), (keys, VALUES), (1, VALUES))
        )
        variances.append(float((q @ k.mT).square().mean()) / d)
        scaled.append(figures(q, k, v, up, d**-0.5))
        unscaled.append(figures(q, k, v, up, 1.0))

    def ratio(name: str) -> float:
        """What is left at the widest of what was there at the narrowest, without the scale."""
        return unscaled[-1][name] / unscaled[0][name]

    def spread(name: str) -> float:
        found = [each[name] for each in scaled]
        return max(found) / min(found)

    unlike = max(abs(each - 1) for each in variances)
    wide = f"d = {widths[-1]} over d = {widths[0]}"
    return Evidence(
        deciding=f"unscaled: median gradient to q × {ratio('to q, median'):.1e}",
        inside=(
            at_most("variance of q·k over d, less 1, at the most", unlike, 0.2),
            *(at_most(f"1/√d: {name}, largest over smallest", spread(name), 2) for name in FIGURES),
            at_most(f"unscaled: entropy, {wide}", ratio("entropy"), 0.2),
            at_most(f"unscaled: median gradient to scores, {wide}", ratio(FIGURES[2]), 1e-3),
            at_most(f"unscaled: median gradient to q, {wide}", ratio(FIGURES[4]), 1e-3),
            at_most("gradient to q: off from the formula", scaled[0]["off"], 1e-10),
        ),
        outside=(
            at_most(f"unscaled: mean gradient to q, {wide}, vanishes", ratio(FIGURES[3]), 0.1),
            at_least(f"unscaled: mean gradient to q, {wide}, explodes", ratio(FIGURES[3]), 30),
        ),
        controls=(
            at_most(
                f"1/√d: median gradient to q, {wide}",
                scaled[-1][FIGURES[4]] / scaled[0][FIGURES[4]],
                1e-3,
            ),
        ),
        series={
            "d": list(widths),
            **{
                f"{name}, {scale}": [each[name] for each in found]
                for name in FIGURES
                for scale, found in (("1/√d", scaled), ("unscaled", unscaled))
            },
        },
        notes=(
            "Unscaled means rest on the few queries that waver between two keys: they are "
            "rough, and need more --samples than medians do.",
        ),
    )


def figures(q: Tensor, k: Tensor, v: Tensor, up: Tensor, beta: float) -> dict[str, float]:
    """How sharp the weights of some queries are, and the gradients of what they read along `up`."""
    q = q.clone().requires_grad_()
    # Added to the scores, so that its gradient is theirs.
    nothing = torch.zeros_like(k[..., 0]).unsqueeze(1).requires_grad_()
    read, weights = attend(q, k, v, bias=nothing, beta=beta)
    to_q, to_scores = torch.autograd.grad((read * up).sum(), (q, nothing))
    with torch.no_grad():
        to_weights = up @ v.mT
        by_hand = beta * (weights * (to_weights - (weights * to_weights).sum(-1, keepdim=True))) @ k
        sizes_q, sizes_scores = (each.norm(dim=-1).flatten() for each in (to_q, to_scores))
        return {
            "entropy": float(torch.special.entr(weights).sum(-1).mean()),
            "to scores, mean": float(sizes_scores.mean()),
            "to scores, median": float(sizes_scores.median()),
            "to q, mean": float(sizes_q.mean()),
            "to q, median": float(sizes_q.median()),
            "off": float((to_q - by_hand).abs().max()),
        }


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    names = ("to q, median, 1/√d", "to q, mean, unscaled", "to q, median, unscaled")
    return lines(
        [float(d) for d in found["d"]],
        {name.removeprefix("to q, "): found[name] for name in names},
        title="The gradient that arrives at a query",
        across="width d of queries and keys",
        up="size of the gradient",
        log="xy",
        about="Unscaled, most queries get nothing; a few that waver between two keys get much.",
    )


def ask(numbers: np.random.Generator) -> Question:
    d = int(numbers.choice([16, 36, 64, 100, 144, 256]))
    spread = int(numbers.integers(2, 5))
    return Question(
        f"The ${d}$ numbers of a query and of a key are independent, with mean 0 and variance 1; "
        f"then the query is made ${spread}$ times as large. What is the standard deviation of "
        "$q \\cdot k$, and which $\\beta$ brings it to 1? (two numbers, in this order)",
        (spread * d**0.5, 1 / (spread * d**0.5)),
        why=f"the variance is ${spread}^2 \\cdot {d}$",
    )


CLAIM = Claim(
    id="beta-scale",
    source="A 2.1, B 1.1b, D",
    statement="$\\beta = 1/\\sqrt{d}$ is convenient: without it softmax saturates and gradients "
    "vanish (or explode).",
    verdict="depends",
    truth="The variance of $q \\cdot k$ is $d$, so unscaled weights saturate and the gradient of a "
    "typical query vanishes. The mean does neither, it levels off: ever fewer queries waver "
    "between two keys, and the gradients of these grow with $\\sqrt{d}$. With $1/\\sqrt{d}$ all of "
    "these stay level.",
    measure=measure,
    plot=plot,
    ask=ask,
)
