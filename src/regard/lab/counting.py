"""What a computation multiplies and adds, operator by operator, and how many wait in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Counting(TorchDispatchMode):
    """Counts what torch is asked to compute, operator by operator, of whatever runs within.

    Fused attention hides its products from this as from torch's own counter: run the plain path.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products = 0  # multiply-adds of matrix products
        self.exponentials = 0  # of softmax
        self.largest = 0  # numbers in the largest tensor that was made

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        match func.overloadpacket._qualified_op_name:
            case "aten::mm" | "aten::bmm":
                self.products += out.numel() * args[0].shape[-1]
            case "aten::addmm" | "aten::baddbmm":
                self.products += out.numel() * args[1].shape[-1]
            case "aten::_softmax":
                self.exponentials += out.numel()
        if isinstance(out, torch.Tensor) and not func.is_view:
            self.largest = max(self.largest, out.numel())
        return out


def count(attention: Callable[..., Any], *inputs: torch.Tensor) -> Counting:
    """What one pass takes."""
    with torch.no_grad(), Counting() as counts:
        attention(*inputs)
    return counts


def chain(result: torch.Tensor) -> int:
    """The longest chain of operations, each waiting for the one before, that led to a tensor.

    Read off the graph that autograd keeps; a leaf that collects a gradient is one of them.
    """
    longest: dict[Any, int] = {}
    waiting: list[Any] = [result.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [each for each, _ in node.next_functions if each is not None]
        missing = [each for each in before if each not in longest]
        if missing:
            waiting.extend(missing)
        else:
            longest[node] = 1 + max((longest[each] for each in before), default=0)
            waiting.pop()
    return longest[result.grad_fn]


def enough(**sizes: tuple[int | Sequence[int], int]) -> None:
    """Refuse sizes below what a claim needs: `enough(keys=(keys, 2))`, of lists how many."""
    for name, (given, least) in sizes.items():
        if isinstance(given, int):
            if given < least:
                raise ValueError(f"{name}={given}: at least {least} is needed")
        elif len(given) < least or min(given) < 1:
            numbers = " ".join(map(str, given)) or "without a number"
            raise ValueError(f"{name} {numbers}: at least {least} are needed, from 1 on")
