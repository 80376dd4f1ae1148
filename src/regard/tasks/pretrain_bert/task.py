"""The task itself: which functions teach a BERT to read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from regard.data.corpus import CORPORA
from regard.data.registry import lasting
from regard.errors import ConfigError
from regard.models.config import BertForPretrainingConfig
from regard.models.pretrainer import BertForPretraining
from regard.tasks.pretrain_bert.batches import PretrainBatches
from regard.tasks.pretrain_bert.config import PretrainBertConfig
from regard.tasks.pretrain_bert.data import Metadata, PretrainData, read, read_other
from regard.tasks.pretrain_bert.loss import held, measure, measured, objective
from regard.tasks.pretrain_bert.metrics import Evaluation, judge, summary
from regard.tasks.pretrain_bert.predict import parse_inputs, predict
from regard.tasks.pretrain_bert.report import look, views
from regard.tasks.task import Task


def settle(config: PretrainBertConfig, data: PretrainData) -> PretrainBertConfig:
    """The model with the words of its data and the questions that count."""
    follows: dict[str, Any] = {
        "vocab_size": len(data.metadata.words),
        "context_length": config.max_length,
        "pair_tasks": config.loss_weights.pair_tasks,
        "pooler": bool(config.loss_weights.pair_tasks),
    }
    for name, value in follows.items():
        now, default = getattr(config.model, name), getattr(BertForPretrainingConfig(), name)
        if now not in (default, value):
            raise ConfigError(
                f"model.{name} is {now}, and {data.name} needs {value}: leave it out",
                key=f"model.{name}",
                value=now,
            )
    model = replace(config.model, **follows)
    return replace(config, data=lasting(config.data, CORPORA), model=model)


def build(config: PretrainBertConfig, facts: Metadata, **options: Any) -> BertForPretraining:
    """The model with its first weights."""
    return BertForPretraining(config.model, **options)


PRETRAIN_BERT: Task[PretrainBertConfig, PretrainData, Metadata] = Task(
    name="pretrain-bert",
    unit="texts",
    batched="tokens",
    config=PretrainBertConfig,
    metadata=Metadata,
    load_data=read,
    load_other_data=read_other,
    resolve=settle,
    build_model=build,
    batches=PretrainBatches,
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
)
