"""Teach a BERT to read: which words are hidden, and what two sentences have to do with each other.

    model = Pretrainer(PretrainerConfig(words=8000, asked=("next",)))
    scores = model(words, segments, positions=positions)        # b n words
    hidden = model.read(words, segments, positions=positions)   # b n c, for both kinds of question
    model.name_words(hidden[:, 3]), model.answer("next", hidden)

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
from regard.models.config import PretrainerConfig
from regard.models.layers import ACTIVATIONS, GATED, NORMS, initialise


class Pretrainer(nn.Module):
    """Words in, the scores of all words at each place out; and answers about pairs."""

    def __init__(self, config: PretrainerConfig, *, attention: Attention | None = None) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.bert = Bert(config, attention=attention)
        self.to_word = nn.Linear(width, width)
        self.word_norm = NORMS[config.norm](width, eps=config.eps)
        self.word_bias = nn.Parameter(torch.zeros(config.words))
        self.questions = nn.ModuleDict({name: nn.Linear(width, 2) for name in config.asked})
        for part in (self.to_word, self.questions):
            initialise(part, config.init, config.layers)
        if not config.asked:
            self.bert.pooler = None  # nothing would ever teach it
        activation = "gelu" if config.feed_forward in GATED else config.feed_forward
        self.activation = ACTIVATIONS[activation]

    def forward(
        self,
        words: Int[Tensor, "b n"],
        segments: Int[Tensor, "b n"] | None = None,
        *,
        positions: Positions | None = None,
    ) -> Float[Tensor, "b n words"]:
        """The scores of all words, at every place."""
        return self.name_words(self.read(words, segments, positions=positions))

    def read(
        self,
        words: Int[Tensor, "b n"],
        segments: Int[Tensor, "b n"] | None = None,
        *,
        positions: Positions | None = None,
    ) -> Float[Tensor, "b n c"]:
        """Each word as what answers are made from."""
        return self.bert(words, segments, positions=positions)

    def name_words(self, hidden: Float[Tensor, "*b c"]) -> Float[Tensor, "*b words"]:
        """The scores of all words at some places: the vectors that words are read as score them."""
        x = self.word_norm(self.activation(self.to_word(hidden)))
        return F.linear(x, self.bert.embed.table.weight, self.word_bias)

    def answer(self, question: str, hidden: Float[Tensor, "b n c"]) -> Float[Tensor, "b 2"]:
        """The scores of no and yes, for each pair."""
        if question not in self.questions:
            known = ", ".join(self.questions) or "none"
            raise ValueError(f"no question {question!r}; this model was asked {known}")
        return self.questions[question](self.bert.pooled(hidden))
