"""The real thing beside a closed form: a module for a configuration, and something to feed it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import KVCache, MultiHeadAttention, attend_fused, causal
from regard.attention.cache import Cache
from regard.attention.channel import attend_channels
from regard.count.formulas import Sizes
from regard.count.parts import (
    AttentionPart,
    BlockPart,
    DensePart,
    EmbeddingPart,
    HeadPart,
    MLPPart,
    PatchesPart,
)
from regard.models import MODELS
from regard.models.block import Block, BlockCache, make_blocks
from regard.models.config import (
    BertConfig,
    CaptionerConfig,
    GPTConfig,
    Seq2SeqConfig,
    ViTConfig,
)
from regard.models.davit_config import DaViTConfig
from regard.models.decoder import Decoder
from regard.models.layers import MLP, ConvStem, PatchEmbed, TokenEmbedding, make_head
from regard.models.pos_embed import pos_embed_before

Inputs = tuple[Any, ...]


def built(config: Any, sizes: Sizes) -> nn.Module:
    """The module that a configuration describes, with random weights, on the default device."""
    for entry in MODELS.values():
        if type(config) is entry.config:
            return entry.build(**vars(config))
    match config:
        case AttentionPart():
            return MultiHeadAttention(
                config.width,
                config.heads,
                kv_heads=config.kv_heads,
                head_width=config.head_width,
                bias=config.bias,
                attention=attend_channels if config.axis == "channel" else attend_fused,
                mask=causal if config.causal else None,
            )
        case MLPPart():
            hidden = config.hidden_width
            return MLP(config.width, hidden, config.activation, bias=config.bias)
        case BlockPart():
            return Blocks(config)
        case EmbeddingPart():
            return Words(config)
        case PatchesPart():
            stem = ConvStem if config.stem == "conv" else PatchEmbed
            return stem(config.patch_size, config.channels, config.width)
        case HeadPart():
            return make_head(config.width, config.head_hidden, config.num_classes)
        case DensePart():
            numbers = config.width * sizes.tokens
            return nn.Linear(numbers, numbers, bias=config.bias)
    raise ValueError(f"nobody has said how a {type(config).__name__} is built; say it here")


def inputs(config: Any, sizes: Sizes) -> Inputs:
    """A batch of these sizes; what is in it does not matter to what it costs."""
    b, n, m = sizes.batch_size, sizes.tokens, sizes.encoder_tokens
    match config:
        case ViTConfig() | DaViTConfig() | PatchesPart():
            return (torch.rand(b, config.channels, config.image_size, config.image_size),)
        case Seq2SeqConfig():
            from regard.models.seq2seq import TokenBatch

            return TokenBatch(words(b, m)), words(b, n)
        case CaptionerConfig(encoder_width=None):
            seen = config.encoder
            return torch.rand(b, seen.channels, seen.image_size, seen.image_size), words(b, n)
        case CaptionerConfig():
            return torch.rand(b, m, config.features_width), words(b, n)
        case GPTConfig() | BertConfig() | EmbeddingPart():
            return (words(b, n),)
        case HeadPart():
            return (torch.rand(b, config.width),)
        case DensePart():
            return (torch.rand(b, n * config.width),)
        case BlockPart(encoder_width=int(width)):
            return tokens(b, n, config.width), tokens(b, m, width)
    return (tokens(b, n, config.width),)


def tokens(b: int, n: int, width: int) -> Tensor:
    """What comes from layers before, to which gradients go on."""
    return torch.rand(b, n, width, requires_grad=True)


def words(b: int, n: int) -> Tensor:
    """Texts of one word: every vocabulary has a word 0, and the numbers are as many."""
    return torch.zeros(b, n, dtype=torch.long)


def loss_of(config: Any, out: Tensor) -> Tensor:
    """Something to take the gradient of: cross-entropy where scores come out, else a sum."""
    scores = not isinstance(config, BertConfig) or type(config) is not BertConfig
    if scores and any(type(config) is entry.config for entry in MODELS.values()):
        rows = out.reshape(-1, out.shape[-1])
        return F.cross_entropy(rows, torch.zeros_like(rows[:, 0], dtype=torch.long))
    return out.sum()


def behind_a_cache(
    config: Any, module: Any, sizes: Sizes, given: Inputs
) -> tuple[Callable[[], Any], Callable[[], int]] | None:
    """The step of one more token behind all others, and the bytes that are kept after it."""
    n = sizes.tokens
    if isinstance(config, AttentionPart) and config.axis == "token":
        cache, (x,) = KVCache(), given
        if n > 1:
            module(x[:, :-1], positions=range(n - 1), cache=cache)
        return (
            lambda: module(x[:, -1:], positions=range(n - 1, n), cache=cache),
            lambda: kept_bytes(cache),
        )
    if isinstance(config, BlockPart):
        memories = module.new_caches()
        if n > 1:
            module(given[0][:, :-1], *given[1:], positions=range(n - 1), caches=memories)
        return (
            lambda: module(
                given[0][:, -1:], *given[1:], positions=range(n - 1, n), caches=memories
            ),
            lambda: sum(kept_bytes(memory) for each in memories for memory in each),
        )
    if isinstance(module, Decoder):
        *about, text = given
        context = module.encode(*about) if about else None  # type: ignore[operator]
        caches = module.new_caches()
        if n > 1:
            module.next_token_logits(text[:, :-1], context, positions=range(n - 1), caches=caches)
        return (
            lambda: module.next_token_logits(
                text[:, -1:], context, positions=range(n - 1, n), caches=caches
            ),
            lambda: sum(kept_bytes(memory) for cache in caches for memory in cache),
        )
    return None


def kept_bytes(memory: Cache | None) -> int:
    """What a memory returns to read from, in bytes: of a `KVCache` its keys and values."""
    if memory is None or memory.kept is None:
        return 0
    kept: Any = memory.kept
    if isinstance(memory, KVCache):
        return int(kept.k.nbytes + kept.v.nbytes)
    return sum(x.nbytes for x in kept.now if x is not None)  # the sums of linear attention


class Blocks(nn.Module):
    """Blocks of one kind, one after another."""

    def __init__(self, config: BlockPart) -> None:
        super().__init__()
        from regard.attention import Mask

        mask = None if config.mask is None else Mask.parse(config.mask)
        self.blocks = make_blocks(config, mask=mask, context_width=config.encoder_width)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        positions: range | None = None,
        caches: list[BlockCache] | None = None,
    ) -> Tensor:
        for at, block in enumerate(self.blocks):
            x = block(x, context, positions=positions, cache=None if caches is None else caches[at])
        return x

    def new_caches(self) -> list[BlockCache]:
        return [
            BlockCache(
                block.attention.new_cache(),
                None if block.cross is None else block.cross.new_cache(context=True),
            )
            for block in self.blocks
            if isinstance(block, Block)
        ]


class Words(nn.Module):
    """A table of words with positions, as a decoder has it."""

    def __init__(self, part: EmbeddingPart) -> None:
        super().__init__()
        self.token_embedding = TokenEmbedding(part.vocab_size, part.width)
        self.pos_embed = pos_embed_before(part.pos_embed, part.context_length, part.width)

    def forward(self, words: Tensor) -> Tensor:
        placed: Tensor = self.pos_embed.embed(self.token_embedding(words), range(words.shape[1]))
        return placed
