"""Self-attention as a layer that copies each token, or moves each to another's place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, learned, watch
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_most
from regard.lab.figures import maps
from regard.lab.oracles import apart
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAME = 1e-9


def measure(tokens: int = 6, width: int = 16, beta: float = 1e4, seed: int = 0) -> Evidence:
    """Layers with weights by construction, and no residual, on random tokens of length 1.

    Args:
        tokens: tokens of the sequence, 3 or more and no more than the width.
        width: numbers in a token.
        beta: how sharply the layer chooses.
        seed: where the random numbers start.
    """
    if not 3 <= tokens <= width:
        raise UserError(f"tokens={tokens} do not lie in 3 … width={width}")
    draw = torch.Generator().manual_seed(seed)
    x = F.normalize(torch.randn(tokens, width, generator=draw, dtype=torch.float64), dim=-1)
    same, backwards = torch.eye(width, dtype=torch.float64), x.flip(0)
    shift = torch.roll(torch.arange(tokens), 1)  # whom each position is to read

    copy = layer(same, same, same, beta)
    soft = layer(same, same, same, 1.0)
    # Longer tokens match everything better, so a token no longer matches itself best.
    uneven = torch.cat([x[:1], 2 * x[:1], x[2:]])

    # Each position's code asks for the code of the position that it is to read.
    place = learned(tokens, width + tokens).double()
    there = torch.eye(tokens, dtype=torch.float64)
    place.table.data = F.pad(there, (width, 0))
    move = layer(
        F.pad(there[shift].mT, (width, 0, width, 0)),
        F.pad(there, (width, 0, width, 0)),
        F.pad(same, (0, tokens, 0, tokens)),
        beta,
    )

    def moved(tokens_now: torch.Tensor) -> torch.Tensor:
        placed = place.embed(F.pad(tokens_now, (0, tokens)), range(tokens))
        return move(placed)[:, :width]

    # Without positions a query can ask for another token by what it is, in any order it stands.
    by_content = layer((torch.linalg.pinv(x) @ x[shift]).mT, same, same, beta)
    swap = layer(same, -same, same, beta)
    with torch.no_grad():
        maps = {
            "copies": map_of(copy, x),
            "shifts": map_of(move, place.embed(F.pad(x, (0, tokens)), range(tokens))),
            "copies, β = 1": map_of(soft, x),
        }
        return Evidence(
            deciding=f"off by {apart(copy(x), x):.1g}; with β = 1 by {apart(soft(x), x):.2g}",
            written=(
                at_most("copies, by content: largest difference", apart(copy(x), x), SAME),
                at_most("shifts, by position", apart(moved(x), x[shift]), SAME),
                at_most(
                    "shifts the tokens in another order too",
                    apart(moved(backwards), backwards[shift]),
                    SAME,
                ),
                at_most(
                    "shifts these very tokens, by content", apart(by_content(x), x[shift]), SAME
                ),
                at_most("swaps two tokens, by content", apart(swap(x[:2]), x[:2].flip(0)), SAME),
            ),
            controls=(
                at_most("copies with β = 1", apart(soft(x), x), SAME),
                at_most(
                    "copies tokens of which one is twice another", apart(copy(uneven), uneven), SAME
                ),
                at_most(
                    "shifts the tokens in another order, by content alone",
                    apart(by_content(backwards), backwards[shift]),
                    SAME,
                ),
            ),
            series={"maps": {name: found.tolist() for name, found in maps.items()}},
        )


def layer(
    to_q: torch.Tensor, to_k: torch.Tensor, to_v: torch.Tensor, beta: float
) -> MultiHeadAttention:
    """One head with these weights, whose output is what it read."""
    made = MultiHeadAttention(len(to_q), 1, bias=False, beta=beta).double()
    made.to_q.weight.data, made.to_k.weight.data, made.to_v.weight.data = to_q, to_k, to_v
    made.to_out.weight.data = torch.eye(len(to_q), dtype=torch.float64)
    return made


def map_of(made: MultiHeadAttention, x: torch.Tensor) -> torch.Tensor:
    with watch(made) as seen:
        made(x)
    return seen["MultiHeadAttention"].weights()[0]


def plot(evidence: Evidence) -> Figure:
    return maps(
        evidence.series["maps"],
        title="Maps that copy, and that move, every token",
        about="Rows are queries, columns keys; the first two are of 0 and 1.",
        one_scale=True,
    )


def ask(numbers: np.random.Generator) -> Question:
    n = int(numbers.integers(3, 9))
    share = float(numbers.choice([0.9, 0.95, 0.99]))
    cosine = float(numbers.choice([0.2, 0.4, 0.5, 0.6]))
    beta = math.log(share / (1 - share) * (n - 1)) / (1 - cosine)
    return Question(
        f"${n}$ tokens of length 1 have the product ${cosine}$ with one another. With "
        "$W_Q = W_K = I$, how large must $\\beta$ be for each token to read itself with a weight "
        f"of ${share}$?",
        beta,
        why=f"$\\beta = \\ln({share} \\cdot {n - 1} / (1 - {share})) / (1 - {cosine})$",
    )


CLAIM = Claim(
    id="as-identity",
    source="B 1.3c",
    statement="With suitable weights self-attention is an identity layer or a permutation layer.",
    verdict="holds",
    truth="By content it copies wherever every token matches itself best, $q_i \\cdot k_i > "
    "q_i \\cdot k_j$, and $\\beta$ is large. A fixed permutation of three or more tokens needs "
    "positions: without them the layer commutes with every reordering, and no other permutation "
    "does. Two tokens can be swapped by content.",
    measure=measure,
    plot=plot,
    ask=ask,
)
