"""What a model that translates is trained by: the loss of each next word, padding left out."""

from __future__ import annotations

from torch import Tensor, nn

from regard.data.pair_batches import PairBatch
from regard.models.seq2seq import Seq2Seq, TokenBatch
from regard.training.losses import vocabulary_loss


def pair_loss(model: nn.Module, batch: PairBatch, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy summed over the words that are no padding; the others are never scored."""
    assert isinstance(model, Seq2Seq)
    source = TokenBatch(batch.source, batch.positions)
    # No positions for what is written: its padding comes last, and nothing earlier reads it.
    x = model.hidden_states(
        batch.words, model.encode(source), context_positions=model.where(source)
    )
    x = x.flatten(0, 1).index_select(0, batch.real)
    scorer = model.token_embedding if model.lm_head is None else model.lm_head
    return vocabulary_loss(x, scorer.weight, batch.targets, smoothing=smoothing)
