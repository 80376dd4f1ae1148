"""What a trained reader says of a text, of the lines of a file, or of its own data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.data.labelled import Labelled
from regard.errors import UserError
from regard.tasks.classify_text.data import (
    Metadata,
    SentimentData,
    Windowed,
    encoded,
    in_windows,
    part_of,
)
from regard.tasks.classify_text.loss import scorer
from regard.tasks.classify_text.metrics import Reader
from regard.tasks.inputs import NoItem, OwnSplit, Unreadable
from regard.tasks.text_files import Columns
from regard.tasks.text_inputs import TextReader, parse_texts

MOST_WINDOWS = 1_024  # of one text: a short book


@dataclass(frozen=True)
class TextInput:
    """A text to judge, or a pair, where it came from, and what it is, if that is known."""

    name: str
    text: str
    second: str | None = None
    truth: str | None = None


@dataclass(frozen=True)
class Prediction:
    """What the model says of one text: classes by falling probability; none of a blank line."""

    name: str
    text: str
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]
    second: str | None = None
    truth: str | None = None

    def __str__(self) -> str:
        if not self.classes:
            return ""  # so that lines stay aligned
        known = "" if self.truth is None else f"  (it is {self.truth})"
        best = list(zip(self.probabilities, self.classes, strict=True))[:3]
        labels = "  ".join(f"{share:6.1%} {word}" for share, word in best)
        return f"{labels}{known}  {' '.join(self.text.split())[:100]}"

    def to_values(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "input": self.name,
            "text": self.text,
            "answer": self.classes[0] if self.classes else None,
            "probabilities": dict(zip(self.classes, self.probabilities, strict=True)),
        }
        if self.second is not None:
            values["second"] = self.second
        return values if self.truth is None else {**values, "truth": self.truth}


def parse_inputs(
    trained: Reader, inputs: Iterable[Any], data: Callable[[], SentimentData]
) -> Iterator[TextInput | Unreadable]:
    """What a user names, as texts; of a pair in one line, a tab stands between the two."""
    facts, config = trained.metadata, trained.config
    reader = TextReader(
        TextInput,
        lambda name, text, second: from_text(trained, name, text, second),
        lambda split: own_split(facts, data(), split),
        pairs=facts.paired,
        columns=Columns(config.text_column, config.text_pair_column if facts.paired else ""),
    )
    return parse_texts(inputs, reader)


def from_text(trained: Reader, name: str, text: str, second: str | None) -> TextInput:
    """A text, or two texts, of no more windows than are read."""
    if not trained.metadata.paired or (second is None and not text.strip()):
        check_windows(trained, text)
        return TextInput(name, text)
    if second is None:
        text, _, second = text.partition("\t")
    if not text.strip() and not second.strip():
        return TextInput(name, "")
    if not (text.strip() and second.strip()):
        raise NoItem(
            f"has an empty {'second' if text.strip() else 'first'} text, and this run judges "
            "pairs: put a tab between the two, or give a tuple"
        )
    return TextInput(name, text, second)


def check_windows(trained: Reader, text: str) -> None:
    """Refuse a text that takes too many windows; the model reads each of them."""
    config = trained.config
    room, step = config.max_length - 2, config.max_length - 2 - config.window_overlap
    if len(text.encode()) <= MOST_WINDOWS * step:  # no token has less than a byte
        return
    count = 1 + max(0, -(-(len(encoded(trained.metadata.words, text)) - room) // step))
    if count > MOST_WINDOWS:
        raise NoItem(
            f"takes {count:,} windows of {config.max_length} tokens, and at most {MOST_WINDOWS:,} "
            "are read: cut it into several texts"
        )


def own_split(facts: Metadata, data: SentimentData, split: str) -> OwnSplit[TextInput]:
    """Texts of the run's own data, with their labels."""
    part = part_of(data, split)

    def item(row: int) -> TextInput:
        second = part.seconds[row] if part.seconds else None
        truth = facts.classes[part.labels[row]]
        return TextInput(f"{data.name} {split}:{row}", part.texts[row], second, truth)

    return OwnSplit(data.name, "texts", len(part), item)


def predict(trained: Reader, texts: Sequence[TextInput]) -> list[Prediction]:
    """The classes of each text, the most probable first; of a blank one, none."""
    real = [each for each in texts if each.text.strip()]
    if not real:
        return [Prediction(each.name, each.text, (), ()) for each in texts]
    try:
        found = iter(shares_of(trained, real))
    except ValueError as trouble:
        raise UserError(str(trouble)) from None
    answers = []
    for each in texts:
        if not each.text.strip():
            answers.append(Prediction(each.name, each.text, (), ()))
            continue
        shares = next(found)
        order = np.argsort(-shares, kind="stable").tolist()
        answers.append(
            Prediction(
                each.name,
                each.text,
                tuple(trained.metadata.classes[at] for at in order),
                tuple(float(shares[at]) for at in order),
                each.second,
                each.truth,
            )
        )
    return answers


def shares_of(trained: Reader, texts: Sequence[TextInput]) -> np.ndarray:
    """The probability of every class, for each text."""
    return scorer(windows_of(trained, texts), trained.metadata, trained.device)(trained.model)


def shares_by_window(trained: Reader, text: TextInput) -> np.ndarray:
    """The same for each window of a text; their mean is the text's."""
    windowed = windows_of(trained, [text])
    rows = np.arange(len(windowed.rows))
    alone = replace(windowed, owner=rows, labels=np.zeros_like(rows))
    return scorer(alone, trained.metadata, trained.device)(trained.model)


def windows_of(trained: Reader, texts: Sequence[TextInput]) -> Windowed:
    """Texts as a model reads them."""
    config, facts = trained.config, trained.metadata
    part = Labelled(
        tuple(each.text for each in texts),
        (0,) * len(texts),
        tuple(each.second or "" for each in texts) if facts.paired else (),
    )
    return in_windows(part, facts.words, config.max_length, config.window_overlap)
