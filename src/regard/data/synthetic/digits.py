"""Handwritten digits, 8 × 8 pixels, that come with scikit-learn (UCI ML repository, 1998)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from regard.data.images import SPLITS, ArrayImages, ImageSet, Split
from regard.data.splits import divide

BRIGHTEST = 16.0  # pixels count the inked dots in 4 × 4 squares of the original scan


class Digits(NamedTuple):
    """Images from 0 (paper) to 1 (ink), and the digit each one shows."""

    images: Float32[np.ndarray, "n 1 y x"]
    labels: Int64[np.ndarray, "n"]


def load_digits(count: int | None = None) -> Digits:
    """The first `count` digits, all 1797 by default, always in the same order.

    They take turns, one of each class as long as there are any: 0, 1, 2, … 9, 0, 1, …
    """
    # Here, because it takes a second.
    from sklearn import datasets

    images, labels = datasets.load_digits(return_X_y=True)
    if count is not None and not 0 <= count <= len(labels):
        raise ValueError(f"there are {len(labels)} digits, so {count} cannot be taken")
    turn = np.empty(len(labels), np.int64)
    for digit in np.unique(labels):
        mine = labels == digit
        turn[mine] = np.arange(mine.sum())
    chosen = np.lexsort((labels, turn))[:count]
    return Digits(
        (images[chosen] / BRIGHTEST).reshape(-1, 1, 8, 8).astype(np.float32),
        labels[chosen].astype(np.int64),
    )


def read_digits() -> ImageSet:
    """All digits, a fifth of each class for test and a tenth for validation."""
    images, labels = load_digits()
    pixels = (images * 255 + 0.5).astype(np.uint8)
    rows = divide(labels)
    train, validation, test = (
        Split(ArrayImages(pixels[part]), labels[part])
        for part in (getattr(rows, split) for split in SPLITS)
    )
    return ImageSet(
        "digits",
        tuple("0123456789"),
        train,
        validation,
        test,
        licence="CC BY 4.0",
        source="UCI ML repository, Optical Recognition of Handwritten Digits; in scikit-learn",
    )
