"""Texts with labels, in parts to learn from, to choose by and to test on.

    texts = read_labelled("reviews")        # or "sst2", "own.csv", "own.tsv.gz", "own/"
    texts.classes                           # ("negative", "positive")
    texts["train"].texts[0], texts["train"].labels[0]

What there is by name, which files of your own are read, and what is held out. `label_files` reads
the files themselves.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from regard.data.catalogue import resolve
from regard.data.held_texts import Held, a_tenth, with_phrases
from regard.data.images import SPLITS
from regard.data.label_files import TABLES, Columns, Read, read_labels
from regard.data.listing import SPELLINGS, in_order
from regard.data.pair_files import ending, lines_of
from regard.errors import UserError, nearest
from regard.folders import data_folders

FURTHER = "test2013"  # SST-2's own test, where its labels are given


class Named(NamedTuple):
    """What there is to say about labelled texts that have a name."""

    title: str
    licence: str
    source: str
    classes: tuple[str, ...]
    places: tuple[str, ...] = ()  # under each folder that is searched; none if they are embedded
    files: str = ""  # what lies there


LABELLED: Mapping[str, Named] = MappingProxyType(
    {
        "reviews": Named(
            "11,000 sentences that praise or blame, with negations, contrasts and quotations",
            "Apache-2.0",
            "made by regard",
            ("negative", "positive"),
        ),
        "sst2": Named(
            "67,000 phrases and 872 sentences from reviews of films",
            "none stated; cite Socher et al., 2013",
            "https://gluebenchmark.com/tasks",
            ("negative", "positive"),
            ("sst2", "SST-2", "glue/SST-2", "glue_data/SST-2"),
            "train.tsv and dev.tsv",
        ),
    }
)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Texts and the numbers of their classes."""

    texts: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            raise ValueError(f"{len(self.texts)} texts cannot have {len(self.labels)} labels")

    def __len__(self) -> int:
        return len(self.texts)

    def only(self, rows: Iterable[int]) -> Labelled:
        """Some of them."""
        rows = list(rows)
        return Labelled(
            tuple(self.texts[row] for row in rows), tuple(self.labels[row] for row in rows)
        )


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

    def __post_init__(self) -> None:
        if missing := [name for name in SPLITS if name not in self.parts]:
            raise ValueError(f"{self.name} has no part {missing[0]}; it may be empty")
        for part, rows in self.parts.items():
            if wrong := [label for label in rows.labels if not 0 <= label < len(self.classes)]:
                raise ValueError(
                    f"{part} of {self.name} has label {wrong[0]}, but there are "
                    f"{len(self.classes)} classes"
                )

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
        """How many texts of a part are, letter for letter, among those to learn from."""
        learnt = set(self["train"].texts)
        return sum(text in learnt for text in self[part].texts)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of everything a model could learn from, however it lies in files."""
        told = hashlib.sha256(json.dumps(self.classes).encode())
        for name in by_part(self.parts):
            part = self.parts[name]
            told.update(f"{name} {len(part)}\n".encode())
            told.update(json.dumps([part.texts, part.labels]).encode())
        return told.hexdigest()


def read_labelled(
    name: str | Path, *, text: str = "", label: str = "", skip_bad: bool = False
) -> LabelledSet:
    """Labelled texts by their name, or your own by their path.

    - `own.csv`, `own.tsv`: a table whose first line names its columns. The texts are in `text`,
      `sentence`, `review` or `content`, the labels in one of `label_files.LABEL_COLUMNS`, or
      wherever `text` and `label` say. Two columns need no names if it is plain which is which.
    - `own/`: a folder with such files: train, and val, valid, validation or dev, and test.

    All may be packed by gzip. Labels are any words, at least two different ones. Without a part for
    validation, a tenth of the texts to learn from is held out, at most 1,000: those with the
    smallest SHA-256, the same on every machine and in whatever order the rows are. A text that
    occurs several times is on one side only, and every class keeps a text to learn from.

    `sst2` is the set of the GLUE benchmark, whose test has no labels. As in most papers, `test` is
    its dev.tsv. For validation, every twentieth sentence (again by SHA-256) is held out with all
    phrases that occur in no other: training has nearly each phrase of a sentence as a row of its
    own, and a phrase held out alone would be known from the sentence around it. If there is a
    test.tsv with labels, it is a further part, `test2013`.

    The first fault is a `UserError`. With `skip_bad`, a row that is no use (no text, no label, no
    UTF-8, a column too many, a label that training lacks) is left out and named in `skipped`; what
    makes a whole file doubtful is an error all the same.
    """
    if isinstance(name, str) and name in LABELLED:
        for flag, column in (("--text", text), ("--label", label)):
            if column:
                raise UserError(f"{flag} {column} is for files of your own; {name} needs none")
        return read_named(name, skip_bad)
    path = resolve(name)
    try:
        if path.is_dir():
            return read_folder(path, text, label, skip_bad)
        if path.is_file():
            check_table(path)
            return from_reads(path, {"train": read_labels(path, text, label)}, skip_bad)
    except OSError as trouble:
        raise UserError(f"{path} cannot be read: {trouble.strerror}") from None
    named = not any(sign in str(name) for sign in "/\\.")
    raise UserError(f"{path} is not there" + (f"; {nearest(str(name), LABELLED)}" if named else ""))


# By name


def find_labelled(name: str) -> Path | None:
    """The first folder that holds the texts of a name; None for embedded ones."""
    places = (folder / place for folder in data_folders() for place in LABELLED[name].places)
    return next((place for place in places if any(place.glob("train.tsv*"))), None)


def read_named(name: str, skip_bad: bool) -> LabelledSet:
    """Labelled texts that have a name, wherever they lie."""
    if name == "reviews":
        from regard.data.embedded.reviews import reviews

        return reviews()
    if folder := find_labelled(name):
        return read_sst2(folder, skip_bad)
    named = LABELLED[name]
    home = data_folders()[0] / named.places[0]
    raise UserError(
        f"{name} is not on this machine: put {named.files} from {named.source} into {home}"
    )


def read_sst2(folder: Path, skip_bad: bool) -> LabelledSet:
    """SST-2 as GLUE gives it: 0 is negative, 1 is positive."""
    named = LABELLED["sst2"]
    files = part_files(folder)
    if missing := [file for file in ("train", "validation") if file not in files]:
        raise UserError(f"{folder} has no {'train' if 'train' in missing else 'dev'}.tsv")
    reads = {"train": read_labels(files["train"]), "test": read_labels(files["validation"])}
    if "test" in files and b"label" in lines_of(files["test"])[0].split():
        further = read_labels(files["test"])
        if set(further.labels) <= {"0", "1"}:  # elsewhere -1 stands for "not told"
            reads[FURTHER] = further
    if strange := [label for label in reads["train"].labels if label not in ("0", "1")]:
        raise UserError(f"{files['train']} has label {strange[0]!r}; SST-2 has 0 and 1")
    found = from_reads(folder, reads, skip_bad, with_phrases)
    return replace(
        found, name="sst2", classes=named.classes, licence=named.licence, origin=named.source
    )


# Files and folders


def check_table(path: Path) -> None:
    if ending(path).lower() not in TABLES:
        raise UserError(
            f"{path} is no .csv or .tsv: give a table with a text and a label in each row, or a "
            "folder with train.csv and perhaps validation.csv and test.csv"
        )


def read_folder(folder: Path, text: str, label: str, skip_bad: bool) -> LabelledSet:
    """A folder with a table for each part; training comes first and settles what is in doubt."""
    files = part_files(folder)
    places = {Path(place).name for place in LABELLED["sst2"].places}
    if folder.resolve().name in places and {"train", "validation"} <= {*files}:
        return read_sst2(folder, skip_bad)  # the same by its path as by its name
    if "train" not in files:
        raise UserError(f"{folder} has no train.csv or train.tsv")
    reads: dict[str, Read] = {}
    like: Columns | None = None
    for part in by_part(files):
        reads[part] = read_labels(files[part], text, label, like)
        like = reads["train"].columns
    return from_reads(folder, reads, skip_bad)


def part_files(folder: Path) -> dict[str, Path]:
    """The tables of a folder that are named after parts."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem = path.name.removesuffix(".gz").rpartition(".")[0]
        part = SPELLINGS.get(stem.lower())
        if part and ending(path).lower() in TABLES and path.is_file():
            if part in found:
                raise UserError(
                    f"{folder} has two files for {part}, {found[part].name} and {path.name}: "
                    "keep one"
                )
            found[part] = path
    return found


