"""The shape of every step of one multi-head call, read off the live tensors."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.multi_head import MultiHeadAttention
from regard.attention.watch import watch


class Step(NamedTuple):
    """One tensor on the way: what it is, what its axes are called, how long they are."""

    name: str
    axes: str
    shape: tuple[int, ...]


def trace_shapes(
    layer: MultiHeadAttention | None = None,
    x: Tensor | None = None,
    *,
    batch: int = 1,
    tokens: int = 5,
    width: int = 768,
    heads: int = 12,
    show: bool = True,
) -> list[Step]:
    """Run one layer once and print each step with its shape.

    Without a layer, one of `width` and `heads` is made; without x, random tokens.
    """
    layer = MultiHeadAttention(width, heads) if layer is None else layer
    width = layer.to_q.in_features
    if x is None:
        x = torch.randn(batch, tokens, width, dtype=layer.to_q.weight.dtype)
    live: dict[str, Tensor] = {"x": x}

    def keep(name: str, tensor: Tensor) -> None:
        live[name] = tensor

    hooks = [
        module.register_forward_hook(lambda _, __, out, name=name: keep(name, out))
        for name, module in (("q", layer.to_q), ("k", layer.to_k), ("v", layer.to_v))
    ]
    hooks.append(layer.to_out.register_forward_pre_hook(lambda _, args: keep("z", args[0])))
    try:
        with torch.no_grad(), watch(layer) as watching:
            out = layer(x)
    finally:
        for hook in hooks:
            hook.remove()
    (seen,) = watching.values()
    h, g = layer.heads, layer.groups
    steps = [
        Step("tokens", "b n c", tuple(x.shape)),
        *(
            Step(f"{name} = to_{name}(tokens)", f"b n ({axis} d)", tuple(live[name].shape))
            for name, axis in ("qh", "kg", "vg")
        ),
        Step("q per head", "b n h d", tuple(live["q"].unflatten(-1, (h, -1)).shape)),
        Step("k and v per head", "b n g d", tuple(live["k"].unflatten(-1, (g, -1)).shape)),
        Step("q, heads first", "b h n d", tuple(seen.call.q.shape)),
        Step("map = softmax(β q kᵀ)", "b h n m", tuple(seen.weights().shape)),
        Step("z per head = map · v", "b h n e", tuple(seen.output.shape)),
        Step("z per head, tokens first", "b n h e", tuple(seen.output.transpose(-3, -2).shape)),
        Step("z, heads side by side", "b n (h e)", tuple(live["z"].shape)),
        Step("out = to_out(z)", "b n c", tuple(out.shape)),
    ]
    if show:
        print(table(steps))
    return steps


def table(steps: list[Step]) -> str:
    """The steps as aligned text."""
    wide = max(len(step.name) for step in steps)
    axes = max(len(step.axes) for step in steps)
    return "\n".join(f"{s.name:{wide}}  {s.axes:{axes}}  {list(s.shape)}" for s in steps)
