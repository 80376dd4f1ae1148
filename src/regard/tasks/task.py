"""What differs between tasks, in one frozen value. Loop, commands and reports receive it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from regard.inspection.occlusion import Occlusion, Tell
from regard.training.config import TrainConfig
from regard.training.fit import Batches, Measure
from regard.training.step import Objective
from regard.visualization.document import Document, Section

C = TypeVar("C", bound="Config")  # a task's configuration
D = TypeVar("D", bound="Data")  # the data of a run
F = TypeVar("F")  # what a run must know of its data when they are gone


@runtime_checkable
class Config(Protocol):
    """What every task's configuration has; the rest is the task's own."""

    @property
    def data(self) -> str: ...
    @property
    def model(self) -> Any: ...
    @property
    def train(self) -> TrainConfig: ...


@runtime_checkable
class Data(Protocol):
    """Data that were read, with what a run writes down about them."""

    @property
    def name(self) -> str: ...
    @property
    def metadata(self) -> Any: ...
    def words(self) -> str: ...


@dataclass(frozen=True)
class Trained(Generic[C, F]):
    """A model with everything it needs to answer: what predicting and looking start from."""

    model: nn.Module
    config: C
    metadata: F
    device: torch.device


@dataclass(frozen=True)
class Looked:
    """Where a model looked: a document for the browser, and a way to draw it for paper."""

    document: Document
    draw: Callable[[Path], None]


class Start(NamedTuple):
    """Where weights come from that others have trained, and what that leaves nobody to say."""

    name: str  # as it was said: start='minilm'
    decides: Mapping[str, str]  # fields by dotted name, each with words on what it has: "has 6"


@runtime_checkable
class Judged(Protocol):
    """The figures of a model on a split, the deciding one first."""

    def to_values(self) -> dict[str, Any]: ...


@runtime_checkable
class Proof(Protocol):
    """Something shown to hold of a run, or not to; it prints as lines for a terminal."""

    @property
    def holds(self) -> bool: ...
    def to_values(self) -> dict[str, Any]: ...


def batch_field(config: object) -> str:
    """The field that says how large a batch is: in tokens where texts differ in length."""
    return next(name for name in ("batch_size", "batch_tokens") if hasattr(config, name))


Show = Callable[[str], object]  # what is done with a piece of text once it is known
Prove = Callable[[Trained[C, F], Sequence[Any], Callable[[], D]], list[Any]]


@dataclass(frozen=True)
class Task(Generic[C, D, F]):
    """One task. Every part is a plain function, so that each can be read and tested alone."""

    name: str
    unit: str  # what the loss is a mean over, and speed is told in: images, words, tokens
    batched: str  # what a batch is so many of: images, windows
    config: type[Any]  # C; protocols with fields cannot be asked for subclasses
    metadata: type[Any]  # F

    load_data: Callable[[C], D]
    """The data a configuration names."""
    load_other_data: Callable[[C, F, str], D]
    """`(config, facts, name)`: data that a run was not trained on, if it can speak of them."""
    resolve: Callable[[C, D], C]
    """The configuration with what the data decide filled in: sizes, classes."""
    build_model: Callable[..., nn.Module]
    """`(config, facts, **options)`: the model, with its first weights."""
    batches: Callable[[C, D, torch.device], Batches]
    """Training data on their way to the device."""
    loss: Callable[[C, F], Objective]
    """The summed loss of a batch."""
    evaluate_quick: Callable[[C, D, torch.device], Measure]
    """Figures after each epoch, named `split.figure`, the deciding one first."""
    measured: Callable[[D], int]
    """How many items that looks at."""

    evaluate: Callable[[Trained[C, F], D, str], Judged]
    """`(trained, data, split)`: the final figures, with intervals."""
    summary: Callable[[Any, str], str]
    """The figures of a judgement on a split, as lines for a terminal."""
    from_dict: Callable[[dict[str, Any]], Judged]
    """A judgement from its `to_values`."""
    parse_inputs: Callable[[Trained[C, F], Iterable[Any], Callable[[], D]], Iterator[Any]]
    """What a user passes or names, as items that the model can be asked about, one at a time; an
    `Unreadable` in place of what is none."""
    predict: Callable[[Trained[C, F], Sequence[Any]], list[Any]]
    """An answer to each item, or as many to each of them; it prints as a line, and has
    `to_values`."""
    look: Callable[[Trained[C, F], Sequence[Any], Callable[[], D]], Looked]
    """Where the model looked, for some items."""
    report: Callable[[Trained[C, F], D, str, Any], list[Section]]
    """`(trained, data, split, judged)`: the sections of the report that are the task's own."""

    asks_about: str = "texts"
    """What its items are: images or texts."""
    start: Callable[[C, C], Start | None] | None = None
    """`(given, settled)`: what weights from elsewhere decide, if a configuration takes any."""
    held: Callable[[C, D | None], int] | None = None
    """Numbers that a step holds to go backward, at the least; without data, of one item."""
    asking: str = ""
    """The part of the configuration that decides how answers are made: `predict` may change it."""
    stream: Callable[[Trained[C, F], Sequence[Any], Show], list[Any]] | None = None
    """What `predict` does, shown piece by piece as it is written, with a line's end after each."""
    speak: Callable[[Trained[C, F], Any, Show], Any] | None = None
    """What `predict` answers to one item, each piece of its text shown once it is sure."""
    occlusion: Callable[[Trained[C, F], Any, Tell], Occlusion] | None = None
    """For one item: how far the answer falls when each patch of it is deleted."""
    reads: Callable[[Trained[C, F], Any, int], dict[str, Any]] | None = None
    """`(trained, input, patch)`: what one patch of an item read, as packed maps."""
    check_cache: Prove[C, F, D] | None = None
    """For items, or none: whether scores through the cache are those without, a `Proof`."""
    explain_cache: Prove[C, F, D] | None = None
    """For items, or none: what one word more computes anew, a `Proof`."""
