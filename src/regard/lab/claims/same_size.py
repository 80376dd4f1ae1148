"""Tokens come out as wide and as many as they went in, so any number of layers can be stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, equal
from regard.lab.question import Question
from regard.models import StackConfig, make_blocks

if TYPE_CHECKING:
    import numpy as np


def measure(
    tokens: int = 7,
    width: int = 24,
    heads: int = 4,
    depths: tuple[int, ...] = (1, 2, 5, 12, 30),
    seed: int = 0,
) -> Evidence:
    """How many layers run one after another, and what comes out of the last.

    Args:
        tokens: tokens that read one another.
        width: numbers in a token.
        heads: heads of each layer.
        depths: layers that are stacked.
        seed: where the random numbers start.
    """
    enough(depths=(depths, 1))
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        x = torch.randn(2, tokens, width)
        deepest = max(depths)
        blocks = [*make_blocks(StackConfig(width=width, heads=heads, layers=deepest))]
        alone = [MultiHeadAttention(width, heads) for _ in range(deepest)]
        uneven = [MultiHeadAttention(width, heads, head_width=5) for _ in range(deepest)]
        wider = nn.Sequential(MultiHeadAttention(width, heads), nn.Linear(width, width + 1))
    kept = [run(blocks[:depth], x)[1] == x.shape for depth in depths]
    return Evidence(
        deciding=f"{deepest} blocks: {tokens} × {width} in and out",
        written=(
            equal("depths at which blocks keep the shape", sum(kept), len(depths)),
            equal("attention alone: layers that run", run(alone, x)[0], deepest),
            equal("heads of 5, of any width: layers that run", run(uneven, x)[0], deepest),
            equal("with residual sums: layers that run", run(alone, x, True)[0], deepest),
        ),
        controls=(
            equal("one number wider out than in: layers that run", run([wider, wider], x)[0], 2),
            equal("the same, one layer with a residual sum", run([wider], x, True)[0], 1),
        ),
        series={"depth": list(depths), "shape kept": [bool(each) for each in kept]},
    )


def run(layers: Sequence[nn.Module], x: Tensor, residual: bool = False) -> tuple[int, torch.Size]:
    """How many of the layers run, each on what the last gave, and the last shape there was."""
    with torch.no_grad():
        for ran, layer in enumerate(layers):
            try:
                x = x + layer(x) if residual else layer(x)
            except (RuntimeError, ValueError):  # of torch's sum, and of our layer: widths differ
                return ran, x.shape
    return len(layers), x.shape


def ask(numbers: np.random.Generator) -> Question:
    heads, narrow = int(numbers.integers(2, 9)), int(numbers.integers(3, 12))
    width = int(numbers.integers(2, 9)) * 8
    return Question(
        f"A layer reads tokens of ${width}$ numbers with ${heads}$ heads, each ${narrow}$ wide. "
        "How many numbers must $W^O$ take in for a token, and how many must it give, so that "
        "$x + \\mathrm{Attention}(x)$ exists and layers can be stacked? (two numbers)",
        (float(heads * narrow), float(width)),
        tolerance=0.0,
        why=f"${heads} \\cdot {narrow}$ numbers side by side come in; what goes out is added to "
        f"${width}$",
    )


CLAIM = Claim(
    id="same-size",
    source="E 12.2",
    statement="Input and output of self-attention are of equal size, which lets layers be stacked.",
    verdict="holds",
    truth="As many tokens come out as go in, and $W^O$ makes each as wide as it was, however wide "
    "the heads are: so any number of layers follow one another, and $x + \\mathrm{Attention}(x)$ "
    "can be formed.",
    measure=measure,
    ask=ask,
)
