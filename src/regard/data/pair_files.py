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
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from regard.data.languages import header
from regard.data.listing import SPELLINGS
from regard.data.stored_texts import TextWriter
from regard.data.tables import ending as ending  # others ask for it here
from regard.data.tables import lines_in
from regard.data.text import opened
from regard.errors import DataIssue, Located, at_line

COLUMNS = 2
OFFICIAL = {"test_2016_flickr": "test", "test_2017_flickr": "test2017"}  # tests of Multi30k
LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")  # de, deu, pt-BR, zh_Hans
TEST = re.compile(r"test[\w-]*", re.IGNORECASE)  # one more test: test_2018
TABLE = "tsv"
LONGEST_NAMES = 256  # bytes of a line that names columns


class Read(NamedTuple):
    """The pairs that are of use, in the order of their lines, and why others are not."""

    source: Sequence[str]
    target: Sequence[str]
    faults: tuple[str, ...]


class NoUse(Exception):
    """A line that is no sentence; the words say where and why, and know it too."""

    def __init__(self, words: str, where: Located, kind: str) -> None:
        super().__init__(words)
        self.fault = Located(words, where, kind=kind)


def read_aligned(source: Path, target: Path) -> Read:
    """Two files, of which line n of the second says what line n of the first says."""
    ours, theirs = lines_in(source), lines_in(target)

    def rows() -> Iterator[tuple[Place, ...]]:
        for one, other in zip_longest(ours, theirs):
            if one is None or other is None:
                n, m = (last_number(lines, each) for lines, each in ((ours, one), (theirs, other)))
                raise DataIssue(
                    f"{source} has {n or other[0] - 1:,} lines and {target} has "
                    f"{m or one[0] - 1:,}: line n of one must be the translation of line n of the "
                    "other",
                    target,
                    kind="lengths",
                )
            yield (at_line(source, one[0]), one[1]), (at_line(target, other[0]), other[1])

    return gathered(rows())


def last_number(lines: Iterator[tuple[int, bytes]], at: tuple[int, bytes] | None) -> int:
    """The number of the last line, where one is at a line; 0 where there is none any more."""
    return 0 if at is None else max((number for number, _ in lines), default=at[0])


def named_columns(path: Path) -> tuple[str, str] | None:
    """What the line above calls the two columns of a file, if it names languages."""
    with opened(path) as file:
        return header(file.readline(LONGEST_NAMES).removeprefix(codecs.BOM_UTF8))


def read_table(path: Path) -> Read:
    """One file of two columns with a tab between them; a line above may name the languages."""
    first = 2 if named_columns(path) else 1

    def rows() -> Iterator[tuple[Place, ...]]:
        for n, line in islice(lines_in(path), first - 1, None):
            yield tuple((at_line(path, n), column) for column in line.split(b"\t"))

    return gathered(rows())


Place = tuple[Located, bytes]  # where something stands, and what


def gathered(rows: Iterator[tuple[Place, ...]]) -> Read:
    """Both sides of every row as text; a row of which one side is no use is a fault."""
    source, target = TextWriter(), TextWriter()
    faults: list[str] = []
    for row in rows:
        try:
            if len(row) != COLUMNS:
                raise NoUse(
                    f"{row[0][0]} has {len(row)} column{'s' * (len(row) > 1)}: there must be two, "
                    "the text and its translation, with a tab between",
                    row[0][0],
                    "columns",
                )
            one, other = (sentence(*place) for place in row)
        except NoUse as why:
            faults.append(why.fault)
        else:
            source.add(one)
            target.add(other)
    return Read(source.done(), target.done(), tuple(faults))


def sentence(where: Located, line: bytes) -> str:
    """A line as text, or why it is none."""
    try:
        text = line.decode().strip()
    except UnicodeDecodeError as wrong:
        raise NoUse(
            f"{where} is not UTF-8: its byte {wrong.start + 1}, 0x{line[wrong.start]:02x}, belongs "
            "to no character",
            where,
            "encoding",
        ) from None
    if not text:
        raise NoUse(f"{where} has an empty side: each text needs a translation", where, "empty")
    return text


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
            raise DataIssue(
                f"{folder} has two files for {part} in {language}, {before.name} and {path.name}: "
                "keep one",
                folder,
                kind="several",
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
            raise DataIssue(
                f"{folder} has {name}, but nothing for {part} that ends in .{absent}",
                folder,
                kind="missing",
            )
        if here:
            reads[part] = read_aligned(*(found[language] for language in languages))
    if "train" not in reads:
        one, other = languages
        raise DataIssue(
            f"{folder} has neither train.{one} nor train.{other}", folder, kind="missing"
        )
    return reads
