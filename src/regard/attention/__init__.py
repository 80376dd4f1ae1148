"""One readable attention, with everything that must agree with it: masks, positions, caches."""

from regard.attention.algebra import Cover, Mask
from regard.attention.cache import Kept, KVCache
from regard.attention.call import Call
from regard.attention.channel import attend_channels
from regard.attention.core import Attended, attend, attend_fused, explain
from regard.attention.features import (
    Elu,
    FeatureMap,
    Learned,
    RandomFeatures,
    Relu,
    Taylor,
)
from regard.attention.linear import Linear
from regard.attention.linear_state import LinearState
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
    summary,
    window,
    windows,
)
from regard.attention.multi_head import MultiHead
from regard.attention.named import ATTENTIONS, FEATURES, make_attention
from regard.attention.patterns import (
    PATTERNS,
    bigbird,
    longformer,
    sparse_transformer,
    sparse_transformer_fixed,
)
from regard.attention.pos_embed import (
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
from regard.attention.positions import Positions
from regard.attention.receptive_field import layers_to_reach, reached
from regard.attention.trace import trace_shapes
from regard.attention.watch import Seen, Watching, watch

__all__ = [
    "ATTENTIONS",
    "FEATURES",
    "MASKS",
    "PATTERNS",
    "Attended",
    "Call",
    "Cover",
    "Elu",
    "FeatureMap",
    "KVCache",
    "Kept",
    "Learned",
    "Linear",
    "LinearState",
    "Mask",
    "MultiHead",
    "Place",
    "Positions",
    "RandomFeatures",
    "Relu",
    "Seen",
    "Taylor",
    "Watching",
    "alibi",
    "attend",
    "attend_channels",
    "attend_fused",
    "axial",
    "bigbird",
    "blocks",
    "causal",
    "dilated",
    "everywhere",
    "explain",
    "layers_to_reach",
    "learned",
    "learned_2d",
    "longformer",
    "make_attention",
    "neighbourhood",
    "prefix",
    "random_keys",
    "reached",
    "relative_bias",
    "rotary",
    "rotary_2d",
    "sinks",
    "sinusoidal",
    "sinusoidal_2d",
    "sparse_transformer",
    "sparse_transformer_fixed",
    "strided",
    "summary",
    "trace_shapes",
    "watch",
    "window",
    "windows",
]
