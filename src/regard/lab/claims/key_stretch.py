"""A longer key gets more weight if it points along the query, and less if it points against it."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.attention import attend
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_least, at_most, equal
from regard.lab.figures import lines
from regard.lab.oracles import exact_softmax
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEN = 1e-9  # a share by which a weight must grow to count as raised
ROUNDING = 1e-12


def measure(
    keys: int = 5, width: int = 8, alpha: float = 2.0, draws: int = 500, seed: int = 0
) -> Evidence:
    """In how many draws a key that is stretched gets a greater weight, by the sign of q·k.

    Args:
        keys: keys that the query may read.
        width: numbers in a query and a key.
        alpha: how far the key is stretched.
        draws: queries and keys that are drawn.
        seed: where the random numbers start.
    """
    if keys < 2 or draws < 1 or alpha <= 1:
        raise ValueError(
            f"keys={keys}, draws={draws}, alpha={alpha}: 2 keys, 1 draw, and α above 1"
        )
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(draws, n, width, generator=draw, dtype=torch.float64) for n in (1, keys, keys)
    )
    first = k[:, :1]
    product = (q * first).sum(-1, keepdim=True)
    pointing = {
        "along": first * product.sign(),
        "against": -first * product.sign(),
        "across": first - product / q.square().sum(-1, keepdim=True) * q,
    }

    def stretched(
        own: torch.Tensor, by: float = alpha, others: int = keys, beta: float = 1.0
    ) -> tuple[int, int, float]:
        """In how many draws its weight is raised and lowered, and its largest change in any."""
        before, after = (
            attend(q, torch.cat([s * own, k[:, 1:others]], 1), v[:, :others], beta=beta).weights[
                ..., 0
            ]
            for s in (1.0, by)
        )
        return (
            int((after > before * (1 + SEEN)).sum()),
            int((after < before * (1 - SEEN)).sum()),
            float((after - before).abs().max()),
        )

    along = torch.cat([pointing["along"], k[:, 1:]], 1)

    def weight(by: torch.Tensor) -> torch.Tensor:
        """Of the first key in the first draw."""
        longer = torch.cat([by * along[:1, :1], along[:1, 1:]], 1)
        return attend(q[:1], longer, v[:1], beta=1.0).weights[0, 0, 0]

    one = torch.ones((), dtype=torch.float64)
    rate = float(torch.autograd.functional.jacobian(weight, one))
    a, score = float(weight(one)), float((q[0] * along[0, :1]).sum())
    scores = (along[0] @ q[0, 0]).tolist()
    exact = float(exact_softmax([alpha * scores[0], *scores[1:]])[0])
    ours = float(weight(alpha * one))
    (rises, *_), (lifts, falls, _), (stirs, _, moved) = map(stretched, pointing.values())
    alone, alone_moved = itemgetter(0, 2)(stretched(pointing["along"], others=1))
    flat, flat_moved = itemgetter(0, 2)(stretched(pointing["along"], beta=0.0))
    alphas = np.linspace(1, 5, 41)
    return Evidence(
        deciding=f"raised: {rises} of {draws} along q, {lifts} against",
        inside=(
            equal("q·k > 0: draws in which it is raised", rises, draws),
            equal("q·k < 0: draws in which it is lowered", falls, draws),
            at_most("q·k = 0: its change, at the most", moved, ROUNDING),
            at_most("one key: its change, at the most", alone_moved, ROUNDING),
            at_most("β = 0: its change, at the most", flat_moved, ROUNDING),
            at_most("its weight against mpmath", abs(ours - exact), ROUNDING),
            at_most(
                "rate at which it grows, against β a (1 − a) q·k",
                abs(rate - a * (1 - a) * score),
                ROUNDING,
            ),
        ),
        outside=(
            # That it can be raised is said by one draw.
            at_least("q·k < 0: draws in which it is raised", lifts, 1),
            at_least("q·k = 0: draws in which it is raised", stirs, 1),
            at_least("one key: draws in which it is raised", alone, 1),
            at_least("β = 0: draws in which it is raised", flat, 1),
        ),
        controls=(
            at_least(
                "α = 1: draws in which it is raised", stretched(pointing["along"], by=1.0)[0], 1
            ),
            at_least(
                "q·k > 0, shrunk by α: draws in which it is raised",
                stretched(pointing["along"], by=1 / alpha)[0],
                1,
            ),
        ),
        series={
            "alpha": alphas.tolist(),
            **{
                name: [
                    float(
                        attend(
                            q[:1],
                            torch.cat([float(by) * own[:1], k[:1, 1:]], 1),
                            v[:1],
                            beta=1.0,
                        ).weights[0, 0, 0]
                    )
                    for by in alphas
                ]
                for name, own in pointing.items()
            },
        },
    )


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    names = {"q·k > 0": "along", "q·k = 0": "across", "q·k < 0": "against"}
    return lines(
        found["alpha"],
        {label: found[name] for label, name in names.items()},
        title="The weight of a key that is stretched",
        across="α, how far it is stretched",
        up="its weight",
    )


def ask(numbers: np.random.Generator) -> Question:
    score = float(numbers.choice([-2.0, -1.0, -0.5, 0.5, 1.0]))
    alpha = int(numbers.integers(2, 5))
    before, after = (1 / (1 + np.exp(-by * score)) for by in (1, alpha))
    return Question(
        f"Two keys have the scores ${score:g}$ and $0$; $\\beta = 1$. What is the weight of the "
        f"first, and what is it after this key is stretched by $\\alpha = {alpha}$? (two numbers, "
        "in this order)",
        (float(before), float(after)),
        why=f"its score becomes ${alpha * score:g}$; $1 / (1 + e^{{-s}})$",
    )


CLAIM = Claim(
    id="key-stretch",
    source="B 1.1f",
    statement="Stretching a key by $\\alpha > 1$ can raise its attention weight.",
    verdict="depends",
    truth="With $\\beta > 0$ and at least two keys it is raised for $q \\cdot k > 0$, lowered for "
    "$q \\cdot k < 0$ and unchanged for $q \\cdot k = 0$: its score is multiplied by $\\alpha$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
