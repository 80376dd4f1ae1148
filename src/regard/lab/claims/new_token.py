"""A token appended under a causal mask: no old row moves, and one new row is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard.attention import KVCache, MultiHeadAttention, attend, causal, watch
from regard.lab.claim import Claim
from regard.lab.counting import Counting, enough
from regard.lab.evidence import Evidence, at_least, at_most, equal
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

ROUNDING = 1e-12
SEEN = 1e-3  # a change that is clearly seen


def measure(
    tokens: int = 12,
    width: int = 16,
    heads: int = 2,
    longer: tuple[int, ...] = (16, 64, 256, 1024),
    seed: int = 0,
) -> Evidence:
    """The rows before and after one more token, and what that token costs.

    Args:
        tokens: tokens that are there before, N.
        width: numbers in a token, D.
        heads: heads of the layer.
        longer: other numbers of tokens, at which the cost is counted for the picture.
        seed: where the random numbers start.
    """
    enough(tokens=(tokens, 1))
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(width, heads, mask=causal, attention=attend).double()
        open_layer = MultiHeadAttention(width, heads, attention=attend).double()
        x = torch.randn(tokens + 1, width, dtype=torch.float64)
    open_layer.load_state_dict(layer.state_dict())
    old, new = x[:-1], x[-1:]
    with torch.no_grad(), watch(layer) as watching:
        after = layer(x)
    (seen,) = watching.values()
    maps = seen.weights()  # h n m
    with torch.no_grad():
        before, before_open = layer(old), open_layer(old)
        appended = gap(after[:-1], before)
        unmasked = gap(open_layer(x)[:-1], before_open)
        prepended = gap(layer(torch.cat([new, old]))[1:], before)
    step, keys, cost = one_step(layer, old, new)
    hand = 4 * width**2 + 2 * (tokens + 1) * width
    return Evidence(
        deciding=f"old rows move by {appended:.2g}; the new meets {keys} keys",
        written=(
            at_least("how far the old outputs move", appended, SEEN),
            at_least("weight of the new key for an old query", float(maps[:, :-1, -1].max()), SEEN),
        ),
        corrected=(
            at_most("how far the old outputs move", appended, ROUNDING),
            equal("weight of the new key for any old query", float(maps[:, :-1, -1].max()), 0),
            equal("keys that the new query meets: N + 1", keys, tokens + 1),
            at_least(
                "least weight of its own key for the new query", float(maps[:, -1, -1].min()), 1e-6
            ),
            at_most("new row from kept keys, from all anew", gap(step, after[-1:]), ROUNDING),
            equal("multiply-adds for it: 4D² + 2(N + 1)D", cost, hand),
        ),
        controls=(
            at_most("no mask: how far the old outputs move", unmasked, ROUNDING),
            at_most("prepended: how far the old outputs move", prepended, ROUNDING),
            equal("all anew: multiply-adds", anew(layer, x), hand),
        ),
        series={
            "tokens": [float(n) for n in longer],
            "from kept keys and values": [next_cost(layer, n) for n in longer],
            "all anew": [anew(layer, x.new_zeros(n + 1, width)) for n in longer],
        },
    )


def one_step(layer: MultiHeadAttention, old: Tensor, new: Tensor) -> tuple[Tensor, int, int]:
    """The new row from a cache of the old keys, how many keys it met, and its multiply-adds."""
    n = len(old)
    cache = KVCache()
    with torch.no_grad():
        layer(old, positions=range(n), cache=cache)
        with Counting() as counts:
            row = layer(new, positions=range(n, n + 1), cache=cache)
    return row, len(cache), counts.products


def next_cost(layer: MultiHeadAttention, tokens: int) -> float:
    """The multiply-adds of one more token after so many, whose keys and values are kept."""
    like = layer.to_q.weight
    cache = KVCache()
    blank = like.new_zeros(layer.heads, tokens, layer.head_width)
    cache.append(blank, blank, range(tokens))
    with torch.no_grad(), Counting() as counts:
        layer(like.new_zeros(1, like.shape[1]), positions=range(tokens, tokens + 1), cache=cache)
    return float(counts.products)


def anew(layer: MultiHeadAttention, x: Tensor) -> float:
    """The multiply-adds of a pass over all tokens."""
    with torch.no_grad(), Counting() as counts:
        layer(x)
    return float(counts.products)


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        found["tokens"],
        {name: found[name] for name in ("all anew", "from kept keys and values")},
        title="What one more token costs",
        across="tokens before it",
        up="multiply-adds of the layer",
        log="xy",
        about="Under a causal mask no old row changes, so nothing has to be computed twice.",
    )


def ask(numbers: np.random.Generator) -> Question:
    n, d = int(numbers.integers(10, 1000)), int(numbers.choice([16, 32, 64, 128]))
    return Question(
        f"Under a causal mask ${n}$ tokens of ${d}$ numbers were read, one head, and their keys "
        "and values kept. A token is appended. How many products of a query and a key are new, and "
        "how many multiply-adds do they and the sum of the values take, without the projections? "
        "(two numbers)",
        (float(n + 1), float(2 * (n + 1) * d)),
        tolerance=0.0,
        why=f"the new query meets all ${n}$ keys and its own; each takes ${d}$ multiply-adds, and "
        "so does each value",
    )


CLAIM = Claim(
    id="new-token",
    source="E 12.7",
    statement="To add a token to masked self-attention, weights and outputs are computed anew: the "
    "new key is compared with all queries.",
    verdict="corrected",
    truth="Appended under a causal mask it is read by no old query, so no old row changes. Its "
    "query meets $N + 1$ keys, its own among them: $O(ND + D^2)$ with kept keys and values. "
    "Without a mask, or prepended, it does change the old rows.",
    measure=measure,
    plot=plot,
    ask=ask,
)
