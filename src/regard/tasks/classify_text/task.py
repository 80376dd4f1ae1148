"""The task itself: which functions make a reader that tells texts apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.data.labelled import LABELLED
from regard.data.registry import lasting
from regard.errors import ConfigError
from regard.models.config import TextClassifierConfig
from regard.models.text_classifier import TextClassifier
from regard.tasks.classify_text.config import SCRATCH, ClassifyTextConfig
from regard.tasks.classify_text.data import Metadata, SentimentData, TextBatches, read, read_other
from regard.tasks.classify_text.init_from import begin, settled, start_of
from regard.tasks.classify_text.loss import held, measure, measured, objective
from regard.tasks.classify_text.metrics import Evaluation, judge, summary
from regard.tasks.classify_text.predict import parse_inputs, predict
from regard.tasks.classify_text.report import look, views
from regard.tasks.task import Task


def settle(config: ClassifyTextConfig, data: SentimentData) -> ClassifyTextConfig:
    """The model with the sizes of its start, the words and classes of its data."""
    config = settled(config)
    model, facts = config.model, data.metadata
    follows: dict[str, Any] = {"vocab_size": len(facts.words), "num_classes": len(facts.classes)}
    if config.init_from == SCRATCH:
        follows["context_length"] = config.max_length
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


def build(config: ClassifyTextConfig, facts: Metadata, **options: Any) -> TextClassifier:
    """The model with its first weights."""
    model = TextClassifier(config.model, **options)
    begin(model, config)
    return model


CLASSIFY_TEXT: Task[ClassifyTextConfig, SentimentData, Metadata] = Task(
    name="classify-text",
    unit="texts",
    batched="tokens",
    config=ClassifyTextConfig,
    metadata=Metadata,
    load_data=read,
    load_other_data=read_other,
    resolve=settle,
    build_model=build,
    batches=TextBatches,
    loss=objective,
    evaluate_quick=measure,
    measured=measured,
    held=held,
    evaluate=judge,
    summary=summary,
    from_dict=Evaluation.from_values,
    parse_inputs=parse_inputs,
    predict=predict,
    look=look,
    report=views,
    start=start_of,
)
