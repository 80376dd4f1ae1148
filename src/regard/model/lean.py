"""One word more for every text, with nothing around the arithmetic.

Blocks can do much that one word behind a full cache has no need of: masks, chunks, positions that
turn keys, dropout. To ask about all this takes longer than the small products of a decoder's step.
`prepare` asks once, when texts are begun, and `lean_step` then computes what the blocks would,
from the same weights and with the same caches. Where anything is out of the ordinary there is
nothing to prepare, and words go through the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import KVCache, MultiHead, Place, attend_fused, causal
from regard.attention.call import Call
from regard.attention.kernels import whole
from regard.model.block import Block, BlockCache
from regard.model.norm import LayerNorm
from regard.model.parts import FeedForward, StochasticDepth

Linear = tuple[Tensor, Tensor | None]  # weight and bias


class PreparedCross(NamedTuple):
    """What a step needs of the layer that reads a context."""

    norm: Callable[[Tensor], Tensor]
    layer: MultiHead
    q: Linear
    out: Linear


class Prepared(NamedTuple):
    """What a step needs of one block; attribute by attribute a module would give it slowly."""

    pre: bool
    attention_norm: Callable[[Tensor], Tensor]
    attention: MultiHead
    qkv: Linear
    attention_out: Linear
    cross: PreparedCross | None
    feed_forward_norm: Callable[[Tensor], Tensor]
    activation: Callable[[Tensor], Tensor]
    hidden: Linear
    gate: Linear | None
    out: Linear


PARTS = {
    Block,
    MultiHead,
    FeedForward,
    StochasticDepth,
    Place,  # those that turn keys or add to scores are classes of their own
    LayerNorm,
    nn.RMSNorm,
    nn.Linear,
    nn.Dropout,
}


def prepare(decoder: nn.ModuleList) -> list[Prepared] | None:
    """What `lean_step` needs, or None for a stack that it must leave to the blocks.

    Someone else's part, or a hook on one of ours, would be passed over in silence. Observers of
    `watch` are not: they are told as the blocks tell them.
    """
    for part in decoder.modules():
        if part is not decoder and (
            type(part) not in PARTS
            or part.training
            or part._forward_hooks
            or part._forward_pre_hooks
        ):
            return None
    blocks = [block for block in decoder if isinstance(block, Block)]
    if len(blocks) < len(decoder):
        return None
    for block in blocks:
        for layer, mask in ((block.attention, causal), (block.cross, None)):
            if layer is None:
                continue
            if layer.attention is not attend_fused or layer.beta is not None or layer.mask != mask:
                return None
    return [_prepared(block) for block in blocks]


def lean_step(
    blocks: Sequence[Prepared],
    x: Float[Tensor, "r c"],
    at: int,
    context: Float[Tensor, "b m w"] | None,
    caches: Sequence[BlockCache],
) -> Float[Tensor, "r c"]:
    """The blocks applied to one token a row, at position `at`, after what the caches hold.

    Rows follow one another in equal groups, each of which reads one row of the context.
    """
    for block, cache in zip(blocks, caches, strict=True):
        y = block.attention_norm(x) if block.pre else x
        x = x + _read_own(block, y, at, cache.attention)
        x = x if block.pre else block.attention_norm(x)

        if block.cross is not None:
            assert context is not None and cache.cross is not None
            y = block.cross.norm(x) if block.pre else x
            x = x + _read_context(block.cross, y, at, context, cache.cross)
            x = x if block.pre else block.cross.norm(x)

        y = block.feed_forward_norm(x) if block.pre else x
        hidden = block.activation(F.linear(y, *block.hidden))
        if block.gate is not None:
            hidden = hidden * F.linear(y, *block.gate)
        x = x + F.linear(hidden, *block.out)
        x = x if block.pre else block.feed_forward_norm(x)
    return x


def _read_own(block: Prepared, x: Tensor, at: int, cache: KVCache) -> Tensor:
    layer = block.attention
    g, d = layer.groups, layer.head_width
    # One token: heads split without a transpose.
    heads = F.linear(x, *block.qkv).view(len(x), layer.heads + 2 * g, 1, d)
    q, k, v = heads.split((layer.heads, g, g), 1)
    here = range(at, at + 1)
    k, v, where = cache.append(k, v, here)
    read = whole(Call(q, k, v, None, None, None, None, d**-0.5))
    if layer.observers:
        call = Call.check(q, k, v, layer.mask, here, where)
        for observer in layer.observers:
            observer(call, read, True)
    return F.linear(read.reshape(len(x), -1), *block.attention_out)


def _read_context(
    cross: PreparedCross, x: Tensor, at: int, context: Tensor, cache: KVCache
) -> Tensor:
    layer, items = cross.layer, len(context)
    if cache.kept is None:
        k, v = (layer.split(to(context), layer.groups) for to in (layer.to_k, layer.to_v))
        # All steps read these, so it pays to lay each head's side by side.
        cache.append(k.contiguous(), v.contiguous(), range(context.shape[1]))
    assert cache.kept is not None
    k, v, where = cache.kept
    q = F.linear(x, *cross.q).view(
        items, len(x) // max(1, items), layer.heads, k.shape[-1]
    )  # b texts h d
    q = q.transpose(1, 2)
    read = whole(Call(q, k, v, None, None, None, None, k.shape[-1] ** -0.5))
    if layer.observers:
        texts = q.shape[2]
        here = range(at, at + 1) if texts == 1 else range(texts)  # as `read_context` says
        call = Call.check(q, k, v, None, here, where)
        for observer in layer.observers:
            observer(call, read, False)
    return F.linear(read.transpose(1, 2).reshape(len(x), -1), *cross.out)


def _prepared(block: Block) -> Prepared:
    own, feed = block.attention, block.feed_forward
    assert isinstance(feed, FeedForward)
    cross = None
    if block.cross is not None:
        assert block.cross_norm is not None
        q, out = _linear(block.cross.to_q), _linear(block.cross.to_out)
        cross = PreparedCross(block.cross_norm.forward, block.cross, q, out)
    return Prepared(
        pre=block.order == "pre",
        attention_norm=block.attention_norm.forward,
        attention=own,
        qkv=_linear(own.to_q, own.to_k, own.to_v),
        attention_out=_linear(own.to_out),
        cross=cross,
        feed_forward_norm=block.feed_forward_norm.forward,
        activation=feed.activation,
        hidden=_linear(feed.to_hidden),
        gate=None if feed.to_gate is None else _linear(feed.to_gate),
        out=_linear(feed.to_out),
    )


def _linear(*layers: nn.Linear) -> Linear:
    """A layer's own tensors, or copies of several as one: these live as long as the texts do."""
    first = layers[0]
    if len(layers) == 1:
        return first.weight, first.bias
    weight = torch.cat([layer.weight for layer in layers])
    return weight, None if first.bias is None else torch.cat([layer.bias for layer in layers])
