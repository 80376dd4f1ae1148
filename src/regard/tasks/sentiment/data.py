"""Texts with labels on their way to the model: read, cut into tokens, windows and batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from regard.config import change
from regard.data.augment import seeded
from regard.data.images import SPLITS
from regard.data.labelled import LABELLED, Labelled, LabelledSet, read_labelled
from regard.data.text_batches import Buckets, Mixed, RowPicker, Rows, in_rows, trimmed, windows
from regard.data.vocabulary import Vocabulary, fit_vocabulary, from_text
from regard.errors import UserError
from regard.evaluate.bag_of_words import BagOfWords
from regard.tasks.pixels import SHARE, batch_seeds
from regard.tasks.sentiment.config import SCRATCH, SentimentConfig
from regard.tasks.sentiment.start import vocabulary_of


@dataclass(frozen=True, kw_only=True)
class Facts:
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
    facts: Facts
    longest: int
    overlap: int
    own: bool = True  # whether its training texts are those that the model learnt from

    @property
    def name(self) -> str:
        return self.texts.name

    @cached_property
    def train(self) -> Windowed:
        """The texts that are learnt from."""
        return self.windowed(self.texts["train"], self.facts)

    @cached_property
    def validation(self) -> Windowed:
        """The texts that the best epoch is chosen by."""
        return self.windowed(self.texts["validation"], self.facts)

    @cached_property
    def baseline(self) -> BagOfWords:
        """What counting words can do, fitted to the same texts."""
        train, held = self.texts["train"], self.texts["validation"]
        return BagOfWords.fit(
            (train.texts, train.seconds, train.labels),
            (held.texts, held.seconds, held.labels),
            classes=len(self.facts.classes),
        )

    def windowed(self, part: Labelled, facts: Facts) -> Windowed:
        """Some texts as a model of these facts reads them."""
        return in_windows(part, facts.words, self.longest, self.overlap)

    def words(self) -> str:
        """What there is, and how it is read."""
        train, validation, test = self.facts.texts
        what = "pairs of texts" if self.facts.paired else "texts"
        tested = f", {test:,} to test" if test else ""
        skipped = f", {len(self.facts.skipped):,} left out" if self.facts.skipped else ""
        counted = ", ".join(
            f"{name} {count:,}"
            for name, count in list(zip(self.facts.classes, self.facts.counts, strict=True))[:10]
        )
        more = f" and {len(self.facts.classes) - 10} more" if self.facts.classes[10:] else ""
        lines = [
            f"{self.name}: {train:,} {what} to train on ({counted}{more}), {validation:,} to "
            f"choose by{tested}; {len(self.facts.words):,} kinds of token{skipped}"
        ]
        long = int((self.train.counts > 1).sum())
        if long:
            lines.append(
                f"{long:,} of them are longer than {self.longest} tokens and are read in "
                f"{int(self.train.counts[self.train.counts > 1].sum()):,} windows"
            )
        if self.train.cut:
            lines.append(f"{self.train.cut:,} pairs are cut to {self.longest} tokens")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Windowed:
    """Texts as rows of tokens; a long text has several, which stand for it together."""

    rows: Rows
    owner: Int64[np.ndarray, "rows"]  # the text of each row
    labels: Int64[np.ndarray, "texts"]
    cut: int = 0  # pairs that were cut

    @property
    def counts(self) -> Int64[np.ndarray, "texts"]:
        """How many rows each text has."""
        return np.bincount(self.owner, minlength=len(self.labels))


def in_windows(part: Labelled, words: Vocabulary, longest: int, overlap: int) -> Windowed:
    """Every text of a part in windows of at most `longest` tokens; a pair is cut to that."""
    rows: list[Sequence[int]] = []
    seconds: list[Sequence[int]] = []
    owner, cut = [], 0
    for number, text in enumerate(part.texts):
        tokens = encoded(words, text)
        if part.seconds:
            others = encoded(words, part.seconds[number])
            cut += len(tokens) + len(others) > longest - 3
            first, second = trimmed(tokens, others, longest - 3)
            seconds.append(second)
            some = [first]
        else:
            some = windows(tokens, longest - 2, overlap)
        rows += some
        owner += [number] * len(some)
    labels = np.array(part.labels, np.int64)
    made = in_rows(rows, seconds if part.seconds else None)
    return Windowed(made, np.array(owner, np.int64), labels, cut)


def encoded(words: Vocabulary, text: str) -> list[int]:
    """A text as in running text, with a space before it: byte pairs know a word by that."""
    return words.encode(f" {text.strip()}")


def read(config: SentimentConfig) -> SentimentData:
    """The texts a configuration names, and the vocabulary they are read with."""
    found = read_table(config)
    for name in ("train", "validation"):
        if not len(found[name]):
            raise UserError(f"{found.name} has no text in {name}; training needs some")
    vocabulary: Vocabulary | None = vocabulary_of(config)
    if vocabulary is None and config.start == SCRATCH:
        try:
            train = found["train"]
            vocabulary = fit_vocabulary((*train.texts, *train.seconds), config.vocabulary)
        except ValueError as trouble:
            raise UserError(f"{found.name}: {trouble}") from None
    # A start that is gone is complained of by those who need it; a trained run has its words.
    text = "" if vocabulary is None else vocabulary.to_text()
    found = fewer(found, config.labels, config.train.seed)
    return SentimentData(found, facts_of(found, text), config.longest, config.overlap)


def read_table(config: SentimentConfig, *, learning: bool = True) -> LabelledSet:
    """The texts and labels of a configuration."""
    columns = {"text": config.text, "label": config.label, "pair": config.pair}
    return read_labelled(config.data, **columns, skip_bad=config.skip_bad, learning=learning)


def fewer(found: LabelledSet, labels: int, seed: int) -> LabelledSet:
    """The same with so many texts to learn from, drawn by hash and seed; 0 is all."""
    train = found["train"]
    if not labels:
        return found
    if labels > len(train):
        raise UserError(f"--labels {labels:,}: {found.name} has {len(train):,} in train")
    order = sorted(
        range(len(train)),
        key=lambda row: hashlib.sha256(f"{seed} {train.texts[row]} {row}".encode()).digest(),
    )
    kept = train.only(sorted(order[:labels]))
    if missing := set(train.labels) - set(kept.labels):
        name = found.classes[min(missing)]
        raise UserError(f"--labels {labels}: no text of class {name!r} is among them; take more")
    return replace(found, parts={**found.parts, "train": kept})


def facts_of(found: LabelledSet, vocabulary: str) -> Facts:
    train, validation, test = (len(found[name]) for name in SPLITS)
    return Facts(
        data=found.name,
        digest=found.digest,
        classes=found.classes,
        counts=found.counts("train"),
        vocabulary=vocabulary,
        texts=(train, validation, test),
        paired=bool(found["train"].seconds),
        skipped=found.skipped,
    )


def read_other(config: SentimentConfig, facts: Facts, name: str) -> SentimentData:
    """Other texts, which must speak of the same classes."""
    # The columns of a file are those of the run's own; what has a name knows its columns itself.
    columns = dict.fromkeys(("text", "label", "pair"), "") if name in LABELLED else {}
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
    return SentimentData(found, theirs, config.longest, config.overlap, own=False)


def part_of(data: SentimentData, split: str) -> Labelled:
    """The texts of a split, or all there are."""
    parts: Mapping[str, Labelled] = data.texts.parts
    if split not in (*parts, "all"):
        raise UserError(f"no split {split!r}; there are {', '.join(parts)} and all")
    chosen = list(parts.values()) if split == "all" else [parts[split]]
    found = Labelled(
        tuple(text for part in chosen for text in part.texts),
        tuple(label for part in chosen for label in part.labels),
        tuple(text for part in chosen for text in part.seconds),
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

    def __init__(self, config: SentimentConfig, data: SentimentData, device: torch.device) -> None:
        if config.lengths and not config.mix and config.train.accumulate == 1:
            raise UserError(
                f"--lengths {config.lengths:g} weighs the texts of a batch against one another, "
                "and without --mix they are all of one length: add --mix, or leave it out"
            )
        part, facts = data.train, data.facts
        self.seed, self.device = config.train.seed, device
        lengths, together = part.rows.lengths, config.train.accumulate
        self.batches = (
            Mixed(lengths, config.batch, together) if config.mix else Buckets(lengths, config.batch)
        )
        home = device if fits(part.rows, device) else torch.device("cpu")
        self.pick = RowPicker(part.rows, facts.words, device, home)
        of_class = np.array(
            data.texts.weights("train") if config.balance else [1.0] * len(facts.classes)
        )
        weights = of_class[part.labels] * by_length(part, config.lengths) / part.counts
        self.labels = torch.from_numpy(part.labels[part.owner]).to(home)
        self.weights = torch.from_numpy(weights[part.owner].astype(np.float32)).to(home)

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
                labels, weights = (
                    each[rows].to(self.device, non_blocking=True)
                    for each in (self.labels, self.weights)
                )
                yield TextBatch(*self.pick(rows, width), labels, weights, seeds[at])


def by_length(part: Windowed, power: float) -> Float64[np.ndarray, "texts"]:
    """What each text counts as: its tokens to a power, over their mean."""
    tokens = np.bincount(part.owner, part.rows.lengths, minlength=len(part.labels))
    counted = tokens**power
    return counted / counted.mean()


def fits(rows: Rows, device: torch.device) -> bool:
    """Whether the texts take little of the device's memory."""
    if device.type != "cuda":
        return True
    held = rows.numbers.nbytes + 3 * rows.first.nbytes
    return held < torch.cuda.mem_get_info(device)[0] / SHARE
