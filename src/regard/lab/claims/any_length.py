"""Positions from a formula have no end; a learned table has, unless it is interpolated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from regard.attention import learned_2d
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.evidence import Check, Evidence, at_least, equal
from regard.lab.question import Question
from regard.models import Bert, BertConfig, ViT, ViTConfig

if TYPE_CHECKING:
    import numpy as np

SEEN = 1e-6  # how far an exchange of two words must move another, to be seen: 0 is rounding
PATCH, SIDE, WIDTH = 4, 2, 16  # pixels of a patch, patches of a side, numbers in a token

Scheme = Literal["learned", "sinusoidal", "rope", "none"]


def measure(length: int = 16, times: int = 8, seed: int = 0) -> Evidence:
    """Give models that were made for one length longer and longer texts, and larger images.

    To take a length is more than not to fail: where two words are exchanged, a third must feel it.

    Args:
        length: longest text that the learned table is made for; at least 3.
        times: how many times as long the longest text is; at least 2.
        seed: where the random numbers start.
    """
    if length < 3 or times < 2:
        raise UserError(f"length={length}, times={times}: at least 3, and at least 2")
    lengths = [max(3, length // 2), length, length + 1, 2 * length, times * length]
    schemes: tuple[Scheme, ...] = ("sinusoidal", "rope", "learned", "none")
    felt = {place: [in_text(place, length, n, seed) for n in lengths] for place in schemes}
    grids = [SIDE, SIDE + 1, 2 * SIDE, times * SIDE]
    in_images = [in_image(grid, seed) for grid in grids]
    rigid = [in_table(grid) for grid in grids]
    table, formula = count(felt["learned"]), count(felt["rope"])
    return Evidence(
        deciding=f"of {len(lengths)} lengths: learned {table}, rotary {formula}",
        inside=(
            taken("lengths taken with sinusoidal positions", felt["sinusoidal"]),
            taken("lengths taken with rotary positions", felt["rope"]),
            taken("images taken with a learned grid that is interpolated", in_images),
            exchange("sinusoidal", felt["sinusoidal"]),
            exchange("rope", felt["rope"]),
            exchange("interpolated", in_images),
        ),
        outside=(taken("lengths taken with a learned table", felt["learned"]),),
        controls=(
            taken("grids taken by a learned table that is not interpolated", rigid),
            exchange("no positions", felt["none"]),
        ),
        series={"lengths": lengths, "felt": felt, "grids": grids, "felt in images": in_images},
    )


def taken(words: str, felt: list[float | None]) -> Check:
    return equal(f"{words}, of {len(felt)}", count(felt), len(felt))


def count(felt: list[float | None]) -> int:
    return sum(each is not None for each in felt)


def exchange(words: str, felt: list[float | None]) -> Check:
    """Whether an exchange is felt at every length that is taken."""
    least = min((each for each in felt if each is not None), default=0.0)
    return at_least(f"{words}: what another token feels of an exchange", least, SEEN)


def in_text(place: Scheme, length: int, n: int, seed: int) -> float | None:
    """How far the first of n words moves where the last two are exchanged; None if refused."""
    config = BertConfig(
        width=WIDTH, heads=2, layers=1, vocab_size=n, context_length=length, pos_embed=place
    )
    model = drawn(lambda: Bert(config), seed)
    words = torch.arange(n)[None]
    exchanged = torch.cat([words[:, :-2], words[:, -2:].flip(1)], 1)
    return tried(lambda: (model(words) - model(exchanged))[:, 0])


def in_image(grid: int, seed: int) -> float | None:
    """The same of the answer to an image whose first and last patch are exchanged."""
    config = ViTConfig(image_size=SIDE * PATCH, patch_size=PATCH, width=WIDTH, heads=2, layers=1)
    model = drawn(lambda: ViT(config), seed)
    draw = torch.Generator().manual_seed(seed)
    image = torch.randn(1, 3, grid * PATCH, grid * PATCH, generator=draw, dtype=torch.float64)
    exchanged = image.clone()
    first, last = slice(None, PATCH), slice(-PATCH, None)
    exchanged[..., first, first] = image[..., last, last]
    exchanged[..., last, last] = image[..., first, first]
    return tried(lambda: model(image) - model(exchanged))


def in_table(grid: int) -> float | None:
    """The learned grid of such a model, asked for more cells than it has."""
    place = learned_2d((SIDE, SIDE), WIDTH)
    return tried(lambda: place.embed(torch.zeros(grid**2, WIDTH), range(grid**2)))


def drawn(make: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A model whose every weight is drawn at large, so that positions weigh as much as words."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = make().double().eval()
        for weight in model.parameters():
            nn.init.normal_(weight, std=0.5)
    return model


@torch.no_grad()
def tried(run: Callable[[], Tensor]) -> float | None:
    """The largest number that comes out, or None where the library refuses."""
    try:
        return float(run().abs().max())
    except ValueError:
        return None


def ask(numbers: np.random.Generator) -> Question:
    width = 64 * int(numbers.integers(1, 13))
    table = 64 * int(numbers.integers(1, 9))
    longer = table + int(numbers.integers(10, 200))
    return Question(
        f"A model ${width}$ wide was trained with at most ${table}$ tokens and shall read "
        f"${longer}$. How many numbers is its table of learned positions short of, and how many "
        "would sinusoidal positions be short of? (two numbers, in this order)",
        (float((longer - table) * width), 0.0),
        tolerance=0.0,
        why=f"$({longer} - {table}) \\cdot {width}$; sines are computed for any position",
    )


CLAIM = Claim(
    id="any-length",
    source="A 2.3",
    statement="Position encoding lets a transformer take sequences of any length.",
    verdict="depends",
    truth="It does where positions come from a formula (sinusoidal, rotary) or a learned grid is "
    "interpolated; a learned table ends with its last row. To take a length is not yet to do well "
    "at it.",
    measure=measure,
    ask=ask,
)
