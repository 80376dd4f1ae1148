"""What a trained translator makes of a text, of the lines of a file, or of its own data."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.text import text_of
from regard.errors import UserError
from regard.tasks.translate.data import Facts, TranslateData, part_of
from regard.tasks.translate.judging import Translator, translate


@dataclass(frozen=True)
class Sentence:
    """A text to translate, where it came from, and how people translate it, if that is known.

    A blank one has no tokens.
    """

    name: str
    text: str
    tokens: tuple[int, ...]
    truth: str | None = None


@dataclass(frozen=True)
class Answer:
    """A sentence and its translation."""

    name: str
    source: str
    translation: str
    score: float  # as beams rank it: the log-probability over a power of the length
    truth: str | None = None

    def __str__(self) -> str:
        return " ".join(self.translation.split("\n"))  # one line, so that files stay aligned

    def to_values(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "input": self.name,
            "source": self.source,
            "translation": self.translation,
            "score": self.score,
        }
        return values if self.truth is None else {**values, "truth": self.truth}


def opened(
    trained: Translator, inputs: Sequence[Any], data: Callable[[], TranslateData]
) -> list[Sentence]:
    """What a user names, as sentences.

    A file stands for its lines and `-` for those that come from standard input; `test:3` is that
    row of the run's own data. Anything else is what to translate, a sentence a line.
    """
    found: list[Sentence] = []
    for thing in inputs:
        if isinstance(thing, Sentence):
            found.append(thing)
            continue
        text = str(thing)
        row = re.fullmatch(r"(train|validation|test\w*):(\d+)", text)
        if row:
            found.append(from_split(trained.facts, data(), row[1], int(row[2])))
        elif text == "-":
            found += lines_of(trained.facts, "standard input", sys.stdin.read())
        elif isinstance(thing, Path) or (len(text) < 4096 and os.path.isfile(text)):
            found += lines_of(trained.facts, text, text_of(Path(text)))
        else:
            found += lines_of(trained.facts, "", text)
    return found


def from_split(facts: Facts, data: TranslateData, split: str, row: int) -> Sentence:
    """A pair of the run's own data."""
    part = part_of(data, split)
    if row >= len(part):
        raise UserError(
            f"{split}:{row}: {split} of {data.name} has the pairs 0 to {len(part) - 1:,}"
        )
    name = f"{data.name} {split}:{row}"
    return sentence(facts, name, part.source[row], part.target[row])


def lines_of(facts: Facts, name: str, text: str) -> Iterator[Sentence]:
    """A sentence for each line, an empty one for an empty line: so lines stay aligned."""
    lines = text.removeprefix("\ufeff").removesuffix("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        shown = line if not name else f"{name}, line {number}" if len(lines) > 1 else name
        yield sentence(facts, shown, line.removesuffix("\r"))


def sentence(facts: Facts, name: str, text: str, truth: str | None = None) -> Sentence:
    try:
        tokens = tuple(facts.words.encode(text)) if text.strip() else ()
    except ValueError as trouble:
        raise UserError(f"{name[:60]}: {trouble}") from None
    if len(tokens) > facts.longest:
        raise UserError(
            f"{name[:60]} has {len(tokens):,} tokens, and this run reads at most {facts.longest}: "
            "give a sentence a line"
        )
    return Sentence(name, text, tokens, truth)


def predict(trained: Translator, asked: Sequence[Sentence]) -> list[Answer]:
    """A translation of each sentence; of a blank one, nothing."""
    said = translate(trained, [each.tokens for each in asked])
    return [
        Answer(each.name, each.text, found.text, found.score, each.truth)
        for each, found in zip(asked, said, strict=True)
    ]
