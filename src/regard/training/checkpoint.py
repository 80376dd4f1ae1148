"""Nested state as named tensors and one JSON text, and back: what a checkpoint holds, no pickle.

An optimiser's state, random-number states and the position in the data are trees of dicts, lists,
tuples, numbers and tensors. `pack` takes the tensors out by name; `unpack` puts them back exactly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor


def pack(tree: Any) -> tuple[dict[str, Tensor], str]:
    """The tensors of a tree by name, and the rest of it as JSON."""
    tensors: dict[str, Tensor] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            name = str(len(tensors))
            tensors[name] = value.detach()
            return {"tensor": name}
        if isinstance(value, Mapping):
            return {"dict": [[plain(key), plain(item)] for key, item in value.items()]}
        if isinstance(value, tuple):
            return {"tuple": [plain(item) for item in value]}
        if isinstance(value, list):
            return [plain(item) for item in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise TypeError(f"{type(value).__name__} does not belong in a checkpoint")

    return tensors, json.dumps(plain(tree))


def unpack(tensors: Mapping[str, Tensor], text: str) -> Any:
    """The tree that `pack` took apart."""

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "tensor":
            return tensors[content]
        if kind == "tuple":
            return tuple(whole(item) for item in content)
        return {whole(key): whole(item) for key, item in content}

    return whole(json.loads(text))
