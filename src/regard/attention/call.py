"""One checked call of attention: what is read, from where, and who may read it.

The plain path, the fast paths and the observer all work from the same `Call`, so there is one
place that says what a position, a mask and a bias mean.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.algebra import Mask
from regard.attention.kernels.second_order import untransformed
from regard.attention.positions import Positions, check_positions, locate, somewhere

KEPT_UPTO = 1 << 20  # entries of a mask that is remembered: a megabyte each, 128 at the most
Predicate = Callable[[Any, Any], Tensor]  # of (q_pos, k_pos): a mask, or a bias, by position


@dataclass(frozen=True)
class Call:
    """n queries reading m keys and values; tensors are (b h n d), `beta` is never None."""

    q: Float[Tensor, "... n d"]
    k: Float[Tensor, "... m d"]
    v: Float[Tensor, "... m e"]
    mask: Mask | Predicate | Bool[Tensor, "... #n #m"] | None
    q_pos: Positions | None
    k_pos: Positions | None
    bias: Predicate | Float[Tensor, "... #n #m"] | None
    beta: float

    @classmethod
    def check(
        cls,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Mask | Predicate | Tensor | None = None,
        q_pos: Positions | None = None,
        k_pos: Positions | None = None,
        bias: Predicate | Tensor | None = None,
        beta: float | int | None = None,
    ) -> Call:
        """Fill in what may be left out, and refuse in a sentence what does not fit."""
        if min(q.ndim, k.ndim, v.ndim) < 2 or not q.ndim == k.ndim == v.ndim:
            raise ValueError(
                f"q, k and v have {q.ndim}, {k.ndim} and {v.ndim} axes; they need the same "
                "number, (n d) at the least"
            )
        n, m = q.shape[-2], k.shape[-2]
        if q.shape[-1] != k.shape[-1]:
            raise ValueError(f"queries are {q.shape[-1]} wide and keys {k.shape[-1]}")
        if v.shape[-2] != m:
            raise ValueError(f"there are {m} keys and {v.shape[-2]} values")
        if not q.shape[:-3] == k.shape[:-3] == v.shape[:-3]:
            raise ValueError(
                f"q, k and v have batch axes {tuple(q.shape[:-3])}, {tuple(k.shape[:-3])} and "
                f"{tuple(v.shape[:-3])}; they must agree"
            )
        if not q.is_floating_point():
            raise TypeError(f"q, k and v hold {q.dtype}; attention needs floating-point numbers")
        if not q.dtype == k.dtype == v.dtype:
            raise TypeError(f"q, k and v are {q.dtype}, {k.dtype} and {v.dtype}; make them one")
        if q.ndim > 2:
            h, g, values = q.shape[-3], k.shape[-3], v.shape[-3]
            if g != values or g == 0 or h % g:
                raise ValueError(
                    f"{h} query heads cannot share {g} key heads and {values} value heads: "
                    "both must be one divisor of the query heads"
                )

        by_position = [x for x in (mask, bias) if x is not None and not isinstance(x, Tensor)]
        if by_position and (q_pos is None or k_pos is None):
            if n != m:
                raise ValueError(
                    f"{n} queries read {m} keys under {by_position[0]}: "
                    "say where they are with q_pos= and k_pos="
                )
            q_pos = range(n) if q_pos is None else q_pos
            k_pos = range(m) if k_pos is None else k_pos
        batch = tuple(q.shape[:-3])
        if q_pos is not None:
            check_positions("q_pos", q_pos, n, batch)
        if k_pos is not None:
            check_positions("k_pos", k_pos, m, batch)

        full = (*q.shape[:-1], m)
        if isinstance(mask, Tensor):
            if mask.dtype != torch.bool:
                raise TypeError(
                    f"a mask is bool, True where a query may read; {mask.dtype} numbers "
                    "that are added to the scores go in bias="
                )
            mask = _broadcastable("mask", mask, full)
        else:
            check_mask(mask)
        if isinstance(bias, Tensor):
            if not bias.is_floating_point():
                raise TypeError(f"a bias holds numbers, not {bias.dtype}; a bool tensor is a mask")
            bias = _broadcastable("bias", bias, full)
        elif bias is not None and not callable(bias):
            raise TypeError(f"a bias is a tensor or a function, not {type(bias).__name__}")

        if q.shape[-1] == 0:
            raise ValueError("queries and keys of width 0 have nothing to compare")
        if beta is None:
            beta = q.shape[-1] ** -0.5
        elif not beta >= 0:
            raise ValueError(f"beta runs from 0, the mean, to infinity, the best key; not {beta}")
        else:
            # Past 10³⁰ scores would overflow, and the softmax has long been the best key alone.
            beta = math.inf if beta > 1e30 else float(beta)
        return cls(q, k, v, mask, q_pos, k_pos, bias, beta)

    def rows(self, rows: slice | Sequence[int]) -> Call:
        """The same call for some of its queries."""

        def pick(x: Any) -> Any:
            return x[..., rows, :] if isinstance(x, Tensor) and x.shape[-2] != 1 else x

        q_pos = self.q_pos
        if isinstance(q_pos, range):
            q_pos = q_pos[rows] if isinstance(rows, slice) else locate(q_pos, self.q.device)[rows]
        elif q_pos is not None:
            q_pos = q_pos[..., rows]
        return replace(
            self, q=self.q[..., rows, :], q_pos=q_pos, mask=pick(self.mask), bias=pick(self.bias)
        )

    def heads(self, heads: Sequence[int]) -> Call:
        """The same call for some of its query heads, each with the keys and values it reads."""

        def pick(x: Any) -> Any:
            many = isinstance(x, Tensor) and x.ndim > 2 and x.shape[-3] != 1
            return x[..., heads, :, :] if many else x

        share = self.q.shape[-3] // self.k.shape[-3]
        own = [range(self.q.shape[-3])[head] // share for head in heads]
        return replace(
            self,
            q=self.q[..., heads, :, :],
            k=self.k[..., own, :, :],
            v=self.v[..., own, :, :],
            mask=pick(self.mask),
            bias=pick(self.added()),
        )

    def allowed(self) -> Bool[Tensor, "... #n #m"] | None:
        """Who may read what, as a bool tensor that broadcasts to (b h n m); None means all."""
        if self.mask is None or isinstance(self.mask, Tensor):
            allowed = self.mask
        elif not isinstance(self.mask, Mask):
            allowed = _head_axis(self._evaluate(self.mask))
        elif isinstance(self.q_pos, range) and isinstance(self.k_pos, range):
            allowed = written(self.mask, self.q_pos, self.k_pos, self.q.device)
        else:
            allowed = _head_axis(self.mask(*self._located()))
        if isinstance(self.q_pos, Tensor):  # a query that is nowhere reads nothing …
            allowed = _both(allowed, _head_axis((self.q_pos >= 0)[..., :, None]))
        if isinstance(self.k_pos, Tensor):  # … and a key that is nowhere is read by nothing
            allowed = _both(allowed, _head_axis((self.k_pos >= 0)[..., None, :]))
        return allowed

    def added(self) -> Float[Tensor, "... #n #m"] | None:
        """What is added to the scores; a function of positions returns (h n m) or (b h n m)."""
        if self.bias is None or isinstance(self.bias, Tensor):
            return self.bias
        full = (*self.q.shape[:-1], self.k.shape[-2])
        return _broadcastable("bias(q_pos, k_pos)", self.bias(*self._located()), full)

    def blanked(self) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v with zeros wherever a token is nowhere, so that NaN there stays there."""

        def blank(x: Tensor, positions: Positions | None) -> Tensor:
            here = None if positions is None else somewhere(positions)
            if here is None:
                return x
            return x.masked_fill(_head_axis(~here[..., None]), 0.0)

        return blank(self.q, self.q_pos), blank(self.k, self.k_pos), blank(self.v, self.k_pos)

    def _evaluate(self, predicate: Predicate) -> Tensor:
        """What a function of the user's own says, if it says something that can be a mask."""
        result, n, m = predicate(*self._located()), self.q.shape[-2], self.k.shape[-2]
        if not isinstance(result, Tensor) or result.dtype != torch.bool:
            kind = result.dtype if isinstance(result, Tensor) else type(result).__name__
            raise TypeError(f"a mask function returns a bool tensor, not {kind}")
        if tuple(result.shape[-2:]) != (n, m):
            raise ValueError(
                f"a mask function returned shape {tuple(result.shape)} for {n} queries and {m} "
                f"keys: compare q[..., :, None] with k[..., None, :] to get (…, {n}, {m})"
            )
        return result

    def _located(self) -> tuple[Tensor, Tensor]:
        assert self.q_pos is not None and self.k_pos is not None
        return locate(self.q_pos, self.q.device), locate(self.k_pos, self.q.device)


