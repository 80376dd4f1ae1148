"""The mask of a model of texts, as its configuration spells it."""

from __future__ import annotations

from regard.attention import Mask


def text_mask(expression: str, length: int) -> Mask:
    """The mask, if it has a place for each of `length` words.

    What lies beyond a grid counts as class tokens, which read and are read freely: on a grid that
    is too small, most words of a text would be such, and little of it masked.
    """
    mask = Mask.parse(expression)
    for height, width in sorted(mask.grids()):
        if height * width < length:
            raise ValueError(
                f"mask={expression!r} speaks of a grid of {height} × {width}, and "
                f"context_length={length} is more than its {height * width} places, beyond which "
                f"all read all: {-(-length // width)} × {width} would do"
            )
    return mask
