"""Running text in three parts, from one file, a folder, or what every Python brings along.

    corpus = read_corpus("docstrings")      # or "wikitext-2", "book.txt", "book.txt.gz", "books/"
    for block in corpus.train: ...          # about a megabyte each, cut where a word ends

What there is by name, how your own files are divided, and what is refused. A part stays in its file
until it is read (`regard.data.text`).
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from regard.data.images import SPLITS
from regard.data.registry import beside, resolve
from regard.data.text import BLOCK, Span, Text, opened
from regard.errors import DataIssue, nearest
from regard.paths import data_folders

EXACT = 2**26  # bytes of a file up to which its characters are counted, and checked at once
ENDINGS = (".txt", ".text", ".md", ".rst", ".tex", ".py", ".tokens", ".raw")  # of texts in a folder
ABOUT = re.compile(r"(source|readme|licen[cs]e|copying|notice|citation)\b", re.IGNORECASE)
PARTS = {  # the words in the names of files that say which part they are
    "train": ("train", "training"),
    "validation": ("valid", "validation", "val", "dev"),
    "test": ("test",),
}


class Named(NamedTuple):
    """What there is to say about a corpus that has a name."""

    title: str
    licence: str
    source: str
    places: tuple[str, ...] = ()  # under each folder that is searched; none if it is embedded
    files: str = ""  # what lies there


CORPORA: Mapping[str, Named] = MappingProxyType(
    {
        "docstrings": Named(
            "the prose inside this Python's standard library",
            "PSF-2.0",
            "https://docs.python.org/3/license.html",
        ),
        "stdlib": Named(
            "the source of this Python's standard library",
            "PSF-2.0",
            "https://docs.python.org/3/license.html",
        ),
        "tiny_shakespeare": Named(
            "40,000 lines of Shakespeare's plays",
            "public domain",
            "https://github.com/karpathy/char-rnn/tree/master/data/tinyshakespeare",
            ("tiny_shakespeare", "tiny-shakespeare", "tinyshakespeare"),
            "input.txt",
        ),
        "wikitext-2": Named(
            "720 good articles of Wikipedia, 2 million words",
            "CC BY-SA, as Wikipedia",
            "https://huggingface.co/datasets/Salesforce/wikitext",
            ("wikitext-2", "wikitext2", "WikiText2/wikitext-2", "WikiText2"),
            "train.txt, valid.txt and test.txt",
        ),
    }
)


@dataclass(frozen=True)
class Corpus:
    """A text in three parts, and whose it is; where nobody held out a test, that part is empty."""

    name: str
    train: Text
    validation: Text
    test: Text
    licence: str = "your own"
    source: str = ""

    def __getitem__(self, split: str) -> Text:
        if split not in SPLITS:
            raise ValueError(f"no split {split!r}; there are {', '.join(SPLITS)}")
        found: Text = getattr(self, split)
        return found

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of everything a model could learn from: the three parts."""
        parts = "".join(f"{name} {self[name].size} {self[name].digest()}\n" for name in SPLITS)
        return hashlib.sha256(parts.encode()).hexdigest()


def read_corpus(data: str | Path) -> Corpus:
    """A corpus by its name, or your own text by its path.

    - Of one file, packed by gzip or not, the last tenth of its characters is for validation and
      nothing for test, as is usual for tiny Shakespeare. From 64 MiB on, characters are not
      counted, and the first line that begins in the last tenth of the bytes begins validation.
    - A folder with files such as train.txt, valid.txt and test.txt (or wiki.train.tokens, …) has
      its parts. Without one for validation, this is the last tenth of what there is to train on.
    - The texts in any other folder are joined in the order of their names, and the last tenth of
      all bytes, from a line break on, is for validation.
    """
    if isinstance(data, str) and data in CORPORA:
        return read_named(data)
    path = resolve(data)
    try:
        if path.is_dir():
            return read_folder(path)
        if path.is_file():
            return read_one(path)
    except OSError as trouble:
        raise DataIssue(
            f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
        ) from None
    named = not any(sign in str(data) for sign in "/\\.")
    raise DataIssue(
        f"{path} is not there" + (f"; {nearest(str(data), CORPORA)}" if named else ""),
        path,
        kind="missing",
    )


def read_named(name: str) -> Corpus:
    """A corpus that has a name, wherever it lies."""
    named = CORPORA[name]
    if not named.places:
        from regard.data.synthetic import docstrings as python_text

        return python_text.docstrings() if name == "docstrings" else python_text.stdlib()
    if folder := find_corpus(name):
        return called(name, read_folder(folder))
    home = data_folders()[0] / named.places[0]
    raise DataIssue(
        f"{name} is not on this machine: put {named.files} from {named.source} into {home}"
        f"{beside(name)}",
        kind="absent",
    )


def find_corpus(name: str) -> Path | None:
    """The first folder that holds a corpus, of all that are searched; None for embedded ones."""
    places = (folder / place for folder in data_folders() for place in CORPORA[name].places)
    return next((place for place in places if os.path.isdir(place)), None)


def called(name: str, corpus: Corpus) -> Corpus:
    """The same text, known to be the one of that name."""
    return replace(corpus, name=name, licence=CORPORA[name].licence, source=CORPORA[name].source)


# Files and folders


def read_one(path: Path) -> Corpus:
    """One file, whose last tenth is for validation."""
    train, validation = divided(path)
    name = path.resolve().name.removesuffix(".gz")
    return Corpus(name, train, validation, Text(), source=str(path.resolve()))


