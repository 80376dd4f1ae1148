"""Images with one or more captions each, in three splits, and readers of the files they come in.

    captions = read_captions("flickr8k")        # or "photos/", "photos/captions.csv", "coco.json"
    captions.train.captions[0]                  # ("A girl going into a wooden building .", …)

Four layouts are read: Flickr8k as its authors publish it; your own images beside captions.csv,
.tsv or .jsonl, with an image and a caption in each row and perhaps a split; COCO's json, and
Karpathy's. Images lie beside the file that names them, or in a sub-folder such as `images`.

The rows of an image are gathered wherever they stand. Where a layout has one entry an image, a
second one is refused. A caption is one line: white space in it becomes single spaces. Whatever else
it is written in is kept; without a letter, a digit or a symbol it is refused, as an empty one is.
"""

import hashlib
import json
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from regard.data.catalogue import resolve
from regard.data.decode import contents
from regard.data.division import TEST, VALIDATION, divide
from regard.data.images import SPLITS, Channels, FileImages, Images
from regard.data.listing import PATH_COLUMNS, SPELLINGS, column, same_letters, table
from regard.data.store import first_of, squares
from regard.errors import UserError
from regard.folders import data_folders

HEADER = "image,caption,split"  # the first line of a captions.csv; the split may be left out
IMAGE, TEXT, SPLIT = HEADER.split(",")
IMAGE_COLUMNS = (IMAGE, "file_name", *PATH_COLUMNS)
TEXT_COLUMNS = (TEXT, "text", "sentence")
SPLIT_WORDS = {**SPELLINGS, "restval": "train"}  # Karpathy's word for what else may be learnt from
TABLES = (".csv", ".tsv", ".txt")
NAMES = (
    *("captions.csv", "captions.tsv", "captions.txt", "captions.jsonl", "captions.json"),
    *("metadata.csv", "metadata.jsonl"),
    *("dataset.json", "dataset_flickr8k.json", "dataset_flickr30k.json", "dataset_coco.json"),
)
FLICKR8K_IMAGES = ("Flicker8k_Dataset", "Flickr8k_Dataset/Flicker8k_Dataset", "Flickr8k_Dataset")
INSIDE = ("images", "Images", *FLICKR8K_IMAGES)  # sub-folders where images are looked for
LONG = 100  # words; a caption with more is kept, and told


@dataclass(frozen=True, eq=False)
class CaptionSplit:
    """Images, and what people wrote about each one."""

    images: Images
    captions: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.images) != len(self.captions):
            raise ValueError(
                f"{len(self.images)} images cannot have captions for {len(self.captions)}"
            )
        for row, texts in enumerate(self.captions):
            if not texts:
                raise ValueError(f"image {row} of {len(self.captions)} has no caption")

    def __len__(self) -> int:
        return len(self.captions)

    def texts(self) -> Iterator[str]:
        """Every caption, image by image: what a vocabulary is fitted to."""
        return (text for texts in self.captions for text in texts)

    def only(self, rows: Int64[np.ndarray, "b"]) -> "CaptionSplit":
        """Some of its images, in the order named."""
        return CaptionSplit(self.images.only(rows), tuple(self.captions[row] for row in rows))


