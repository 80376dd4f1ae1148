"""How a translator learns and how it is measured on the way."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.pair_batches import PairBatch, Picker, Tokens, by_length, cut
from regard.models.sizes import numbers_held
from regard.run_folder.metric_lines import metric
from regard.tasks.translate.config import TranslateConfig
from regard.tasks.translate.data import Metadata, TranslateData
from regard.training.fit import Measure
from regard.training.pair_loss import pair_loss
from regard.training.step import Objective

MEASURED = 1 << 16  # target tokens of validation, and of training, after each epoch
AT_ONCE = 1 << 13  # tokens in a batch without gradients


def objective(config: TranslateConfig, facts: Metadata) -> Objective:
    """Show the model sources and translations so far; sum its loss over the next words."""

    def of(model: nn.Module, batch: PairBatch) -> tuple[Tensor, int]:
        return pair_loss(model, batch, config.label_smoothing), len(batch.targets)

    return of


def measure(config: TranslateConfig, data: TranslateData, device: torch.device) -> Measure:
    """The loss of a token on validation, which decides, and on as much of training.

    It is the mean of -log p of the right next token: log(perplexity). To translate takes far
    longer, and is left for the end.
    """
    parts = {name: batched(tokens, data, device) for name, tokens in sample(data).items()}

    def of(model: nn.Module) -> dict[str, float]:
        figures = {}
        for name, batches in parts.items():
            total = sum(float(pair_loss(model, batch)) for batch in batches)
            loss = total / sum(len(batch.targets) for batch in batches)
            figures[metric(name, "loss")] = loss
        return figures

    return of


def sample(data: TranslateData) -> dict[str, Tokens]:
    """Pairs of validation, and as many of training, evenly chosen."""
    size = data.validation.sizes[:, 1].mean()
    count = max(1, min(len(data.validation), len(data.train), int(MEASURED / size)))
    parts = {"validation": data.validation, "train": data.train}
    return {name: part.only(np.arange(count) * len(part) // count) for name, part in parts.items()}


def measured(data: TranslateData) -> int:
    """How many tokens that looks at."""
    return sum(int(part.sizes[:, 1].sum()) for part in sample(data).values())


def held(config: TranslateConfig, data: TranslateData | None) -> int:
    """Numbers that a step holds at the least: of each token of a batch, in every block."""
    tokens = 0 if data is None else int(data.train.sizes.sum())
    return numbers_held(config.model, min(config.batch_tokens, tokens))


def batched(tokens: Tokens, data: TranslateData, device: torch.device) -> list[PairBatch]:
    """All of some pairs in batches, from short to long."""
    sizes = tokens.sizes
    order, pick = by_length(sizes), Picker(tokens, data.metadata.words.padding, device)
    starts = cut(sizes[order], AT_ONCE).tolist()
    rows = [order[start:end] for start, end in pairwise(starts)]
    return [pick(torch.from_numpy(some).to(pick.home), sizes[some]) for some in rows]
