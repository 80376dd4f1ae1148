"""Linear attention: weights φ(q)·φ(k) in place of exp(β q·k), at a cost that grows with n, not n².

    attention = LinearAttention()                # or LinearAttention(RandomFeatures(64, 128))
    read = attention(q, k, v, mask=causal)                # with the arguments of attend
    MultiHeadAttention(256, 4, attention=attention)

A query reads Σ φ(q)·φ(k) v / Σ φ(q)·φ(k). As φ(q) is the same for all keys it comes out of the
sums, and all that a query needs of its keys is a matrix, Σ φ(k) vᵀ, and a vector, Σ φ(k). Hence
three forms, which agree with the dense `plain` and with one another:

- everything may be read: both sums once, for all queries;
- causal: tokens in chunks, the sums before each chunk, and within a chunk the weights themselves;
- one token after another: the two sums are all that is remembered, however long the text
  (`LinearState`), where softmax attention keeps every key and value.

Padding (−1 in a tensor of positions) is left out in all three. `causal` is linear where queries and
keys are one sequence, its positions a range or one tensor for both, or where queries are its tail.
Any other mask, and a bias, which multiplies weights by its exponential, leaves nothing to take out
of the sums: there the weights are written out a few rows at a time, and n² is paid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.algebra import Causal, Mask
from regard.attention.call import Call, Predicate
from regard.attention.core import AttentionOutput, read_in_rows
from regard.attention.features import EluFeatures, FeatureMap, Own, check_features
from regard.attention.kernels.causal_sums import (
    IN_CHUNKS,
    Way,
    causal_read,
    causal_sums,
    way_to_sum,
)
from regard.attention.kernels.choose import Plan
from regard.attention.kernels.dtype import narrowing_off, widen
from regard.attention.kernels.sums import Pair, Sums, divide, read_sums
from regard.attention.linear_state import LinearState, Order
from regard.attention.positions import Positions, there


class LinearAttention(nn.Module):
    """Attention with the weights φ(q)·φ(k); `feature` is a `FeatureMap` or a function like one."""

    def __init__(self, feature: FeatureMap | Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        feature = EluFeatures() if feature is None else feature
        if not callable(feature) or isinstance(feature, type):
            raise TypeError(
                f"feature is a map such as EluFeatures(), with its brackets, not {feature!r}"
            )
        self.feature = feature if isinstance(feature, FeatureMap) else Own(feature)

    def forward(
        self,
        q: Float[Tensor, "... n d"],
        k: Float[Tensor, "... m d"],
        v: Float[Tensor, "... m e"],
        *,
        mask: Mask | Predicate | Tensor | None = None,
        q_pos: Positions | None = None,
        k_pos: Positions | None = None,
        bias: Predicate | Tensor | None = None,
        beta: float | int | None = None,
    ) -> Float[Tensor, "... n e"]:
        """What each query reads; a query that may read nothing reads zeros."""
        call = Call.check(q, k, v, mask, q_pos, k_pos, bias, beta)
        plan = self.choose(call)
        with narrowing_off(q.device):
            return read_in_rows(self.plain, call) if plan.kernel is None else plan.kernel(call)

    def explain(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> str:
        """Which form a call would take, and why, in words."""
        return self.choose(Call.check(q, k, v, **options)).why()

    def choose(self, call: Call) -> Plan:
        """The form that computes exactly this call; it looks at Python objects only."""
        if call.beta == math.inf:
            raise ValueError("beta=inf: features have no limit of hard attention; attend has one")
        if call.bias is not None:
            return Plan(None, lambda: "plain, in blocks of rows: a bias is added to every score")
        q_pos, k_pos, mask = call.q_pos, call.k_pos, call.mask
        ranges = isinstance(q_pos, range) and isinstance(k_pos, range)
        if isinstance(mask, Mask) and ranges:
            assert isinstance(q_pos, range) and isinstance(k_pos, range)
            if (on := mask.on(q_pos, k_pos)) is True:
                return Plan(self.everywhere, lambda: f"sums over all keys: {mask} reads all here")
            if isinstance(on, Causal) and q_pos.stop == k_pos.stop and q_pos.start >= k_pos.start:
                if q_pos.start > k_pos.start:
                    words = f"sums of the keys before, then causal sums by {IN_CHUNKS}"
                    return Plan(self.backwards, lambda: words)
                return Plan(self.backwards, lambda: f"causal sums by {self.way(call).words}")
        elif isinstance(mask, Causal) and q_pos is k_pos:
            return Plan(
                self.sorted,
                lambda: f"tokens by position, then causal sums by {self.way(call).words}",
            )
        elif mask is None:
            return Plan(self.everywhere, lambda: "sums over all keys: nothing is masked")
        description = mask if isinstance(mask, Mask) else "a mask that is no expression"
        return Plan(None, lambda: f"plain, in blocks of rows: {description} leaves no common sums")

    def way(self, call: Call) -> Way:
        """What will sum its features, as far as that is known before they are made."""
        return way_to_sum(call.q, call.v, self.feature.count_of(call.q.shape[-1]))

    def plain(self, call: Call) -> AttentionOutput:
        """The same as it is written down, with the weights: any mask, any bias, n × m numbers."""
        with narrowing_off(call.q.device):
            q, k, v = map(widen, self.map(call))
            for features in (q, k):
                check_features(self.feature, features)
            if q.ndim > 2:
                share = q.shape[-3] // k.shape[-3]
                k, v = k.repeat_interleave(share, -3), v.repeat_interleave(share, -3)
            weights = torch.einsum("...nf,...mf->...nm", q, k)
            allowed, bias = call.allowed(), call.added()
            if bias is not None and bias.shape[-1]:
                bias = widen(bias)
                shut = bias if allowed is None else bias.masked_fill(~allowed, -torch.inf)
                most = shut.detach().amax(-1, keepdim=True)  # of a row it cancels
                weights = weights * (bias - most.masked_fill(most.isneginf(), 0.0)).exp()
            if allowed is not None:
                weights = weights.masked_fill(~allowed, 0.0)
            weights = divide(weights, weights.sum(-1))
            read = torch.einsum("...nm,...me->...ne", weights, v)
            return AttentionOutput(read.to(call.v.dtype), weights.to(call.v.dtype))

    def everywhere(self, call: Call) -> Tensor:
        """All queries read the same keys."""
        q, k, v = self.map(call)
        return self.finish(call, read_sums(q, Sums.of(k, v)))

    def backwards(self, call: Call) -> Tensor:
        """Queries at the last positions of the keys, perhaps at all of them, read no later key."""
        q, k, v = self.map(call)
        early = k.shape[-2] - q.shape[-2]
        if not early:
            return self.finish(call, causal_read(q, k, v, like=call.v))
        before = read_sums(q, Sums.of(k[..., :early, :], v[..., :early, :]))
        within = causal_sums(q, k[..., early:, :], v[..., early:, :])
        return self.finish(call, (before[0] + within[0], before[1] + within[1]))

    def sorted(self, call: Call) -> Tensor:
        """Tokens that lie in any order, with nowhere among them, read no later position."""
        assert isinstance(call.q_pos, Tensor)
        order = Order(call.q_pos)
        q, k, v = (order.sort(x) for x in self.map(call))
        read = causal_read(q, k, v, like=call.v)
        return self.finish(call, order.back(read))

    def map(self, call: Call) -> tuple[Tensor, Tensor, Tensor]:
        """φ(q), φ(k) and v; keys that are nowhere are zeros."""
        q, k, v = call.blanked()
        root = math.sqrt(call.beta)
        here = None if call.k_pos is None else there(call.k_pos)
        keys = self.feature.keys(k, root, here).values
        return self.feature.queries(q, root), keys, v

    def finish(self, call: Call, sums: Pair | Tensor) -> Tensor:
        read = sums if isinstance(sums, Tensor) else divide(*sums)
        here = None if call.q_pos is None else there(call.q_pos)
        read = read if here is None else read.masked_fill(~here, 0.0)
        return read.to(call.v.dtype)

    def new_cache(
        self, mask: Mask | Predicate | None, beta: float | int | None
    ) -> LinearState | None:
        """An empty memory for a layer with this mask, if two sums are enough for it."""
        if mask is not None and not isinstance(mask, Causal):
            return None
        return LinearState(self.feature, beta=beta, causal=mask is not None)
