"""One readable attention, with everything that must agree with it: masks, positions, caches."""

from regard.attention.algebra import Cover, Mask
from regard.attention.cache import KeyValues, KVCache
from regard.attention.call import Call
from regard.attention.channel import attend_channels
from regard.attention.core import AttentionOutput, attend, attend_fused, explain_kernel
from regard.attention.features import (
    EluFeatures,
    FeatureMap,
    LearnedFeatures,
    RandomFeatures,
    ReluFeatures,
    TaylorFeatures,
)
from regard.attention.linear import LinearAttention
from regard.attention.linear_state import LinearState
from regard.attention.masks import (
    MASKS,
    axial,
    block_summary,
    blocks,
    causal,
    dilated,
    global_tokens,
    grid_windows,
    neighborhood,
    prefix,
    random_keys,
    sinks,
    strided,
    window,
)
from regard.attention.multi_head import MultiHeadAttention
from regard.attention.named import ATTENTIONS, FEATURES, make_attention
from regard.attention.patterns import (
    PATTERNS,
    bigbird,
    longformer,
    sparse_transformer,
    sparse_transformer_fixed,
)
from regard.attention.pos_embed import (
    PositionalEncoding,
    alibi,
    learned,
    learned_2d,
    relative_bias,
    rope,
    rope_2d,
    sinusoidal,
    sinusoidal_2d,
)
from regard.attention.positions import Positions
from regard.attention.receptive_field import layers_to_cover, receptive_field
from regard.attention.trace import trace_shapes
from regard.attention.watch import AttentionRecord, Watch, watch

__all__ = [
    "ATTENTIONS",
    "FEATURES",
    "MASKS",
    "PATTERNS",
    "AttentionOutput",
    "AttentionRecord",
    "Call",
    "Cover",
    "EluFeatures",
    "FeatureMap",
    "KVCache",
    "KeyValues",
    "LearnedFeatures",
    "LinearAttention",
    "LinearState",
    "Mask",
    "MultiHeadAttention",
    "PositionalEncoding",
    "Positions",
    "RandomFeatures",
    "ReluFeatures",
    "TaylorFeatures",
    "Watch",
    "alibi",
    "attend",
    "attend_channels",
    "attend_fused",
    "axial",
    "bigbird",
    "block_summary",
    "blocks",
    "causal",
    "dilated",
    "explain_kernel",
    "global_tokens",
    "grid_windows",
    "layers_to_cover",
    "learned",
    "learned_2d",
    "longformer",
    "make_attention",
    "neighborhood",
    "prefix",
    "random_keys",
    "receptive_field",
    "relative_bias",
    "rope",
    "rope_2d",
    "sinks",
    "sinusoidal",
    "sinusoidal_2d",
    "sparse_transformer",
    "sparse_transformer_fixed",
    "strided",
    "trace_shapes",
    "watch",
    "window",
]
