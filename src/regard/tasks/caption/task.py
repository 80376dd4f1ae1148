"""The task itself: which functions make a captioner."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import to_values
from regard.data.flickr import FLICKR8K
from regard.data.registry import lasting
from regard.errors import ConfigError, UserError
from regard.models.captioner import Captioner
from regard.models.config import CaptionerConfig, ViTConfig
from regard.models.efficientnet import load_pretrained
from regard.models.vit import ViT
from regard.run_folder import RunFolder
from regard.tasks import find
from regard.tasks.caption import features
from regard.tasks.caption.config import IMAGENET, OWN, CaptionConfig
from regard.tasks.caption.data import (
    SCENES,
    CaptionBatches,
    CaptionData,
    Metadata,
    read,
    read_other,
)
from regard.tasks.caption.loss import held, measure, measured, objective
from regard.tasks.caption.metrics import Evaluation, judge, summary
from regard.tasks.caption.occlusion import falls
from regard.tasks.caption.predict import parse_inputs, predict, speak
from regard.tasks.caption.report import look, views
from regard.tasks.task import Start, Task
from regard.training.fit import put_weights
from regard.training.optim import come_trained

WEIGHTS = "model.safetensors"


def settle(config: CaptionConfig, data: CaptionData) -> CaptionConfig:
    """The model as data and encoder want it: with their words and the width of their features."""
    model, count = config.model, len(data.metadata.words)
    if model.vocab_size not in (CaptionerConfig().vocab_size, count):
        raise ConfigError(
            f"model.vocab_size is {model.vocab_size}, and the vocabulary of {data.name} has "
            f"{count}: leave "
            "model.vocab_size out, or, if a run goes on, keep its data and its vocabulary as "
            "they were",
            key="model.vocab_size",
            value=model.vocab_size,
        )
    seen_by, encoder, width = config.encoder, model.encoder, model.encoder_width
    if seen_by == IMAGENET:
        width = features.width(config.feature_stage)
    elif seen_by != OWN:
        encoder = encoder_of(config)
        seen_by = str(Path(seen_by).absolute())  # a run may be loaded from any folder
    model = replace(model, vocab_size=count, encoder=encoder, encoder_width=width)
    return replace(
        config, data=lasting(config.data, (SCENES, FLICKR8K)), encoder=seen_by, model=model
    )


def encoder_of(config: CaptionConfig) -> ViTConfig:
    """The model of the run that is to be the encoder, if it sees images of the same size."""
    try:
        folder = RunFolder.open(Path(config.encoder))
    except UserError as trouble:
        raise UserError(
            f"{trouble}; --encoder takes {OWN}, {IMAGENET}, or the folder of a run"
        ) from None
    folder.expect_unedited()
    found = model_of(folder)
    if not isinstance(found, ViTConfig):
        raise UserError(f"{config.encoder} is a run of {folder.about()['task']}, which has no ViT")
    if not (folder.path / WEIGHTS).exists():
        raise UserError(f"{config.encoder} has no {WEIGHTS} yet: no epoch of it is over")
    if (found.image_size, found.channels) != (config.model.encoder.image_size, 3):
        raise UserError(
            f"{config.encoder} sees {found.image_size} × {found.image_size} pixels of "
            f"{found.channels} channels, and this run reads {config.model.encoder.image_size} × "
            f"{config.model.encoder.image_size} of 3: --model.encoder.image-size {found.image_size}"
        )
    return found


def start_of(given: CaptionConfig, settled: CaptionConfig) -> Start | None:
    """What an encoder from elsewhere decides, where that is not as it was said."""
    if given.encoder == OWN:
        return None
    ours, theirs = (to_values(config.model.encoder) for config in (given, settled))
    decides = {
        f"model.encoder.{name}": "is an EfficientNet, and no ViT"
        if given.encoder == IMAGENET
        else f"has {value!r}"
        for name, value in theirs.items()
        if given.encoder == IMAGENET or ours[name] != value
    }
    if given.model.encoder_width != (width := settled.model.encoder_width):
        decides["model.encoder_width"] = f"has {width}"
    return Start(f"encoder={given.encoder!r}", decides)


def model_of(folder: RunFolder) -> Any:
    """The configuration of a run's model, whatever its task is."""
    config = folder.config(find(folder.about().get("task", "")).load_config())
    return getattr(config, "chosen", config.model)  # where a run chose among several


def build(config: CaptionConfig, facts: Metadata, **options: Any) -> Captioner:
    """The model with its first weights; those of a trained encoder where it still is."""
    if config.encoder == IMAGENET:
        encoder: nn.Module | None = None
        if not config.kept:
            encoder = come_trained(load_pretrained(config.feature_stage).freeze(config.freeze))
        return Captioner(config.model, encoder=encoder, **options)
    model = Captioner(config.model, **options)
    if config.encoder != OWN:
        begin_with(model, Path(config.encoder))
    return model


def begin_with(model: Captioner, run: Path) -> None:
    """Give the encoder the weights of a run.

    When our own run is loaded, its weights come over them. So a run that is gone by then, or has
    made room for another of the same name, is passed over: it was there when ours began.
    """
    assert isinstance(model.encoder, ViT)
    try:
        folder = RunFolder.open(run)
        if model_of(folder) != model.config.encoder:
            return
        weights = folder.read_tensors(WEIGHTS)
    except UserError:
        return
    kept = {name: weight for name, weight in weights.items() if not name.startswith("head.")}
    try:
        put_weights(come_trained(model.encoder), kept)
    except ValueError as trouble:
        raise UserError(f"{run} does not fit the encoder: {trouble}") from None


CAPTION: Task[CaptionConfig, CaptionData, Metadata] = Task(
    name="caption",
    unit="words",
    batched="images",
    config=CaptionConfig,
    metadata=Metadata,
    load_data=read,
    load_other_data=read_other,
    resolve=settle,
    build_model=build,
    batches=CaptionBatches,
    loss=objective,
    evaluate_quick=measure,
    measured=measured,
    held=held,
    evaluate=judge,
    summary=summary,
    from_dict=Evaluation.from_values,
    parse_inputs=parse_inputs,
    asks_about="images",
    predict=predict,
    look=look,
    report=views,
    start=start_of,
    speak=speak,
    occlusion=falls,
)
