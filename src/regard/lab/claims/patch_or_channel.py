"""256 patches of 512 numbers: what it takes to let patches read patches, or channels channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.attention import MultiHeadAttention, attend, attend_channels, attend_fused
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.counting import count, enough
from regard.lab.evidence import Evidence, equal
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure


def measure(patches: int = 256, width: int = 512, groups: int = 4, seed: int = 0) -> Evidence:
    """Multiply-adds and exponentials of both, counted operator by operator as they run.

    Args:
        patches: patches, N; 16 × 16 of them in the exercise.
        width: numbers in a patch, its channels, D.
        groups: groups that the channels are also divided into, G; at least 2, a divisor of D.
        seed: where the random numbers start.
    """
    enough(patches=(patches, 1))
    if groups < 2 or width % groups:
        raise UserError(f"groups={groups}: at least 2, and a divisor of width={width}")
    n, d = patches, width
    draw = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 1, n, d, generator=draw)
    over_patches, over_channels = (count(kind, q, k, v) for kind in (attend, attend_channels))
    split = [each.unflatten(-1, (groups, -1)).transpose(-3, -2).contiguous() for each in (q, k, v)]
    in_groups, in_heads = (
        count(kind, *(each[0] for each in split)) for kind in (attend_channels, attend)
    )
    layers = [
        count(MultiHeadAttention(d, 1, attention=kind), q) for kind in (attend, attend_channels)
    ]
    projected = [
        layer.products - inner.products
        for layer, inner in zip(layers, (over_patches, over_channels), strict=True)
    ]
    with FlopCounterMode(display=False) as fused, torch.no_grad():
        attend_fused(q, k, v)
    ratio = over_channels.products / over_patches.products
    whole = layers[1].products / layers[0].products
    return Evidence(
        deciding=f"channels ×{ratio:.3g}, whole layer ×{whole:.3g}",
        answer=(
            equal("patches: multiply-adds, 2 N² D", over_patches.products, 2 * n * n * d),
            equal("channels: multiply-adds, 2 N D²", over_channels.products, 2 * n * d * d),
            equal("channels over patches: D / N", ratio, d / n),
            equal("patches: exponentials, N²", over_patches.exponentials, n * n),
            equal("channels: exponentials, D²", over_channels.exponentials, d * d),
            equal("patches: four projections, 4 N D²", projected[0], 4 * n * d * d),
            equal("channels: four projections, 4 N D²", projected[1], 4 * n * d * d),
            equal("whole layer, channels over patches", whole, 6 * d / (4 * d + 2 * n)),
            equal(
                f"{groups} groups of channels: multiply-adds, 2 N D² / G",
                in_groups.products,
                2 * n * d * d // groups,
            ),
        ),
        controls=(
            equal(
                f"{groups} heads over patches: multiply-adds, 2 N² D / G",
                in_heads.products,
                2 * n * n * d // groups,
            ),
            equal(f"{groups} heads over patches: exponentials, N²", in_heads.exponentials, n * n),
        ),
        series={
            **swept(d, groups),
            "patches and channels": [n, d],
            "fused, as torch's own counter sees it": fused.get_total_flops() // 2,
        },
    )


def swept(width: int, groups: int) -> dict[str, list[float]]:
    """The multiply-adds of both for more and more patches; torch's meta device computes nothing."""
    sizes = [2**i for i in range(4, 13)]
    found: dict[str, list[float]] = {"patches": [float(n) for n in sizes]}
    kinds: dict[str, tuple[Callable[..., Any], int]] = {
        "over patches": (attend, 1),
        "over channels": (attend_channels, 1),
        f"over channels, {groups} groups": (attend_channels, groups),
    }
    for name, (kind, heads) in kinds.items():
        found[name] = []
        for n in sizes:
            one = torch.empty(heads, n, width // heads, device="meta")
            found[name].append(float(count(kind, one, one, one).products))
    return found


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    width = found["patches and channels"][1]
    return lines(
        found["patches"],
        {name: values for name, values in found.items() if name.startswith("over")},
        title=f"Attention over patches, or over their {width} channels",
        across="patches",
        up="multiply-adds of both products",
        log="xy",
        about=f"Without projections. Both cost the same at {width} patches.",
    )


def ask(numbers: np.random.Generator) -> Question:
    side = int(numbers.choice([8, 10, 12, 14, 16, 20]))
    width = int(numbers.choice([128, 192, 384, 512, 768]))
    n = side * side
    return Question(
        f"An image is ${side} \\times {side}$ patches of ${width}$ numbers. With one head, how "
        "many multiply-adds do both products of attention take between patches, and between "
        "channels? (two numbers, without projections)",
        (2.0 * n * n * width, 2.0 * n * width * width),
        tolerance=0.001,
        why=f"$2 \\cdot {n}^2 \\cdot {width}$ and $2 \\cdot {n} \\cdot {width}^2$",
    )


CLAIM = Claim(
    id="patch-or-channel",
    source="E 12.9",
    statement="Which is cheaper for $16 \\times 16$ patches of length $512$: attention over "
    "patches or over channels?",
    verdict="answered",
    truth="Over patches, $2N^2D$ against $2ND^2$ multiply-adds: half as many, with a quarter of "
    "the exponentials, but as the four projections take $4ND^2$ in both, channels cost the "
    "whole layer 1.2 times as much. $G$ groups divide the products between channels by $G$, and "
    "only those between patches grow with $N^2$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
