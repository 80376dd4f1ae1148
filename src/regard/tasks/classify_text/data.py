"""Texts with labels on their way to the model: read, cut into tokens, windows and batches."""

from __future__ import annotations

import hashlib
import heapq
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, repeat

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64, Integer
from torch import Tensor

from regard.config import change
from regard.data.augment import seeded
from regard.data.batching import (
    Buckets,
    Mixed,
    RowPicker,
    Rows,
    RowWriter,
    trimmed,
    windows,
)
from regard.data.images import SPLITS
from regard.data.labelled import LABELLED, Labelled, LabelledSet, read_labelled
from regard.data.stored_texts import sample, together
from regard.data.tokenizer import Vocabulary, fit_vocabulary, from_text
from regard.errors import ConfigError, UserError
from regard.evaluation.bag_of_words import BagOfWords
from regard.tasks.classify_text.config import SCRATCH, ClassifyTextConfig
from regard.tasks.classify_text.init_from import vocabulary_of
from regard.tasks.image_data import SHARE, batch_seeds

FITTED = 2**24  # letters that a vocabulary is fitted to, at the most
COUNTED = 2**24  # letters that counting words is fitted to, at the most


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """What a run must know of its data to be used without them."""

    data: str
    digest: str
    classes: tuple[str, ...]
    counts: tuple[int, ...]  # texts of train in each class
    vocabulary: str  # as its `to_text` gives it
    texts: tuple[int, int, int]  # in train, validation and test
    paired: bool = False  # whether each row is two texts
    skipped: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[int, int, int]:
        """How much there is to train on, to choose by and to test."""
        return self.texts

    @property
    def words(self) -> Vocabulary:
        return from_text(self.vocabulary)


@dataclass(frozen=True, eq=False)
class SentimentData:
    """Labelled texts, and what a run writes down of them."""

    texts: LabelledSet
    metadata: Metadata
    longest: int
    overlap: int
    own: bool = True  # whether its training texts are those that the model learnt from
    fitted: int = 0  # texts that the vocabulary was fitted to, if it was

    @property
    def name(self) -> str:
        return self.texts.name

    @cached_property
    def train(self) -> Windowed:
        """The texts that are learnt from."""
        return self.windowed(self.texts["train"], self.metadata)

    @cached_property
    def validation(self) -> Windowed:
        """The texts that the best epoch is chosen by."""
        return self.windowed(self.texts["validation"], self.metadata)

    @cached_property
    def baseline(self) -> BagOfWords:
        """What counting words can do, fitted to the same texts."""
        train, held = (few_enough(self.texts[name]) for name in SPLITS[:2])
        return BagOfWords.fit(
            (train.texts, train.seconds, train.labels),
            (held.texts, held.seconds, held.labels),
            classes=len(self.metadata.classes),
        )

    @property
    def counted(self) -> int:
        """How many texts that is fitted to."""
        return len(few_enough(self.texts["train"]))

    def windowed(self, part: Labelled, facts: Metadata) -> Windowed:
        """Some texts as a model of these facts reads them."""
        return in_windows(part, facts.words, self.longest, self.overlap)

    def words(self) -> str:
        """What there is, and how it is read."""
        train, validation, test = self.metadata.texts
        what = "pairs of texts" if self.metadata.paired else "texts"
        tested = f", {test:,} to test" if test else ""
        skipped = f", {len(self.metadata.skipped):,} left out" if self.metadata.skipped else ""
        counted = ", ".join(
            f"{name} {count:,}"
            for name, count in list(zip(self.metadata.classes, self.metadata.counts, strict=True))[
                :10
            ]
        )
        more = f" and {len(self.metadata.classes) - 10} more" if self.metadata.classes[10:] else ""
        lines = [
            f"{self.name}: {train:,} {what} to train on ({counted}{more}), {validation:,} for "
            f"validation{tested}; {len(self.metadata.words):,} kinds of token{skipped}"
        ]
        if 0 < self.fitted < len(self.texts["train"]):
            lines.append(f"these are fitted to {self.fitted:,} of them, which is enough")
        counts = self.train.counts
        if long := int((counts > 1).sum()):
            lines.append(
                f"{long:,} of them are longer than {self.longest} tokens and are read in "
                f"{int(counts[counts > 1].sum()):,} windows"
            )
        if self.train.cut:
            lines.append(f"{self.train.cut:,} pairs are cut to {self.longest} tokens")
        return "\n".join(lines)


def few_enough(part: Labelled) -> Labelled:
    """All texts of a part, or of very many some by chance, with at least one of each class."""
    rows = sample(part.texts, COUNTED)
    if rows is None:
        return part
    _, first = np.unique(np.array(part.labels), return_index=True)
    return part.only(np.union1d(rows, first).tolist())


