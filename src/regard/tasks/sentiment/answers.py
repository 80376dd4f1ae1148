"""What a trained reader says of a text, of the lines of a file, or of its own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.label_files import head_of, read_texts
from regard.data.labelled import Labelled
from regard.data.tables import TABLES, ending
from regard.errors import UserError
from regard.tasks.sentiment.data import (
    Facts,
    SentimentData,
    Windowed,
    in_windows,
    part_of,
)
from regard.tasks.sentiment.judging import Reader
from regard.tasks.sentiment.learning import scorer
from regard.tasks.texts import asked


@dataclass(frozen=True)
class Asked:
    """A text to judge, or a pair, where it came from, and what it is, if that is known."""

    name: str
    text: str
    second: str | None = None
    truth: str | None = None


@dataclass(frozen=True)
class Answer:
    """What the model says of one text: classes by falling probability; none of a blank line."""

    name: str
    text: str
    classes: tuple[str, ...]
    shares: tuple[float, ...]
    second: str | None = None
    truth: str | None = None

    def __str__(self) -> str:
        if not self.classes:
            return ""  # so that lines stay aligned
        known = "" if self.truth is None else f"  (it is {self.truth})"
        best = list(zip(self.shares, self.classes, strict=True))[:3]
        said = "  ".join(f"{share:6.1%} {word}" for share, word in best)
        return f"{said}{known}  {' '.join(self.text.split())[:100]}"

    def to_values(self) -> dict[str, Any]:
        values: dict[str, Any] = {
            "input": self.name,
            "text": self.text,
            "answer": self.classes[0] if self.classes else None,
            "probabilities": dict(zip(self.classes, self.shares, strict=True)),
        }
        if self.second is not None:
            values["second"] = self.second
        return values if self.truth is None else {**values, "truth": self.truth}


def opened(
    trained: Reader, inputs: Sequence[Any], data: Callable[[], SentimentData]
) -> list[Asked]:
    """What a user names, as texts; of a pair, a tab stands between the two."""
    return asked(
        inputs,
        Asked,
        lambda name, text: from_line(trained.facts, name, text),
        lambda split, row: from_split(trained.facts, data(), split, row),
        lambda path: from_table(trained, path),
    )


def from_line(facts: Facts, name: str, text: str) -> Asked:
    """A line, which is a text, or two texts with a tab between."""
    if not facts.paired or not text.strip():
        return Asked(name, text)
    first, tab, second = text.partition("\t")
    if not (tab and first.strip() and second.strip()):
        raise UserError(
            f"{name[:60]!r} is one text, and this run judges pairs: put a tab between the two"
        )
    return Asked(name, first, second)


def from_table(trained: Reader, path: Path) -> list[Asked] | None:
    """The texts of a table, row by row; None for a file of lines.

    Pairs may be lines with a tab between, in a .tsv that does not name the run's columns too.
    """
    paired, config, kind = trained.facts.paired, trained.config, ending(path).lower()
    if kind not in TABLES or (paired and not config.pair):
        return None
    if paired and kind == "tsv" and config.pair.strip().lower() not in head_of(path):
        return None
    found = []
    for row in read_texts(path, config.text, config.pair if paired else ""):
        if row.fault:
            raise UserError(f"{path}, line {row.line} {row.fault}")
        found.append(Asked(f"{path}, line {row.line}", row.text, row.second if paired else None))
    return found


def from_split(facts: Facts, data: SentimentData, split: str, row: int) -> Asked:
    """A text of the run's own data, with its label."""
    part = part_of(data, split)
    if row >= len(part):
        raise UserError(
            f"{split}:{row}: {split} of {data.name} has the texts 0 to {len(part) - 1:,}"
        )
    second = part.seconds[row] if part.seconds else None
    truth = facts.classes[part.labels[row]]
    return Asked(f"{data.name} {split}:{row}", part.texts[row], second, truth)


def predict(trained: Reader, texts: Sequence[Asked]) -> list[Answer]:
    """The classes of each text, the most probable first; of a blank one, none."""
    real = [each for each in texts if each.text.strip()]
    if not real:
        return [Answer(each.name, each.text, (), ()) for each in texts]
    try:
        found = iter(shares_of(trained, real))
    except ValueError as trouble:
        raise UserError(str(trouble)) from None
    answers = []
    for each in texts:
        if not each.text.strip():
            answers.append(Answer(each.name, each.text, (), ()))
            continue
        shares = next(found)
        order = np.argsort(-shares, kind="stable").tolist()
        answers.append(
            Answer(
                each.name,
                each.text,
                tuple(trained.facts.classes[at] for at in order),
                tuple(float(shares[at]) for at in order),
                each.second,
                each.truth,
            )
        )
    return answers


def shares_of(trained: Reader, texts: Sequence[Asked]) -> np.ndarray:
    """The probability of every class, for each text."""
    return scorer(windows_of(trained, texts), trained.facts, trained.device)(trained.model)


def shares_by_window(trained: Reader, text: Asked) -> np.ndarray:
    """The same for each window of a text; their mean is the text's."""
    windowed = windows_of(trained, [text])
    rows = np.arange(len(windowed.rows))
    alone = replace(windowed, owner=rows, labels=np.zeros_like(rows))
    return scorer(alone, trained.facts, trained.device)(trained.model)


def windows_of(trained: Reader, texts: Sequence[Asked]) -> Windowed:
    """Texts as a model reads them."""
    config, facts = trained.config, trained.facts
    part = Labelled(
        tuple(each.text for each in texts),
        (0,) * len(texts),
        tuple(each.second or "" for each in texts) if facts.paired else (),
    )
    return in_windows(part, facts.words, config.longest, config.overlap)
