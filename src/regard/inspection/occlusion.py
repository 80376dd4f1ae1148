"""What the answer loses when a patch of the image is deleted, one patch at a time.

    falls = patch_falls(score, image, (7, 7))
    falls[:, 3, 4]      what each number of the score loses without row 4, column 5

A map of attention says what was read, this one what was needed. A deleted patch shows the image's
own mean colour, as in `faithfulness`. Where a fall is below 0 the answer rose: what was deleted
spoke against it. A patch that others repeat may matter and fall by nothing, since it is not missed
alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

BATCH = 32  # images at once: between two batches somebody may change their mind

Score = Callable[[Tensor], Tensor]  # images (b k y x) to the numbers that are followed (b names)
Tell = Callable[[int, int], object]  # how many patches are done, and of how many


@dataclass(frozen=True)
class Occlusion:
    """Probabilities, and how far each falls without each patch: of a class, or of several words."""

    names: tuple[str, ...]
    whole: Float[np.ndarray, "names"]
    falls: Float[np.ndarray, "names rows columns"]

    def to_values(self) -> dict[str, Any]:
        """The same as plain values, to be written as JSON."""
        return {
            "names": list(self.names),
            "whole": self.whole.tolist(),
            "grid": list(self.falls.shape[1:]),
            "falls": self.falls.reshape(len(self.names), -1).round(6).tolist(),
        }


def patch_falls(
    score: Score,
    image: Float[Tensor, "k y x"],
    grid: tuple[int, int],
    *,
    tell: Tell = lambda done, of: None,
) -> Float[np.ndarray, "names rows columns"]:
    """How far each number of the score falls when a patch of the grid is deleted.

    `tell` is called before each batch of patches and after the last; what it raises ends the work.
    """
    rows, columns = grid
    _, y, x = image.shape
    if min(grid) < 1 or y % rows or x % columns:
        raise ValueError(
            f"an image of {y} × {x} pixels does not split into a grid of {rows} × {columns}"
        )
    found, count = [], rows * columns
    with torch.no_grad():
        whole = score(image[None])
        for patches in torch.arange(count, device=image.device).split(BATCH):
            tell(int(patches[0]), count)
            found.append(whole - score(without(image, patches, grid)))
    tell(count, count)
    falls: np.ndarray = torch.cat(found).T.double().cpu().numpy()
    return falls.reshape(-1, rows, columns)


def without(
    image: Float[Tensor, "k y x"], patches: Int[Tensor, "b"], grid: tuple[int, int]
) -> Float[Tensor, "b k y x"]:
    """The image once for each of these patches, which shows the mean colour there."""
    rows, columns = grid
    _, y, x = image.shape
    places = torch.arange(rows * columns, device=image.device).view(1, rows, columns)
    gone = places == patches[:, None, None]
    gone = gone.repeat_interleave(y // rows, -2).repeat_interleave(x // columns, -1)
    return image.mean((-2, -1), keepdim=True).where(gone[:, None], image)
