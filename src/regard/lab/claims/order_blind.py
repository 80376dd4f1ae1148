"""Without positions and masks, shuffled tokens come out as before, shuffled: for which mixers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import (
    Mask,
    MultiHeadAttention,
    PositionalEncoding,
    alibi,
    attend,
    learned,
    learned_2d,
    make_attention,
    relative_bias,
    rope,
    rope_2d,
    sinusoidal,
    sinusoidal_2d,
)
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import bars
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-10
SHUFFLES = 3
MIXERS = (
    "softmax",
    "linear(elu)",
    "linear(relu)",
    "linear(random(64))",
    "linear(taylor)",
    "linear(learned)",
    "channel",
)


def measure(
    width: int = 16, heads: int = 2, rows: int = 3, columns: int = 4, seed: int = 0
) -> Evidence:
    """Sa[XP] against Sa[X]P for every mixer, mask and scheme of positions of the library.

    Args:
        width: numbers in a token; the heads split it, and 4 divides the width of a head.
        heads: heads of a layer.
        rows: tokens are the cells of a grid, with so many rows.
        columns: and so many columns.
        seed: where the random numbers start.
    """
    enough(width=(width, 1), heads=(heads, 1), rows=(rows, 1), columns=(columns, 1))
    draw = torch.Generator().manual_seed(seed)
    n, d = rows * columns, width // heads
    x = torch.randn(n, width, generator=draw, dtype=torch.float64)
    orders = [torch.randperm(n, generator=draw) for _ in range(SHUFFLES)]

    def shuffled(
        place: PositionalEncoding | None = None, *, along: bool = False, **options: Any
    ) -> float:
        """How far the two differ; `along` lets tokens keep their positions when they move."""
        layer = (
            MultiHeadAttention(width, heads, pos_embed=place, **options)
            .double()
            .requires_grad_(False)
        )
        for parameter in layer.parameters():
            parameter.normal_(0, parameter.shape[-1] ** -0.5, generator=draw)
        found = [mixed(layer, x[order], order if along else None) for order in orders]
        whole = mixed(layer, x, torch.arange(n) if along else None)
        return max(
            float((ours - whole[order]).norm() / whole.norm())
            for ours, order in zip(found, orders, strict=True)
        )

    blind = {name: shuffled(attention=make_attention(name, d)) for name in MIXERS}
    blind["hard"] = shuffled(attention=attend, beta=math.inf)
    masked = {name: shuffled(mask=Mask.parse(name)) for name in masks(rows, columns)}
    schemes = places(n, width, heads, (rows, columns))
    placed = {name: shuffled(place) for name, place in schemes.items()}
    kept = {name: shuffled(place, along=True) for name, place in schemes.items()}
    worst, least = max(blind.values()), min(masked, key=masked.__getitem__)
    return Evidence(
        deciding=f"{len(blind)} mixers: {worst:.0e}; rotary positions: {placed['rope']:.2f}",
        written=(
            *(
                at_most(f"{name}: Sa[XP] against Sa[X]P, relative", error, ROUNDING)
                for name, error in blind.items()
            ),
            at_least(
                f"{len(placed)} schemes of positions: the least difference",
                min(placed.values()),
                1e-3,
            ),
            at_most(
                "tokens that take their positions along: the largest", max(kept.values()), ROUNDING
            ),
        ),
        controls=(
            at_most("causal: difference", masked["causal"], ROUNDING),
            at_most(f"the least among {len(masked)} masks, {least}", masked[least], ROUNDING),
        ),
        series={
            "blind to order": blind,
            "masks": masked,
            "positions": placed,
            "positions that move along": kept,
        },
    )


def mixed(layer: MultiHeadAttention, x: Tensor, positions: Tensor | None) -> Tensor:
    """A layer with its scheme of positions: some are added before it, others act inside."""
    where = range(len(x)) if positions is None else positions
    read: Tensor = layer(layer.pos_embed.embed(x, where), positions=where)
    return read


def masks(rows: int, columns: int) -> tuple[str, ...]:
    """Every mask and pattern of the library, with small numbers."""
    grid, n = (rows, columns), rows * columns
    return (
        "causal",
        "window(2)",
        "dilated(2, 2)",
        "strided(3)",
        "blocks(4)",
        "block_summary(4, 1)",
        "sinks(2)",
        "prefix(4)",
        "global_tokens(2)",
        f"random_keys(3, {n})",
        f"neighborhood(1, {grid})",
        f"axial({grid})",
        f"grid_windows(2, {grid})",
        "longformer(2, 1)",
        f"bigbird(2, 1, 1, {n})",
        "sparse_transformer(3)",
        "sparse_transformer_fixed(4, 1)",
    )


def places(
    n: int, width: int, heads: int, grid: tuple[int, int]
) -> Mapping[str, PositionalEncoding]:
    """Every scheme of positions of the library."""
    return {
        "sinusoidal": sinusoidal(width),
        "sinusoidal on a grid": sinusoidal_2d(grid, width),
        "learned": learned(n, width),
        "learned on a grid": learned_2d(grid, width),
        "rope": rope(),
        "rotary on a grid": rope_2d(grid),
        "alibi": alibi(heads),
        "relative bias": relative_bias(heads, 3),
    }


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    shown = {
        "softmax": found["blind to order"]["softmax"],
        "hard": found["blind to order"]["hard"],
        "linear": found["blind to order"]["linear(elu)"],
        "channels": found["blind to order"]["channel"],
        "causal mask": found["masks"]["causal"],
        "window mask": found["masks"]["window(2)"],
        "learned positions": found["positions"]["learned"],
        "rotary positions": found["positions"]["rope"],
    }
    return bars(
        {name: max(value, 1e-17) for name, value in shown.items()},
        title="Shuffle the tokens: do the same reads come out, shuffled?",
        up="difference, relative",
        log=True,
        about="Rounding means yes (an exact 0 is drawn as 10⁻¹⁷). A mask and positions break it.",
    )


LAYERS = {
    "softmax attention": "yes",
    "softmax attention with a causal mask": "no",
    "linear attention": "yes",
    "softmax attention with a window of ${} tokens": "no",
    "attention between channels": "yes",
    "softmax attention with learned positions": "no",
    "hard attention ($\\beta \\to \\infty$)": "yes",
    "linear attention with a causal mask": "no",
}


def ask(numbers: np.random.Generator) -> Question:
    n, near = int(numbers.integers(6, 40)), int(numbers.integers(2, 5))
    layer = str(numbers.choice(list(LAYERS)))
    description = layer.replace("{}", f"{near}$")
    return Question(
        f"${n}$ tokens without positions pass one layer of {description}. They are shuffled "
        "and pass again. Does the same come out for each token, whatever the tokens and the "
        "shuffle?"
        if "learned" not in layer
        else f"${n}$ tokens pass one layer of {description}. They are shuffled and pass again. "
        "Does the same come out for each token, whatever the tokens and the shuffle?",
        LAYERS[layer],
        choices=("yes", "no"),
        why="only what no token's place enters keeps $Sa[XP] = Sa[X]P$",
    )


CLAIM = Claim(
    id="order-blind",
    source="B 1.3b and E 12.3",
    statement="Without positions, unmasked self-attention is equivariant to permutations, "
    "$Sa[XP] = Sa[X]P$; positions break this.",
    verdict="holds",
    truth="Weights depend on the contents of two tokens, and sums over keys on no order. So it is "
    "for softmax, hard, linear and channel attention; any mask by position (causal, windows, "
    "axial, dilated, and all others) breaks it as positions do.",
    measure=measure,
    plot=plot,
    ask=ask,
)
