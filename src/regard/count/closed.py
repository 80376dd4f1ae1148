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
from typing import Any

from regard.count.formulas import Cost, Sizes
from regard.count.layers import (
    GATED,
    attention,
    embedding,
    features,
    feed_forward,
    head,
    last_norm,
    mean,
    patches,
    stack,
    still,
)
from regard.count.operations import (
    activation,
    add,
    attend,
    attend_channels,
    convolution,
    linear,
    norm,
)
from regard.count.parts import (
    AttentionPart,
    BlockPart,
    DensePart,
    EmbeddingPart,
    HeadPart,
    MLPPart,
    PatchesPart,
)
from regard.models.config import (
    BertConfig,
    BertForPretrainingConfig,
    CaptionerConfig,
    DecoderConfig,
    Seq2SeqConfig,
    TextClassifierConfig,
    ViTConfig,
)
from regard.models.davit_config import DaViTConfig


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
    yield linear("", sizes.batch_size, numbers, numbers, bias=part.bias)


@_costs.register
def attention_layer(part: AttentionPart, sizes: Sizes) -> Iterator[Cost]:
    """4 (D² + D) in the projections, for heads of D / H; N² weights a head are no parameters.

    Multiply-adds: 4 N D² in the projections and 2 N² D in the two products, whatever H; between
    channels 2 N D² / H. Heads of the full width D cost H times as much.
    """
    yield from attention(
        part.width,
        part.heads,
        part.heads if part.kv_heads is None else part.kv_heads,
        part.each,
        "channel" if part.axis == "channel" else "softmax",
        sizes,
        bias=part.bias,
        mask="causal" if part.causal or sizes.cached else None,
        kept=True,
    )


@_costs.register
def feed_forward_layer(part: MLPPart, sizes: Sizes) -> Iterator[Cost]:
    """2 D F + F + D parameters, F = 4 D if not said; gated 3 D F + 2 F + D."""
    rows = sizes.batch_size * sizes.new
    yield from feed_forward(
        part.width, part.hidden_width, part.activation, rows, bias=part.bias, kept=True
    )


@_costs.register
def blocks_alone(part: BlockPart, sizes: Sizes) -> Iterator[Cost]:
    """Attention, MLP and two norms; with a context another attention and norm."""
    mask = part.mask or ("causal" if sizes.cached else None)
    yield from stack("blocks", part, sizes, mask=mask, context_width=part.encoder_width)


@_costs.register
def embedding_alone(part: EmbeddingPart, sizes: Sizes) -> Iterator[Cost]:
    """words · D numbers, and length · D for learned positions; nothing is multiplied."""
    yield from embedding(
        part.vocab_size,
        part.width,
        part.context_length,
        part.pos_embed,
        sizes.batch_size * sizes.new,
        sizes.new,
    )


@_costs.register
def patches_alone(part: PatchesPart, sizes: Sizes) -> Iterator[Cost]:
    """(k p² + 1) D parameters for patches of p × p pixels in k colours."""
    yield from patches("", part.stem, part, sizes.batch_size)


@_costs.register
def head_alone(part: HeadPart, sizes: Sizes) -> Iterator[Cost]:
    """(D + 1) K parameters for K classes, or a chain of such layers."""
    yield from head(part.width, part.head_hidden, part.num_classes, sizes.batch_size, path="")


@_costs.register
def vit(config: ViTConfig, sizes: Sizes) -> Iterator[Cost]:
    """Patches, positions, blocks, a norm and a head."""
    yield from vit_features(config, sizes)
    if config.pool == "mean":
        yield mean(sizes.batch_size, sizes.tokens, config.width)
    yield from head(config.width, config.head_hidden, config.num_classes, sizes.batch_size)


def vit_features(config: ViTConfig, sizes: Sizes) -> Iterator[Cost]:
    """A ViT up to its last norm. The class token and learned positions are numbers of their own."""
    b, n, c = sizes.batch_size, sizes.tokens, config.width
    places, classes = config.grid[0] * config.grid[1], int(config.pool == "cls")
    last = config.pos_embed in ("none", "rope")  # else positions are added, which needs nothing
    yield from patches(
        "patches",
        config.stem,
        config,
        b,
        normalised=config.patch_norm,
        kept=last and not classes,
    )
    if classes:
        numbers = b * n * c
        yield Cost("", "class token appended", c, moved=2 * numbers, held=numbers * last)
    if config.pos_embed == "learned":
        # They are looked up by number: torch holds the numbers, and which of them are nowhere.
        yield Cost("pos_embed", "positions", (places + classes) * c, noted=n * (8 + 1))
    if config.pos_embed in ("learned", "sinusoidal"):
        yield add("", b * n * c, "x + positions")
    yield from stack("blocks", config, sizes, mask=config.mask)
    yield from last_norm("norm", config, b * n)


