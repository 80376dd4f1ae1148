"""The task itself: which functions make a classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.config import change, to_values
from regard.data.registry import EMBEDDED, KNOWN, lasting
from regard.errors import ConfigError
from regard.evaluation.classification import ClassificationMetrics, summary
from regard.models.davit import DaViT
from regard.models.vit import ViT
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.classify.data import ClassifyData, ImageBatches, Metadata, read, read_other
from regard.tasks.classify.loss import held, measure, measured, objective
from regard.tasks.classify.occlusion import falls, reads
from regard.tasks.classify.predict import parse_inputs, predict
from regard.tasks.classify.report import judge, look, views
from regard.tasks.task import Task


def settle(config: ClassifyConfig, data: ClassifyData) -> ClassifyConfig:
    """The model as the data want it: with their classes and channels."""
    facts, model = data.metadata, config.chosen
    follows: dict[str, Any] = {"num_classes": len(facts.classes), "channels": facts.channels}
    for name, value in follows.items():
        given, default = getattr(model, name), getattr(type(model)(), name)
        if given not in (default, value):
            raise ConfigError(
                f"{config.table}.{name} is {given}, and {data.name} has {value}",
                key=f"{config.table}.{name}",
                value=given,
            )
    where = lasting(config.data, (*EMBEDDED, *KNOWN))
    settled: dict[str, Any] = {config.table: replace(model, **follows)}
    return replace(config, data=where, **settled)


def build(config: ClassifyConfig, facts: Metadata, **options: Any) -> ViT | DaViT:
    if config.kind == "davit":
        return DaViT(config.davit, **options)
    return ViT(config.model, **options)


def read_fitting(config: ClassifyConfig, facts: Metadata, name: str) -> ClassifyData:
    """Data of the user's choice, which must be as the run's model is."""
    config = change(config, {"data": name})
    data = read_other(config, facts)
    wanted, have = (to_values(each.chosen) for each in (settle(config, data), config))
    for field, needed in wanted.items():
        if needed != have[field]:
            raise ConfigError(
                f"{name} needs {config.table}.{field} = {needed!r}, and the run has "
                f"{have[field]!r}",
                key=f"{config.table}.{field}",
                value=have[field],
            )
    return data


CLASSIFY: Task[ClassifyConfig, ClassifyData, Metadata] = Task(
    name="classify",
    unit="images",
    batched="images",
    config=ClassifyConfig,
    metadata=Metadata,
    load_data=read,
    load_other_data=read_fitting,
    resolve=settle,
    build_model=build,
    batches=lambda config, data, device: ImageBatches(
        data.images.train, config.batch_size, config.train.seed, device
    ),
    loss=objective,
    evaluate_quick=measure,
    measured=measured,
    held=held,
    evaluate=judge,
    summary=lambda judged, split: f"{split}\n{summary(judged)}",
    from_dict=ClassificationMetrics.from_values,
    parse_inputs=parse_inputs,
    asks_about="images",
    predict=predict,
    look=look,
    report=views,
    occlusion=falls,
    reads=reads,
)
