"""What is wrong with texts of your own, with labels or without, found before any training."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data.caption_files import IMAGE_COLUMNS
from regard.data.corpus import ENDINGS, read_corpus
from regard.data.images import SPLITS
from regard.data.label_files import TABLES, head_of
from regard.data.labelled import LabelledSet, read_labelled
from regard.data.pair_files import ending
from regard.errors import UserError


@dataclass(frozen=True)
class TextReport:
    """What is wrong, what is only worth knowing, and what there is; one sentence each."""

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    def sentences(self) -> Iterator[str]:
        """What the texts are, for people to read after the problems and notes."""
        yield from self.told


def holds_labels(path: Path) -> bool:
    """Whether a file is a table that names no images."""
    if not path.is_file() or ending(path).lower() not in TABLES:
        return False
    head = head_of(path)
    return len(head) > 1 and set(IMAGE_COLUMNS).isdisjoint(head)


def holds_text(path: Path) -> bool:
    """Whether a file is plain text by its name."""
    return path.is_file() and path.name.lower().removesuffix(".gz").endswith(ENDINGS)


def check_labels(path: Path) -> TextReport:
    """Texts and labels in a table or a folder of some: rows of no use, and texts that recur."""
    try:
        found = read_labelled(path, skip_bad=True)
    except UserError as trouble:
        return TextReport((unreadable(path, trouble),))
    labels = labels_of(found)
    counts = Counter(label for some in labels.values() for label in some)
    named = ", ".join(f"{found.classes[label]} {count:,}" for label, count in counts.most_common())
    notes = []
    twofold = [text for text, some in labels.items() if len(set(some)) > 1]
    if twofold:  # only a note, as each may be the first of a pair whose second nobody named
        some = " and ".join(found.classes[label] for label in sorted(set(labels[twofold[0]])))
        notes.append(
            f"texts with more than one label: {len(twofold):,}, such as {twofold[0][0][:60]!r}, "
            f"which is called {some}"
        )
    if again := sum(len(some) > 1 for some in labels.values()):
        notes.append(f"texts that occur more than once: {again:,}")
    for part in ("validation", "test"):
        if known := found.shared(part):
            notes.append(f"texts of {part} that are learnt from too: {known:,}")
    return TextReport(
        found.skipped,
        tuple(notes),
        (f"{found.name}: {counts.total():,} texts, {len(found.classes)} classes ({named})",),
    )


def unreadable(path: Path, trouble: UserError) -> str:
    """Why nothing of a table can be used: its first fault, which leaving out rows had hidden."""
    try:
        read_labelled(path)
    except UserError as first:
        trouble = first
    return f"{trouble}{' when you train' if 'say with --' in str(trouble) else ''}"


def labels_of(found: LabelledSet) -> dict[tuple[str, ...], list[int]]:
    """Every label that each text, or pair, has, in whatever part."""
    labels: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for part in found.parts.values():
        for text, label in zip(part.whole(), part.labels, strict=True):
            labels[text].append(label)
    return labels


def check_text(path: Path) -> TextReport:
    """A plain text, read to its end: what is no UTF-8 is found."""
    try:
        corpus = read_corpus(path)
        sizes = {part: sum(map(len, corpus[part])) for part in SPLITS}
    except UserError as trouble:
        return TextReport((str(trouble),))
    parts = ", ".join(f"{size:,} {part}" for part, size in sizes.items())
    return TextReport((), (), (f"{corpus.name}: {sum(sizes.values()):,} characters ({parts})",))
