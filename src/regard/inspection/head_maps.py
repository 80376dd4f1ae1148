"""The maps of all heads on a text as bytes, so that a page can take up one head at a time.

    maps = head_maps([mean, *heads], causal=True)
    maps.blocks[3]                                  # all there is to know of the fourth
    maps.small[3]                                   # the same as a thumbnail

A text of 512 tokens has 262,144 shares a head, and a model may have 144 heads. A saved page holds
all blocks; the studio hands them out when they are asked for, and sends the thumbnails at once.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

SMALL = 32  # pixels along the longest side of a thumbnail


@dataclass(frozen=True)
class HeadMaps:
    """A block of bytes for each head, and a thumbnail.

    A block is a scale for each row, as float32 with the low byte first, then the rows as bytes:
    share = byte × scale, and a row's greatest share is 255. Every row has a scale of its own: a
    text's first word can only look at itself, with all it has, and on that scale whatever a long
    text's other words do would be lost. Rows of causal maps end on the diagonal, for what lies
    beyond it is zero. A pixel of a thumbnail is the greatest byte of those that it stands for.
    """

    rows: int
    columns: int
    causal: bool
    blocks: tuple[bytes, ...]
    small: UInt8[np.ndarray, "heads y x"]

    @property
    def size(self) -> int:
        """Bytes of all blocks."""
        return sum(map(len, self.blocks))

    def outline(self) -> dict[str, Any]:
        """What the page is told in every case: all but the blocks."""
        return {
            "shape": [len(self.blocks), self.rows, self.columns],
            "causal": self.causal,
            "small": {"shape": list(self.small.shape), "base64": in_base64(self.small.tobytes())},
        }

    def to_values(self) -> dict[str, Any]:
        """The whole for a page that can ask nobody: blocks one after the other."""
        return {**self.outline(), "base64": in_base64(b"".join(self.blocks))}


def head_maps(maps: Iterable[Float[np.ndarray, "n m"]], *, causal: bool) -> HeadMaps:
    """Pack maps of shares; with `causal`, what lies beyond their diagonals is left out."""
    blocks, small = [], []
    shape, kept = (0, 0), np.zeros((0, 0), bool)
    for each in maps:
        if each.shape != shape:
            shape, kept = each.shape, np.tri(*each.shape, dtype=bool)
        scales, levels = levelled(each)
        rows = levels[kept] if causal else levels
        blocks.append(scales.astype("<f4").tobytes() + rows.tobytes())
        small.append(thumbnail(levels))
    return HeadMaps(*shape, causal, tuple(blocks), np.stack(small))


def joined(parts: Sequence[HeadMaps]) -> HeadMaps:
    """Maps of the same text, those of the first part first."""
    blocks = tuple(block for part in parts for block in part.blocks)
    return replace(parts[0], blocks=blocks, small=np.concatenate([part.small for part in parts]))


def levelled(
    weights: Float[np.ndarray, "n m"],
) -> tuple[Float[np.ndarray, " n"], UInt8[np.ndarray, "n m"]]:
    """A scale for each row and its bytes: half a step, 1/510 of the row's greatest, is lost."""
    tops = weights.max(1, initial=0.0)
    if weights.size and not (weights.min() >= 0 and np.isfinite(tops).all()):
        raise ValueError(
            f"maps go from {weights.min():.3g} to {weights.max():.3g}; "
            "shares are finite and not negative"
        )
    scales = (tops / 255).astype(np.float32)
    # A row so faint that its scale is no normal number has no shades to tell apart.
    scales[scales < np.finfo(np.float32).tiny] = 0
    steps = np.divide(1, scales, out=np.zeros_like(scales), where=scales > 0)
    levels = weights * steps[:, None]  # at most 255, but for rounding
    return scales, np.rint(levels, out=levels).astype(np.uint8)


def thumbnail(levels: UInt8[np.ndarray, "n m"]) -> UInt8[np.ndarray, "y x"]:
    """The greatest of every block of cells, so that a thin line stays a line."""
    n, m = levels.shape
    down, right = (max(1, math.ceil(count / SMALL)) for count in (n, m))
    if (down, right) == (1, 1):
        return levels
    over = ((0, -n % down), (0, -m % right))
    whole = np.pad(levels, over) if over != ((0, 0), (0, 0)) else levels  # which takes its time
    return (
        whole.reshape(-1, down, whole.shape[1]).max(1).reshape(len(whole) // down, -1, right).max(2)
    )


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
