"""Layer norm looks at one token's features; each feature across the batch is batch norm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import bars
from regard.lab.question import Question
from regard.models.layers import NORMS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(batch: int = 8, tokens: int = 6, width: int = 16, seed: int = 0) -> Evidence:
    """The library's layer norm beside torch's batch norm in training, and beside numpy.

    Args:
        batch: sequences, 2 or more.
        tokens: tokens of each, 2 or more.
        width: features of a token.
        seed: where the random numbers start.
    """
    enough(batch=(batch, 1), tokens=(tokens, 1), width=(width, 1))
    draw = torch.Generator().manual_seed(seed)
    layer = NORMS["layernorm"](width, eps=1e-5).double()
    over_batch = nn.BatchNorm1d(width, eps=1e-5).double().train()

    def batch_norm(x: torch.Tensor) -> torch.Tensor:
        return over_batch(x.mT).mT  # it wants the features before the tokens

    # Features of different size and offset, so that both norms have something to do.
    scale, offset = torch.rand(2, width, generator=draw, dtype=torch.float64) * 2 + 0.5
    x = torch.randn(batch, tokens, width, generator=draw, dtype=torch.float64) * scale + offset
    other_samples, other_tokens = x.clone(), x.clone()
    other_samples[1:] = other_samples[1:].flip(-1) * 2
    other_tokens[:, 1:] = other_tokens[:, 1:].flip(-1) * 2
    with torch.no_grad():
        ours, theirs = layer(x), batch_norm(x)
        moved = {
            "layer norm: other samples": float((layer(other_samples)[0] - ours[0]).abs().max()),
            "layer norm: other tokens": float((layer(other_tokens) - ours)[:, 0].abs().max()),
            "batch norm: other samples": float(
                (batch_norm(other_samples)[0] - theirs[0]).abs().max()
            ),
            "batch norm: other tokens": float(
                (batch_norm(other_tokens) - theirs)[:, 0].abs().max()
            ),
        }
    values = x.numpy()
    spread = np.sqrt(values.var(-1, keepdims=True) + 1e-5)
    by_hand = (values - values.mean(-1, keepdims=True)) / spread
    to_batch = float((ours - theirs).abs().max())
    return Evidence(
        deciding=f"other samples move it by {moved['layer norm: other samples']:.1g}",
        written=(
            at_most("layer norm: distance from batch norm in training", to_batch, ROUNDING),
            at_most(
                "layer norm: largest mean of a feature across the batch",
                float(ours.mean((0, 1)).abs().max()),
                ROUNDING,
            ),
            at_least(
                "layer norm: how far other samples move it",
                moved["layer norm: other samples"],
                0.01,
            ),
        ),
        corrected=(
            at_most(
                "layer norm: distance from each token less its mean, over its spread",
                float(np.abs(ours.numpy() - by_hand).max()),
                ROUNDING,
            ),
            at_most(
                "layer norm: how far other samples move it",
                moved["layer norm: other samples"],
                ROUNDING,
            ),
            at_most(
                "layer norm: how far other tokens move it",
                moved["layer norm: other tokens"],
                ROUNDING,
            ),
            at_most(
                "batch norm: largest mean of a feature across the batch",
                float(theirs.mean((0, 1)).abs().max()),
                ROUNDING,
            ),
        ),
        controls=(
            at_most(
                "batch norm: how far other samples move it",
                moved["batch norm: other samples"],
                ROUNDING,
            ),
            at_most(
                "batch norm: how far other tokens move it",
                moved["batch norm: other tokens"],
                ROUNDING,
            ),
            at_most(
                "batch norm: largest mean of a token across its features",
                float(theirs.mean(-1).abs().max()),
                ROUNDING,
            ),
        ),
        series=moved,
    )


def plot(evidence: Evidence) -> Figure:
    return bars(
        # One line each for the norm and for what changes: a bar's name breaks at its first space.
        {
            " ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in name.split(": ")): value
            for name, value in evidence.series.items()
        },
        title="How far a token moves when only others change",
        up="largest change of the normalised token",
    )


def ask(numbers: np.random.Generator) -> Question:
    x = numbers.choice(np.arange(-6, 10), (2, 3), replace=False).astype(float)
    row = (x[0, 0] - x[0].mean()) / x[0].std()
    column = (x[0, 0] - x[:, 0].mean()) / x[:, 0].std()
    first, second = (", ".join(f"{value:g}" for value in token) for token in x)
    return Question(
        f"A batch of two tokens is $({first})$ and $({second})$. What is the first feature of the "
        "first token after layer norm, and after batch norm in training? Take both without "
        "$\\epsilon$, scale and offset. (two numbers, in this order)",
        (float(row), float(column)),
        why=f"layer norm: mean ${x[0].mean():.4g}$ and deviation ${x[0].std():.4g}$ of the token; "
        f"batch norm: ${x[:, 0].mean():.4g}$ and ${x[:, 0].std():.4g}$ of the feature",
    )


CLAIM = Claim(
    id="layernorm-axis",
    source="B 1.4e",
    statement="Layer norm is applied to each feature across the batch.",
    verdict="corrected",
    truth="Each feature across the batch is batch norm in training. Layer norm takes mean and "
    "spread of one token over its features, so other samples and other tokens change nothing.",
    measure=measure,
    plot=plot,
    ask=ask,
)
