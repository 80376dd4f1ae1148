"""Features of a CNN know where they are if its borders are padded with zeros, and else do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least
from regard.lab.figures import maps
from regard.lab.question import Question
from regard.models import ViT, ViTConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PATCH = 4
LEAK = 0.25  # a share of the place's variance that is no accident

Padding = Literal["zeros", "circular"]


def measure(
    side: int = 8, channels: int = 40, depth: int = 4, pictures: int = 80, seed: int = 0
) -> Evidence:
    """How well a linear probe reads the row and the column of a feature, on pictures of noise.

    Args:
        side: rows and columns of a picture.
        channels: channels of each convolution.
        depth: convolutions of 3 × 3, each with a ReLU.
        pictures: pictures to fit the probe on; as many again to test it on.
        seed: where the random numbers start.
    """
    enough(side=(side, 1), channels=(channels, 1))
    draw = torch.Generator().manual_seed(seed)
    noise = torch.randn(2 * pictures, 3, side, side, generator=draw, dtype=torch.float64)
    at = torch.linspace(-1, 1, side, dtype=torch.float64)
    where = torch.stack(torch.meshgrid(at, at, indexing="ij"))  # row and column, 2 y x
    paddings: tuple[Padding, Padding] = ("zeros", "circular")
    seen = {padding: cnn(channels, depth, padding, seed)(noise) for padding in paddings}
    mixed = where.flatten(1)[:, torch.randperm(side**2, generator=draw)].view_as(where)
    probes = {name: probe(features, where) for name, features in seen.items()}
    zeros, circular = (share for share, _ in probes.values())
    pixels, _ = probe(noise, where)
    shuffled, _ = probe(seen["zeros"], mixed)

    # A transformer without positions, and pictures moved by a patch: all it can notice of the
    # move is what its first layer says of the place.
    tiled = torch.randn(4, 3, 8 * PATCH, 8 * PATCH, generator=draw, dtype=torch.float64)
    notices = {
        "zeros": notice(vit("zeros", seed), tiled),
        "circular": notice(vit("circular", seed), tiled),
        "patches": notice(vit(None, seed), tiled),
    }
    return Evidence(
        deciding=f"place read off: {zeros:.0%} zeros, {max(circular, 0):.0%} circular",
        inside=(
            at_least("zeros: share of the place's variance that a probe reads", zeros, LEAK),
            at_least("zeros: a ViT without positions notices a move", notices["zeros"], 1e-3),
        ),
        outside=(
            at_least("circular: share of the place's variance that a probe reads", circular, LEAK),
            at_least("circular: the same ViT notices a move", notices["circular"], 1e-3),
            at_least("patches, no CNN: a ViT notices a move", notices["patches"], 1e-3),
        ),
        controls=(
            at_least("pixels, no CNN: share that a probe reads", pixels, LEAK),
            at_least("zeros, places shuffled: share that a probe reads", shuffled, LEAK),
        ),
        series={
            "share": {"zeros": zeros, "circular": circular, "pixels": pixels},
            "row": where[0].tolist(),
            **{f"row, {name}": predicted[0].tolist() for name, (_, predicted) in probes.items()},
            "a ViT notices a move": notices,
        },
    )


def cnn(channels: int, depth: int, padding: Padding, seed: int) -> nn.Sequential:
    """Convolutions with random weights, the same for either padding."""
    draw, layers, inside = torch.Generator().manual_seed(seed), [], 3
    for _ in range(depth):
        conv = nn.Conv2d(inside, channels, 3, padding=1, padding_mode=padding, bias=False)
        nn.init.kaiming_normal_(conv.weight, generator=draw)
        layers += [conv, nn.ReLU()]
        inside = channels
    return nn.Sequential(*layers).double().requires_grad_(False)


def probe(features: Tensor, where: Tensor) -> tuple[float, Tensor]:
    """The share of the place that a linear map of a feature tells, and what it tells on average.

    It is fitted on half of the pictures and tested on the others.
    """
    one = torch.cat([features, torch.ones_like(features[:, :1])], 1).movedim(1, -1)  # b y x c
    wanted = where.movedim(0, -1).expand(*one.shape[:3], 2)
    fit, test = one.chunk(2)
    weights = torch.linalg.lstsq(fit.flatten(0, 2), wanted[: len(fit)].flatten(0, 2)).solution
    predicted = test @ weights
    left = (predicted - wanted[: len(test)]).square().sum() / wanted[: len(test)].square().sum()
    return float(1 - left), predicted.mean(0).movedim(-1, 0)


def vit(padding: Padding | None, seed: int) -> ViT:
    """A ViT without positions that reads the mean of its tokens; of patches without a padding."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = ViT(
            ViTConfig(
                image_size=8 * PATCH,
                patch_size=PATCH,
                width=32,
                layers=2,
                pos_embed="none",
                pool="mean",
                stem="patch" if padding is None else "conv",
                init="xavier_uniform",
            )
        )
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and padding is not None:
            module.padding_mode = padding
    return model.double().eval().requires_grad_(False)


def notice(model: ViT, tiled: Tensor) -> float:
    """How far the pooled vector changes when pictures roll by a patch to the right."""
    before, after = (model.pool(model.features(seen)) for seen in (tiled, tiled.roll(PATCH, -1)))
    return float((after - before).norm() / before.norm())


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return maps(
        {
            "the row itself": found["row"],
            f"padded with zeros: {found['share']['zeros']:.0%}": found["row, zeros"],
            f"circular: {max(found['share']['circular'], 0):.0%}": found["row, circular"],
        },
        title="The row of a feature, as a linear probe reads it",
        about="Noise and random weights: only the border can tell. Means over pictures.",
        one_scale=True,
    )


def ask(numbers: np.random.Generator) -> Question:
    taps = [int(n) for n in numbers.choice(np.arange(1, 10), 3, replace=False)]
    level, length = int(numbers.integers(2, 7)), int(numbers.integers(5, 12))
    return Question(
        f"A row of ${length}$ pixels, all of them ${level}$, passes a convolution that multiplies "
        f"the pixel before, the pixel itself and the one after by ${taps[0]}, {taps[1]}, "
        f"{taps[2]}$, padded with zeros. What comes out at the first pixel, in the middle, and at "
        "the last? (three numbers, in this order)",
        (
            float(level * (taps[1] + taps[2])),
            float(level * sum(taps)),
            float(level * (taps[0] + taps[1])),
        ),
        why="at a border one tap meets a zero: equal pixels become unequal by their place",
    )


CLAIM = Claim(
    id="cnn-features",
    source="B 1.3b",
    statement="Positional encodings may be unneeded on features that come from a CNN.",
    verdict="depends",
    truth="Zeros around the border leak the place, layer by layer, and a linear probe reads it. "
    "With circular padding a convolution moves with its picture, and nothing tells the place.",
    measure=measure,
    plot=plot,
    ask=ask,
)
