"""A language model: words in, the scores of each next word out, and nothing else to read.

    model = GPT(GPTConfig(words=65, length=256))
    logits = model(words)                                   # b n words
    sample(model, 4, Rules(begin=0, end=1), prompt=words)   # regard.generation.sample

Where other models are given what to write about, this one is told how many texts to write.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import Positions
from regard.attention.multi_head import Attention
from regard.generation.state import Writing
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
        return self.decode(words, positions=positions)

    def start(self, texts: int) -> Writing:
        """So many empty texts, for `step` to write on, in caches that are allocated once."""
        room = self.config.length if self.config.place == "learned" else None
        return self.begin(texts, size=room)
