"""torch's own fused call, `scaled_dot_product_attention`, and which of its kernels may answer.

Each path returns what `plain` reads: everything, nothing ahead, or what a mask and a bias that are
written out let through.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from regard.attention.call import Call
from regard.attention.kernels.dtype import narrowing_off, widen
from regard.attention.kernels.second_order import Gradients, batched, differentiable, twin_gradients

SHORT = 64  # queries below which a call is a decoder's, and cuDNN's planning never pays
FEW, MANY, MUCH = 8, 16, 1 << 17  # queries at most; keys, and numbers among them, at least


def whole(call: Call) -> Tensor:
    """Everything may be read."""
    q, k, v, beta = call.q, call.k, call.v, call.beta
    return products(q, k, v, beta) if _few_queries(q, k, v) else _sdpa(q, k, v, beta)


def _few_queries(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether a few texts ask one long context on a CPU, where two plain products are faster.

    Its flash kernel walks over blocks of queries, and has nothing to do in them: five beams that
    read 50 patches take a quarter of the time this way, and one token behind 256 half.
    """
    return (
        q.device.type == "cpu"
        and q.ndim == 4
        and q.shape[-2] <= FEW
        and q.shape[1] == k.shape[1]
        and k.shape[-2] >= MANY
        and k.numel() >= MUCH
        and q.dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()
        and not (
            torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
        )
    )


def products(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h m d"],
    v: Float[Tensor, "b h m e"],
    beta: float,
) -> Float[Tensor, "b h n e"]:
    """softmax(β q kᵀ) v with the map written out, as one product for all heads and then another."""
    b, h, n, _ = q.shape
    q, k, v = (x.reshape(b * h, *x.shape[-2:]) for x in (q, k, v))
    scores = torch.baddbmm(q.new_empty(1, 1, 1), q, k.mT, beta=0, alpha=beta)  # nothing is added
    return torch.bmm(scores.softmax(-1), v).view(b, h, n, -1)


def causal_square(call: Call) -> Tensor:
    """Queries and keys at the same positions, nothing read ahead."""
    return _sdpa(call.q, call.k, call.v, call.beta, is_causal=True)


def causal_tail(call: Call) -> Tensor:
    """The queries are the last of the keys: a prompt continued, a chunk behind a cache."""
    from torch.nn.attention.bias import causal_lower_right  # slow to import

    corner = causal_lower_right(call.q.shape[-2], call.k.shape[-2])
    return _sdpa(call.q, call.k, call.v, call.beta, attn_mask=corner)


def dense(call: Call) -> Tensor:
    """The mask and the bias written out, n × m or less where they broadcast."""
    q, k, v = call.blanked()
    allowed, bias = call.allowed(), call.added()
    if bias is not None:
        # Numbers before bools: a bias of −∞ shuts a key exactly as a mask does.
        scores = bias if allowed is None else bias.masked_fill(~allowed, -torch.inf)
        blind = torch.isneginf(scores).all(-1, keepdim=True)
        scores = scores.masked_fill(blind, 0.0)
        kind = added_kind(q)
        if scores.dtype not in (q.dtype, kind):
            # Softmax forgets a row's maximum; a narrower type must not spend its digits on it.
            scores = (scores - scores.detach().amax(-1, keepdim=True)).to(kind)
        read = _sdpa(q, k, v, call.beta, attn_mask=scores)
    elif allowed is not None:
        # Kernels disagree about a query that may read nothing: let it read all, then forget it.
        blind = ~allowed.any(-1, keepdim=True)
        readable = allowed | blind
        if readable.shape[-1] == 1:  # all keys or none: kernels on a GPU want that written out
            readable = readable.expand(*readable.shape[:-1], k.shape[-2]).contiguous()
        read = _sdpa(q, k, v, call.beta, attn_mask=readable)
    else:
        return _sdpa(q, k, v, call.beta)
    if blind.shape[-2] == 1 != q.shape[-2]:
        blind = blind.expand(*blind.shape[:-2], q.shape[-2], 1)
    return read.masked_fill(blind, 0.0)


def added_kind(q: Tensor) -> torch.dtype:
    """What is added to scores comes in q's own type, or to half precision on a CPU in float32."""
    half = q.dtype in (torch.float16, torch.bfloat16)
    return torch.float32 if half and q.device.type == "cpu" else q.dtype


def _sdpa(q: Tensor, k: Tensor, v: Tensor, beta: float, **options: Any) -> Tensor:
    """torch's call, with any number of leading axes and any two widths.

    Its fast kernels take four axes and equal widths only; zeros appended to q and k change no
    score, and columns of zeros appended to v are cut off again.
    """
    d, e = q.shape[-1], v.shape[-1]
    if d != e:
        q, k, v = (pad(x, (0, max(d, e) - x.shape[-1])) for x in (q, k, v))
        return _sdpa(q, k, v, beta, **options)[..., :e]
    if q.ndim != 4:
        mask = options.get("attn_mask")
        if q.ndim > 4 and type(mask) is Tensor:  # not torch's own causal bias, which has no values
            options["attn_mask"] = mask.expand(*q.shape[:-1], k.shape[-2]).flatten(0, -4)
        read = _sdpa(four_axes(q), four_axes(k), four_axes(v), beta, **options)
        return read.reshape(q.shape)
    if q.shape[1] != k.shape[1]:  # decided here: the call takes no symbol of a compiler's
        options["enable_gqa"] = True
    with _kernel(q, k, v, options):
        read = scaled_dot_product_attention(q, k, v, scale=beta, **options)
    mask = options.get("attn_mask")
    causal = bool(options.get("is_causal")) or not (mask is None or type(mask) is Tensor)
    return _twice(read, beta, causal)


