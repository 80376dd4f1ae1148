"""What every model that writes shares: words in, the scores of each next word out.

A decoder reads its own words so far, and perhaps a context: the patches of an image, a sentence in
another language. A subclass says what the context is; without one it is a GPT.

Several texts may share one context: their rows follow one another, and its keys and values are
computed, kept and loaded once for all of them. Beams and reference texts both profit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import (
    KVCache,
    Mask,
    Place,
    Positions,
    attend_fused,
    causal,
    learned,
    rotary,
    sinusoidal,
)
from regard.attention.heads import Attention
from regard.model.block import BlockCache, last_norm, stack
from regard.model.config import DecoderConfig
from regard.model.lean import Prepared, lean_step, prepare
from regard.model.parts import TokenEmbed, initialise


class Decoder(nn.Module):
    """A stack that writes; with a `context_width`, every block also reads a context."""

    def __init__(
        self,
        config: DecoderConfig,
        *,
        context_width: int | None = None,
        attention: Attention = attend_fused,
    ) -> None:
        super().__init__()
        self.context_width = context_width
        self.mask = _mask(config)
        self.embed = TokenEmbed(config.words, config.width, scaled=config.scaled)
        self.place = _place(config)
        self.dropout = nn.Dropout(config.dropout)
        self.decoder = stack(
            config,
            mask=self.mask,
            attention=attention,
            place=place_inside(config),
            context_width=context_width,
        )
        self.norm = last_norm(config)
        self.to_words = None if config.tied else nn.Linear(config.width, config.words, bias=False)
        for part in (self.embed, self.decoder, self.to_words):
            if part is not None:
                initialise(part, config.init, config.layers)

    def decode(
        self,
        words: Int[Tensor, "r n"],
        context: Float[Tensor, "b m width"] | None = None,
        *,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
        caches: Sequence[BlockCache] | None = None,
    ) -> Float[Tensor, "r n words"]:
        """The scores of the word after each of `words`, which may go on where the caches end."""
        return self.score(self.read(words, context, positions, context_positions, caches))

    def read(
        self,
        words: Int[Tensor, "r n"],
        context: Float[Tensor, "b m width"] | None = None,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
        caches: Sequence[BlockCache] | None = None,
    ) -> Float[Tensor, "r n c"]:
        """Each word as what the scores of the next are made from."""
        if context is not None and (
            len(words) % max(1, len(context)) or bool(len(words)) != bool(len(context))
        ):
            raise ValueError(
                f"{len(words)} texts are not the same number about each of {len(context)} contexts"
            )
        if positions is None:
            if caches is not None:
                raise ValueError("with caches, say where the words are: positions=range(…)")
            positions = range(words.shape[1])
        x = self.dropout(self.place.embed(self.embed(words), positions))
        memories = [None] * len(self.decoder) if caches is None else caches
        for block, memory in zip(self.decoder, memories, strict=True):
            x = block(
                x,
                context,
                positions=positions,
                context_positions=context_positions,
                cache=memory,
            )
        return self.norm(x)

    def score(self, x: Float[Tensor, "*b c"]) -> Float[Tensor, "*b words"]:
        """The scores of all words."""
        return F.linear(x, self.embed.table.weight) if self.to_words is None else self.to_words(x)

    def caches(self, size: int | None = None) -> list[BlockCache]:
        """One empty memory for each block, growing, or with room for `size` words."""
        # Under a mask that forgets, keys that no later word may read are dropped.
        keep = self.mask if self.mask.reach < float("inf") else None
        return [
            BlockCache(
                KVCache(size=size, keep=keep), None if self.context_width is None else KVCache()
            )
            for _ in self.decoder
        ]

    def begin(
        self,
        texts: int,
        context: Float[Tensor, "b m width"] | None = None,
        context_positions: Positions | None = None,
        *,
        size: int | None = None,
    ) -> Writing:
        """So many empty texts, for `step` to write on; with a context, one about each row of it."""
        # Places that may be nowhere need a mask, which only the blocks know about.
        lean = None if isinstance(context_positions, Tensor) else prepare(self.decoder)
        state = Writing(texts, self.caches(size), self.embed.table.weight.device, lean)
        state.context, state.context_positions = context, context_positions
        return state

    def step(self, words: Int[Tensor, "r n"], state: Writing) -> Float[Tensor, "r words"]:
        """Append words to each text; the scores of the next one."""
        if len(words) != len(state):
            raise ValueError(
                f"there are words for {len(words)} texts, and {len(state)} are being written"
            )
        n = words.shape[1]
        positions = range(state.length, state.length + n)
        if state.lean is not None and n == 1:
            x = self.place.embed(self.embed(words), positions)[:, 0]
            x = self.norm(lean_step(state.lean, x, state.length, state.context, state.caches))
        else:  # a prompt of several words, or something that only the blocks can do
            x = self.read(words, state.context, positions, state.context_positions, state.caches)
            x = x[:, -1]
        state.length += n
        return self.score(x)


class Writing:
    """Texts being written: what they are about, how long they are, what the blocks remember.

    There are as many texts, in rows that follow one another, about each item. All have one
    length, so positions stay a range, which the fastest kernels need.
    """

    def __init__(
        self,
        items: int,
        caches: Sequence[BlockCache],
        device: torch.device,
        lean: Sequence[Prepared] | None = None,
    ) -> None:
        self.items, self.caches, self.device = items, caches, device
        self.context: Tensor | None = None
        self.context_positions: Positions | None = None
        self.lean = lean  # for single words, where the blocks are not needed
        self.length = 0
        self.texts = 1  # about each item

    def __len__(self) -> int:
        """How many texts there are."""
        return self.items * self.texts

    def reorder(self, rows: Int[Tensor, "b k"]) -> None:
        """Let text j about item i continue the text of row `rows[i, j]`.

        Items may be left out, not moved: those that stay keep their order.
        """
        items, index = rows[:, 0] // self.texts, rows.flatten()
        dropped = len(rows) < self.items
        for cache in self.caches:
            cache.attention.reorder(index)
            if dropped and cache.cross is not None:  # beams of one item share its keys
                cache.cross.reorder(items)
        if dropped and self.context is not None:
            self.context = self.context[items]
            where = self.context_positions
            if isinstance(where, Tensor) and where.ndim > 1 and len(where) > 1:
                self.context_positions = where[items]
        self.items, self.texts = rows.shape


def place_inside(config: DecoderConfig) -> Callable[[], Place]:
    """What acts inside the attention layers: rotary positions do, others are added before."""
    return rotary if config.place == "rotary" else Place


def _mask(config: DecoderConfig) -> Mask:
    if config.mask is None:
        return causal
    mask = Mask.parse(config.mask)
    if not mask.implies_causal:
        raise ValueError(
            f"mask={config.mask!r} can read words that are not written yet; "
            f"'causal & ({config.mask})' cannot"
        )
    return mask


def _place(config: DecoderConfig) -> Place:
    schemes: dict[str, Callable[[], Place]] = {
        "learned": partial(learned, config.length, config.width),
        "sinusoidal": partial(sinusoidal, config.width),
        "rotary": Place,  # acts inside the attention layers
        "none": Place,
    }
    return schemes[config.place]()