def from_reads(
    path: Path,
    reads: Mapping[str, Read],
    skip_bad: bool,
    held: Held = a_tenth,
) -> LabelledSet:
    """What was read, part by part; `held` chooses texts for validation where there is none."""
    known = set(reads["train"].labels)
    classes = in_order(known)
    faults = [fault for part in by_part(reads) for fault in reads[part].faults]
    if len(known) > 1:
        faults += [fault for part in by_part(reads) for fault in lacking(reads[part], classes)]
    if faults and not skip_bad:
        more = f" (and {len(faults) - 1:,} more like this)" if len(faults) > 1 else ""
        raise UserError(faults[0] + more)
    if len(known) == 1:
        raise UserError(
            f"{reads['train'].path} has one label only, {classes[0]!r}, in "
            f"{len(reads['train'].labels):,} rows; there is nothing to tell apart"
        )
    number = {label: n for n, label in enumerate(classes)}
    parts = {}
    for part, read in reads.items():
        rows = [row for row, label in enumerate(read.labels) if label in number]
        if not rows:
            raise UserError(f"{read.path}: no row is left for {part}, as none is of use")
        labels = tuple(number[read.labels[row]] for row in rows)
        parts[part] = Labelled(tuple(read.texts[row] for row in rows), labels)
    if "validation" not in parts:
        train = parts["train"]
        out = held(train.texts, train.labels)
        if not out:
            raise UserError(
                f"{path} has {len(set(train.texts))} different texts and {len(classes)} labels: at "
                "least one label needs two texts, of which one is held out for validation"
            )
        parts["train"] = train.only(n for n, text in enumerate(train.texts) if text not in out)
        parts["validation"] = train.only(n for n, text in enumerate(train.texts) if text in out)
    parts.setdefault("test", Labelled())
    ordered = {part: parts[part] for part in by_part(parts)}
    here = path.resolve()
    return LabelledSet(here.name, classes, ordered, origin=str(here), skipped=tuple(faults))


def lacking(read: Read, classes: tuple[str, ...]) -> Iterator[str]:
    """A sentence for each row whose label no text to learn from has."""
    some = ", ".join(classes[:10]) + (f" and {len(classes) - 10} more" if classes[10:] else "")
    for line, label in zip(read.lines, read.labels, strict=True):
        if label not in classes:
            yield (
                f"{read.path}, line {line} has label {label[:80]!r}, which no text to learn from "
                f"has; there are {some}"
            )


def by_part(parts: Collection[str]) -> list[str]:
    """Train, validation and test first, then others by name."""
    return sorted(parts, key=lambda name: (SPLITS.index(name) if name in SPLITS else 3, name))
