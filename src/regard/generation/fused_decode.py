"""One word more for every text, with nothing around the arithmetic.

Blocks can do much that one word behind a full memory has no need of: masks, chunks, dropout. To
ask about all this takes longer than the small products of a decoder's step. `prepare` asks once,
when texts are begun, and `lean_step` then computes what the blocks would, from the same weights.
Where anything is out of the ordinary there is nothing to prepare, and words go through the blocks.

What was read before lies in a `regard.generation.memory`: in caches that grow, or in a room at
fixed addresses, which a GPU needs to play a step back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, PositionalEncoding, attend_fused, causal
from regard.attention.pos_embed import Rope, rotate
from regard.generation.memory import Memory
from regard.models.block import Block
from regard.models.layers import MLP, DropPath
from regard.models.norm import LayerNorm, has_triton

Apply = Callable[[Tensor], Tensor]
Add = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class PreparedCross(NamedTuple):
    """What a step needs of the layer that reads a context."""

    layer: MultiHeadAttention
    to_q: Apply
    to_out: Apply
    add: Add


class PreparedBlock(NamedTuple):
    """What a step needs of one block; attribute by attribute a module would give it slowly.

    An `add` takes the stream and a branch, and gives the stream that goes on and what the next
    sub-layer is to see of it.
    """

    attention: MultiHeadAttention
    to_qkv: Apply
    attention_out: Apply
    add_attention: Add
    cross: PreparedCross | None
    activation: Apply
    to_hidden: Apply
    to_gate: Apply | None
    to_out: Apply
    add: Add


class Prepared(NamedTuple):
    """A stack made ready: what its first block sees, the blocks, and how words are scored."""

    first: Apply
    blocks: list[PreparedBlock]
    rotary: Rope | None
    score: Apply
    copies: list[tuple[Tensor, Tensor]]
    """Parts of tensors that were joined, and the weights they are copies of."""

    def renew(self) -> None:
        """Copy the weights once more: they may have changed, where no counter notices."""
        if self.copies:
            parts, weights = zip(*self.copies, strict=True)
            torch._foreach_copy_(parts, weights)

    @property
    def observed(self) -> bool:
        """Whether somebody watches one of the layers."""
        return any(
            block.attention.observers or (block.cross is not None and block.cross.layer.observers)
            for block in self.blocks
        )


PARTS = {
    Block,
    MultiHeadAttention,
    MLP,
    DropPath,
    PositionalEncoding,  # those that add to scores are classes of their own
    Rope,
    LayerNorm,
    nn.RMSNorm,
    nn.Linear,
    nn.Dropout,
    nn.Identity,  # in place of the last norm, after blocks that end with one
}


def can_be_lean(decoder: nn.ModuleList, norm: nn.Module, to_words: nn.Module | None) -> bool:
    """Whether a stack, and what comes after it, are made of what `lean_step` knows.

    Someone else's part, or a hook on one of ours, would be passed over in silence. Observers of
    `watch` are not: they are told as the blocks tell them.
    """
    last = [norm] if to_words is None else [norm, to_words]
    for part in (part for stack in (decoder, *last) for part in stack.modules()):
        if part is not decoder and (
            type(part) not in PARTS
            or part.training
            or part._forward_hooks
            or part._forward_pre_hooks
        ):
            return False
    if to_words is not None and (not isinstance(to_words, nn.Linear) or to_words.bias is not None):
        return False
    bases = set()
    for block in decoder:
        if not isinstance(block, Block):
            return False
        for layer, mask in ((block.attention, causal), (block.cross, None)):
            if layer is None:
                continue
            if layer.attention is not attend_fused or layer.beta is not None or layer.mask != mask:
                return False
        bases.add(getattr(block.attention.pos_embed, "base", None))
        if block.cross is not None and type(block.cross.pos_embed) is not PositionalEncoding:
            return False
    return len(bases) == 1


def prepare(
    decoder: nn.ModuleList, norm: nn.Module, table: Float[Tensor, "words c"], rows: int
) -> Prepared:
    """What `lean_step` needs of a stack that `can_be_lean`, for so many texts.

    `norm` is the one behind the stack, and words are scored by the rows of `table`.
    """
    copies: list[tuple[Tensor, Tensor]] = []

    def linear(*layers: nn.Linear) -> Apply:
        first, *more = layers
        if not more:
            return product(first.weight, first.bias, rows)
        weight = joined([each.weight for each in layers], copies)
        bias = None if first.bias is None else joined([each.bias for each in layers], copies)
        return product(weight, bias, rows)

    blocks = [block for block in decoder if isinstance(block, Block)]
    pre = blocks[0].norm_first
    # Before each sub-layer a norm, and one behind the last; or one after each.
    norms = [norm for block in blocks for norm in norms_of(block)]
    after = iter([*norms[1:], norm] if pre else norms)

    def prepared(block: Block) -> PreparedBlock:
        own, feed, cross = block.attention, block.mlp, None
        assert isinstance(feed, MLP)
        add_attention = adding(next(after), pre=pre)
        if block.cross is not None:
            to_q, to_out = linear(block.cross.to_q), linear(block.cross.to_out)
            cross = PreparedCross(block.cross, to_q, to_out, adding(next(after), pre=pre))
        return PreparedBlock(
            attention=own,
            to_qkv=linear(own.to_q, own.to_k, own.to_v),
            attention_out=linear(own.to_out),
            add_attention=add_attention,
            cross=cross,
            activation=feed.activation,
            to_hidden=linear(feed.fc1),
            to_gate=None if feed.gate is None else linear(feed.gate),
            to_out=linear(feed.fc2),
            add=adding(next(after), pre=pre),
        )

    place = blocks[0].attention.pos_embed
    return Prepared(
        first=norms[0].forward if pre else lambda x: x,
        blocks=[prepared(block) for block in blocks],
        rotary=place if isinstance(place, Rope) else None,
        score=scoring(table, copies, rows),
        copies=copies,
    )


def norms_of(block: Block) -> list[nn.Module]:
    norms = (block.attention_norm, block.cross_norm, block.mlp_norm)
    return [norm for norm in norms if norm is not None]


def adding(norm: nn.Module, *, pre: bool) -> Add:
    """x, branch ↦ x + branch and its norm; after the sum, as in 2017, the norm goes on itself."""

    def plain(x: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
        x = x + branch
        return x, norm(x)

    both: Add = plain
    if isinstance(norm, (LayerNorm, nn.RMSNorm)) and norm.eps is not None and can_step(norm.weight):
        from regard.generation.kernels_triton import add_norm

        bias, centred = getattr(norm, "bias", None), isinstance(norm, LayerNorm)
        both = partial(add_norm, weight=norm.weight, bias=bias, eps=norm.eps, centred=centred)
    if pre:
        return both

    def post(x: Tensor, branch: Tensor) -> tuple[Tensor, Tensor]:
        _, y = both(x, branch)
        return y, y

    return post


def can_step(x: Tensor) -> bool:
    """Whether our kernels for steps take such numbers."""
    kinds = (torch.float32, torch.bfloat16, torch.float16)
    return x.is_cuda and x.dtype in kinds and has_triton()


def scoring(
    table: Float[Tensor, "words c"], copies: list[tuple[Tensor, Tensor]], rows: int
) -> Apply:
    """x ↦ x tableᵀ. On a GPU rows are added until 8 divides them, or the product takes thrice."""
    words = len(table)
    if not table.is_cuda or words % 8 == 0:
        return product(table, None, rows)
    padded = table.detach().new_zeros(words + -words % 8, table.shape[1])
    padded[:words] = table.detach()
    copies.append((padded[:words], table.detach()))
    return lambda x: F.linear(x, padded)[:, :words]


def joined(tensors: Sequence[Tensor], copies: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Several tensors as one, by rows; `copies` learns which part is whose."""
    whole = torch.cat([tensor.detach() for tensor in tensors])
    parts = whole.split([len(tensor) for tensor in tensors])
    copies += zip(parts, (tensor.detach() for tensor in tensors), strict=True)
    return whole


