"""Translate: an encoder reads a sentence both ways, a decoder reads that while it writes another.

    model = Seq2Seq(Seq2SeqConfig(vocab_size=8000))     # 2017: norm_first=False, pos_embed=…
    logits = model(TokenBatch(tokens, positions), tokens_so_far)    # teacher forcing: b n words
    beam_search(model, source, GenerationConfig(bos_id=1, eos_id=2))    # regard.generation.sample

Both languages share one table of words, and with `tie_embeddings` so do the scores, as in 2017.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import Positions
from regard.attention.multi_head import Attention
from regard.generation.state import DecodingState
from regard.models.block import last_norm, make_blocks
from regard.models.config import Seq2SeqConfig
from regard.models.decoder import Decoder
from regard.models.layers import init_weights
from regard.models.pos_embed import pos_embed_inside


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Sentences to be translated, as numbers, and where each word is: −1 is padding."""

    tokens: Int[Tensor, "b m"]
    positions: Positions | None = None

    def __len__(self) -> int:
        return len(self.tokens)


class Seq2Seq(Decoder):
    """Sentences and their translations so far in, the scores of each next word out."""

    def __init__(self, config: Seq2SeqConfig, *, attention: Attention | None = None) -> None:
        super().__init__(config, context_width=config.width, attention=attention)
        self.config = config
        self.encoder = make_blocks(
            config.encoder_config,
            attention=attention,
            pos_embed=pos_embed_inside(config.pos_embed),
        )
        self.encoder_norm = last_norm(config)
        init_weights(self.encoder, config.init, config.encoder_config.layers)

    def forward(
        self,
        source: TokenBatch,
        words: Int[Tensor, "r n"],
        *,
        positions: Positions | None = None,
    ) -> Float[Tensor, "r n words"]:
        """The scores of the word after each of `words`; padding is at position −1."""
        where = self.where(source)
        return self.next_token_logits(
            words, self.encode(source), positions=positions, context_positions=where
        )

    def encode(self, source: TokenBatch) -> Float[Tensor, "b m c"]:
        """What the decoder will read of each sentence."""
        where = self.where(source)
        x = self.dropout(self.pos_embed.embed(self.token_embedding(source.tokens), where))
        for block in self.encoder:
            x = block(x, positions=where)
        return self.encoder_norm(x)

    def new_state(self, source: TokenBatch) -> DecodingState:
        """One empty translation of each sentence, for `step` to write on."""
        return self.empty_state(len(source), self.encode(source), self.where(source))

    @staticmethod
    def where(source: TokenBatch) -> Positions:
        return range(source.tokens.shape[1]) if source.positions is None else source.positions
