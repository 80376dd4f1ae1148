"""The task itself: which functions make a translator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.data.pairs import lasting_pairs
from regard.errors import ConfigError
from regard.models.config import Seq2SeqConfig
from regard.models.seq2seq import Seq2Seq
from regard.tasks.task import Task
from regard.tasks.translate.config import TranslateConfig
from regard.tasks.translate.data import Facts, PairBatches, TranslateData, read, read_other
from regard.tasks.translate.loss import held, measure, measured, objective
from regard.tasks.translate.metrics import Judgement, judge, summary
from regard.tasks.translate.predict import parse_inputs, predict
from regard.tasks.translate.report import look, views


def settle(config: TranslateConfig, data: TranslateData) -> TranslateConfig:
    """The model with the words of the data, and with room for the longest sentence."""
    model, words, length = config.model, len(data.facts.words), config.longest + 1
    if model.words not in (Seq2SeqConfig().words, words):
        raise ConfigError(
            f"model.words is {model.words}, and the vocabulary of {data.name} has {words}: "
            "leave model.words out",
            key="model.words",
            value=model.words,
        )
    if model.length not in (Seq2SeqConfig().length, length):
        raise ConfigError(
            f"model.length is {model.length}, and {length} with longest={config.longest}, a start "
            "counted: leave model.length out",
            key="model.length",
            value=model.length,
        )
    model = replace(model, words=words, length=length)
    direction = data.pairs.direction
    return replace(config, data=lasting_pairs(config.data), direction=direction, model=model)


def build(config: TranslateConfig, facts: Facts, **options: Any) -> Seq2Seq:
    """The model with its first weights."""
    return Seq2Seq(config.model, **options)


TRANSLATE: Task[TranslateConfig, TranslateData, Facts] = Task(
    name="translate",
    unit="tokens",
    batched="tokens",
    config=TranslateConfig,
    facts=Facts,
    read=read,
    read_other=read_other,
    settle=settle,
    build=build,
    batches=PairBatches,
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
    asking="writing",
)
