"""Teach a BERT to read: which words are hidden, and what two sentences have to do with each other.

    model = BertForPretraining(BertForPretrainingConfig(vocab_size=8000, pair_tasks=("nsp",)))
    scores = model(words, segments, positions=positions)                 # b n words
    hidden = model.hidden_states(words, segments, positions=positions)   # b n c, for both heads
    model.token_logits(hidden[:, 3]), model.pair_logits("nsp", hidden)

After training, `model.bert` is what is kept. This is BERT's own head for words, with as many heads
for pairs as there are questions: it had one (Devlin et al. 2019).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention import Positions
from regard.attention.multi_head import Attention
from regard.models.bert import Bert
from regard.models.config import BertForPretrainingConfig
from regard.models.layers import ACTIVATIONS, GATED, NORMS, init_weights


class BertForPretraining(nn.Module):
    """Words in, the scores of all words at each place out; and answers about pairs."""

    def __init__(
        self, config: BertForPretrainingConfig, *, attention: Attention | None = None
    ) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.bert = Bert(config, attention=attention)
        self.mlm_dense = nn.Linear(width, width)
        self.mlm_norm = NORMS[config.norm](width, eps=config.norm_eps)
        self.mlm_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.pair_heads = nn.ModuleDict({name: nn.Linear(width, 2) for name in config.pair_tasks})
        for part in (self.mlm_dense, self.pair_heads):
            init_weights(part, config.init, config.layers)
        if not config.pair_tasks:
            self.bert.pooler = None  # nothing would ever teach it
        activation = "gelu" if config.activation in GATED else config.activation
        self.activation = ACTIVATIONS[activation]

    def forward(
        self,
        words: Int[Tensor, "b n"],
        segments: Int[Tensor, "b n"] | None = None,
        *,
        positions: Positions | None = None,
    ) -> Float[Tensor, "b n words"]:
        """The scores of all words, at every place."""
        return self.token_logits(self.hidden_states(words, segments, positions=positions))

    def hidden_states(
        self,
        words: Int[Tensor, "b n"],
        segments: Int[Tensor, "b n"] | None = None,
        *,
        positions: Positions | None = None,
    ) -> Float[Tensor, "b n c"]:
        """Each word as what answers are made from."""
        return self.bert(words, segments, positions=positions)

    def token_logits(self, hidden: Float[Tensor, "*b c"]) -> Float[Tensor, "*b words"]:
        """The scores of all words at some places: the vectors that words are read as score them."""
        x = self.mlm_norm(self.activation(self.mlm_dense(hidden)))
        return F.linear(x, self.bert.token_embedding.weight, self.mlm_bias)

    def pair_logits(self, question: str, hidden: Float[Tensor, "b n c"]) -> Float[Tensor, "b 2"]:
        """The scores of no and yes, for each pair."""
        if question not in self.pair_heads:
            known = ", ".join(self.pair_heads) or "none"
            raise ValueError(f"no question {question!r}; this model was asked {known}")
        return self.pair_heads[question](self.bert.pooled(hidden))