@_costs.register
def davit(config: DaViTConfig, sizes: Sizes) -> Iterator[Cost]:
    """Stages of blocks that read windows and channels in turn, each on half the grid.

    A window of w × w tokens has w⁴ pairs: of a grid of side s they are (⌊s/w⌋ w² + (s mod w)²)².
    """
    b, widths = sizes.batch_size, config.widths
    side = max(3, 2 * config.patch_size - 1)
    yield convolution(
        "stem.project", b, config.channels, widths[0], config.image_size, side, config.patch_size
    )
    grid = config.image_size // config.patch_size
    yield norm("stem.norm", b * grid**2, widths[0])
    for stage, (c, heads, depth) in enumerate(
        zip(widths, config.heads, config.depths, strict=True)
    ):
        if stage:
            yield norm(f"downs.{stage - 1}.norm", b * grid**2, widths[stage - 1])
            yield convolution(
                f"downs.{stage - 1}.project",
                b,
                widths[stage - 1],
                c,
                grid,
                2 + config.overlapping_downsample,
                2,
            )
            grid //= 2
        full, rest = divmod(grid, config.window_size)
        pairs = (full * config.window_size**2 + rest**2) ** 2
        pair = [
            *around_block(c, heads, grid, b, config.mlp_ratio * c, pairs),
            *around_block(c, heads, grid, b, config.mlp_ratio * c, None),
        ]
        yield from (cost.under(f"stages.{stage}.blocks.*", depth) for cost in pair)
    yield mean(b, grid**2, widths[-1])
    yield norm("norm", b, widths[-1])
    yield linear("head", b, widths[-1], config.num_classes)


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
    yield convolution("mlp_around", b, c, c, grid, 3, 1, groups=c, kept=False)
    yield add("", numbers, "x + around")
    yield norm("mlp_norm", b * n, c)
    yield from (cost.under("mlp") for cost in feed_forward(c, hidden, "gelu", b * n, bias=True))
    yield add("", numbers)