def check_mask(mask: Any) -> None:
    """Refuse what cannot be a mask, with a word on what was probably meant."""
    if isinstance(mask, str):
        raise TypeError(f"a mask is an expression, not text: Mask.parse({mask!r}) reads it")
    if isinstance(mask, type):
        raise TypeError(f"a mask is made by a call: {mask.__name__.lower()}(…), with its arguments")
    if mask is not None and not callable(mask):
        raise TypeError(f"a mask is a predicate or a bool tensor, not {type(mask).__name__}")


def written(
    mask: Mask | Predicate, q_pos: range, k_pos: range, device: torch.device
) -> Bool[Tensor, "n m"]:
    """The dense matrix between two ranges; every layer of a model asks for the same one."""
    entries = (q_pos.stop - q_pos.start) * (k_pos.stop - k_pos.start)
    if not isinstance(mask, Mask) or entries > KEPT_UPTO:
        return mask(locate(q_pos, device), locate(k_pos, device))
    if mask.relative:  # one matrix serves every pair of ranges at this distance
        base = min(q_pos.start, k_pos.start)
        q_pos, k_pos = (range(r.start - base, r.stop - base) for r in (q_pos, k_pos))
    if torch.compiler.is_compiling():
        return mask(locate(q_pos, device), locate(k_pos, device))
    return _kept(mask, q_pos, k_pos, device)


@functools.lru_cache(maxsize=128)
@untransformed
def _kept(mask: Mask, q_pos: range, k_pos: range, device: torch.device) -> Tensor:
    return mask(locate(q_pos, device), locate(k_pos, device))


def _head_axis(x: Tensor) -> Tensor:
    """(*b n m) → (*b 1 n m): positions differ between sequences, never between heads."""
    return x.unsqueeze(-3) if x.ndim > 2 else x


def _both(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a & b


def _broadcastable(name: str, x: Tensor, full: tuple[int, ...]) -> Tensor:
    """x with at least its last two axes, if it broadcasts to the full shape."""
    shape = tuple(x.shape)
    fits = len(shape) <= len(full) and all(
        have in (1, want) for have, want in zip(reversed(shape), reversed(full), strict=False)
    )
    if not fits:
        raise ValueError(f"{name} has shape {shape}, which does not broadcast to {full}")
    return x if x.ndim > 1 else x.reshape(1, -1)