@dataclass(frozen=True, eq=False)
class Windowed:
    """Texts as rows of tokens; a long text has several, which stand for it together."""

    rows: Rows
    owner: Integer[np.ndarray, "rows"]  # the text of each row
    labels: Int64[np.ndarray, "texts"]
    cut: int = 0  # pairs that were cut

    @property
    def counts(self) -> Int64[np.ndarray, "texts"]:
        """How many rows each text has; they stand in the order of their texts."""
        ends = np.arange(len(self.labels) + 1, dtype=self.owner.dtype)
        return np.diff(np.searchsorted(self.owner, ends))


def in_windows(part: Labelled, words: Vocabulary, longest: int, overlap: int) -> Windowed:
    """Every text of a part in windows of at most `longest` tokens; a pair is cut to that."""
    rows = RowWriter()
    owner, cut = array("i"), 0
    both = zip(part.texts, part.seconds or repeat(""), strict=False)
    for number, (text, second) in enumerate(both):
        tokens = encoded(words, text)
        if part.seconds:
            others = encoded(words, second)
            cut += len(tokens) + len(others) > longest - 3
            rows.add(*trimmed(tokens, others, longest - 3))
        else:
            for some in windows(tokens, longest - 2, overlap):
                rows.add(some)
        owner.extend([number] * (len(rows) - len(owner)))
    owners = np.frombuffer(owner, np.int32) if owner else np.zeros(0, np.int32)
    return Windowed(rows.done(), owners, np.array(part.labels, np.int64), cut)


def encoded(words: Vocabulary, text: str) -> list[int]:
    """A text as in running text, with a space before it: byte pairs know a word by that."""
    return words.encode(f" {text.strip()}")


def read(config: ClassifyTextConfig) -> SentimentData:
    """The texts a configuration names, and the vocabulary they are read with."""
    found = read_table(config)
    for name in ("train", "validation"):
        if not len(found[name]):
            raise UserError(f"{found.name} has no text in {name}; training needs some")
    vocabulary: Vocabulary | None = vocabulary_of(config)
    fitted = 0
    if vocabulary is None and config.init_from == SCRATCH:
        try:
            some = to_fit(found["train"])
            vocabulary = fit_vocabulary(chain(some.texts, some.seconds), config.tokenizer)
            fitted = len(some)
        except ValueError as trouble:
            raise UserError(f"{found.name}: {trouble}") from None
    # A start that is gone is complained of by those who need it; a trained run has its words.
    text = "" if vocabulary is None else vocabulary.to_text()
    found = fewer(found, config.max_train_samples, config.train.seed)
    return SentimentData(
        found, facts_of(found, text), config.max_length, config.window_overlap, fitted=fitted
    )


def to_fit(train: Labelled) -> Labelled:
    """The texts that a vocabulary is fitted to: all, or of very many as many as are enough."""
    rows = sample(train.texts, FITTED)
    return train if rows is None else train.only(rows.tolist())


def read_table(config: ClassifyTextConfig, *, learning: bool = True) -> LabelledSet:
    """The texts and labels of a configuration."""
    columns = {
        "text": config.text_column,
        "label": config.label_column,
        "pair": config.text_pair_column,
    }
    return read_labelled(config.data, **columns, skip_bad=config.skip_invalid, learning=learning)


def fewer(found: LabelledSet, labels: int, seed: int) -> LabelledSet:
    """The same with so many texts to learn from, drawn by hash and seed; 0 is all."""
    train = found["train"]
    if not labels:
        return found
    if labels > len(train):
        raise ConfigError(
            f"--max-train-samples {labels:,}: {found.name} has {len(train):,} in train",
            key="labels",
            value=labels,
        )
    drawn = heapq.nsmallest(
        labels,
        enumerate(train.texts),
        key=lambda each: hashlib.sha256(f"{seed} {each[1]} {each[0]}".encode()).digest(),
    )
    kept = train.only(sorted(row for row, _ in drawn))
    if missing := set(train.labels) - set(kept.labels):
        name = found.classes[min(missing)]
        raise ConfigError(
            f"--max-train-samples {labels}: no text of class {name!r} is among them; take more",
            key="labels",
            value=labels,
        )
    return replace(found, parts={**found.parts, "train": kept})


def facts_of(found: LabelledSet, vocabulary: str) -> Metadata:
    train, validation, test = (len(found[name]) for name in SPLITS)
    return Metadata(
        data=found.name,
        digest=found.digest,
        classes=found.classes,
        counts=found.counts("train"),
        vocabulary=vocabulary,
        texts=(train, validation, test),
        paired=bool(found["train"].seconds),
        skipped=found.skipped,
    )


def read_other(config: ClassifyTextConfig, facts: Metadata, name: str) -> SentimentData:
    """Other texts, which must speak of the same classes."""
    # The columns of a file are those of the run's own; what has a name knows its columns itself.
    own = ("text_column", "label_column", "text_pair_column")
    columns = dict.fromkeys(own, "") if name in LABELLED else {}
    config = change(config, {"data": name, **columns})
    found = read_table(config, learning=False)
    if strange := [word for word in found.classes if word not in facts.classes]:
        raise UserError(
            f"{name} has the label {strange[0]!r}, which the run does not know; it knows "
            f"{', '.join(facts.classes[:10])}"
        )
    if bool(found["train"].seconds) != facts.paired:
        has, wants = ("pairs", "single texts") if not facts.paired else ("single texts", "pairs")
        raise UserError(f"{name} has {has}, and the run was trained on {wants}")
    number = [facts.classes.index(word) for word in found.classes]
    parts = {
        part: replace(rows, labels=tuple(number[label] for label in rows.labels))
        for part, rows in found.parts.items()
    }
    found = replace(found, classes=facts.classes, parts=parts)
    theirs = facts_of(found, facts.vocabulary)
    return SentimentData(found, theirs, config.max_length, config.window_overlap, own=False)


