"""How far apart two tokens may be: one attention layer links any two, convolutions need many."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, attend, layers_to_cover, window
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_least, equal
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

SEEN = 1e-9  # a gradient that has arrived; one that has not is exactly 0


def measure(distance: int = 100, kernel: int = 3, width: int = 8, seed: int = 0) -> Evidence:
    """Whether the last token's gradient arrives at the first, layer by layer.

    Args:
        distance: places between the two tokens.
        kernel: taps of the convolution; an odd number above 1.
        width: numbers in a token of the attention layer.
        seed: where the random numbers start.
    """
    if kernel < 3 or kernel % 2 == 0:
        raise UserError(f"kernel={kernel}: a centred kernel that sees a neighbour has 3, 5, 7, …")
    side = (kernel - 1) // 2
    if distance <= side:
        raise UserError(f"distance={distance}: a kernel of {kernel} sees {side} places already")
    needed = math.ceil(distance / side)
    layers = needed + 3
    slopes = through_convolutions(distance, kernel, layers, seed)
    arrived = [float(each[0].abs()) for each in slopes]
    first = next((at for at, size in enumerate(arrived) if size > 0), math.inf)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(width, 1, attention=attend).double()
        x = torch.randn(distance + 1, width, dtype=torch.float64, requires_grad=True)
    near = window(side + 1)  # attention that sees no farther than the kernel
    by_all, by_few = (gradient(layer(x, mask=mask), x) for mask in (None, near))
    one = 1 if by_all > 0 else math.inf
    return Evidence(
        deciding=f"{distance} apart: {first} convolutions, {one} attention",
        written=(
            at_least(
                "one attention layer: gradient from the last token to the first", by_all, SEEN
            ),
            equal(f"layers of kernel {kernel} until a gradient arrives", first, needed),
            equal(
                "the same by the library's count, for a window as wide as the kernel",
                layers_to_cover(near, distance + 1) or math.inf,
                needed,
            ),
        ),
        controls=(
            at_least("one attention layer that sees a kernel's width: gradient", by_few, SEEN),
            at_least(
                f"{needed - 1} layers of kernel {kernel}: gradient", arrived[needed - 1], SEEN
            ),
        ),
        series={
            "layers": list(range(layers + 1)),
            "convolution": [distance - int(each.nonzero().min()) for each in slopes],
            "attention": [0] + [distance * (by_all > 0)] * layers,
            "kernel": kernel,
        },
    )


def through_convolutions(distance: int, kernel: int, layers: int, seed: int) -> list[Tensor]:
    """The gradient of the last number at all numbers, 0, 1, … layers below it.

    One stack answers for all depths. Its taps are positive and about one, so that nothing cancels,
    and a product of many is neither nothing nor without end.
    """
    draw = torch.Generator().manual_seed(seed)
    x = torch.zeros(1, 1, distance + 1, dtype=torch.float64, requires_grad=True)
    inputs = [x]
    for _ in range(layers):
        taps = 0.75 + 0.5 * torch.rand(1, 1, kernel, generator=draw, dtype=torch.float64)
        inputs.append(F.conv1d(inputs[-1], taps, padding=kernel // 2))
    found = torch.autograd.grad(inputs[-1][0, 0, -1], inputs)
    return [each[0, 0] for each in reversed(found)]


def gradient(out: Tensor, x: Tensor) -> float:
    """The size of the gradient of the last token's numbers at the first token."""
    (found,) = torch.autograd.grad(out[-1].sum(), x)
    return float(found[0].norm())


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        [float(n) for n in found["layers"]],
        {
            "attention": [float(n) for n in found["attention"]],
            f"convolution, kernel {found['kernel']}": [float(n) for n in found["convolution"]],
        },
        title="How far back the last token's gradient arrives",
        across="layers",
        up="places",
    )


def ask(numbers: np.random.Generator) -> Question:
    kernel = int(numbers.choice([3, 5, 7, 9]))
    distance = int(numbers.integers(20, 200))
    side = (kernel - 1) // 2
    return Question(
        f"Two tokens are ${distance}$ places apart. How many convolutions of kernel size "
        f"${kernel}$, with stride 1 and without dilation, does it take until one hears of the "
        "other, and how many layers of unmasked self-attention? (two numbers, in this order)",
        (float(math.ceil(distance / side)), 1.0),
        tolerance=0.0,
        why=f"a layer carries ${side}$ places to each side; attention compares all pairs",
    )


CLAIM = Claim(
    id="path-length",
    source="A 2.3",
    statement="Attention captures dependencies over long distances without stacking layers.",
    verdict="holds",
    truth="Every query meets every key, so any two tokens are one layer apart; a convolution of "
    "kernel 3 carries one place a layer, and needs 100 for tokens 100 apart.",
    measure=measure,
    plot=plot,
    ask=ask,
)
