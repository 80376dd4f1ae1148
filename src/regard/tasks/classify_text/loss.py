"""How texts are learnt to be told apart, and how that is measured on the way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batching import Buckets, RowPicker
from regard.models.sizes import numbers_held
from regard.run_folder.metric_lines import metric
from regard.tasks.classify_text.config import ClassifyTextConfig
from regard.tasks.classify_text.data import Metadata, SentimentData, TextBatch, Windowed
from regard.training.fit import Measure
from regard.training.step import Objective

AT_ONCE = 1 << 14  # tokens in a batch without gradients
LEAST, MOST = 1_000, 5_000  # texts of training that are measured after each epoch


def objective(config: ClassifyTextConfig, facts: Metadata) -> Objective:
    """Hide some words, ask the model, and sum its loss, each text with its weight."""
    words = facts.words
    blank = words.special("mask" if "mask" in words.specials else "padding")
    kept = tuple(words.special(name) for name in words.specials)

    def of(model: nn.Module, batch: TextBatch) -> tuple[Tensor, Tensor]:
        shown = batch.words
        if config.token_dropout:
            shown = forgotten(batch, config.token_dropout, blank, kept)
        opinions = opinions_of(model, shown, batch)
        loss = against(opinions, batch.labels)
        if config.r_drop:
            again = opinions_of(model, shown, batch)
            differing = apart(opinions[0], again[0])  # votes are the same in both readings
            loss = (loss + against(again, batch.labels)) / 2 + config.r_drop * differing
        return (loss * batch.weights).sum(), batch.weights.sum()

    def opinions_of(model: nn.Module, shown: Int64[Tensor, "b n"], batch: TextBatch) -> Tensor:
        opinions: Tensor = model(shown, batch.segments, positions=batch.positions, each=True)
        return opinions.float()

    def against(
        opinions: Float[Tensor, "opinions b classes"], labels: Int64[Tensor, "b"]
    ) -> Float[Tensor, "b"]:
        """The sum of what each opinion loses: it learns as if it were alone."""
        one_by_one = [
            F.cross_entropy(each, labels, reduction="none", label_smoothing=config.label_smoothing)
            for each in opinions
        ]
        return torch.stack(one_by_one).sum(0)

    return of


def apart(one: Float[Tensor, "b classes"], other: Float[Tensor, "b classes"]) -> Float[Tensor, "b"]:
    """How far two answers to each text are apart: the mean of both Kullback-Leibler divergences.

    They are of one model, which forgot different things (R-Drop, Liang et al. 2021).
    """
    p, q = one.log_softmax(-1), other.log_softmax(-1)
    return ((p.exp() - q.exp()) * (p - q)).sum(-1) / 2


def forgotten(
    batch: TextBatch, share: float, blank: int, specials: tuple[int, ...]
) -> Int64[Tensor, "b n"]:
    """The words of a batch with a share of them blanked out; what is special stays."""
    drawn = torch.rand(batch.words.shape, generator=batch.numbers(), device=batch.words.device)
    hidden: Bool[Tensor, "b n"] = drawn < share
    for number in specials:
        hidden = hidden & (batch.words != number)
    return batch.words.masked_fill(hidden, blank)


def measure(config: ClassifyTextConfig, data: SentimentData, device: torch.device) -> Measure:
    """Accuracy and loss on validation, and on some texts of training, evenly chosen.

    The first decides which epoch is kept: where classes are to weigh the same in the loss, they
    weigh the same in that as well, or one that only says the most frequent class could win.
    """
    train, count = data.texts["train"], sampled(data)
    # Drawn, for every n-th text of a set that is in some order could be of one class.
    rows = np.sort(np.random.default_rng(0).permutation(len(train))[:count])
    sample = data.windowed(train.only(rows.tolist()), data.metadata)
    parts = {"validation": data.validation, "train": sample}
    scorers = {name: scorer(part, data.metadata, device) for name, part in parts.items()}

    def of(model: nn.Module) -> dict[str, float]:
        figures = {}
        for name, part in parts.items():
            shares = scorers[name](model)
            right = shares.argmax(-1) == part.labels
            of_label = shares[np.arange(len(part.labels)), part.labels]
            if config.class_weights == "balanced":
                figures[metric(name, "balanced_accuracy")] = balanced(right, part.labels)
            figures[metric(name, "accuracy")] = float(right.mean())
            figures[metric(name, "loss")] = float(-np.log(of_label.clip(1e-30)).mean())
        return figures

    return of


def balanced(right: Bool[np.ndarray, "texts"], labels: Int64[np.ndarray, "texts"]) -> float:
    """The mean of the classes' accuracies; a class without a text has none."""
    counts = np.bincount(labels)
    hits = np.bincount(labels, right)
    return float((hits[counts > 0] / counts[counts > 0]).mean())


def measured(data: SentimentData) -> int:
    """How many texts that looks at."""
    return len(data.texts["validation"]) + sampled(data)


def held(config: ClassifyTextConfig, data: SentimentData | None) -> int:
    """Numbers that a step holds at the least: of each token of a batch, in every block."""
    tokens = 0 if data is None else int(data.train.rows.lengths.sum())
    return numbers_held(config.model, min(config.batch_tokens, tokens))


def sampled(data: SentimentData) -> int:
    """How many of them are of training: as many as of validation, within bounds."""
    train, validation = len(data.texts["train"]), len(data.texts["validation"])
    return min(train, max(validation, LEAST), MOST)


Shares = Float32[np.ndarray, "texts classes"]


def scorer(part: Windowed, facts: Metadata, device: torch.device) -> Callable[[nn.Module], Shares]:
    """A function that gives a model's probabilities for every text of a part, in order.

    A text that is read in windows has the mean of theirs.
    """
    pick = RowPicker(part.rows, facts.words, device)
    batches = list(Buckets(part.rows.lengths, AT_ONCE).epoch())
    order = np.concatenate([some for _, some in batches])

    @torch.no_grad()
    def shares(model: nn.Module) -> Shares:
        found = []
        for width, some in batches:
            read = pick(torch.from_numpy(some).to(device), width)
            logits = model(read.words, read.segments, positions=read.positions)
            found.append(logits.float().softmax(-1))
        rows = torch.cat(found).cpu().numpy()
        texts = np.zeros((len(part.labels), rows.shape[1]), np.float64)
        np.add.at(texts, part.owner[order], rows)
        mean: Shares = (texts / part.counts[:, None]).astype(np.float32)
        return mean

    return shares
