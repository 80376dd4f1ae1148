"""Running text on its way to a pretrainer: documents, sentences, pairs and batches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from regard.config import change
from regard.data.augment import seeded
from regard.data.corpus import Corpus, read_corpus
from regard.data.embedded import grammar
from regard.data.embedded.inferences import inference_pairs
from regard.data.images import SPLITS
from regard.data.inversions import inversion_pairs
from regard.data.labelled import LabelledSet, read_labelled
from regard.data.sentences import documents
from regard.data.spans import Documents, in_documents, next_rows, single_rows
from regard.data.text_batches import Buckets, RowPicker, Rows, in_rows, trimmed
from regard.data.vocabulary import Vocabulary, fit_vocabulary, from_text
from regard.errors import UserError
from regard.tasks.pixels import batch_seeds
from regard.tasks.pretrain.config import PretrainConfig

HELD_SHARE = 10  # of so many pairs of sentences as there are to learn from, one is held out a split
INVERTED, INFERENCE, NEXT, MASKED = "inverted", "inference", "next", "masked"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a run must know of its data to be used without them."""

    data: str
    digest: str
    vocabulary: str  # as its `to_text` gives it
    sentences: tuple[int, int, int]  # in train, validation and test
    documents: tuple[int, int, int]
    tokens: tuple[int, int, int]
    pairs: tuple[int, int, int]  # of sentences, for questions about inversion and inference

    @property
    def parts(self) -> tuple[int, int, int]:
        """How much there is to train on, to choose by and to test."""
        return self.sentences

    @property
    def words(self) -> Vocabulary:
        return from_text(self.vocabulary)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of sentences with one question about them all."""

    rows: Rows
    answers: Int64[np.ndarray, "rows"]  # 0 is no, 1 is yes
    kinds: tuple[str, ...]  # by what rule each was made

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def majority(self) -> float:
        """How often one is right who always gives the more frequent answer."""
        yes = float(self.answers.mean())
        return max(yes, 1 - yes)


@dataclass(frozen=True, eq=False)
class Part:
    """One part of the data: documents, and pairs by question."""

    documents: Documents
    pairs: Mapping[str, Pairs]


@dataclass(frozen=True, eq=False)
class PretrainData:
    """A corpus in tokens, and the pairs that were made of it and beside it."""

    corpus: Corpus
    parts: Mapping[str, Part]
    facts: Facts
    own: bool = True  # whether it is what the model learnt from

    @property
    def name(self) -> str:
        """What runs are called after, without the version that figures are told with."""
        return self.corpus.name.partition(" (")[0]

    @cached_property
    def learnt(self) -> Documents:
        return self.parts["train"].documents

    def words(self) -> str:
        """What there is."""
        facts = self.facts
        lines = [
            f"{self.corpus.name}: {facts.sentences[0]:,} sentences of {facts.documents[0]:,} "
            f"documents to train on, {facts.tokens[0]:,} tokens of {len(facts.words):,} kinds; "
            f"{facts.sentences[1]:,} sentences to choose by"
            + (f", {facts.sentences[2]:,} to test" if facts.sentences[2] else "")
        ]
        lines += [
            f"{name}: {len(pairs):,} pairs to train on, "
            f"{len(self.parts['validation'].pairs[name]):,} to choose by"
            for name, pairs in self.parts["train"].pairs.items()
        ]
        return "\n".join(lines)


def read(config: PretrainConfig) -> PretrainData:
    """The corpus a configuration names, with a vocabulary and the pairs that it asks for."""
    corpus = read_corpus(config.data)
    texts = {name: [*documents(corpus[name])] for name in SPLITS}
    texts = apart(texts)
    pairs = {name: paired(config, name, texts[name]) for name in SPLITS}
    made = (
        sentence for found in pairs["train"].values() for pair in found for sentence in pair[:2]
    )
    try:
        vocabulary = fit_vocabulary(chain(corpus.train, made), config.vocabulary, extra=("mask",))
    except ValueError as trouble:
        raise UserError(f"{corpus.name}: {trouble}") from None
    return in_tokens(config, corpus, texts, pairs, vocabulary)


Texts = Mapping[str, list[list[str]]]
Found = dict[str, list[tuple[str, str, bool, str]]]  # first, second, answer and kind, by question


def apart(texts: Texts) -> dict[str, list[list[str]]]:
    """The same without sentences of validation and test that an earlier part has as well."""
    seen: set[str] = set()
    kept = {}
    for name in SPLITS:
        kept[name] = [
            left
            for document in texts[name]
            if (left := [each for each in document if each not in seen])
        ]
        seen.update(sentence for document in texts[name] for sentence in document)
    return kept


def paired(config: PretrainConfig, split: str, texts: list[list[str]]) -> Found:
    """The pairs of a split for each question that counts, but that about what follows."""
    number = SPLITS.index(split)
    count = config.pairs if split == "train" else max(12, config.pairs // HELD_SHARE)
    found: Found = {}
    if config.objectives.inverted:
        # Half from the text itself, half from a grammar, whose sentences each belong to one part.
        own = inversion_pairs([each for document in texts for each in document], number)
        grown = inversion_pairs(of_part(grammar.sentences(2 * config.pairs, 0), split), number)
        half = max(count // 2, count - len(grown))
        kept = own[:half]
        found[INVERTED] = [*kept, *grown[: count - len(kept)]]
    if config.objectives.inference:
        found[INFERENCE] = inferred(config, split, count)
    return found


def of_part(sentences: Iterable[str], split: str) -> list[str]:
    """Those of our own sentences that belong to a part: eight of ten to train on, by their hash."""

    def part(sentence: str) -> str:
        digit = hashlib.sha256(sentence.encode()).digest()[0] % 10
        return SPLITS[max(0, digit - 7)]

    return [sentence for sentence in sentences if part(sentence) == split]


def inferred(config: PretrainConfig, split: str, count: int) -> list[tuple[str, str, bool, str]]:
    """Premises and conclusions, from our own rules, from SICK, or half from each."""
    found: list[tuple[str, str, bool, str]] = []
    if config.inferences != "rules":
        found += balanced(from_sick(read_labelled("sick"), split), count)
    if config.inferences != "sick":
        wanted = count - len(found)
        if split == "train":
            found += inference_pairs(wanted, 0)
        else:  # of those held back, validation has the first half and test the second
            held = inference_pairs(2 * wanted, 1, held=True)
            found += held[:wanted] if split == "validation" else held[wanted:]
    return found


def from_sick(sick: LabelledSet, split: str) -> list[tuple[str, str, bool, str]]:
    """SICK's pairs, of which those of entailment follow."""
    part, yes = sick[split], sick.classes.index("entailment")
    return [
        (first, second, label == yes, f"SICK, {sick.classes[label]}")
        for first, second, label in zip(part.texts, part.seconds, part.labels, strict=True)
    ]


