"""What linear attention remembers of a text while it is written: two sums, however long it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.algebra import Causal, Mask
from regard.attention.call import Predicate
from regard.attention.features import FeatureMap
from regard.attention.kernels.causal_sums import causal_sums
from regard.attention.kernels.dtype import narrowing_off
from regard.attention.kernels.second_order import unwrapped
from regard.attention.kernels.sums import Pair, Sums, divide, read_sums
from regard.attention.positions import Positions, there


class LinearState:
    """What a layer of linear attention remembers of a text: two sums, of one size at any length.

    It stands where a `KVCache` stands. Tokens come in the order of their positions. Keys and values
    are gone once they are summed: nothing can be evicted, and nothing shown of them later.
    """

    overwrites = False

    def __init__(
        self, feature: FeatureMap, *, beta: float | int | None = None, causal: bool = True
    ) -> None:
        self.feature, self.beta, self.causal = feature, beta, causal
        self.kept: Summed | None = None

    def append(
        self, k: Float[Tensor, "*b g n d"], v: Float[Tensor, "*b g n e"], positions: Positions
    ) -> Summed:
        """Add new tokens; return what their queries may read."""
        if k.shape[:-1] != v.shape[:-1]:
            raise ValueError(f"keys are {tuple(k.shape)} and values {tuple(v.shape)}")
        last = None if self.kept is None else self.kept.positions
        if isinstance(positions, range):
            if len(positions) != k.shape[-2]:
                raise ValueError(f"{len(positions)} positions for {k.shape[-2]} keys")
            if self.causal and isinstance(last, range) and positions.start < last.stop:
                raise ValueError(
                    f"tokens from position {positions.start} on come after those up to "
                    f"{last.stop - 1}, which were summed: sums cannot tell them apart"
                )
        beta = k.shape[-1] ** -0.5 if self.beta is None else self.beta
        with narrowing_off(k.device):
            here = there(positions)
            if here is not None:
                k, v = k.masked_fill(~here, 0.0), v.masked_fill(~here, 0.0)
            kind, root = v.dtype, math.sqrt(beta)
            mapped = self.feature.keys(k, root, here)
            before = None if self.kept is None else self.kept.now
            now = Sums.of(mapped.values, v, mapped.shift)
            now = now if before is None else before.and_(now)
        new = New(mapped.values, v, mapped.shift, kind)
        self.kept = Summed(self.feature, root, self.causal, before, now, new, positions)
        return self.kept

    def reorder(self, index: Int[Tensor, " b"]) -> None:
        """Let sequence i of the batch continue what sequence `index[i]` has seen, as beams do."""
        if self.kept is not None:
            positions = self.kept.positions
            if isinstance(positions, Tensor) and positions.ndim > 1:
                positions = positions.index_select(0, index)
            self.kept = replace(self.kept, now=self.kept.now.rows(index), positions=positions)


class New(NamedTuple):
    """The features and values of the tokens that came last, and the type they are read in."""

    k: Float[Tensor, "*b g n f"]
    v: Float[Tensor, "*b g n e"]
    shift: Float[Tensor, "*b g 1 1"] | None
    kind: torch.dtype


@dataclass(frozen=True)
class Summed:
    """What may be read, as sums; it answers where a cache's `Kept` would."""

    feature: FeatureMap
    root: float
    causal: bool
    before: Sums | None  # of the tokens that are not new
    now: Sums
    new: New
    positions: Positions  # of the new tokens

    def seen(self) -> tuple[Tensor, Tensor]:
        raise RuntimeError(
            "a LinearState sums keys and values and forgets them: to see what they were, watch "
            "from the first token on, or a pass without caches"
        )

    def read(
        self,
        attention: Any,
        q: Float[Tensor, "*b h n d"],
        *,
        mask: Mask | Predicate | Tensor | None = None,
        q_pos: Positions,
        bias: Tensor | None = None,
        beta: float | int | None = None,
    ) -> Float[Tensor, "*b h n e"]:
        """What queries at the new positions read, or under no mask queries anywhere."""
        if bias is not None or (not isinstance(mask, Causal) if self.causal else mask is not None):
            raise ValueError(
                f"a {'causal' if self.causal else 'maskless'} LinearState has summed its keys, and "
                f"{'a bias' if bias is not None else mask} asks for each: use a KVCache"
            )
        with narrowing_off(q.device):
            here = there(q_pos)
            q = q if here is None else q.masked_fill(~here, 0.0)
            q = self.feature.queries(q, self.root)
            if not self.causal or q.shape[-2] == 1:
                read = divide(*read_sums(q, self.now))
            else:
                read = divide(*self.within(q))
            read = read if here is None else read.masked_fill(~here, 0.0)
            return read.to(self.new.kind)

    def within(self, q: Float[Tensor, "*b h n f"]) -> Pair:
        """Several new tokens: each reads those before, and no later one of the new."""
        order = Order(self.positions) if isinstance(self.positions, Tensor) else None
        q, k, v = (x if order is None else order.sort(x) for x in (q, self.new.k, self.new.v))
        if self.new.shift is not None and self.now.shift is not None:
            k = k * (self.new.shift - self.now.shift).nan_to_num(0.0).exp()
        sums = causal_sums(q, k, v)
        if self.before is not None:
            empty = Sums.of(k[..., :0, :], v[..., :0, :], self.new.shift)
            old = read_sums(q, self.before.and_(empty))
            sums = sums[0] + old[0], sums[1] + old[1]
        if order is None:
            return sums
        return order.back(sums[0]), order.back(sums[1][..., None])[..., 0]


class Order:
    """The order of positions, where nowhere comes first."""

    def __init__(self, positions: Int[Tensor, "*b n"]) -> None:
        placed, self.index = positions.sort(dim=-1, stable=True)
        apart = (placed[..., 1:] > placed[..., :-1]) | (placed[..., 1:] < 0)
        torch._assert_async(
            unwrapped(apart).all(),
            "two tokens are at one position, and causal sums cannot tell them apart",
        )

    def sort(self, x: Float[Tensor, "*b h n c"]) -> Float[Tensor, "*b h n c"]:
        return self._pick(x, self.index)

    def back(self, x: Float[Tensor, "*b h n c"]) -> Float[Tensor, "*b h n c"]:
        return self._pick(x, self.index.argsort(dim=-1))

    @staticmethod
    def _pick(x: Tensor, index: Tensor) -> Tensor:
        if index.ndim == 1:
            return x.index_select(-2, index)
        return x.gather(-2, index[..., None, :, None].expand(x.shape))
