"""Softmax makes one distribution a query: what other queries ask changes nothing in its row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.attention import attend
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import heat
from regard.lab.oracles import exact_softmax
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12
SEEN = 1e-3  # a change of a weight that is clearly seen


def measure(queries: int = 5, keys: int = 6, width: int = 8, seed: int = 0) -> Evidence:
    """Change all queries but the first, and see what that does to the weights of the first.

    Args:
        queries: queries that read; at least two.
        keys: keys that each may read.
        width: numbers in a query and in a key.
        seed: where the random numbers start.
    """
    enough(queries=(queries, 1), keys=(keys, 1), width=(width, 1))
    draw = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(n, width, generator=draw, dtype=torch.float64) for n in (queries, keys))
    new = torch.randn(queries, width, generator=draw, dtype=torch.float64)
    others, own = torch.cat([q[:1], new[1:]]), torch.cat([new[:1], q[1:]])
    beta = width**-0.5

    row = weights(q, k)[0]
    by_others = far(weights(others, k)[0], row)
    exact = exact_softmax((q[0] @ k.mT).tolist(), beta)
    off = max(abs(ours - float(want)) for ours, want in zip(row.tolist(), exact, strict=True))
    # What the words say: the importance of a key among all queries.
    across = [(x @ k.mT * beta).softmax(0)[0] for x in (q, others)]

    slopes = torch.autograd.functional.jacobian(lambda x: weights(x, k), q)  # n m n d
    felt = slopes.norm(dim=(1, 3))  # query whose weights, query that moves
    apart = felt - felt.diag().diag()
    return Evidence(
        deciding=f"other queries move the row by {by_others:.2g}",
        written=(
            at_least("how far other queries move the weights of the first", by_others, SEEN),
            at_most("weights of a key over all queries: their sum less 1", uneven(q, k, 0), SEEN),
        ),
        corrected=(
            at_most("how far other queries move the weights of the first", by_others, ROUNDING),
            at_most("derivative of a query's weights by another query", apart.max(), ROUNDING),
            at_most(
                "weights of a query over all keys: their sum less 1", uneven(q, k, 1), ROUNDING
            ),
            at_most("the first row: off from mpmath, without the other queries", off, ROUNDING),
        ),
        controls=(
            at_most("how far its own query moves it", far(weights(own, k)[0], row), ROUNDING),
            at_most("softmax over queries: how far others move it", far(*across), ROUNDING),
        ),
        series={"felt": felt.tolist()},
    )


def weights(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return attend(q, k, k).weights


def far(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())


def uneven(q: torch.Tensor, k: torch.Tensor, axis: int) -> float:
    """How far the sums of the weights along an axis are from one."""
    return float((weights(q, k).sum(axis) - 1).abs().max())


def plot(evidence: Evidence) -> Figure:
    felt = np.array(evidence.series["felt"])
    names = [str(at + 1) for at in range(len(felt))]
    return heat(
        felt,
        title="Each query moves its own weights, and no other's",
        rows=("weights of query", names),
        columns=("query that is moved", names),
        about="The size of the derivative of a row of weights with respect to each query.",
    )


def ask(numbers: np.random.Generator) -> Question:
    first = numbers.choice(np.arange(-2, 4), 2, replace=False)
    second = numbers.choice(np.arange(-2, 4), 2, replace=False)
    weight = 1 / (1 + np.exp(float(first[1] - first[0])))
    return Question(
        f"Two queries read two keys. The scores of the first query are $({first[0]}, {first[1]})$, "
        f"those of the second $({second[0]}, {second[1]})$. Which weight does the first query give "
        "to the first key?",
        float(weight),
        why=f"$1 / (1 + e^{{{first[1] - first[0]}}})$; the second query has no part in it",
    )


CLAIM = Claim(
    id="softmax-per-query",
    source="A 2.1",
    statement="Softmax gives the importance of each key in the context of all queries.",
    verdict="corrected",
    truth="In the context of all keys: softmax makes one distribution over the keys for each "
    "query by itself, and another query changes nothing in it.",
    measure=measure,
    plot=plot,
    ask=ask,
)
