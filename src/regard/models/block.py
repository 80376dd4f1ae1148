"""One transformer block: read, perhaps read another sequence, then think about each token alone."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Mask, MultiHeadAttention, PositionalEncoding, Positions, make_attention
from regard.attention.cache import Cache
from regard.attention.multi_head import Attention
from regard.models.config import StackConfig
from regard.models.layers import MLP, NORMS, DropPath


class BlockCache(NamedTuple):
    """What a block remembers: its own tokens, and the context if it reads one."""

    attention: Cache
    cross: Cache | None = None


class Block(nn.Module):
    """Sub-layers around a residual stream, all passed in as values.

    `norm_first=True`: x + f(norm(x)).   `norm_first=False`, as in 2017: norm(x + f(x)).
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: nn.Module,
        *,
        cross: MultiHeadAttention | None = None,
        norm: Callable[[], nn.Module],
        norm_first: bool = True,
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        if not isinstance(norm_first, bool):
            raise TypeError(f"norm_first is True or False, not {norm_first!r}")
        self.norm_first = norm_first
        self.attention, self.attention_norm = attention, norm()
        self.cross, self.cross_norm = cross, norm() if cross is not None else None
        self.mlp, self.mlp_norm = feed_forward, norm()
        self.dropout, self.drop_path = nn.Dropout(dropout), DropPath(drop_path)

    def forward(
        self,
        x: Float[Tensor, "*r n c"],
        context: Float[Tensor, "*b m w"] | None = None,
        *,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
        cache: BlockCache | None = None,
        place: PositionalEncoding | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "*r n c"]:
        x = self.add(
            x,
            self.attention_norm,
            partial(
                self.attention,
                positions=positions,
                cache=None if cache is None else cache.attention,
                place=place,
                mask=mask,
            ),
        )
        if self.cross is not None:
            assert self.cross_norm is not None
            if context is None:
                raise ValueError("this block reads a context, and none was given")
            x = self.add(
                x,
                self.cross_norm,
                partial(
                    read_context,
                    self.cross,
                    context=context,
                    positions=positions,
                    context_positions=context_positions,
                    cache=None if cache is None else cache.cross,
                ),
            )
        return self.add(x, self.mlp_norm, self.mlp)

    def add(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """One residual step, with the norm where `norm_first` puts it."""
        branch = sublayer(norm(x)) if self.norm_first else sublayer(x)
        x = x + self.drop_path(self.dropout(branch))
        return x if self.norm_first else norm(x)


def read_context(
    cross: MultiHeadAttention,
    x: Float[Tensor, "*r n c"],
    *,
    context: Float[Tensor, "*b m w"],
    positions: Positions | None,
    context_positions: Positions | None,
    cache: Cache | None,
) -> Float[Tensor, "*r n c"]:
    """Let sequences read a context each, or several read one: k rows of x for a row of it.

    Queries do not read one another here, so k texts of n words are k · n queries of one context,
    whose keys and values are computed, kept and loaded once instead of once a text.
    """
    folded, where = x, positions
    if x.ndim == context.ndim == 3 and len(x) != len(context):
        if not len(context) or len(x) % len(context):
            raise ValueError(f"{len(x)} rows do not share {len(context)} contexts evenly")
        folded = x.reshape(len(context), -1, x.shape[-1])  # r n c → b (k n) c
        if isinstance(positions, Tensor):
            where = positions.expand(len(x), -1).reshape(len(context), -1)
        else:  # nothing is nowhere, and no mask asks for more
            where = range(folded.shape[1])
    read = cross(folded, context, positions=where, context_positions=context_positions, cache=cache)
    return read.view_as(x)


def last_norm(config: StackConfig) -> nn.Module:
    """The norm after a stack; one that normalises after every sum ends with a norm already."""
    if not config.norm_first:
        return nn.Identity()
    return NORMS[config.norm](config.width, eps=config.norm_eps)


def make_blocks(
    config: StackConfig,
    *,
    mask: Mask | None = None,
    attention: Attention | None = None,
    pos_embed: Callable[[], PositionalEncoding] = PositionalEncoding,
    context_width: int | None = None,
) -> nn.ModuleList:
    """The blocks a configuration describes; with a `context_width`, each also reads a context.

    A function that is passed in as `attention` is used by all layers; of a module with weights each
    has a copy to train. Else each has its own of the kind that the configuration names.
    """
    norm = partial(NORMS[config.norm], config.width, eps=config.norm_eps)

    def own_attention() -> Attention:
        if attention is None:
            return make_attention(config.attention, config.width // config.heads)
        weighs = isinstance(attention, nn.Module) and any(True for _ in attention.parameters())
        return deepcopy(attention) if weighs else attention

    def heads(**options: Any) -> MultiHeadAttention:
        return MultiHeadAttention(
            config.width,
            config.heads,
            kv_heads=config.kv_heads,
            bias=config.bias,
            attention=own_attention(),
            **options,
        )

    def block(depth: int) -> Block:
        return Block(
            heads(pos_embed=pos_embed(), mask=mask),
            MLP(config.width, config.hidden_width, config.activation, bias=config.bias),
            cross=None if context_width is None else heads(context_width=context_width),
            norm=norm,
            norm_first=config.norm_first,
            dropout=config.dropout,
            drop_path=config.drop_path * depth / max(1, config.layers - 1),
        )

    return nn.ModuleList(block(depth) for depth in range(config.layers))