@dataclass(frozen=True, eq=False)
class CaptionSet:
    """A data set: three splits, and whose it is."""

    name: str
    train: CaptionSplit
    validation: CaptionSplit
    test: CaptionSplit
    licence: str = "your own"
    source: str = ""
    skipped: tuple[str, ...] = ()  # a sentence for each thing that was left out

    def __getitem__(self, split: str) -> CaptionSplit:
        if split not in SPLITS:
            raise ValueError(f"no split {split!r}; there are {', '.join(SPLITS)}")
        found: CaptionSplit = getattr(self, split)
        return found

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of everything a model could learn from: splits, images, captions.

        Decoding at another size, or moving the files elsewhere, leaves it as it is.
        """
        text = hashlib.sha256()
        for name in SPLITS:
            split = self[name]
            text.update(f"{name} {len(split)} {split.images.digest()}\n".encode())
            text.update(json.dumps(split.captions).encode())
        return text.hexdigest()


def read_captions(data: str | Path, *, skip_bad: bool = False) -> CaptionSet:
    """A set of images with captions, by its path or its name in the folders that are searched.

    The first fault is a `UserError`. With `skip_bad`, a row or an image that is no use is left out
    and named in `skipped`; what makes the whole file doubtful is an error all the same.
    """
    path = resolve(data)
    listing = list_captions(path)
    if wrong := (*listing.problems, *(() if skip_bad else listing.faults)):
        raise UserError(first_of(list(wrong)))
    return from_listing(listing)


def captions_at_size(
    captions: CaptionSet,
    size: int,
    channels: Channels = 3,
    *,
    skip_bad: bool = False,
    workers: int | None = None,
) -> CaptionSet:
    """The same set with its images as squares of `size`, decoded once and kept in the cache.

    A file that cannot be decoded is a `UserError`; with `skip_bad` it is left out with its
    captions and named in `skipped`.
    """
    ready: dict[str, CaptionSplit] = {}
    skipped = list(captions.skipped)
    for name in SPLITS:
        split = captions[name]
        done = squares(split.images, size, channels, skip_bad=skip_bad, workers=workers)
        skipped += done.bad.values()
        left = tuple(texts for row, texts in enumerate(split.captions) if row not in done.bad)
        ready[name] = CaptionSplit(done.images, left)
    if len(captions.train) and not len(ready["train"]):
        raise UserError(f"{captions.name}: no readable image is left for training")
    return replace(
        captions,
        train=ready["train"],
        validation=ready["validation"],
        test=ready["test"],
        skipped=tuple(skipped),
    )


# What a file names, before anything is decoded


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


def list_captions(path: Path) -> CaptionListing:
    """Look through whatever lies there, and say everything that is wrong with it."""
    try:
        if path.is_dir():
            return list_folder(path)
        there = path.is_file()
    except OSError as trouble:
        raise UserError(f"{path} cannot be read: {trouble.strerror}") from None
    if there:
        return list_file(path)
    if path.name == "flickr8k":
        home = data_folders()[0] / "flickr8k"
        raise UserError(
            f"flickr8k is not on this machine: put its folders {FLICKR8K_IMAGES[0]} and "
            f"Flickr8k_text into {home}"
        )
    raise UserError(f"{path} is not there")


def list_folder(folder: Path) -> CaptionListing:
    for text in (folder / "Flickr8k_text", folder):
        if (text / TOKENS).is_file():
            root = folder.parent if folder.name == "Flickr8k_text" else folder
            return list_flickr8k(root, text)
    files = [folder / name for name in NAMES if (folder / name).is_file()]
    if not files:
        files = sorted((folder / "annotations").glob("captions_*.json"))
        splits = [coco_split(file) for file in files]
        if files and len(set(splits)) == len(files):
            return list_rows(folder, folder, read_coco, files)
    if not files:
        raise UserError(
            f"{folder} has no file of captions: put captions.csv, with columns image and caption, "
            "beside the images"
        )
    if len(files) > 1:
        names = ", ".join(file.relative_to(folder).as_posix() for file in files)
        raise UserError(f"{folder} has {len(files)} files of captions, {names}: name one of them")
    return replace(list_file(files[0]), name=folder.resolve().name, source=str(folder.resolve()))


def list_file(file: Path) -> CaptionListing:
    suffix = file.suffix.lower()
    root = file.parent.parent if file.parent.name == "annotations" else file.parent
    if suffix in TABLES:
        return list_rows(file, root, read_table, [file])
    if suffix == ".jsonl":
        return list_rows(file, root, read_json_lines, [file])
    if suffix == ".json":
        return list_rows(file, root, read_json, [file])
    raise UserError(
        f"{file} is no file of captions; those end in {', '.join((*TABLES, '.jsonl', '.json'))}"
    )


def from_listing(listing: CaptionListing) -> CaptionSet:
    """The set; a split that is missing is held out of the images for training."""
    given: dict[str, list[CaptionItem]] = {split: [] for split in SPLITS}
    for item in listing.items:
        given[item.split or "train"].append(item)
    train = given["train"]
    rows = divide(
        np.zeros(len(train), np.int64),
        [item.key for item in train],
        validation=0.0 if given["validation"] else VALIDATION,
        test=0.0 if given["test"] else TEST,
    )

    def files(items: list[CaptionItem]) -> CaptionSplit:
        paths = tuple(item.path for item in items)
        return CaptionSplit(FileImages(paths), tuple(item.captions for item in items))

    return CaptionSet(
        listing.name,
        train=files([train[row] for row in rows.train]),
        validation=files(given["validation"] or [train[row] for row in rows.validation]),
        test=files(given["test"] or [train[row] for row in rows.test]),
        licence=listing.licence,
        source=listing.source,
        skipped=listing.faults,
    )


# From rows to images with captions


class Row(NamedTuple):
    """One caption of one image, as a file has it, and where it stands there."""

    where: str
    image: str
    text: str
    split: str = ""


@dataclass
class Findings:
    """Sentences about what is wrong, added to while a file is read."""

    problems: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


Reader = Callable[[Path, Findings], Iterator[Row]]


def list_rows(path: Path, root: Path, read: Reader, files: list[Path]) -> CaptionListing:
    """Gather what one of the readers below finds."""
    found = Findings()
    rows = (row for file in files for row in read(file, found))
    inside = (*INSIDE, *(coco_folder(file) for file in files))
    items = gathered(rows, Folder(root, inside), found)
    name = path.resolve().name
    return judged(CaptionListing(name, root, items, (), (), (), source=str(path.resolve())), found)


def judged(listing: CaptionListing, found: Findings) -> CaptionListing:
    """The listing with its findings, and what is wrong with it as a whole."""
    if not listing.items and not found.problems and not found.faults:
        found.problems.append(f"{listing.source} names no image")
    elif listing.items and all(item.split not in (None, "train") for item in listing.items):
        found.problems.append(f"{listing.source} has images, but none for training")
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
            found.faults.append(f"{row.where}: {wrong}")
            continue
        key = same_letters(Path(os.path.normpath(row.image.strip())).as_posix())
        if key not in images:
            try:
                images[key] = Gathered(folder.find(row.image.strip()), [], [], row.where)
            except Misplaced as why:
                found.faults.append(f"{row.where}: {why}")
                images[key] = None
        image = images[key]
        if image is None:
            continue
        split = SPLIT_WORDS.get(row.split.strip().lower())
        if split and image.split and split != image.split[0]:
            found.faults.append(
                f"{row.where}: {legible(row.image)} is in {split} here, and in {image.split[0]} "
                f"before ({image.first})"
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
        return "no image is named"
    if not is_unicode(row.image):
        return f"{legible(image)} is no Unicode, and no name of an image"
    if not row.text.strip():
        return f"the caption of {legible(image)} is empty"
    if not is_unicode(row.text):
        return f"the caption of {legible(image)} is no Unicode: {row.text[:40]!a}"
    if all(map(says_nothing, row.text)):
        return f"the caption of {legible(image)} has no word in it: {row.text.strip()[:40]!r}"
    if row.split.strip() and row.split.strip().lower() not in SPLIT_WORDS:
        return f"no split {row.split[:40]!r}; there are {', '.join(SPLITS)}"
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


# Flickr8k

TOKENS = "Flickr8k.token.txt"
LISTS = {
    "train": "Flickr_8k.trainImages.txt",
    "validation": "Flickr_8k.devImages.txt",
    "test": "Flickr_8k.testImages.txt",
}


def list_flickr8k(root: Path, text: Path) -> CaptionListing:
    """Captions from one file, and the images of each split from three lists."""
    found = Findings()
    listed: dict[str, tuple[str, str]] = {}  # by image: its split, and where that stands
    for split, file in LISTS.items():
        for where, line in lines_of(text / file, found):
            if line in listed:
                found.faults.append(
                    f"{where}: {legible(line)} is listed already ({listed[line][1]})"
                )
            else:
                listed[line] = split, where
    described: set[str] = set()
    unlisted: dict[str, None] = {}

    def rows() -> Iterator[Row]:
        for where, line in lines_of(text / TOKENS, found):
            name, tab, words = line.partition("\t")
            image, _, number = name.rpartition("#")
            if not tab or not number.isdecimal():
                found.faults.append(f"{where}: this is not an image, #, a number, a tab and words")
            elif image not in listed:
                unlisted[image] = None
            else:
                described.add(image)
                yield Row(where, image, words, listed[image][0])

    items = gathered(rows(), Folder(root, INSIDE), found)
    found.faults += [
        f"{where}: {legible(image)} has no caption in {TOKENS}"
        for image, (_, where) in listed.items()
        if image not in described
    ]
    if unlisted:
        found.notes.append(
            f"{text / TOKENS}: {len(unlisted)} images are in none of the three lists, such as "
            f"{legible(next(iter(unlisted)))}; not read"
        )
    listing = CaptionListing(
        "flickr8k",
        root,
        items,
        (),
        (),
        (),
        licence="none stated, and the photographs stay their authors'; for research",
        source="Hodosh, Young and Hockenmaier, 2013, Framing Image Description as a Ranking Task",
    )
    return judged(listing, found)


def lines_of(file: Path, found: Findings) -> Iterator[tuple[str, str]]:
    """The lines of a file that say something, each with where it stands."""
    # Not `splitlines`, which also cuts at signs that are part of a text.
    for number, line in enumerate(text_of(file, found).split("\n"), start=1):
        if line.strip():
            yield f"{file}, line {number}", line.strip("\r ")


def text_of(file: Path, found: Findings) -> str:
    try:
        return contents(file).decode("utf-8-sig")
    except UserError as trouble:
        found.problems.append(str(trouble))
        return ""
    except UnicodeDecodeError as wrong:
        line = wrong.object[: wrong.start].count(b"\n") + 1
        found.problems.append(f"{file}, line {line}: not UTF-8; save the file with this encoding")
        return wrong.object.decode("utf-8-sig", errors="replace")


# Your own


def read_table(file: Path, found: Findings) -> Iterator[Row]:
    """A csv with a caption in each row; the sign between its columns may be , ; or a tab."""
    rows = table(file, found.problems)
    head = [name.strip().lower() for name in next(rows, (1, []))[1]]
    image, text, split = (column(head, names) for names in (IMAGE_COLUMNS, TEXT_COLUMNS, (SPLIT,)))
    if image is None or text is None:
        found.problems.append(
            f"{file}, line 1: needs the columns {IMAGE} and {TEXT}; "
            f"it has {legible(shown(', '.join(head))) or 'none'}"
        )
        return
    for line, row in rows:
        if not row:
            continue
        where = f"{file}, line {line}"
        if len(row) != len(head):
            found.faults.append(
                f"{where}: {len(row)} columns, but the first line has {len(head)}; put a caption "
                "with a comma in it between quotation marks"
            )
            continue
        cells = [shown(cell) for cell in row]
        yield Row(where, cells[image], cells[text], "" if split is None else cells[split])


def shown(cell: str) -> str:
    """A cell of a file that may not be UTF-8, as something that can be printed."""
    return cell.encode(errors="surrogateescape").decode(errors="replace")


def read_json_lines(file: Path, found: Findings) -> Iterator[Row]:
    """An object in each line, with an image, and one caption or a list of them."""
    for where, line in lines_of(file, found):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as wrong:
            found.faults.append(f"{where}: no json ({wrong})")
            continue
        yield from rows_of(entry, where, found)


def rows_of(entry: Any, where: str, found: Findings) -> Iterator[Row]:
    if not isinstance(entry, dict):
        found.faults.append(f"{where}: {json.dumps(entry)[:40]} stands where an object should")
        return
    image, texts, split = (
        next((entry[name] for name in names if name in entry), None)
        for names in (IMAGE_COLUMNS, (*TEXT_COLUMNS, "captions"), (SPLIT,))
    )
    if isinstance(texts, str):
        texts = [texts]
    good = isinstance(texts, list) and all(isinstance(text, str) for text in texts)
    if not isinstance(image, str) or not good or not isinstance(split, str | None):
        keys = legible(", ".join(entry)) or "nothing"
        found.faults.append(f"{where}: needs {IMAGE} and {TEXT} as texts; it has {keys}")
    elif not texts:
        found.faults.append(f"{where}: {legible(image)} has no caption")
    else:
        yield from (Row(where, image, text, split or "") for text in texts)


# COCO and Karpathy


def read_json(file: Path, found: Findings) -> Iterator[Row]:
    """Whichever of the two a json is, or a list of objects as in json lines."""
    data = json_of(file, found)
    if isinstance(data, list):
        for number, entry in enumerate(data):
            yield from rows_of(entry, f"{file}, entry {number}", found)
    elif isinstance(data, dict) and isinstance(data.get("annotations"), list):
        yield from coco_rows(file, data, found)
    elif isinstance(data, dict) and isinstance(data.get("images"), list):
        yield from karpathy_rows(file, data, found)
    elif data is not None:
        found.problems.append(
            f"{file} is neither COCO's json (images, annotations) nor Karpathy's (images, each "
            "with sentences)"
        )


def json_of(file: Path, found: Findings) -> Any:
    if not (text := text_of(file, found)):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:
        found.problems.append(f"{file} is no json ({wrong})")
        return None


def read_coco(file: Path, found: Findings) -> Iterator[Row]:
    """One of the official files, whose name has the split and the folder of its images in it."""
    data = json_of(file, found)
    if isinstance(data, dict):
        yield from coco_rows(file, data, found, coco_folder(file) + "/", coco_split(file))
    elif data is not None:
        found.problems.append(f"{file} has no images and annotations")


def coco_folder(file: Path) -> str:
    """`train2017` for captions_train2017.json, and nothing for other names."""
    head, _, folder = file.stem.partition("_")
    return folder if head == "captions" and folder.isalnum() else ""


def coco_split(file: Path) -> str:
    return coco_folder(file).rstrip("0123456789")


def coco_rows(
    file: Path, data: Mapping[str, Any], found: Findings, folder: str = "", split: str = ""
) -> Iterator[Row]:
    """Images with ids, and captions that name them; an image is there once."""
    names: dict[int | str, str] = {}
    taken: set[str] = set()
    for where, entry in entries(file, data, "images", found):
        number, name = entry.get("id"), entry.get("file_name")
        if not isinstance(number, int | str) or not isinstance(name, str):
            found.faults.append(f"{where}: needs an id and a file_name")
        elif number in names or name in taken:
            found.faults.append(f"{where}: {legible(name)} or its id {number} is there already")
        else:
            names[number] = name
            taken.add(name)
    bare = dict(names)
    for where, entry in entries(file, data, "annotations", found):
        number, text = entry.get("image_id"), entry.get(TEXT)
        if not isinstance(number, int | str) or not isinstance(text, str):
            found.faults.append(f"{where}: needs an image_id and a {TEXT}")
        elif number not in names:
            found.faults.append(f"{where}: no image has the id {number}")
        else:
            bare.pop(number, None)
            yield Row(where, folder + names[number], text, split)
    found.faults += [f"{file}: {legible(name)} has no caption" for name in bare.values()]


def karpathy_rows(file: Path, data: Mapping[str, Any], found: Findings) -> Iterator[Row]:
    """Images with their split and their sentences; an image is there once."""
    taken: set[str] = set()
    for where, entry in entries(file, data, "images", found):
        name, split, sentences = (entry.get(key) for key in ("filename", "split", "sentences"))
        if not isinstance(name, str) or not isinstance(split, str):
            found.faults.append(f"{where}: needs a filename and a split")
            continue
        if isinstance(folder := entry.get("filepath"), str):
            name = f"{folder}/{name}"
        if not isinstance(sentences, list):
            sentences = []
        texts = [s.get("raw") if isinstance(s, dict) else None for s in sentences]
        if name in taken:
            found.faults.append(f"{where}: {legible(name)} is there already")
        elif not texts:
            found.faults.append(f"{where}: {legible(name)} has no caption")
        elif not all(isinstance(text, str) for text in texts):
            found.faults.append(f"{where}: a sentence of {legible(name)} has no text called raw")
        else:
            taken.add(name)
            yield from (Row(where, name, str(text), split) for text in texts)


def entries(
    file: Path, data: Mapping[str, Any], name: str, found: Findings
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects in one of the lists of a json, each with where it stands."""
    values = data.get(name)
    if not isinstance(values, list):
        found.problems.append(f"{file} has no list called {name}")
        return
    for number, entry in enumerate(values):
        where = f"{file}, {name}[{number}]"
        if isinstance(entry, dict):
            yield where, entry
        else:
            found.faults.append(f"{where}: {json.dumps(entry)[:40]} stands where an object should")
