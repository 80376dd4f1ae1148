"""Which labelled texts are held out to choose by: the same on every machine, in whatever order.

out = a_tenth(texts, labels)            # a set of texts; whole texts, wherever they recur
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, Int64

from regard.data.stored_texts import marks_of

HELD = 1_000  # texts, at the most
SENTENCES = 20  # of so many sentences, one is held out with its phrases
WORD = re.compile(r"\S+")

Held = Callable[[Sequence[str], Sequence[int]], set[str]]  # a rule: texts and labels, some texts


def a_tenth(texts: Sequence[str], labels: Sequence[int]) -> set[str]:
    """Of each class about a tenth of its texts, in the order of their hashes; at most 1,000 in all.

    A class of which there are two texts or more gives one at least, and no class gives its last. A
    text is held with every row that it is in, whatever its labels are there; one that occurs too
    often to fit is passed over, unless its class would give none: then the rarest is held.
    """
    groups = Groups.of(texts, labels)
    left = groups.texts_of_class.tolist()  # texts of each class that are not held
    room = shares(groups.rows_of_class, groups.texts_of_class).tolist()  # rows that may yet be
    without = {label for label, count in enumerate(room) if count}  # classes that gave none yet
    held: list[int] = []

    def spare(counts: Counter[int]) -> bool:
        return all(left[label] > 1 for label in counts)

    def hold(number: int, counts: Counter[int]) -> None:
        held.append(groups.first_row(number))
        for label, count in counts.items():
            room[label] -= count
            left[label] -= 1
        without.difference_update(counts)

    wanted = sum(room)
    for number in range(len(groups)):
        if wanted <= 0:
            break
        if room[groups.label(number)] > 0:
            counts = groups.counts(number)
            if all(count <= room[label] for label, count in counts.items()) and spare(counts):
                hold(number, counts)
                wanted -= counts.total()
    for label in sorted(without):
        if label in without:
            by_size = ((number, groups.counts(number)) for number in groups.smallest_first(label))
            if found := next((each for each in by_size if spare(each[1])), None):
                hold(*found)
    return {texts[row] for row in held}


def shares(rows: Int64[np.ndarray, "k"], texts: Int64[np.ndarray, "k"]) -> Int64[np.ndarray, "k"]:
    """How many rows of each class are held out, given its rows and its different texts.

    A tenth of all rows, at most 1,000, is divided as the classes are; what is left over by rounding
    down goes to those that lose most by it. A class that can give one gives one.
    """
    total = min(HELD, int(rows.sum()) // 10)
    exact = rows * total / max(1, int(rows.sum()))
    share = np.floor(exact).astype(np.int64)
    most = np.lexsort((np.arange(len(rows)), -(exact - share)))
    share[most[: total - int(share.sum())]] += 1
    share = np.where(texts > 1, np.maximum(share, 1), 0)
    if int((share > 0).sum()) > HELD:  # one each would be too many: the largest classes give one
        first = np.lexsort((np.arange(len(rows)), -rows * (share > 0)))[:HELD]
        share = np.isin(np.arange(len(rows)), first).astype(np.int64)
    while share.sum() > HELD:  # raised by small classes: the largest share gives way
        share[share.argmax()] -= 1
    return share


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows of equal texts, group by group in the order of their hashes, with labels in arrays."""

    order: Int64[np.ndarray, "rows"]  # rows by hash, and those of a group as they came
    labels: Int32[np.ndarray, "rows"]  # in this order
    starts: Int64[np.ndarray, "groups_and_1"]
    classes: int
    texts_of_class: Int64[np.ndarray, "k"]

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[int]) -> Groups:
        marks = marks_of(texts, len(texts))
        order = np.argsort(marks, kind="stable")
        marks = marks[order]
        numbers = np.fromiter(labels, np.int32, len(labels))[order]
        starts = np.append(np.flatnonzero(np.diff(marks, prepend=~marks[:1])), len(marks))
        classes = int(numbers.max(initial=-1)) + 1
        # A group of one row has one class; of the others, each class counts once.
        alone = np.diff(starts) == 1
        each = np.bincount(numbers[starts[:-1][alone]], minlength=classes)
        for number in np.flatnonzero(~alone).tolist():
            each[np.unique(numbers[starts[number] : starts[number + 1]])] += 1
        return cls(order, numbers, starts, classes, each)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def rows_of_class(self) -> Int64[np.ndarray, "k"]:
        return np.bincount(self.labels, minlength=self.classes)

    def label(self, number: int) -> int:
        """Of the first row of a group."""
        return int(self.labels[self.starts[number]])

    def counts(self, number: int) -> Counter[int]:
        """How many rows of each class a group has."""
        return Counter(self.labels[self.starts[number] : self.starts[number + 1]].tolist())

    def first_row(self, number: int) -> int:
        return int(self.order[self.starts[number]])

    def smallest_first(self, label: int) -> list[int]:
        """The groups with a label by their numbers of rows, equals by hash."""
        of_group = np.repeat(np.arange(len(self)), np.diff(self.starts))
        mine = np.unique(of_group[self.labels == label])
        found: list[int] = mine[np.argsort(np.diff(self.starts)[mine], kind="stable")].tolist()
        return found


def with_phrases(texts: Sequence[str], labels: Sequence[int]) -> set[str]:
    """Every twentieth sentence by its hash, with the phrases that occur in no other sentence.

    A sentence is a text that is no phrase of a longer one. Held out without its phrases, it would
    be known from them.
    """
    all_texts = set(texts)
    sentences: dict[str, set[str]] = {}  # with the texts that are phrases of each, itself included
    around: dict[str, set[str]] = {}  # the sentences that each phrase occurs in
    for text in sorted(all_texts, key=lambda text: (-len(text), text)):
        if text not in around:
            sentences[text] = phrases(text) & all_texts
            for phrase in sentences[text]:
                around.setdefault(phrase, set()).add(text)
    order = sorted(sentences, key=fingerprint)
    out = set(order[: max(1, len(order) // SENTENCES)]) if len(order) > 1 else set()
    return {phrase for text in out for phrase in sentences[text] if around[phrase] <= out}


def phrases(text: str) -> set[str]:
    """Every run of words of a text, itself included."""
    words = [word.span() for word in WORD.finditer(text)]
    return {text[start:end] for n, (start, _) in enumerate(words) for _, end in words[n:]}


def fingerprint(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
