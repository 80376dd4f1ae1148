"""Closed forms of what models are made of: blocks, attention, feed-forwards, embeddings, heads.

Every function lists the operations of one module in the order of its `forward`, as `closed` does of
whole models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from regard.count.formulas import Cost, Sizes
from regard.count.operations import (
    activation,
    add,
    attend,
    attend_channels,
    attend_linear,
    convolution,
    linear,
    norm,
    pairs_read,
)
from regard.count.parts import PatchesPart
from regard.models.config import StackConfig, ViTConfig

GATED = ("swiglu",)


def stack(
    path: str,
    config: StackConfig,
    sizes: Sizes,
    *,
    mask: str | None,
    context_width: int | None = None,
    place: str = "",
) -> Iterator[Cost]:
    """The blocks of a configuration, one after another."""
    place = place or getattr(config, "pos_embed", "")
    block = list(one_block(config, sizes, mask, context_width, place))
    yield from (cost.under(f"{path}.*", config.layers) for cost in block)


def one_block(
    config: StackConfig, sizes: Sizes, mask: str | None, context_width: int | None, place: str
) -> Iterator[Cost]:
    """Read, perhaps read a context, think about each token: each with a norm and a sum."""
    c, rows = config.width, sizes.batch_size * sizes.new
    groups, d = config.kv_heads or config.heads, config.width // config.heads

    def sublayer(name: str, inside: list[Cost]) -> Iterator[Cost]:
        normed = norm(f"{name}_norm", rows, c, config.norm)
        if config.norm_first:
            yield normed
        yield from (cost.under(name) for cost in inside)
        yield add("", rows * c)
        if not config.norm_first:
            yield normed

    def heads(kind: str, **options: Any) -> list[Cost]:
        return list(attention(c, config.heads, groups, d, kind, sizes, bias=config.bias, **options))

    yield from sublayer("attention", heads(config.attention, mask=mask, turned=place == "rope"))
    if context_width is not None:
        yield from sublayer("cross", heads(config.attention, context_width=context_width))
    width = config.hidden_width
    mlp = feed_forward(c, width, config.activation, rows, bias=config.bias)
    yield from sublayer("mlp", list(mlp))


def attention(
    c: int,
    heads: int,
    groups: int,
    d: int,
    kind: str,
    sizes: Sizes,
    *,
    bias: bool,
    mask: str | None = None,
    context_width: int | None = None,
    turned: bool = False,
    kept: bool = False,
) -> Iterator[Cost]:
    """D · h d for the queries, twice (width of what is read) · g d, and h d · D out."""
    b, n = sizes.batch_size, sizes.new
    m, width = (sizes.tokens, c) if context_width is None else (sizes.encoder_tokens, context_width)
    copied = kind == "channel"  # products of channels hold copies of their own
    yield linear("to_q", b * n, c, heads * d, bias=bias, kept=not (turned or copied))
    for name in ("to_k", "to_v"):
        read = linear(
            name,
            b * (n if context_width is None else m),
            width,
            groups * d,
            bias=bias,
            kept=not copied and (not turned or name == "to_v"),
        )
        # With a cache, keys and values of a context were made when it was first read.
        yield still(read) if sizes.cached and context_width is not None else read
    if turned:
        numbers = b * n * (heads + groups) * d
        # Turned heads lie one after another, so what is read is copied to lie side by side.
        held = numbers + n * d + b * n * heads * d
        yield Cost("", "turned by position", moved=2 * numbers, held=held)
    summed = sizes.cached and context_width is not None
    yield from read_by(kind, b, heads, groups, n, m, d, mask, summed=summed)
    yield linear("to_out", b * n, heads * d, c, bias=bias, kept=kept)


def read_by(
    kind: str,
    b: int,
    heads: int,
    groups: int,
    n: int,
    m: int,
    d: int,
    mask: str | None,
    *,
    summed: bool,
) -> Iterator[Cost]:
    """Attention itself: softmax, between channels, or linear with features of its own."""
    name = kind.strip().partition("(")[0]
    if name == "channel":
        yield attend_channels("", b, heads, n, d)
        return
    if name == "softmax":
        yield attend("", b, heads, groups, n, m, d, pairs_read(mask, n, m))
        return
    f, weights, products = features(kind, d)
    rows = b * (heads * n + groups * (0 if summed else n if mask == "causal" else m))
    if products:
        yield Cost(
            "attention.feature" if weights else "attention",
            "φ",
            weights,
            multiply_adds=rows * products,
            moved=rows * (d + f) + products,
            held=rows * f,
        )
    keys = 0 if summed else m  # behind a cache the sums over a context are there
    yield attend_linear("attention", b, heads, groups, n, keys, d, f, mask=mask)


def features(kind: str, d: int) -> tuple[int, int, int]:
    """How many features an expression makes of d numbers; its weights, and products a vector."""
    from regard.attention import LinearAttention, make_attention
    from regard.attention.features import LearnedFeatures, RandomFeatures, TaylorFeatures

    made = make_attention(kind, d)
    if not isinstance(made, LinearAttention):
        raise ValueError(f"nobody has said what attention={kind!r} computes; say it here")
    match made.feature:
        case RandomFeatures(count=count):
            return count, 0, d * count
        case TaylorFeatures():
            return 1 + d + d * (d + 1) // 2, 0, 0
        case LearnedFeatures():
            return 2 * d, d * d, d * d
    return d, 0, 0


def feed_forward(
    c: int, hidden: int, kind: str, rows: int, *, bias: bool, kept: bool = False
) -> Iterator[Cost]:
    """D F + F and F D + D; a gated one has D F + F once more, and multiplies by it."""
    numbers = rows * hidden
    yield linear("fc1", rows, c, hidden, bias=bias, kept=kind != "relu")
    yield activation("", numbers, kind)
    if kind in GATED:
        yield linear("gate", rows, c, hidden, bias=bias)
        yield add("", numbers, "times the gate")
    yield linear("fc2", rows, hidden, c, bias=bias, kept=kept)


def embedding(
    words: int,
    c: int,
    length: int,
    place: str,
    rows: int,
    n: int,
    segments: int = 0,
    *,
    tied: bool = False,
) -> Iterator[Cost]:
    """words · D numbers to look up, learned positions length · D, and segments · D."""
    numbers, last = rows * c, place not in ("learned", "sinusoidal") and not segments
    # Of a table that also scores words, two gradients meet here, and their sum is a third.
    yield Cost("token_embedding", "looked up", words * c, 0, words * c * tied, moved=2 * numbers)
    yield Cost("token_embedding", "scaled", moved=2 * numbers, held=numbers * last)
    if segments:
        last = place not in ("learned", "sinusoidal")
        yield Cost(
            "token_type_embedding", "segments", segments * c, moved=3 * numbers, held=numbers * last
        )
    if place == "learned":
        yield Cost("pos_embed", "positions", length * c)
    if place in ("learned", "sinusoidal"):
        yield add("", numbers, "x + positions")


def patches(
    path: str,
    stem: str,
    config: ViTConfig | PatchesPart,
    b: int,
    *,
    normalised: bool = False,
    kept: bool = True,
) -> Iterator[Cost]:
    """One projection of k p² pixels; or two convolutions that end on the same grid."""
    p, k, c = config.patch_size, config.channels, config.width
    side, pixels = config.image_size // p, k * p * p
    rows = b * side**2

    def costs() -> Iterator[Cost]:
        if stem == "patch":
            yield Cost("", "cut out", moved=2 * rows * pixels, held=rows * pixels)
            if normalised:
                yield norm("norm", rows, pixels)
            yield linear("project", rows, pixels, c, kept=kept)
            return
        first = 2 if p % 2 == 0 else 1
        between, second = max(1, c // 2), p // first
        yield convolution("conv", b, k, between, config.image_size, max(3, first + 1), first)
        seen = b * (config.image_size // first) ** 2
        yield norm("norm", seen, between)
        yield activation("", seen * between, "gelu")
        yield convolution(
            "project",
            b,
            between,
            c,
            config.image_size // first,
            max(3, second + 1),
            second,
            kept=kept,
        )

    yield from (cost.under(path) for cost in costs())


def head(
    width: int, hidden: tuple[int, ...], classes: int, rows: int, path: str = "head"
) -> Iterator[Cost]:
    """One linear layer, or several with GELU between."""
    if not hidden:
        yield linear(path, rows, width, classes)
        return
    for at, (wide, next_wide) in enumerate(pairwise((width, *hidden, classes))):
        if at:
            yield activation(f"{path}.{2 * at - 1}".strip("."), rows * wide, "gelu")
        yield linear(f"{path}.{2 * at}".strip("."), rows, wide, next_wide)


def mean(b: int, n: int, c: int) -> Cost:
    """The mean over tokens. Its gradient needs nothing of what it was taken of, which is let go."""
    return Cost("", "mean of the tokens", moved=b * c * (n + 1), held=b * c - b * n * c)


def last_norm(path: str, config: StackConfig, rows: int) -> Iterator[Cost]:
    """The norm after a stack, where there is not one after every sum already."""
    if config.norm_first:
        yield norm(path, rows, config.width, config.norm)


def still(cost: Cost) -> Cost:
    """An operation that is not done this time: its parameters remain."""
    return replace(cost, multiply_adds=0, skipped=0, moved=0, held=0, noted=0)
