"""Hard or soft is one question, which β answers; self or cross is another, which it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.attention import MultiHeadAttention, watch
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

CLOSE = 1e-3  # to all of the weight on one key, or to equal weights
KINDS = ("self", "cross")


def measure(
    tokens: int = 6, width: int = 8, large: float = 1e5, small: float = 1e-5, seed: int = 0
) -> Evidence:
    """One layer as self- and as cross-attention, with β from small to large.

    Args:
        tokens: tokens of either sequence; at least two.
        width: numbers in a token.
        large: a β that is called large.
        small: a β that is called small.
        seed: where the random numbers start.
    """
    enough(tokens=(tokens, 1), width=(width, 1))
    draw = torch.Generator().manual_seed(seed)
    x, context, other = (
        torch.randn(tokens, width, generator=draw, dtype=torch.float64) for _ in range(3)
    )
    layer = MultiHeadAttention(width, 1, bias=False).double()
    with torch.no_grad():
        for projection in (layer.to_q, layer.to_k, layer.to_v, layer.to_out):
            projection.weight.normal_(std=width**-0.5, generator=draw)

    def weights(kind: str, beta: float) -> Tensor:
        layer.beta = beta
        with torch.no_grad(), watch(layer) as seen:
            layer(x, None if kind == "self" else context)
            (found,) = seen.values()
            return found.weights()[0]

    def from_hard(kind: str, beta: float) -> float:
        """How much weight the best keys leave to others, at the most."""
        return float((1 - weights(kind, beta).amax(-1)).max())

    def from_soft(kind: str, beta: float) -> float:
        return float((weights(kind, beta) - 1 / tokens).abs().max())

    def from_elsewhere(kind: str, beta: float) -> float:
        """How far the output moves where the other sequence is another one."""
        layer.beta = beta
        with torch.no_grad():
            if kind == "self":  # it is given no other sequence, but is beside it in a batch
                a, b = (layer(torch.stack([x, each]))[0] for each in (context, other))
            else:
                a, b = (layer(x, each) for each in (context, other))
            return float((a - b).abs().max())

    betas = torch.logspace(-3, 3, 31, dtype=torch.float64).tolist()
    hard, soft = from_hard("self", large), from_soft("self", small)
    elsewhere = {
        (kind, beta): from_elsewhere(kind, beta) for kind in KINDS for beta in (small, large)
    }
    return Evidence(
        deciding=f"self: {hard:.1g} from hard, {soft:.1g} from soft",
        written=(
            at_least("self-attention, large β: weight beside the best key", hard, 0.01),
            at_least("self-attention, small β: distance from equal weights", soft, 0.01),
        ),
        corrected=(
            at_most("self-attention, large β: weight beside the best key", hard, CLOSE),
            at_most("self-attention, small β: distance from equal weights", soft, CLOSE),
            at_most(
                "cross-attention, large β: weight beside the best key",
                from_hard("cross", large),
                CLOSE,
            ),
            at_most(
                "cross-attention, small β: distance from equal weights",
                from_soft("cross", small),
                CLOSE,
            ),
            at_least(
                "cross-attention, either β: change with another sequence",
                min(elsewhere["cross", beta] for beta in (small, large)),
                0.01,
            ),
            at_most(
                "self-attention, either β: change with another sequence",
                max(elsewhere["self", beta] for beta in (small, large)),
                1e-12,
            ),
        ),
        controls=tuple(
            at_most(words, value, CLOSE)
            for kind in KINDS
            for words, value in (
                (f"{kind}-attention, β = 1: weight beside the best key", from_hard(kind, 1.0)),
                (f"{kind}-attention, β = 1: distance from equal weights", from_soft(kind, 1.0)),
            )
        ),
        series={
            "beta": betas,
            **{
                f"{kind}-attention": [float(weights(kind, b).amax(-1).mean()) for b in betas]
                for kind in KINDS
            },
        },
    )


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        found["beta"],
        {name: found[name] for name in ("self-attention", "cross-attention")},
        title="From soft to hard, whoever is read",
        across="β",
        up="weight of the best key, mean over queries",
        log="x",
    )


def ask(numbers: np.random.Generator) -> Question:
    hard, cross = bool(numbers.integers(2)), bool(numbers.integers(2))
    beta = f"{numbers.integers(1, 10)}000" if hard else f"0.000{numbers.integers(1, 10)}"
    source = "Y" if cross else "X"
    answer = f"{'hard' if hard else 'soft'} {'cross' if cross else 'self'}-attention"
    return Question(
        f"Queries come from the tokens $X$, keys and values from the tokens ${source}$, scores "
        f"are whole numbers from $-10$ to $10$, no two of a query equal, and "
        f"$\\beta = {beta}$. What is this?",
        answer,
        choices=tuple(
            f"{how} {what}-attention" for how in ("hard", "soft") for what in ("self", "cross")
        ),
        why="β tells hard from soft, and where the keys come from tells self from cross",
    )


CLAIM = Claim(
    id="attention-types",
    source="B 1.1c, d",
    statement="A large $\\beta$ gives hard cross-attention, and a small $\\beta$ soft "
    "cross-attention.",
    verdict="corrected",
    truth="Hard and soft are right, cross is another matter: it says that keys and values come "
    "from another sequence, whatever $\\beta$ is. Self-attention has the same two limits.",
    measure=measure,
    plot=plot,
    ask=ask,
)
