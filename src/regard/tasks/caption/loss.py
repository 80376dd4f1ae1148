"""How a captioner learns and how it is measured on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.augment import Augment
from regard.data.captions import CaptionSplit
from regard.data.synthetic.scene_grammar import parse, true_of
from regard.data.synthetic.scenes import scene
from regard.evaluation.cider import cider
from regard.evaluation.ptb import words as ptb_words
from regard.models.captioner import Captioner
from regard.models.sizes import numbers_held
from regard.run_folder.metric_lines import metric
from regard.tasks.caption.config import CaptionConfig, CaptionGenerationConfig
from regard.tasks.caption.data import (
    CaptionBatch,
    CaptionData,
    Metadata,
    inputs_of,
    lined,
    source_of,
)
from regard.tasks.caption.writing import write_all
from regard.training.fit import Measure
from regard.training.step import Objective

SAMPLE = 256  # images that are written about after each epoch, of validation and of training
TRUE, CIDER = "true_captions", "CIDEr-D"


def objective(config: CaptionConfig, facts: Metadata) -> Objective:
    """Show the model images and the words so far; sum its loss over the next words."""
    augment, ready = Augment(config.augment), inputs_of(config, facts)

    def of(model: nn.Module, batch: CaptionBatch) -> tuple[Tensor, Tensor]:
        if batch.seen.dtype == torch.uint8:
            images = batch.seen.float() / 255
            nothing = torch.zeros(len(images), dtype=torch.int64, device=images.device)
            seen = ready(augment(images, nothing, batch.numbers()).images)
        else:
            seen = batch.seen.float()
        # No mask for the padding: it comes after all words, and nothing earlier reads it.
        logits = model(seen, batch.words[:, :-1])
        return loss_of(logits, batch.words[:, 1:], facts, config.label_smoothing)

    return of


def loss_of(
    logits: Tensor, wanted: Tensor, facts: Metadata, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Cross-entropy summed over the words that are no padding, and how many there are."""
    padding = facts.words.padding
    loss = F.cross_entropy(
        logits.float().flatten(0, 1),
        wanted.flatten(),
        ignore_index=padding,
        reduction="sum",
        label_smoothing=smoothing,
    )
    return loss, (wanted != padding).sum()


def measure(config: CaptionConfig, data: CaptionData, device: torch.device) -> Measure:
    """How good captions are, and the loss of a word, on validation and on as many training images.

    Of drawn scenes the first figure is the share of captions that are true; of others it is
    CIDEr-D. Words are taken one by one, without beams, since this is done after every epoch.
    """
    parts = sample(data)
    # Features are kept by split: those of a few images alone would all be computed again.
    images = {
        name: data.captions[name].images if config.kept else parts[name].images for name in parts
    }
    sources = {name: source_of(config, data.metadata, images[name], device) for name in parts}
    loss = {name: losses(config, data, part, device) for name, part in parts.items()}
    judge = {name: judge_of(data, name, part) for name, part in parts.items()}
    figure = TRUE if data.drawn else CIDER

    def of(model: nn.Module) -> dict[str, float]:
        assert isinstance(model, Captioner)
        figures = {}
        for name, part in parts.items():
            written = write_all(
                model, sources[name], len(part), data.metadata, CaptionGenerationConfig()
            )
            figures[metric(name, figure)] = float(
                judge[name]([text.text for text in written]).mean()
            )
            figures[metric(name, "loss")] = loss[name](model, sources[name])
        return figures

    return of


def sample(data: CaptionData) -> dict[str, CaptionSplit]:
    """The first images of validation and of training: of scenes and of shuffled files, any."""
    found = {}
    for name in ("validation", "train"):
        split = data.captions[name]
        rows = np.arange(min(SAMPLE, len(split), len(data.captions.validation)))
        found[name] = split.only(rows)
    return found


def measured(data: CaptionData) -> int:
    """About how many items measuring is worth: each word of a caption is a pass of its own."""
    return 12 * sum(map(len, sample(data).values()))


def held(config: CaptionConfig, data: CaptionData | None) -> int:
    """Numbers that a step holds at the least: patches in the encoder, two words of each caption."""
    model, count = config.model, 1 if data is None else len(data.captions.train)
    images = min(config.batch_size, count)
    rows, columns = model.encoder.grid
    seen = 0 if model.encoder_width is not None else images * rows * columns
    return numbers_held(model.encoder, seen) + numbers_held(
        model, 2 * images * config.captions_per_image
    )


def judge_of(
    data: CaptionData, split: str, part: CaptionSplit
) -> Callable[[Sequence[str]], np.ndarray]:
    """A function from captions, one an image, to what each is worth."""
    if data.drawn:
        return lambda texts: truths(texts, split)
    references = [[ptb_words(text) for text in texts] for texts in part.captions]
    return lambda texts: cider([ptb_words(text) for text in texts], references)


def truths(texts: Sequence[str], split: str) -> np.ndarray:
    """1 for each caption that is in the grammar and true of its scene, which has its number."""
    found = []
    for row, text in enumerate(texts):
        text = text.replace(" ,", ",")
        found.append(float(parse(text) is not None and true_of(text, scene(row, split))))
    return np.array(found)


def losses(
    config: CaptionConfig, data: CaptionData, part: CaptionSplit, device: torch.device
) -> Callable[[Captioner, Callable[[slice], Tensor]], float]:
    """A function that gives the loss of a word in the first caption of each image."""
    facts, at_once = data.metadata, 64
    numbers = [facts.words.encode(texts[0])[: facts.longest] for texts in part.captions]
    lines = [
        lined(numbers[at : at + at_once], facts).to(device)
        for at in range(0, len(numbers), at_once)
    ]

    @torch.no_grad()
    def of(model: Captioner, source: Callable[[slice], Tensor]) -> float:
        total = count = 0.0
        for at, words in enumerate(lines):
            seen = source(slice(at * at_once, at * at_once + len(words)))
            loss, some = loss_of(model(seen, words[:, :-1]), words[:, 1:], facts)
            total, count = total + float(loss), count + float(some)
        return total / max(1.0, count)

    return of
