"""A ViT learns a vector for each position; the sines and cosines of 2017 have nothing to learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from regard.attention import learned_2d, sinusoidal
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_least, at_most, equal
from regard.lab.figures import maps
from regard.lab.oracles import apart
from regard.lab.question import Question
from regard.models import ViT, ViTConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-10


def measure(image: int = 32, patch: int = 4, width: int = 32, seed: int = 0) -> Evidence:
    """Parameters of a ViT with and without each kind of position, and a table read at another size.

    Args:
        image: pixels of a side, a multiple of the patch.
        patch: pixels of a patch's side.
        width: numbers in a token, a multiple of 4.
        seed: where the random numbers start.
    """
    torch.manual_seed(seed)

    def vit(place: Literal["learned", "sinusoidal", "none"]) -> ViT:
        config = ViTConfig(
            image_size=image,
            patch_size=patch,
            width=width,
            layers=1,
            heads=2,
            channels=1,
            pos_embed=place,
        )
        return ViT(config)

    model = vit("learned")
    bare = parameters(vit("none"))
    taught, fixed = parameters(model) - bare, parameters(vit("sinusoidal")) - bare
    of_2017 = parameters(sinusoidal(width))
    n = (image // patch) ** 2
    model(torch.randn(2, 1, image, image)).square().sum().backward()
    felt = min(
        float(weight.grad.abs().max()) if weight.grad is not None else 0.0
        for weight in model.pos_embed.parameters()
    )

    # A table that rises evenly over rows and columns must still do so on a finer grid.
    rows, finer = 6, 9
    table = learned_2d((rows, rows), 2).double()
    table.table.data = even(rows, rows)
    larger = table.resize((finer, finer))
    with torch.no_grad():
        read = larger.embed(torch.zeros(finer**2, 2, dtype=torch.float64), range(finer**2))
    wanted = even(rows, finer)
    # Near the edge a cubic has no further cells to look at.
    inner = torch.zeros(finer, finer, dtype=torch.bool)
    inner[3:-3, 3:-3] = True
    cut = table.table.data.view(rows, rows, 2)[:3, :3].reshape(-1, 2)
    return Evidence(
        deciding=f"{taught:,} learned numbers against {of_2017}",
        written=(
            equal(
                f"learned positions: numbers to learn, (N + 1)·D with N = {n}",
                float(taught),
                float((n + 1) * width),
            ),
            equal("sines and cosines of 2017: numbers to learn", float(of_2017), 0.0),
            equal("the same on a grid, in a ViT", float(fixed), 0.0),
            at_least("learned positions: gradient of the table", felt, 1e-9),
            at_most(
                f"a table of {rows} × {rows} read on {finer} × {finer}: distance from its slope",
                apart(read[inner.flatten()], wanted[inner.flatten()]),
                ROUNDING,
            ),
            equal("numbers to learn that another grid adds", float(parameters(larger)), 0.0),
        ),
        controls=(
            equal("learned positions: numbers to learn, N·D", float(taught), float(n * width)),
            equal("2017: numbers to learn, (N + 1)·D", float(of_2017), float((n + 1) * width)),
            at_most(
                "cells of the table as they stand, not interpolated: distance from its slope",
                apart(cut, wanted[inner.flatten()]),
                ROUNDING,
            ),
        ),
        series={
            "waves": sinusoidal(width).table(torch.arange(n)).tolist(),
            "learned": model.pos_embed.get_parameter("table").tolist(),
        },
    )


def parameters(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def even(side: int, cells: int) -> torch.Tensor:
    """Row and column, in cells of a grid of `side`, of the centres of a grid of `cells`."""
    centres = (torch.arange(cells, dtype=torch.float64) + 0.5) * side / cells - 0.5
    return torch.cartesian_prod(centres, centres)


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return maps(
        {
            "2017: sines and cosines": np.transpose(found["waves"]),
            "a ViT's, before training": np.transpose(found["learned"]),
        },
        title="One code a position: given, or to be learned",
        about="Columns are positions, rows the numbers of each. The left has no parameters.",
    )


def ask(numbers: np.random.Generator) -> Question:
    patch = int(numbers.choice([4, 8, 16, 32]))
    side, width = patch * int(numbers.integers(4, 15)), int(numbers.choice([64, 192, 384, 768]))
    count = (side // patch) ** 2
    return Question(
        f"A ViT reads images of ${side} \\times {side}$ in patches of ${patch} \\times {patch}$, "
        f"with a class token and a width of ${width}$. How many numbers do its learned positions "
        "take, and how many sines and cosines as in 2017? (two numbers, in this order)",
        (float((count + 1) * width), 0.0),
        tolerance=0.0,
        why=f"$({count} + 1) \\cdot {width}$, and none",
    )


CLAIM = Claim(
    id="learned-positions",
    source="B 1.5c",
    statement="The positions of a ViT are learned, those of the transformer of 2017 are fixed.",
    verdict="holds",
    truth="A learned table takes $(N + 1) D$ numbers, the class token's included; sines and "
    "cosines take none. On a grid of another size a learned table is interpolated.",
    measure=measure,
    plot=plot,
    ask=ask,
)
