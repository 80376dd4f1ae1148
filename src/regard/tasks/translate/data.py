"""Sentences and their translations on the way to the model: read, numbered, cut into batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import torch

from regard.config import change
from regard.data.images import SPLITS
from regard.data.pair_batches import (
    PairBatch,
    Picker,
    Tokens,
    by_length,
    cut,
    in_tokens,
    padding,
)
from regard.data.pairs import Pairs, PairSet, read_pairs
from regard.data.stored_texts import only, sample
from regard.data.tokenizer import Vocabulary, fit_vocabulary, from_text
from regard.errors import UserError
from regard.tasks.image_data import SHARE, batch_seeds
from regard.tasks.translate.config import TranslateConfig
from regard.tasks.translate.exchanged import Typical, typical_tokens

FITTED = 2**24  # letters that the vocabulary is fitted to, at the most


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """What a run must know of its data to be used without them."""

    data: str
    digest: str
    languages: tuple[str, str]  # read, written
    vocabulary: str  # as its `to_text` gives it; both languages share it
    pairs: tuple[int, int, int]  # in train, validation and test
    longest: int  # tokens of the longest sentence that is read or written, its end not counted
    skipped: tuple[str, ...] = ()
    typical: Typical = ((), ())  # tokens that are frequent on one side and rare on the other

    @property
    def parts(self) -> tuple[int, int, int]:
        """How much there is to train on, to choose by and to test."""
        return self.pairs

    @property
    def words(self) -> Vocabulary:
        return from_text(self.vocabulary)


@dataclass(frozen=True, eq=False)
class TranslateData:
    """Parallel texts the way they are translated, and the parts that a run looks at as tokens."""

    pairs: PairSet
    metadata: Metadata
    batch: int  # for what is said of padding
    own: bool = True  # whether its training pairs are those that the model learnt
    tokens: Tokens | None = None  # of the pairs that are learnt, if they have been cut already
    fitted: int = 0  # pairs that the vocabulary was fitted to, if it was

    @property
    def name(self) -> str:
        return self.pairs.name

    @cached_property
    def train(self) -> Tokens:
        """The pairs that are learnt: those that are not too long."""
        if self.tokens is not None:
            return self.tokens
        return in_tokens(self.pairs["train"], self.metadata.words, self.metadata.longest)

    @cached_property
    def validation(self) -> Tokens:
        """The pairs whose loss is measured after each epoch."""
        return in_tokens(self.pairs["validation"], self.metadata.words, self.metadata.longest)

    def words(self) -> str:
        """What is put into what, what there is, and how much of a batch is padding."""
        train, validation, test = self.metadata.pairs
        tested = f", {test:,} to test" if test else ""
        skipped = f", {len(self.metadata.skipped):,} left out" if self.metadata.skipped else ""
        lines = [
            way(self.pairs),
            f"{self.name}: {train:,} pairs to train on, {validation:,} for "
            f"validation{tested}; {len(self.metadata.words):,} kinds of token{skipped}",
        ]
        if 0 < self.fitted < train:
            lines.append(f"these are fitted to {self.fitted:,} of them, which is enough")
        tokens = self.train
        if long := train - len(tokens):
            lines.append(
                f"not learnt are {long:,} of train, with a sentence of over "
                f"{self.metadata.longest} "
                "tokens"
            )
        bucketed, in_order = (
            padding(sizes, cut(sizes, self.batch))
            for sizes in (tokens.sizes[by_length(tokens.sizes)], tokens.sizes)
        )
        lines.append(
            f"padding is {bucketed:.1%} of the tokens in a batch; in the order of the file it "
            f"would be {in_order:.1%}"
        )
        return "\n".join(lines)


def read(config: TranslateConfig) -> TranslateData:
    """The pairs a configuration names, with a vocabulary of both languages."""
    found = read_pairs(config.data, skip_bad=config.skip_invalid, direction=config.direction)
    for name in ("train", "validation"):
        if not len(found[name]):
            raise UserError(f"{found.name} has no pair in {name}; training needs some")
    train = found["train"]
    rows = sample(train.source, FITTED // 2)
    some = train if rows is None else Pairs(only(train.source, rows), only(train.target, rows))
    try:
        vocabulary = fit_vocabulary(chain(some.source, some.target), config.tokenizer)
    except ValueError as trouble:
        raise UserError(f"{found.name}: {trouble}") from None
    tokens = in_tokens(train, vocabulary, config.max_length)
    facts = Metadata(
        data=found.name,
        digest=found.digest,
        languages=found.languages,
        vocabulary=vocabulary.to_text(),
        pairs=counts(found),
        longest=config.max_length,
        skipped=found.skipped,
        typical=typical_tokens(tokens, vocabulary),
    )
    data = TranslateData(found, facts, config.batch_tokens, tokens=tokens, fitted=len(some))
    for name, tokens in (("train", data.train), ("validation", data.validation)):
        if not len(tokens):
            raise UserError(
                f"every one of {len(found[name]):,} pairs of {name} has a sentence of over "
                f"max_length={config.max_length} tokens: say --max-length more"
            )
    return data


def read_other(config: TranslateConfig, facts: Metadata, name: str) -> TranslateData:
    """Other pairs, cut as the run cuts its own, and in its direction if their names tell it."""
    config = change(config, {"data": name})
    found = read_pairs(config.data, skip_bad=config.skip_invalid, like=facts.languages)
    theirs = replace(
        facts, data=found.name, digest=found.digest, pairs=counts(found), skipped=found.skipped
    )
    return TranslateData(found, theirs, config.batch_tokens, own=False)


def way(pairs: PairSet) -> str:
    """Which language is put into which, and where these lie."""
    (one, other), (ours, theirs) = pairs.languages, pairs.files
    where = f": {ours} to {theirs}" if ours else ""
    return f"translating {one} → {other}{where}"


def counts(pairs: PairSet) -> tuple[int, int, int]:
    train, validation, test = (len(pairs[name]) for name in SPLITS)
    return train, validation, test


def part_of(data: TranslateData, split: str) -> Pairs:
    """The pairs of a split, of a further test such as test2017, or of all there is."""
    parts: Mapping[str, Pairs] = data.pairs.parts
    if split not in (*parts, "all"):
        raise UserError(f"no split {split!r}; there are {', '.join(parts)} and all")
    chosen = list(parts.values()) if split == "all" else [parts[split]]
    source = tuple(text for part in chosen for text in part.source)
    if not source:
        known = [name for name in parts if len(parts[name])]
        raise UserError(f"{data.name} has no pair in {split}: take {' or '.join(known)}")
    return Pairs(source, tuple(text for part in chosen for text in part.target))


class PairBatches:
    """Training pairs in batches of about as many tokens, in an order that seed and epoch decide.

    Pairs are sorted by length, so that little is padding: by the longer side, then by the source.
    Those of equal lengths come in an order drawn for each epoch, and so do the batches; a pair has
    other neighbours each time, and yet the batches of all epochs have the same shapes. What fits
    lies on the device, where a batch is made without a word from the host.
    """

    def __init__(self, config: TranslateConfig, data: TranslateData, device: torch.device) -> None:
        self.tokens, self.device, self.seed = data.train, device, config.train.seed
        self.sizes = self.tokens.sizes
        self.starts = cut(self.sizes[by_length(self.sizes)], config.batch_tokens)
        home = device if fits(self.tokens, device) else torch.device("cpu")
        self.pick = Picker(self.tokens, data.metadata.words.padding, device, home)

    @property
    def shapes(self) -> int:
        """How many kinds of batch there are: each would be recorded by itself."""
        sizes = np.split(self.sizes[by_length(self.sizes)], self.starts[1:-1])
        kinds = {(len(some), *some.max(0), *some.sum(0)) for some in sizes}
        return len(kinds)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def epoch(self, number: int, start: int) -> Iterator[PairBatch]:
        draw = np.random.default_rng([self.seed, number])
        order = by_length(self.sizes, draw)
        turn = draw.permutation(len(self))
        seeds = batch_seeds(self.seed, number, len(self))
        there = torch.from_numpy(order).to(self.pick.home)
        for at in range(start, len(self)):
            some = slice(self.starts[turn[at]], self.starts[turn[at] + 1])
            yield self.pick(there[some], self.sizes[order[some]], seeds[at])


def fits(tokens: Tokens, device: torch.device) -> bool:
    """Whether the sentences take little of the device's memory."""
    if device.type != "cuda":
        return True
    lines = (tokens.source, tokens.target)
    held = sum(each.numbers.nbytes + 2 * each.starts.nbytes for each in lines)
    return held < torch.cuda.mem_get_info(device)[0] / SHARE
