"""Closed forms: what a configuration costs, from its numbers alone and without building it.

    costs(ViTConfig(width=64), Sizes(batch=8, tokens=65))       # one Cost an operation
    total(costs(config, sizes), "parameters")

Every function lists the operations of one module in the order of its `forward`, under the names
that its parts have in the model. `regard.count.measured` counts the same in the real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import singledispatch
from itertools import pairwise
from typing import Any

from regard.count.cost import Cost, Sizes
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
from regard.count.parts import (
    AttentionPart,
    BlockPart,
    DensePart,
    EmbeddingPart,
    FeedForwardPart,
    HeadPart,
    PatchesPart,
)
from regard.model.config import (
    BertConfig,
    CaptionerConfig,
    DecoderConfig,
    PretrainerConfig,
    Seq2SeqConfig,
    StackConfig,
    TextClassifierConfig,
    ViTConfig,
)
from regard.model.davit_config import DaViTConfig

GATED = ("swiglu",)


def costs(config: Any, sizes: Sizes) -> list[Cost]:
    """Every operation of a forward pass, in order; of one more token where `sizes` are cached."""
    return list(_costs(config, sizes))


@singledispatch
def _costs(config: Any, sizes: Sizes) -> Iterator[Cost]:
    raise ValueError(f"nobody has said what a {type(config).__name__} costs; say it here")


@_costs.register
def dense(part: DensePart, sizes: Sizes) -> Iterator[Cost]:
    """All D · N numbers to all: D²N² weights and DN biases."""
    numbers = part.width * sizes.tokens
    yield linear("", sizes.batch, numbers, numbers, bias=part.bias)


@_costs.register
def attention_layer(part: AttentionPart, sizes: Sizes) -> Iterator[Cost]:
    """4 (D² + D) in the projections, for heads of D / H; N² weights a head are no parameters.

    Multiply-adds: 4 N D² in the projections and 2 N² D in the two products, whatever H; between
    channels 2 N D² / H. Heads of the full width D cost H times as much.
    """
    yield from attention(
        part.width,
        part.heads,
        part.heads if part.groups is None else part.groups,
        part.each,
        "channels" if part.over == "channels" else "softmax",
        sizes,
        bias=part.bias,
        mask="causal" if part.causal or sizes.cached else None,
        kept=True,
    )


@_costs.register
def feed_forward_layer(part: FeedForwardPart, sizes: Sizes) -> Iterator[Cost]:
    """2 D F + F + D parameters, F = 4 D if not said; gated 3 D F + 2 F + D."""
    rows = sizes.batch * sizes.new
    yield from feed_forward(
        part.width, part.hidden_width, part.feed_forward, rows, bias=part.bias, kept=True
    )


@_costs.register
def blocks_alone(part: BlockPart, sizes: Sizes) -> Iterator[Cost]:
    """Attention, MLP and two norms; with a context another attention and norm."""
    mask = part.mask or ("causal" if sizes.cached else None)
    yield from stack("blocks", part, sizes, mask=mask, context_width=part.context_width)


@_costs.register
def embedding_alone(part: EmbeddingPart, sizes: Sizes) -> Iterator[Cost]:
    """words · D numbers, and length · D for learned positions; nothing is multiplied."""
    yield from embedding(
        part.words, part.width, part.length, part.place, sizes.batch * sizes.new, sizes.new
    )


@_costs.register
def patches_alone(part: PatchesPart, sizes: Sizes) -> Iterator[Cost]:
    """(k p² + 1) D parameters for patches of p × p pixels in k colours."""
    yield from patches("", part.stem, part, sizes.batch)


@_costs.register
def head_alone(part: HeadPart, sizes: Sizes) -> Iterator[Cost]:
    """(D + 1) K parameters for K classes, or a chain of such layers."""
    yield from head(part.width, part.hidden, part.classes, sizes.batch, path="")


@_costs.register
def vit(config: ViTConfig, sizes: Sizes) -> Iterator[Cost]:
    """Patches, positions, blocks, a norm and a head."""
    yield from vit_features(config, sizes)
    if config.pool == "mean":
        yield mean(sizes.batch, sizes.tokens, config.width)
    yield from head(config.width, config.head, config.classes, sizes.batch)


def vit_features(config: ViTConfig, sizes: Sizes) -> Iterator[Cost]:
    """A ViT up to its last norm. The class token and learned positions are numbers of their own."""
    b, n, c = sizes.batch, sizes.tokens, config.width
    places, classes = config.grid[0] * config.grid[1], int(config.pool == "class")
    last = config.place in ("none", "rotary")  # else positions are added, which needs nothing
    yield from patches(
        "patches",
        config.stem,
        config,
        b,
        normalised=config.normalise_patches,
        kept=last and not classes,
    )
    if classes:
        numbers = b * n * c
        yield Cost("", "class token appended", c, moved=2 * numbers, held=numbers * last)
    if config.place == "learned":
        # They are looked up by number: torch holds the numbers, and which of them are nowhere.
        yield Cost("place", "positions", (places + classes) * c, noted=n * (8 + 1))
    if config.place in ("learned", "sinusoidal"):
        yield add("", b * n * c, "x + positions")
    yield from stack("blocks", config, sizes, mask=config.mask)
    yield from last_norm("norm", config, b * n)


@_costs.register
def davit(config: DaViTConfig, sizes: Sizes) -> Iterator[Cost]:
    """Stages of blocks that read windows and channels in turn, each on half the grid.

    A window of w × w tokens has w⁴ pairs: of a grid of side s they are (⌊s/w⌋ w² + (s mod w)²)².
    """
    b, widths = sizes.batch, config.widths
    side = max(3, 2 * config.patch - 1)
    yield convolution(
        "stem.project", b, config.channels, widths[0], config.image, side, config.patch
    )
    grid = config.image // config.patch
    yield norm("stem.norm", b * grid**2, widths[0])
    for stage, (c, heads, depth) in enumerate(
        zip(widths, config.heads, config.depths, strict=True)
    ):
        if stage:
            yield norm(f"downs.{stage - 1}.norm", b * grid**2, widths[stage - 1])
            yield convolution(
                f"downs.{stage - 1}.project", b, widths[stage - 1], c, grid, 2 + config.overlap, 2
            )
            grid //= 2
        full, rest = divmod(grid, config.window)
        pairs = (full * config.window**2 + rest**2) ** 2
        pair = [
            *around_block(c, heads, grid, b, config.expansion * c, pairs),
            *around_block(c, heads, grid, b, config.expansion * c, None),
        ]
        yield from (cost.under(f"stages.{stage}.blocks.*", depth) for cost in pair)
    yield mean(b, grid**2, widths[-1])
    yield norm("norm", b, widths[-1])
    yield linear("head", b, widths[-1], config.classes)


def around_block(
    c: int, heads: int, grid: int, b: int, hidden: int, pairs: int | None
) -> Iterator[Cost]:
    """A block of a DaViT: before each sub-layer a depthwise convolution, 9 D + D parameters."""
    n, d = grid**2, c // heads
    numbers = b * n * c
    yield convolution("attention_around", b, c, c, grid, 3, 1, groups=c, kept=False)
    yield add("", numbers, "x + around")
    yield norm("attention_norm", b * n, c)
    for name in ("to_q", "to_k", "to_v"):
        yield linear(f"attention.{name}", b * n, c, c, kept=pairs is not None)
    if pairs is None:
        yield attend_channels("attention", b, heads, n, d)
    else:
        yield attend("attention", b, heads, heads, n, n, d, pairs)
        if pairs < n * n:
            yield Cost("attention", "windows and back", moved=8 * numbers, held=numbers)
    yield linear("attention.to_out", b * n, c, c, kept=False)
    yield add("", numbers)
    yield convolution("feed_forward_around", b, c, c, grid, 3, 1, groups=c, kept=False)
    yield add("", numbers, "x + around")
    yield norm("feed_forward_norm", b * n, c)
    yield from (
        cost.under("feed_forward") for cost in feed_forward(c, hidden, "gelu", b * n, bias=True)
    )
    yield add("", numbers)


@_costs.register
def bert(config: BertConfig, sizes: Sizes) -> Iterator[Cost]:
    """Words, segments and positions; a norm; blocks. The pooler, if asked, sees one row a text."""
    rows = sizes.batch * sizes.new
    yield from embedding(
        config.words,
        config.width,
        config.length,
        config.place,
        rows,
        sizes.new,
        config.segments,
        tied=isinstance(config, PretrainerConfig),
    )
    yield norm("embed_norm", rows, config.width, config.norm)
    yield from stack("blocks", config, sizes, mask=config.mask)
    yield from last_norm("norm", config, rows)
    if config.pooler:
        # A BERT has it and its own `forward` does not use it: whoever asks about a text does.
        yield Cost("pooler", "of the first word", config.width**2, config.width)


@_costs.register
def text_classifier(config: TextClassifierConfig, sizes: Sizes) -> Iterator[Cost]:
    """A BERT, what pools its words, and a linear layer; votes are (words + votes) K numbers."""
    b, c = sizes.batch, config.width
    uses = config.pooler and config.pool == "first"
    yield from (cost.under("bert") for cost in bert(replace(config, pooler=False), sizes))
    if config.pooler:
        layer = linear("bert.pooler", b, c, c, kept=False)
        yield layer if uses else replace(layer, multiply_adds=0, moved=0)
    if config.pool == "mean":
        yield mean(b, sizes.tokens, c)
    elif config.pool == "max":
        yield Cost("", "maximum", moved=b * c * (sizes.tokens + 1), held=b * c)
    elif uses:
        yield activation("", b * c, "tanh")
    yield linear("head", b, c, config.classes)
    if config.votes:
        rows = b * (2 * sizes.tokens - 1)
        yield Cost(
            "votes.table",
            "votes",
            (config.words + config.votes) * config.classes,
            moved=2 * rows * config.classes,
            noted=rows * (8 + 1) + 4 * b,
        )


@_costs.register
def pretrainer(config: PretrainerConfig, sizes: Sizes) -> Iterator[Cost]:
    """A BERT, and its head for words: D² + D, a norm, and a bias a word. The table scores words.

    Each question about pairs is a layer of 2 (D + 1), which `forward` does not ask.
    """
    rows, c = sizes.batch * sizes.new, config.width
    asked = config.pooler and bool(config.asked)
    yield from (cost.under("bert") for cost in bert(replace(config, pooler=asked, asked=()), sizes))
    yield linear("to_word", rows, c, c, kept=config.feed_forward != "relu")
    yield activation("", rows * c, "gelu" if config.feed_forward in GATED else config.feed_forward)
    yield norm("word_norm", rows, c, config.norm)
    scores = linear("", rows, c, config.words)
    yield replace(
        scores, what=f"scores of {config.words} words", weights=0, shared=c * config.words
    )
    for name in config.asked:
        yield Cost(f"questions.{name}", "no or yes", 2 * c, 2)


@_costs.register
def decoder(config: DecoderConfig, sizes: Sizes) -> Iterator[Cost]:
    """Words and positions, blocks, a norm, and a score for each word."""
    rows = sizes.batch * sizes.new
    yield from embedding(
        config.words, config.width, config.length, config.place, rows, sizes.new, tied=config.tied
    )
    yield from writing(config, sizes, context_width=None)


@_costs.register
def seq2seq(config: Seq2SeqConfig, sizes: Sizes) -> Iterator[Cost]:
    """Two stacks and one table: the words of the sentence are read with it too."""
    b, n, m, c = sizes.batch, sizes.new, sizes.context, config.width
    table = list(embedding(config.words, c, config.length, config.place, b * m, m))
    if not sizes.cached:  # with a cache the sentence was read before
        yield from (replace(cost, weights=0) for cost in table)
    reading = stack("encoder", config.reading, Sizes(b, m), mask=None, place=config.place)
    norms = last_norm("encoder_norm", config, b * m)
    for cost in (*reading, *norms):
        yield still(cost) if sizes.cached else cost
    yield from embedding(config.words, c, config.length, config.place, b * n, n, tied=config.tied)
    yield from writing(config, sizes, context_width=c)


@_costs.register
def captioner(config: CaptionerConfig, sizes: Sizes) -> Iterator[Cost]:
    """A ViT without its head, and a decoder that reads its tokens; or features that come along."""
    b, n = sizes.batch, sizes.new
    if config.context_width is None:
        for cost in vit_features(config.encoder, Sizes(b, sizes.context)):
            yield (still(cost) if sizes.cached else cost).under("encoder")
    yield from embedding(
        config.words, config.width, config.length, config.place, b * n, n, tied=config.tied
    )
    yield from writing(config, sizes, context_width=config.features_width)


def writing(config: DecoderConfig, sizes: Sizes, context_width: int | None) -> Iterator[Cost]:
    """The stack of a decoder and its scores: words · D multiply-adds a word; weights if untied."""
    rows = sizes.batch * sizes.new
    yield from stack(
        "decoder",
        config,
        sizes,
        mask=config.mask or "causal",
        context_width=context_width,
        place=config.place,
    )
    yield from last_norm("norm", config, rows)
    if sizes.cached:
        rows = sizes.batch
    scores = linear("to_words", rows, config.width, config.words, bias=False)
    scores = replace(scores, what=f"scores of {config.words} words")
    tied = replace(scores, where="", weights=0, shared=scores.weights)
    yield tied if config.tied else scores


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
    place = place or getattr(config, "place", "")
    block = list(one_block(config, sizes, mask, context_width, place))
    yield from (cost.under(f"{path}.*", config.layers) for cost in block)


def one_block(
    config: StackConfig, sizes: Sizes, mask: str | None, context_width: int | None, place: str
) -> Iterator[Cost]:
    """Read, perhaps read a context, think about each token: each with a norm and a sum."""
    c, rows = config.width, sizes.batch * sizes.new
    groups, d = config.groups or config.heads, config.width // config.heads

    def sublayer(name: str, inside: list[Cost]) -> Iterator[Cost]:
        normed = norm(f"{name}_norm", rows, c, config.norm)
        if config.order == "pre":
            yield normed
        yield from (cost.under(name) for cost in inside)
        yield add("", rows * c)
        if config.order == "post":
            yield normed

    def heads(kind: str, **options: Any) -> list[Cost]:
        return list(attention(c, config.heads, groups, d, kind, sizes, bias=config.bias, **options))

    yield from sublayer("attention", heads(config.attention, mask=mask, turned=place == "rotary"))
    if context_width is not None:
        yield from sublayer("cross", heads(config.attention, context_width=context_width))
    width = config.hidden_width
    mlp = feed_forward(c, width, config.feed_forward, rows, bias=config.bias)
    yield from sublayer("feed_forward", list(mlp))


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
    b, n = sizes.batch, sizes.new
    m, width = (sizes.tokens, c) if context_width is None else (sizes.context, context_width)
    copied = kind == "channels"  # products of channels hold copies of their own
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
    if name == "channels":
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
    from regard.attention import Linear, make_attention
    from regard.attention.features import Learned, RandomFeatures, Taylor

    made = make_attention(kind, d)
    if not isinstance(made, Linear):
        raise ValueError(f"nobody has said what attention={kind!r} computes; say it here")
    match made.feature:
        case RandomFeatures(count=count):
            return count, 0, d * count
        case Taylor():
            return 1 + d + d * (d + 1) // 2, 0, 0
        case Learned():
            return 2 * d, d * d, d * d
    return d, 0, 0


def feed_forward(
    c: int, hidden: int, kind: str, rows: int, *, bias: bool, kept: bool = False
) -> Iterator[Cost]:
    """D F + F and F D + D; a gated one has D F + F once more, and multiplies by it."""
    numbers = rows * hidden
    yield linear("to_hidden", rows, c, hidden, bias=bias, kept=kind != "relu")
    yield activation("", numbers, kind)
    if kind in GATED:
        yield linear("to_gate", rows, c, hidden, bias=bias)
        yield add("", numbers, "times the gate")
    yield linear("to_out", rows, hidden, c, bias=bias, kept=kept)


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
    yield Cost("embed.table", "looked up", words * c, 0, words * c * tied, moved=2 * numbers)
    yield Cost("embed", "scaled", moved=2 * numbers, held=numbers * last)
    if segments:
        last = place not in ("learned", "sinusoidal")
        yield Cost("segment", "segments", segments * c, moved=3 * numbers, held=numbers * last)
    if place == "learned":
        yield Cost("place", "positions", length * c)
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
    p, k, c = config.patch, config.channels, config.width
    side, pixels = config.image // p, k * p * p
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
        yield convolution("conv", b, k, between, config.image, max(3, first + 1), first)
        seen = b * (config.image // first) ** 2
        yield norm("norm", seen, between)
        yield activation("", seen * between, "gelu")
        yield convolution(
            "project", b, between, c, config.image // first, max(3, second + 1), second, kept=kept
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
    if config.order == "pre":
        yield norm(path, rows, config.width, config.norm)


def still(cost: Cost) -> Cost:
    """An operation that is not done this time: its parameters remain."""
    return replace(cost, multiply_adds=0, skipped=0, moved=0, held=0, noted=0)


def cache_numbers(config: Any, sizes: Sizes) -> int:
    """Numbers that are kept of `tokens` tokens: 2 · layers · b · g · tokens · d.

    A context is kept as well, 2 · layers · b · g · context · d, once for all texts about it. Linear
    attention keeps two sums instead, b · g · (f d + f) a layer, however many tokens there are.
    """
    if isinstance(config, AttentionPart):
        if config.over == "channels":
            return 0
        groups = config.heads if config.groups is None else config.groups
        return 2 * sizes.batch * groups * sizes.tokens * config.each
    if not isinstance(config, (DecoderConfig, BlockPart)):
        return 0
    groups, d = config.groups or config.heads, config.width // config.heads
    reads = isinstance(config, (Seq2SeqConfig, CaptionerConfig)) or (
        isinstance(config, BlockPart) and config.context_width is not None
    )
    name = config.attention.strip().partition("(")[0]
    if name == "channels":
        return 0
    if name == "linear":
        f, _, _ = features(config.attention, d)
        shift = "random" in config.attention  # random features keep their greatest exponent
        each = groups * (f * d + f + shift) * (1 + reads)
    else:
        each = 2 * groups * d * (sizes.tokens + sizes.context * reads)
    return config.layers * sizes.batch * each
