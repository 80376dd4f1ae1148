"""Weights g(k)·g(q) in place of exp(k·q): products regrouped, and a cost that grows with N."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from regard.attention import (
    Call,
    EluFeatures,
    FeatureMap,
    LearnedFeatures,
    LinearAttention,
    RandomFeatures,
    ReluFeatures,
    TaylorFeatures,
    attend,
    window,
)
from regard.lab.claim import Claim
from regard.lab.counting import count, enough
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-10


@torch.no_grad()
def measure(
    width: int = 16,
    tokens: int = 64,
    features: int = 64,
    longer: tuple[int, ...] = (64, 256, 1024, 2048),
    seed: int = 0,
) -> Evidence:
    """Both bracketings of the same product, what they cost, and how far they are from softmax.

    Args:
        width: numbers in a query, a key and a value.
        tokens: tokens that read one another where reads are compared.
        features: numbers that g returns where they can be chosen, in random features.
        longer: numbers of tokens from which the slopes are fitted; at least two.
        seed: where the random numbers start.
    """
    enough(width=(width, 2), tokens=(tokens, 1), features=(features, 1))
    if len(longer) < 2 or list(longer) != sorted({*longer}) or longer[0] < 1:
        numbers = " ".join(map(str, longer))
        raise ValueError(
            f"longer {numbers}: a slope takes two numbers of tokens, each above the last"
        )
    draw = torch.Generator().manual_seed(seed)

    def tensors(n: int) -> list[Tensor]:
        return [*torch.randn(3, n, width, generator=draw, dtype=torch.float64)]

    q, k, v = tensors(tokens)
    softmax = attend(q, k, v).output
    maps: dict[str, FeatureMap] = {
        "elu": EluFeatures(),
        "relu": ReluFeatures(),
        f"random({features})": RandomFeatures(width, features, seed),
        f"random({64 * features})": RandomFeatures(width, 64 * features, seed),
        "taylor": TaylorFeatures(),
        "learned": LearnedFeatures(width),
    }
    apart, least, away = [], [], {}
    for name, g in maps.items():
        attention, call = LinearAttention(g).double(), Call.check(q, k, v)
        regrouped, written = attention(q, k, v), attention.plain(call)
        apart += [gap(regrouped, written.output), gap(regrouped, by_hand(g, call))]
        least.append(float(written.weights.min()))
        away[name] = float((regrouped - softmax).norm() / softmax.norm())
    # A mask that lets each query read other keys: no two queries share their sums.
    near = window(4)
    masked = LinearAttention().plain(Call.check(q, k, v, near)).output
    costs = {
        "softmax": Cost(attend),
        "regrouped": Cost(LinearAttention()),
        "regrouped, masked": Cost(lambda *x: LinearAttention()(*x, mask=near)),
    }
    for n in longer:
        for cost in costs.values():
            cost.add(*tensors(n))
    powers = {name: cost.slopes(longer) for name, cost in costs.items()}
    many, few = (
        {name: share(maps[name], tensors, times) for name in ("elu", "taylor")}
        for times in (2.0, 0.5)
    )
    return Evidence(
        deciding=f"slopes {powers['softmax'][0]:.2f} and {powers['regrouped'][0]:.2f}; "
        f"elu {away['elu']:.0%} from softmax",
        written=(
            at_most("both bracketings, and numpy's, of six g: apart by", max(apart), ROUNDING),
            at_least("least weight of any pair, under any g", min(least), 0.0),
            at_least("softmax: slope of multiply-adds", powers["softmax"][0], 1.95),
            at_most("regrouped: slope of multiply-adds", powers["regrouped"][0], 1.05),
            at_least("softmax: slope of the largest tensor", powers["softmax"][1], 1.95),
            at_most("regrouped: slope of the largest tensor", powers["regrouped"][1], 1.05),
            at_most("two tokens a feature: cost over softmax", max(many.values()), 0.9),
        ),
        controls=(
            at_most("half a token a feature: cost over softmax", min(few.values()), 0.9),
            at_most(
                "a window: from sums over all keys",
                gap(masked, LinearAttention()(q, k, v)),
                ROUNDING,
            ),
            at_most("a window: slope of multiply-adds", powers["regrouped, masked"][0], 1.05),
            at_least(
                "g = tanh: least product of any pair", float((q.tanh() @ k.tanh().mT).min()), 0.0
            ),
        ),
        series={
            "tokens": [float(n) for n in longer],
            "multiply-adds": {name: cost.products for name, cost in costs.items()},
            "largest tensor": {name: cost.largest for name, cost in costs.items()},
            "seconds": {name: cost.seconds for name, cost in costs.items()},
            "slope of seconds": {name: found[2] for name, found in powers.items()},
            "relative distance from softmax": away,
        },
        notes=("slopes are of operations and numbers counted; seconds are in the series",),
    )


class Cost:
    """What an attention takes, for one number of tokens after another."""

    def __init__(self, attention: Callable[..., Any]) -> None:
        self.attention = attention
        self.products: list[float] = []
        self.largest: list[float] = []
        self.seconds: list[float] = []

    def add(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        counts = count(self.attention, q, k, v)
        self.products.append(float(counts.products))
        self.largest.append(float(counts.largest))
        took = []
        for _ in range(2):
            began = time.perf_counter()
            self.attention(q, k, v)
            took.append(time.perf_counter() - began)
        self.seconds.append(min(took))

    def slopes(self, tokens: tuple[int, ...]) -> list[float]:
        """The power of N that each of the three grows with."""
        return [
            float(np.polyfit(np.log(tokens), np.log(values), 1)[0])
            for values in (self.products, self.largest, self.seconds)
        ]


def share(g: FeatureMap, tensors: Callable[[int], list[Tensor]], times: float) -> float:
    """The cost of so many tokens a feature, over that of softmax.

    Of a g that multiplies no matrices: random features do, and pay at twice as many tokens.
    """
    features = g(tensors(1)[0]).shape[-1]
    inputs = tensors(max(1, int(times * features)))
    return count(LinearAttention(g), *inputs).products / count(attend, *inputs).products


def by_hand(g: FeatureMap, call: Call) -> Tensor:
    """numpy's: all weights first, then their sums."""
    root = call.beta**0.5
    q, k = (each.double().numpy() for each in (g(call.q * root), g(call.k * root)))
    weights = np.einsum("nf,mf->nm", q, k)
    read = np.einsum("nm,me->ne", weights, call.v.numpy())
    return torch.from_numpy(read / np.maximum(weights.sum(1, keepdims=True), 1e-300))


def gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    counted = found["multiply-adds"]
    away = found["relative distance from softmax"]
    return lines(
        found["tokens"],
        {"softmax": counted["softmax"], "g(q)·g(k), regrouped": counted["regrouped"]},
        title="What attention takes when its products are regrouped",
        across="tokens",
        up="multiply-adds",
        log="xy",
        about="From softmax: " + ", ".join(f"{name} {share:.0%}" for name, share in away.items()),
    )


def ask(numbers: np.random.Generator) -> Question:
    features, width = (int(each) for each in numbers.choice([16, 32, 64, 128], 2))
    n = features * int(numbers.choice([2, 4, 8, 16, 32]))
    return Question(
        f"${n}$ tokens have values ${width}$ wide, and $g$ gives ${features}$ numbers a token. How "
        "many multiply-adds do $(g(Q)\\, g(K)^\\top)\\, V$ and $g(Q)\\, (g(K)^\\top V)$ take? "
        "(two numbers)",
        (float(n * n * (features + width)), float(2 * n * features * width)),
        tolerance=0.001,
        why=f"${n}^2 \\cdot ({features} + {width})$ and "
        f"$2 \\cdot {n} \\cdot {features} \\cdot {width}$",
    )


CLAIM = Claim(
    id="kernel-trick",
    source="E 12.10",
    statement="Replacing $\\exp(k^\\top q)$ by $g(k)^\\top g(q)$ makes self-attention cheaper.",
    verdict="holds",
    truth="$g(q)$ is the same for all keys, so the sum over keys is made once: the cost grows with "
    "$N$ instead of $N^2$, and pays when there are more tokens than features. Weights must not be "
    "negative, and they are not those of softmax: how near they come depends on $g$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
