"""The formula of one head, written with tokens as columns: which shapes multiply, and which not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, attend
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most, equal
from regard.lab.question import Question

ROUNDING = 1e-12


def measure(
    heads: int = 2,
    queries: int = 4,
    keys: int = 6,
    key_width: int = 3,
    value_width: int = 5,
    width: int = 7,
    seed: int = 0,
) -> Evidence:
    """Each product as it is written and as it must be, with every size another number.

    Args:
        heads: heads, h.
        queries: queries, n.
        keys: keys and values, m.
        key_width: numbers in a query and a key of one head, d.
        value_width: numbers in a value of one head, t.
        width: numbers in a token, e.
        seed: where the random numbers start.
    """
    enough(
        queries=(queries, 1), keys=(keys, 1), key_width=(key_width, 1), value_width=(value_width, 1)
    )
    draw = torch.Generator().manual_seed(seed)

    def columns(wide: int, many: int) -> Tensor:
        return torch.randn(heads, wide, many, generator=draw, dtype=torch.float64)

    q, k, v = columns(key_width, queries), columns(key_width, keys), columns(value_width, keys)
    beta = key_width**-0.5
    read, weights = attend(q.mT, k.mT, v.mT, beta=beta)
    by_hand = (beta * q.mT @ k).softmax(-1)  # queries × keys
    joined = (by_hand @ v.mT).transpose(0, 1).flatten(1)  # queries × (heads · t)
    fused = F.scaled_dot_product_attention(q.mT, k.mT, v.mT, scale=beta)

    written_out = torch.zeros(heads * key_width, key_width, dtype=torch.float64)
    wanted_out = torch.zeros(heads * value_width, width, dtype=torch.float64)
    layer = MultiHeadAttention(width, heads, head_width=key_width).double()
    tokens = torch.randn(queries, width, generator=draw, dtype=torch.float64)
    narrow = torch.zeros(queries, key_width, dtype=torch.float64)
    # As many keys as numbers in a value: now the product exists, and is not attention.
    square = columns(keys, keys)
    as_written, as_read = by_hand @ square, attend(q.mT, k.mT, square.mT, beta=beta).output
    rows, out = layer.to_out.in_features, layer.to_out.out_features
    return Evidence(
        deciding=f"({queries}×{keys})·({value_width}×{keys}) has no product",
        written=(
            equal("softmax(QᵀK) V has a product", fits(lambda: weights @ v), 1.0),
            equal(
                "the heads side by side times W^O of hd × d have a product",
                fits(lambda: joined @ written_out),
                1.0,
            ),
            equal("an output d wide fits the next layer", fits(lambda: layer(narrow)), 1.0),
        ),
        corrected=(
            at_most(
                "softmax(QᵀK) Vᵀ against the library: largest difference",
                float((by_hand @ v.mT - read).abs().max()),
                ROUNDING,
            ),
            at_most(
                "softmax(QᵀK) Vᵀ against torch: largest difference",
                float((by_hand @ v.mT - fused).abs().max()),
                ROUNDING,
            ),
            equal("width of the heads side by side: ht", joined.shape[1], heads * value_width),
            equal("width after a W^O of ht × e: e", (joined @ wanted_out).shape[1], width),
            equal("rows of the library's W^O: heads times their width", rows, heads * key_width),
            equal("its columns: the width of a token", out, width),
            equal("an output e wide fits the next layer", fits(lambda: layer(layer(tokens))), 1.0),
        ),
        controls=(
            at_most(
                "as many keys as numbers in a value: softmax(QᵀK) V against the library",
                float((as_written - as_read).abs().max()),
                ROUNDING,
            ),
            at_most(
                "softmax over queries: largest difference",
                float(((beta * q.mT @ k).softmax(-2) @ v.mT - read).abs().max()),
                ROUNDING,
            ),
            equal(
                "an output e + 1 wide fits the next layer",
                fits(lambda: layer(torch.cat([tokens, tokens[:, :1]], 1))),
                1.0,
            ),
        ),
        series={
            "softmax(QᵀK)": list(weights.shape[1:]),
            "V": list(v.shape[1:]),
            "heads side by side": list(joined.shape),
            "W^O as written": list(written_out.shape),
            "W^O as it must be": list(wanted_out.shape),
        },
    )


def fits(product: Callable[[], Tensor]) -> float:
    """1 if the shapes allow it, else 0."""
    try:
        product()
    except (RuntimeError, ValueError):
        return 0.0
    return 1.0


def ask(numbers: np.random.Generator) -> Question:
    d, t, e, n, m = (int(size) for size in numbers.choice(np.arange(3, 30), 5, replace=False))
    heads = int(numbers.integers(2, 9))
    return Question(
        f"${heads}$ heads with keys of width ${d}$ and values of width ${t}$ let ${n}$ queries "
        f"read ${m}$ keys; tokens have the width ${e}$. The reads of all heads stand side by side "
        "in a row for each query. How many rows and columns must the matrix $W^O$ on their right "
        "have, for layers to stack? (two numbers, in this order)",
        (float(heads * t), float(e)),
        tolerance=0.0,
        why=f"${heads} \\cdot {t}$ numbers come in, and ${e}$ must come out",
    )


CLAIM = Claim(
    id="head-formula",
    source="B 1.2a and 1.3a",
    statement="A head is $H_i = \\mathrm{softmax}_\\beta(Q_i^\\top K_i) V_i$, and the heads are "
    "projected by $W^O \\in \\mathbb{R}^{hd \\times d}$.",
    verdict="corrected",
    truth="With tokens as columns the product needs $V_i^\\top$. Values are $t$ wide, so the heads "
    "side by side are $ht$ wide, not $hd$; and for self-attention to stack, $W^O$ must lead back "
    "to the width $e$ of a token: $W^O \\in \\mathbb{R}^{ht \\times e}$.",
    measure=measure,
    ask=ask,
)
