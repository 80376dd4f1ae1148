"""The map has a row for each query and a column for each key, and its rows sum to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.attention import MultiHeadAttention, attend, watch
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most, equal
from regard.lab.figures import heat
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(
    batch: int = 2, tokens: int = 6, heads: int = 3, width: int = 12, seed: int = 0
) -> Evidence:
    """The map of a real layer, whole and with a query that may read nothing.

    Args:
        batch: sequences.
        tokens: tokens of each, 3 or more.
        heads: heads of the layer; they split the width.
        width: numbers in a token.
        seed: where the random numbers start.
    """
    enough(batch=(batch, 1), tokens=(tokens, 2))
    torch.manual_seed(seed)
    layer = MultiHeadAttention(width, heads).double()
    x = torch.randn(batch, tokens, width, dtype=torch.float64)
    found = map_of(layer, x)
    blind = torch.ones(tokens, tokens, dtype=torch.bool)
    blind[1] = False
    masked = map_of(layer, x, blind)
    once = x.clone().requires_grad_()
    out = layer(once, mask=blind)
    out.square().sum().backward()
    assert once.grad is not None
    numbers = torch.cat([t.detach().flatten() for t in (found, masked, out, once.grad)])
    # As one would write it down: a row of −∞ alone is 0/0.
    written_down = torch.zeros(tokens, tokens).masked_fill(~blind, -torch.inf).softmax(-1)

    # Rows are queries: another query changes its own row, another key a whole column.
    q, k = torch.randn(2, tokens, width, dtype=torch.float64)
    queries, offered = q.clone(), k.clone()
    queries[0] += 1.0
    offered[0] += 1.0
    before = attend(q, k, k).weights
    of_query = (attend(queries, k, k).weights - before).abs()
    of_key = (attend(q, offered, k).weights - before).abs()
    seen = (masked.sum(-1) - 1).abs()
    seeing = [row for row in range(tokens) if row != 1]
    return Evidence(
        deciding=f"{tuple(found.shape)}, rows sum to 1 ± {largest(found.sum(-1) - 1):.0e}",
        written=(
            *(
                equal(f"{name} of the map", float(have), float(want))
                for name, have, want in zip(
                    ("sequences", "heads", "rows", "columns"),
                    found.shape,
                    (batch, heads, tokens, tokens),
                    strict=True,
                )
            ),
            at_most("how far a row's sum is from 1", largest(found.sum(-1) - 1), ROUNDING),
            at_most("another query: how far other rows change", largest(of_query[1:]), ROUNDING),
            at_most(
                "one query that may read nothing: how far other rows' sums are from 1",
                largest(seen[..., seeing]),
                ROUNDING,
            ),
            equal("… and the sum of its own row", largest(masked.sum(-1)[..., 1]), 0.0),
            equal(
                "numbers that are none, in maps, output and gradient",
                float((~numbers.isfinite()).sum()),
                0.0,
            ),
        ),
        controls=(
            at_most("how far a column's sum is from 1", largest(found.sum(-2) - 1), ROUNDING),
            at_most("another key: how far other rows change", largest(of_key[1:]), ROUNDING),
            equal(
                "softmax of a row of −∞, by itself: numbers that are none",
                float((~written_down.isfinite()).sum()),
                0.0,
            ),
        ),
        series={"map": masked[0, 0].tolist(), "whole": found[0, 0].tolist()},
    )


def map_of(
    layer: MultiHeadAttention, x: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    with torch.no_grad(), watch(layer) as seen:
        layer(x, mask=mask)
    return seen["MultiHeadAttention"].weights()


def largest(x: torch.Tensor) -> float:
    return float(x.abs().max())


def plot(evidence: Evidence) -> Figure:
    found = np.array(evidence.series["map"])
    names = [str(token) for token in range(len(found))]
    return heat(
        found,
        title="One head's map; query 1 may read nothing",
        rows=("query", names),
        columns=("key", names),
        about="Every row sums to one, but for that of a query that may read nothing.",
    )


def ask(numbers: np.random.Generator) -> Question:
    b, h, n = (int(numbers.integers(low, high)) for low, high in ((2, 9), (2, 13), (5, 65)))
    return Question(
        f"A layer with ${h}$ heads reads ${b}$ sequences of ${n}$ tokens. How many numbers are in "
        "its maps, and what do all of them sum to? (two numbers, in this order)",
        (float(b * h * n * n), float(b * h * n)),
        tolerance=0.0,
        why=f"${b} \\cdot {h}$ maps of ${n} \\times {n}$, and $1$ for each of their rows",
    )


CLAIM = Claim(
    id="map-shape",
    source="C 1.2",
    statement="The attention map is (tokens, tokens); its rows are queries and sum to one.",
    verdict="holds",
    truth="One such map for each sequence and head. Softmax runs over keys, so rows sum to one; a "
    "query that may read nothing has a row of zeros, and no NaN arises.",
    measure=measure,
    plot=plot,
    ask=ask,
)
