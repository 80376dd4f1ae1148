"""A text on its way to the model: read, cut into tokens, and cut into windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int, Int64, Integer
from torch import Tensor

from regard.config import change
from regard.data.corpus import Corpus, read_corpus
from regard.data.images import SPLITS
from regard.data.text import Text
from regard.data.tokenizer import Vocabulary, fit_vocabulary, from_text
from regard.data.tokens import tokenised
from regard.errors import UserError
from regard.tasks.image_data import SHARE, batch_seeds
from regard.tasks.language.config import LanguageConfig


@dataclass(frozen=True, kw_only=True)
class Metadata:
    """What a run must know of its data to be used without them."""

    data: str
    digest: str
    vocabulary: str  # as its `to_text` gives it
    tokens: tuple[int, int, int]  # in train, validation and test

    @property
    def parts(self) -> tuple[int, int, int]:
        """How much there is to train on, to choose by and to test."""
        return self.tokens

    @property
    def words(self) -> Vocabulary:
        return from_text(self.vocabulary)


@dataclass(frozen=True, eq=False)
class LanguageData:
    """A corpus, and its parts as tokens."""

    corpus: Corpus
    tokens: dict[str, Integer[np.ndarray, "n"]]
    metadata: Metadata

    @property
    def name(self) -> str:
        """What runs are called after, without the version that figures are told with."""
        return self.corpus.name.partition(" (")[0]

    def words(self) -> str:
        """One line: what there is."""
        train, validation, test = self.metadata.tokens
        size = sum(self.corpus[name].size for name in SPLITS) / 1e6
        tested = f", {test:,} to test" if test else ""
        return (
            f"{self.corpus.name}: {size:,.1f} MB, {train:,} tokens to train on, "
            f"{validation:,} for validation{tested}, {len(self.metadata.words):,} kinds"
        )


def read(config: LanguageConfig) -> LanguageData:
    """The corpus a configuration names, in tokens."""
    corpus = read_corpus(config.data)
    try:
        vocabulary = fit_vocabulary(corpus.train, config.tokenizer)
    except ValueError as trouble:
        raise UserError(f"{corpus.name}: {trouble}") from None
    data = in_tokens(corpus, vocabulary)
    for name in ("train", "validation"):
        count, needed = len(data.tokens[name]), config.model.context_length + 1
        if count < needed:
            raise UserError(
                f"{corpus.name} has {count:,} tokens in {name}, and one window of "
                f"model.context_length={config.model.context_length} needs {needed:,}"
            )
    return data


def read_other(config: LanguageConfig, facts: Metadata, name: str) -> LanguageData:
    """Another text, cut as the run cuts its own."""
    return in_tokens(read_corpus(change(config, {"data": name}).data), facts.words)


def in_tokens(corpus: Corpus, vocabulary: Vocabulary) -> LanguageData:
    tokens = {name: tokenised(corpus[name], vocabulary) for name in SPLITS}
    train, validation, test = (len(tokens[name]) for name in SPLITS)
    facts = Metadata(
        data=corpus.name,
        digest=corpus.digest,
        vocabulary=vocabulary.to_text(),
        tokens=(train, validation, test),
    )
    return LanguageData(corpus, tokens, facts)


@dataclass(frozen=True)
class Windows:
    """Pieces of the text, each with the token after its last."""

    words: Int64[Tensor, "b n"]
    seed: int
    generator: torch.Generator | None = None  # of a recorded step, which seeds it itself


class WindowBatches:
    """The training text in windows that stand side by side, in an order that the epoch decides.

    Each epoch begins at another token, so that windows are cut elsewhere each time; those left over
    when they do not fill a batch sit it out. A text that fits lies on the device; a larger one
    stays in its mapped file, and is read as it is needed.
    """

    def __init__(self, config: LanguageConfig, data: LanguageData, device: torch.device) -> None:
        self.tokens, self.device = data.tokens["train"], device
        self.seed, self.length = config.train.seed, config.model.context_length
        # One window less than there are, so that an epoch may begin where it likes.
        self.windows = max(1, (len(self.tokens) - self.length) // self.length)
        self.batch = min(config.batch_size, self.windows)
        self.held: Int[Tensor, "n"] | None = None
        if fits(self.tokens, device):
            self.held = torch.from_numpy(np.asarray(self.tokens).astype(np.int32)).to(device)

    def __len__(self) -> int:
        return self.windows // self.batch

    def epoch(self, number: int, start: int) -> Iterator[Windows]:
        draw = np.random.default_rng([self.seed, number])
        room = len(self.tokens) - 1 - self.windows * self.length
        first = int(draw.integers(room + 1))
        chosen = draw.permutation(self.windows)[: len(self) * self.batch]
        order = (first + self.length * chosen).reshape(len(self), self.batch)
        seeds = batch_seeds(self.seed, number, len(self))
        within = np.arange(self.length + 1)
        if self.held is not None:
            # On the device once an epoch, for a copy a batch would keep it waiting.
            starts, inside = (torch.from_numpy(each).to(self.device) for each in (order, within))
            for at in range(start, len(self)):
                words = self.held[starts[at][:, None] + inside]
                yield Windows(words.long(), seeds[at])
            return
        for at in range(start, len(self)):
            words = self.tokens[order[at][:, None] + within].astype(np.int64)
            yield Windows(torch.from_numpy(words).to(self.device, non_blocking=True), seeds[at])


def fits(tokens: Integer[np.ndarray, "n"], device: torch.device) -> bool:
    """Whether the text, four bytes a token, takes little of the device's memory."""
    if device.type == "cuda":
        return 4 * len(tokens) < torch.cuda.mem_get_info(device)[0] / SHARE
    return 4 * len(tokens) < 1 << 28


def part_of(data: LanguageData, split: str) -> tuple[Integer[np.ndarray, "n"], list[Text]]:
    """The tokens of a split, or of all there is, and the texts that they come from."""
    if split not in (*SPLITS, "all"):
        raise UserError(f"no split {split!r}; there are {', '.join(SPLITS)} and all")
    chosen = SPLITS if split == "all" else (split,)
    tokens = [data.tokens[name] for name in chosen]
    joined = tokens[0] if len(tokens) == 1 else np.concatenate(tokens)
    if len(joined) < 2:
        known = [name for name in SPLITS if len(data.tokens[name]) > 1]
        others = f": take {' or '.join(known)}" if known else ""
        raise UserError(f"{data.name} has no text in {split}{others}")
    return joined, [data.corpus[name] for name in chosen]
