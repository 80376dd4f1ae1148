"""What a trained translator makes of a text, of the lines of a file, or of its own data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.tasks.inputs import NoItem, OwnSplit, Unreadable
from regard.tasks.text_inputs import TextReader, parse_texts
from regard.tasks.translate.data import Metadata, TranslateData, part_of
from regard.tasks.translate.metrics import Translator, translate, warn_if_exchanged


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
class Prediction:
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


def parse_inputs(
    trained: Translator, inputs: Iterable[Any], data: Callable[[], TranslateData]
) -> Iterator[Sentence | Unreadable]:
    """What a user names, as sentences."""
    facts = trained.metadata
    reader = TextReader(
        Sentence,
        lambda name, text, _: sentence(facts, name, text),
        lambda split: own_split(facts, data(), split),
    )
    return parse_texts(inputs, reader)


def own_split(facts: Metadata, data: TranslateData, split: str) -> OwnSplit[Sentence]:
    """Pairs of the run's own data."""
    part = part_of(data, split)

    def item(row: int) -> Sentence:
        name = f"{data.name} {split}:{row}"
        return sentence(facts, name, part.source[row], part.target[row])

    return OwnSplit(data.name, "pairs", len(part), item)


def sentence(facts: Metadata, name: str, text: str, truth: str | None = None) -> Sentence:
    """A text of no more tokens than the run reads."""
    tokens = tuple(facts.words.encode(text)) if text.strip() else ()
    if len(tokens) > facts.longest:
        raise NoItem(
            f"has {len(tokens):,} tokens, and this run reads at most {facts.longest}: give a "
            "sentence a line"
        )
    return Sentence(name, text, tokens, truth)


def predict(trained: Translator, sentences: Sequence[Sentence]) -> list[Prediction]:
    """A translation of each sentence; of a blank one, nothing."""
    warn_if_exchanged(trained.metadata, [each.tokens for each in sentences if each.truth is None])
    translations = translate(trained, [each.tokens for each in sentences])
    return [
        Prediction(each.name, each.text, found.text, found.score, each.truth)
        for each, found in zip(sentences, translations, strict=True)
    ]
