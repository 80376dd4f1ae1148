"""Translate: an encoder reads a sentence both ways, a decoder reads that while it writes another.

    model = Seq2Seq(Seq2SeqConfig(words=8000))                # 2017 with order="post", place=…
    logits = model(Sentences(words, positions), words_so_far)    # teacher forcing: b n words
    beam_search(model, source, Rules(begin=1, end=2))         # regard.generation.sample

Both languages share one table of words, and with `tied` so do the scores, as in 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import Positions
from regard.attention.multi_head import Attention
from regard.generation.state import Writing
from regard.models.block import last_norm, stack
from regard.models.config import Seq2SeqConfig
from regard.models.decoder import Decoder
from regard.models.layers import initialise
from regard.models.pos_embed import place_inside


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences to be translated, as numbers, and where each word is: −1 is padding."""

    words: Int[Tensor, "b m"]
    positions: Positions | None = None

    def __len__(self) -> int:
        return len(self.words)


class Seq2Seq(Decoder):
    """Sentences and their translations so far in, the scores of each next word out."""

    def __init__(self, config: Seq2SeqConfig, *, attention: Attention | None = None) -> None:
        super().__init__(config, context_width=config.width, attention=attention)
        self.config = config
        self.encoder = stack(
            config.reading,
            attention=attention,
            place=place_inside(config.place),
        )
        self.encoder_norm = last_norm(config)
        initialise(self.encoder, config.init, config.reading.layers)

    def forward(
        self,
        source: Sentences,
        words: Int[Tensor, "r n"],
        *,
        positions: Positions | None = None,
    ) -> Float[Tensor, "r n words"]:
        """The scores of the word after each of `words`; padding is at position −1."""
        where = self.where(source)
        return self.decode(words, self.encode(source), positions=positions, context_positions=where)

    def encode(self, source: Sentences) -> Float[Tensor, "b m c"]:
        """What the decoder will read of each sentence."""
        where = self.where(source)
        x = self.dropout(self.place.embed(self.embed(source.words), where))
        for block in self.encoder:
            x = block(x, positions=where)
        return self.encoder_norm(x)

    def start(self, source: Sentences) -> Writing:
        """One empty translation of each sentence, for `step` to write on."""
        return self.begin(len(source), self.encode(source), self.where(source))

    @staticmethod
    def where(source: Sentences) -> Positions:
        return range(source.words.shape[1]) if source.positions is None else source.positions
