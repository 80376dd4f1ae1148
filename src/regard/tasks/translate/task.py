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
from regard.tasks.translate.data import Metadata, PairBatches, TranslateData, read, read_other
from regard.tasks.translate.loss import held, measure, measured, objective
from regard.tasks.translate.metrics import Evaluation, judge, summary
from regard.tasks.translate.predict import parse_inputs, predict
from regard.tasks.translate.report import look, views


def settle(config: TranslateConfig, data: TranslateData) -> TranslateConfig:
    """The model with the words of the data, and with room for the longest sentence."""
    model, words, length = config.model, len(data.metadata.words), config.max_length + 1
    if model.vocab_size not in (Seq2SeqConfig().vocab_size, words):
        raise ConfigError(
            f"model.vocab_size is {model.vocab_size}, and the vocabulary of {data.name} has "
            f"{words}: "
            "leave model.vocab_size out",
            key="model.vocab_size",
            value=model.vocab_size,
        )
    if model.context_length not in (Seq2SeqConfig().context_length, length):
        raise ConfigError(
            f"model.context_length is {model.context_length}, and {length} with "
            f"max_length={config.max_length}, a start "
            "counted: leave model.context_length out",
            key="model.context_length",
            value=model.context_length,
        )
    model = replace(model, vocab_size=words, context_length=length)
    direction = data.pairs.direction
    return replace(config, data=lasting_pairs(config.data), direction=direction, model=model)


def build(config: TranslateConfig, facts: Metadata, **options: Any) -> Seq2Seq:
    """The model with its first weights."""
    return Seq2Seq(config.model, **options)


TRANSLATE: Task[TranslateConfig, TranslateData, Metadata] = Task(
    name="translate",
    unit="tokens",
    batched="tokens",
    config=TranslateConfig,
    metadata=Metadata,
    load_data=read,
    load_other_data=read_other,
    resolve=settle,
    build_model=build,
    batches=PairBatches,
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
)
