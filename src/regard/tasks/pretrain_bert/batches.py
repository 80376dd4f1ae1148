"""Batches of running text and of pairs of sentences, with what is asked about each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.augment import seeded
from regard.data.batching import Buckets, RowPicker
from regard.tasks.image_data import batch_seeds
from regard.tasks.pretrain_bert.config import PretrainBertConfig
from regard.tasks.pretrain_bert.data import NEXT, PretrainData, measured_text, running_text
from regard.tasks.pretrain_bert.pairs import INFERENCE, INVERTED


@dataclass(frozen=True)
class PretrainBatch:
    """Texts as they are read, and what is asked: one of the answers is there, or none."""

    words: Int64[Tensor, "b n"]
    segments: Int64[Tensor, "b n"] | None
    positions: Int64[Tensor, "b n"]
    nsp: Int64[Tensor, "b"] | None = None
    inversion: Int64[Tensor, "b"] | None = None
    nli: Int64[Tensor, "b"] | None = None
    seed: int = 0
    generator: torch.Generator | None = None  # of a recorded step, which seeds it itself

    @property
    def question(self) -> str | None:
        """What is asked about the pairs; in running text, words are hidden as well."""
        named = (NEXT, INVERTED, INFERENCE)
        return next((name for name in named if getattr(self, name) is not None), None)

    @property
    def running(self) -> bool:
        """Whether this is running text."""
        return self.question in (None, NEXT)

    def numbers(self) -> torch.Generator:
        """Random numbers, the same each time for the same seed."""
        return self.generator or seeded(self.seed, self.words.device)


Maker = Callable[[int], PretrainBatch]  # a batch, from the seed of its random numbers


class PretrainBatches:
    """Batches of running text, and of pairs for each question, in an order drawn for each epoch.

    Every batch of running text has one shape: texts are filled up to the longest. Where an epoch's
    texts are fewer than their batches hold, some come twice; where they are more, some wait.
    """

    def __init__(
        self, config: PretrainBertConfig, data: PretrainData, device: torch.device
    ) -> None:
        part, words = data.parts["train"], data.metadata.words
        self.config, self.seed, self.device = config, config.train.seed, device
        self.documents, self.running = part.documents, 0
        if config.loss_weights.reads:
            self.usual = measured_text(part.documents, config, f"train of {data.name}")
            self.at_once = max(1, min(config.batch_tokens // config.max_length, len(self.usual)))
            self.running = len(self.usual) // self.at_once
            self.pick = RowPicker(self.usual.rows, words, device)
        self.pairs = {
            name: (
                Buckets(pairs.rows.lengths, config.batch_tokens),
                RowPicker(pairs.rows, words, device),
            )
            for name, pairs in part.pairs.items()
        }
        self.answers = {
            name: torch.from_numpy(pairs.answers).to(device) for name, pairs in part.pairs.items()
        }

    @property
    def shapes(self) -> int:
        """How many kinds of batch there are: each would be recorded by itself."""
        return bool(self.running) + sum(buckets.shapes for buckets, _ in self.pairs.values())

    def __len__(self) -> int:
        return self.running + sum(len(buckets) for buckets, _ in self.pairs.values())

    def epoch(self, number: int, start: int) -> Iterator[PretrainBatch]:
        draw = np.random.default_rng([self.seed, number])
        counts = [self.running, *(len(buckets) for buckets, _ in self.pairs.values())]
        turn = draw.permutation(np.repeat(np.arange(len(counts)), counts))
        sources = [
            self.of_text(draw) if self.running else iter(()),
            *(
                self.of_pairs(name, np.random.default_rng(draw.integers(2**63)))
                for name in self.pairs
            ),
        ]
        seeds = batch_seeds(self.seed, number, len(self))
        for at, kind in enumerate(turn.tolist()):
            make = next(sources[kind])
            if at >= start:  # those before are drawn, so that these are the same, and not made
                yield make(seeds[at])

    def of_text(self, draw: np.random.Generator) -> Iterator[Maker]:
        """What makes each batch of an epoch's running text, when it is needed."""
        found = running_text(self.documents, self.config, draw)
        if not len(found):  # chance may find no two texts in very few sentences
            found = self.usual
        pick = copy(self.pick)  # whose tokens stay where they are
        pick.put(found.rows)
        order = np.resize(draw.permutation(len(found)), self.running * self.at_once)
        answers = torch.from_numpy(found.answers).to(self.device)

        def maker(some: Int64[Tensor, "b"]) -> Maker:
            def make(seed: int) -> PretrainBatch:
                labels: dict[str, Any] = (
                    {NEXT: answers[some]} if self.config.loss_weights.nsp else {}
                )
                return PretrainBatch(*pick(some, self.config.max_length), **labels, seed=seed)

            return make

        there = torch.from_numpy(order).to(self.device)
        return (maker(some) for some in there.split(self.at_once))

    def of_pairs(self, name: str, draw: np.random.Generator) -> Iterator[Maker]:
        """The same for a question about pairs of sentences."""
        buckets, pick = self.pairs[name]

        def maker(width: int, some: Int64[np.ndarray, "b"]) -> Maker:
            def make(seed: int) -> PretrainBatch:
                rows = torch.from_numpy(some).to(self.device)
                labels: dict[str, Any] = {name: self.answers[name][rows]}
                return PretrainBatch(*pick(rows, width), **labels, seed=seed)

            return make

        return (maker(width, some) for width, some in buckets.epoch(draw))