@_costs.register
def bert(config: BertConfig, sizes: Sizes) -> Iterator[Cost]:
    """Words, segments and positions; a norm; blocks. The pooler, if asked, sees one row a text."""
    rows = sizes.batch_size * sizes.new
    yield from embedding(
        config.vocab_size,
        config.width,
        config.context_length,
        config.pos_embed,
        rows,
        sizes.new,
        config.token_types,
        tied=isinstance(config, BertForPretrainingConfig),
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
    b, c = sizes.batch_size, config.width
    uses = config.pooler and config.pool == "cls"
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
    yield linear("head", b, c, config.num_classes)
    if config.ngram_buckets:
        rows = b * (2 * sizes.tokens - 1)
        yield Cost(
            "ngram.table",
            "ngram",
            (config.vocab_size + config.ngram_buckets) * config.num_classes,
            moved=2 * rows * config.num_classes,
            noted=rows * (8 + 1) + 4 * b,
        )


@_costs.register
def pretrainer(config: BertForPretrainingConfig, sizes: Sizes) -> Iterator[Cost]:
    """A BERT, and its head for words: D² + D, a norm, and a bias a word. The table scores words.

    Each question about pairs is a layer of 2 (D + 1), which `forward` does not ask.
    """
    rows, c = sizes.batch_size * sizes.new, config.width
    pooler = config.pooler and bool(config.pair_tasks)
    yield from (
        cost.under("bert") for cost in bert(replace(config, pooler=pooler, pair_tasks=()), sizes)
    )
    yield linear("mlm_dense", rows, c, c, kept=config.activation != "relu")
    yield activation("", rows * c, "gelu" if config.activation in GATED else config.activation)
    yield norm("mlm_norm", rows, c, config.norm)
    scores = linear("", rows, c, config.vocab_size)
    yield replace(
        scores, what=f"scores of {config.vocab_size} words", weights=0, shared=c * config.vocab_size
    )
    for name in config.pair_tasks:
        yield Cost(f"pair_heads.{name}", "no or yes", 2 * c, 2)


@_costs.register
def decoder(config: DecoderConfig, sizes: Sizes) -> Iterator[Cost]:
    """Words and positions, blocks, a norm, and a score for each word."""
    rows = sizes.batch_size * sizes.new
    yield from embedding(
        config.vocab_size,
        config.width,
        config.context_length,
        config.pos_embed,
        rows,
        sizes.new,
        tied=config.tie_embeddings,
    )
    yield from writing(config, sizes, context_width=None)


@_costs.register
def seq2seq(config: Seq2SeqConfig, sizes: Sizes) -> Iterator[Cost]:
    """Two stacks and one table: the words of the sentence are read with it too."""
    b, n, m, c = sizes.batch_size, sizes.new, sizes.encoder_tokens, config.width
    table = list(embedding(config.vocab_size, c, config.context_length, config.pos_embed, b * m, m))
    if not sizes.cached:  # with a cache the sentence was read before
        yield from (replace(cost, weights=0) for cost in table)
    reading = stack(
        "encoder", config.encoder_config, Sizes(b, m), mask=None, place=config.pos_embed
    )
    norms = last_norm("encoder_norm", config, b * m)
    for cost in (*reading, *norms):
        yield still(cost) if sizes.cached else cost
    yield from embedding(
        config.vocab_size,
        c,
        config.context_length,
        config.pos_embed,
        b * n,
        n,
        tied=config.tie_embeddings,
    )
    yield from writing(config, sizes, context_width=c)


@_costs.register
def captioner(config: CaptionerConfig, sizes: Sizes) -> Iterator[Cost]:
    """A ViT without its head, and a decoder that reads its tokens; or features that come along."""
    b, n = sizes.batch_size, sizes.new
    if config.encoder_width is None:
        for cost in vit_features(config.encoder, Sizes(b, sizes.encoder_tokens)):
            yield (still(cost) if sizes.cached else cost).under("encoder")
    yield from embedding(
        config.vocab_size,
        config.width,
        config.context_length,
        config.pos_embed,
        b * n,
        n,
        tied=config.tie_embeddings,
    )
    yield from writing(config, sizes, context_width=config.features_width)


def writing(config: DecoderConfig, sizes: Sizes, context_width: int | None) -> Iterator[Cost]:
    """The stack of a decoder and its scores: words · D multiply-adds a word; weights if untied."""
    rows = sizes.batch_size * sizes.new
    yield from stack(
        "blocks",
        config,
        sizes,
        mask=config.mask or "causal",
        context_width=context_width,
        place=config.pos_embed,
    )
    yield from last_norm("norm", config, rows)
    if sizes.cached:
        rows = sizes.batch_size
    scores = linear("lm_head", rows, config.width, config.vocab_size, bias=False)
    scores = replace(scores, what=f"scores of {config.vocab_size} words")
    tied = replace(scores, where="", weights=0, shared=scores.weights)
    yield tied if config.tie_embeddings else scores


def cache_numbers(config: Any, sizes: Sizes) -> int:
    """Numbers that are kept of `tokens` tokens: 2 · layers · b · g · tokens · d.

    A context is kept as well, 2 · layers · b · g · context · d, once for all texts about it. Linear
    attention keeps two sums instead, b · g · (f d + f) a layer, however many tokens there are.
    """
    if isinstance(config, AttentionPart):
        if config.axis == "channel":
            return 0
        groups = config.heads if config.kv_heads is None else config.kv_heads
        return 2 * sizes.batch_size * groups * sizes.tokens * config.each
    if not isinstance(config, (DecoderConfig, BlockPart)):
        return 0
    groups, d = config.kv_heads or config.heads, config.width // config.heads
    reads = isinstance(config, (Seq2SeqConfig, CaptionerConfig)) or (
        isinstance(config, BlockPart) and config.encoder_width is not None
    )
    name = config.attention.strip().partition("(")[0]
    if name == "channel":
        return 0
    if name == "linear":
        f, _, _ = features(config.attention, d)
        shift = "random" in config.attention  # random features keep their greatest exponent
        each = groups * (f * d + f + shift) * (1 + reads)
    else:
        each = 2 * groups * d * (sizes.tokens + sizes.encoder_tokens * reads)
    return config.layers * sizes.batch_size * each
