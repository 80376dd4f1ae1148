"""How a classifier learns and how it is measured on the way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.augment import Augment, ImageBatch, Mixed
from regard.data.images import Split
from regard.models.sizes import numbers_held
from regard.run_folder.metric_lines import metric
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.classify.data import ClassifyData, Metadata
from regard.tasks.image_data import placed
from regard.training.fit import Measure
from regard.training.step import Objective

AT_ONCE = 1024  # images in a batch without gradients, unless they are large
PIXELS_AT_ONCE = AT_ONCE * 64 * 64


def objective(config: ClassifyConfig, facts: Metadata) -> Objective:
    """Vary a batch, ask the model, and sum its loss."""
    augment = Augment(config.augment)

    def of(model: nn.Module, batch: ImageBatch) -> tuple[Tensor, int]:
        mixed = augment(batch.images.float() / 255, batch.labels, batch.numbers())
        logits = model(facts.normalised(mixed.images))
        return loss_of(logits, mixed, config), len(batch.labels)

    return of


def loss_of(logits: Float[Tensor, "b classes"], mixed: Mixed, config: ClassifyConfig) -> Tensor:
    """Cross-entropy summed over a batch whose images may each show two classes."""
    logits, smoothing = logits.float(), config.label_smoothing

    def against(labels: Tensor) -> Tensor:
        return F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)

    if not (config.augment.mixup_alpha or config.augment.cutmix_alpha):
        return against(mixed.labels).sum()
    return (mixed.weight * against(mixed.labels) + (1 - mixed.weight) * against(mixed.others)).sum()


def measure(config: ClassifyConfig, data: ClassifyData, device: torch.device) -> Measure:
    """Accuracy and loss on validation, and on as many training images, both as they are.

    Training images are measured without augmentation and with the same weights, so that the
    distance between the two is what the model has memorised and nothing else.
    """
    splits = {"validation": data.images.validation, "train": training_sample(data)}
    scorers = {name: scorer(split, data.metadata, device) for name, split in splits.items()}

    def of(model: nn.Module) -> dict[str, float]:
        figures = {}
        for name, split in splits.items():
            logits = torch.from_numpy(scorers[name](model))
            labels = torch.from_numpy(split.labels)
            right = (logits.argmax(-1) == labels).double().mean()
            figures[metric(name, "accuracy")] = float(right)
            figures[metric(name, "loss")] = float(F.cross_entropy(logits.double(), labels))
        return figures

    return of


def training_sample(data: ClassifyData) -> Split:
    """Training images, evenly chosen, as many as there are to choose by."""
    train, count = data.images.train, len(data.images.validation)
    rows = np.unique(np.linspace(0, len(train) - 1, min(count, len(train))).astype(np.int64))
    return train.only(rows)


def measured(data: ClassifyData) -> int:
    return len(data.images.validation) + len(training_sample(data))


def held(config: ClassifyConfig, data: ClassifyData | None) -> int:
    """Numbers that a step holds at the least: of each image, its patches in every block."""
    model = config.chosen
    count = 1 if data is None else len(data.images.train)
    patches = (model.image_size // model.patch_size) ** 2
    return numbers_held(model, patches * min(config.batch_size, count))


Scores = Float32[np.ndarray, "n classes"]


def scorer(split: Split, facts: Metadata, device: torch.device) -> Callable[[nn.Module], Scores]:
    """A function that gives a model's scores for every image of a split, in order."""
    at_once = max(1, min(AT_ONCE, PIXELS_AT_ONCE // facts.size**2))
    count, pixels = len(split), placed(split.images, device)

    @torch.no_grad()
    def scores(model: nn.Module) -> Scores:
        found = []
        for start in range(0, count, at_once):
            images = facts.inputs(pixels(slice(start, min(start + at_once, count))))
            found.append(model(images).float())
        return torch.cat(found).cpu().numpy()

    return scores
