"""How a reader is taught, and how well it answers on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.augment import seeded
from regard.data.batching import Buckets, RowPicker, Rows
from regard.data.masking import Masked, Masking
from regard.errors import UserError
from regard.models.pretrainer import BertForPretraining
from regard.models.sizes import numbers_held
from regard.run_folder.metric_lines import metric
from regard.tasks.pretrain_bert.batches import PretrainBatch
from regard.tasks.pretrain_bert.config import PretrainBertConfig
from regard.tasks.pretrain_bert.data import MASKED, SEED, Metadata, PretrainData
from regard.tasks.pretrain_bert.questions import questions_of
from regard.training.fit import Measure
from regard.training.step import Objective

MEASURED = 512  # rows of running text, and pairs for each question, after each epoch
AT_ONCE = 1 << 13  # tokens in a batch without gradients


def objective(config: PretrainBertConfig, facts: Metadata) -> Objective:
    """Hide words of running text and ask about pairs; sum what each question's loss counts.

    A loss is a mean over what was asked, times the rows of the batch: so a batch counts as many
    times as it has rows, however many words of it were hidden.
    """
    hide, weights = masking_of(config, facts), config.loss_weights

    def of(model: nn.Module, batch: PretrainBatch) -> tuple[Tensor, int]:
        assert isinstance(model, BertForPretraining)
        words, masked = batch.words, None
        if batch.running and weights.mlm:
            masked = hide(words, batch.numbers())
            words = masked.words
        hidden = model.hidden_states(words, batch.segments, positions=batch.positions)
        total = hidden.new_zeros((), dtype=torch.float32)
        if masked is not None:
            losses = F.cross_entropy(
                scores_of(model, hidden, masked).float().flatten(0, 1),
                masked.targets.flatten(),
                reduction="none",
            )
            real = masked.real.flatten()
            total = total + weights.mlm * (losses * real).sum() / real.sum().clamp(min=1)
        if batch.question is not None:
            answers = model.pair_logits(batch.question, hidden).float()
            loss = F.cross_entropy(answers, getattr(batch, batch.question))
            total = total + getattr(weights, batch.question) * loss
        return total * len(words), len(words)

    return of


def masking_of(config: PretrainBertConfig, facts: Metadata) -> Masking:
    how = config.masking
    return Masking(
        facts.words,
        share=how.mlm_probability,
        hidden=how.mask_token_prob,
        swapped=how.random_token_prob,
        whole_words=how.whole_word_mask,
    )


def scores_of(model: BertForPretraining, hidden: Tensor, masked: Masked) -> Tensor:
    """The scores of all words at the places that are asked for."""
    places = masked.places[..., None].expand(-1, -1, hidden.shape[-1])
    return model.token_logits(hidden.gather(1, places))


@dataclass(frozen=True, eq=False)
class Guesses:
    """Hidden words: what was said, what is true, how probable that was held, and where it stood."""

    predicted: Int64[np.ndarray, "n"]
    truth: Int64[np.ndarray, "n"]
    loss: np.ndarray
    rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]]  # words, places asked for, what is seen

    @property
    def right(self) -> Bool[np.ndarray, "n"]:
        return self.predicted == self.truth


@torch.no_grad()
def guesses(
    model: BertForPretraining,
    rows: Rows,
    config: PretrainBertConfig,
    facts: Metadata,
    device: torch.device,
) -> Guesses:
    """Hide words of some rows, always the same ones, and let the model name them."""
    hide, pick = masking_of(config, facts), RowPicker(rows, facts.words, device)
    numbers = seeded(SEED, torch.device("cpu"))
    predicted, truth, loss, where = [], [], [], []
    for width, some in Buckets(rows.lengths, AT_ONCE).epoch():
        read = pick(torch.from_numpy(some).to(device), width)
        masked = hide(read.words.cpu(), numbers)
        masked = Masked(*(each.to(device) for each in masked))
        hidden = model.hidden_states(masked.words, read.segments, positions=read.positions)
        scores = scores_of(model, hidden, masked).float()
        real = masked.real
        predicted.append(scores.argmax(-1)[real].cpu().numpy())
        truth.append(masked.targets[real].cpu().numpy())
        losses = F.cross_entropy(scores.flatten(0, 1), masked.targets.flatten(), reduction="none")
        loss.append(losses.view_as(real)[real].cpu().numpy())
        seen = ((masked.words == read.words) & (read.positions >= 0)).cpu().numpy()
        where += list(zip(read.words.cpu().numpy(), masked_places(masked), seen, strict=True))
    if not any(map(len, truth)):
        raise UserError("no word can be hidden, as the vocabulary knows none of them")
    return Guesses(np.concatenate(predicted), np.concatenate(truth), np.concatenate(loss), where)


def masked_places(masked: Masked) -> list[np.ndarray]:
    """The places asked for in each row, in the order of the guesses."""
    return [
        places[real].cpu().numpy() for places, real in zip(masked.places, masked.real, strict=True)
    ]


@torch.no_grad()
def answered(
    model: BertForPretraining, question: str, rows: Rows, facts: Metadata, device: torch.device
) -> np.ndarray:
    """How probable the model holds a yes, for each pair."""
    pick = RowPicker(rows, facts.words, device)
    found = np.zeros(len(rows))
    for width, some in Buckets(rows.lengths, AT_ONCE).epoch():
        read = pick(torch.from_numpy(some).to(device), width)
        hidden = model.hidden_states(read.words, read.segments, positions=read.positions)
        found[some] = model.pair_logits(question, hidden).float().softmax(-1)[:, 1].cpu().numpy()
    return found


def measure(config: PretrainBertConfig, data: PretrainData, device: torch.device) -> Measure:
    """How often each kind of question is answered rightly; the mean of these decides.

    The loss is that of the hidden words, or of the answers where none are hidden.
    """
    parts = {
        name: dict(questions_of(config, data, name, MEASURED)) for name in ("validation", "train")
    }

    def of(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, BertForPretraining)
        figures: dict[str, float] = {}
        for name, questions in parts.items():
            right: dict[str, float] = {}
            losses: dict[str, float] = {}
            for question, pairs in questions.items():
                if question == MASKED:
                    found = guesses(model, pairs.rows, config, data.metadata, device)
                    rightly, loss = found.right, found.loss
                else:
                    yes = answered(model, question, pairs.rows, data.metadata, device)
                    rightly = (yes > 0.5) == pairs.answers
                    loss = -np.log(np.where(pairs.answers == 1, yes, 1 - yes).clip(1e-30))
                right[question], losses[question] = float(rightly.mean()), float(loss.mean())
            figures[metric(name, "accuracy")] = float(np.mean(list(right.values())))
            figures[metric(name, "loss")] = losses.get(
                MASKED, float(np.mean(list(losses.values())))
            )
            figures |= {
                metric(name, f"{question}_accuracy"): value for question, value in right.items()
            }
        return figures

    return of


def measured(data: PretrainData) -> int:
    """About how many rows that looks at."""
    return 2 * MEASURED * (1 + len(data.parts["train"].pairs))


def held(config: PretrainBertConfig, data: PretrainData | None) -> int:
    """Numbers that a step holds at the least: of each token of a batch, in every block."""
    tokens = 0 if data is None else data.metadata.tokens[0]
    return numbers_held(config.model, min(config.batch_tokens, tokens))
