"""Flickr8k's own format of captions, and lists that say which images are for which split.

    1000268201_693b08cb0e.jpg#0	A child in a pink dress is climbing up some stairs .

Each line is an image, #, the number of the caption, a tab and the words. Files of this format are
read under any name; lists such as Flickr_8k.trainImages.txt count where they lie beside it.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.data.caption_rows import (
    CaptionListing,
    Findings,
    Folder,
    Row,
    gathered,
    judged,
    legible,
)
from regard.data.decode import contents
from regard.data.registry import beside, named_place
from regard.errors import DataIssue, Located, UserError, at_line, located
from regard.paths import data_folders

FLICKR8K = "flickr8k"
FLICKR8K_IMAGES = ("Flicker8k_Dataset", "Flickr8k_Dataset/Flicker8k_Dataset", "Flickr8k_Dataset")
INSIDE = ("images", "Images", *FLICKR8K_IMAGES)  # sub-folders where images are looked for
TOKENS = "Flickr8k.token.txt"
ENDINGS = (".token", ".token.txt")  # of files of this format, as others call them
LISTS = {
    "train": "Flickr_8k.trainImages.txt",
    "validation": "Flickr_8k.devImages.txt",
    "test": "Flickr_8k.testImages.txt",
}
LINE = re.compile(rb"[^\t]+#[0-9]+[ ]*\t")
LONGEST = 2**12  # bytes that are looked at to tell what a file is


def flickr8k_place() -> Path:
    """Where Flickr8k lies in the folders that are searched; a folder beside is not taken for it."""
    if found := named_place(FLICKR8K):
        return found
    raise DataIssue(
        f"{FLICKR8K} is not on this machine: put its folders {FLICKR8K_IMAGES[0]} and "
        f"Flickr8k_text into {data_folders()[0] / FLICKR8K}{beside(FLICKR8K)}",
        kind="absent",
    )


def holds_tokens(file: Path) -> bool:
    """Whether the first line of a file that says something is one of this format."""
    lines = start_of(file).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return LINE.match(next((line for line in lines if line.strip()), b"")) is not None


def start_of(file: Path) -> bytes:
    """The first bytes of a file; none of what cannot be read, which whoever reads it says."""
    try:
        with file.open("rb") as stream:
            return stream.read(LONGEST)
    except OSError:
        return b""


def list_tokens(tokens: Path, root: Path) -> CaptionListing:
    """Captions from one file, and the images of each split from the lists beside it, if any."""
    found = Findings()
    lists = lists_beside(tokens)
    listed: dict[str, tuple[str, Located]] = {}  # by image: its split, and where that stands
    for split, file in lists.items():
        for where, line in lines_of(file, found):
            if line in listed:
                found.fault(
                    where, f"{legible(line)} is listed already ({listed[line][1]})", "twice"
                )
            else:
                listed[line] = split, where
    described: set[str] = set()
    unlisted: dict[str, None] = {}

    def rows() -> Iterator[Row]:
        for where, line in lines_of(tokens, found):
            name, tab, words = line.partition("\t")
            image, _, number = name.rpartition("#")
            if not tab or not number.strip().isdecimal():
                found.fault(where, "this is not an image, #, a number, a tab and words", "format")
            elif not lists:
                yield Row(where, image, words)
            elif image not in listed:
                unlisted[image] = None
            else:
                described.add(image)
                yield Row(where, image, words, listed[image][0])

    items = gathered(rows(), Folder(root, INSIDE), found)
    for image, (_, where) in listed.items():
        if image not in described:
            found.fault(where, f"{legible(image)} has no caption in {tokens.name}", "empty")
    if unlisted:
        count = "the three lists" if len(lists) == len(LISTS) else "the lists"
        found.notes.append(
            f"{tokens}: {len(unlisted)} images are in none of {count}, such as "
            f"{legible(next(iter(unlisted)))}; not read"
        )
    if tokens.name == TOKENS and lists:
        listing = CaptionListing(
            FLICKR8K,
            root,
            items,
            (),
            (),
            (),
            licence="none stated, and the photographs stay their authors'; for research",
            source="Hodosh, Young and Hockenmaier, 2013, Framing Image Description as a Ranking "
            "Task",
        )
    else:
        listing = CaptionListing(tokens.name, root, items, (), (), (), source=str(tokens.resolve()))
    return judged(listing, found)


def lists_beside(tokens: Path) -> Mapping[str, Path]:
    """The lists of images by split: those of Flickr8k, or ones whose names end as theirs do."""
    lists: dict[str, Path] = {}
    for split, name in LISTS.items():
        ending = name.partition(".")[2]  # trainImages.txt
        found = [tokens.parent / name, *sorted(tokens.parent.glob(f"*{ending}"))]
        if there := [path for path in found if path.is_file()]:
            lists[split] = there[0]
    if lists and tokens.name == TOKENS:  # then a list that is missing is a fault
        return {split: lists.get(split, tokens.parent / name) for split, name in LISTS.items()}
    return lists


def lines_of(file: Path, found: Findings) -> Iterator[tuple[Located, str]]:
    """The lines of a file that say something, each with where it stands."""
    # Not `splitlines`, which also cuts at signs that are part of a text.
    for number, line in enumerate(text_of(file, found).split("\n"), start=1):
        if line.strip():
            yield at_line(file, number), line.strip("\r ")


def text_of(file: Path, found: Findings) -> str:
    try:
        return contents(file).decode("utf-8-sig")
    except UserError as trouble:
        found.problems.append(located(trouble))
        return ""
    except UnicodeDecodeError as wrong:
        line = wrong.object[: wrong.start].count(b"\n") + 1
        fault = f"{file}, line {line}: not UTF-8; save the file with this encoding"
        found.problems.append(Located(fault, file, line, kind="encoding"))
        return wrong.object.decode("utf-8-sig", errors="replace")
