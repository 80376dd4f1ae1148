"""Say what an image shows: an encoder sees patches, a decoder reads them while it writes words.

    model = Captioner(CaptionerConfig(words=5000))
    logits = model(images, words)                  # teacher forcing: b n words
    beam_search(model, images, Rules(begin=1, end=2))      # regard.evaluate.generate

Several texts may be about one image: their rows follow one another, and the image is encoded,
and its keys and values computed, once for all of them. Beams and reference texts both profit.
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
from regard.model.block import BlockCache, stack
from regard.model.config import CaptionerConfig, DecoderConfig
from regard.model.lean import Prepared, lean_step, prepare
from regard.model.parts import NORMS, TokenEmbed, initialise
from regard.model.vit import ViT


class Captioner(nn.Module):
    """Images and the words so far in, the scores of each next word out.

    The encoder is a value: any module whose `features`, or else whose call, gives (b m width).
    With one passed in, or with features computed beforehand, which may stand wherever images do,
    the configuration says their `context_width`; without that, it builds a ViT of its own.
    """

    def __init__(
        self,
        config: CaptionerConfig,
        *,
        encoder: nn.Module | None = None,
        attention: Attention = attend_fused,
    ) -> None:
        super().__init__()
        if encoder is not None and config.context_width is None:
            raise ValueError(
                "an encoder is passed in and the configuration has another; "
                "say the width of the features with context_width=, and it builds none"
            )
        self.config = config
        if config.context_width is None:
            encoder = ViT(config.encoder, attention=attention)
            encoder.head = nn.Identity()  # nobody asks for classes, so nothing would train it
        self.encoder = encoder
        self.mask = _mask(config)
        self.embed = TokenEmbed(config.words, config.width, scaled=config.scaled)
        self.place = _place(config)
        self.dropout = nn.Dropout(config.dropout)
        self.decoder = stack(
            config,
            mask=self.mask,
            attention=attention,
            place=rotary if config.place == "rotary" else Place,
            context_width=config.features_width,
        )
        self.norm = (
            NORMS[config.norm](config.width, eps=config.eps)
            if config.order == "pre"  # a post-norm stack ends with a norm already
            else nn.Identity()
        )
        self.to_words = None if config.tied else nn.Linear(config.width, config.words, bias=False)
        for part in (self.embed, self.decoder, self.to_words):  # an encoder keeps its weights
            if part is not None:
                initialise(part, config.init, config.layers)

    def forward(
        self,
        images: Float[Tensor, "b k y x"] | Float[Tensor, "b m width"],
        words: Int[Tensor, "r n"],
        *,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
    ) -> Float[Tensor, "r n words"]:
        """The scores of the word after each of `words`; padding is at position −1."""
        return self.decode(
            words, self.encode(images), positions=positions, context_positions=context_positions
        )

    def encode(
        self, images: Float[Tensor, "b k y x"] | Float[Tensor, "b m width"]
    ) -> Float[Tensor, "b m width"]:
        """What the decoder will read of each image; features go through as they are."""
        if images.ndim == 3:
            context = images
        elif self.encoder is None:
            raise ValueError(
                f"this model has no encoder to see images of shape {tuple(images.shape)}: "
                "give it features, (images, places, width)"
            )
        else:
            context = getattr(self.encoder, "features", self.encoder)(images)
        if context.shape[-1] != self.config.features_width:
            raise ValueError(
                f"features are {context.shape[-1]} wide and the decoder reads "
                f"{self.config.features_width}"
            )
        return context

    def decode(
        self,
        words: Int[Tensor, "r n"],
        context: Float[Tensor, "b m width"],
        *,
        positions: Positions | None = None,
        context_positions: Positions | None = None,
        caches: Sequence[BlockCache] | None = None,
    ) -> Float[Tensor, "r n words"]:
        """The scores of the word after each of `words`, which may go on where the caches end."""
        x = self._read(words, context, positions, context_positions, caches)
        return self._score(x)

    def caches(self) -> list[BlockCache]:
        """One empty memory for each block."""
        # Under a mask that forgets, keys that no later word may read are dropped.
        keep = self.mask if self.mask.reach < float("inf") else None
        return [BlockCache(KVCache(keep=keep), KVCache()) for _ in self.decoder]

    def start(
        self,
        images: Float[Tensor, "b k y x"] | Float[Tensor, "b m width"],
        context_positions: Positions | None = None,
    ) -> Writing:
        """One empty text about each image, for `step` to write on."""
        # Places that may be nowhere need a mask, which only the blocks know about.
        lean = None if isinstance(context_positions, Tensor) else prepare(self.decoder)
        return Writing(self.encode(images), context_positions, self.caches(), lean)

    def step(self, words: Int[Tensor, "r n"], state: Writing) -> Float[Tensor, "r words"]:
        """Append words to each text; the scores of the next one."""
        n = words.shape[1]
        positions = range(state.length, state.length + n)
        if state.lean is not None and n == 1 and len(words) == len(state):
            x = self.place.embed(self.embed(words), positions)[:, 0]
            x = self.norm(lean_step(state.lean, x, state.length, state.context, state.caches))
        else:  # a prompt of several words, or what is wrong and will be refused
            x = self._read(words, state.context, positions, state.context_positions, state.caches)
            x = x[:, -1]
        state.length += n
        return self._score(x)

    def _read(
        self,
        words: Tensor,
        context: Tensor,
        positions: Positions | None,
        context_positions: Positions | None,
        caches: Sequence[BlockCache] | None,
    ) -> Tensor:
        if len(words) % max(1, len(context)) or bool(len(words)) != bool(len(context)):
            raise ValueError(
                f"{len(words)} texts are not the same number about each of {len(context)} images"
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

    def _score(self, x: Tensor) -> Tensor:
        return F.linear(x, self.embed.table.weight) if self.to_words is None else self.to_words(x)


class Writing:
    """Texts being written: what they are about, how long they are, what the blocks remember.

    There are as many texts, in rows that follow one another, about each image. All have one
    length, so positions stay a range, which the fastest kernels need.
    """

    def __init__(
        self,
        context: Float[Tensor, "b m width"],
        context_positions: Positions | None,
        caches: Sequence[BlockCache],
        lean: Sequence[Prepared] | None = None,
    ) -> None:
        self.context, self.context_positions, self.caches = context, context_positions, caches
        self.lean = lean  # for single words, where the blocks are not needed
        self.length = 0
        self.texts = 1  # about each image

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self.context) * self.texts

    @property
    def device(self) -> torch.device:
        """Where words are expected."""
        return self.context.device

    def reorder(self, rows: Int[Tensor, "b k"]) -> None:
        """Let text j about image i continue the text of row `rows[i, j]`.

        Images may be left out, not moved: those that stay keep their order.
        """
        images, index = rows[:, 0] // self.texts, rows.flatten()
        dropped = len(rows) < len(self.context)
        for cache in self.caches:
            cache.attention.reorder(index)
            if dropped and cache.cross is not None:  # beams of one image share its keys
                cache.cross.reorder(images)
        if dropped:
            self.context = self.context[images]
            where = self.context_positions
            if isinstance(where, Tensor) and where.ndim > 1 and len(where) > 1:
                self.context_positions = where[images]
        self.texts = rows.shape[1]


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
