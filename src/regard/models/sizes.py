"""How many numbers a model has, from its configuration alone, and whether this machine has room.

    parameters(ViTConfig(width=64))             # as many as the model has, without building it
    expect_room(ViTConfig(width=10**9))         # a ValueError that names the width

Every model asks this before it draws its first weight, for a configuration may come from anywhere:
what does not fit is a sentence with the numbers in it, and no machine that stands still. `regard
count` has the same numbers operation by operation (`regard.count.closed`); a test compares both.
No torch here, so that a wish can be judged before anything is loaded.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import singledispatch
from itertools import pairwise
from typing import Any

from regard.errors import FieldError
from regard.hardware.memory import machine_memory
from regard.models.config import (
    BertConfig,
    BertForPretrainingConfig,
    CaptionerConfig,
    DecoderConfig,
    Seq2SeqConfig,
    StackConfig,
    TextClassifierConfig,
    ViTConfig,
)
from regard.models.davit_config import DaViTConfig

NUMBER = 4  # bytes of a weight, which is a float32
MOST_LAYERS = (
    4096  # each is some milliseconds of building: thousands are patience, millions are not
)
MOST_FEATURES = 1 << 16  # random directions of linear attention, which are drawn one by one


@singledispatch
def parameters(config: Any) -> int:
    """How many numbers a model of this configuration learns."""
    raise ValueError(f"nobody has said how many parameters a {type(config).__name__} has")


@parameters.register
def of_vit(config: ViTConfig) -> int:
    return vit_features(config) + sum(
        linear(wide, next_wide) for wide, next_wide in pairwise(head_widths(config))
    )


def head_widths(config: ViTConfig) -> tuple[int, ...]:
    return (config.width, *config.head_hidden, config.num_classes)


def vit_features(config: ViTConfig) -> int:
    """A ViT without its head: patches, a class token, positions, blocks and a norm."""
    c, p, k = config.width, config.patch_size, config.channels
    if config.stem == "conv":
        first, between = 2 if p % 2 == 0 else 1, max(1, c // 2)
        stem = convolution(k, between, max(3, first + 1)) + 2 * between
        stem += convolution(between, c, max(3, p // first + 1))
    else:
        stem = linear(k * p * p, c) + 2 * k * p * p * config.patch_norm
    own = int(config.pool == "cls")
    rows, columns = config.grid
    places = (rows * columns + own) * c if config.pos_embed == "learned" else 0
    return stem + own * c + places + stack(config) + last_norm(config)


@parameters.register
def of_davit(config: DaViTConfig) -> int:
    widths = config.widths
    stem = (
        convolution(config.channels, widths[0], max(3, 2 * config.patch_size - 1)) + 2 * widths[0]
    )
    downs = sum(
        2 * a + convolution(a, b, 2 + config.overlapping_downsample) for a, b in pairwise(widths)
    )
    stages = 0
    for c, depth in zip(widths, config.depths, strict=True):
        around, norms = 2 * (9 * c + c), 2 * 2 * c
        think = linear(c, config.mlp_ratio * c) + linear(config.mlp_ratio * c, c)
        stages += 2 * depth * (around + norms + 4 * linear(c, c) + think)
    return stem + downs + stages + 2 * widths[-1] + linear(widths[-1], config.num_classes)


@parameters.register
def of_bert(config: BertConfig) -> int:
    c = config.width
    tables = (
        config.vocab_size
        + config.token_types
        + config.context_length * (config.pos_embed == "learned")
    ) * c
    pooler = linear(c, c) * config.pooler
    return tables + norm(config) + stack(config) + last_norm(config) + pooler


@parameters.register
def of_text_classifier(config: TextClassifierConfig) -> int:
    votes = (
        (config.vocab_size + config.ngram_buckets) * config.num_classes
        if config.ngram_buckets
        else 0
    )
    return of_bert(config) + linear(config.width, config.num_classes) + votes


@parameters.register
def of_pretrainer(config: BertForPretrainingConfig) -> int:
    c, pair_heads = config.width, len(config.pair_tasks)
    unused = linear(c, c) * (config.pooler and not pair_heads)  # nothing would teach it
    head = linear(c, c) + norm(config) + config.vocab_size
    return of_bert(config) - unused + head + pair_heads * linear(c, 2)


@parameters.register
def of_decoder(config: DecoderConfig) -> int:
    return writing(config, None)


@parameters.register
def of_seq2seq(config: Seq2SeqConfig) -> int:
    layers = config.layers if config.encoder_layers is None else config.encoder_layers
    reading = layers * block(config, None) + last_norm(config)
    return writing(config, config.width) + reading


@parameters.register
def of_captioner(config: CaptionerConfig) -> int:
    seen = vit_features(config.encoder) if config.encoder_width is None else 0
    return seen + writing(config, config.features_width)


def writing(config: DecoderConfig, context_width: int | None) -> int:
    """Words and positions, the stack of a decoder, and its scores if they are not tied."""
    c = config.width
    tables = (config.vocab_size + config.context_length * (config.pos_embed == "learned")) * c
    scores = 0 if config.tie_embeddings else config.vocab_size * c
    return tables + stack(config, context_width) + last_norm(config) + scores


def stack(config: StackConfig, context_width: int | None = None) -> int:
    return config.layers * block(config, context_width)


def block(config: StackConfig, context_width: int | None) -> int:
    """Attention, perhaps attention to a context, and a feed-forward, each with its norm."""
    c, hidden, bias = config.width, config.hidden_width, config.bias
    think = linear(c, hidden, bias) + linear(hidden, c, bias)
    think += linear(c, hidden, bias) * (config.activation == "swiglu")
    found = heads(config, c) + think + 2 * norm(config)
    return found if context_width is None else found + heads(config, context_width) + norm(config)


def heads(config: StackConfig, read: int) -> int:
    """Four projections, and what an attention has to learn itself."""
    c, d = config.width, config.width // config.heads
    keys = (config.kv_heads or config.heads) * d
    own = d * d if "learned" in config.attention else 0
    queries, out = (linear(c, c, config.bias) for _ in range(2))
    return queries + 2 * linear(read, keys, config.bias) + out + own


def linear(inside: int, outside: int, bias: bool = True) -> int:
    return (inside + bias) * outside


def convolution(inside: int, outside: int, side: int) -> int:
    return (inside * side * side + 1) * outside


def norm(config: StackConfig) -> int:
    return config.width * (1 if config.norm == "rmsnorm" else 2)


def last_norm(config: StackConfig) -> int:
    return norm(config) * config.norm_first


# What is too much


def expect_room(config: Any) -> None:
    """Refuse a model whose weights this machine cannot hold, or that would take hours to build.

    One that is built without memory, on the device `meta`, may be of any size.
    """
    import torch

    device = torch.get_default_device()
    if device.type == "meta":
        return
    check_depth(config)
    if device.type == "cuda":
        room: int | None = torch.cuda.get_device_properties(device).total_memory
    else:
        room = machine_memory()
    needed = NUMBER * parameters(config)
    if room is not None and needed > room:
        raise ValueError(too_much(config, parameters, needed, room))


def check_depth(config: Any, under: str = "") -> None:
    """Refuse more layers, or more random features, than anybody would wait for."""
    for name, value in whole_numbers(config):
        last = name.split(".")[-1]
        if last in ("layers", "encoder_layers", "depths") and value > MOST_LAYERS:
            raise FieldError(
                f"{under}{name} = {value}: at most {MOST_LAYERS:,} layers are built",
                f"{under}{name}",
            )
    if isinstance(config, StackConfig):
        count = random_features(config.attention)
        if count > MOST_FEATURES:
            raise FieldError(
                f"{under}attention = {config.attention!r}: at most {MOST_FEATURES:,} random "
                "features are drawn",
                f"{under}attention",
            )
    if isinstance(config, CaptionerConfig) and config.encoder_width is None:
        check_depth(config.encoder, f"{under}encoder.")


def random_features(expression: str) -> int:
    """How many directions an expression such as `linear(random(64))` draws; 0 if none."""
    try:
        tree = ast.parse(expression.strip()[:200], mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0  # which is refused where it is read
    found = 0
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "count")]
            counts = [each.value for each in given if isinstance(each, ast.Constant)]
            if call.func.id == "random":
                found = max([found, *(each for each in counts if isinstance(each, int))])
    return found


def too_much(
    config: Any,
    measure: Callable[[Any], int],
    needed: int,
    room: int,
    purpose: str = "",
    where: str = "this machine",
) -> str:
    """A sentence: which fields make how many parameters, what they take, and what there is."""
    blamed = largest_fields(config, measure)
    named = " and ".join(f"{name} = {value}" for name, value in blamed)
    makes = f"{named} make{'s' * (len(blamed) == 1)}" if blamed else "the model has"
    return (
        f"{makes} {short(measure(config))} parameters, {in_bytes(needed)}{purpose}; "
        f"{where} has {in_bytes(room)}"
    )


def largest_fields(config: Any, measure: Callable[[Any], int]) -> list[tuple[str, Any]]:
    """The fields that make something large, largest first.

    With its default, the first would halve it at the least; each other would leave a tenth.
    """
    whole, usual = measure(config), dict(numbers_in(type(config)()))
    found = []
    for name, value in numbers_in(config):
        default = usual.get(name, value)
        if value == default:
            continue
        try:
            left = measure(with_field(config, name.split("."), default))
        except (ValueError, ZeroDivisionError, TypeError):
            continue  # such as stages that no longer are as many
        if 2 * left <= whole:
            found.append((left, name, value))
    found.sort(key=lambda each: each[0])
    named = [each for each in found if 10 * each[0] <= whole] or found[:1]
    return [(name, value) for _, name, value in named][:3]


def numbers_in(config: Any, under: str = "") -> Iterator[tuple[str, Any]]:
    """Every field that holds whole numbers, or None in the place of one, by dotted name."""
    for field in fields(config):
        value = getattr(config, field.name)
        several = isinstance(value, tuple) and all(type(each) is int for each in value)
        if is_dataclass(value):
            yield from numbers_in(value, f"{under}{field.name}.")
        elif value is None or type(value) is int or several:
            yield f"{under}{field.name}", value


def whole_numbers(config: Any) -> Iterator[tuple[str, int]]:
    """The same number by number, those of other models in it left out."""
    for name, value in numbers_in(config):
        if "." not in name and value is not None:
            yield name, sum(value) if isinstance(value, tuple) else value


def with_field(config: Any, path: list[str], value: Any) -> Any:
    """The configuration with one field changed, whether or not it contradicts others then."""
    first, *rest = path
    changed = copy.copy(config)
    inner = with_field(getattr(config, first), rest, value) if rest else value
    object.__setattr__(changed, first, inner)
    return changed


def short(count: int) -> str:
    """A whole number as people say it, however large."""
    return f"{count:,}" if count < 10**12 else f"{count:.1e}".replace("e+", "e")


def in_bytes(count: int) -> str:
    """Bytes as people say them."""
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            number = count / size
            if number >= 10**6:
                return f"{number:.1e} {unit}".replace("e+", "e")
            return f"{number:,.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{count:,} bytes"


def numbers_held(config: Any, tokens: int) -> int:
    """Numbers that a training step keeps of so many tokens, at the very least, to go back.

    Of each block that is what its linear layers have read and its attention: its input, queries,
    keys, values and what was read, and the feed-forward's hidden layer. Norms, sums and scores of
    words come on top, so what is refused by this fits by no means.
    """
    if isinstance(config, DaViTConfig):
        found, left = 0, tokens
        for c, depth in zip(config.widths, config.depths, strict=True):
            found += left * 2 * depth * (4 + config.mlp_ratio) * c
            left //= 4
        return found
    layers = config.layers
    if isinstance(config, Seq2SeqConfig):
        layers = min(layers, config.encoder_layers or layers)
    return tokens * layers * (3 * config.width + config.hidden_width)
