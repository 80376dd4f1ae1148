"""Where a reader of texts begins: from scratch, from MiniLM, or from a run that has read before.

Such a start brings its vocabulary, its sizes and its weights. All of it ends up in the run's own
folder, so that the run loads when its start is gone; only to begin or to go on training is it
needed.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.tokenizer import AnyVocabulary, TokenizerConfig, from_text
from regard.data.word_pieces import read_wordpieces
from regard.errors import UserError
from regard.models.bert import Bert
from regard.models.config import BertConfig, TextClassifierConfig
from regard.models.layers import init_weights
from regard.models.minilm import WORDS, minilm, published_file
from regard.models.text_classifier import TextClassifier
from regard.run_folder import RunFolder
from regard.tasks import find
from regard.tasks.classify_text.config import MINILM, SCRATCH, ClassifyTextConfig
from regard.tasks.task import Start
from regard.training.fit import put_weights
from regard.training.optim import come_trained

WEIGHTS = "model.safetensors"
OUR_OWN = {"dropout", "drop_path", "mask", "pooler"}  # of a start's sizes, what a run may choose
PREFIX = "bert."  # of the weights of every run that has a reader of texts


def vocabulary_of(config: ClassifyTextConfig) -> AnyVocabulary | None:
    """The vocabulary of the start; None from scratch, or where the start is not there any more."""
    if config.init_from == SCRATCH:
        return None
    try:
        if config.init_from == MINILM:
            return read_wordpieces(published_file(WORDS))
        facts = RunFolder.open(Path(config.init_from)).read_facts("data") or {}
    except UserError:
        return None
    return from_text(facts["vocabulary"]) if "vocabulary" in facts else None


def settled(config: ClassifyTextConfig) -> ClassifyTextConfig:
    """The configuration with the sizes of its start, if it has one, or what is wrong with that."""
    if config.init_from == SCRATCH:
        return config
    if config.init_from == MINILM:
        return replace(config, model=taking(minilm_for(config).config, config))
    try:
        folder = RunFolder.open(Path(config.init_from))
    except UserError as trouble:
        raise UserError(
            f"{trouble}; --init-from takes {SCRATCH}, {MINILM}, or the folder of a run"
        ) from None
    folder.expect_unedited()
    sizes = sizes_of(folder)
    found = folder.read_tensors(WEIGHTS)  # or a sentence: not there yet, or damaged
    if config.model.pooler and f"{PREFIX}pooler.weight" not in found:
        raise UserError(f"{config.init_from} has no pooler to take over: leave --model.pooler out")
    if vocabulary_of(config) is None:
        raise UserError(f"{config.init_from} has no data.json with a vocabulary")
    where = str(Path(config.init_from).absolute())  # our run may be loaded from any folder
    return replace(config, init_from=where, model=taking(sizes, config))


def sizes_of(folder: RunFolder) -> BertConfig:
    """The configuration of a run's reader of texts, whatever its task is."""
    task = folder.about().get("task", "")
    model = folder.config(find(task).load_config()).model
    if not isinstance(model, BertConfig):
        raise UserError(f"{folder.path} is a run of {task}, which has no reader of texts")
    return model


def taking(sizes: BertConfig, config: ClassifyTextConfig) -> TextClassifierConfig:
    """The model of a configuration with the sizes of another."""
    taken: dict[str, Any] = {
        f.name: getattr(sizes, f.name) for f in fields(BertConfig) if f.name not in OUR_OWN
    }
    if sizes.pos_embed == "learned" and config.max_length > sizes.context_length:
        raise UserError(
            f"{config.init_from} reads {sizes.context_length} tokens at the most, and "
            "--max-length is "
            f"{config.max_length}"
        )
    return replace(config.model, **taken)


def start_of(given: ClassifyTextConfig, settled: ClassifyTextConfig) -> Start | None:
    """What the start of a configuration decides, where that is not as it was said."""
    if given.init_from == SCRATCH:
        return None
    taken = (f.name for f in fields(BertConfig) if f.name not in OUR_OWN)
    decides = {
        f"model.{name}": f"has {getattr(settled.model, name)!r}"
        for name in taken
        if getattr(given.model, name) != getattr(settled.model, name)
    }
    words = {f"tokenizer.{f.name}": "has words of its own" for f in fields(TokenizerConfig)}
    return Start(f"init_from={given.init_from!r}", decides | words)


def begin(model: TextClassifier, config: ClassifyTextConfig) -> None:
    """Give the reader its first weights, those of its start where that still is.

    When a run of ours is loaded, its own weights come over them. So a start that is gone by then,
    or has made room for another of the same name, is passed over: before training, `settled` has
    looked at it.
    """
    if config.init_from == SCRATCH or config.random_init:
        return
    try:
        weights = weights_of(config)
    except UserError:
        return
    wanted = model.bert.state_dict()
    put_weights(come_trained(model.bert), {n: w for n, w in weights.items() if n in wanted})
    draw_head(model)


def draw_head(model: TextClassifier) -> None:
    """Draw the head whatever the seed is: runs from one start then begin at the same weights.

    A head hardly moves, and the reader turns its vectors towards it. Were each run given one of its
    own, the mean of their weights (`regard average`) would whisper where each of them speaks.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        init_weights(model.head, model.config.init, model.config.layers)


def weights_of(config: ClassifyTextConfig) -> dict[str, Tensor]:
    """The weights of a start, under the names that its reader of texts has for them."""
    if config.init_from == MINILM:
        return minilm_for(config).state_dict()
    folder = RunFolder.open(Path(config.init_from))
    if taking(sizes_of(folder), config) != config.model:
        raise UserError(f"{config.init_from} has other sizes by now")
    found = folder.read_tensors(WEIGHTS)
    return {n.removeprefix(PREFIX): w for n, w in found.items() if n.startswith(PREFIX)}


def minilm_for(config: ClassifyTextConfig) -> Bert:
    """MiniLM with its pooler if the configuration wants one."""
    return minilm(pooler=config.model.pooler)[0]
