"""Residual sums keep the gradient of the first block alive; without a norm it may explode."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question
from regard.models import MLP, Block, init_weights

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

FLAT = 10.0  # a gradient that changes less than this between few blocks and many is called flat
MOST = 1e300  # stands for what float64 cannot hold


class Wiring(NamedTuple):
    """How the blocks of a stack are put together, and how their weights start."""

    residual: bool
    norm: Literal["none", "pre", "post"]
    init: Literal["xavier_uniform", "trunc_normal"] = "xavier_uniform"


WIRINGS = {
    "neither residual nor norm": Wiring(False, "none"),
    "norm alone": Wiring(False, "pre"),
    "residual alone": Wiring(True, "none"),
    "residual, norm before": Wiring(True, "pre"),
    "residual alone, small weights": Wiring(True, "none", "trunc_normal"),
}


def measure(
    depths: tuple[int, ...] = (2, 4, 8, 16, 32, 64),
    width: int = 32,
    tokens: int = 8,
    heads: int = 4,
    seed: int = 0,
) -> Evidence:
    """The norm of the first block's gradient, of a fixed read-out, in stacks of growing depth.

    Weights start as in 2017 (Xavier, uniform), or small (normals of 0.02, divided by √(2 · depth)
    where they are added to the stream).

    Args:
        depths: blocks in the stacks, from few to many.
        width: numbers in a token.
        tokens: tokens that are read.
        heads: heads of each attention.
        seed: where the random numbers start.
    """
    enough(depths=(depths, 2), width=(width, 1), tokens=(tokens, 1))
    found = {
        name: [first_gradient(wiring, depth, width, tokens, heads, seed) for depth in depths]
        for name, wiring in WIRINGS.items()
    }
    grown = {name: values[-1] / values[0] for name, values in found.items()}
    deep, most = f"{depths[-1]} blocks", f"{depths[-1]} blocks over {depths[0]}"
    bare = max(found["neither residual nor norm"][-1], 1 / MOST)
    inside = []
    for name in ("residual, norm before", "residual alone, small weights"):
        inside += [
            at_most(f"{name}: gradient of {most}", grown[name], FLAT),
            at_least(f"{name}: gradient of {most}", grown[name], 1 / FLAT),
            at_least(f"{name}: gradient over that of neither, {deep}", found[name][-1] / bare, 1e6),
        ]
    return Evidence(
        deciding=f"×{grown['residual, norm before']:.2g} with norm, "
        f"×{grown['residual alone']:.0e} without",
        inside=tuple(inside),
        outside=(at_most(f"residual alone: gradient of {most}", grown["residual alone"], FLAT),),
        controls=(
            at_least(
                f"neither residual nor norm: gradient of {most}",
                grown["neither residual nor norm"],
                1 / FLAT,
            ),
        ),
        series={"depth": [float(depth) for depth in depths], **found},
        notes=("gradients before the first step of training; training itself is not measured",),
    )


def first_gradient(
    wiring: Wiring, depth: int, width: int, tokens: int, heads: int, seed: int
) -> float:
    """The norm of the gradient of all weights of the first block."""
    draw = torch.Generator().manual_seed(seed)
    x, direction = torch.randn(2, tokens, width, generator=draw, dtype=torch.float64)
    blocks = make_blocks(wiring, depth, width, heads, seed)
    *_, y = stream(blocks, wiring, x)
    if wiring.residual and wiring.norm == "pre":  # such a stack ends with a norm
        y = nn.functional.layer_norm(y, (width,))
    weights = [each for each in blocks[0].parameters() if each.ndim == 2]
    gradients = torch.autograd.grad((y * direction).sum(), weights)
    size = math.sqrt(sum(float(each.square().sum()) for each in gradients))
    return min(size, MOST) if math.isfinite(size) else MOST


def make_blocks(wiring: Wiring, depth: int, width: int, heads: int, seed: int) -> list[Block]:
    """Blocks of the library with fresh weights, in float64."""
    from regard.attention import MultiHeadAttention

    norm = nn.Identity if wiring.norm == "none" else partial(nn.LayerNorm, width)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        blocks = [
            Block(
                MultiHeadAttention(width, heads),
                MLP(width, 4 * width),
                norm=norm,
                norm_first=wiring.norm != "post",
            )
            for _ in range(depth)
        ]
        init_weights(nn.ModuleList(blocks), wiring.init, depth)
    return [block.double() for block in blocks]


def stream(blocks: list[Block], wiring: Wiring, x: Tensor) -> Iterable[Tensor]:
    """What there is after each block; without residuals, each sub-layer is given the last alone."""
    for block in blocks:
        if wiring.residual:
            x = block(x)
        else:
            x = block.attention(block.attention_norm(x))
            x = block.mlp(block.mlp_norm(x))
        yield x


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    shown = {name: [max(value, 1e-30) for value in found[name]] for name in WIRINGS}
    shown["residual alone"] = [min(value, 1e30) for value in shown["residual alone"]]
    return lines(
        found["depth"],
        shown,
        title="The gradient of the first block, before training",
        across="blocks",
        up="norm, cut at 10⁻³⁰ and 10³⁰",
        log="y",
        about="Weights start as in 2017, unless they are said to be small.",
    )


def ask(numbers: np.random.Generator) -> Question:
    depth = int(numbers.integers(4, 13))
    slope = float(numbers.integers(1, 6)) / 10
    return Question(
        f"Each of ${depth}$ layers computes $f(x) = {slope:g} x$. By which factor does the "
        "gradient of the input differ from that of the output without residuals, $f(f(\\ldots))$, "
        "and with them, $x + f(x)$ in each layer? (two numbers, in this order)",
        (slope**depth, (1 + slope) ** depth),
        why=f"${slope:g}^{{{depth}}}$ and ${1 + slope:g}^{{{depth}}}$: the first vanishes, and "
        "the second grows, unless a norm or small weights keep what is added small",
    )


CLAIM = Claim(
    id="residual",
    source="C 2.2",
    statement="Residual updates, $x + \\mathrm{Attention}(x)$ and $x + \\mathrm{MLP}(x)$ without a "
    "norm, improve the flow of gradients and stabilise training.",
    verdict="depends",
    truth="With a norm before each sub-layer, or weights that start small, the gradient of the "
    "first block stays as it is however deep the stack. As published, without a norm, it no longer "
    "vanishes with the weights of 2017, but explodes.",
    measure=measure,
    plot=plot,
    ask=ask,
)
