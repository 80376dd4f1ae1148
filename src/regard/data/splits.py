"""A fixed rule that divides images among train, validation and test, class by class."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

TEST = 0.2
VALIDATION = 0.1


class Division(NamedTuple):
    """The rows of each split, in rising order."""

    train: Int64[np.ndarray, "train"]
    validation: Int64[np.ndarray, "validation"]
    test: Int64[np.ndarray, "test"]


def divide(
    labels: Int64[np.ndarray, "n"],
    keys: Sequence[str] | None = None,
    *,
    validation: float = VALIDATION,
    test: float = TEST,
) -> Division:
    """Hold out a share of each class, the same one on every machine and at every call.

    Within a class, images stand in the order of the SHA-256 of their key (the row number where no
    keys are given); the first are for test, the next for validation, the others for training.
    A share above nothing is at least one image, as long as one is left for training.
    """
    keys = [str(row) for row in range(len(labels))] if keys is None else keys
    order = np.array(
        [hashlib.sha256(key.encode(errors="surrogateescape")).digest() for key in keys]
    )
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        mine = mine[np.argsort(order[mine], kind="stable")]
        for_test = held_out(len(mine), test, len(mine) - 1)
        for_validation = held_out(len(mine), validation, len(mine) - 1 - for_test)
        ends = np.cumsum([for_test, for_validation])
        held_test, held_validation, rest = np.split(mine, ends)
        for part, rows in zip(parts, (rest, held_validation, held_test), strict=True):
            part.extend(rows.tolist())
    return Division(*(np.sort(np.array(part, np.int64)) for part in parts))


def held_out(count: int, share: float, spare: int) -> int:
    """How many of `count` images a share takes when `spare` may go."""
    return min(spare, max(1, int(share * count + 0.5))) if share else 0
