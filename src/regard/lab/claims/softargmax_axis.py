"""Columns of QᵀK belong to keys: softargmax along them sums to one over the wrong thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from regard.attention import attend
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most
from regard.lab.figures import bars
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(
    queries: int = 4, keys: int = 6, width: int = 8, beta: float = 0.35, seed: int = 0
) -> Evidence:
    """Both forms beside the library's, on random values and on values that are all one.

    Args:
        queries: queries that read.
        keys: keys that each may read; at least two.
        width: numbers in a query, a key and a value.
        beta: what scores are multiplied by.
        seed: where the random numbers start.
    """
    enough(queries=(queries, 1), keys=(keys, 1))
    draw = torch.Generator().manual_seed(seed)
    # Vectors are columns, as the document has them.
    q, k, v = (
        torch.randn(width, n, generator=draw, dtype=torch.float64) for n in (queries, keys, keys)
    )
    ones = torch.ones_like(v)
    by_keys = (beta * (q.mT @ k)).softmax(0)  # each column of QᵀK: over the queries
    by_queries = (beta * (k.mT @ q)).softmax(0)  # each column of KᵀQ: over the keys
    along_rows = (beta * (k.mT @ q)).softmax(1)
    read = attend(q.mT, k.mT, v.mT, beta=beta).output.mT
    sums = (by_keys @ ones.mT)[:, 0]
    right = ones @ by_queries
    return Evidence(
        deciding=f"values of 1: {sums.max():.3g} as written, {right.max():.3g} corrected",
        written=(
            at_most("softargmax(QᵀK) Vᵀ, values of 1: off from 1", far(sums, 1), ROUNDING),
            at_most(
                "softargmax(QᵀK) Vᵀ: off from attention", far(by_keys @ v.mT, read.mT), ROUNDING
            ),
        ),
        corrected=(
            at_most("V softargmax(KᵀQ), values of 1: off from 1", far(right, 1), ROUNDING),
            at_most("V softargmax(KᵀQ): off from attention", far(v @ by_queries, read), ROUNDING),
            at_most(
                "columns of softargmax(QᵀK): what they sum to over queries, less 1",
                far(by_keys.sum(0), 1),
                ROUNDING,
            ),
        ),
        controls=(
            at_most(
                "V softargmax(KᵀQ) along rows, values of 1: off from 1",
                far(ones @ along_rows, 1),
                ROUNDING,
            ),
            at_most(
                "V softargmax(KᵀQ) with twice the β: off from attention",
                far(v @ (2 * beta * (k.mT @ q)).softmax(0), read),
                ROUNDING,
            ),
        ),
        series={"sums": sums.tolist()},
    )


def far(a: Tensor, b: Tensor | int) -> float:
    return float((a - b).abs().max())


def plot(evidence: Evidence) -> Figure:
    sums = evidence.series["sums"]
    return bars(
        {f"query {at + 1}": value for at, value in enumerate(sums)},
        title="What a query reads where every value is 1",
        up="read, by the form that is written",
        about="Weights that sum to one over the keys read 1 here.",
    )


def ask(numbers: np.random.Generator) -> Question:
    scores = numbers.integers(-2, 4, (2, 2))
    columns = np.exp(scores) / np.exp(scores).sum(0)
    matrix = "; ".join(", ".join(str(each) for each in row) for row in scores)
    return Question(
        f"$Q^\\top K = [{matrix}]$, with a row for each of two queries and $\\beta = 1$. If "
        "softargmax is applied to its columns, what do the two weights of the first query sum to?",
        float(columns[0].sum()),
        why=f"${columns[0, 0]:.4g} + {columns[0, 1]:.4g}$, which is 1 only by chance",
    )


CLAIM = Claim(
    id="softargmax-axis",
    source="B 1.1a",
    statement="$H = \\mathrm{softargmax}_\\beta(Q^\\top K) V^\\top$, with softargmax applied to "
    "columns.",
    verdict="corrected",
    truth="A column of $Q^\\top K$ belongs to one key, and would share it out among the queries. "
    "Weights sum to one over the keys in $H = V\\,\\mathrm{softargmax}_\\beta(K^\\top Q)$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
