"""What a pretrained reader says: which words are missing, or what two sentences have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.data.batching import Read, RowPicker, Rows, in_rows
from regard.data.tokenizer import Vocabulary
from regard.data.words import WordVocabulary
from regard.tasks.inputs import NoItem, OwnSplit, Unreadable
from regard.tasks.pretrain_bert.data import PretrainData
from regard.tasks.pretrain_bert.metrics import Reader, check_words, reader
from regard.tasks.pretrain_bert.questions import text_of
from regard.tasks.text_inputs import TextReader, parse_texts

# How people write a missing word; in __init__ there is none.
BLANK = re.compile(r"\s*(?:\[mask\]|<mask>|(?<!\w)_{2,}(?!\w))", re.IGNORECASE)
BEST = 5  # words that are named for each
SAYS = {
    "nsp": "the second follows the first in a text",
    "inversion": "the second is the first inverted",
    "nli": "the second follows from the first",
}


@dataclass(frozen=True)
class TextInput:
    """A text with words missing, or two sentences; a blank line has no tokens."""

    name: str
    text: str
    first: tuple[int, ...] = ()
    second: tuple[int, ...] | None = None
    truth: str | None = None  # the word that is missing, where that is known


@dataclass(frozen=True)
class Prediction:
    """The words that may be missing, each with its probability; or how probable each yes is."""

    name: str
    text: str
    words: tuple[tuple[tuple[str, float], ...], ...] = ()
    pairs: dict[str, float] = field(default_factory=dict)
    truth: str | None = None

    def __str__(self) -> str:
        answers = ["  ".join(f"{word} {share:.0%}" for word, share in best) for best in self.words]
        answers += [f"{share:.0%} {SAYS[name]}" for name, share in self.pairs.items()]
        known = "" if self.truth is None else f"  (it is {self.truth})"
        text = self.text.replace("\t", " | ")
        return f"{text}  →  {'  |  '.join(answers)}{known}" if answers else text.strip()

    def to_values(self) -> dict[str, Any]:
        values = {
            "input": self.name,
            "text": self.text,
            "words": [dict(best) for best in self.words],
            "probabilities": dict(self.pairs),
        }
        return values if self.truth is None else {**values, "truth": self.truth}


def parse_inputs(
    trained: Reader, inputs: Iterable[Any], data: Callable[[], PretrainData]
) -> Iterator[TextInput | Unreadable]:
    """What a user names: texts with [MASK] for a missing word, or two sentences and a tab."""
    reader = TextReader(
        TextInput,
        lambda name, text, second: from_text(trained, name, text, second),
        lambda split: own_split(trained, data(), split),
        pairs=bool(trained.config.loss_weights.pair_tasks),
    )
    return parse_texts(inputs, reader)


def from_text(trained: Reader, name: str, text: str, second: str | None = None) -> TextInput:
    """A text or two, with its missing words as the entry that stands for them."""
    text = text if second is None else f"{text}\t{second}"
    if not text.strip():
        return TextInput(name, text)
    words, objectives = trained.metadata.words, trained.config.loss_weights
    first, *others = text.split("\t")
    both = [tokens_of(words, part) for part in (first, *others)]
    missing = any(words.special("mask") in part for part in both)
    if others and (len(both) != 2 or not all(both)):
        raise NoItem("has a tab, which stands between two sentences, and nowhere else")
    if others and not objectives.pair_tasks:
        raise NoItem(
            "is a pair, and this run was asked nothing about pairs: write [MASK] for a missing word"
        )
    if missing and not objectives.mlm:
        raise NoItem(
            "misses a word, and this run was taught no missing words: write two sentences and a "
            "tab between"
        )
    if not (others or missing):
        raise NoItem(
            "asks nothing: write [MASK] for a missing word, or a tab between two sentences"
        )
    total, room = sum(map(len, both)), trained.config.max_length - 1 - len(both)
    if total > room:
        raise NoItem(f"has {total:,} tokens, and this run reads at most {room}")
    return TextInput(name, text, both[0], both[1] if others else None)


def tokens_of(words: Vocabulary, text: str) -> tuple[int, ...]:
    """The tokens of a text in which [MASK], <mask> or ___ stands for a missing word."""
    before, *after = BLANK.split(f" {' '.join(text.split())}")
    found = words.encode(before) if before.strip() else []
    for part in after:
        found += [words.special("mask"), *words.encode(part)]
    return tuple(found)


def own_split(trained: Reader, data: PretrainData, split: str) -> OwnSplit[TextInput]:
    """Rows of running text of the run's own data, each with a word of it hidden."""
    check_words(trained.metadata, data)
    rows = text_of(trained.config, data, split).rows
    return OwnSplit(
        data.name,
        "rows",
        len(rows),
        lambda row: from_row(trained, f"{data.name} {split}:{row}", rows, row),
    )


def from_row(trained: Reader, name: str, rows: Rows, row: int) -> TextInput:
    """A row's first text; the word in its middle is hidden, if that is what the run was taught."""
    words = trained.metadata.words
    begin, count = rows.first[row].tolist()
    tokens = rows.numbers[begin : begin + count].tolist()
    specials = {words.special(each) for each in words.specials}
    places = [at for at, token in enumerate(tokens) if token not in specials]
    if not (trained.config.loss_weights.mlm and places):
        return TextInput(name, words.decode(tokens).strip(), tuple(tokens))
    place = places[len(places) // 2]
    before, after = tokens[:place], tokens[place + 1 :]
    space = " " if isinstance(words, WordVocabulary) else ""  # others have it in their tokens
    return TextInput(
        name,
        f"{words.decode(before)} [MASK]{space}{words.decode(after)}".strip(),
        (*before, words.special("mask"), *after),
        truth=words.entry(tokens[place]).strip(),
    )


@torch.no_grad()
def predict(trained: Reader, texts: Sequence[TextInput]) -> list[Prediction]:
    """The likeliest words for each that is missing, and what is to be said of each pair."""
    return [
        answer(trained, each) if each.first else Prediction(each.name, each.text) for each in texts
    ]


def answer(trained: Reader, item: TextInput) -> Prediction:
    model, words, read = reader(trained), trained.metadata.words, read_of(trained, item)
    hidden = model.hidden_states(read.words, read.segments, positions=read.positions)
    places = (read.words[0] == words.special("mask")).nonzero()[:, 0]
    best = model.token_logits(hidden[0, places]).float().softmax(-1).topk(min(BEST, len(words)))
    named = tuple(
        tuple((words.entry(number).strip(), share) for share, number in zip(*both, strict=True))
        for both in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    )
    pairs = {
        name: float(model.pair_logits(name, hidden).float().softmax(-1)[0, 1])
        for name in (() if item.second is None else model.config.pair_tasks)
    }
    return Prediction(item.name, item.text, named, pairs, item.truth)


def read_of(trained: Reader, item: TextInput) -> Read:
    """What the model reads of one text, or of two."""
    rows = in_rows([item.first], None if item.second is None else [item.second])
    pick = RowPicker(rows, trained.metadata.words, trained.device)
    return pick(torch.tensor([0], device=trained.device), int(rows.lengths[0]))


def pieces(words: Vocabulary, tokens: Iterable[int]) -> list[str]:
    """Tokens as people read them, each with the space before it, so that they join to the text."""
    spaced = isinstance(words, WordVocabulary)
    return [
        shown if (shown := words.decode([token])) and not spaced else f" {words.entry(token)}"
        for token in tokens
    ]
