"""What one word more may read: the words before it and a context, as a decoder's step sees them.

`Growing` is what the caches of blocks hold; `regard.generation.static_cache` has another, at
addresses that do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention import KVCache, MultiHeadAttention, Positions
from regard.attention.call import Call
from regard.attention.kernels.sdpa import whole
from regard.models.block import BlockCache


@runtime_checkable
class Memory(Protocol):
    """What one word more may read: the words before it, and a context."""

    positions: Positions
    """Where the new words are: a range of one, or (r 1)."""
    items: int
    """Rows of the context; rows of words follow one another in as many equal groups."""

    def own(self, at: int, layer: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Keep the new keys and values of block `at`, (r g 1 d); what (r h 1 d) queries read."""

    def context(self, at: int, layer: MultiHeadAttention, q: Tensor) -> Tensor:
        """What queries, (items h texts d), read of the context in block `at`."""


class Growing:
    """The caches of the blocks, of texts that all have one length."""

    def __init__(
        self,
        caches: Sequence[BlockCache],
        length: int,
        context: Float[Tensor, "b m w"] | None,
        context_positions: Positions | None,
    ) -> None:
        self.caches, self.seen, self.where = caches, context, context_positions
        self.positions: Positions = range(length, length + 1)
        self.items = 0 if context is None else len(context)

    def own(self, at: int, layer: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        cache = self.caches[at].attention
        assert isinstance(cache, KVCache)  # of a layer that `can_be_lean` knows
        k, v, where = cache.append(k, v, self.positions)
        read = whole(Call(q, k, v, None, None, None, None, q.shape[-1] ** -0.5))
        tell(layer, q, k, v, read, self.positions, where, own=True)
        return read

    def context(self, at: int, layer: MultiHeadAttention, q: Tensor) -> Tensor:
        cache = self.caches[at].cross
        assert isinstance(cache, KVCache) and self.seen is not None
        if cache.kept is None:
            keep_context(layer, self.seen, self.where, cache)
        assert cache.kept is not None
        k, v, where = cache.kept
        if isinstance(where, range):
            read = whole(Call(q, k, v, None, None, None, None, q.shape[-1] ** -0.5))
        else:
            read = read_some(q, k, v, nowhere(where, q))
        tell(layer, q, k, v, read, self.positions, where, own=False)
        return read


def keep_context(
    layer: MultiHeadAttention,
    context: Float[Tensor, "b m w"],
    where: Positions | None,
    cache: KVCache,
) -> None:
    """Keys and values of a context, made once. All steps read them: heads lie side by side."""
    k, v = (layer.split(to(context), layer.groups) for to in (layer.to_k, layer.to_v))
    where = range(context.shape[1]) if where is None else where
    cache.append(k.contiguous(), v.contiguous(), where)


def nowhere(positions: Tensor, like: Tensor) -> Float[Tensor, "b 1 1 m"]:
    """What is added to scores so that nothing at −1 is read."""
    bias = torch.zeros(positions.shape, dtype=like.dtype, device=like.device)
    bias = bias.masked_fill(positions < 0, -torch.inf)
    return bias.view(-1, 1, 1, bias.shape[-1])


def read_some(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """softmax(q kᵀ / √d + bias) v; query heads that share a key head are its rows."""
    b, h, n, d = q.shape
    g = k.shape[1]
    if n == 1 and g < h:
        q = q.view(b, g, h // g, d)
    read = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=q.shape[1] != g)
    return read.view(b, h, n, -1) if n == 1 else read


def tell(
    layer: MultiHeadAttention,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    read: Tensor,
    here: Positions,
    where: Positions,
    *,
    own: bool,
) -> None:
    """Tell observers of a layer what was read: of the texts themselves, or of the context."""
    if not layer.observers:
        return
    texts = q.shape[2]
    if not own and isinstance(here, Tensor):
        here = here.view(len(q), texts)
    elif not own and texts > 1:
        here = range(texts)  # as `read_context` says
    call = Call.check(q, k, v, layer.mask if own else None, here, where)
    for observer in layer.observers:
        observer(call, read, own)
