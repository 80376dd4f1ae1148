"""The task itself: which functions make a language model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.data.corpus import CORPORA
from regard.data.registry import lasting
from regard.errors import ConfigError
from regard.models.config import GPTConfig
from regard.models.gpt import GPT
from regard.tasks.language.cache_proof import check_cache, explain_cache
from regard.tasks.language.config import LanguageConfig
from regard.tasks.language.data import LanguageData, Metadata, WindowBatches, read, read_other
from regard.tasks.language.loss import held, measure, measured, objective
from regard.tasks.language.metrics import Evaluation, judge, summary
from regard.tasks.language.predict import parse_inputs, predict, stream
from regard.tasks.language.report import look, views
from regard.tasks.task import Task


def settle(config: LanguageConfig, data: LanguageData) -> LanguageConfig:
    """The model with the words of the data."""
    count = len(data.metadata.words)
    if config.model.vocab_size not in (GPTConfig().vocab_size, count):
        raise ConfigError(
            f"model.vocab_size is {config.model.vocab_size}, and the vocabulary of {data.name} "
            f"has {count}: "
            "leave model.vocab_size out",
            key="model.vocab_size",
            value=config.model.vocab_size,
        )
    where = lasting(config.data, CORPORA)
    return replace(config, data=where, model=replace(config.model, vocab_size=count))


def build(config: LanguageConfig, facts: Metadata, **options: Any) -> GPT:
    """The model with its first weights."""
    return GPT(config.model, **options)


LANGUAGE: Task[LanguageConfig, LanguageData, Metadata] = Task(
    name="language",
    unit="tokens",
    batched="windows",
    config=LanguageConfig,
    metadata=Metadata,
    load_data=read,
    load_other_data=read_other,
    resolve=settle,
    build_model=build,
    batches=WindowBatches,
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
    asking="generation",
    stream=stream,
    check_cache=check_cache,
    explain_cache=explain_cache,
)
