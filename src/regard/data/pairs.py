"""Texts and their translations, line by line, in parts to learn from, to choose by and to test on.

    pairs = read_pairs("numerals")      # or "multi30k", "own.tsv", "own/", "own.en,own.de"
    pairs["train"].source[0], pairs["train"].target[0]

What there is by name, which files of your own are read, and what is held out. `pair_files` reads
the files themselves.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64, UInt64

from regard.data.images import SPLITS
from regard.data.languages import SIDES, Wanted, usual
from regard.data.pair_files import (
    LANGUAGE,
    TABLE,
    Read,
    ending,
    named_columns,
    part_files,
    read_aligned,
    read_parts,
    read_table,
)
from regard.data.registry import beside, resolve
from regard.data.stored_texts import as_json, marks_of
from regard.data.stored_texts import only as some_of
from regard.errors import DataIssue, UserError, nearest
from regard.paths import data_folders

BOTH_WAYS = ("digits or words", "words or digits")  # in one set: there is no direction to choose
HELD = 1_000  # pairs held out for validation, at the most


class Named(NamedTuple):
    """What there is to say about parallel texts that have a name."""

    title: str
    licence: str
    source: str
    languages: tuple[str, str]
    places: tuple[str, ...] = ()  # under each folder that is searched; none if they are embedded
    files: str = ""  # what lies there


PAIRS: Mapping[str, Named] = MappingProxyType(
    {
        "numerals": Named(
            "23,000 numbers in digits and in English words, both ways",
            "Apache-2.0",
            "spelled by regard",
            BOTH_WAYS,
        ),
        "multi30k": Named(
            "31,000 captions of photographs in English and German",
            "none stated; cite Elliott et al., 2016",
            "https://github.com/multi30k/dataset",
            ("en", "de"),
            ("multi30k", "Multi30k", "multi30k/data/task1/raw"),  # the last of a clone
            "train, val, test_2016_flickr and test_2017_flickr, each .en.gz and .de.gz,",
        ),
    }
)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Texts and their translations: `target[n]` says what `source[n]` says.

    Many texts lie in a file, and are read from it when they are asked for.
    """

    source: Sequence[str] = ()
    target: Sequence[str] = ()

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise ValueError(
                f"{len(self.source)} texts cannot have {len(self.target)} translations"
            )

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def marks(self) -> UInt64[np.ndarray, "pairs"]:
        """A number for each pair that is the same for the same and hardly for another."""
        both = zip(self.source, self.target, strict=True)
        return marks_of((f"{one}\0{other}" for one, other in both), len(self))

    def swapped(self) -> Pairs:
        """The other way round."""
        return Pairs(self.target, self.source)


