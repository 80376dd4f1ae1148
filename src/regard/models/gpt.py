"""A language model: words in, the scores of each next word out, and nothing else to read.

    model = GPT(GPTConfig(vocab_size=65, context_length=256))
    logits = model(words)                                   # b n words
    sample(model, 4, GenerationConfig(bos_id=0, eos_id=1), prompt=words)  # regard.generation.sample

Where other models are given what to write about, this one is told how many texts to write.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import Positions
from regard.attention.multi_head import Attention
from regard.generation.state import DecodingState
from regard.models.config import GPTConfig
from regard.models.decoder import Decoder


class GPT(Decoder):
    """Text as numbers in, the scores of the number after each out."""

    def __init__(self, config: GPTConfig, *, attention: Attention | None = None) -> None:
        super().__init__(config, attention=attention)
        self.config = config

    def forward(
        self, words: Int[Tensor, "b n"], *, positions: Positions | None = None
    ) -> Float[Tensor, "b n words"]:
        """The scores of the word after each of `words`; padding is at position −1."""
        return self.next_token_logits(words, positions=positions)

    def new_state(self, texts: int) -> DecodingState:
        """So many empty texts, for `step` to write on, in caches that are allocated once."""
        room = self.config.context_length if self.config.pos_embed == "learned" else None
        return self.empty_state(texts, size=room)
