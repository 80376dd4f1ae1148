"""Lines that belong together, from two files or the two columns of one; and what is wrong there.

    read = read_aligned(Path("corpus.en.gz"), Path("corpus.de"))
    read.source[0], read.target[0]
    read.faults                                 # a sentence for each pair that is no use

Files are UTF-8, packed by gzip or not. A line ends with a line feed and with nothing else: the
other signs that Unicode calls line breaks occur inside sentences, and would set two files off.
Carriage returns, spaces around a sentence, and the mark that some editors put first are dropped.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from regard.data.languages import header
from regard.data.listing import SPELLINGS
from regard.data.text import opened
from regard.errors import UserError

COLUMNS = 2
OFFICIAL = {"test_2016_flickr": "test", "test_2017_flickr": "test2017"}  # tests of Multi30k
LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")  # de, deu, pt-BR, zh_Hans
TEST = re.compile(r"test[\w-]*", re.IGNORECASE)  # one more test: test_2018
TABLE = "tsv"
LONGEST_NAMES = 256  # bytes of a line that names columns


class Read(NamedTuple):
    """The pairs that are of use, in the order of their lines, and why others are not."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    faults: tuple[str, ...]


class NoUse(Exception):
    """A line that is no sentence; the words say where and why."""


def read_aligned(source: Path, target: Path) -> Read:
    """Two files, of which line n of the second says what line n of the first says."""
    ours, theirs = lines_of(source), lines_of(target)
    if len(ours) != len(theirs):
        raise UserError(
            f"{source} has {len(ours):,} lines and {target} has {len(theirs):,}: line n of one "
            "must be the translation of line n of the other"
        )
    lines = enumerate(zip(ours, theirs, strict=True), start=1)
    return gathered(
        (
            ((f"{source}, line {n}", one), (f"{target}, line {n}", other))
            for n, (one, other) in lines
        )
    )


def named_columns(path: Path) -> tuple[str, str] | None:
    """What the line above calls the two columns of a file, if it names languages."""
    with opened(path) as file:
        return header(file.readline(LONGEST_NAMES).removeprefix(codecs.BOM_UTF8))


def read_table(path: Path) -> Read:
    """One file of two columns with a tab between them; a line above may name the languages."""
    first = 2 if named_columns(path) else 1

    def rows() -> Iterator[tuple[Place, ...]]:
        for n, line in enumerate(lines_of(path)[first - 1 :], start=first):
            yield tuple((f"{path}, line {n}", column) for column in line.split(b"\t"))

    return gathered(rows())


Place = tuple[str, bytes]  # where something stands, and what


def gathered(rows: Iterator[tuple[Place, ...]]) -> Read:
    """Both sides of every row as text; a row of which one side is no use is a fault."""
    source, target, faults = [], [], []
    for row in rows:
        try:
            if len(row) != COLUMNS:
                raise NoUse(
                    f"{row[0][0]} has {len(row)} column{'s' * (len(row) > 1)}: there must be two, "
                    "the text and its translation, with a tab between"
                )
            one, other = (sentence(*place) for place in row)
        except NoUse as why:
            faults.append(str(why))
        else:
            source.append(one)
            target.append(other)
    return Read(tuple(source), tuple(target), tuple(faults))


def sentence(where: str, line: bytes) -> str:
    """A line as text, or why it is none."""
    try:
        text = line.decode().strip()
    except UnicodeDecodeError as wrong:
        raise NoUse(
            f"{where} is not UTF-8: its byte {wrong.start + 1}, 0x{line[wrong.start]:02x}, belongs "
            "to no character"
        ) from None
    if not text:
        raise NoUse(f"{where} has an empty side: each text needs a translation")
    return text


def lines_of(path: Path) -> list[bytes]:
    """The lines of a file, without what ends them."""
    with opened(path) as file:
        data = file.read().removeprefix(codecs.BOM_UTF8)
    if not data:
        raise UserError(f"{path} is empty")
    if (zero := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, zero) + 1
        raise UserError(
            f"{path}, line {line} has a NUL byte: this is no text, or not UTF-8; save it as UTF-8 "
            "first"
        )
    if b"\n" not in data:  # as spreadsheets once ended lines
        data = data.replace(b"\r", b"\n")
    return data.removesuffix(b"\n").split(b"\n")


# Which files belong together


def part_files(folder: Path) -> dict[str, dict[str, Path]]:
    """The files of each part by what follows their names: train.de.gz is "train", "de"."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        stem, _, language = path.name.removesuffix(".gz").rpartition(".")
        part = OFFICIAL.get(stem) or SPELLINGS.get(stem.lower())
        if part is None and TEST.fullmatch(stem):
            part = stem
        if part is None or not LANGUAGE.fullmatch(language) or not path.is_file():
            continue
        before = found.setdefault(part, {}).setdefault(language, path)
        if before is not path:
            raise UserError(
                f"{folder} has two files for {part} in {language}, {before.name} and {path.name}: "
                "keep one"
            )
    return found


def read_parts(
    folder: Path, files: Mapping[str, Mapping[str, Path]], languages: tuple[str, str]
) -> dict[str, Read]:
    """Every part that has a file in one of two languages, and then must have both."""
    reads = {}
    for part, found in files.items():
        here = [language for language in languages if language in found]
        if len(here) == 1:
            (absent,) = set(languages) - set(here)
            name = found[here[0]].name
            raise UserError(f"{folder} has {name}, but nothing for {part} that ends in .{absent}")
        if here:
            reads[part] = read_aligned(*(found[language] for language in languages))
    if "train" not in reads:
        one, other = languages
        raise UserError(f"{folder} has neither train.{one} nor train.{other}")
    return reads


def ending(path: Path) -> str:
    """What a name ends in, gz aside, without its point."""
    return Path(path.name.removesuffix(".gz")).suffix[1:]
