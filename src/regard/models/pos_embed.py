"""How the words of a text know where they are: added once before the blocks, or inside attention.

before = pos_embed_before("learned", 64, 128)              # its `embed` goes before the blocks
make_blocks(config, pos_embed=pos_embed_inside("rope"))    # one of these goes into every block
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from regard.attention import PositionalEncoding, learned, rope, sinusoidal


def pos_embed_before(kind: str, length: int, width: int) -> PositionalEncoding:
    """What is added to the words before the blocks: nothing, for rotary positions or none."""
    schemes: dict[str, Callable[[], PositionalEncoding]] = {
        "learned": partial(learned, length, width),
        "sinusoidal": partial(sinusoidal, width),
        "rope": PositionalEncoding,  # acts inside the attention layers
        "none": PositionalEncoding,
    }
    return schemes[kind]()


def pos_embed_inside(kind: str) -> Callable[[], PositionalEncoding]:
    """What acts inside the attention layers: rotary positions do, others are added before."""
    return rope if kind == "rope" else PositionalEncoding
