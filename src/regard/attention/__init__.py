"""One readable attention, with everything that must agree with it: masks, positions, caches."""

from regard.attention.algebra import Cover, Mask
from regard.attention.cache import Kept, KVCache
from regard.attention.call import Call
from regard.attention.core import Attended, attend, attend_fused, explain
from regard.attention.heads import MultiHead
from regard.attention.masks import (
    MASKS,
    axial,
    blocks,
    causal,
    dilated,
    everywhere,
    neighbourhood,
    prefix,
    random_keys,
    sinks,
    strided,
    window,
)
from regard.attention.positions import (
    Place,
    alibi,
    learned,
    learned_2d,
    relative_bias,
    rotary,
    rotary_2d,
    sinusoidal,
    sinusoidal_2d,
)
from regard.attention.trace import trace_shapes
from regard.attention.watch import Seen, Watching, watch
from regard.attention.where import Positions

__all__ = [
    "MASKS",
    "Attended",
    "Call",
    "Cover",
    "KVCache",
    "Kept",
    "Mask",
    "MultiHead",
    "Place",
    "Positions",
    "Seen",
    "Watching",
    "alibi",
    "attend",
    "attend_fused",
    "axial",
    "blocks",
    "causal",
    "dilated",
    "everywhere",
    "explain",
    "learned",
    "learned_2d",
    "neighbourhood",
    "prefix",
    "random_keys",
    "relative_bias",
    "rotary",
    "rotary_2d",
    "sinks",
    "sinusoidal",
    "sinusoidal_2d",
    "strided",
    "trace_shapes",
    "watch",
    "window",
]
