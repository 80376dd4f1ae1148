"""From the values to the output, with its maps fixed, multi-head attention is affine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, watch
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

ROUNDING = 1e-12
BENT = 1e-3  # a departure from affine that is clearly seen
BETWEEN: dict[str, Callable[[Tensor], Tensor]] = {"ReLU": F.relu, "GELU": F.gelu}


def measure(tokens: int = 6, width: int = 16, heads: int = 4, seed: int = 0) -> Evidence:
    """The layer as a function f of its values alone, whose keys, and so whose maps, stay.

    Its context is twice as wide as a token: keys are made of one half of it, values of the other.

    Args:
        tokens: tokens that read, and that are read.
        width: numbers in a token.
        heads: heads of the layer.
        seed: where the random numbers start.
    """
    enough(tokens=(tokens, 1), width=(width, 1))
    layer = make_layer(width, heads, seed)
    draw = torch.Generator().manual_seed(seed)
    x, keys, u, v = torch.randn(4, tokens, width, generator=draw, dtype=torch.float64)
    u, v = 3 * u, 3 * v  # large beside the biases, so that what could bend would

    def f(values: Tensor) -> Tensor:
        with torch.no_grad():
            return layer(x, torch.cat([keys, values], -1))

    maps = []
    for values in (u, v):
        with torch.no_grad(), watch(layer) as watching:
            f(values)
        (seen,) = watching.values()
        maps.append(seen.weights())
    added, mirrored = departures(f, u, v)
    bends = {}
    for name, bend in BETWEEN.items():
        with bent(layer, bend):
            bends[name] = departures(f, u, v)
            if name == "ReLU":
                from_relu = f(v)
    by_hand = read_by_hand(layer, maps[1], v)
    steps = torch.linspace(-2, 2, 81, dtype=torch.float64)
    straight = [float(f(t * v)[0, 0]) for t in steps]
    curves = {}
    for name, bend in BETWEEN.items():
        with bent(layer, bend):
            curves[name] = [float(f(t * v)[0, 0]) for t in steps]
    return Evidence(
        deciding=f"{added:.1e} from affine; a ReLU would be {bends['ReLU'][0]:.2f}",
        written=(
            at_least("f(u + v) from f(u) + f(v) − f(0)", added, BENT),
            at_most("output, from one with a ReLU between", gap(f(v), from_relu), ROUNDING),
        ),
        corrected=(
            at_most("how far the maps differ between u and v", gap(*maps), ROUNDING),
            at_most("f(u + v) from f(u) + f(v) − f(0)", added, ROUNDING),
            at_most("f(−v) from 2 f(0) − f(v)", mirrored, ROUNDING),
            at_most("output, from one affine map written out", gap(f(v), by_hand), ROUNDING),
        ),
        controls=tuple(
            at_most(f"{name} between: {words}", value, ROUNDING)
            for name, found in bends.items()
            for words, value in zip(
                ("f(u + v) from f(u) + f(v) − f(0)", "f(−v) from 2 f(0) − f(v)"),
                found,
                strict=True,
            )
        ),
        series={
            "t": steps.tolist(),
            "nothing between": straight,
            **curves,
            "doubling through a ReLU without biases, which is no test": doubling(x, keys, v, layer),
        },
    )


def make_layer(width: int, heads: int, seed: int) -> MultiHeadAttention:
    """A layer that reads a context of keys and values side by side, with random biases."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        layer = MultiHeadAttention(width, heads, context_width=2 * width).double()
        for each in (layer.to_q, layer.to_k, layer.to_v, layer.to_out):
            torch.nn.init.normal_(each.weight, std=width**-0.5)
            torch.nn.init.normal_(each.bias, std=0.3)
    with torch.no_grad():
        layer.to_k.weight[:, width:] = 0
        layer.to_v.weight[:, :width] = 0
    return layer


def departures(f: Callable[[Tensor], Tensor], u: Tensor, v: Tensor) -> tuple[float, float]:
    """How far f is from affine: in a sum, and in a mirror, which a ReLU cannot pass either."""
    zero = f(torch.zeros_like(v))
    return gap(f(u + v), f(u) + f(v) - zero), gap(f(-v), 2 * zero - f(v))


def doubling(x: Tensor, keys: Tensor, v: Tensor, layer: MultiHeadAttention) -> float:
    """f(2v) from 2 f(v), with a ReLU between and no biases: about zero, bent as it is."""
    with torch.no_grad(), bent(layer, F.relu):
        kept = [each.bias.clone() for each in (layer.to_v, layer.to_out)]
        for each in (layer.to_v, layer.to_out):
            each.bias.zero_()
        once, twice = (layer(x, torch.cat([keys, t * v], -1)) for t in (1, 2))
        for each, bias in zip((layer.to_v, layer.to_out), kept, strict=True):
            each.bias.copy_(bias)
    return gap(twice, 2 * once)


def read_by_hand(layer: MultiHeadAttention, maps: Tensor, v: Tensor) -> Tensor:
    """Σ over heads of map · (v W_Vᵀ + b_V) W_Oᵀ, and b_O: one einsum and two sums."""
    with torch.no_grad():
        values = layer.to_v.weight[:, v.shape[-1] :].unflatten(0, (layer.heads, -1))
        out = layer.to_out.weight.unflatten(1, (layer.heads, -1))
        constant = out.flatten(1) @ layer.to_v.bias + layer.to_out.bias
        return torch.einsum("hnm,mc,hec,ohe->no", maps, v, values, out) + constant


@contextmanager
def bent(layer: MultiHeadAttention, bend: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """The layer with a non-linearity between its heads and its output."""
    hook = layer.to_out.register_forward_pre_hook(lambda _, args: (bend(args[0]),))
    try:
        yield
    finally:
        hook.remove()


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        found["t"],
        {name: found[name] for name in ("nothing between", *BETWEEN)},
        title="One number of the output, as all values are stretched",
        across="values times",
        up="output",
        about="The maps stay as they are. A straight line, unless something bends it.",
    )


def ask(numbers: np.random.Generator) -> Question:
    at_zero, at_u, at_v = (int(each) for each in numbers.choice(range(-9, 10), 3, replace=False))
    return Question(
        "With its maps fixed, one number of a layer of multi-head attention is a function $f$ of "
        f"the values, and $f(0) = {at_zero}$, $f(u) = {at_u}$, $f(v) = {at_v}$. What are "
        "$f(u + v)$ and $f(-v)$? (two numbers, in this order)",
        (float(at_u + at_v - at_zero), float(2 * at_zero - at_v)),
        why="nothing but sums and products with weights follows, so $f$ is affine: "
        "$f(u) + f(v) - f(0)$ and $2 f(0) - f(v)$",
    )


CLAIM = Claim(
    id="output-nonlinearity",
    source="D",
    statement="The concatenated heads are passed through a non-linearity into the output layer.",
    verdict="corrected",
    truth="Heads are put side by side and multiplied by $W^O$, with nothing between: once the maps "
    "are fixed, the output is affine in the values. The non-linearities of a block are the softmax "
    "of the maps and the one of the feed-forward.",
    measure=measure,
    plot=plot,
    ask=ask,
)
