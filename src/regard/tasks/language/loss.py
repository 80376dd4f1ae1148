"""How a language model learns and how it is measured on the way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.evaluation.perplexity import token_losses
from regard.models.gpt import GPT
from regard.models.sizes import numbers_held
from regard.run_folder.metric_lines import metric
from regard.tasks.language.config import LanguageConfig
from regard.tasks.language.data import LanguageData, Metadata, Windows
from regard.training.fit import Measure
from regard.training.step import Objective

MEASURED = 1 << 17  # tokens of validation, and of training, after each epoch
AT_ONCE = 1 << 13  # tokens in a batch without gradients


def objective(config: LanguageConfig, facts: Metadata) -> Objective:
    """Show the model each window; sum its loss over the token after each."""

    def of(model: nn.Module, batch: Windows) -> tuple[Tensor, int]:
        logits = model(batch.words[:, :-1])
        wanted = batch.words[:, 1:]
        loss = F.cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), reduction="sum")
        return loss, wanted.numel()

    return of


def measure(config: LanguageConfig, data: LanguageData, device: torch.device) -> Measure:
    """The loss of a token on validation, which decides, and on as much of training.

    It is the mean of -log p of the next token: log(perplexity).
    """
    length = config.model.context_length
    count = min(MEASURED, len(data.tokens["validation"]))
    parts = {name: np.asarray(data.tokens[name][:count]) for name in ("validation", "train")}

    def of(model: nn.Module) -> dict[str, float]:
        figures = {}
        for name, tokens in parts.items():
            loss = float(losses_of(model, tokens, length, device).mean())
            figures[metric(name, "loss")] = loss
        return figures

    return of


def measured(data: LanguageData) -> int:
    """How many tokens that looks at."""
    return 2 * min(MEASURED, len(data.tokens["validation"]))


def held(config: LanguageConfig, data: LanguageData | None) -> int:
    """Numbers that a step holds at the least: of each window, its tokens in every block."""
    length = config.model.context_length
    windows = 1 if data is None else max(1, len(data.tokens["train"]) // length)
    return numbers_held(config.model, length * min(config.batch_size, windows))


def losses_of(
    model: nn.Module,
    tokens: np.ndarray,
    length: int,
    device: torch.device,
    *,
    stride: int | None = None,
    advance: Callable[[int], object] | None = None,
) -> np.ndarray:
    """The loss of every token but the first; windows side by side unless a stride is said."""
    assert isinstance(model, GPT)
    at_once = max(1, AT_ONCE // length)
    stride = length if stride is None else stride
    return token_losses(
        model, tokens, length, stride=stride, at_once=at_once, device=device, advance=advance
    )
