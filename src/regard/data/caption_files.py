"""The files that captions come in, each read as rows of an image and a caption.

Four layouts are read: Flickr8k's (`flickr`), under any name; your own images beside captions.csv,
.tsv or .jsonl, with an image and a caption in each row and perhaps a split; COCO's json, and
Karpathy's. Images lie beside the file that names them, or in a sub-folder such as `images`. Where
a layout has one entry an image, a second one is refused.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.data.caption_rows import (
    CaptionListing,
    Findings,
    Folder,
    Row,
    gathered,
    judged,
    legible,
)
from regard.data.flickr import (
    ENDINGS,
    FLICKR8K,
    INSIDE,
    TOKENS,
    holds_tokens,
    lines_of,
    list_tokens,
    start_of,
    text_of,
)
from regard.data.listing import PATH_COLUMNS, column, table
from regard.errors import DataIssue, Located, at_line

HEADER = "image,caption,split"  # the first line of a captions.csv; the split may be left out
IMAGE, TEXT, SPLIT = HEADER.split(",")
IMAGE_COLUMNS = (IMAGE, "file_name", "image_name", *PATH_COLUMNS)  # Flickr30k's is the third
TEXT_COLUMNS = (TEXT, "text", "sentence", "comment")
FLICKR30K = "results.csv"  # what its authors call the file of captions
PIPE = "|"  # between the columns of Flickr30k's table, which has no quotation marks
TABLES = (".csv", ".tsv", ".txt")
NAMES = (
    *("captions.csv", "captions.tsv", "captions.txt", "captions.jsonl", "captions.json"),
    *("metadata.csv", "metadata.jsonl"),
    *("dataset.json", "dataset_flickr8k.json", "dataset_flickr30k.json", "dataset_coco.json"),
)

Reader = Callable[[Path, Findings], Iterator[Row]]


def list_captions(path: Path) -> CaptionListing:
    """Look through whatever lies there, and say everything that is wrong with it."""
    try:
        if path.is_dir():
            return list_folder(path)
        there = path.is_file()
    except OSError as trouble:
        raise DataIssue(
            f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
        ) from None
    if there:
        return list_file(path)
    raise DataIssue(f"{path} is not there", path, kind="missing")


def list_folder(folder: Path) -> CaptionListing:
    for text in (folder / "Flickr8k_text", folder):
        if (text / TOKENS).is_file():
            root = folder.parent if folder.name == "Flickr8k_text" else folder
            found = list_tokens(text / TOKENS, root)
            return found if found.name == FLICKR8K else called(folder, found)
    files = files_in(folder)
    if not files:
        files = sorted((folder / "annotations").glob("captions_*.json"))
        splits = [coco_split(file) for file in files]
        if files and len(set(splits)) == len(files):
            return list_rows(folder, folder, read_coco, files)
    if not files:
        raise DataIssue(
            f"{folder} has no file of captions: put captions.csv, with columns image and caption, "
            "beside the images",
            folder,
            kind="format",
        )
    if len(files) > 1:
        names = ", ".join(file.relative_to(folder).as_posix() for file in files)
        raise DataIssue(
            f"{folder} has {len(files)} files of captions, {names}: name one of them",
            folder,
            kind="several",
        )
    return called(folder, list_file(files[0]))


def files_in(folder: Path) -> list[Path]:
    """Files of captions by their names."""
    named = [folder / name for name in NAMES if (folder / name).is_file()]
    others = [
        path for path in sorted(folder.iterdir()) if path.name.endswith((*ENDINGS, FLICKR30K))
    ]
    return [*named, *(path for path in others if holds_tokens(path) or names_captions(path))]


def called(folder: Path, listing: CaptionListing) -> CaptionListing:
    """What a file in a folder has, by the name of the folder."""
    return replace(listing, name=folder.resolve().name, source=str(folder.resolve()))


def list_file(file: Path) -> CaptionListing:
    suffix = file.suffix.lower()
    root = file.parent.parent if file.parent.name == "annotations" else file.parent
    if holds_tokens(file) or file.name.endswith(ENDINGS):
        return list_tokens(file, root)
    if suffix in TABLES:
        return list_rows(file, root, read_table, [file])
    if suffix == ".jsonl":
        return list_rows(file, root, read_json_lines, [file])
    if suffix == ".json":
        return list_rows(file, root, read_json, [file])
    raise DataIssue(
        f"{file} is no file of captions; those end in {', '.join((*TABLES, '.jsonl', '.json'))}",
        file,
        kind="format",
    )


def list_rows(path: Path, root: Path, read: Reader, files: list[Path]) -> CaptionListing:
    """Gather what one of the readers below finds."""
    found = Findings()
    rows = (row for file in files for row in read(file, found))
    inside = (*INSIDE, *(coco_folder(file) for file in files))
    items = gathered(rows, Folder(root, inside), found)
    name = path.resolve().name
    return judged(CaptionListing(name, root, items, (), (), (), source=str(path.resolve())), found)


# Your own


def names_captions(file: Path) -> bool:
    """Whether the first line of a table names a column of images and one of captions."""
    if file.suffix.lower() not in TABLES or not file.is_file():
        return False
    head = head_of(piped(file, Findings()) if has_pipes(file) else table(file, []))
    return not any(column(head, names) is None for names in (IMAGE_COLUMNS, TEXT_COLUMNS))


def head_of(rows: Iterator[tuple[int, list[str]]]) -> list[str]:
    """What the first row calls its columns."""
    return [name.strip().lower() for name in next(rows, (1, []))[1]]


def read_table(file: Path, found: Findings) -> Iterator[Row]:
    """A csv with a caption in each row; the sign between its columns may be , ; | or a tab."""
    rows = piped(file, found) if has_pipes(file) else table(file, found.problems)
    head = head_of(rows)
    image, text, split = (column(head, names) for names in (IMAGE_COLUMNS, TEXT_COLUMNS, (SPLIT,)))
    if image is None or text is None:
        found.problem(
            f"{file}, line 1: needs the columns {IMAGE} and {TEXT}; "
            f"it has {legible(shown(', '.join(head))) or 'none'}",
            at_line(file, 1),
            "column",
        )
        return
    for line, row in rows:
        if not row:
            continue
        where = at_line(file, line)
        if len(row) != len(head):
            found.fault(
                where,
                f"{len(row)} columns, but the first line has {len(head)}; put a caption "
                "with a comma in it between quotation marks",
                "columns",
            )
            continue
        cells = [shown(cell) for cell in row]
        yield Row(where, cells[image], cells[text], "" if split is None else cells[split])


def has_pipes(file: Path) -> bool:
    """Whether the first line has more | in it than other signs between columns."""
    first = start_of(file).partition(b"\n")[0]
    return max(b",;\t|", key=lambda sign: first.count(bytes([sign]))) == ord(PIPE)


def piped(file: Path, found: Findings) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with | between its columns; the last column may have more of them."""
    columns = 0
    for number, line in enumerate(text_of(file, found).split("\n"), start=1):
        if line.strip():
            row = line.rstrip("\r").split(PIPE, columns - 1 if columns else -1)
            columns = columns or len(row)
            yield number, row


