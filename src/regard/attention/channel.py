"""Channels read channels: attention turned on its side, so that its map does not grow with n.

A head is a group of d channels, and each channel is a token whose features are its values at all n
places: attend(qᵀ, kᵀ, vᵀ)ᵀ, a map of d × d and a cost of n·d² (Ding et al. 2022, DaViT). Every
channel sums over the whole sequence, so what a token reads depends on all others although it mixes
its own channels only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.algebra import Mask
from regard.attention.call import Call, Predicate
from regard.attention.core import AttentionOutput, plain
from regard.attention.kernels.dtype import narrowing_off
from regard.attention.positions import Positions, somewhere


@dataclass(frozen=True)
class ChannelCall(Call):
    """A call that `ChannelAttention.check` has seen: its β is the one between channels."""


@dataclass(frozen=True)
class ChannelAttention:
    """Attention between the channels of each head; call it as `attend_channels`.

    β defaults to n^-1/2: a score sums over n places as one between tokens sums over d channels,
    and this keeps it at unit variance. The paper divides by √d instead, as between tokens, which
    makes scores grow with the image; its successor in Florence-2 divides by √n, as here. Pass
    beta=d**-0.5 for the paper's.

    A token that is nowhere (position −1) adds to no score, does not count in that n, and reads
    zeros: padding changes nothing.
    """

    def __call__(
        self,
        q: Float[Tensor, "... n d"],
        k: Float[Tensor, "... n d"],
        v: Float[Tensor, "... n d"],
        *,
        mask: Mask | Predicate | Tensor | None = None,
        q_pos: Positions | None = None,
        k_pos: Positions | None = None,
        bias: Predicate | Tensor | None = None,
        beta: float | int | None = None,
    ) -> Float[Tensor, "... n d"]:
        """What each channel reads of the channels of its head, at every token.

        Two matrix products that never transpose in memory: torch's fused kernels would have to
        take n for the width of a head, which they refuse beyond a few hundred.
        """
        call = self.check(q, k, v, mask, q_pos, k_pos, bias, beta)
        if call.beta in (0, math.inf) or not call.q.numel():
            return self.plain(call).output
        with narrowing_off(call.q.device):
            q, k, v = _alike(*call.blanked())
            # β first, for a sum over thousands of tokens leaves half precision's range otherwise.
            scores = (q * call.beta).mT @ k
            wide = torch.promote_types(scores.dtype, torch.float32)
            weights = scores.softmax(-1, dtype=wide).to(v.dtype)
            return _nowhere_reads_zeros(v @ weights.mT, call)

    def plain(self, call: Call) -> AttentionOutput:
        """The same as it is written down: `attend` on transposes.

        The weights are (… h d d): row i says what channel i read of each channel. There is no map
        between tokens, so none of some rows of them either; and a call that only `Call.check` has
        seen, with the β between tokens, is refused rather than answered with a wrong map.
        """
        if not isinstance(call, ChannelCall):
            raise ValueError(
                "channels read channels: there is no map between tokens to show; "
                "attend_channels.plain(attend_channels.check(q, k, v)) has the one between channels"
            )
        n, m = call.q.shape[-2], call.k.shape[-2]
        if n != m:
            raise ValueError(
                f"channels read channels over all {m} tokens at once: {n} rows of them have no "
                "map of their own; ask for all"
            )
        if not call.q.numel():
            return AttentionOutput(
                call.v, call.q.new_zeros(*call.q.shape[:-2], *call.q.shape[-1:] * 2)
            )
        q, k, v = (x.mT for x in call.blanked())
        read, weights = plain(Call(q, k, v, None, None, None, None, call.beta))
        return AttentionOutput(_nowhere_reads_zeros(read.mT, call), weights)

    def refuse(self, what: Mask | Predicate | Tensor | None, name: str = "mask") -> None:
        """Say that a mask or a bias, of which a layer may have one, is not for channels."""
        if isinstance(what, Mask) and what.implies_causal:  # which a model that writes always has
            raise ValueError(
                f"mask {what} reads only what is before, as every model that writes does, and "
                "attention='channels' cannot be masked: channels read channels over all tokens at "
                "once; take softmax or linear"
            )
        if what is not None:
            description = f"of shape {tuple(what.shape)}" if isinstance(what, Tensor) else what
            raise ValueError(
                f"{name} {description} is between tokens, and in attention='channels' channels "
                "read channels: leave it out, or take softmax or linear"
            )

    def check(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Mask | Predicate | Tensor | None = None,
        q_pos: Positions | None = None,
        k_pos: Positions | None = None,
        bias: Predicate | Tensor | None = None,
        beta: float | int | None = None,
    ) -> ChannelCall:
        """As `Call.check`, with what a map between channels cannot have refused, and its own β."""
        self.refuse(mask)
        self.refuse(bias, "bias")
        call = ChannelCall.check(q, k, v, None, q_pos, k_pos, None, beta)
        assert isinstance(call, ChannelCall)
        n, m, d, e = *q.shape[-2:-1], *k.shape[-2:], v.shape[-1]
        if n != m:
            raise ValueError(
                f"channels are compared token by token, and {n} queries cannot be with {m} keys"
            )
        if d != e:
            raise ValueError(
                f"keys have {d} channels and values {e}: each channel that is read has one of both"
            )
        both = isinstance(q_pos, range) and isinstance(k_pos, range)
        if both and q_pos != k_pos:
            raise ValueError(
                f"channels are compared token by token: queries at {q_pos} and keys at {k_pos} "
                "are not the same tokens"
            )
        if beta is not None or not n:
            return call
        call = replace(call, beta=n**-0.5)
        there = _there(call)
        if there is not None:  # fewer than n tokens are summed over, in each sequence its own
            count = there.sum(-1, keepdim=True).clamp(min=1).to(q.dtype)
            stretch = (n / count)[..., None].sqrt()  # *b 1 1
            call = replace(
                call, q=call.q * (stretch.unsqueeze(-3) if stretch.ndim > 2 else stretch)
            )
        return call


attend_channels = ChannelAttention()


def _alike(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values once for each query head that shares them."""
    share = q.shape[-3] // k.shape[-3] if q.ndim > 2 else 1
    if share == 1:
        return q, k, v
    return q, k.repeat_interleave(share, -3), v.repeat_interleave(share, -3)


def _there(call: Call) -> Tensor | None:
    """Which tokens are anywhere, both as queries and as keys; None when all are."""
    masks = [somewhere(pos) for pos in (call.q_pos, call.k_pos) if pos is not None]
    known = [mask for mask in masks if mask is not None]
    if not known:
        return None
    return known[0] if len(known) == 1 else known[0] & known[1]


def _nowhere_reads_zeros(read: Tensor, call: Call) -> Tensor:
    there = None if call.q_pos is None else somewhere(call.q_pos)
    if there is None:
        return read
    gone = ~there[..., None]  # *b n 1
    return read.masked_fill(gone.unsqueeze(-3) if gone.ndim > 2 else gone, 0.0)
