"""What a model would cost with other sizes: a table over the values of its fields."""

from __future__ import annotations

import ast
import itertools
import json as encoder
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from regard.config import change
from regard.count.counted import Counted, count_one
from regard.count.subjects import name_of, sizes_for
from regard.errors import UserError, nearest

SIZES = ("batch_size", "tokens", "encoder_tokens")
MOST = 1000  # rows


def tabulate(
    config: Any, given: Mapping[str, int | None], cached: bool, vary: Sequence[str], json: bool
) -> int:
    """A row for every combination: closed forms, with the parameters of each counted too."""
    axes = [axis(config, words) for words in vary]
    names = [name for name, _ in axes]
    if len(set(names)) < len(names):
        raise UserError(f"--vary {' '.join(names)}: each name once")
    combinations = list(itertools.product(*(values for _, values in axes)))
    if len(combinations) > MOST:
        raise UserError(f"--vary: {len(combinations)} rows; {MOST} is the limit")
    rows = [
        (values, varied(config, given, cached, dict(zip(names, values, strict=True))))
        for values in combinations
    ]
    if json:
        print(
            encoder.dumps(
                {
                    "subject": name_of(config),
                    "vary": names,
                    "rows": [
                        {"varied": dict(zip(names, values, strict=True)), **row.to_values()}
                        for values, row in rows
                    ],
                },
                indent=1,
                ensure_ascii=False,
            )
        )
    else:
        from regard.count.table import show_table

        show_table(name_of(config), names, rows)
    return int(not all(row.agrees for _, row in rows))


def varied(
    config: Any, given: Mapping[str, int | None], cached: bool, values: Mapping[str, str]
) -> Counted:
    """One row."""
    plain = {name: literal(value) for name, value in values.items() if name not in SIZES}
    own = {name: whole(name, value) for name, value in values.items() if name in SIZES}
    changed = change(config, plain)
    sizes = sizes_for(changed, **(dict(given) | own), cached=cached)  # type: ignore[arg-type]
    return count_one(changed, sizes, run=False)


def axis(config: Any, words: str) -> tuple[str, list[str]]:
    """`width=64,128` as a name and its values; commas within brackets belong to a value."""
    name, sign, values = words.partition("=")
    name = name.strip().replace("-", "_")
    known = [*SIZES, *dotted(config)]
    if not sign or not values.strip():
        raise UserError(f"--vary {words}: write it as width=64,128,256")
    if name not in known:
        raise UserError(f"--vary {words}: there is no {name}; {nearest(name, known)}")
    found = [value.strip() for value in re.split(r",(?![^(]*\))", values)]
    if not all(found):
        raise UserError(f"--vary {words}: a value between commas is empty")
    return name, found


def dotted(config: Any, under: str = "") -> list[str]:
    """The names of all fields, such as encoder.width."""
    names: list[str] = []
    for field in fields(config):
        value = getattr(config, field.name)
        inner = dotted(value, f"{under}{field.name}.") if is_dataclass(value) else []
        names += inner or [under + field.name]
    return names


def literal(value: str) -> Any:
    """A value in brackets is several; all else is read as a flag would be."""
    if not value.startswith("("):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise UserError(f"--vary: cannot read {value}; an example: (32,64)") from None


def whole(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UserError(f"--vary: {name}={value} is no whole number") from None