def shown(cell: str) -> str:
    """A cell of a file that may not be UTF-8, as something that can be printed."""
    return cell.encode(errors="surrogateescape").decode(errors="replace")


def read_json_lines(file: Path, found: Findings) -> Iterator[Row]:
    """An object in each line, with an image, and one caption or a list of them."""
    for where, line in lines_of(file, found):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as wrong:
            found.fault(where, f"no json ({wrong})", "json")
            continue
        yield from rows_of(entry, where, found)


def rows_of(entry: Any, where: Located, found: Findings) -> Iterator[Row]:
    if not isinstance(entry, dict):
        found.fault(where, f"{json.dumps(entry)[:40]} stands where an object should", "type")
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
        found.fault(where, f"needs {IMAGE} and {TEXT} as texts; it has {keys}", "key")
    elif not texts:
        found.fault(where, f"{legible(image)} has no caption", "empty")
    else:
        yield from (Row(where, image, text, split or "") for text in texts)


# COCO and Karpathy


def read_json(file: Path, found: Findings) -> Iterator[Row]:
    """Whichever of the two a json is, or a list of objects as in json lines."""
    data = json_of(file, found)
    if isinstance(data, list):
        for number, entry in enumerate(data):
            where = Located(f"{file}, entry {number}", file)
            yield from rows_of(entry, where, found)
    elif isinstance(data, dict) and isinstance(data.get("annotations"), list):
        yield from coco_rows(file, data, found)
    elif isinstance(data, dict) and isinstance(data.get("images"), list):
        yield from karpathy_rows(file, data, found)
    elif data is not None:
        found.problem(
            f"{file} is neither COCO's json (images, annotations) nor Karpathy's (images, each "
            "with sentences)",
            file,
            "format",
        )


