"""With tokens as columns the map between tokens is KᵀQ: Q Kᵀ compares features instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.attention import attend, attend_channels
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most, equal
from regard.lab.figures import heat
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(width: int = 768, tokens: int = 6, seed: int = 0) -> Evidence:
    """Both maps, each beside what the library says it is: attention of tokens, and of channels.

    Args:
        width: numbers in a query, a key and a value.
        tokens: tokens in the sequence.
        seed: where the random numbers start.
    """
    enough(tokens=(tokens, 1))
    draw = torch.Generator().manual_seed(seed)
    # Tokens are columns, as the document has them; the library has them as rows.
    q, k, v = (torch.randn(width, tokens, generator=draw, dtype=torch.float64) for _ in range(3))
    rows = attend(q.mT, k.mT, v.mT)
    between_tokens = rows.output.mT

    scores = q @ k.mT
    map_written = (scores / width**0.5).softmax(-1)
    written = map_written @ v
    map_corrected = (k.mT @ q / width**0.5).softmax(0)  # a column is a query
    corrected = v @ map_corrected
    by_channels = attend_channels(q.mT, k.mT, v.mT, beta=width**-0.5).mT
    over_queries = v @ (k.mT @ q / width**0.5).softmax(1)

    off, right = far(written, between_tokens), far(corrected, between_tokens)
    large, small = list(map_written.shape), list(map_corrected.shape)
    return Evidence(
        deciding=f"{large} off by {off:.2g}, {small} by {right:.0e}",
        written=(
            equal("rows of the output", written.shape[0], width),
            equal("columns of the output", written.shape[1], tokens),
            at_most("softmax(Q Kᵀ/√d) V: off from attention between tokens", off, ROUNDING),
            at_least(
                f"variance of Q Kᵀ/√{width}, which its scale would keep at 1",
                float(scores.var(correction=0)) / width,
                0.5,
            ),
        ),
        corrected=(
            equal("rows of the map, one a key", map_corrected.shape[0], tokens),
            equal("columns of the map, one a query", map_corrected.shape[1], tokens),
            at_most("V softmax(KᵀQ/√d): off from attention between tokens", right, ROUNDING),
            at_most(
                "softmax(Q Kᵀ/√d) V: off from attention between channels",
                far(written, by_channels),
                ROUNDING,
            ),
            at_most(
                "variance of Q Kᵀ over the number of tokens, less 1",
                abs(float(scores.var(correction=0)) / tokens - 1),
                0.3,
            ),
        ),
        controls=(
            at_most(
                "V softmax(KᵀQ/√d) over queries: off from attention between tokens",
                far(over_queries, between_tokens),
                ROUNDING,
            ),
            at_most(
                "V softmax(KᵀQ): off from attention between channels",
                far(corrected, by_channels),
                ROUNDING,
            ),
        ),
        series={"map": rows.weights.tolist(), "width": width, "tokens": tokens},
    )


def far(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference."""
    return float((a - b).abs().max())


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    names = [str(at + 1) for at in range(found["tokens"])]
    width = found["width"]
    return heat(
        np.array(found["map"]).T,
        title="The map between tokens, KᵀQ: a column is a query and sums to 1",
        rows=("key", names),
        columns=("query", names),
        about=f"Q Kᵀ would have {width:,} × {width:,} cells, one for each pair of features.",
    )


def ask(numbers: np.random.Generator) -> Question:
    width = 16 * int(numbers.integers(2, 9))
    tokens = int(numbers.integers(3, 13))
    return Question(
        f"Tokens are columns: $Q$ and $K$ are $[{width}, {tokens}]$. How many weights has the map "
        "between tokens, $K^\\top Q$, and how many numbers has $Q K^\\top$? (two numbers, in this "
        "order)",
        (float(tokens**2), float(width**2)),
        tolerance=0.0,
        why=f"${tokens} \\times {tokens}$ and ${width} \\times {width}$",
    )


CLAIM = Claim(
    id="map-axis",
    source="A 1",
    statement="With tokens as columns, attention goes through $Q K^\\top$ of the shape "
    "$[768, 768]$ and ends as $[768, 6]$.",
    verdict="corrected",
    truth="The shape of the output is right, the map is not: $Q K^\\top$ compares features (and "
    "sums over 6 tokens, so that $\\sqrt{768}$ is not its scale). Tokens are compared by "
    "$V\\,\\mathrm{softmax}(K^\\top Q / \\sqrt{d})$, with a $6 \\times 6$ map.",
    measure=measure,
    plot=plot,
    ask=ask,
)