def part_of(data: SentimentData, split: str) -> Labelled:
    """The texts of a split, or all there are."""
    parts: Mapping[str, Labelled] = data.texts.parts
    if split not in (*parts, "all"):
        raise UserError(f"no split {split!r}; there are {', '.join(parts)} and all")
    chosen = list(parts.values())
    found = (
        parts[split]
        if split != "all"
        else Labelled(
            together(part.texts for part in chosen),
            tuple(label for part in chosen for label in part.labels),
            together(part.seconds for part in chosen),
        )
    )
    if not len(found):
        known = [name for name in parts if len(parts[name])]
        raise UserError(f"{data.name} has no text in {split}: take {' or '.join(known)}")
    return found


@dataclass(frozen=True)
class TextBatch:
    """Texts as they are read, and what they are."""

    words: Int64[Tensor, "b n"]
    segments: Int64[Tensor, "b n"] | None
    positions: Int64[Tensor, "b n"]
    labels: Int64[Tensor, "b"]
    weights: Float32[Tensor, "b"]  # of each row: the windows of one text share its weight
    seed: int = 0
    generator: torch.Generator | None = None  # of a recorded step, which seeds it itself

    def numbers(self) -> torch.Generator:
        """Random numbers, the same each time for the same seed."""
        return self.generator or seeded(self.seed, self.words.device)


class TextBatches:
    """Training texts in batches, of about one length or mixed, in an order that the seed decides.

    Every step moves the model alike. So where a batch is of one length, long texts, of which fewer
    fill it, count for more: about as their tokens. Where all lengths are mixed, each counts as much
    as the configuration says.
    """

    def __init__(
        self, config: ClassifyTextConfig, data: SentimentData, device: torch.device
    ) -> None:
        if config.length_weight and config.group_by_length and config.train.grad_accum_steps == 1:
            raise ConfigError(
                f"--length-weight {config.length_weight:g} weighs the texts of a batch against "
                "one another, "
                "and these are all of one length: add --no-group-by-length, or leave it out",
                key="lengths",
                value=config.length_weight,
            )
        part, facts = data.train, data.metadata
        self.seed, self.device = config.train.seed, device
        lengths, together = part.rows.lengths, config.train.grad_accum_steps
        self.batches = (
            Buckets(lengths, config.batch_tokens)
            if config.group_by_length
            else Mixed(lengths, config.batch_tokens, together)
        )
        home = device if fits(part.rows, device) else torch.device("cpu")
        self.pick = RowPicker(part.rows, facts.words, device, home)
        balanced = config.class_weights == "balanced"
        of_class = np.array(data.texts.weights("train") if balanced else [1.0] * len(facts.classes))
        weights = of_class[part.labels] * by_length(part, config.length_weight) / part.counts
        # Of the text of each row: of very many texts in windows, rows take far more room.
        self.owner = torch.from_numpy(part.owner).to(home)
        self.labels = torch.from_numpy(part.labels).to(home)
        self.weights = torch.from_numpy(weights.astype(np.float32)).to(home)

    @property
    def shapes(self) -> int:
        """How many kinds of batch there are: each would be recorded by itself."""
        return self.batches.shapes

    def __len__(self) -> int:
        return len(self.batches)

    def epoch(self, number: int, start: int) -> Iterator[TextBatch]:
        draw = np.random.default_rng([self.seed, number])
        seeds = batch_seeds(self.seed, number, len(self))
        for at, (width, some) in enumerate(self.batches.epoch(draw)):
            if at >= start:
                rows = torch.from_numpy(some).to(self.pick.home, non_blocking=True)
                texts = self.owner[rows]
                labels, weights = (
                    each[texts].to(self.device, non_blocking=True)
                    for each in (self.labels, self.weights)
                )
                yield TextBatch(*self.pick(rows, width), labels, weights, seeds[at])


def by_length(part: Windowed, power: float) -> Float64[np.ndarray, "texts"]:
    """What each text counts as: its tokens to a power, over their mean."""
    if not power:
        return np.ones(len(part.labels))
    tokens = np.bincount(part.owner, part.rows.lengths, minlength=len(part.labels))
    counted = tokens**power
    return counted / counted.mean()


def fits(rows: Rows, device: torch.device) -> bool:
    """Whether the texts take little of the device's memory."""
    if device.type != "cuda":
        return True
    held = rows.numbers.nbytes + 3 * rows.first.nbytes
    return held < torch.cuda.mem_get_info(device)[0] / SHARE