@dataclass(frozen=True, eq=False)
class PairSet:
    """Parallel texts: train, validation and test, perhaps further tests, and whose they are.

    Where nobody held out a test, that part is empty. Pairs to choose by or to test on stay where
    their authors put them even if training has them too, so that figures can be compared with
    published ones; `shared` counts them.
    """

    name: str
    languages: tuple[str, str]
    parts: Mapping[str, Pairs]
    licence: str = "your own"
    origin: str = ""
    skipped: tuple[str, ...] = ()  # a sentence for each pair that was left out
    exact: bool = False  # whether nothing but the very text of a translation is right
    files: tuple[str, str] = ("", "")  # where sources and where targets to learn from stand

    def __post_init__(self) -> None:
        if missing := [name for name in SPLITS if name not in self.parts]:
            raise ValueError(f"{self.name} has no part {missing[0]}; it may be empty")

    def __getitem__(self, part: str) -> Pairs:
        if part not in self.parts:
            raise ValueError(f"no part {part!r}; there are {', '.join(self.parts)}")
        return self.parts[part]

    @property
    def direction(self) -> str:
        """As it is asked for: en-de. Nothing where each pair goes both ways."""
        return "" if self.languages == BOTH_WAYS else "-".join(self.languages)

    def shared(self, part: str) -> int:
        """How many pairs of a part are, letter for letter, among those to learn from."""
        return int(np.isin(self[part].marks, self["train"].marks).sum())

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of everything a model could learn from, however it lies in files."""
        text = hashlib.sha256()
        for name in in_order(self.parts):
            part = self.parts[name]
            text.update(f"{name} {len(part)}\n".encode())
            for piece in as_json([part.source, part.target]):
                text.update(piece.encode())
        return text.hexdigest()


def read_pairs(
    name: str | Path,
    *,
    skip_bad: bool = False,
    direction: str = "",
    like: tuple[str, str] | None = None,
) -> PairSet:
    """Parallel texts by their name, or your own by their path.

    - `own.tsv`: a text, a tab and its translation in each line; a line above may name the
      languages, or source and target.
    - `own/`: a folder with files such as train.en and train.de, or with train.tsv. English is
      read and the other language is written; without English they are in the order of their
      letters. val, valid, validation or dev, and test, may lie there too; test_2017.en with
      test_2017.de is one more test, of that name.
    - `own.en,own.de`: two files that go line by line, the first of which is read.

    `direction`, such as "de-en", is by the endings of files or the names of columns; of a folder
    with more than two languages it chooses two. Without it, `like` are the languages of a run:
    they are taken in this order if the data have them, except of two files in an order of theirs.

    All may be packed by gzip. Without a part for validation, a tenth of the pairs to learn from is
    held out, at most 1,000: those whose sources have the smallest SHA-256. It is the same tenth on
    every machine and in whatever order the lines are, and a source that occurs several times, with
    one translation or with many, is on one side only.

    The first fault is a `UserError`. With `skip_bad`, a pair that is no use (an empty side, no
    UTF-8, a column too many) is left out and named in `skipped`; what makes a whole file doubtful
    is an error all the same.
    """
    wanted = Wanted(direction, like)
    if isinstance(name, str) and name in PAIRS:
        return read_named(name, skip_bad, wanted)
    path = resolve(name)
    try:
        if path.is_dir():
            return read_folder(path, skip_bad, wanted)
        if path.is_file():
            return read_one(path, skip_bad, wanted)
    except OSError as trouble:
        raise DataIssue(
            f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
        ) from None
    if "," in str(name):
        parts = [resolve(part.strip()) for part in str(name).split(",")]
        return read_two(parts, skip_bad, Wanted(direction))
    named = not any(sign in str(name) for sign in "/\\.")
    raise DataIssue(
        f"{path} is not there" + (f"; {nearest(str(name), PAIRS)}" if named else ""),
        path,
        kind="missing",
    )


def lasting_pairs(data: str) -> str:
    """The same data, said so that it stays true in any folder: paths are made absolute."""
    if data in PAIRS or os.path.exists(data):
        return data if data in PAIRS else os.path.abspath(data)
    files = [part.strip() for part in data.split(",")]
    whole = len(files) > 1 and all(map(os.path.exists, files))
    return ",".join(map(os.path.abspath, files)) if whole else data


def find_pairs(name: str) -> Path | None:
    """The first folder that holds the texts of a name; None for embedded ones."""
    places = (folder / place for folder in data_folders() for place in PAIRS[name].places)
    return next((place for place in places if any(place.glob("train.*"))), None)


def read_named(name: str, skip_bad: bool, wanted: Wanted) -> PairSet:
    """Parallel texts that have a name, wherever they lie."""
    if name == "numerals":
        from regard.data.synthetic.numerals import numerals

        if wanted.direction:
            raise UserError(
                f"--direction {wanted.direction}: numerals go both ways in one set; leave it out"
            )
        return numerals()
    if folder := find_pairs(name):
        return read_known(name, folder, skip_bad, wanted)
    named = PAIRS[name]
    home = data_folders()[0] / named.places[0]
    raise DataIssue(
        f"{name} is not on this machine: put {named.files} from {named.source} into {home}"
        f"{beside(name)}",
        kind="absent",
    )


def read_known(name: str, folder: Path, skip_bad: bool, wanted: Wanted) -> PairSet:
    """A folder that is known to hold the texts of a name, perhaps in more languages than two."""
    named, files = PAIRS[name], part_files(folder)
    here = files.get("train", {})
    languages = named.languages
    if {*languages} <= {*here}:
        languages = wanted.of(sorted({*here} - {TABLE}), languages, name)
    found = of_two(folder, files, languages, skip_bad)
    return replace(found, name=name, licence=named.licence, origin=named.source)


# Files and folders


def read_one(path: Path, skip_bad: bool, wanted: Wanted) -> PairSet:
    """One file with two columns."""
    if ending(path) != TABLE:
        raise DataIssue(
            f"{path} is one file, and no .tsv: give a .tsv of two columns, two files with a comma "
            "between (own.en,own.de), or a folder with train.en and train.de",
            path,
            kind="format",
        )
    sides = Sides(named_columns(path) or SIDES, ("column 1", "column 2"))
    return in_order_wanted(path, sides, {"train": read_table(path)}, skip_bad, wanted)


def read_two(paths: list[Path], skip_bad: bool, wanted: Wanted) -> PairSet:
    """Two files that go line by line, whose endings tell the languages if they are any."""
    if len(paths) != 2:
        names = ", ".join(map(str, paths))
        raise DataIssue(
            f"{len(paths)} files are given where two are expected: {names}", kind="several"
        )
    for path in paths:
        if not path.is_file():
            raise DataIssue(
                f"{path} is {'a folder' if path.is_dir() else 'not there'}", path, kind="missing"
            )
    one, other = map(ending, paths)
    are_languages = one != other and all(map(LANGUAGE.fullmatch, (one, other)))
    ours, theirs = (path.name for path in paths)
    sides = Sides((one, other) if are_languages else SIDES, (ours, theirs))
    found = in_order_wanted(
        paths[0], sides, {"train": read_aligned(*paths)}, skip_bad, wanted, f"{ours},{theirs}"
    )
    origin = ",".join(str(path.resolve()) for path in paths)
    return replace(found, name=f"{ours},{theirs}", origin=origin)


def read_folder(folder: Path, skip_bad: bool, wanted: Wanted) -> PairSet:
    """A folder with two files for each part, or a table for each."""
    files = part_files(folder)
    languages = sorted(files.get("train", {}))
    for name, named in PAIRS.items():
        # By its path it is the same as by its name, whatever other languages lie there.
        if folder.resolve().name in named.places and {*named.languages} <= {*languages}:
            return read_known(name, folder, skip_bad, wanted)
    if languages == [TABLE]:
        tables = {part: found[TABLE] for part, found in files.items() if TABLE in found}
        train = tables["train"]
        sides = Sides(
            named_columns(train) or SIDES,
            (f"column 1 of {train.name}", f"column 2 of {train.name}"),
        )
        reads = {part: read_table(path) for part, path in tables.items()}
        return in_order_wanted(folder, sides, reads, skip_bad, wanted)
    several = len(languages) > 2 and TABLE not in languages
    if several and (wanted.direction or {*(wanted.like or [""])} <= {*languages}):
        one, other = languages[:2]  # which are never taken, for two were named
        return of_two(folder, files, wanted.of(languages, (one, other), str(folder)), skip_bad)
    if len(languages) != 2 or TABLE in languages:
        names = ", ".join(sorted(file.name for file in files.get("train", {}).values()))
        raise DataIssue(
            f"{folder} has {names or 'no file'} for training, where "
            "train.en and train.de, say, or train.tsv should be; two of several languages are "
            "chosen by --direction en-de",
            folder,
            kind="format",
        )
    order = wanted.of(languages, usual(languages), str(folder))
    return of_two(folder, files, order, skip_bad)


def of_two(
    folder: Path,
    files: Mapping[str, Mapping[str, Path]],
    languages: tuple[str, str],
    skip_bad: bool,
) -> PairSet:
    """The files of two languages in a folder: the first is read, the second written."""
    found = from_reads(folder, languages, read_parts(folder, files, languages), skip_bad)
    ours, theirs = (files["train"][language].name for language in languages)
    return replace(found, files=(ours, theirs))


class Sides(NamedTuple):
    """What the two sides of some pairs are called, and where they stand, as they lie in files."""

    languages: tuple[str, str]
    files: tuple[str, str]


def in_order_wanted(
    path: Path,
    sides: Sides,
    reads: Mapping[str, Read],
    skip_bad: bool,
    wanted: Wanted,
    name: str = "",
) -> PairSet:
    """What was read as it lies there, or the other way round."""
    (one, other), (ours, theirs) = sides
    if wanted.of(sides.languages, sides.languages, name or str(path)) != sides.languages:
        (one, other), (ours, theirs) = (other, one), (theirs, ours)
        reads = {part: Read(read.target, read.source, read.faults) for part, read in reads.items()}
    return replace(from_reads(path, (one, other), reads, skip_bad), files=(ours, theirs))


def from_reads(
    path: Path, languages: tuple[str, str], reads: Mapping[str, Read], skip_bad: bool
) -> PairSet:
    """What was read, part by part; validation is held out where there is none."""
    faults = [fault for part in in_order(reads) for fault in reads[part].faults]
    if faults and not skip_bad:
        more = f" (and {len(faults) - 1:,} more like this)" if len(faults) > 1 else ""
        raise DataIssue(faults[0] + more, faults[0])
    parts = {part: Pairs(read.source, read.target) for part, read in reads.items()}
    if empty := [part for part in in_order(parts) if not len(parts[part])]:
        count = len(reads[empty[0]].faults)
        raise DataIssue(
            f"{path}: no pair is left for {empty[0]}, as none of {count:,} is of use",
            path,
            kind="empty",
        )
    if "validation" not in parts:
        texts = parts["train"].source
        first = texts[0]
        if all(text == first for text in texts):
            raise DataIssue(
                f"{path} has one text only to learn from; at least two different ones are needed, "
                "of which one is held out for validation",
                path,
                kind="small",
            )
        parts["train"], parts["validation"] = held_out(parts["train"])
    parts.setdefault("test", Pairs())
    ordered = {part: parts[part] for part in in_order(parts)}
    here = path.resolve()
    return PairSet(here.name, languages, ordered, origin=str(here), skipped=tuple(faults))


def held_out(pairs: Pairs) -> tuple[Pairs, Pairs]:
    """All but a tenth of some pairs, and that tenth: whole texts in the order of their hashes.

    A text that occurs too often to fit is passed over; if none fits, the rarest is held.
    """
    marks = marks_of(pairs.source, len(pairs))
    texts, times = np.unique(marks, return_counts=True)  # in the order of their hashes
    room = min(HELD, len(pairs) // 10)
    held: list[int] = []
    for at, count in enumerate(times.tolist()):
        if count <= room:
            held.append(at)
            room -= count
        if not room:
            break
    out = np.isin(marks, texts[held or [int(times.argmin())]])
    return only(pairs, np.flatnonzero(~out)), only(pairs, np.flatnonzero(out))


def only(pairs: Pairs, rows: Int64[np.ndarray, "some"]) -> Pairs:
    return Pairs(some_of(pairs.source, rows), some_of(pairs.target, rows))


def in_order(parts: Iterable[str]) -> list[str]:
    """Train, validation and test first, then others by name."""
    return sorted(parts, key=lambda name: (SPLITS.index(name) if name in SPLITS else 3, name))
