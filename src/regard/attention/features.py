"""Feature maps: each token as numbers of which products are weights, with no softmax between.

Softmax attention weighs a key by exp(β q·k), which must be computed for every pair. With a map φ
and weights φ(q)·φ(k), the sums over keys can be made once, for all queries (`linear.py`). Every map
sees q and k times √β, so that β q·k is compared whichever map it is:

    elu       elu(x) + 1, the map of Katharopoulos et al. 2020, who had β = 1
    relu      max(x, 0): zeros where they do not match; β cancels, unless it is 0
    random    exp(w·x − |x|²/2) for random w: on average exactly softmax (Choromanski et al. 2021)
    taylor    1 + s + s²/2 for the score s: the first terms of the exponential, never below ½
    learned   softmax over [Wx, −Wx], where W is trained (Zhang et al. 2024)

φ is never negative, so no weight is. (Taylor's φ is; the product of two of them never.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.kernels.dtype import widen
from regard.attention.kernels.second_order import batched, transforming, unwrapped


class Mapped(NamedTuple):
    """Keys as features, which are `values` · exp(`shift`); one shift for all keys of a head."""

    values: Float[Tensor, "*b m f"]
    shift: Float[Tensor, "*b 1 1"] | None = None


class FeatureMap(nn.Module):
    """φ, from (… n d) to (… n f): a map of your own overrides `forward`.

    It is computed in float32 at least; a kernel may round what comes out to x's own type.
    """

    signed = False  # whether features may be negative although no product of two is

    def count_of(self, head_width: int) -> int | None:
        """How many features heads so wide have; None where only calling it tells."""
        return None

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n f"]:
        raise NotImplementedError

    def scaled(self, x: Float[Tensor, "*b n d"], root: float) -> Float[Tensor, "*b n f"]:
        """φ(root · x), where root is √β."""
        return self(widen(x) * root)

    def queries(self, q: Float[Tensor, "*b n d"], root: float) -> Float[Tensor, "*b n f"]:
        """φ(q) times any positive number a query: a read is a ratio in which it cancels."""
        return self.scaled(q, root)

    def keys(
        self, k: Float[Tensor, "*b m d"], root: float, here: Bool[Tensor, "*#b m 1"] | None
    ) -> Mapped:
        """φ(k), with zeros where a key is nowhere."""
        return Mapped(blank(self.scaled(k, root), here))


class EluFeatures(FeatureMap):
    """elu(x) + 1: x + 1 above 0, and the exponential below."""

    def count_of(self, head_width: int) -> int:
        return head_width

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        return self.scaled(x, 1.0)

    def scaled(self, x: Float[Tensor, "*b n d"], root: float) -> Float[Tensor, "*b n d"]:
        if transforming():
            x = widen(x) * root
            features = x.relu() + x.clamp(max=0).exp()
        elif one_pass_pays(x):
            from regard.attention.kernels.features_triton import EluPlusOneKernel

            features = EluPlusOneKernel.apply(x, root)  # type: ignore[no-untyped-call]
        else:
            features = EluPlusOne.apply(widen(x), root)  # type: ignore[no-untyped-call]
        return features


class EluPlusOne(torch.autograd.Function):
    """elu(root · x) + 1 in as few passes over memory as torch allows: they are what it costs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, root: float) -> Tensor:
        x = x * root
        # torch's elu falls to −1, next to which small exponentials would be rounded away.
        features = x.relu().add_(x.clamp_(max=0).exp_())
        ctx.save_for_backward(features)
        ctx.root = root
        return features

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (features,) = ctx.saved_tensors
        if may_write_over(g):
            return features.clamp(max=1).mul_(g).mul_(ctx.root), None
        return features.clamp(max=1) * g * ctx.root, None  # a line of `features`, which know x


class ReluFeatures(FeatureMap):
    """max(x, 0). A query that matches no key at all, not even a little, reads zeros."""

    def count_of(self, head_width: int) -> int:
        return head_width

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        return widen(x).relu()


class RandomFeatures(FeatureMap):
    """exp(w·x − |x|²/2) / √count for `count` random w, whose products average to exp(q·k).

    The w are drawn from `seed` in blocks of orthogonal directions, which err less than independent
    ones. The greatest exponent is taken out before it can overflow: that of each query, and that
    of all keys of a head, for weights compare keys. So keys whose exponents lie more than about 80
    below the greatest count for nothing, under `causal` also beside a later one.
    """

    directions: Tensor

    def __init__(self, head_width: int, count: int = 64, seed: int = 0) -> None:
        super().__init__()
        if count < 1:
            raise ValueError(f"random({count}): there must be at least 1 feature")
        self.count, self.seed = count, seed
        drawn = draw_directions(head_width, count, seed)
        self.register_buffer("directions", drawn, persistent=False)  # the seed says them all

    def count_of(self, head_width: int) -> int:
        return self.count

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n f"]:
        x = widen(x)
        return (self.along(x) - half_square(x)).exp() / math.sqrt(self.count)

    def queries(self, q: Float[Tensor, "*b n d"], root: float) -> Float[Tensor, "*b n f"]:
        along = self.along(widen(q) * root)  # |q|²/2 is one of the numbers that cancel
        return (along - along.detach().amax(-1, keepdim=True)).exp()

    def keys(
        self, k: Float[Tensor, "*b m d"], root: float, here: Bool[Tensor, "*#b m 1"] | None
    ) -> Mapped:
        k = widen(k) * root
        if not k.shape[-2]:
            return Mapped(self(k), k.new_full((*k.shape[:-2], 1, 1), -torch.inf))
        exponents = self.along(k) - half_square(k)
        if here is not None:
            exponents = exponents.masked_fill(~here, -torch.inf)
        shift = exponents.detach().amax((-2, -1), keepdim=True)
        values = (exponents - shift.masked_fill(shift.isneginf(), 0.0)).exp()
        return Mapped(values, shift)

    def along(self, x: Tensor) -> Tensor:
        check_width(self, x, self.directions.shape[-1])
        return x @ self.directions.to(x.dtype).mT

    def extra_repr(self) -> str:
        return f"{self.count}, seed={self.seed}"