def read_folder(folder: Path) -> Corpus:
    """A folder with a file for each part, or with any texts."""
    files = texts_in(folder)
    if not files:
        raise DataIssue(
            f"{folder} has no text: put train.txt, valid.txt and test.txt into it, or any files "
            f"that end in {', '.join(ENDINGS)}, packed by gzip or not",
            folder,
            kind="format",
        )
    given = parts_among(files)
    if "train" in given and len(given) > 1:
        corpus = from_parts(folder, given)
    elif len(files) == 1:
        corpus = read_one(files[0])
    else:
        corpus = joined(files, folder)
    here = folder.resolve()
    for name, named in CORPORA.items():
        if here.name in named.places:  # by its path it is the same as by its name
            return called(name, corpus)
    return replace(corpus, name=here.name, source=str(here))


def texts_in(folder: Path) -> list[Path]:
    """The texts that lie in a folder, in the order of their names, but none about the others."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.removesuffix(".gz").lower().endswith(ENDINGS)
        and not path.name.startswith(".")
        and not ABOUT.match(path.name)
        and path.is_file()
    )


TEXTS = {"txt", "text", "tokens", "raw"}  # endings, perhaps with a gz behind them


def parts_among(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Files by the part that a word in their name tells: train.txt, wiki.valid.tokens.

    Only of texts: train.py and test.py are two files of a program like any others.
    """
    found: dict[str, list[Path]] = {}
    for path in files:
        words = re.split(r"[._-]", path.name.lower())
        if not set(words[1:]) & TEXTS and "." in path.name:
            continue
        for part, names in PARTS.items():
            if any(name in words for name in names):
                found.setdefault(part, []).append(path)
    return found


def from_parts(folder: Path, given: Mapping[str, Sequence[Path]]) -> Corpus:
    for part, files in given.items():
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise DataIssue(
                f"{folder} has {len(files)} files for {part}, {names}: keep one",
                folder,
                kind="several",
            )
    one = {part: files[0] for part, files in given.items()}
    test = checked(Text((measured(one["test"]),)), one["test"]) if "test" in one else Text()
    if "validation" in one:
        train, validation = (
            checked(Text((measured(one[part]),)), one[part]) for part in ("train", "validation")
        )
    else:
        train, validation = divided(one["train"])
    return Corpus(folder.name, train, validation, test)


def divided(path: Path) -> tuple[Text, Text]:
    """All but the last tenth of a file, and that."""
    span = measured(path)
    whole = checked(Text((span,)), path)
    if span.bytes > EXACT:
        cut = line_near(span, span.start + span.bytes * 9 // 10)
    else:
        left = sum(map(len, whole)) * 9 // 10
        cut = span.start
        for block in whole:
            cut += len(block[:left].encode())
            left -= min(left, len(block))
    if not span.start < cut < span.end:
        raise DataIssue(
            f"{path} has {span.bytes} bytes, too few to hold out a tenth", path, kind="small"
        )
    return Text((span._replace(end=cut),)), Text((span._replace(start=cut),))


def joined(files: Sequence[Path], folder: Path) -> Corpus:
    """All texts of a folder one after the other, a line break between; the last tenth is held."""
    spans = [span for span in map(measured, files) if span.bytes]
    size = checked(Text(tuple(spans)), folder).size
    ends = list(accumulate(span.bytes for span in spans))
    at = next(number for number, end in enumerate(ends) if end > size * 9 // 10)
    span = spans[at]
    cut = span.end - (ends[at] - size * 9 // 10)
    if cut > span.start:  # or else a whole file begins here
        cut = line_near(span, cut)
    train = apart([*spans[:at], span._replace(end=cut)])
    validation = apart([span._replace(start=cut), *spans[at + 1 :]])
    if not train.size:
        raise DataIssue(
            f"{folder} has {size} bytes of text, too few to hold out a tenth", folder, kind="small"
        )
    return Corpus(folder.name, train, validation, Text())


def apart(spans: Sequence[Span]) -> Text:
    """Spans as one text, with a line break between two where the first does not end with one."""
    pieces: list[Span | str] = []
    for span in spans:
        if span.bytes:
            pieces.append(span)
            with opened(span.path) as file:
                file.seek(span.end - 1)
                if file.read(1) != b"\n":
                    pieces.append("\n")
    if pieces and isinstance(pieces[-1], str):
        pieces.pop()
    return Text(tuple(pieces))


def measured(path: Path) -> Span:
    """A whole file, but for the mark at its beginning that some editors write."""
    with opened(path) as file:
        start = len(codecs.BOM_UTF8) if file.read(3) == codecs.BOM_UTF8 else 0
        return Span(path, start, file.seek(0, os.SEEK_END))


def line_near(span: Span, at: int) -> int:
    """Where, from a byte on, the next line begins; or else a word; or else the character there."""
    with opened(span.path) as file:
        file.seek(at - 1)
        some = file.read(min(BLOCK, span.end - at))  # not the last byte: something has to follow
        for sign in (b"\n", b" "):
            if found := some.find(sign) + 1:
                return at - 1 + found
        first = max(span.start, at - 3)  # no character has more than four bytes
        file.seek(first)
        begins = [byte & 0xC0 != 0x80 for byte in file.read(at - first + 1)]
    return first + max((n for n, begin in enumerate(begins) if begin), default=0)


def checked(text: Text, path: Path) -> Text:
    """The text itself, if it says something; a large one is checked further when it is read."""
    if not text.size:
        raise DataIssue(f"{path} is empty", path, kind="empty")
    blank = True
    for block in text:
        blank = blank and block.isspace()
        if not blank and text.size > EXACT:
            break
    if blank:
        raise DataIssue(
            f"{path} has nothing but spaces and line breaks in its {text.size} bytes",
            path,
            kind="empty",
        )
    return text
