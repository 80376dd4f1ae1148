"""Understand a text: every word reads all others, and comes out as a vector that knows them.

    model = Bert(BertConfig(vocab_size=8000))
    hidden = model(words, positions=positions)      # b n c; padding is at position −1
    hidden[:, 0]                                    # what stands for the whole text, once trained

This is BERT (Devlin et al. 2019): the encoder of 2017 with learned positions, a vector for each
segment, and a norm before the first block. `regard.models.minilm` has one that is trained already.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Positions
from regard.attention.multi_head import Attention
from regard.models.block import last_norm, make_blocks
from regard.models.config import BertConfig
from regard.models.layers import NORMS, TokenEmbedding, init_weights
from regard.models.pos_embed import pos_embed_before, pos_embed_inside
from regard.models.sizes import expect_room
from regard.models.text_mask import text_mask


class Bert(nn.Module):
    """Words in, one vector a word out."""

    def __init__(self, config: BertConfig, *, attention: Attention | None = None) -> None:
        super().__init__()
        expect_room(config)
        self.config = config
        self.token_embedding = TokenEmbedding(config.vocab_size, config.width)
        self.token_type_embedding = nn.Embedding(config.token_types, config.width)
        self.pos_embed = pos_embed_before(config.pos_embed, config.context_length, config.width)
        self.embed_norm = NORMS[config.norm](config.width, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        mask = None if config.mask is None else text_mask(config.mask, config.context_length)
        place = pos_embed_inside(config.pos_embed)
        self.blocks = make_blocks(config, mask=mask, attention=attention, pos_embed=place)
        self.norm = last_norm(config)
        self.pooler = nn.Linear(config.width, config.width) if config.pooler else None
        init_weights(self, config.init, config.layers)

    def forward(
        self,
        words: Int[Tensor, "b n"],
        segments: Int[Tensor, "b n"] | None = None,
        *,
        positions: Positions | None = None,
    ) -> Float[Tensor, "b n c"]:
        """Each word after the last block.

        `segments` says which text of a pair a word belongs to, and is 0 for all when not said.
        Padding is at position −1: nothing reads it, and what comes out there means nothing.
        """
        if segments is not None and segments.shape != words.shape:
            raise ValueError(
                f"segments of the shape {tuple(segments.shape)} do not tell those of words of "
                f"the shape {tuple(words.shape)}"
            )
        positions = range(words.shape[1]) if positions is None else positions
        kinds = (
            self.token_type_embedding.weight[0]
            if segments is None
            else self.token_type_embedding(segments)
        )
        x = self.pos_embed.embed(self.token_embedding(words) + kinds, positions)
        x = self.dropout(self.embed_norm(x))
        for block in self.blocks:
            x = block(x, positions=positions)
        return self.norm(x)

    def pooled(self, hidden: Float[Tensor, "b n c"]) -> Float[Tensor, "b c"]:
        """One vector a text, made from its first word; so padding, if any, comes last."""
        if self.pooler is None:
            raise ValueError("this model has no pooler: it was configured with pooler=False")
        return self.pooler(hidden[:, 0]).tanh()
