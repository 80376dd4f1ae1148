"""Say what a text is: a BERT reads it, and one linear layer tells the classes apart.

Words may vote beside it (`votes.py`); the scores are a mean of the two opinions then.

model = TextClassifier(TextClassifierConfig(vocab_size=8000, num_classes=2))
scores = model(words, positions=positions)      # b classes; padding is at position −1
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Positions
from regard.attention.multi_head import Attention
from regard.models.bert import Bert
from regard.models.config import TextClassifierConfig
from regard.models.layers import init_weights
from regard.models.ngram_head import NgramHead


class TextClassifier(nn.Module):
    """Words in, the scores of the classes out."""

    def __init__(self, config: TextClassifierConfig, *, attention: Attention | None = None) -> None:
        super().__init__()
        self.config = config
        self.bert = Bert(config, attention=attention)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.head = nn.Linear(config.width, config.num_classes)
        init_weights(self.head, config.init, config.layers)
        self.ngram = (
            NgramHead(config.vocab_size, config.ngram_buckets, config.num_classes)
            if config.ngram_buckets
            else None
        )

    def forward(
        self,
        words: Int[Tensor, "b n"],
        segments: Int[Tensor, "b n"] | None = None,
        *,
        positions: Positions | None = None,
        each: bool = False,
    ) -> Float[Tensor, "*opinions b classes"]:
        """The scores of each text, whose padding, if any, is at position −1 and comes last.

        `each`: those of the reader and, where words vote, those of the votes, one after the
        other. Each is to learn for itself. Were their sum all that is judged, the votes, which
        learn faster, would leave the reader little to learn, and both together know less.
        """
        hidden = self.bert(words, segments, positions=positions)
        read: Tensor = self.head(self.dropout(self.pooled(hidden, positions)))
        if self.ngram is None:
            return read[None] if each else read
        votes = self.ngram(words, positions).to(read.dtype)
        say = self.config.ngram_weight
        return torch.stack([read, votes]) if each else (read + say * votes) / (1 + say)

    def pooled(
        self, hidden: Float[Tensor, "b n c"], positions: Positions | None = None
    ) -> Float[Tensor, "b c"]:
        """One vector a text: that of its first word, or the mean or the greatest over its words."""
        if self.config.pool == "cls":
            return hidden[:, 0] if self.bert.pooler is None else self.bert.pooled(hidden)
        real = positions >= 0 if isinstance(positions, Tensor) else None
        if self.config.pool == "max":
            if real is not None:
                hidden = hidden.masked_fill(~real[..., None], -torch.inf)
            return hidden.amax(1)
        if real is None:
            return hidden.mean(1)
        kept = hidden.masked_fill(~real[..., None], 0.0)
        # A text has its start and end at least, so it is never divided by 0.
        return kept.sum(1) / real.sum(-1, keepdim=True).to(hidden.dtype)
