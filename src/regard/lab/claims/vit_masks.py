"""A ViT needs no mask, unless images of several sizes share a batch: padding must not be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional as F

from regard.attention import Positions
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most
from regard.lab.figures import lines
from regard.lab.oracles import apart
from regard.lab.question import Question
from regard.models import ViT, ViTConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(image: int = 16, larger: int = 24, patch: int = 4, seed: int = 0) -> Evidence:
    """What comes out of an image alone, and beside others in a batch.

    Args:
        image: pixels of a side, two patches or more.
        larger: pixels of a larger image's side, a multiple of the patch too.
        patch: pixels of a patch's side.
        seed: where the random numbers start.
    """
    enough(patch=(patch, 1))
    if not 2 * patch <= image < larger or larger % patch:
        raise UserError(
            f"image={image} and larger={larger} do not grow from two patches of patch={patch} on, "
            "in multiples of it"
        )
    torch.manual_seed(seed)
    model = ViT(
        ViTConfig(
            image_size=image,
            patch_size=patch,
            width=16,
            layers=2,
            heads=2,
            pool="mean",
            init="xavier_uniform",
        )
    )
    model = model.double().eval()
    several = torch.randn(3, 3, image, image, dtype=torch.float64)
    with torch.no_grad():
        together = model.features(several)
        alone = torch.cat([model.features(one[None]) for one in several])
        n, room = together.shape[1], (larger // patch) ** 2
        x = placed(model, several[:1])
        steps = sorted({round(share * (room - n)) for share in np.linspace(0, 1, 9)})
        moved: dict[str, list[float]] = {"padding is read": [], "padding is masked": []}
        for more in steps:
            padded = F.pad(x, (0, 0, 0, more))
            masked = torch.arange(n + more)[None].where(torch.arange(n + more) < n, -1)
            ways: tuple[Positions, ...] = (range(n + more), masked)
            for name, where in zip(moved, ways, strict=True):
                moved[name].append(apart(encoded(model, padded, where)[:, :n], alone[:1]))
        # One image of each size in one batch, as one would send them.
        big = placed(model, torch.randn(1, 3, larger, larger, dtype=torch.float64))
        mixed = torch.cat([F.pad(x, (0, 0, 0, room - n)), big])
        own = torch.arange(room).expand(2, -1).clone()
        own[0, n:] = -1
        unmasked = apart(encoded(model, mixed, range(room))[0, :n], alone[0])
        kept = encoded(model, mixed, own)
        own[0, n - 1] = -1
        short = encoded(model, mixed, own)[0, : n - 1]
        of_big = apart(kept[1], encoded(model, big, range(room))[0])
    return Evidence(
        deciding=f"padding that is read moves it by {unmasked:.2g}",
        inside=(
            at_most(
                "equal sizes, no mask: distance from each alone", apart(together, alone), ROUNDING
            ),
            at_most(
                "two sizes, padding masked: distance of the smaller from it alone",
                apart(kept[0, :n], alone[0]),
                ROUNDING,
            ),
            at_most("… and of the larger, which needs none", of_big, ROUNDING),
        ),
        outside=(
            at_most(
                "two sizes, no mask: distance of the smaller from it alone", unmasked, ROUNDING
            ),
        ),
        controls=(
            at_most(
                "a patch of its own masked as well: distance from it alone",
                apart(short, alone[0, : n - 1]),
                ROUNDING,
            ),
        ),
        series={"padding": steps, **moved},
    )


def placed(model: ViT, images: torch.Tensor) -> torch.Tensor:
    """The patches of images, with their positions on a grid of their own added."""
    grid = (
        images.shape[-2] // model.config.patch_size,
        images.shape[-1] // model.config.patch_size,
    )
    patches: torch.Tensor = model.patches(images)
    return model.pos_embed.resize(grid).embed(patches, range(patches.shape[1]))


def encoded(model: ViT, x: torch.Tensor, where: Positions) -> torch.Tensor:
    """Tokens after the last block; those at position −1 are padding, which nothing reads."""
    for block in model.blocks:
        x = block(x, positions=where)
    out: torch.Tensor = model.norm(x)
    return out


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        [float(count) for count in found["padding"]],
        {name: found[name] for name in ("padding is read", "padding is masked")},
        title="Padding that is read changes the image beside it",
        across="tokens of padding",
        up="largest change of the image's own tokens",
    )


def ask(numbers: np.random.Generator) -> Question:
    patch = int(numbers.choice([4, 8, 16]))
    small = int(numbers.integers(2, 7))
    large = small + int(numbers.integers(1, 5))
    return Question(
        f"Images of ${small * patch}$ and of ${large * patch}$ pixels a side are cut into patches "
        f"of ${patch} \\times {patch}$ and share a batch, without a class token. How many tokens "
        "of the smaller one are padding, which nothing may read?",
        float(large**2 - small**2),
        tolerance=0.0,
        why=f"${large}^2 - {small}^2$",
    )


CLAIM = Claim(
    id="vit-masks",
    source="B 1.5b",
    statement="A ViT does not require masks.",
    verdict="depends",
    truth="Images of one size fill a batch, and all patches may read all. Where images of several "
    "sizes share a batch the smaller are padded, and without a mask they read the padding.",
    measure=measure,
    plot=plot,
    ask=ask,
)
