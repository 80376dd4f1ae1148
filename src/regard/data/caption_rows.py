"""Rows that each name an image and a caption, gathered by image and judged.

The rows of an image are gathered wherever they stand. A caption is one line: white space in it
becomes single spaces. Whatever else it is written in is kept; without a letter, a digit or a symbol
it is refused, as an empty one is. An image lies in the folder of the file that names it, or in a
sub-folder, and nowhere else.
"""

import os
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from regard.data.images import SPLITS
from regard.data.listing import SPELLINGS, same_letters
from regard.errors import Located

SPLIT_WORDS = {**SPELLINGS, "restval": "train"}  # Karpathy's word for what else may be learnt from
LONG = 100  # words; a caption with more is kept, and told


class CaptionItem(NamedTuple):
    """One image: where it lies, its captions, its split if there is one, its name in the set."""

    path: Path
    captions: tuple[str, ...]
    split: str | None
    key: str


@dataclass(frozen=True)
class CaptionListing:
    """What was found, in the order of the file."""

    name: str
    root: Path  # the folder that all images lie in
    items: tuple[CaptionItem, ...]
    problems: tuple[str, ...]  # with these, nothing can be trusted
    faults: tuple[str, ...]  # for each of these a row or an image is not among the items
    notes: tuple[str, ...]  # kept or passed over, and worth knowing
    licence: str = "your own"
    source: str = ""


class Row(NamedTuple):
    """One caption of one image, as a file has it, and where it stands there."""

    where: Located
    image: str
    text: str
    split: str = ""


@dataclass
class Findings:
    """Sentences about what is wrong, added to while a file is read."""

    problems: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fault(self, where: Located, words: str, kind: str = "") -> None:
        """A row or an entry is no use; words may have a kind of their own."""
        kind = kind or getattr(words, "kind", "")
        self.faults.append(Located(f"{where}: {words}", where, kind=kind))

    def problem(self, sentence: str, file: Path | Located, kind: str) -> None:
        """A whole file is no use."""
        self.problems.append(Located(sentence, file, kind=kind))


def judged(listing: CaptionListing, found: Findings) -> CaptionListing:
    """The listing with its findings, and what is wrong with it as a whole."""
    if not listing.items and not found.problems and not found.faults:
        found.problem(f"{listing.source} names no image", Path(listing.source), "empty")
    elif listing.items and all(item.split not in (None, "train") for item in listing.items):
        found.problem(
            f"{listing.source} has images, but none for training", Path(listing.source), "split"
        )
    return replace(
        listing,
        problems=tuple(found.problems),
        faults=tuple(found.faults),
        notes=tuple(found.notes),
    )


class Gathered(NamedTuple):
    path: Path
    captions: list[str]
    split: list[str]  # at most one
    first: str  # where the image was first named


def gathered(rows: Iterable[Row], folder: "Folder", found: Findings) -> tuple[CaptionItem, ...]:
    """The captions of each image, in their order; what is no use is told and left out."""
    images: dict[str, Gathered | None] = {}  # None for an image that cannot be read: told once
    for row in rows:
        if wrong := fault_of(row):
            found.fault(row.where, wrong)
            continue
        key = same_letters(Path(os.path.normpath(row.image.strip())).as_posix())
        if key not in images:
            try:
                images[key] = Gathered(folder.find(row.image.strip()), [], [], row.where)
            except Misplaced as why:
                found.fault(row.where, str(why), "path")
                images[key] = None
        image = images[key]
        if image is None:
            continue
        split = SPLIT_WORDS.get(row.split.strip().lower())
        if split and image.split and split != image.split[0]:
            found.fault(
                row.where,
                f"{legible(row.image)} is in {split} here, and in {image.split[0]} before "
                f"({image.first})",
                "split",
            )
            continue
        if split and not image.split:
            image.split.append(split)
        text = " ".join(row.text.split())
        found.notes += notes_on(row, text, image.captions)
        image.captions.append(text)
    return tuple(
        CaptionItem(image.path, tuple(image.captions), image.split[0] if image.split else None, key)
        for key, image in images.items()
        if image and image.captions
    )


def fault_of(row: Row) -> str:
    """Why a row is no use, or nothing."""
    image = row.image.strip()
    if not image:
        return Located("no image is named", kind="image")
    if not is_unicode(row.image):
        return Located(f"{legible(image)} is no Unicode, and no name of an image", kind="encoding")
    if not row.text.strip():
        return Located(f"the caption of {legible(image)} is empty", kind="empty")
    if not is_unicode(row.text):
        return Located(
            f"the caption of {legible(image)} is no Unicode: {row.text[:40]!a}", kind="encoding"
        )
    if all(map(says_nothing, row.text)):
        return Located(
            f"the caption of {legible(image)} has no word in it: {row.text.strip()[:40]!r}",
            kind="empty",
        )
    if row.split.strip() and row.split.strip().lower() not in SPLIT_WORDS:
        return Located(f"no split {row.split[:40]!r}; there are {', '.join(SPLITS)}", kind="split")
    return ""


def legible(name: str) -> str:
    """A name for a sentence: not endless, and in signs that can be seen."""
    short = name[:80]
    return short if short.isprintable() else ascii(short)


def says_nothing(sign: str) -> bool:
    """Whether it is punctuation, white space or a control sign; an emoji is not."""
    kind = unicodedata.category(sign)
    return kind[0] in "PZ" or kind in ("Cc", "Cf")


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can write it: json may hold half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def notes_on(row: Row, text: str, others: list[str]) -> Iterator[str]:
    """What is odd about a caption that is kept."""
    words, lines = text.count(" ") + 1, row.text.strip().count("\n") + 1
    if lines > 1:
        yield f"{row.where}: a caption over {lines} lines; is a quotation mark without its partner?"
    if words > LONG:
        yield f"{row.where}: a caption of {words} words; kept"
    if text in others:
        yield f"{row.where}: {legible(row.image)} has this caption already"


class Misplaced(Exception):
    """Why an image that a file names is not to be read."""


@dataclass(frozen=True)
class Folder:
    """Where images may lie: in a folder and in some that may be inside it, and nowhere else."""

    root: Path
    inside: tuple[str, ...]

    @cached_property
    def places(self) -> tuple[tuple[Path, Path], ...]:
        """Each with where it really is: the folders themselves may be links, the images not."""
        places = (self.root, *(self.root / name for name in dict.fromkeys(self.inside) if name))
        return tuple((place, place.resolve()) for place in places if place.is_dir())

    def find(self, name: str) -> Path:
        """The first that is there."""
        plain = os.path.normpath(name)
        outside = Misplaced(f"{legible(name)} lies outside {self.root}")
        if os.path.isabs(plain) or plain.split(os.sep)[0] == os.pardir:
            raise outside
        try:
            for place, real in self.places:
                path = place / plain
                if path.is_file():
                    if not path.resolve().is_relative_to(real):
                        raise outside
                    return path
        except (OSError, ValueError) as trouble:
            why = getattr(trouble, "strerror", "") or trouble
            raise Misplaced(f"{legible(name)} is no path ({why})") from None
        raise Misplaced(f"{legible(name)} is not there")
