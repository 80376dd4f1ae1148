"""Texts with labels, in parts to learn from, to choose by and to test on.

    texts = read_labelled("reviews")        # or "sst2", "sick", "own.csv", "own.tsv.gz", "own/"
    texts.classes                           # ("negative", "positive")
    texts["train"].texts[0], texts["train"].labels[0]
    read_labelled("sick")["train"].seconds  # the second text of each pair, where pairs have labels

Which files of your own are read, and what is held out. `labelled_sets` has what there is by name,
and `label_files` reads the files themselves.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from jaxtyping import UInt64

from regard.data.held_texts import Held, a_tenth, with_phrases
from regard.data.images import SPLITS
from regard.data.label_files import Columns, Read, part_files, read_labels
from regard.data.labelled_sets import LABELLED, READERS, find_labelled, name_at, place_of
from regard.data.listing import in_order
from regard.data.registry import resolve
from regard.data.stored_texts import as_json, marks_of, only
from regard.data.tables import TABLES, ending
from regard.errors import DataIssue, Located, UserError, at_line, nearest

__all__ = ["LABELLED", "Labelled", "LabelledSet", "find_labelled", "read_labelled"]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Texts, or pairs of texts, and the numbers of their classes.

    Many texts lie in a file, and are read from it when they are asked for.
    """

    texts: Sequence[str] = ()
    labels: tuple[int, ...] = ()
    seconds: Sequence[str] = ()  # the second text of each pair; none where rows are single texts

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            raise ValueError(f"{len(self.texts)} texts cannot have {len(self.labels)} labels")
        if self.seconds and len(self.texts) != len(self.seconds):
            raise ValueError(f"{len(self.texts)} texts cannot have {len(self.seconds)} seconds")

    def __len__(self) -> int:
        return len(self.texts)

    def only(self, rows: Iterable[int]) -> Labelled:
        """Some of them."""
        kept = np.fromiter(rows, np.int64)
        return Labelled(
            only(self.texts, kept),
            tuple(self.labels[row] for row in kept),
            only(self.seconds, kept) if self.seconds else (),
        )

    @cached_property
    def marks(self) -> UInt64[np.ndarray, "texts"]:
        """A number for each text, or pair, that is the same for the same and hardly for another."""
        if not self.seconds:
            return marks_of(self.texts, len(self))
        return marks_of((f"{one}\0{other}" for one, other in self.rows()), len(self))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """What each label is of, one after the other: one text, or two."""
        sides = (self.texts, self.seconds) if self.seconds else (self.texts,)
        return zip(*sides, strict=True)

    def whole(self) -> list[tuple[str, ...]]:
        """All of these at once."""
        return list(self.rows())


