"""Short answers to what is asked of a layer on paper: formulas with their numbers put in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from regard.count.closed import cache_numbers, costs
from regard.count.formulas import NUMBER, Cost, Sizes, total
from regard.count.parts import AttentionPart, DensePart


class Answer(NamedTuple):
    """A quantity, its formula, and its value."""

    quantity: str
    formula: str
    value: int


def answers(config: Any, sizes: Sizes) -> list[Answer]:
    """What is asked of an attention layer, of a dense one, and of one more token with a cache."""
    found: list[Answer] = []
    if isinstance(config, AttentionPart):
        found += of_attention(config, sizes)
    if isinstance(config, DensePart):
        found += of_dense(config, sizes)
    if sizes.cached:
        found += of_cache(config, sizes)
    return found


def of_attention(part: AttentionPart, sizes: Sizes) -> Iterator[Answer]:
    """Parameters, weights of attention, and the same with other heads and turned on its side."""
    plain = replace(sizes, batch_size=1, cached=False)
    split = replace(part, head_width=None, kv_heads=None, causal=False, axis="token", bias=True)
    yield Answer("parameters of q, k, v", *three(part))
    out = part.heads * part.each * part.width + part.width * part.bias
    yield Answer("parameters of the output", "D² + D" if square(part) else "H d D + D", out)
    side, letter = (plain.tokens, "N") if part.axis == "token" else (part.each, "d")
    yield Answer("weights of attention, each head", f"{letter}²", side**2)
    yield Answer("weights of attention, all heads", f"H {letter}²", part.heads * side**2)
    if part.width % part.heads == 0:
        for width, words in ((None, "D / H"), (part.width, "D")):
            each = replace(split, head_width=width)
            count = total(costs(each, plain), "parameters")
            formula = "4 D² + 4 D" if width is None else "4 H D² + 3 H D + D"
            yield Answer(f"parameters with heads of width {words}", formula, count)
    listed = costs(replace(part, axis="token", causal=False), plain)
    projections = sum(cost.multiply_adds for cost in listed if cost.where.startswith("to_"))
    formula = "4 N D²" if square(part) else "N D (2 H d + 2 G d)"
    yield Answer("multiply-adds of the projections", formula, projections)
    yield Answer("multiply-adds of both products, over tokens", "2 N² H d", products_of(listed))
    turned = costs(replace(part, axis="channel", causal=False), plain)
    yield Answer("multiply-adds of both products, over channels", "2 N H d²", products_of(turned))


def products_of(listed: list[Cost]) -> int:
    """Scores and reads, the projections left out."""
    return sum(cost.multiply_adds for cost in listed if not cost.where)


def three(part: AttentionPart) -> tuple[str, int]:
    groups = part.heads if part.kv_heads is None else part.kv_heads
    outside = (part.heads + 2 * groups) * part.each
    count = outside * part.width + outside * part.bias
    return ("3 D² + 3 D" if square(part) else "(H + 2 G) d (D + 1)"), count


def square(part: AttentionPart) -> bool:
    """Whether all projections are D × D, with biases."""
    alike = part.kv_heads in (None, part.heads) and part.heads * part.each == part.width
    return alike and part.bias


def of_dense(part: DensePart, sizes: Sizes) -> Iterator[Answer]:
    numbers = part.width * sizes.tokens
    yield Answer("weights", "D² N²", numbers**2)
    yield Answer("biases", "D N", numbers * part.bias)
    yield Answer(
        "parameters of an attention layer, for any N",
        "4 D² + 4 D",
        4 * part.width * (part.width + 1),
    )


def of_cache(config: Any, sizes: Sizes) -> Iterator[Answer]:
    """One more token: the whole text again, or the token alone behind what was kept."""
    if isinstance(config, AttentionPart):  # who writes word by word reads no later one
        config = replace(config, causal=True)
    whole = total(costs(config, replace(sizes, cached=False)), "multiply_adds")
    alone = total(costs(config, sizes), "multiply_adds")
    kept = cache_numbers(config, sizes)
    yield Answer("multiply-adds of a new token, all computed anew", "the whole pass", whole)
    yield Answer("multiply-adds of a new token behind the cache", "one row of it", alone)
    yield Answer("bytes of the cache", "2 · layers · b · G · N · d · 4", kept * NUMBER)
