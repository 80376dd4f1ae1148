"""Divided by d instead of √d, all scores shrink to zero: the map is uniform and hardly learns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from regard.attention import MultiHeadAttention, attend
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

BATCH, TRAINED = 16, 64  # of the training, and the width that is trained
RATES = (1.0, 3.0, 5.0, 10.0, 18.0)
DIVISORS = {"√d": TRAINED**-0.5, "d": 1 / TRAINED, "nothing": 1.0}


def measure(
    widths: tuple[int, ...] = (4, 16, 64, 256, 1024), keys: int = 8, steps: int = 60, seed: int = 0
) -> Evidence:
    """Scores, weights and gradients against the width, and a small training with each divisor.

    Every divisor is trained at several learning rates, of which its own best counts.

    Args:
        widths: widths of queries and keys, from narrow to wide.
        keys: keys that each query may read; at least five.
        steps: steps of the training.
        seed: where the random numbers start.
    """
    enough(widths=(widths, 2))
    if keys < 5 or steps < 1 or len(widths) < 2:
        raise ValueError(
            f"keys={keys}, steps={steps}, widths={widths}: 5 keys, a step and 2 widths at least"
        )
    by_root = [figures(d, d**-0.5, keys, seed) for d in widths]
    by_width = [figures(d, 1 / d, keys, seed) for d in widths]
    runs = {
        name: {rate: trained(beta, keys, seed, steps, rate) for rate in RATES}
        for name, beta in DIVISORS.items()
    }
    best = {name: min(tried, key=lambda rate: tried[rate][-1]) for name, tried in runs.items()}
    last = {name: tried[best[name]][-1] for name, tried in runs.items()}
    names = ("standard deviation of scores", "gradient to q", "distance from uniform")
    wide = f"d = {widths[-1]} over d = {widths[0]}"

    def kept(found: list[dict[str, float]], name: str) -> float:
        return found[-1][name] / found[0][name]

    return Evidence(
        deciding=f"best loss: by d {last['d']:.2g}, by √d {last['√d']:.2g}",
        written=(
            at_most("best loss, divided by d over divided by √d", last["d"] / last["√d"], 1),
            at_most("best loss, divided by d over not divided", last["d"] / last["nothing"], 1),
            *(at_least(f"1/d: {name}, {wide}", kept(by_width, name), 0.5) for name in names),
        ),
        corrected=(
            at_most("best loss, divided by √d over divided by d", last["√d"] / last["d"], 0.5),
            *(at_least(f"1/√d: {name}, {wide}", kept(by_root, name), 0.5) for name in names),
            *(at_most(f"1/d: {name}, {wide}", kept(by_width, name), 0.5) for name in names),
            at_most(
                "1/√d: standard deviation of scores, less 1, at the most",
                max(abs(each[names[0]] - 1) for each in by_root),
                0.2,
            ),
        ),
        controls=(
            # With values that are all the same there is nothing to learn by either divisor.
            at_least(
                "1/√d, all values the same: gradient to q",
                figures(widths[0], widths[0] ** -0.5, keys, seed, same=True)["gradient to q"],
                1e-6,
            ),
            at_most(
                "loss by √d after training over the one before, at a learning rate of 0",
                last_over_first(trained(DIVISORS["√d"], keys, seed, steps=5, rate=0.0)),
                0.5,
            ),
        ),
        series={
            "d": list(widths),
            **{f"{name}, 1/√d": [each[name] for each in by_root] for name in names},
            **{f"{name}, 1/d": [each[name] for each in by_width] for name in names},
            "loss at the best rate, by divisor": {n: runs[n][best[n]] for n in runs},
            "last loss by divisor and rate": {
                name: {str(rate): json_number(losses[-1]) for rate, losses in tried.items()}
                for name, tried in runs.items()
            },
        },
        notes=(
            f"Best of the learning rates {', '.join(f'{rate:g}' for rate in RATES)}: "
            + ", ".join(f"{rate:g} for division by {name}" for name, rate in best.items())
            + f". One head {TRAINED} wide, {steps} steps of plain gradient descent.",
            "Not to divide at all is neither better nor worse for certain at this width: it bears "
            "fewer rates, and which loss it ends at depends on the rate and on the batch.",
        ),
    )


def figures(
    d: int, beta: float, keys: int, seed: int, samples: int = 256, same: bool = False
) -> dict[str, float]:
    """What random queries of this width find."""
    draw = torch.Generator().manual_seed(seed)
    q, k, v, up = (
        torch.randn(samples, n, wide, generator=draw, dtype=torch.float64)
        for n, wide in ((1, d), (keys, d), (keys, 8), (1, 8))
    )
    v = v[:, :1].expand_as(v) if same else v
    q.requires_grad_()
    read, weights = attend(q, k, v, beta=beta)
    (to_q,) = torch.autograd.grad((read * up).sum(), q)
    with torch.no_grad():
        return {
            "standard deviation of scores": float((beta * q @ k.mT).square().mean().sqrt()),
            "gradient to q": float(to_q.norm(dim=-1).median()),
            "distance from uniform": float((weights - 1 / keys).abs().sum(-1).mean()),
        }


def trained(beta: float, keys: int, seed: int, steps: int, rate: float) -> list[float]:
    """Losses while one head learns to find the token that equals the query, from the same weights.

    Plain gradient descent: every 1/d costs what it costs.
    """
    draw = torch.Generator().manual_seed(seed)
    layer = MultiHeadAttention(TRAINED, 1, beta=beta, bias=False).double()
    weights = list(layer.parameters())
    with torch.no_grad():
        for weight in weights:
            weight.normal_(std=TRAINED**-0.5, generator=draw)
    losses = []
    for _ in range(steps):
        context = torch.randn(BATCH, keys, TRAINED, generator=draw, dtype=torch.float64)
        x = context[:, :4]
        loss = (layer(x, context) - x).square().mean()
        with torch.no_grad():
            for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                weight.sub_(rate * slope)
        # A rate that is too large ends in no number, which is as bad as a loss can be.
        losses.append(loss.item() if loss.isfinite() else math.inf)
    return losses


def last_over_first(losses: list[float]) -> float:
    return losses[-1] / losses[0]


def json_number(loss: float) -> float | str:
    """JSON has no word for infinity."""
    return loss if math.isfinite(loss) else "diverged"


def plot(evidence: Evidence) -> Figure:
    found = evidence.series["loss at the best rate, by divisor"]
    names = {"√d": "divided by √d", "nothing": "not divided", "d": "divided by d"}
    return lines(
        [float(step) for step in range(1, len(found["d"]) + 1)],
        {label: found[name] for name, label in names.items()},
        title="Learning to find a token, from the same weights",
        across="step",
        up="loss",
        log="y",
        about=f"One head {TRAINED} wide, plain gradient descent, each at the best of "
        f"{len(RATES)} learning rates.",
    )


def ask(numbers: np.random.Generator) -> Question:
    d = int(numbers.choice([16, 25, 36, 49, 64, 100, 144]))
    score = int(math.sqrt(d)) * int(numbers.integers(1, 4))
    by_root, by_width = (1 / (1 + math.exp(-score / by)) for by in (math.sqrt(d), d))
    return Question(
        f"A query of width ${d}$ has the products ${score}$ and $0$ with two keys. Which weight "
        "does the first key get if they are divided by $\\sqrt{d}$, and which if they are divided "
        "by $d$? (two numbers, in this order)",
        (by_root, by_width),
        why=f"softmax of $({score / math.sqrt(d):g}, 0)$ and of $({score / d:.4g}, 0)$",
    )


CLAIM = Claim(
    id="divide-by-dk",
    source="D",
    statement="Dividing the scores by $d_k$ makes the algorithm easier to train.",
    verdict="corrected",
    truth="By $\\sqrt{d_k}$, as its own formula has it. Divided by $d_k$, scores have a standard "
    "deviation of $1/\\sqrt{d_k}$: weights go uniform, and gradients fall with the width.",
    measure=measure,
    plot=plot,
    ask=ask,
)
