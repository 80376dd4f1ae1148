"""Running text as a pretrainer learns from it: documents and pairs of sentences, in tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from jaxtyping import Int64

from regard.config import change
from regard.data.batching import Rows, in_rows, trimmed
from regard.data.corpus import Corpus, read_corpus
from regard.data.documents import Documents, in_documents, next_rows, single_rows
from regard.data.images import SPLITS
from regard.data.sentences import documents
from regard.data.tokenizer import Vocabulary, fit_vocabulary, from_text
from regard.errors import UserError
from regard.tasks.pretrain_bert.config import PretrainBertConfig
from regard.tasks.pretrain_bert.pairs import (
    INFERENCE,
    INVERTED,
    Found,
    LabelledPair,
    Texts,
    paired,
    sentences_of,
    sick_for,
)

NEXT, MASKED = "nsp", "mlm"
ALL = "all"  # the whole of another text
SEED = 20_181_011  # of what a model is measured by: always the same
WORTH_SAYING = 0.01  # a share of the tokens from which on it is said what becomes of them


@dataclass(frozen=True, kw_only=True)
class Metadata:
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
    """Rows with one question about them all."""

    rows: Rows
    answers: Int64[np.ndarray, "rows"]  # 0 is no, 1 is yes
    kinds: tuple[str, ...]  # by what rule each was made

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, kept: Int64[np.ndarray, "some"]) -> Pairs:
        """Some of them, by row."""
        kinds = tuple(self.kinds[row] for row in kept.tolist())
        return Pairs(self.rows.only(kept), self.answers[kept], kinds)


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
    metadata: Metadata
    own: bool = True  # whether it is what the model learnt from
    left_out: Mapping[str, int] = field(default_factory=dict)  # sentences that were known, by part
    notes: tuple[str, ...] = ()  # what is not read as it stands, a sentence each

    @property
    def name(self) -> str:
        """What runs are called after, without the version that figures are told with."""
        return self.corpus.name.partition(" (")[0]

    def words(self) -> str:
        """What there is."""
        facts = self.metadata
        lines = [
            f"{self.corpus.name}: {facts.sentences[0]:,} sentences of {facts.documents[0]:,} "
            f"documents to train on, {facts.tokens[0]:,} tokens of {len(facts.words):,} kinds; "
            f"{facts.sentences[1]:,} sentences for validation"
            + (f", {facts.sentences[2]:,} to test" if facts.sentences[2] else "")
        ]
        lines += [
            f"{name}: {len(pairs):,} pairs to train on, "
            f"{len(self.parts['validation'].pairs[name]):,} for validation"
            for name, pairs in self.parts["train"].pairs.items()
        ]
        return "\n".join((*lines, *self.notes))


def part_of(data: PretrainData, split: str) -> Part:
    if split not in data.parts:
        raise UserError(f"no split {split!r}; there are {', '.join(data.parts)}")
    return data.parts[split]


def read(config: PretrainBertConfig) -> PretrainData:
    """The corpus a configuration names, with a vocabulary and the pairs that it asks for."""
    corpus, sick = read_corpus(config.data), sick_for(config)
    whole = {name: [*documents(corpus[name])] for name in SPLITS}
    texts = apart(whole)
    left_out = {
        name: sum(map(len, whole[name])) - sum(map(len, texts[name])) for name in SPLITS[1:]
    }
    pairs: dict[str, Found] = {}
    for name in SPLITS:
        known = {*sentences_of(pairs.values())}
        pairs[name] = paired(config, name, texts[name], sick, known)
    made = sentences_of([pairs["train"]])
    try:
        vocabulary = fit_vocabulary(chain(corpus.train, made), config.tokenizer, extra=("mask",))
    except ValueError as trouble:
        raise UserError(f"{corpus.name}: {trouble}") from None
    digest = hashlib.sha256(corpus.digest.encode())
    if sick is not None:
        digest.update(sick.digest.encode())
    parts = in_tokens(texts, pairs, vocabulary, config)
    check(config, corpus, parts, left_out)
    facts = facts_of(corpus.name, digest.hexdigest(), vocabulary, parts)
    notes = tuple(notes_on(config, parts["train"].documents, left_out))
    return PretrainData(corpus, parts, facts, left_out=left_out, notes=notes)


def read_other(config: PretrainBertConfig, facts: Metadata, name: str) -> PretrainData:
    """Another text, cut as the run cuts its own, in its parts and as a whole.

    What is not made of the text itself is from the pairs to test on, for each of these.
    """
    corpus, sick = read_corpus(change(config, {"data": name}).data), sick_for(config)
    texts = {part: [*documents(corpus[part])] for part in SPLITS}
    texts[ALL] = [*documents(chain.from_iterable(corpus[part] for part in SPLITS))]
    pairs = {part: paired(config, "test", texts[part], sick) for part in texts}
    parts = in_tokens(texts, pairs, facts.words, config)
    return PretrainData(
        corpus, parts, facts_of(corpus.name, corpus.digest, facts.words, parts), own=False
    )


def apart(texts: Texts) -> dict[str, list[list[str]]]:
    """The same without sentences of validation and test that an earlier part has as well."""
    seen: set[str] = set()
    kept = {}
    for name in SPLITS:
        found = ([each for each in document if each not in seen] for document in texts[name])
        kept[name] = [document for document in found if document]
        seen.update(chain.from_iterable(texts[name]))
    return kept


def in_tokens(
    texts: Texts, pairs: Mapping[str, Found], words: Vocabulary, config: PretrainBertConfig
) -> dict[str, Part]:
    """Every part in tokens, without questions that nothing is found for."""
    return {
        name: Part(
            in_documents(texts[name], words, *room_of(config)),
            {
                question: pairs_in_tokens(found, words, config.max_length)
                for question, found in pairs[name].items()
                if found
            },
        )
        for name in texts
    }


def room_of(config: PretrainBertConfig) -> tuple[int, int]:
    """How many tokens of running text are read at once, beside start and ends, and as how many."""
    return (config.max_length - 3, 2) if config.loss_weights.nsp else (config.max_length - 2, 1)


def notes_on(
    config: PretrainBertConfig, train: Documents, left_out: Mapping[str, int]
) -> Iterator[str]:
    """What of a text is not read as it stands: known sentences, long ones, and lonely ones."""
    if any(left_out.values()):
        counts = ", ".join(f"{count:,} of {name}" for name, count in left_out.items() if count)
        yield f"sentences left out, as an earlier part has them too: {counts}"
    room, _ = room_of(config)
    if config.loss_weights.reads and train.cut:
        yield (
            f"{train.cut:,} of the sentences to train on are longer than {room} tokens and are "
            f"read in {train.pieces:,} pieces"
        )
    if config.loss_weights.nsp and (share := train.alone(room)) >= WORTH_SAYING:
        yield (
            f"{share:.0%} of the tokens to train on are in sentences that no neighbour fits beside "
            f"within --max-length {config.max_length}: they are read only as texts that do not "
            "follow; "
            "a larger --max-length, or --loss-weights.nsp 0, reads them in their place"
        )


def pairs_in_tokens(found: Sequence[LabelledPair], words: Vocabulary, longest: int) -> Pairs:
    both = [
        trimmed(words.encode(f" {first}"), words.encode(f" {second}"), longest - 3)
        for first, second, *_ in found
    ]
    return Pairs(
        in_rows([first for first, _ in both], [second for _, second in both]),
        np.array([answer for _, _, answer, _ in found], np.int64),
        tuple(kind for *_, kind in found),
    )


def facts_of(name: str, digest: str, words: Vocabulary, parts: Mapping[str, Part]) -> Metadata:
    some = [parts[split] for split in SPLITS]

    def three(numbers: Iterable[int]) -> tuple[int, int, int]:
        train, validation, test = numbers
        return train, validation, test

    return Metadata(
        data=name,
        digest=digest,
        vocabulary=words.to_text(),
        sentences=three(part.documents.sentences for part in some),
        documents=three(part.documents.count for part in some),
        tokens=three(part.documents.tokens for part in some),
        pairs=three(sum(map(len, part.pairs.values())) for part in some),
    )


def check(
    config: PretrainBertConfig,
    corpus: Corpus,
    parts: Mapping[str, Part],
    left_out: Mapping[str, int],
) -> None:
    """Refuse what cannot be learnt from, with the numbers that say why."""
    for name in ("train", "validation"):
        where = f"{name} of {corpus.name}"
        if config.loss_weights.reads:
            measured_text(parts[name].documents, config, where, left_out=left_out.get(name, 0))
        for question in (INVERTED, INFERENCE):
            if getattr(config.loss_weights, question) and question not in parts[name].pairs:
                raise UserError(
                    f"no pair for loss_weights.{question} could be made of {where}: "
                    f"say --loss-weights.{question} 0"
                )


def measured_text(
    found: Documents,
    config: PretrainBertConfig,
    where: str,
    advice: str = "say --loss-weights.nsp 0, or give more",
    left_out: int = 0,
) -> Pairs:
    """Rows of running text, always the same, or what there is too little of."""
    rows = running_text(found, config, np.random.default_rng(SEED))
    if len(rows):
        return rows
    if not len(found.lines):
        known = f" of its own: an earlier part has all {left_out:,} of them" if left_out else ""
        raise UserError(f"{where} has not one sentence{known}")
    raise UserError(
        f"{where} has too little text, {found.sentences:,} sentences of {found.count:,} "
        f"documents, for two texts within --max-length {config.max_length} of which the second "
        "does "
        f"not follow: {advice}"
    )


def running_text(found: Documents, config: PretrainBertConfig, draw: np.random.Generator) -> Pairs:
    """Rows of running text, drawn anew each time: pairs if `next` is asked, or else single ones."""
    room, _ = room_of(config)
    if config.loss_weights.nsp:
        rows, follows = next_rows(found, room, draw)
    else:
        rows = single_rows(found, room, draw)
        follows = np.zeros(len(rows), bool)  # which nobody asks for
    return Pairs(rows, follows.astype(np.int64), ("follows",) * len(rows))
