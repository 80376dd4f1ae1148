"""How the words of a text know where they are: added once before the blocks, or inside attention.

before = place_before("learned", length=64, width=128)    # its `embed` goes before the first block
stack(config, place=place_inside("rotary"))                 # one of these goes into every block
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from regard.attention import Place, learned, rotary, sinusoidal


def place_before(kind: str, length: int, width: int) -> Place:
    """What is added to the words before the blocks: nothing, for rotary positions or none."""
    schemes: dict[str, Callable[[], Place]] = {
        "learned": partial(learned, length, width),
        "sinusoidal": partial(sinusoidal, width),
        "rotary": Place,  # acts inside the attention layers
        "none": Place,
    }
    return schemes[kind]()


def place_inside(kind: str) -> Callable[[], Place]:
    """What acts inside the attention layers: rotary positions do, others are added before."""
    return rotary if kind == "rotary" else Place
