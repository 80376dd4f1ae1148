"""The task itself: which functions make a reader that tells texts apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.data.labelled import LABELLED
from regard.data.registry import lasting
from regard.errors import ConfigError
from regard.models.config import TextClassifierConfig
from regard.models.text_classifier import TextClassifier
from regard.tasks.classify_text.config import SCRATCH, SentimentConfig
from regard.tasks.classify_text.data import Facts, SentimentData, TextBatches, read, read_other
from regard.tasks.classify_text.init_from import begin, settled, start_of
from regard.tasks.classify_text.loss import held, measure, measured, objective
from regard.tasks.classify_text.metrics import Judgement, judge, summary
from regard.tasks.classify_text.predict import parse_inputs, predict
from regard.tasks.classify_text.report import look, views
from regard.tasks.task import Task


def settle(config: SentimentConfig, data: SentimentData) -> SentimentConfig:
    """The model with the sizes of its start, the words and classes of its data."""
    config = settled(config)
    model, facts = config.model, data.facts
    follows: dict[str, Any] = {"words": len(facts.words), "classes": len(facts.classes)}
    if config.start == SCRATCH:
        follows["length"] = config.longest
    for name, value in follows.items():
        now, default = getattr(model, name), getattr(TextClassifierConfig(), name)
        if now not in (default, value):
            raise ConfigError(
                f"model.{name} is {now}, and {data.name} needs {value}: leave it out",
                key=f"model.{name}",
                value=now,
            )
    model = replace(model, **follows)
    return replace(config, data=lasting(config.data, LABELLED), model=model)


def build(config: SentimentConfig, facts: Facts, **options: Any) -> TextClassifier:
    """The model with its first weights."""
    model = TextClassifier(config.model, **options)
    begin(model, config)
    return model


SENTIMENT: Task[SentimentConfig, SentimentData, Facts] = Task(
    name="sentiment",
    unit="texts",
    batched="tokens",
    config=SentimentConfig,
    facts=Facts,
    read=read,
    read_other=read_other,
    settle=settle,
    build=build,
    batches=TextBatches,
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
    start=start_of,
)