class TaylorFeatures(FeatureMap):
    """1 + s + s²/2 for the score s = q·k, written as features: 1, x, and the products x_i x_j.

    Of x_i x_j and x_j x_i one is kept, times √2, so d numbers become 1 + d + d (d + 1) / 2.
    """

    signed = True

    def count_of(self, head_width: int) -> int:
        return 1 + head_width + head_width * (head_width + 1) // 2

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n f"]:
        x = widen(x)
        rows, columns = torch.triu_indices(x.shape[-1], x.shape[-1], device=x.device)
        once = torch.ones_like(rows, dtype=x.dtype).masked_fill(rows == columns, math.sqrt(0.5))
        products = x[..., rows] * x[..., columns] * once
        return torch.cat([torch.ones_like(x[..., :1]), x, products], -1)


class LearnedFeatures(FeatureMap):
    """softmax over [Wx, −Wx]: twice as many features as numbers, which sum to 1.

    W is trained, starts as the identity, and is shared by the heads of a layer.
    """

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(head_width))

    def count_of(self, head_width: int) -> int:
        return 2 * head_width

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n f"]:
        check_width(self, x, self.weight.shape[-1])
        x = widen(x)
        x = x @ self.weight.to(x.dtype).mT
        return torch.cat([x, -x], -1).softmax(-1)


class Own(FeatureMap):
    """A function of the user's: nobody knows what it returns, so that is looked at, once."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.checked = function, False

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n f"]:
        features = self.function(widen(x))
        if tuple(features.shape[:-1]) != tuple(x.shape[:-1]):
            raise ValueError(
                f"a feature map made {tuple(features.shape)} of {tuple(x.shape)}; "
                "it may change the last axis alone"
            )
        if not self.checked and not torch.compiler.is_compiling():
            self.checked = True  # a look waits for a GPU: one is paid for, and `plain` always does
            check_features(self, features)
        return features


def check_features(feature: FeatureMap, features: Tensor) -> None:
    """Refuse negative features, with which weights would not be shares of anything."""
    if feature.signed or not features.numel():
        return
    least = float(unwrapped(features).detach().amin())
    if not least >= 0:
        raise ValueError(
            f"a feature map returned {least:g}, and features are never negative: "
            "exp, relu or elu + 1 of its output would not be"
        )


def draw_directions(width: int, count: int, seed: int) -> Float[Tensor, "count width"]:
    """Random vectors, each with a normal's length, orthogonal to the others of its block."""
    if width < 1:
        raise ValueError(f"random features of heads {width} wide: there must be at least 1")
    numbers = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=numbers, dtype=torch.float64)

    blocks = []
    for _ in range(-(-count // width)):
        q, r = torch.linalg.qr(normal(width, width))
        blocks.append((q * r.diagonal().sign()).mT)  # so that every turn is equally likely
    directions = torch.cat(blocks)[:count]
    lengths = normal(count, width).norm(dim=-1, keepdim=True)
    return (directions * lengths).to(torch.float32)


def one_pass_pays(x: Tensor) -> bool:
    """Whether our kernel takes these numbers: half precision on a GPU, and no compiler's."""
    return (
        x.is_cuda
        and x.dtype in (torch.float16, torch.bfloat16)
        and x.numel() > 0
        and not torch.compiler.is_compiling()
        and find_spec("triton") is not None
    )


def may_write_over(g: Tensor) -> bool:
    """Whether what a backward computes of g is differentiated no further, and is of one g alone."""
    return torch.compiler.is_compiling() or not (torch.is_grad_enabled() or batched([g]))


def half_square(x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n 1"]:
    return x.square().sum(-1, keepdim=True) / 2


def blank(features: Tensor, here: Tensor | None) -> Tensor:
    return features if here is None else features.masked_fill(~here, 0.0)


def check_width(feature: FeatureMap, x: Tensor, width: int) -> None:
    if x.shape[-1] != width:
        raise ValueError(
            f"{type(feature).__name__} was made for heads {width} wide and sees {x.shape[-1]}"
        )
