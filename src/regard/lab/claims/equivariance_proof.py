"""The proof that shuffled tokens come out shuffled: where PᵀP = I does not help, and what does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from regard.attention import attend
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import maps
from regard.lab.oracles import relative
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(width: int = 8, tokens: int = 6, seed: int = 0) -> Evidence:
    """Each step of the proof as a number, with tokens as columns as in the document.

    Args:
        width: numbers in a token.
        tokens: tokens, N; three or more.
        seed: where the random numbers start.
    """
    enough(tokens=(tokens, 1))
    draw = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    x, weights = random(width, tokens), random(3, width, width) / width**0.5
    p = torch.eye(tokens, dtype=torch.float64)[:, shuffle(tokens, draw)]
    turn = torch.linalg.qr(random(tokens, tokens)).Q  # orthogonal too, and no permutation

    def layer(columns: Tensor) -> tuple[Tensor, Tensor]:
        """Sa and its map, whose columns sum to one: one for each query."""
        q, k, v = weights @ columns
        read, shares = attend(q.T, k.T, v.T, beta=1.0)
        return read.T, shares.T

    q, k, v = weights @ x
    sa, shares = layer(x)
    moved, moved_shares = layer(x @ p)
    by_hand = torch.exp(k.T @ q) / torch.exp(k.T @ q).sum(0)
    wrong = v @ p @ shares
    right = v @ p @ p.T @ by_hand @ p
    turned, _ = layer(x @ turn)
    missed = relative(wrong, moved)
    return Evidence(
        deciding=f"VP·Softmax[KᵀQ] misses Sa[XP] by {missed:.0%}",
        written=(at_most("VP·Softmax[KᵀQ] against Sa[XP], relative", missed, ROUNDING),),
        corrected=(
            at_least("VP·Softmax[KᵀQ] against Sa[XP], relative", missed, 0.1),
            at_most(
                "(KP)ᵀQP against Pᵀ(KᵀQ)P, relative",
                relative((k @ p).T @ (q @ p), p.T @ k.T @ q @ p),
                ROUNDING,
            ),
            at_most(
                "the map of XP against PᵀSoftmax[KᵀQ]P, relative",
                relative(moved_shares, p.T @ by_hand @ p),
                ROUNDING,
            ),
            at_most(
                "VP·PᵀSoftmax[KᵀQ]P against Sa[XP], relative", relative(right, moved), ROUNDING
            ),
            at_most("Sa[XP] against Sa[X]P, relative", relative(sa @ p, moved), ROUNDING),
            at_most("PPᵀ against I", float((p @ p.T - torch.eye(tokens)).abs().max()), 0.0),
        ),
        controls=(
            at_most(
                "orthogonal, no permutation: Sa[XR] against Sa[X]R, relative",
                relative(sa @ turn, turned),
                ROUNDING,
            ),
            at_most(
                "the map of XP against Softmax[KᵀQ], relative",
                relative(moved_shares, by_hand),
                ROUNDING,
            ),
        ),
        series={
            "Softmax[KᵀQ] of X": shares.tolist(),
            "the same of XP": moved_shares.tolist(),
            "PᵀSoftmax[KᵀQ]P": (p.T @ by_hand @ p).tolist(),
        },
    )


def shuffle(tokens: int, draw: torch.Generator) -> Tensor:
    """An order in which every token has moved on along one random circle."""
    circle = torch.randperm(tokens, generator=draw)
    order = torch.empty_like(circle)
    order[circle] = circle.roll(1)
    return order


def plot(evidence: Evidence) -> Figure:
    return maps(
        dict(evidence.series),
        title="The map moves with the tokens: its rows and its columns",
        about="A column is a query. The proof as written keeps the first map for shuffled tokens.",
        one_scale=True,
    )


def ask(numbers: np.random.Generator) -> Question:
    tens = [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.1, 0.7]]
    rows = [list(numbers.permutation(row)) for row in tens]
    while True:
        order = numbers.permutation(3)
        if np.any(order != np.arange(3)):
            break
    i, j = (int(at) for at in numbers.choice(3, 2, replace=False))
    description = "; ".join(
        f"token {at + 1} reads tokens 1, 2, 3 with $" + ", ".join(f"{w:g}" for w in row) + "$"
        for at, row in enumerate(rows)
    )
    new = ", ".join(str(at + 1) for at in order)
    return Question(
        f"Self-attention without positions has this map: {description}. The same tokens are now "
        f"given in the order ${new}$ (old numbers). With which weight does the token that is now "
        f"number {i + 1} read the one that is now number {j + 1}?",
        float(rows[order[i]][order[j]]),
        tolerance=1e-6,
        why=f"old token {order[i] + 1} reads old token {order[j] + 1}: rows and columns both move",
    )


CLAIM = Claim(
    id="equivariance-proof",
    source="E 12.3",
    statement="Since $P^\\top P = I$, $Sa[XP] = VP \\cdot \\mathrm{Softmax}[K^\\top Q]$, which "
    "is equivalent to $Sa[X]P$.",
    verdict="corrected",
    truth="$(KP)^\\top QP = P^\\top K^\\top Q P$, and softmax of it is "
    "$P^\\top \\mathrm{Softmax}[K^\\top Q] P$, since $P$ only moves entries. So "
    "$Sa[XP] = VP P^\\top \\mathrm{Softmax}[K^\\top Q] P = Sa[X]P$, by $P P^\\top = I$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
