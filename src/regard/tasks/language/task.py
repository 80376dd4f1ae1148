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
from regard.tasks.language.data import Facts, LanguageData, WindowBatches, read, read_other
from regard.tasks.language.loss import held, measure, measured, objective
from regard.tasks.language.metrics import Judgement, judge, summary
from regard.tasks.language.predict import parse_inputs, predict, stream
from regard.tasks.language.report import look, views
from regard.tasks.task import Task


def settle(config: LanguageConfig, data: LanguageData) -> LanguageConfig:
    """The model with the words of the data."""
    count = len(data.facts.words)
    if config.model.words not in (GPTConfig().words, count):
        raise ConfigError(
            f"model.words is {config.model.words}, and the vocabulary of {data.name} has {count}: "
            "leave model.words out",
            key="model.words",
            value=config.model.words,
        )
    where = lasting(config.data, CORPORA)
    return replace(config, data=where, model=replace(config.model, words=count))


def build(config: LanguageConfig, facts: Facts, **options: Any) -> GPT:
    """The model with its first weights."""
    return GPT(config.model, **options)


LANGUAGE: Task[LanguageConfig, LanguageData, Facts] = Task(
    name="language",
    unit="tokens",
    batched="windows",
    config=LanguageConfig,
    facts=Facts,
    read=read,
    read_other=read_other,
    settle=settle,
    build=build,
    batches=WindowBatches,
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
    asking="speaking",
    stream=stream,
    check_cache=check_cache,
    explain_cache=explain_cache,
)