@dataclass(frozen=True, eq=False)
class LabelledSet:
    """Labelled texts: train, validation and test, perhaps a further test, and whose they are.

    Where nobody held out a test, that part is empty. Texts to test on stay even if training has
    them too, so that figures can be compared with published ones; `shared` counts them.
    """

    name: str
    classes: tuple[str, ...]
    parts: Mapping[str, Labelled]
    licence: str = "your own"
    origin: str = ""
    skipped: tuple[str, ...] = ()  # a sentence for each row that was left out
    divided: bool = False  # whether a column says which part a row belongs to

    def __post_init__(self) -> None:
        if missing := [name for name in SPLITS if name not in self.parts]:
            raise ValueError(f"{self.name} has no part {missing[0]}; it may be empty")
        for part, rows in self.parts.items():
            if wrong := [label for label in rows.labels if not 0 <= label < len(self.classes)]:
                raise ValueError(
                    f"{part} of {self.name} has label {wrong[0]}, but there are "
                    f"{len(self.classes)} classes"
                )
        if len({bool(rows.seconds) for rows in self.parts.values() if len(rows)}) > 1:
            raise ValueError(f"{self.name} has pairs in some parts and single texts in others")

    def __getitem__(self, part: str) -> Labelled:
        if part not in self.parts:
            raise ValueError(f"no part {part!r}; there are {', '.join(self.parts)}")
        return self.parts[part]

    def counts(self, part: str = "train") -> tuple[int, ...]:
        """How many texts of a part each class has."""
        times = Counter(self[part].labels)
        return tuple(times[label] for label in range(len(self.classes)))

    def weights(self, part: str = "train") -> tuple[float, ...]:
        """A weight for each class, inverse to how often it occurs; 1 on average over the texts.

        With these all classes weigh the same, and the loss of a balanced set stays as it is.
        """
        counts = self.counts(part)
        if 0 in counts:
            name = self.classes[counts.index(0)]
            raise ValueError(f"class {name!r} has no text in {part}, so no weight makes up for it")
        return tuple(sum(counts) / (len(counts) * count) for count in counts)

    def shared(self, part: str) -> int:
        """How many texts, or pairs, of a part are letter for letter among those to learn from."""
        return int(np.isin(self[part].marks, self["train"].marks).sum())

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of everything a model could learn from, however it lies in files."""
        hasher = hashlib.sha256(json.dumps(self.classes).encode())
        for name in by_part(self.parts):
            part = self.parts[name]
            hasher.update(f"{name} {len(part)}\n".encode())
            # Runs keep this number, so single texts are told as before there were pairs.
            pairs = [part.seconds] if part.seconds else []
            for piece in as_json([part.texts, part.labels, *pairs]):
                hasher.update(piece.encode())
        return hasher.hexdigest()


def read_labelled(
    name: str | Path,
    *,
    text: str = "",
    label: str = "",
    pair: str = "",
    skip_bad: bool = False,
    learning: bool = True,
) -> LabelledSet:
    """Labelled texts by their name, or your own by their path.

    - `own.csv`, `own.tsv`: a table whose first line names its columns. The texts are in `text`,
      `sentence`, `review` or `content`, the labels in one of `label_files.LABEL_COLUMNS`, or
      wherever `text` and `label` say. Two columns need no names if it is plain which is which.
    - `own.jsonl`: an object in each line, with keys of these names.
    - `own/`: a folder with such files: train, and val, valid, validation or dev, and test.

    A column `split` says which part a row belongs to, by the same names; without a word there it is
    learnt from. In a folder, where the files say it, such a column may say nothing else.

    Where labels are of pairs, `pair` says in which column the second texts are.

    All may be packed by gzip. Labels are any words, at least two different ones; nan, null and <NA>
    stand for none. Without a part for validation, a tenth of the texts to learn from is held out,
    at most 1,000, about a tenth of each class and at least one text of it: those with the smallest
    SHA-256, the same on every machine and in whatever order the rows are. A text that
    occurs several times is on one side only, and every class keeps a text to learn from. Pairs are
    held out by their first texts, so that one is on one side only, whatever it goes with.

    `sst2` is the set of the GLUE benchmark, whose test has no labels. As in most papers, `test` is
    its dev.tsv. For validation, every twentieth sentence (again by SHA-256) is held out with all
    phrases that occur in no other: training has nearly each phrase of a sentence as a row of its
    own, and a phrase held out alone would be known from the sentence around it. If there is a
    test.tsv with labels, it is a further part, `test2013`.

    `sick` has pairs of sentences, of which the second follows from the first, contradicts it, or
    neither, in the parts of SemEval 2014; its TRIAL is the validation.

    The first fault is a `UserError`. With `skip_bad`, a row that is no use (no text, no label, no
    UTF-8, a column too many, a label that training lacks) is left out and named in `skipped`; what
    makes a whole file doubtful is an error all the same. Without `learning` the texts are only to
    measure by, and one label, or one text of each, is enough.
    """
    if isinstance(name, str) and name in LABELLED:
        for flag, column in (
            ("text-column", text),
            ("label-column", label),
            ("text-pair-column", pair),
        ):
            if column:
                raise UserError(f"--{flag} {column} is for files of your own; {name} needs none")
        return read_named(name, place_of(name), skip_bad)
    path = resolve(name)
    try:
        if not (text or label or pair) and (known := name_at(path)):
            return read_named(known, path, skip_bad)  # the same by its path as by its name
        if path.is_dir():
            return read_folder(path, text, label, pair, skip_bad, learning)
        if path.is_file():
            check_table(path)
            reads = by_split(read_labels(path, text, label, pair=pair))
            return from_reads(path, reads, skip_bad, learning=learning)
    except OSError as trouble:
        raise DataIssue(
            f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
        ) from None
    named = not any(sign in str(name) for sign in "/\\.")
    raise DataIssue(
        f"{path} is not there" + (f"; {nearest(str(name), LABELLED)}" if named else ""),
        path,
        kind="missing",
    )


def read_named(name: str, path: Path | None, skip_bad: bool) -> LabelledSet:
    """Labelled texts that have a name, at their path; None for embedded ones."""
    if path is None:
        from regard.data.synthetic.reviews import reviews

        return reviews()
    return read_known(name, path, skip_bad, stamps(path))


@lru_cache(maxsize=2)  # several runs of one process often read the same, and that takes seconds
def read_known(
    name: str, path: Path, skip_bad: bool, written: tuple[tuple[str, int, int], ...]
) -> LabelledSet:
    """The texts of a name as files hold them that were `written` just so."""
    named = LABELLED[name]
    held = with_phrases if name == "sst2" else a_tenth
    found = from_reads(path, READERS[name](path), skip_bad, held)
    return replace(
        found, name=name, classes=named.classes, licence=named.licence, origin=named.source
    )


def stamps(path: Path) -> tuple[tuple[str, int, int], ...]:
    """What tells whether a file, or one of a folder's, was written again: its time and size."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    facts = ((file.name, file.stat()) for file in files)
    return tuple((name, fact.st_mtime_ns, fact.st_size) for name, fact in facts)


# Files and folders


def check_table(path: Path) -> None:
    if ending(path).lower() not in TABLES:
        raise DataIssue(
            f"{path} is no .csv, .tsv or .jsonl: give a table with a text and a label in each row, "
            "or a folder with train.csv and perhaps validation.csv and test.csv",
            path,
            kind="format",
        )


