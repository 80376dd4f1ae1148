"""The fast paths of attention, and the chooser that names one for a call.

The chooser looks at Python objects only: device, dtype, shapes, the mask's expression, a range or
a tensor. It never looks at a tensor's values, so it costs microseconds, never waits for a GPU, and
a compiler can follow it. Each path returns what `plain` reads.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from regard.attention.algebra import Causal, Mask
from regard.attention.call import Call, written

if TYPE_CHECKING:  # importing it costs a second, which only its callers should pay
    from torch.nn.attention.flex_attention import BlockMask

TILE = 128  # side of the squares a mask is asked about
TILED_FROM = 512  # tokens from which many small calls beat one dense mask (measured on a CPU) …
TILED_BELOW = 0.9  # … when no more than this share of the map lies in tiles that are read
FLEX_FROM = 2048  # tokens from which FlexAttention beats one dense mask on an H200 (measured)
SHORT = 64  # queries below which a call is a decoder's, and cuDNN's planning never pays
DENSE_UPTO = 1 << 22  # entries of a mask; more than these are never written out at once


class Plan(NamedTuple):
    """How a call will be computed; no kernel means the plain path, in blocks of rows."""

    kernel: Callable[[Call], Tensor] | None
    why: Callable[[], str]  # spelled out only when asked


def choose(call: Call) -> Plan:
    """The fastest path that computes exactly this call, with the reason in words."""
    n, m = call.q.shape[-2], call.k.shape[-2]
    if call.beta in (0, math.inf):
        return Plan(None, lambda: f"plain, in blocks of rows: β = {call.beta:g} is a limit")
    if n == 0 or m == 0:
        return Plan(None, lambda: f"plain: {n} queries and {m} keys leave nothing to do")
    if isinstance(call.q_pos, Tensor) or isinstance(call.k_pos, Tensor):
        return Plan(
            dense, lambda: "SDPA with a mask: positions are a tensor, so some may be nowhere"
        )
    if call.bias is not None:
        return Plan(dense, lambda: "SDPA with the bias as an additive mask")
    if isinstance(call.mask, Mask):
        assert isinstance(call.q_pos, range) and isinstance(call.k_pos, range)
        return _choose_by_mask(call, call.mask.on(call.q_pos, call.k_pos))
    if call.mask is not None:
        return Plan(dense, lambda: "SDPA with a mask: only an expression says more than its values")
    return Plan(whole, lambda: f"{_reader(call)}: nothing is masked")


def _choose_by_mask(call: Call, mask: Mask | bool) -> Plan:
    q_pos, k_pos = call.q_pos, call.k_pos
    assert isinstance(q_pos, range) and isinstance(k_pos, range)
    gpu = call.q.device.type == "cuda"
    if mask is True:
        return Plan(whole, lambda: f"{_reader(call)}: {call.mask} reads everything here")
    if mask is False:
        return Plan(dense, lambda: f"SDPA with a mask: {call.mask} reads nothing here")
    if isinstance(mask, Causal):
        if q_pos.start == k_pos.start and q_pos.stop == k_pos.stop:
            return Plan(causal_square, lambda: f"SDPA{_preferred(call)}, causal flag")
        if gpu and q_pos.stop == k_pos.stop and q_pos.start > k_pos.start:
            return Plan(causal_tail, lambda: "SDPA, causal aligned to the last key")
    if gpu and _flex_fits(call):
        return Plan(flex, lambda: f"FlexAttention: block mask of {mask}")
    # Tiles are picked on the host, which a compiled graph cannot do.
    entries = call.q.shape[-2] * call.k.shape[-2]
    tiles_pay = not gpu and entries >= TILED_FROM**2  # many small launches cost a GPU more
    if (tiles_pay or entries > DENSE_UPTO) and not torch.compiler.is_compiling():
        read = _share_read(mask, q_pos, k_pos)
        if read <= TILED_BELOW or entries > DENSE_UPTO:
            return Plan(
                tiled, lambda: f"SDPA tile by tile: {mask} reads in {read:.0%} of the tiles"
            )
    return Plan(dense, lambda: f"SDPA with a mask: {mask} over {len(q_pos)} × {len(k_pos)}")


def whole(call: Call) -> Tensor:
    """Everything may be read."""
    q, k, v, beta = call.q, call.k, call.v, call.beta
    return products(q, k, v, beta) if _few_queries(q, k, v) else _sdpa(q, k, v, beta)


FEW, MANY, MUCH = 8, 16, 1 << 17  # queries at most; keys, and numbers among them, at least


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
        if scores.dtype != q.dtype:
            # Softmax forgets a row's maximum; a narrower type must not spend its digits on it.
            scores = (scores - scores.detach().amax(-1, keepdim=True)).to(q.dtype)
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


def tiled(call: Call) -> Tensor:
    """A block of queries at a time against the keys it may read, so work follows the mask."""
    assert isinstance(call.q_pos, range) and isinstance(call.k_pos, range)
    mask = call.mask
    assert isinstance(mask, Mask)
    strips, device = _strips(mask, call.q_pos, call.k_pos), call.q.device
    q = call.q.split(TILE, -2)
    k, v = _Tiles(call.k, len(strips)), _Tiles(call.v, len(strips))
    reads = []
    for (rows, columns), part in zip(strips, q, strict=True):
        q_pos, spans = call.q_pos[rows], [call.k_pos[at] for at in columns]
        allowed = _join([written(mask, q_pos, span, device) for span in spans], -1)
        strip = Call(part, k.take(columns), v.take(columns), allowed, None, None, None, call.beta)
        reads.append(dense(strip))
    return torch.cat(reads, -2)


class _Tiles:
    """Runs of keys or values for one strip after another.

    A slice is free on the way forward, but on the way back each one costs a whole tensor of
    zeros. Where strips are short beside the whole, tiles cut once and joined again are cheaper.
    """

    def __init__(self, x: Tensor, strips: int) -> None:
        self.x = x
        cut = x.requires_grad and torch.is_grad_enabled() and strips > 8
        self.tiles = x.split(TILE, -2) if cut else None

    def take(self, columns: Sequence[slice]) -> Tensor:
        if self.tiles is None or sum(at.stop - at.start for at in columns) > self.x.shape[-2] // 2:
            return _join([self.x[..., at, :] for at in columns], -2)
        runs = [range(at.start // TILE, -(-at.stop // TILE)) for at in columns]
        return _join([self.tiles[tile] for run in runs for tile in run], -2)


def _join(parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


def flex(call: Call) -> Tensor:
    """FlexAttention over the tiles that the mask reads."""
    from torch.nn.attention.flex_attention import flex_attention

    assert isinstance(call.q_pos, range) and isinstance(call.k_pos, range)
    assert isinstance(call.mask, Mask)
    q, k, v = _four_axes(call.q), _four_axes(call.k), _four_axes(call.v)
    grouped, where = q.shape[1] != k.shape[1], (call.q_pos, call.k_pos, call.q.device)
    if torch.compiler.is_compiling():  # the caller's graph takes both in
        block_mask = _make_block_mask(call.mask, *where, call.q_pos.start, call.k_pos.start)
        read = flex_attention(q, k, v, None, block_mask, call.beta, grouped)
    else:
        # One kernel for each mask, dtype and shape is meant: the default limit of 8 is too low.
        with torch._dynamo.config.patch(recompile_limit=128):
            block_mask = _block_mask(call.mask, *where)
            read = _compiled_flex()(q, k, v, None, block_mask, call.beta, grouped)
    assert isinstance(read, Tensor)
    return read.reshape(*call.q.shape[:-1], call.v.shape[-1])


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
        if q.ndim > 4 and mask is not None:
            options["attn_mask"] = mask.expand(*q.shape[:-1], k.shape[-2]).flatten(0, -4)
        read = _sdpa(_four_axes(q), _four_axes(k), _four_axes(v), beta, **options)
        return read.reshape(q.shape)
    if q.shape[1] != k.shape[1]:  # decided here: the call takes no symbol of a compiler's
        options["enable_gqa"] = True
    with _kernel(q, k, v, options):
        return scaled_dot_product_attention(q, k, v, scale=beta, **options)


def _four_axes(x: Tensor) -> Tensor:
    """(n d), (h n d) or (a b … h n d) as (b h n d)."""
    if x.ndim < 4:
        return x[(None,) * (4 - x.ndim)]
    return x.flatten(0, -4)


def _reader(call: Call) -> str:
    """What reads where everything may be read."""
    few = _few_queries(call.q, call.k, call.v)
    return "two products, for few queries" if few else f"SDPA{_preferred(call)}"


def _preferred(call: Call) -> str:
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
    q, k, v = _four_axes(q), _four_axes(k), _four_axes(v)
    ask = torch.backends.cuda.SDPAParams(q, k, v, None, 0.0, False, q.shape[1] != k.shape[1])
    return q.shape[-1] == v.shape[-1] and torch.backends.cuda.can_use_cudnn_attention(ask)


@functools.cache
def _hopper(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device)[0] == 9


def _flex_fits(call: Call) -> bool:
    """Whether FlexAttention takes these widths and its launch is small beside the work."""
    d, entries = call.q.shape[-1], call.q.shape[-2] * call.k.shape[-2]
    least = TILED_FROM if torch.compiler.is_compiling() else FLEX_FROM
    return entries >= least**2 and d == call.v.shape[-1] and d >= 16 and d & (d - 1) == 0


def _share_read(mask: Mask, q_pos: range, k_pos: range) -> float:
    """The share of the map that lies in strips the mask reads."""
    entries = sum(
        (rows.stop - rows.start) * sum(at.stop - at.start for at in columns)
        for rows, columns in _strips(mask, q_pos, k_pos)
    )
    return entries / (len(q_pos) * len(k_pos))


@functools.lru_cache(maxsize=256)
def _strips(mask: Mask, q_pos: range, k_pos: range) -> Sequence[tuple[slice, Sequence[slice]]]:
    """For each block of queries, the runs of keys that some of them may read."""
    strips = []
    for row, some in enumerate(mask.tiles(q_pos, k_pos, TILE).some.tolist()):
        rows = slice(row * TILE, min((row + 1) * TILE, len(q_pos)))
        starts = [at for at in range(len(some)) if at == 0 or some[at] != some[at - 1]]
        runs = [
            slice(start * TILE, min(stop * TILE, len(k_pos)))
            for start, stop in pairwise([*starts, len(some)])
            if some[start]
        ]
        first = slice(0, min(TILE, len(k_pos)))  # a block of blind queries still needs keys
        strips.append((rows, tuple(runs) or (first,)))
    return tuple(strips)


@functools.lru_cache(maxsize=64)
def _block_mask(mask: Mask, q_pos: range, k_pos: range, device: torch.device) -> BlockMask:
    # Offsets as tensors, so that a cache moving on does not compile the kernel anew.
    q_start, k_start = torch.tensor([q_pos.start, k_pos.start], device=device).unbind()
    return _make_block_mask(mask, q_pos, k_pos, device, q_start, k_start)


def _make_block_mask(
    mask: Mask,
    q_pos: range,
    k_pos: range,
    device: torch.device,
    q_start: Tensor | int,
    k_start: Tensor | int,
) -> BlockMask:
    from torch.nn.attention.flex_attention import BlockMask

    def reads(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return mask.reads(q + q_start, k + k_start)

    some, every = mask.tiles(q_pos, k_pos, TILE, device)
    # The last row and column may be cut short: leave their edge to the predicate.
    if len(k_pos) % TILE:
        every[:, -1] = False
    if len(q_pos) % TILE:
        every[-1, :] = False
    partial, full = _ragged(some & ~every), _ragged(every)
    return BlockMask.from_kv_blocks(
        *partial, *full, BLOCK_SIZE=TILE, mask_mod=reads, seq_lengths=(len(q_pos), len(k_pos))
    )


def _ragged(tiles: Tensor) -> tuple[Tensor, Tensor]:
    """How many tiles each row has, and which, the present ones first."""
    count = tiles.sum(-1, dtype=torch.int32)
    order = tiles.int().argsort(dim=-1, descending=True, stable=True).int()
    return count[None, None], order[None, None]


@functools.cache
def _compiled_flex() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)
