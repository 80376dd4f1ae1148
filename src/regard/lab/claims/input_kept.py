"""The input in the stream: residuals keep adding to it, and what they add may come to drown it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.claims.residual import Wiring, make_blocks, stream
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question
from regard.models import Block

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

SEEN = 0.4  # a cosine with the input from which on the input is called a part of the output
ROUNDING = 1e-12
WIRINGS = {
    "no residuals": Wiring(False, "none"),
    "residuals, norm after": Wiring(True, "post"),
    "residuals, norm before": Wiring(True, "pre"),
    "residuals, norm before, small weights": Wiring(True, "pre", "trunc_normal"),
}


def measure(
    blocks: int = 64, width: int = 32, tokens: int = 16, heads: int = 4, seed: int = 0
) -> Evidence:
    """The cosine of the input and of what there is after each block, all tokens together.

    Args:
        blocks: blocks in the stack; at least 2.
        width: numbers in a token.
        tokens: tokens that are read.
        heads: heads of each attention.
        seed: where the random numbers start.
    """
    enough(width=(width, 1))
    if blocks < 2:
        raise UserError(f"blocks={blocks}: at least 2, so that few compare with many")
    draw = torch.Generator().manual_seed(seed)
    x, stranger = torch.randn(2, tokens, width, generator=draw, dtype=torch.float64)
    cosines: dict[str, list[float]] = {}
    missing: dict[str, float] = {}
    for name, wiring in WIRINGS.items():
        stack = make_blocks(wiring, blocks, width, heads, seed)
        added: list[Tensor] = []
        hooks = [hook for block in stack for hook in keep_added(block, added)]
        with torch.no_grad():
            seen = list(stream(stack, wiring, x))
        for hook in hooks:
            hook.remove()
        cosines[name] = [cosine(x, y) for y in seen]
        missing[name] = float((seen[-1] - sum(added) - x).norm() / x.norm())
        if name == "residuals, norm before":
            unrelated = cosine(stranger, seen[1])
    before, small = "residuals, norm before", "residuals, norm before, small weights"
    after, none = "residuals, norm after", "no residuals"
    left = "output less all that was added, from the input"
    return Evidence(
        deciding=f"cosine {cosines[before][1]:.2f} after 2 blocks, "
        f"{cosines[before][-1]:.2f} after {blocks}",
        inside=(
            at_most(f"{before}: {left}", missing[before], ROUNDING),
            at_least(f"{before}: cosine after 2 blocks", cosines[before][1], SEEN),
            at_least(f"{small}: cosine after {blocks}", cosines[small][-1], SEEN),
        ),
        outside=(
            at_least(f"{before}: cosine after {blocks}", cosines[before][-1], SEEN),
            at_most(f"{after}: {left}", missing[after], ROUNDING),
            at_least(f"{after}: cosine after {blocks}", cosines[after][-1], SEEN),
            at_least(f"{none}: cosine after 2 blocks", cosines[none][1], SEEN),
        ),
        controls=(
            at_least(f"{before}: cosine of another input, 2 blocks", unrelated, SEEN),
            at_most(f"{none}: {left}", missing[none], ROUNDING),
        ),
        series={"blocks": [float(at) for at in range(1, blocks + 1)], **cosines},
        notes=("weights as they start, as in 2017 unless they are said to be small",),
    )


def keep_added(block: Block, added: list[Tensor]) -> list[Any]:
    """Let both sub-layers of a block write down what they give to the sum."""
    return [
        each.register_forward_hook(lambda _, __, out: added.append(out))
        for each in (block.attention, block.mlp)
    ]


def cosine(a: Tensor, b: Tensor) -> float:
    return float(torch.cosine_similarity(a.flatten(), b.flatten(), dim=0))


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        found["blocks"],
        {name: found[name] for name in WIRINGS},
        title="How much of the input is in the output",
        across="blocks",
        up="cosine of input and output",
        about="Before training; weights start as in 2017, unless they are said to be small.",
    )


def ask(numbers: np.random.Generator) -> Question:
    layers, size = int(numbers.integers(2, 30)), float(numbers.integers(1, 11)) / 10
    return Question(
        f"To an input of length 1, each of ${layers}$ layers adds a vector of length ${size:g}$, "
        "orthogonal to the input and to all others. What is the cosine of the input and of the "
        "sum?",
        (1 + layers * size**2) ** -0.5,
        why=f"the sum is $\\sqrt{{1 + {layers} \\cdot {size:g}^2}}$ long, and 1 of it is input",
    )


CLAIM = Claim(
    id="input-kept",
    source="C 2.2",
    statement="With residual connections the original input is always part of the representation.",
    verdict="depends",
    truth="Where nothing comes after the sum, the output is the input and all that was added, "
    "exactly; but the more is added, the less of it is input, unless the weights start small. A "
    "norm after each sum scales the input away, and without residuals nothing of it is left.",
    measure=measure,
    plot=plot,
    ask=ask,
)
