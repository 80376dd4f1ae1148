"""The task itself: which functions make a captioner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.catalogue import resolve
from regard.errors import UserError
from regard.model.captioner import Captioner
from regard.model.config import CaptionerConfig, ViTConfig
from regard.model.efficientnet import load_pretrained
from regard.model.vit import ViT
from regard.runs import RunFolder
from regard.tasks import find
from regard.tasks.caption import features
from regard.tasks.caption.answers import opened, predict
from regard.tasks.caption.config import IMAGENET, OWN, CaptionConfig
from regard.tasks.caption.data import SCENES, CaptionBatches, CaptionData, Facts, read
from regard.tasks.caption.judging import Judgement, judge, summary
from regard.tasks.caption.learning import measure, measured, objective
from regard.tasks.caption.views import look, views
from regard.tasks.task import Task
from regard.train.loop import put_weights


def settle(config: CaptionConfig, data: CaptionData) -> CaptionConfig:
    """The model as data and encoder want it: with their words and the width of their features."""
    model, count = config.model, len(data.facts.words)
    if model.words not in (CaptionerConfig().words, count):
        raise UserError(f"model.words is {model.words}, and {data.name} has {count}")
    encoder, width = model.encoder, model.context_width
    if config.encoder == IMAGENET:
        width = features.width()
    elif config.encoder != OWN:
        encoder = encoder_of(config)
    where = config.data if config.data == SCENES else str(resolve(config.data).absolute())
    model = replace(model, words=count, encoder=encoder, context_width=width)
    return replace(config, data=where, model=model)


def encoder_of(config: CaptionConfig) -> ViTConfig:
    """The model of the run that is to be the encoder, if it sees images of the same size."""
    folder = RunFolder.open(Path(config.encoder))
    found = folder.config(find(folder.about().get("task", "")).load_config()).model
    if not isinstance(found, ViTConfig):
        raise UserError(f"{config.encoder} is a run of {folder.about()['task']}, which has no ViT")
    if (found.image, found.channels) != (config.model.encoder.image, 3):
        raise UserError(
            f"{config.encoder} sees {found.image} × {found.image} pixels of {found.channels} "
            f"channels, and this run reads {config.model.encoder.image} × "
            f"{config.model.encoder.image} of 3: --model.encoder.image {found.image}"
        )
    return found


def build(config: CaptionConfig, facts: Facts, **options: Any) -> Captioner:
    """The model with its first weights; those of a trained encoder where it still is."""
    if config.encoder == IMAGENET:
        encoder: nn.Module | None = None
        if not config.kept:
            encoder = load_pretrained().freeze(config.frozen)
        return Captioner(config.model, encoder=encoder, **options)
    model = Captioner(config.model, **options)
    if config.encoder != OWN:
        begin_with(model, Path(config.encoder))
    return model


def begin_with(model: Captioner, run: Path) -> None:
    """Give the encoder the weights of a run; a run that is gone has left them in ours."""
    if not (run / "model.safetensors").exists():
        return
    weights = RunFolder.open(run).read_tensors("model.safetensors")
    assert isinstance(model.encoder, ViT)
    kept = {name: weight for name, weight in weights.items() if not name.startswith("head.")}
    try:
        put_weights(model.encoder, kept)
    except ValueError as trouble:
        raise UserError(f"{run} does not fit the encoder: {trouble}") from None


CAPTION: Task[CaptionConfig, CaptionData, Facts] = Task(
    name="caption",
    unit="words",
    config=CaptionConfig,
    facts=Facts,
    read=read,
    settle=settle,
    build=build,
    batches=CaptionBatches,
    objective=objective,
    measure=measure,
    measured=measured,
    judge=judge,
    summary=summary,
    revive=Judgement.from_values,
    open=opened,
    predict=predict,
    look=look,
    views=views,
)
