"""Sums and exponentials in float32 at least: half precision would round them away."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def widen(x: Tensor) -> Tensor:
    """At least float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def narrowing_off(device: torch.device) -> AbstractContextManager[Any]:
    """Without autocast, which would narrow the products again."""
    kind = device.type
    # A compiler is always told: it traces the way back where autocast looks off, and runs it on.
    # Nor could it follow the questions.
    if torch.compiler.is_compiling():
        return torch.autocast(kind, enabled=False)
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()