def json_of(file: Path, found: Findings) -> Any:
    if not (text := text_of(file, found)):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as wrong:
        found.problem(f"{file} is no json ({wrong})", file, "json")
        return None


def read_coco(file: Path, found: Findings) -> Iterator[Row]:
    """One of the official files, whose name has the split and the folder of its images in it."""
    data = json_of(file, found)
    if isinstance(data, dict):
        yield from coco_rows(file, data, found, coco_folder(file) + "/", coco_split(file))
    elif data is not None:
        found.problem(f"{file} has no images and annotations", file, "json")


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
            found.fault(where, "needs an id and a file_name", "key")
        elif number in names or name in taken:
            found.fault(where, f"{legible(name)} or its id {number} is there already", "twice")
        else:
            names[number] = name
            taken.add(name)
    bare = dict(names)
    for where, entry in entries(file, data, "annotations", found):
        number, text = entry.get("image_id"), entry.get(TEXT)
        if not isinstance(number, int | str) or not isinstance(text, str):
            found.fault(where, f"needs an image_id and a {TEXT}", "key")
        elif number not in names:
            found.fault(where, f"no image has the id {number}", "key")
        else:
            bare.pop(number, None)
            yield Row(where, folder + names[number], text, split)
    for name in bare.values():
        found.fault(Located(str(file), file), f"{legible(name)} has no caption", "empty")


def karpathy_rows(file: Path, data: Mapping[str, Any], found: Findings) -> Iterator[Row]:
    """Images with their split and their sentences; an image is there once."""
    taken: set[str] = set()
    for where, entry in entries(file, data, "images", found):
        name, split, sentences = (entry.get(key) for key in ("filename", "split", "sentences"))
        if not isinstance(name, str) or not isinstance(split, str):
            found.fault(where, "needs a filename and a split", "key")
            continue
        if isinstance(folder := entry.get("filepath"), str):
            name = f"{folder}/{name}"
        if not isinstance(sentences, list):
            sentences = []
        texts = [s.get("raw") if isinstance(s, dict) else None for s in sentences]
        if name in taken:
            found.fault(where, f"{legible(name)} is there already", "twice")
        elif not texts:
            found.fault(where, f"{legible(name)} has no caption", "empty")
        elif not all(isinstance(text, str) for text in texts):
            found.fault(where, f"a sentence of {legible(name)} has no text called raw", "type")
        else:
            taken.add(name)
            yield from (Row(where, name, str(text), split) for text in texts)


def entries(
    file: Path, data: Mapping[str, Any], name: str, found: Findings
) -> Iterator[tuple[Located, dict[str, Any]]]:
    """The objects in one of the lists of a json, each with where it stands."""
    values = data.get(name)
    if not isinstance(values, list):
        found.problem(f"{file} has no list called {name}", file, "json")
        return
    for number, entry in enumerate(values):
        where = Located(f"{file}, {name}[{number}]", file)
        if isinstance(entry, dict):
            yield where, entry
        else:
            found.fault(where, f"{json.dumps(entry)[:40]} stands where an object should", "type")
