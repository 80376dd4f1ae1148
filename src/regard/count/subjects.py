"""What can be counted, by name, and how much goes into each at once. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

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
from regard.errors import UserError, nearest
from regard.models import MODELS
from regard.models.config import (
    CaptionerConfig,
    DecoderConfig,
    Seq2SeqConfig,
    ViTConfig,
)
from regard.models.davit_config import DaViTConfig

PARTS: Mapping[str, type[Any]] = MappingProxyType(
    {
        "attention": AttentionPart,
        "mlp": MLPPart,
        "block": BlockPart,
        "embedding": EmbeddingPart,
        "patches": PatchesPart,
        "head": HeadPart,
        "dense": DensePart,
    }
)
SUBJECTS: Mapping[str, type[Any]] = MappingProxyType(
    {**{name: entry.config for name, entry in MODELS.items()}, **PARTS}
)
TOKENS = 64  # of a part, when nothing is said


def find(name: str) -> type[Any]:
    """The configuration of a model or part of this name, or a sentence that names the nearest."""
    name = name.replace("-", "_")
    if name not in SUBJECTS:
        raise UserError(f"count what? no model or part {name!r}; {nearest(name, SUBJECTS)}")
    return SUBJECTS[name]


def name_of(config: Any) -> str:
    return next(name for name, kind in SUBJECTS.items() if type(config) is kind)


def sizes_for(
    config: Any,
    batch_size: int = 1,
    tokens: int | None = None,
    encoder_tokens: int | None = None,
    cached: bool = False,
) -> Sizes:
    """The sizes asked for, completed from the configuration; or a sentence about what is wrong."""
    for name, value in (
        ("batch_size", batch_size),
        ("tokens", tokens),
        ("encoder_tokens", encoder_tokens),
    ):
        if value is not None and value < 1:
            raise UserError(f"{name}={value}: there must be at least 1")
    called = name_of(config)
    fixed, why = fixed_tokens(config)
    if fixed is not None and tokens is not None:
        raise UserError(f"--tokens {tokens}: {called} {why}")
    length = getattr(config, "context_length", TOKENS)
    n = fixed or tokens or length
    if getattr(config, "pos_embed", "") == "learned" and fixed is None:
        longest = max(n, encoder_tokens or 0) if isinstance(config, Seq2SeqConfig) else n
        if longest > length:
            raise UserError(
                f"{longest} tokens are past the learned positions of context_length={length}: "
                f"say --context-length {longest}, or --pos-embed sinusoidal"
            )
    if cached and not can_cache(config):
        raise UserError(
            f"--cached: {called} reads all its tokens at once and keeps none; gpt, seq2seq, "
            "captioner, block and attention over tokens do"
        )
    return Sizes(batch_size, n, context_of(config, called, n, encoder_tokens), cached)


def fixed_tokens(config: Any) -> tuple[int | None, str]:
    """How many tokens there are where the configuration says so already, and why."""
    match config:
        case ViTConfig():
            by_patches = "makes its tokens of patches; say --image-size and --patch-size"
            return config.grid[0] * config.grid[1] + (config.pool == "cls"), by_patches
        case DaViTConfig() | PatchesPart():
            by_patches = "makes its tokens of patches; say --image-size and --patch-size"
            return (config.image_size // config.patch_size) ** 2, by_patches
        case HeadPart():
            return 1, "reads one vector for each of the batch"
    return None, ""


def context_of(config: Any, called: str, tokens: int, context: int | None) -> int:
    """How many tokens of something else are read."""
    match config:
        case CaptionerConfig(encoder_width=None):
            if context is not None:
                raise UserError(
                    f"--encoder-tokens {context}: {called} reads the patches of its encoder; say "
                    "--encoder.image-size and --encoder.patch-size, or --encoder-width for other "
                    "features"
                )
            return fixed_tokens(config.encoder)[0] or 0
        case Seq2SeqConfig() | CaptionerConfig() | BlockPart(encoder_width=int()):
            return tokens if context is None else context
    if context is not None:
        raise UserError(f"--encoder-tokens {context}: {called} reads nothing but its own tokens")
    return 0


def can_cache(config: Any) -> bool:
    if isinstance(config, AttentionPart):
        return config.axis == "token"
    if isinstance(config, (DecoderConfig, BlockPart)):
        return config.attention.strip() != "channel"
    return False
