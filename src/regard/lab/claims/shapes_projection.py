"""Tokens as columns or as rows: the same projections, and Q, K, V with the shape of X."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from regard.attention import MultiHeadAttention
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_most, equal
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np

ROUNDING = 1e-12


def measure(width: int = 768, tokens: int = 6, seed: int = 0) -> Evidence:
    """Project the tokens of one layer in both layouts, with the same weights.

    Args:
        width: numbers in a token, and in what it is projected to.
        tokens: tokens in the sequence.
        seed: where the random numbers start.
    """
    if width < 2 or tokens < 1:
        raise ValueError(f"width={width}, tokens={tokens}: 2 numbers in a token, and 1 token")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(width, 1, bias=False).double()
        narrow = MultiHeadAttention(width, 1, head_width=width // 2, bias=False).double()
        rows = torch.randn(tokens, width, dtype=torch.float64)
    columns = rows.mT
    projections = {"Q": layer.to_q, "K": layer.to_k, "V": layer.to_v}
    with torch.no_grad():
        by_columns = {name: each.weight @ columns for name, each in projections.items()}
        by_rows = {name: each(rows) for name, each in projections.items()}
        # The fault that layouts invite: W kept as it is when the tokens are turned.
        unturned = {name: rows @ each.weight for name, each in projections.items()}
        of_narrow = [
            tuple((each.weight @ columns).shape) for each in (narrow.to_q, narrow.to_k, narrow.to_v)
        ]
    shapes = {name: tuple(found.shape) for name, found in by_columns.items()}
    wanted = (width, tokens)
    off = max(float((by_columns[name] - by_rows[name].mT).abs().max()) for name in shapes)
    wrong = min(float((by_columns[name] - unturned[name].mT).abs().max()) for name in shapes)
    return Evidence(
        deciding=f"Q, K, V: {list(shapes['Q'])}, rows: {list(by_rows['Q'].shape)}",
        written=(
            equal(
                f"of Q, K and V = W X, those of the shape {list(wanted)}",
                sum(shape == wanted for shape in shapes.values()),
                3,
            ),
            equal(
                f"with tokens as rows, X Wᵀ: those of the shape {[tokens, width]}",
                sum(tuple(found.shape) == wanted[::-1] for found in by_rows.values()),
                3,
            ),
            at_most("difference between W X and X Wᵀ, turned", off, ROUNDING),
        ),
        controls=(
            at_most("difference if W is not turned with the layout", wrong, ROUNDING),
            equal(
                f"W of {list(narrow.to_q.weight.shape)}: of Q, K and V those of that shape",
                sum(shape == wanted for shape in of_narrow),
                3,
            ),
        ),
        series={
            "tokens as columns": {name: list(shape) for name, shape in shapes.items()},
            "tokens as rows": {name: list(found.shape) for name, found in by_rows.items()},
        },
    )


def ask(numbers: np.random.Generator) -> Question:
    width = 64 * int(numbers.integers(2, 13))
    narrow = 16 * int(numbers.integers(1, 8))
    tokens = int(numbers.integers(3, 12))
    return Question(
        f"$X$ has the shape $[{width}, {tokens}]$, with tokens as columns, and $W_Q$ the shape "
        f"$[{narrow}, {width}]$. How many rows and how many columns has $Q = W_Q X$? "
        "(two numbers, in this order)",
        (float(narrow), float(tokens)),
        tolerance=0.0,
        why="as many rows as $W_Q$ has, and a column for each token",
    )


CLAIM = Claim(
    id="shapes-projection",
    source="A 1",
    statement="$X$ is $[768, 6]$ with tokens as columns and each $W$ is $[768, 768]$, so $Q$, $K$ "
    "and $V$ are $[768, 6]$.",
    verdict="holds",
    truth="$W X$ takes each column by itself, so tokens stay columns. With tokens as rows, as in "
    "most code, the same is $X W^\\top$ and has the shape $[6, 768]$.",
    measure=measure,
    ask=ask,
)
