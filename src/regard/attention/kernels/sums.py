"""Sums over keys: all that linear attention needs of them, and what queries read of such sums."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.kernels.dtype import widen

Pair = tuple[Tensor, Tensor]  # numerators (… n e) and normalisers (… n)


class Sums(NamedTuple):
    """All that a query needs of its keys, times exp(`shift`)."""

    matrix: Float[Tensor, "*b g f e"]  # Σ φ(k) vᵀ
    total: Float[Tensor, "*b g 1 f"]  # Σ φ(k)
    shift: Float[Tensor, "*b g 1 1"] | None = None

    @classmethod
    def of(cls, k: Tensor, v: Tensor, shift: Tensor | None = None) -> Sums:
        k, v = widen(k), widen(v)  # half precision would round the sums
        return cls(k.mT @ v, k.sum(-2, keepdim=True), shift)

    def and_(self, more: Sums) -> Sums:
        """Both sums together."""
        if self.shift is None or more.shift is None:
            return Sums(self.matrix + more.matrix, self.total + more.total)
        shift = torch.maximum(self.shift, more.shift)
        top = shift.masked_fill(shift.isneginf(), 0.0)  # no key at all so far
        old, new = (self.shift - top).exp(), (more.shift - top).exp()
        matrix = self.matrix * old + more.matrix * new
        return Sums(matrix, self.total * old + more.total * new, shift)

    def rows(self, index: Int[Tensor, " b"]) -> Sums:
        matrix, total = (x.index_select(0, index) for x in self[:2])
        shift = None if self.shift is None else self.shift.index_select(0, index)
        return Sums(matrix, total, shift)


def read_sums(q: Float[Tensor, "*b n f"], sums: Sums) -> Pair:
    """Numerators and normalisers of queries that may read all that was summed."""
    q = widen(q)
    if q.ndim == 2:
        return q @ sums.matrix, (q @ sums.total.mT).squeeze(-1)
    # Query heads that share a key head are further rows of it.
    (h, n), g = q.shape[-3:-1], sums.matrix.shape[-3]
    rows = q.unflatten(-3, (g, h // g)).flatten(-3, -2)
    read, total = rows @ sums.matrix, rows @ sums.total.mT
    read, total = (x.unflatten(-2, (h // g, n)).flatten(-4, -3) for x in (read, total))
    return read, total.squeeze(-1)


def divide(read: Float[Tensor, "*b n e"], total: Float[Tensor, "*b n"]) -> Float[Tensor, "*b n e"]:
    """Numerators over normalisers; where nothing matches both are 0, and zeros are read."""
    total = total.unsqueeze(-1)
    blind = total <= torch.finfo(total.dtype).tiny
    return (read / total.masked_fill(blind, 1.0)).masked_fill(blind, 0.0)