def read_folder(
    folder: Path, text: str, label: str, pair: str, skip_bad: bool, learning: bool
) -> LabelledSet:
    """A folder with a table for each part; training comes first and settles what is in doubt."""
    files = part_files(folder)
    if "train" not in files:
        raise DataIssue(
            f"{folder} has no train.csv, train.tsv or train.jsonl", folder, kind="missing"
        )
    reads: dict[str, Read] = {}
    like: Columns | None = None
    for part in by_part(files):
        reads[part] = read_labels(files[part], text, label, like, pair)
        like = reads["train"].columns
        reads[part] = check_split(reads[part], part)
    return from_reads(folder, reads, skip_bad, learning=learning)


def by_split(read: Read) -> dict[str, Read]:
    """The parts of one table: those that its column `split` tells, or all of it to learn from."""
    if not read.splits:
        return {"train": read}
    parts = {
        part: read.only(row for row, split in enumerate(read.splits) if split == part)
        for part in {"train": "", **dict.fromkeys(read.splits)}
    }
    parts["train"] = parts["train"]._replace(faults=read.faults, more=read.more)
    return parts


def check_split(read: Read, part: str) -> Read:
    """A table that is one part of a folder; its column `split` must not say another."""
    for line, split in zip(read.lines, read.splits, strict=False):
        if split != part:
            raise DataIssue(
                f"{read.path}, line {line} has split {split!r}, but the name of the file says "
                f"{part}: take out the column, or put all rows into one table",
                read.path,
                line,
                kind="split",
            )
    return read._replace(splits=())


def from_reads(
    path: Path,
    reads: Mapping[str, Read],
    skip_bad: bool,
    held: Held = a_tenth,
    *,
    learning: bool = True,
) -> LabelledSet:
    """What was read, part by part; `held` chooses texts for validation where there is none."""
    taught = [reads["train"]] if learning else reads.values()
    known = {label for read in taught for label in read.labels}
    classes = in_order(known)
    faults = [fault for part in by_part(reads) for fault in reads[part].faults]
    if len(known) > 1:
        faults += [fault for part in by_part(reads) for fault in lacking(reads[part], classes)]
    more = sum(read.more for read in reads.values())  # that are not written out
    if faults and not skip_bad:
        others = f" (and {len(faults) + more - 1:,} more like this)" if len(faults) > 1 else ""
        raise DataIssue(faults[0] + others, faults[0])
    if more:
        faults.append(Located(f"{path} has {more:,} more rows that are no use", path))
    divided = any(read.splits for read in reads.values())
    if divided and learning and not reads["train"].labels:
        raise DataIssue(
            f"{path} has a column split, and in it no row to learn from: call some train",
            path,
            kind="split",
        )
    if len(known) == 1 and learning:
        raise DataIssue(
            f"{reads['train'].path} has one label only, {classes[0]!r}, in "
            f"{len(reads['train'].labels):,} rows; there is nothing to tell apart",
            reads["train"].path,
            kind="one-class",
        )
    number = {label: n for n, label in enumerate(classes)}
    parts = {}
    for part, read in reads.items():
        kept = read
        if not number.keys() >= {*read.labels}:
            kept = read.only(row for row, label in enumerate(read.labels) if label in number)
        if not kept.labels and not (divided and part == "train"):
            raise DataIssue(
                f"{read.path}: no row is left for {part}, as none is of use",
                read.path,
                kind="empty",
            )
        labels = tuple(number[label] for label in kept.labels)
        parts[part] = Labelled(kept.texts, labels, kept.seconds)
    if "validation" not in parts:
        train = parts["train"]
        out = held(train.texts, train.labels) if len(train) else set()
        if not out and learning:
            raise DataIssue(
                f"{path} has {len(set(train.texts))} different texts and {len(classes)} labels: at "
                "least one label needs two texts, of which one is held out for validation",
                path,
                kind="small",
            )
        parts["train"] = train.only(n for n, text in enumerate(train.texts) if text not in out)
        parts["validation"] = train.only(n for n, text in enumerate(train.texts) if text in out)
    parts.setdefault("test", Labelled())
    ordered = {part: parts[part] for part in by_part(parts)}
    here = path.resolve()
    return LabelledSet(
        *(here.name, classes, ordered), origin=str(here), skipped=tuple(faults), divided=divided
    )


def lacking(read: Read, classes: tuple[str, ...]) -> Iterator[str]:
    """A sentence for each row whose label no text to learn from has."""
    some = ", ".join(classes[:10]) + (f" and {len(classes) - 10} more" if classes[10:] else "")
    for line, label in zip(read.lines, read.labels, strict=True):
        if label not in classes:
            where = at_line(read.path, line)
            words = f"has label {label[:80]!r}, which no text to learn from has; there are {some}"
            yield Located(f"{where} {words}", where, kind="label")


def by_part(parts: Collection[str]) -> list[str]:
    """Train, validation and test first, then others by name."""
    return sorted(parts, key=lambda name: (SPLITS.index(name) if name in SPLITS else 3, name))
