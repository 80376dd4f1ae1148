"""Texts while they are written: what they are about, how long they are, what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention import Positions
from regard.attention.cache import keys_of
from regard.generation.fused_decode import Prepared
from regard.generation.static_cache import PLACES, SLOTS, Fixed, Shape, lend
from regard.models.block import BlockCache

if TYPE_CHECKING:
    from regard.models.decoder import Decoder


class DecodingState:
    """Texts being written: what they are about, how long they are, what the blocks remember.

    There are as many texts, in rows that follow one another, about each item. As long as all have
    one length positions stay a range, which the fastest kernels need. What was read lies in the
    caches of the blocks, or, where a GPU is to play steps back, in a room at fixed addresses.
    """

    def __init__(
        self, items: int, caches: Sequence[BlockCache], device: torch.device, lean: bool = False
    ) -> None:
        self.items, self.caches, self.device = items, caches, device
        self.context: Tensor | None = None
        self.context_positions: Positions | None = None
        self.lean = lean  # whether single words may go past the blocks
        self.prepared: tuple[bool, Prepared] | None = None  # for a text alone, or for several
        self.fixed: Fixed | None = None  # in place of the caches, where a GPU is to play steps
        self.model: Decoder | None = None  # that which lent it
        self.length = 0  # of the longest text
        self.lengths: Int[Tensor, "r"] | None = None  # of each, where they differ
        self.texts = 1  # about each item

    def __len__(self) -> int:
        """How many texts there are."""
        return self.items * self.texts

    def differ(self, lengths: Sequence[int], n: int) -> None:
        """Let texts start with different numbers of words."""
        if self.length:
            raise ValueError(f"texts of {self.length} words go on by the same number of words each")
        if len(lengths) != len(self) or not all(1 <= length <= n for length in lengths):
            raise ValueError(
                f"lengths={list(lengths)[:8]} for {len(self)} texts in rows of {n}: one "
                "for each, "
                f"of 1 … {n}"
            )
        if any(length < n for length in lengths):
            self.lengths = torch.tensor(list(lengths), device=self.device)

    def positions(self, n: int) -> Positions:
        """Where the next n words of each text are."""
        if self.lengths is None:
            return range(self.length, self.length + n)
        steps = torch.arange(n, device=self.device)
        if not self.length:  # the prompt, with padding behind it
            return torch.where(steps < self.lengths[:, None], steps, -1)
        return self.lengths[:, None] + steps

    def advance(self, n: int) -> None:
        """Count the words that were appended."""
        if self.lengths is not None and self.length:
            self.lengths = self.lengths + n
        self.length += n

    def reorder(self, rows: Int[Tensor, "b k"]) -> None:
        """Let text j about item i continue the text of row `rows[i, j]`.

        Items may be left out, not moved: those that stay keep their order.
        """
        items, index = rows[:, 0] // self.texts, rows.flatten()
        dropped = len(rows) < self.items
        if self.lengths is not None:
            self.lengths = self.lengths.index_select(0, index)
            if dropped and len(index):  # the longest may be among those that leave
                self.length = int(self.lengths.max())
        if dropped and self.context is not None:
            self.context = self.context.index_select(0, items)
            where = self.context_positions
            if isinstance(where, Tensor) and where.ndim > 1 and len(where) > 1:
                self.context_positions = where.index_select(0, items)
        self.items, self.texts = rows.shape
        if self.fixed is not None:
            self.move(index, items if dropped else None)
        for cache in self.caches:
            cache.attention.reorder(index)
            if dropped and cache.cross is not None:  # beams of one item share its keys
                cache.cross.reorder(items)

    def settle(self, model: Decoder) -> None:
        """Move into a room with fixed addresses, out of the caches or out of a smaller room."""
        self.model = model
        if self.fixed is not None:
            rows, items = (
                torch.arange(count, device=self.device) for count in (len(self), self.items)
            )
            self.move(rows, items)
            return
        self.fixed = lend(model, self, self.shape(), partial(model.prepare, len(self)))
        lengths = self.length if self.lengths is None else self.lengths
        self.fixed.fill(self.caches, lengths, self.context_positions)
        self.caches = ()

    def move(self, rows: Int[Tensor, "r"], items: Int[Tensor, "b"] | None) -> None:
        """Let the room hold these of its rows, and items if some leave; or another, if they fit."""
        old, shape = self.fixed, self.shape()
        assert old is not None and self.model is not None
        if shape == old.shape:
            old.take(old, self.length, rows, items)
            return
        self.fixed = lend(self.model, self, shape, partial(self.model.prepare, len(self)))
        if items is None:
            items = torch.arange(self.items, device=self.device)
        self.fixed.take(old, self.length, rows, items)
        old.user = None

    def shape(self) -> Shape:
        """The room that these texts need now: with some to spare, so that few kinds are made."""
        if self.fixed is not None:
            like = self.fixed.shape
        else:
            kept, cross = (keys_of(memory) for memory in self.caches[0])
            assert kept is not None
            _, groups, _, width = kept.k.shape
            context: tuple[int, int, int] | None = None
            if cross is not None:
                _, *sizes = cross.k.shape
                context = (sizes[0], sizes[1], sizes[2])
            like = Shape(
                items=self.items,
                texts=self.texts,
                layers=len(self.caches),
                groups=groups,
                slots=SLOTS,
                width=width,
                context=context,
                ragged=isinstance(self.context_positions, Tensor),
                kind=kept.k.dtype,
                device=self.device,
            )
        items, slots, context = self.items, SLOTS, like.context
        if self.device.type == "cuda":
            items = 1 << (items - 1).bit_length()
            if context is not None and like.ragged:
                groups, places, width = context
                context = (groups, -(-places // PLACES) * PLACES, width)
        while slots <= self.length:
            slots *= 2
        return replace(like, items=items, texts=self.texts, slots=slots, context=context)
