"""The task itself: which functions teach a BERT to read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.data.corpus import CORPORA
from regard.data.registry import lasting
from regard.errors import ConfigError
from regard.models.config import PretrainerConfig
from regard.models.pretrainer import Pretrainer
from regard.tasks.pretrain_bert.batches import PretrainBatches
from regard.tasks.pretrain_bert.config import PretrainConfig
from regard.tasks.pretrain_bert.data import Facts, PretrainData, read, read_other
from regard.tasks.pretrain_bert.loss import held, measure, measured, objective
from regard.tasks.pretrain_bert.metrics import Judgement, judge, summary
from regard.tasks.pretrain_bert.predict import parse_inputs, predict
from regard.tasks.pretrain_bert.report import look, views
from regard.tasks.task import Task


def settle(config: PretrainConfig, data: PretrainData) -> PretrainConfig:
    """The model with the words of its data and the questions that count."""
    follows: dict[str, Any] = {
        "words": len(data.facts.words),
        "length": config.longest,
        "asked": config.objectives.asked,
        "pooler": bool(config.objectives.asked),
    }
    for name, value in follows.items():
        now, default = getattr(config.model, name), getattr(PretrainerConfig(), name)
        if now not in (default, value):
            raise ConfigError(
                f"model.{name} is {now}, and {data.name} needs {value}: leave it out",
                key=f"model.{name}",
                value=now,
            )
    model = replace(config.model, **follows)
    return replace(config, data=lasting(config.data, CORPORA), model=model)


def build(config: PretrainConfig, facts: Facts, **options: Any) -> Pretrainer:
    """The model with its first weights."""
    return Pretrainer(config.model, **options)


PRETRAIN: Task[PretrainConfig, PretrainData, Facts] = Task(
    name="pretrain",
    unit="texts",
    batched="tokens",
    config=PretrainConfig,
    facts=Facts,
    read=read,
    read_other=read_other,
    settle=settle,
    build=build,
    batches=PretrainBatches,
    objective=objective,
    measure=measure,
    measured=measured,
    held=held,
    judge=judge,
    summary=summary,
    revive=Judgement.from_values,
    parse_inputs=parse_inputs,
    predict=predict,
    look=look,
    views=views,
)
