"""Tensors in a file of safetensors, which holds numbers and words and never code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


def as_safetensors(tensors: Mapping[str, Tensor], *, checked: bool, **about: str) -> bytes:
    """The bytes of such a file; `checked` where it carries a checksum of its own numbers."""
    from safetensors.torch import save

    whole = {key: tensor.detach().contiguous().cpu() for key, tensor in tensors.items()}
    words = about | ({"sha256": checksum(whole)} if checked else {})
    return save(whole, metadata=words or None)


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a file and its words, or a sentence about what happened to it."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as trouble:
        raise UserError(f"{path} is damaged and cannot be read: {trouble}") from None
    if "sha256" in metadata and metadata["sha256"] != checksum(tensors):
        raise UserError(f"{path} is damaged: its numbers are not those that were written")
    return tensors, metadata


def shapes_in(path: Path) -> dict[str, tuple[int, ...]]:
    """The sizes of the tensors in a safetensors file, or a sentence about what is wrong with it."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise UserError(
            f"{path.parent} has no {path.name}: it may not have reached its first epoch"
        )
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            return {name: tuple(file.get_slice(name).get_shape()) for name in names}
    except (SafetensorError, OSError, ValueError) as trouble:
        raise UserError(f"{path} is damaged and cannot be read: {trouble}") from None


def checksum(tensors: Mapping[str, Tensor]) -> str:
    import torch

    digest = hashlib.sha256()
    for key in sorted(tensors):
        tensor = tensors[key]
        digest.update(f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
