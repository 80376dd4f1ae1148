"""Gradients of gradients, and torch.func: what a kernel does not know is asked of its plain twin.

A kernel's backward is a program, which torch cannot differentiate once more. Here the gradients it
computes get gradients of their own: those of the twin, plain operations of torch on the same
tensors. They are taken only if somebody asks (`create_graph=True`, and then a second derivative),
so a first derivative costs what it always did.

Kernels know neither `vmap` nor forward-mode gradients at all; under these the twin is all there is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

from regard.attention.kernels.dtype import narrowing_off

Gradients = tuple[Tensor | None, ...]
Twin = Callable[..., Tensor | tuple[Tensor, ...]]
P = ParamSpec("P")
R = TypeVar("R")


def transforming() -> bool:
    """Whether a transform of torch.func is at work, or forward-mode gradients are."""
    if torch.compiler.is_compiling():
        return False
    functorch = torch._C._functorch
    return functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def beyond_kernels() -> bool:
    """Whether torch's kernels cannot follow: anything of `transforming` but one torch.func.grad."""
    if not transforming():
        return False
    levels = torch._C._functorch.get_interpreter_stack() or []
    one_grad = len(levels) == 1 and levels[0].key() == torch._C._functorch.TransformType.Grad
    return not one_grad or forward_ad._current_level >= 0


def batched(grad_outputs: Sequence[Tensor | None]) -> bool:
    """Whether gradients that come back are several at once, as for a whole Jacobian."""
    legacy = torch._C._functorch.is_legacy_batchedtensor
    return beyond_kernels() or any(g is not None and legacy(g) for g in grad_outputs)


def untransformed(function: Callable[P, R]) -> Callable[P, R]:
    """The same function outside all transforms: what is kept for later calls must outlive them."""

    @functools.wraps(function)
    def outside(*args: P.args, **kwargs: P.kwargs) -> R:
        # An inference tensor could not serve training later either.
        with torch.inference_mode(False), torch._C._DisableFuncTorch():
            return function(*args, **kwargs)

    return outside


def unwrapped(x: Tensor) -> Tensor:
    """All the numbers of a tensor, those that `vmap` hides too: for checks, which refuse any."""
    functorch = torch._C._functorch
    while not torch.compiler.is_compiling() and functorch.is_functorch_wrapped_tensor(x):
        x = functorch.get_unwrapped(x)
    return x


def gradients(
    kernel: Callable[[], Gradients],
    twin: Twin,
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Tensor],
    wanted: Sequence[bool],
) -> Gradients:
    """What `kernel` gives as the gradients of `inputs`, ready to be differentiated as the twin's.

    `grad_outputs` are the gradients of what the twin returns of the inputs, and `wanted` says of
    which inputs any are needed.
    """
    with narrowing_off(grad_outputs[0].device):
        if not torch.compiler.is_compiling() and batched(grad_outputs):
            return twin_gradients(twin, inputs, grad_outputs, wanted)
        with torch.no_grad():
            given = kernel()
        return differentiable(given, twin, inputs, grad_outputs)


def differentiable(
    given: Gradients, twin: Twin, inputs: Sequence[Tensor], grad_outputs: Sequence[Tensor]
) -> Gradients:
    """The gradients `given`, with gradients of their own where somebody may ask for these."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return given
    some = [one.detach() for one in given if one is not None]
    wanted = tuple(one is not None for one in given)
    tensors = (*grad_outputs, *inputs, *some)
    made = KernelGradients.apply(twin, wanted, len(grad_outputs), *tensors)  # type: ignore[no-untyped-call]
    found = iter(made)
    return tuple(next(found) if want else None for want in wanted)


def twin_gradients(
    twin: Twin, inputs: Sequence[Tensor], grad_outputs: Sequence[Tensor], wanted: Sequence[bool]
) -> Gradients:
    """The gradients of the twin's inputs, as functions of these and of `grad_outputs`."""
    graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # One input may be made of another: as views each has a gradient to itself.
        inputs = [x.view_as(x) for x in inputs]
        out = twin(*inputs)
        outs = (out,) if isinstance(out, Tensor) else out
        pairs = [(y, g) for y, g in zip(outs, grad_outputs, strict=True) if y.requires_grad]
        learns = [x for x, want in zip(inputs, wanted, strict=True) if want and x.requires_grad]
        if not pairs or not learns:
            return tuple(None for _ in inputs)
        ys, gs = zip(*pairs, strict=True)
        found = torch.autograd.grad(
            ys, learns, gs, create_graph=graph, allow_unused=True, materialize_grads=True
        )
    by_input = dict(zip(map(id, learns), found, strict=True))
    return tuple(by_input.get(id(x)) for x in inputs)


class KernelGradients(torch.autograd.Function):
    """Gradients that a kernel has computed; their own are those of what its twin would give."""

    @staticmethod
    def forward(twin: Twin, wanted: tuple[bool, ...], count: int, *tensors: Tensor) -> Any:
        return tuple(x.clone() for x in tensors[count + len(wanted) :])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.twin, ctx.wanted, ctx.count, *tensors = inputs
        ctx.save_for_backward(*tensors[: ctx.count + len(ctx.wanted)])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        saved, wanted = ctx.saved_tensors, ctx.wanted

        def firsts(*saved: Tensor) -> tuple[Tensor, ...]:
            inputs = saved[ctx.count :]
            found = twin_gradients(ctx.twin, inputs, saved[: ctx.count], wanted)
            each = zip(inputs, found, wanted, strict=True)
            return tuple(torch.zeros_like(x) if one is None else one for x, one, w in each if w)

        with narrowing_off(grad_outputs[0].device):
            seconds = twin_gradients(firsts, saved, grad_outputs, [x.requires_grad for x in saved])
        return None, None, None, *seconds, *(None for _ in grad_outputs)


def refuse_second(read: Tensor, kernel: str) -> Tensor:
    """Say of somebody else's kernel, as soon as it matters, that its gradients have none."""

    def refuse(grads: Gradients, grad_outputs: Gradients) -> None:
        if torch.is_grad_enabled():
            raise RuntimeError(
                f"{kernel} has no gradients of gradients, which create_graph=True asks for: "
                "take them of the layer's plain twin, or of attend"
            )

    if read.grad_fn is not None:
        read.grad_fn.register_hook(refuse)
    return read
