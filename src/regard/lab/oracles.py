"""Arithmetic from elsewhere, with sixty digits, with which measurements are compared."""

from __future__ import annotations

from collections.abc import Sequence

import mpmath  # type: ignore[import-untyped]
from torch import Tensor

DIGITS = 60


def exact_softmax(scores: Sequence[float], beta: float = 1.0) -> list[mpmath.mpf]:
    """Softmax of β times some scores, with sixty digits."""
    with mpmath.workdps(DIGITS):
        powers = [mpmath.exp(mpmath.mpf(beta) * mpmath.mpf(score)) for score in scores]
        total = mpmath.fsum(powers)
        return [power / total for power in powers]


def apart(ours: Tensor, theirs: Tensor) -> float:
    """The greatest difference of two tensors, number by number."""
    return float((ours - theirs).abs().max())


def relative(ours: Tensor, theirs: Tensor) -> float:
    """How far two tensors differ, as a share of the second."""
    return float((ours - theirs).norm() / theirs.norm())
