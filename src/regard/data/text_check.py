"""What is wrong with texts, with labels, with translations or alone, found before any training."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from regard.data import pair_files
from regard.data.caption_check import EXAMPLES
from regard.data.caption_files import IMAGE_COLUMNS
from regard.data.corpus import CORPORA, ENDINGS, Corpus, find_corpus, read_corpus, texts_in
from regard.data.decode import SUFFIXES
from regard.data.images import SPLITS
from regard.data.label_files import LABEL_COLUMNS, TEXT_COLUMNS, head_of, part_files
from regard.data.labelled import LabelledSet, read_labelled
from regard.data.labelled_sets import name_at
from regard.data.listing import images_in
from regard.data.pair_files import TABLE
from regard.data.pairs import Pairs, PairSet, in_order, read_pairs
from regard.data.registry import resolve
from regard.data.sentences import lines
from regard.data.stored_texts import marks_of
from regard.data.tables import TABLES, beginning, ending
from regard.data.text import BLOCK, Text, opened
from regard.errors import UserError

LONG = 10_000  # characters of a line, or of a text with a label, that are worth knowing of
LONG_SENTENCE = 1_000  # the same of a text with a translation
MANY = 2**22  # lines that are remembered, so as to know them again
SHOWN = 60  # characters of an example

T = TypeVar("T")


@dataclass(frozen=True)
class TextReport:
    """What is wrong, what is only worth knowing, and what there is; one sentence each."""

    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()

    def sentences(self) -> Iterator[str]:
        """What the texts are, for people to read after the problems and notes."""
        yield from self.facts


# What lies there


def holds_labels(path: Path) -> bool:
    """Whether a file is a table that names no images, or a folder has one to train on."""
    if name_at(path):
        return True
    if path.is_dir():
        train = part_files(path).get("train")
        return train is not None and holds_labels(train)
    if not path.is_file() or ending(path).lower() not in TABLES:
        return False
    head = head_of(path)
    return bool(head) and set(IMAGE_COLUMNS).isdisjoint(head)


def holds_pairs(path: Path) -> bool:
    """Whether texts lie beside their translations: two columns, neither of which is of labels.

    Or, in a folder, such a table to train on, or files of two languages.
    """
    if path.is_dir():
        found = pair_files.part_files(path).get("train", {})
        others = {*TABLES, *(name[1:] for name in ENDINGS)}
        return len({*found} - others) > 1 or ([*found] == [TABLE] and holds_pairs(found[TABLE]))
    if not path.is_file() or ending(path) != TABLE:
        return False
    rows = [line.split("\t") for line in beginning(path)]
    named = {column.strip().lower() for row in rows[:1] for column in row}
    if not named.isdisjoint(
        (*TEXT_COLUMNS.split(", "), *LABEL_COLUMNS.split(", "), *IMAGE_COLUMNS)
    ):
        return False
    pairs = [row for row in rows if len(row) == 2]
    columns = [{row[at].strip() for row in pairs} for at in (0, 1)]
    few, many = sorted(map(len, columns))
    labels = any(column <= {"0", "1", "-1"} for column in columns)
    return 2 * len(pairs) > len(rows) and 2 * few > many and not labels


def holds_text(path: Path) -> bool:
    """Whether a file is plain text by its name, or a folder has such files and no image."""
    if path.is_dir():
        return bool(texts_in(path)) and not images_in(path)[0]
    return path.is_file() and path.name.lower().removesuffix(".gz").endswith(ENDINGS)


def is_plain(path: Path) -> bool:
    """The same, or whether a file may be text though its name does not say so."""
    try:
        if holds_text(path) or not path.is_file():
            return holds_text(path)
        if path.suffix.lower() in (*SUFFIXES, ".csv", ".tsv"):
            return False
        with opened(path) as file:
            return b"\0" not in file.read(2**10)
    except OSError:
        return False  # whoever reads it next says why


def is_blank(path: Path) -> bool:
    """Whether a file has nothing but spaces and line breaks."""
    if not path.is_file():
        return False
    with opened(path) as file:
        return all(not some.strip() for some in iter(lambda: file.read(BLOCK), b""))


# What is wrong with it


def check_labels(data: str, text: str = "", label: str = "", pair: str = "") -> TextReport:
    """Texts and labels in a table or a folder of some: rows of no use, and texts that recur."""
    found = all_of_use(read_labelled, data, text=text, label=label, pair=pair)
    counts = Counter(label for part in found.parts.values() for label in part.labels)
    named = ", ".join(f"{found.classes[label]} {count:,}" for label, count in counts.most_common())
    notes = [*alike(found.classes), *recurring(found)]
    for part in in_order(found.parts):
        if part != "train" and (known := found.shared(part)):
            notes.append(f"texts of {part} that are learnt from too: {known:,}")
    what = "pairs of texts" if found["train"].seconds else "texts"
    lines = [f"{found.name}: {counts.total():,} {what}, {len(found.classes)} classes ({named})"]
    if found.divided:
        sizes = ", ".join(f"{len(found[part]):,} {part}" for part in in_order(found.parts))
        lines.append(f"as its column split says: {sizes}")
    return TextReport(found.skipped, tuple(notes), tuple(lines))


def recurring(found: LabelledSet) -> Iterator[str]:
    """Notes on texts, or pairs, that occur again, above all with another label; and on long ones.

    Texts are known again by 8 bytes of their hashes, so that memory holds no text.
    """
    parts = list(found.parts.values())
    _, first, group = np.unique(
        np.concatenate([part.marks for part in parts]), return_index=True, return_inverse=True
    )
    labels = np.concatenate([np.array(part.labels, np.int64) for part in parts])
    different = np.unique(group * len(found.classes) + labels)  # of each text and label one
    several = np.flatnonzero(np.bincount(different // len(found.classes)) > 1)
    if len(several):  # only a note, as each may be the first of a pair whose second nobody named
        at = several[first[several].argmin()]
        its = different[different // len(found.classes) == at] % len(found.classes)
        row = int(first[at])
        text = next(islice(chain.from_iterable(part.texts for part in parts), row, None))
        yield (
            f"texts with more than one label: {len(several):,}, such as {text[:SHOWN]!r}, which is "
            f"called {' and '.join(found.classes[label] for label in its)}"
        )
    if again := int((np.bincount(group) > 1).sum()):
        yield f"texts that occur more than once: {again:,}"
    new = np.zeros(len(group), bool)
    new[first] = True
    rows = zip(chain.from_iterable(part.rows() for part in parts), new, strict=True)
    once = (text for row, is_new in rows if is_new for text in row)
    yield from long_ones(once, LONG)


def check_pairs(data: str) -> TextReport:
    """Texts and their translations: lines of no use, and texts that recur or are not translated."""
    found: PairSet = all_of_use(read_pairs, data)
    parts = list(found.parts.values())
    marks = np.concatenate([part.marks for part in parts])
    _, first, times = np.unique(marks, return_index=True, return_counts=True)
    notes = []
    if again := int((times > 1).sum()):
        notes.append(f"pairs that occur more than once: {again:,}")
    new = np.zeros(len(marks), bool)
    new[first] = True
    sources = np.concatenate([marks_of(part.source, len(part)) for part in parts])
    _, at, count = np.unique(sources[new], return_index=True, return_counts=True)
    several = np.flatnonzero(new)[at[count > 1]]
    same = np.flatnonzero(new & np.fromiter((one == other for one, other in both(parts)), bool))
    for what, rows in (
        ("texts with more than one translation", several),
        ("texts whose translation is the text itself", same),
    ):
        if len(rows):
            text, _ = next(islice(both(parts), int(rows.min()), None))
            notes.append(f"{what}: {len(rows):,}, such as {text[:SHOWN]!r}")
    once = (pair for pair, is_new in zip(both(parts), new, strict=True) if is_new)
    notes += long_ones(chain.from_iterable(once), LONG_SENTENCE)
    for part in in_order(found.parts):
        if part != "train" and (known := found.shared(part)):
            notes.append(f"pairs of {part} that are learnt from too: {known:,}")
    sizes = ", ".join(f"{len(found[part]):,} {part}" for part in in_order(found.parts))
    one, other = found.languages
    line = f"{found.name}: {len(marks):,} pairs, {one} and {other} ({sizes})"
    return TextReport(found.skipped, tuple(notes), (line,))


def both(parts: Iterable[Pairs]) -> Iterator[tuple[str, str]]:
    """Each text with its translation, part after part."""
    return chain.from_iterable(zip(part.source, part.target, strict=True) for part in parts)


def check_text(data: str) -> TextReport:
    """A plain text, or a folder of some, to its end: what is no UTF-8, and lines that recur."""
    try:
        corpus = read_corpus(data)
        return checked_lines(corpus)
    except UserError:
        faults = [fault for path in files_of(data) for fault in undecodable(path)]
        if not faults:
            raise
    more = len(faults) - EXAMPLES
    return TextReport(
        (*faults[:EXAMPLES], *([f"and {more:,} more like these"] if more > 0 else []))
    )


def checked_lines(corpus: Corpus) -> TextReport:
    """How long the parts of a text are, and which of their lines are long, empty or known."""
    seen: set[int] = set()  # hashes of lines to train on
    total = empty = 0
    long: list[str] = []
    notes = []
    for part in SPLITS:
        again, example = 0, ""
        for number, line in enumerate(lines_in(corpus[part]), start=1):
            total += 1
            if len(line) > LONG:
                long.append(f"line {number:,} of {part}, of {len(line):,}")
            if not (bare := line.strip()):
                empty += 1
            elif hash(bare) in seen:
                again, example = again + 1, example or bare[:SHOWN]
            elif part == "train" and len(seen) < MANY:
                seen.add(hash(bare))
        if again:
            learnt = f"of {part} that are learnt from too"
            what = "to train on that repeat an earlier one" if part == "train" else learnt
            notes.append(f"lines {what}: {again:,}, such as {example!r}")
    if long:
        notes.append(f"lines of over {LONG:,} characters: {len(long):,}, such as {long[0]}")
    sizes = {part: sum(map(len, corpus[part])) for part in SPLITS}
    parts = ", ".join(f"{size:,} {part}" for part, size in sizes.items())
    return TextReport(
        (),
        tuple(notes),
        (
            f"{corpus.name}: {sum(sizes.values()):,} characters ({parts})",
            f"{total:,} lines, {empty:,} of them empty",
        ),
    )


# What these need


def all_of_use(read: Callable[..., T], data: str, **columns: str) -> T:
    """What a reader finds where rows of no use are left out, and told of.

    If nothing is left, the first fault is the error, which leaving out rows had hidden.
    """
    try:
        return read(data, **columns, skip_bad=True)
    except UserError:
        read(data, **columns)
        raise


def alike(classes: Iterable[str]) -> Iterator[str]:
    """Classes that nobody would tell apart who reads them aloud."""
    spellings: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        spellings[name.casefold()].append(name)
    for same in spellings.values():
        if len(same) > 1:
            yield f"classes that differ only in capitals: {' and '.join(map(repr, same))}"


def long_ones(texts: Iterable[str], most: int) -> Iterator[str]:
    """A note on texts of more characters than that."""
    count, example = 0, ""
    for text in texts:
        if len(text) > most:
            count, example = count + 1, example or text[:SHOWN]
    if count:
        yield f"texts of over {most:,} characters: {count:,}, such as {example!r}"


def lines_in(text: Text) -> Iterator[str]:
    """The lines of a text, without the nothing that is behind the last line break."""
    held = ""
    for number, line in enumerate(lines(text)):
        if number:
            yield held
        held = line
    if held:
        yield held


def files_of(data: str) -> list[Path]:
    """The files that a text is read from; none of one that is embedded."""
    path = find_corpus(data) if data in CORPORA else resolve(data)
    if path is None or not path.is_dir():
        return [path] if path is not None and path.is_file() else []
    return texts_in(path)


def undecodable(path: Path) -> Iterator[str]:
    """A sentence for each line of a file that is no UTF-8."""
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as wrong:
                yield (
                    f"{path}, line {number:,} is not UTF-8: its byte {wrong.start + 1}, "
                    f"0x{line[wrong.start]:02x}, belongs to no character; save it as UTF-8 first"
                )
