"""The little language that spells masks, read without running anything.

Only the names of MASKS and PATTERNS, whole numbers, `&`, `|`, `~` and brackets exist in it. A
pattern is read as the expression it stands for, and that is what the mask prints.
"""

import ast
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from regard.attention.algebra import Mask
from regard.attention.masks import MASKS
from regard.attention.patterns import PATTERNS
from regard.errors import nearest


def parse(expression: str) -> Mask:
    """Read a mask expression: names of masks and patterns, whole numbers, `&`, `|` and `~`."""
    if len(expression) > 1000:
        raise ValueError(f"a mask expression of {len(expression)} characters; 1000 is the limit")
    unreadable = ValueError(
        f"cannot read the mask {expression!r}; an example: causal & (window(64) | sinks(4))"
    )
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise unreadable from None
    try:
        mask = _build(tree, expression)
    except RecursionError:
        raise unreadable from None
    if not isinstance(mask, Mask):
        raise ValueError(f"{expression!r} is a number, not a mask")
    return mask


def _build(node: ast.expr, expression: str) -> Any:
    match node:
        case ast.BinOp(left, ast.BitAnd() | ast.BitOr() as op, right):
            a, b = _build(left, expression), _build(right, expression)
            if isinstance(a, Mask) and isinstance(b, Mask):
                return a & b if isinstance(op, ast.BitAnd) else a | b
        case ast.UnaryOp(ast.Invert(), of) if isinstance(a := _build(of, expression), Mask):
            return ~a
        case ast.Name(name) if isinstance(a := _named(name), Mask):
            return a
        case ast.Call(ast.Name(name), args, keywords) if callable(make := _named(name)):
            if isinstance(make, Mask):
                raise ValueError(f"{name} takes no arguments: write {name}, not {name}(…)")
            values = [_build(arg, expression) for arg in args]
            named = {word.arg or "**": _build(word.value, expression) for word in keywords}
            with suppress(TypeError):
                if len(named) == len(keywords):  # a word said twice is no error to ast
                    return make(*values, **named)
            raise ValueError(
                f"{ast.unparse(node)!r} does not fit {name}({_wanted(make)}), whole numbers all"
            )
        case ast.Name(name):
            raise ValueError(f"{name} needs its arguments: {name}({_wanted(_named(name))})")
        case ast.Constant(int(value)) if not isinstance(value, bool):
            return value
        case ast.Tuple([ast.Constant(int(height)), ast.Constant(int(width))]):
            return height, width
    raise ValueError(
        f"{ast.unparse(node)!r} in the mask {expression!r} is not a name, whole number, &, | or ~"
    )


def _named(name: str) -> Mask | Callable[..., Mask]:
    known: dict[str, Any] = {**MASKS, **PATTERNS}
    if name not in known:
        raise ValueError(f"there is no mask named {name!r}; {nearest(name, known)}")
    made: Mask | Callable[..., Mask] = known[name]
    return made


def _wanted(make: Any) -> str:
    return ", ".join(inspect.signature(make).parameters)
