"""Attention as messages along the edges of a graph: all pairs of tokens, loops included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.attention import attend, causal, window
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most, equal
from regard.lab.figures import maps
from regard.lab.oracles import apart
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(tokens: int = 12, width: int = 8, share: float = 0.3, seed: int = 0) -> Evidence:
    """Messages over a list of edges, in numpy, beside attention without and with masks.

    Args:
        tokens: nodes of the graph, 3 or more.
        width: numbers in a query, a key and a value.
        share: of all edges that a sparse graph has.
        seed: where the random numbers start.
    """
    enough(tokens=(tokens, 2))
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(tokens, width, generator=draw, dtype=torch.float64) for _ in range(3))
    nodes = range(tokens)
    all_pairs = torch.ones(tokens, tokens, dtype=torch.bool)
    sparse = torch.rand(tokens, tokens, generator=draw) < share
    sparse[0] = False  # a node that hears of none
    sparse[1, 2], sparse[2, 1] = True, False  # an edge one way
    near = causal & window(3)
    received = {
        "all": messages(edges_of(all_pairs), q, k, v),
        "sparse": messages(edges_of(sparse), q, k, v),
        "near": messages(edges_of(near(nodes, nodes)), q, k, v),
        "no loops": messages(edges_of(~torch.eye(tokens, dtype=torch.bool)), q, k, v),
        "other way": messages(edges_of(sparse.mT), q, k, v),
    }
    read = attend(q, k, v)
    of_sparse = attend(q, k, v, mask=sparse)
    return Evidence(
        deciding=f"{tokens**2} edges: {apart(received['all'], read.output):.1e} from attention",
        written=(
            equal("edges of the whole graph", float(len(edges_of(all_pairs))), float(tokens**2)),
            at_most(
                "all pairs: distance from attend", apart(received["all"], read.output), ROUNDING
            ),
            at_most(
                "a sparse graph: distance from attend with its mask",
                apart(received["sparse"], of_sparse.output),
                ROUNDING,
            ),
            at_most(
                f"{near}: distance from attend with it",
                apart(received["near"], attend(q, k, v, mask=near).output),
                ROUNDING,
            ),
        ),
        controls=(
            at_most(
                "all pairs without loops: distance from attend",
                apart(received["no loops"], read.output),
                ROUNDING,
            ),
            at_most(
                "edges the other way round: distance from attend with the mask",
                apart(received["other way"], of_sparse.output),
                ROUNDING,
            ),
        ),
        series={"edges": sparse.int().tolist(), "weights": of_sparse.weights.tolist()},
    )


def edges_of(adjacent: torch.Tensor) -> list[tuple[int, int]]:
    """(from, to) for each pair in which `to`, a row, may read `from`, a column."""
    return [(int(source), int(target)) for target, source in adjacent.nonzero().tolist()]


def messages(
    edges: list[tuple[int, int]], q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> torch.Tensor:
    """Each node's mean of what arrives, weighted by the exponential of each edge's score."""
    asks, keys, tells = q.numpy(), k.numpy(), v.numpy()
    total, received = np.zeros(len(asks)), np.zeros((len(asks), tells.shape[1]))
    for source, target in edges:
        strength = np.exp(asks[target] @ keys[source] / np.sqrt(keys.shape[1]))
        total[target] += strength
        received[target] += strength * tells[source]
    # Who hears of none has nothing: zeros.
    return torch.from_numpy(received / np.where(total, total, 1.0)[:, None])


def plot(evidence: Evidence) -> Figure:
    return maps(
        {"who hears of whom": evidence.series["edges"], "how much": evidence.series["weights"]},
        title="A sparse graph, and the weights on its edges",
        about="Rows are nodes that listen, columns those that speak; the first hears of none.",
    )


def ask(numbers: np.random.Generator) -> Question:
    n, w = int(numbers.integers(6, 40)), int(numbers.integers(2, 6))
    near = w * n - w * (w - 1) // 2
    return Question(
        f"Attention over ${n}$ tokens is a directed graph with loops. How many edges has it "
        f"without a mask, under a causal one, and if each token reads itself and the ${w - 1}$ "
        "before it? (three numbers, in this order)",
        (float(n * n), float(n * (n + 1) // 2), float(near)),
        tolerance=0.0,
        why=f"${n}^2$; ${n} \\cdot {n + 1} / 2$; ${w}$ each, less those that the first tokens lack",
    )


CLAIM = Claim(
    id="graph",
    source="C 1.4",
    statement="Attention is a graph network on a fully connected graph.",
    verdict="holds",
    truth="Messages over the list of all $N^2$ directed edges, loops included, give what attention "
    "reads; a mask is a sparser graph. Without the loops, or with edges turned round, they do not.",
    measure=measure,
    plot=plot,
    ask=ask,
)
