"""Multi-head attention: four projections around whichever attention, place and mask it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.algebra import Mask
from regard.attention.cache import Cache, KeyValues, KVCache, Readable
from regard.attention.call import Call, Predicate, check_mask
from regard.attention.core import AttentionOutput, attend_fused
from regard.attention.pos_embed import PositionalEncoding
from regard.attention.positions import Positions
from regard.errors import nearest_widths

Attention = Callable[..., Tensor | AttentionOutput]  # with the arguments of attend
Observer = Callable[[Call, Tensor, bool], None]  # the call, its read, whether of its own tokens


def check_fits(attention: Attention, mask: Mask | Predicate | Tensor | None) -> None:
    """Let an attention that has no use for masks refuse one before anything is computed."""
    refuse = getattr(attention, "refuse", None)
    if refuse is not None:
        refuse(mask)


class MultiHeadAttention(nn.Module):
    """Tokens read from tokens: their own (self-attention) or another sequence's (`context`).

    `kv_heads` is the number of key and value heads that the query heads share. `attention`,
    `pos_embed` and `mask` are values: any function with the arguments of `attend`, any
    `PositionalEncoding`, any mask; the last two may be replaced for one call.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_width: int | None = None,
        context_width: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        beta: float | int | None = None,
        attention: Attention = attend_fused,
        pos_embed: PositionalEncoding | None = None,
        mask: Mask | Predicate | None = None,
    ) -> None:
        super().__init__()
        if heads < 1:
            raise ValueError(f"heads={heads}: there must be at least 1")
        if pos_embed is not None and not isinstance(pos_embed, PositionalEncoding):
            raise TypeError(f"pos_embed is an instance such as rope(), not {pos_embed!r}")
        check_mask(mask)
        if not callable(attention):
            raise TypeError(f"attention is a function such as attend_fused, not {attention!r}")
        check_fits(attention, mask)
        if width < 1:
            raise ValueError(f"width {width}: there must be at least 1")
        if head_width is None and width % heads:
            near = nearest_widths(width, heads)
            raise ValueError(f"width {width} does not split into {heads} heads; {near}")
        kv_heads = heads if kv_heads is None else kv_heads
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"{heads} heads do not share {kv_heads} groups of keys evenly")
        self.heads, self.groups = heads, kv_heads
        self.head_width = d = width // heads if head_width is None else head_width
        self.beta, self.attention, self.mask = beta, attention, mask
        self.pos_embed = PositionalEncoding() if pos_embed is None else pos_embed
        self.observers: tuple[Observer, ...] = ()  # those of watch, for as long as it watches

        context_width = width if context_width is None else context_width
        self.to_q = nn.Linear(width, heads * d, bias=bias)
        self.to_k = nn.Linear(context_width, kv_heads * d, bias=bias)
        self.to_v = nn.Linear(context_width, kv_heads * d, bias=bias)
        self.to_out = nn.Linear(heads * d, width, bias=bias if out_bias is None else out_bias)

    def forward(
        self,
        x: Float[Tensor, "*b n c"],
        context: Float[Tensor, "*b m w"] | None = None,
        *,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
        cache: Cache | None = None,
        place: PositionalEncoding | None = None,
        mask: Mask | Predicate | Tensor | None = None,
    ) -> Float[Tensor, "*b n c"]:
        """What each token reads, projected back to the model's width.

        Positions default to 0 … n − 1. With a cache they must be said, and the cache remembers
        the keys: in self-attention it grows with x, in cross-attention it holds the context,
        which is projected once.
        """
        for name, tokens, to in (("x", x, self.to_q), ("context", context, self.to_k)):
            if tokens is not None and tokens.shape[-1] != to.in_features:
                raise ValueError(
                    f"{name} is {tokens.shape[-1]} wide and this layer reads {to.in_features}"
                )
        place = self.pos_embed if place is None else place
        mask = self.mask if mask is None else mask
        if positions is None:
            if cache is not None and context is None:
                raise ValueError("with a cache, say where the tokens are: positions=range(…)")
            positions = range(x.shape[-2])

        q = self.split(self.to_q(x), self.heads)
        if context is not None and cache is not None and cache.kept is not None:
            kept = cache.kept
            q, _ = place.rotate(q, q[..., :0, :], positions, range(0))
        else:
            source = x if context is None else context
            source_positions = positions if context is None else context_positions
            k_pos = range(source.shape[-2]) if source_positions is None else source_positions
            k = self.split(self.to_k(source), self.groups)
            v = self.split(self.to_v(source), self.groups)
            q, k = place.rotate(q, k, positions, k_pos)
            if cache is not None and context is not None:
                k, v = k.contiguous(), v.contiguous()  # read at every step: heads side by side
            kept = KeyValues(k, v, k_pos) if cache is None else cache.append(k, v, k_pos)

        bias = place.bias(positions, kept.positions)
        read = self.read(kept, q, mask=mask, q_pos=positions, bias=bias)
        if self.observers:
            k, v = kept.seen()
            if cache is not None and cache.overwrites:
                k, v = k.clone(), v.clone()
            check = getattr(self.attention, "check", Call.check)
            call = check(q, k, v, mask, positions, kept.positions, bias, self.beta)
            for observer in self.observers:
                observer(call, read, context is None)
        return self.to_out(read.transpose(-3, -2).flatten(-2))  # b h n e → b n (h e)

    def __getstate__(self) -> dict[str, Any]:
        """A copy of a watched layer is not watched."""
        return {**self.__dict__, "observers": ()}

    def new_cache(
        self, *, size: int | None = None, keep: Mask | None = None, context: bool = False
    ) -> Cache:
        """An empty memory of this layer's tokens, or of a context: its attention's own, if any.

        Whoever watches wants to see keys, and a bias is added to the score of each: then, as for
        every attention without a memory of its own, it is a `KVCache`.
        """
        own = getattr(self.attention, "new_cache", None)
        if (
            own is not None
            and not self.observers
            and type(self.pos_embed).bias is PositionalEncoding.bias
        ):
            memory: Cache | None = own(None if context else self.mask, self.beta)
            if memory is not None:
                return memory
        return KVCache(size=size, keep=keep)

    def read(
        self, kept: Readable, q: Float[Tensor, "*b h n d"], **options: Any
    ) -> Float[Tensor, "*b h n e"]:
        """The read of the attention that was passed in; `attend` brings weights along."""
        out = kept.read(self.attention, q, beta=self.beta, **options)
        return out.output if isinstance(out, AttentionOutput) else out

    @staticmethod
    def split(x: Float[Tensor, "*b n w"], heads: int) -> Float[Tensor, "*b h n d"]:
        """Cut the width into heads: b n (h d) → b h n d."""
        return x.unflatten(-1, (heads, -1)).transpose(-3, -2)
