"""What a reader is asked when it is measured: of one split always the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int64

from regard.errors import UserError
from regard.tasks.pretrain_bert.config import PretrainBertConfig
from regard.tasks.pretrain_bert.data import (
    MASKED,
    NEXT,
    Pairs,
    PretrainData,
    measured_text,
    part_of,
)


def questions_of(
    config: PretrainBertConfig, data: PretrainData, split: str, most: int | None = None
) -> Iterator[tuple[str, Pairs]]:
    """Every question that counts, with the rows of a split that it is asked about, or some."""
    if config.loss_weights.reads:
        text = some_of(text_of(config, data, split), most)
        if config.loss_weights.mlm:
            yield MASKED, text
        if config.loss_weights.nsp:
            yield NEXT, text
    for name, pairs in part_of(data, split).pairs.items():
        yield name, some_of(pairs, most)


def text_of(config: PretrainBertConfig, data: PretrainData, split: str) -> Pairs:
    """The running text of a split in rows, and which of them follow one another."""
    found, left_out = part_of(data, split).documents, data.left_out.get(split, 0)
    if not len(found.lines) and not left_out:
        known = [name for name, part in data.parts.items() if len(part.documents.lines)]
        raise UserError(f"{data.name} has no text in {split}: take {' or '.join(known)}")
    return measured_text(found, config, f"{split} of {data.name}", "it needs more", left_out)


def some_of(pairs: Pairs, most: int | None) -> Pairs:
    """At most so many, evenly chosen."""
    return pairs if most is None else pairs.only(evenly(len(pairs), most))


def evenly(count: int, most: int) -> Int64[np.ndarray, "some"]:
    """At most so many of all rows; two neighbours at a time, as yes and no come in turn."""
    if count <= most:
        return np.arange(count)
    firsts = 2 * (np.arange(most // 2) * (count // 2) // (most // 2))
    return np.stack((firsts, firsts + 1), 1).reshape(-1)