def balanced(
    pairs: Sequence[tuple[str, str, bool, str]], count: int
) -> list[tuple[str, str, bool, str]]:
    """At most so many, of which as many are true as false."""
    sides = [[each for each in pairs if each[2] is answer] for answer in (True, False)]
    each = min(count // 2, *map(len, sides))
    return [pair for both in zip(*(side[:each] for side in sides), strict=True) for pair in both]


def in_tokens(
    config: PretrainConfig,
    corpus: Corpus,
    texts: Texts,
    pairs: Mapping[str, Found],
    vocabulary: Vocabulary,
) -> PretrainData:
    parts = {}
    for name in SPLITS:
        parts[name] = Part(
            in_documents(texts[name], vocabulary),
            {
                question: pairs_in_tokens(found, vocabulary, config.longest)
                for question, found in pairs[name].items()
                if found
            },
        )
    check(config, corpus, parts)
    counts = [parts[name] for name in SPLITS]
    digest = hashlib.sha256(corpus.digest.encode())
    if config.inferences != "rules" and config.objectives.inference:
        digest.update(read_labelled("sick").digest.encode())

    def three(numbers: Iterable[int]) -> tuple[int, int, int]:
        train, validation, test = numbers
        return train, validation, test

    facts = Facts(
        data=corpus.name,
        digest=digest.hexdigest(),
        vocabulary=vocabulary.to_text(),
        sentences=three(len(part.documents.lines) for part in counts),
        documents=three(part.documents.count for part in counts),
        tokens=three(part.documents.tokens for part in counts),
        pairs=three(sum(map(len, part.pairs.values())) for part in counts),
    )
    return PretrainData(corpus, parts, facts)


def check(config: PretrainConfig, corpus: Corpus, parts: Mapping[str, Part]) -> None:
    """Refuse what cannot be learnt from, with the numbers that say why."""
    for name in ("train", "validation"):
        part = parts[name]
        if len(part.documents.lines) < 2:
            raise UserError(
                f"{corpus.name} has {len(part.documents.lines)} sentences in {name}, and 2 are the "
                "least to learn from"
            )
        for question in (INVERTED, INFERENCE):
            if getattr(config.objectives, question) and not part.pairs.get(question):
                raise UserError(
                    f"no pair for objectives.{question} could be made of {name} of {corpus.name}: "
                    f"say --objectives.{question} 0"
                )


def pairs_in_tokens(
    found: Sequence[tuple[str, str, bool, str]], words: Vocabulary, longest: int
) -> Pairs:
    both = [
        trimmed(words.encode(f" {first}"), words.encode(f" {second}"), longest - 3)
        for first, second, _, _ in found
    ]
    return Pairs(
        in_rows([first for first, _ in both], [second for _, second in both]),
        np.array([answer for _, _, answer, _ in found], np.int64),
        tuple(kind for *_, kind in found),
    )


def read_other(config: PretrainConfig, facts: Facts, name: str) -> PretrainData:
    """Another text, cut as the run cuts its own."""
    corpus = read_corpus(change(config, {"data": name}).data)
    texts = apart({part: [*documents(corpus[part])] for part in SPLITS})
    pairs = {part: paired(config, part, texts[part]) for part in SPLITS}
    found = in_tokens(config, corpus, texts, pairs, facts.words)
    return PretrainData(found.corpus, found.parts, found.facts, own=False)


@dataclass(frozen=True)
class PretrainBatch:
    """Texts as they are read, and what is asked: one of the answers is there, or none."""

    words: Int64[Tensor, "b n"]
    segments: Int64[Tensor, "b n"] | None
    positions: Int64[Tensor, "b n"]
    next: Int64[Tensor, "b"] | None = None
    inverted: Int64[Tensor, "b"] | None = None
    inference: Int64[Tensor, "b"] | None = None
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


class TextRows:
    """Running text, drawn anew each epoch: single texts, or pairs if `next` is asked."""

    def __init__(self, found: Documents, config: PretrainConfig) -> None:
        self.documents, self.longest = found, config.longest
        self.asks_next = bool(config.objectives.next)

    def drawn(self, draw: np.random.Generator) -> tuple[Rows, Int64[np.ndarray, "rows"] | None]:
        """Some rows, and which of the pairs follow one another."""
        if not self.asks_next:
            return single_rows(self.documents, self.longest - 2, draw), None
        rows, follows = next_rows(self.documents, self.longest - 3, draw)
        return rows, follows.astype(np.int64)


class PretrainBatches:
    """Batches of running text, and of pairs for each question, in an order drawn for each epoch.

    Every batch of running text has one shape: texts are filled up to the longest. Where an epoch's
    texts are fewer than their batches hold, some come twice; where they are more, some wait.
    """

    def __init__(self, config: PretrainConfig, data: PretrainData, device: torch.device) -> None:
        part, words = data.parts["train"], data.facts.words
        self.seed, self.device, self.width = config.train.seed, device, config.longest
        self.texts = TextRows(part.documents, config)
        objectives = config.objectives
        rows = self.texts.drawn(np.random.default_rng([self.seed]))[0]
        if not len(rows):
            raise UserError(
                f"{data.name} has no two sentences that fit into --longest {config.longest} tokens"
            )
        self.at_once = max(1, min(config.batch // config.longest, len(rows)))
        reads = bool(objectives.masked or objectives.next)
        self.running = max(1, len(rows) // self.at_once) if reads else 0
        self.pick = RowPicker(rows, words, device)
        self.pairs = {
            name: (Buckets(pairs.rows.lengths, config.batch), RowPicker(pairs.rows, words, device))
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
        kinds = ["", *self.pairs]
        counts = [self.running, *(len(buckets) for buckets, _ in self.pairs.values())]
        turn = draw.permutation(np.repeat(np.arange(len(kinds)), counts))
        sources = [
            self.running_text(draw),
            *(
                self.about_pairs(name, np.random.default_rng(draw.integers(2**63)))
                for name in self.pairs
            ),
        ]
        seeds = batch_seeds(self.seed, number, len(self))
        for at, kind in enumerate(turn.tolist()):
            make = next(sources[kind])
            if at >= start:
                yield make(seeds[at])

    def running_text(self, draw: np.random.Generator) -> Iterator[Maker]:
        """What makes each batch of an epoch's running text, when it is needed."""
        rows, follows = self.texts.drawn(draw)
        order = np.resize(draw.permutation(len(rows)), self.running * self.at_once)
        self.pick.put(rows)
        answers = None if follows is None else torch.from_numpy(follows).to(self.device)
        there = torch.from_numpy(order).to(self.device)

        def maker(some: Tensor) -> Maker:
            def make(seed: int) -> PretrainBatch:
                asked: dict[str, Any] = {} if answers is None else {NEXT: answers[some]}
                return PretrainBatch(*self.pick(some, self.width), **asked, seed=seed)

            return make

        return (maker(some) for some in there.split(self.at_once))

    def about_pairs(self, name: str, draw: np.random.Generator) -> Iterator[Maker]:
        """The same for a question about pairs of sentences."""
        buckets, pick = self.pairs[name]

        def maker(width: int, some: Int64[np.ndarray, "b"]) -> Maker:
            def make(seed: int) -> PretrainBatch:
                rows = torch.from_numpy(some).to(self.device)
                asked: dict[str, Any] = {name: self.answers[name][rows]}
                return PretrainBatch(*pick(rows, width), **asked, seed=seed)

            return make

        return (maker(width, some) for width, some in buckets.epoch(draw))
