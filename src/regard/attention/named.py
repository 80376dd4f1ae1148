"""Attentions by name, as a recipe or a flag spells them: `linear(random(64))`.

The little language is read without running anything: the names of ATTENTIONS and FEATURES, whole
numbers and brackets exist in it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from regard.attention.core import attend_fused
from regard.attention.features import (
    EluFeatures,
    FeatureMap,
    LearnedFeatures,
    RandomFeatures,
    ReluFeatures,
    TaylorFeatures,
)
from regard.attention.linear import LinearAttention
from regard.attention.multi_head import Attention
from regard.errors import nearest


def make_attention(expression: str, head_width: int) -> Attention:
    """The attention that an expression names, for heads of this width; new at every call.

    "softmax", "linear", "linear(relu)", "linear(random(64, seed=1))", "linear(taylor)",
    "linear(learned)", "channels".
    """
    if len(expression) > 200:
        raise ValueError(f"an attention of {len(expression)} characters; 200 is the limit")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        name, inside = _opened(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(
            f"cannot read the attention {expression!r}; an example: linear(random(64))"
        ) from None
    if name not in ATTENTIONS:
        raise ValueError(f"there is no attention named {name!r}; {nearest(name, ATTENTIONS)}")
    return ATTENTIONS[name](expression, head_width, inside)


def _softmax(expression: str, head_width: int, inside: ast.Call | None) -> Attention:
    _refuse_arguments("softmax", inside)
    return attend_fused


def _linear(expression: str, head_width: int, inside: ast.Call | None) -> Attention:
    if inside is None or not (inside.args or inside.keywords):
        return LinearAttention(EluFeatures())
    if len(inside.args) != 1 or inside.keywords:
        raise ValueError(f"{expression!r} does not fit linear(feature), one feature map")
    try:
        name, arguments = _opened(inside.args[0])
    except ValueError:
        raise ValueError(
            f"{ast.unparse(inside.args[0])!r} in {expression!r} is not a feature map; "
            f"there are {', '.join(FEATURES)}"
        ) from None
    if name not in FEATURES:
        raise ValueError(f"there is no feature map named {name!r}; {nearest(name, FEATURES)}")
    return LinearAttention(_made(name, head_width, arguments))


def _channels(expression: str, head_width: int, inside: ast.Call | None) -> Attention:
    from regard.attention.channel import attend_channels

    _refuse_arguments("channel", inside)
    return attend_channels


def _random(head_width: int, count: int = 64, seed: int = 0) -> FeatureMap:
    return RandomFeatures(head_width, count, seed)


FEATURES: Mapping[str, Callable[..., FeatureMap]] = MappingProxyType(
    {
        "elu": lambda head_width: EluFeatures(),
        "relu": lambda head_width: ReluFeatures(),
        "random": _random,
        "taylor": lambda head_width: TaylorFeatures(),
        "learned": lambda head_width: LearnedFeatures(head_width),
    }
)

ATTENTIONS: Mapping[str, Callable[[str, int, ast.Call | None], Attention]] = MappingProxyType(
    {"softmax": _softmax, "linear": _linear, "channel": _channels}
)


def _opened(tree: ast.expr) -> tuple[str, ast.Call | None]:
    """A name and, where it has brackets, the call."""
    match tree:
        case ast.Name(name):
            return name, None
        case ast.Call(ast.Name(name)):
            return name, tree
    raise ValueError("neither a name nor a call of one")


def _made(name: str, head_width: int, call: ast.Call | None) -> FeatureMap:
    make = FEATURES[name]
    args = [] if call is None else [_number(arg) for arg in call.args]
    words = (
        {} if call is None else {word.arg or "**": _number(word.value) for word in call.keywords}
    )
    numbers = [*args, *words.values()]
    try:
        if any(number is None for number in numbers) or (call and len(words) < len(call.keywords)):
            raise TypeError
        bound = inspect.signature(make).bind(head_width, *args, **words)
    except TypeError:
        assert call is not None
        wanted = ", ".join([*inspect.signature(make).parameters][1:])
        shape = f"{name}({wanted}), whole numbers" if wanted else f"{name}, without arguments"
        raise ValueError(f"{ast.unparse(call)!r} does not fit {shape}") from None
    return make(*bound.args, **bound.kwargs)


def _number(node: ast.expr) -> Any:
    match node:
        case ast.Constant(int(value)) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int(value))):
            return -value
    return None


def _refuse_arguments(name: str, call: ast.Call | None) -> None:
    if call is not None and (call.args or call.keywords):
        raise ValueError(f"{name} takes no arguments: write {name}, not {ast.unparse(call)}")
