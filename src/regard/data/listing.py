"""Which files a folder or a csv names, with their classes and splits, and what is wrong there.

Nothing is decoded here. `regard data check` shows every problem; a reader stops at the first.
"""

import os
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard.data.decode import SUFFIXES
from regard.data.images import SPLITS
from regard.data.tables import NO_UTF8, rows_of
from regard.errors import DataIssue, Located, UserError, at_line, located

SPELLINGS = {  # of the splits, in folder names and csv columns
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
PATH_COLUMNS = ("path", "file", "filename", "image")
LABEL_COLUMNS = ("label", "class", "category")
OTHERS = "file_name,caption,text,sentence,split"  # columns that a table may have as well
MISSING = ("", "nan", "null", "<na>")  # what stands for no label; None and NA may be classes
LONGEST_NUMBER = 1_000  # digits of a class that is a number; Python refuses to read 4,300


class Item(NamedTuple):
    """One image: where it lies, its class, its split if one is given, and its name in the set."""

    path: Path
    label: str
    split: str | None
    key: str


@dataclass(frozen=True)
class Listing:
    """What was found, in a fixed order."""

    items: tuple[Item, ...]
    classes: tuple[str, ...]
    problems: tuple[str, ...]  # with these, nothing can be learnt
    doubts: tuple[str, ...] = ()  # with these something can, but not what was meant
    passed_over: tuple[Path, ...] = ()  # files that are no images by their names


def list_images(path: Path, *, learning: bool = True) -> Listing:
    """Look through a folder of classes or a csv; without `learning`, one class is enough."""
    try:
        if path.is_dir():
            return list_folder(path, learning)
        if path.is_file() and path.suffix.lower() in (".csv", ".tsv"):
            return list_csv(path, learning)
        there = path.exists()
    except OSError as trouble:
        raise DataIssue(
            f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
        ) from None
    if there:
        raise DataIssue(
            f"{path} is neither a folder of classes nor a csv of paths and labels",
            path,
            kind="format",
        )
    raise DataIssue(f"{path} is not there", path, kind="missing")


def list_folder(root: Path, learning: bool = True) -> Listing:
    """One sub-folder a class, or those inside folders named after the splits."""
    items: list[Item] = []
    problems: list[str] = []
    passed_over: list[Path] = []
    folders = subfolders(root)
    classes: list[tuple[Path, str | None]]
    splits = {folder: SPELLINGS.get(folder.name.lower()) for folder in folders}
    if "train" in splits.values():
        problems += [
            Located(
                f"{folder} stands beside train, but is no split ({', '.join(SPLITS)})",
                folder,
                kind="split",
            )
            for folder, split in splits.items()
            if split is None
        ]
        classes = [
            (c, split) for folder, split in splits.items() if split for c in subfolders(folder)
        ]
    else:
        classes = [(folder, None) for folder in folders]
    if not classes:
        fault = f"{root} has no sub-folders; put the images of each class into one"
        problems.append(Located(fault, root, kind="format"))
    for folder, split in classes:
        label = same_letters(folder.name)
        images, others, closed = images_in(folder)
        passed_over += others
        problems += closed
        if not images and not closed:
            problems.append(Located(f"{folder} is a class without an image", folder, kind="empty"))
        for path in images:
            items.append(Item(path, label, split, same_letters(path.relative_to(root).as_posix())))
    names = {same_letters(folder.name) for folder, _ in classes}
    return judged(str(root), items, names, problems, passed_over, learning)


def is_missing(label: str) -> bool:
    """Whether a label is what programs write where there is none."""
    return label.strip().lower() in MISSING


def subfolders(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if entry.is_dir() and not hidden(entry.name))


def images_in(folder: Path) -> tuple[list[Path], list[Path], list[str]]:
    """Images at any depth and other files, by their names; hidden ones are neither.

    And a sentence for each folder that cannot be looked into.
    """
    images: list[Path] = []
    others: list[Path] = []
    closed: list[OSError] = []  # folders that a walk would else pass over as if they were empty
    for place, inside, names in os.walk(folder, onerror=closed.append):
        inside[:] = sorted(name for name in inside if not hidden(name))
        for name in sorted(names):
            if not hidden(name):
                path = Path(place, name)
                (images if path.suffix.lower() in SUFFIXES else others).append(path)
    return images, others, [f"{each.filename} cannot be read: {each.strerror}" for each in closed]


def same_letters(name: str) -> str:
    """One spelling for é, which systems write as one sign or as two."""
    return unicodedata.normalize("NFC", name)


def list_csv(file: Path, learning: bool = True) -> Listing:
    """A table with a path and a label in each row, and a split if there is such a column.

    Paths start at the folder of the csv, and stay inside it.
    """
    items: list[Item] = []
    problems: list[str] = []
    rows = table(file, problems)
    head = [name.strip().lower() for name in next(rows, (1, []))[1]]
    if not head:
        return Listing((), (), (*problems, Located(f"{file} is empty", file, kind="empty")))
    columns = [column(head, names) for names in (PATH_COLUMNS, LABEL_COLUMNS, ("split",))]
    if columns[0] is None or columns[1] is None:
        fault = (
            f"{file}, line 1: needs a column {' or '.join(PATH_COLUMNS)} and a column "
            f"{' or '.join(LABEL_COLUMNS)}; it has {', '.join(head)}"
        )
        problems.append(Located(fault, file, 1, kind="column"))
        return Listing((), (), tuple(problems))
    for line, row in rows:
        if not row:
            continue
        where = at_line(file, line)
        if len(row) != len(head):
            fault = f"{where}: {len(row)} columns, but the first line has {len(head)}"
            problems.append(Located(fault, where, kind="columns"))
            continue
        name, label, split = ("" if at is None else row[at].strip() for at in columns)
        if not name or is_missing(label):
            what = "label" if name else "path"
            problems.append(Located(f"{where}: no {what}", where, kind=what))
        elif split and split.lower() not in SPELLINGS:
            fault = f"{where}: no split {split!r}; there are {', '.join(SPLITS)}"
            problems.append(Located(fault, where, kind="split"))
        elif trouble := misplaced(file.parent, name):
            problems.append(Located(f"{where}: {trouble}", where, kind="path"))
        else:
            path = file.parent / name
            key = same_letters(Path(name).as_posix())
            items.append(Item(path, same_letters(label), SPELLINGS.get(split.lower()), key))
    twice = Counter(item.key for item in items)
    problems += [
        Located(f"{file}: {key} is in {n} rows", file, kind="twice")
        for key, n in twice.items()
        if n > 1
    ]
    return judged(str(file), items, {item.label for item in items}, problems, [], learning)


def table(file: Path, problems: list[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows with the line each begins at; what cannot be read goes to `problems`."""
    usual = (*PATH_COLUMNS, *LABEL_COLUMNS, *OTHERS.split(","))
    sound = True
    try:
        # Quotation marks in captions are often letters: here they are no error.
        for line, cells, _ in rows_of(file, usual, kind="csv", strict=False):
            if sound and any(map(NO_UTF8.search, cells)):
                sound = False
                fault = f"{file}, line {line}: not UTF-8; save the file with this encoding"
                problems.append(Located(fault, file, line, kind="encoding"))
            yield line, cells
    except UserError as wrong:
        problems.append(located(wrong))


def column(head: list[str], names: tuple[str, ...]) -> int | None:
    return next((head.index(name) for name in names if name in head), None)


def misplaced(folder: Path, name: str) -> str:
    """What is wrong with a path in a csv, or nothing."""
    try:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            return f"{name} lies outside {folder}, where the csv is"
        return "" if path.is_file() else f"{name} is not there"
    except (OSError, ValueError) as trouble:
        return f"{name[:80]} is no path ({trouble})"


def judged(
    where: str,
    items: list[Item],
    names: set[str],
    problems: list[str],
    passed_over: list[Path],
    learning: bool,
) -> Listing:
    """The listing, with what is wrong about its classes as a whole."""
    classes = in_order(names)
    if len(classes) == 1 and learning:
        fault = f"{where} has one class only, {classes[0]!r}; there is nothing to tell apart"
        problems.append(Located(fault, where, kind="one-class"))
    count = Counter(item.label for item in items)
    doubts = [f"{where}: class {name!r} has one image" for name in classes if count[name] == 1]
    to_learn = {item.label for item in items if item.split in (None, "train")}
    problems += [
        Located(f"{where}: class {name!r} has images, but none for training", where, kind="split")
        for name in classes
        if learning and count[name] and name not in to_learn
    ]
    return Listing(tuple(items), classes, tuple(problems), tuple(doubts), tuple(passed_over))


def in_order(names: set[str]) -> tuple[str, ...]:
    """Class names by number where all are numbers, else by letter."""
    numbers = all(name.isdecimal() and len(name) <= LONGEST_NUMBER for name in names)
    return tuple(sorted(names, key=(lambda name: (int(name), name)) if numbers else None))


def hidden(name: str) -> bool:
    """What systems put into folders for themselves: dot files, and macOS's copies in archives."""
    return name.startswith(".") or name in ("__MACOSX", "Thumbs.db", "desktop.ini")