def product(weight: Float[Tensor, "o i"], bias: Float[Tensor, "o"] | None, rows: int) -> Apply:
    """x ↦ x weightᵀ + bias, from a copy of the weight where a CPU is faster with one.

    For one row a weight that widens lies as (in, out), which halves its time. For several rows it
    is packed as oneDNN likes it, which halves it too: torch's own products of so few rows are
    MKL's, and MKL packs the weight anew each time.
    """
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        return lambda x: F.linear(x, weight, bias)
    if rows > 1 and can_pack():
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows)
        apply = torch.ops.mkldnn._linear_pointwise
        return lambda x: apply(x, packed, bias, "none", [], "")
    if len(weight) < weight.shape[1]:
        return lambda x: F.linear(x, weight, bias)
    across = weight.detach().T.contiguous()
    if bias is None:
        return lambda x: x @ across
    return lambda x: torch.addmm(bias, x, across)


@cache
def can_pack() -> bool:
    """Whether this torch has oneDNN, with its products of packed weights."""
    if not torch.backends.mkldnn.is_available():
        return False
    try:
        torch.ops.mkldnn._reorder_linear_weight, torch.ops.mkldnn._linear_pointwise  # noqa: B018
    except AttributeError:
        return False
    return True


def lean_step(prepared: Prepared, x: Float[Tensor, "r c"], memory: Memory) -> Float[Tensor, "r c"]:
    """The blocks, and the norm behind them, applied to one token a row."""
    rows, turn = len(x), None
    if prepared.rotary is not None:
        width = prepared.blocks[0].attention.head_width
        turn = prepared.rotary.rotation(memory.positions, width, x)
    y = prepared.first(x)
    for at, block in enumerate(prepared.blocks):
        layer = block.attention
        h, g = layer.heads, layer.groups
        # One token: heads split without a transpose.
        heads = block.to_qkv(y).view(rows, h + 2 * g, 1, layer.head_width)
        if turn is None:
            q, k, v = heads.split((h, g, g), 1)
        else:
            turned, v = heads.split((h + g, g), 1)
            q, k = rotate(turned, *turn).split((h, g), 1)
        read = memory.own(at, layer, q, k, v)
        x, y = block.add_attention(x, block.attention_out(read.reshape(rows, -1)))

        if block.cross is not None:
            layer, items = block.cross.layer, memory.items
            q = block.cross.to_q(y).view(items, rows // max(1, items), layer.heads, -1)
            read = memory.context(at, layer, q.transpose(1, 2))  # b h texts d
            x, y = block.cross.add(x, block.cross.to_out(read.transpose(1, 2).reshape(rows, -1)))

        hidden = block.activation(block.to_hidden(y))
        if block.to_gate is not None:
            hidden = hidden * block.to_gate(y)
        x, y = block.add(x, block.to_out(hidden))
    return y
