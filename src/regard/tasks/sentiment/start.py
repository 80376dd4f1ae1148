"""Where a reader of texts begins: from scratch, from MiniLM, or from a run that has read before.

Such a start brings its vocabulary, its sizes and its weights. All of it ends up in the run's own
folder, so that the run loads when its start is gone; only to begin or to go on training is it
needed.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.data.vocabulary import AnyVocabulary, from_text
from regard.data.word_pieces import read_wordpieces
from regard.errors import UserError
from regard.model.config import BertConfig, TextClassifierConfig
from regard.model.minilm import WORDS, minilm, published_file
from regard.model.text_classifier import TextClassifier
from regard.runs import RunFolder
from regard.tasks import find
from regard.tasks.sentiment.config import MINILM, SCRATCH, SentimentConfig
from regard.train.loop import put_weights
from regard.train.optimiser import come_trained

WEIGHTS = "model.safetensors"
OUR_OWN = {"dropout", "drop_path", "mask", "pooler"}  # of a start's sizes, what a run may choose
PREFIX = "bert."  # of the weights of every run that has a reader of texts


def vocabulary_of(config: SentimentConfig) -> AnyVocabulary | None:
    """The vocabulary of the start; None from scratch, or where the start is not there any more."""
    if config.start == SCRATCH:
        return None
    if config.start == MINILM:
        return read_wordpieces(published_file(WORDS))
    try:
        facts = RunFolder.open(Path(config.start)).read_facts("data") or {}
    except UserError:
        return None
    return from_text(facts["vocabulary"]) if "vocabulary" in facts else None


def settled(config: SentimentConfig) -> SentimentConfig:
    """The configuration with the sizes of its start, if it has one and it is there."""
    if config.start == SCRATCH:
        return config
    if config.start == MINILM:
        return replace(config, model=taking(minilm()[0].config, config))
    try:
        folder = RunFolder.open(Path(config.start))
    except UserError as trouble:
        raise UserError(
            f"{trouble}; --start takes {SCRATCH}, {MINILM}, or the folder of a run"
        ) from None
    sizes = model_of(folder)
    if not isinstance(sizes, BertConfig) or vocabulary_of(config) is None:
        task = folder.about().get("task", "a task it does not name")
        raise UserError(f"{config.start} is a run of {task}, which has no reader of texts")
    if not (folder.path / WEIGHTS).exists():
        raise UserError(f"{config.start} has no {WEIGHTS} yet: no epoch of it is over")
    where = str(Path(config.start).absolute())  # our run may be loaded from any folder
    return replace(config, start=where, model=taking(sizes, config))


def model_of(folder: RunFolder) -> object:
    """The configuration of a run's model, whatever its task is."""
    return folder.config(find(folder.about().get("task", "")).load_config()).model


def taking(sizes: BertConfig, config: SentimentConfig) -> TextClassifierConfig:
    """The model of a configuration with the sizes of another."""
    taken: dict[str, Any] = {
        f.name: getattr(sizes, f.name) for f in fields(BertConfig) if f.name not in OUR_OWN
    }
    if sizes.place == "learned" and config.longest > sizes.length:
        raise UserError(
            f"{config.start} reads {sizes.length} tokens at the most, and --longest is "
            f"{config.longest}"
        )
    return replace(config.model, **taken)


def begin(model: TextClassifier, config: SentimentConfig) -> None:
    """Give the reader its first weights, those of its start where that still is.

    When a run of ours is loaded, its own weights come over them. So a start that is gone by then,
    or has made room for another of the same name, is passed over: it was there when ours began.
    """
    if config.start == SCRATCH or config.untrained:
        return
    if config.start == MINILM:
        if weights := weights_of_minilm():
            put_weights(come_trained(model.bert), weights)
        return
    try:
        folder = RunFolder.open(Path(config.start))
        same = taking(bert_config(model_of(folder)), config) == config.model
    except (UserError, TypeError):
        return
    if not same or not (folder.path / WEIGHTS).exists():
        return
    found = folder.read_tensors(WEIGHTS)
    kept = {n.removeprefix(PREFIX): w for n, w in found.items() if n.startswith(PREFIX)}
    wanted = model.bert.state_dict()
    try:
        put_weights(come_trained(model.bert), {n: w for n, w in kept.items() if n in wanted})
    except ValueError as trouble:
        raise UserError(f"{config.start} does not fit: {trouble}") from None


def bert_config(model: object) -> BertConfig:
    if not isinstance(model, BertConfig):
        raise TypeError(f"{type(model).__name__} reads no texts")
    return model


def weights_of_minilm() -> dict[str, Tensor] | None:
    """The published weights, or None where they are not installed."""
    try:
        return minilm()[0].state_dict()
    except UserError:
        return None