def _twice(read: Tensor, beta: float, causal: bool) -> Tensor:
    """Give the gradients of torch's kernel gradients of their own: those of the map written out.

    What the kernel kept for its way back is at hand there, so nothing more is kept.
    """
    if torch.compiler.is_compiling() or read.grad_fn is None:
        return read
    node: Any = read.grad_fn
    if node.name() == "SliceBackward0":  # a width that torch has padded
        node = node.next_functions[0][0]
    if node is not None and node.name().startswith("ScaledDotProduct"):
        node.register_hook(functools.partial(_second_order, beta, causal))
    return read


def _second_order(
    beta: float, causal: bool, grads: Gradients, grad_outputs: Gradients
) -> Gradients | None:
    if not torch.is_grad_enabled() or grad_outputs[0] is None:
        return None
    node: Any = torch._C._current_autograd_node()
    try:
        inputs = [node._saved_query, node._saved_key, node._saved_value]
        added = getattr(node, "_saved_attn_mask", None)
        added = getattr(node, "_saved_attn_bias", None) if added is None else added
    except (RuntimeError, AttributeError):
        return None  # kept for one use alone, as in a checkpoint: torch itself says that it cannot
    inputs += [] if added is None else [added]
    given = (*grads[:4], None)[: len(inputs)]
    twin = functools.partial(written_out, beta=beta, causal=causal)
    with narrowing_off(inputs[0].device):
        if batched(grad_outputs):
            found = twin_gradients(
                twin, inputs, (grad_outputs[0],), [one is not None for one in given]
            )
            # Inputs of a transform that is over, of `jacrev` say, have no gradients any more.
            found = tuple(b if a is None else a for a, b in zip(found, given, strict=True))
        else:
            found = differentiable(given, twin, inputs, (grad_outputs[0],))
    return *found[: len(grads)], *grads[len(found) :]


def written_out(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b g m d"],
    v: Float[Tensor, "b g m e"],
    added: Tensor | None = None,
    *,
    beta: float,
    causal: bool,
) -> Float[Tensor, "b h n e"]:
    """The plain twin of torch's kernels; `causal` queries are the last of the keys."""
    share, (n, m) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    if share > 1:
        k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scores = (widen(q) * beta) @ widen(k).mT
    if causal:
        ahead = torch.ones(n, m, dtype=torch.bool, device=q.device).triu(1 + m - n)
        scores = scores.masked_fill(ahead, -torch.inf)
    if added is not None and added.dtype == torch.bool:
        scores = scores.masked_fill(~added, -torch.inf)
    elif added is not None:
        scores = scores + added
    return (scores.softmax(-1) @ widen(v)).to(v.dtype)


def four_axes(x: Tensor) -> Tensor:
    """(n d), (h n d) or (a b … h n d) as (b h n d)."""
    if x.ndim < 4:
        return x[(None,) * (4 - x.ndim)]
    return x.flatten(0, -4)


def reader(call: Call) -> str:
    """What reads where everything may be read."""
    few = _few_queries(call.q, call.k, call.v)
    return "two products, for few queries" if few else f"SDPA{preferred(call)}"


def preferred(call: Call) -> str:
    return " by cuDNN" if _cudnn_fits(call.q, call.k, call.v) else ""


@contextmanager
def _only(*, cudnn: bool) -> Iterator[None]:
    """Either cuDNN's kernel alone or every kernel but it, for one call.

    These switches cost a microsecond and go back exactly. `sdpa_kernel` costs fifty, and with
    `set_priority` it leaves torch's own preference for cuDNN lost to the rest of the process.
    """
    switch = torch.backends.cuda

    def turn(*on: bool) -> None:
        switch.enable_cudnn_sdp(on[0])
        switch.enable_flash_sdp(on[1])
        switch.enable_mem_efficient_sdp(on[2])
        switch.enable_math_sdp(on[3])

    with _SWITCHES:  # they belong to the process: one thread at a time
        before = (
            switch.cudnn_sdp_enabled(),
            switch.flash_sdp_enabled(),
            switch.mem_efficient_sdp_enabled(),
            switch.math_sdp_enabled(),
        )
        turn(*(now and (at == 0) == cudnn for at, now in enumerate(before)))
        try:
            yield
        finally:
            turn(*before)


_SWITCHES = threading.Lock()


def _kernel(
    q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any]
) -> AbstractContextManager[None]:
    """The switches around one call of torch's: which of its kernels may answer."""
    # A compiled graph keeps its shapes, and there torch's own choice is the one we would make.
    if q.device.type != "cuda" or torch.compiler.is_compiling() or not _hopper(q.device):
        return nullcontext()
    if options.get("attn_mask") is None and _cudnn_fits(q, k, v):
        return _only(cudnn=True)
    # cuDNN plans anew for each shape, 40 ms and more: a decoder has a new one at every token.
    return _only(cudnn=False) if q.shape[-2] < SHORT else nullcontext()


def _cudnn_fits(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether cuDNN's kernel is the fastest and can be had: on Hopper, in half precision.

    There it won at every shape measured (head widths 8 to 256, 65 to 16,384 tokens, causal or
    not, forward and backward), by 1.1 to 2.3 times over the flash kernel.
    """
    if q.device.type != "cuda" or q.dtype not in (torch.float16, torch.bfloat16):
        return False
    if torch.compiler.is_compiling() or q.shape[-2] < SHORT or not _hopper(q.device):
        return False
    q, k, v = four_axes(q), four_axes(k), four_axes(v)
    ask = torch.backends.cuda.SDPAParams(q, k, v, None, 0.0, False, q.shape[1] != k.shape[1])
    return q.shape[-1] == v.shape[-1] and torch.backends.cuda.can_use_cudnn_attention(ask)


@functools.cache
def _hopper(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device)[0] == 9
