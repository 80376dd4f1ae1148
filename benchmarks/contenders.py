"""Who takes part in `python -m benchmarks efficient-attention`: full attention, and all that is
cheaper.

Each is a read of q, k and v, the dense twin that it is compared with, and its path in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention import (
    LinearAttention,
    Mask,
    attend,
    attend_fused,
    causal,
    explain_kernel,
    window,
)
from regard.attention.call import Call
from regard.attention.channel import attend_channels
from regard.attention.masks import axial, blocks, grid_windows, neighborhood
from regard.attention.patterns import bigbird, longformer, sparse_transformer

SIDE = 16  # of the square windows on a grid: as many cells as the window on a CPU has keys
FULL, CAUSAL, DIRECT = "full", "causal", "FlexAttention"
FLA = "flash-linear-attention"

Read = Callable[[Tensor, Tensor, Tensor], Tensor]


class Method(NamedTuple):
    """One attention at one size: its read, the dense twin of that, and its path in words."""

    words: str
    read: Read
    twin: Read
    why: Callable[[Tensor, Tensor, Tensor], str]


class Contender(NamedTuple):
    """A method at any size, given n and the keys that a query may read."""

    family: str
    make: Callable[[int, int], Method]
    ahead: bool = True  # whether it reads what comes later too
    square: bool = False  # whether it is measured at squares alone, where its grid keeps its shape
    upto: int = 1 << 40  # tokens, of what compiles or writes a mask out for longer than it runs

    def fits(self, n: int) -> bool:
        return not self.square or math.isqrt(n) ** 2 == n


def contenders(device: torch.device) -> list[dict[str, Contender]]:
    """Who takes part, in groups that are measured one after the other.

    On a GPU, what must compile a kernel for each mask comes last: it is left out first where time
    is short.
    """
    far = 65536
    first = {
        FULL: Contender("dense", lambda n, keys: masked(None)),
        CAUSAL: Contender("dense", lambda n, keys: masked(causal), ahead=False),
        "window": Contender("window", lambda n, keys: masked(causal & window(keys)), ahead=False),
        "blocks": Contender("window", lambda n, keys: masked(blocks(keys))),
        "windows": Contender(
            "grid", lambda n, keys: masked(grid_windows(SIDE, grid(n))), square=True
        ),
        "linear": Contender("linear", lambda n, keys: linear(None)),
        "linear causal": Contender("linear", lambda n, keys: linear(causal), ahead=False),
        "channels": Contender("channels", lambda n, keys: channels()),
    }
    later = {
        "Longformer": Contender(
            "pattern", lambda n, keys: masked(longformer(keys // 2, 16)), upto=far
        ),
        "neighbourhood": Contender(
            "grid",
            lambda n, keys: masked(neighborhood(SIDE // 2, grid(n))),
            square=True,
            upto=far,
        ),
        "axial": Contender("grid", lambda n, keys: masked(axial(grid(n))), square=True, upto=far),
        "Sparse Transformer": Contender(
            "pattern",
            lambda n, keys: masked(sparse_transformer(grid(n)[1])),
            ahead=False,
            square=True,
            upto=far,
        ),
        "BigBird": Contender(
            "pattern", lambda n, keys: masked(bigbird(keys // 2, 16, 3, n)), upto=far
        ),
    }
    if device.type != "cuda":
        return [first | later]
    # It writes all n × n answers out before it knows which tiles are read.
    first[DIRECT] = Contender("window", by_hand, ahead=False, upto=16384)
    if find_spec("fla") is not None:
        first[FLA] = Contender("linear", lambda n, keys: by_fla(), ahead=False)
    return [first, later]


def grid(n: int) -> tuple[int, int]:
    """The squarest grid of n cells, at least as wide as it is high."""
    height = next(side for side in range(math.isqrt(n), 0, -1) if n % side == 0)
    return height, n // height


def masked(mask: Mask | None) -> Method:
    """Softmax attention under a mask."""
    return Method(
        "nothing masked" if mask is None else str(mask),
        partial(attend_fused, mask=mask),
        lambda q, k, v: attend(q, k, v, mask=mask).output,
        partial(explain_kernel, mask=mask),
    )


def linear(mask: Mask | None) -> Method:
    """Linear attention with elu + 1."""
    attention = LinearAttention()
    return Method(
        f"φ = elu + 1, {'nothing masked' if mask is None else mask}",
        partial(attention, mask=mask),
        lambda q, k, v: attention.plain(Call.check(q, k, v, mask)).output,
        partial(attention.explain, mask=mask),
    )


def channels() -> Method:
    """Channels read channels."""
    return Method(
        "channels of a head read one another",
        attend_channels,
        lambda q, k, v: attend_channels.plain(attend_channels.check(q, k, v)).output,
        lambda q, k, v: "two products",
    )


def by_hand(n: int, keys: int) -> Method:
    """FlexAttention as its users call it, with our causal window."""
    from torch.nn.attention.flex_attention import create_block_mask

    def reads(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q >= k) & (q - k < keys)

    block_mask = create_block_mask(reads, None, None, n, n, device="cuda")
    ours = masked(causal & window(keys))
    return ours._replace(
        read=lambda q, k, v: _compiled()(q, k, v, block_mask=block_mask),
        why=lambda q, k, v: "torch.compile(flex_attention) and create_block_mask",
    )


@cache
def _compiled() -> Callable[..., Tensor]:
    from torch.nn.attention.flex_attention import flex_attention

    compiled: Callable[..., Tensor] = torch.compile(flex_attention)
    return compiled


def by_fla() -> Method:
    """The chunked kernel of flash-linear-attention, with the features and quotient of ours."""
    from fla.ops.linear_attn import chunk_linear_attn  # type: ignore[import-not-found]

    feature = LinearAttention().feature

    def read(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        root = q.shape[-1] ** -0.25
        a, b = (feature.scaled(x, root).to(x.dtype).transpose(1, 2) for x in (q, k))
        sums, _ = chunk_linear_attn(a, b, v.transpose(1, 2), scale=1.0, normalize=False)
        total = (a.float() * b.float().cumsum(1)).sum(-1, keepdim=True)
        return (sums / total).transpose(1, 2).to(v.dtype)

    return linear(causal)._replace(read=read, why=lambda q, k, v: FLA)
