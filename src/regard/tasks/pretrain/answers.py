"""What a pretrained reader says: which words are missing, or what two sentences have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.data.text_batches import RowPicker, in_rows
from regard.errors import UserError
from regard.tasks.pretrain.data import Facts, PretrainData
from regard.tasks.pretrain.judging import Reader, reader
from regard.tasks.pretrain.learning import running_rows
from regard.tasks.texts import asked

BLANK = re.compile(r"\s*(?:\[MASK\]|<mask>|_{2,})")  # how people write a missing word
BEST = 5  # words that are named for each
SAYS = {
    "next": "the second follows the first in a text",
    "inverted": "the second is the first inverted",
    "inference": "the second follows from the first",
}


@dataclass(frozen=True)
class Asked:
    """A text with words missing, or two sentences."""

    name: str
    text: str
    first: tuple[int, ...]
    second: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Answer:
    """The words that may be missing, each with its probability; or how probable each yes is."""

    name: str
    text: str
    words: tuple[tuple[tuple[str, float], ...], ...] = ()
    pairs: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = []
        if self.words:
            named = [
                "  ".join(f"{word} {share:.0%}" for word, share in best) for best in self.words
            ]
            lines.append(f"{self.text}:  " + "  |  ".join(named))
        if self.pairs:
            said = "  ".join(f"{share:4.0%} {SAYS[name]}" for name, share in self.pairs.items())
            lines.append(f"{said}  ({self.text})".replace("\t", " | "))
        return "\n".join(lines)

    def to_values(self) -> dict[str, Any]:
        return {
            "input": self.name,
            "text": self.text,
            "words": [dict(best) for best in self.words],
            "probabilities": dict(self.pairs),
        }


def opened(trained: Reader, inputs: Sequence[Any], data: Callable[[], PretrainData]) -> list[Asked]:
    """What a user names: texts with [MASK] for a missing word, or two sentences and a tab."""
    return [
        each
        for each in asked(
            inputs,
            Asked,
            lambda name, text: from_line(trained, name, text),
            lambda split, row: from_split(trained, data(), split, row),
        )
        if each.first
    ]


def from_line(trained: Reader, name: str, text: str) -> Asked:
    """A line, with its missing words as the entry that stands for them."""
    if not text.strip():
        return Asked(name, text, ())
    first, tab, second = text.partition("\t")
    try:
        both = [tokens_of(trained.facts, part) for part in (first, second)]
    except ValueError as trouble:
        raise UserError(f"{name[:60]}: {trouble}") from None
    total, room = sum(map(len, both)), trained.config.longest - 3
    if total > room:
        raise UserError(f"{name[:60]} has {total:,} tokens, and this run reads at most {room}")
    mask = trained.facts.words.special("mask")
    if not tab and mask not in both[0]:
        raise UserError(
            f"{name[:60]!r} asks nothing: write [MASK] for a missing word, or a tab between two "
            "sentences"
        )
    return Asked(name, text, both[0], both[1] if tab else None)


def tokens_of(facts: Facts, text: str) -> tuple[int, ...]:
    """The tokens of a text in which [MASK], <mask> or ___ stands for a missing word."""
    found: list[int] = []
    start = 0
    for blank in BLANK.finditer(text):
        found += encoded(facts, text[start : blank.start()])
        found.append(facts.words.special("mask"))
        start = blank.end()
    return (*found, *encoded(facts, text[start:]))


def encoded(facts: Facts, text: str) -> list[int]:
    if not text.strip():
        return []
    spaced = text if text[0].isspace() or not text[0].isalnum() else f" {text}"
    return facts.words.encode(spaced.rstrip())


def from_split(trained: Reader, data: PretrainData, split: str, row: int) -> Asked:
    """A row of running text of the run's own data, with a word of it hidden."""
    if split not in data.parts:
        raise UserError(f"no split {split!r}; there are {', '.join(data.parts)}")
    rows = running_rows(data, split, trained.config).rows
    if row >= len(rows):
        raise UserError(
            f"{split}:{row}: {split} of {data.name} has the rows 0 to {len(rows) - 1:,}"
        )
    begin, count = rows.first[row].tolist()
    tokens = rows.numbers[begin : begin + count].tolist()
    text = trained.facts.words.decode(tokens)
    tokens[count // 2] = trained.facts.words.special("mask")
    return Asked(f"{data.name} {split}:{row}", text, tuple(tokens))


@torch.no_grad()
def predict(trained: Reader, texts: Sequence[Asked]) -> list[Answer]:
    """The likeliest words for each that is missing, and what is to be said of each pair."""
    model, facts = reader(trained), trained.facts
    mask = facts.words.special("mask")
    answers = []
    for each in texts:
        rows = in_rows([each.first], None if each.second is None else [each.second])
        pick = RowPicker(rows, facts.words, trained.device)
        read = pick(torch.tensor([0], device=trained.device), int(rows.lengths[0]))
        hidden = model.read(read.words, read.segments, positions=read.positions)
        places = (read.words[0] == mask).nonzero()[:, 0]
        shares = model.name_words(hidden[0, places]).float().softmax(-1)
        best = [
            tuple(
                (facts.words.entry(number).strip(), share)
                for share, number in zip(*(found.tolist() for found in row.topk(BEST)), strict=True)
            )
            for row in shares
        ]
        pairs = {}
        if each.second is not None:
            pairs = {
                name: float(model.answer(name, hidden).float().softmax(-1)[0, 1])
                for name in model.config.asked
            }
            if not pairs:
                raise UserError("this run was asked nothing about pairs: give one sentence a line")
        answers.append(Answer(each.name, each.text, tuple(best), pairs))
    return answers


def pieces(facts: Facts, tokens: Sequence[int] | np.ndarray) -> list[str]:
    """Tokens as people read them, so that they join to the text."""
    return [facts.words.decode([n]) or f" {facts.words.entry(n)}" for n in map(int, tokens)]
