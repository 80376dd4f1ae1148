"""Labelled texts that have a name: what they are, where they lie, and how their files are read.

    find_labelled("sst2")                   # the first folder that holds it, or None
    READERS["sick"](Path("data/sick"))      # its parts, as `label_files` reads them

`labelled` makes one set of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from regard.data.label_files import Read, head_of, named_column, part_files, read_labels
from regard.data.registry import beside
from regard.data.tables import rows_of
from regard.errors import DataIssue, at_line
from regard.paths import data_folders

FURTHER = "test2013"  # SST-2's own test, where its labels are given
SICK_FILES = ("SICK.txt", "SICK.txt.gz", "SICK.tsv", "SICK.tsv.gz")  # the first is its own name
SICK_PARTS = {"TRAIN": "train", "TRIAL": "validation", "TEST": "test"}  # of SemEval 2014


class Named(NamedTuple):
    """What there is to say about labelled texts that have a name."""

    title: str
    licence: str
    source: str
    classes: tuple[str, ...]
    places: tuple[str, ...] = ()  # under each folder that is searched; none if they are embedded
    files: str = ""  # what lies there
    sign: str = ""  # the pattern of a file that lies nowhere else


LABELLED: Mapping[str, Named] = MappingProxyType(
    {
        "reviews": Named(
            "27,000 sentences that praise or blame, with negations, contrasts and quotations",
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
            "train.tsv*",
        ),
        "sick": Named(
            "9,840 pairs of sentences: one follows from the other, contradicts it, or neither",
            "CC BY-NC-SA 3.0",
            "http://marcobaroni.org/composes/sick.html",
            ("contradiction", "entailment", "neutral"),
            ("sick", "SICK"),
            "SICK.txt",
            "SICK.t[sx][tv]*",
        ),
    }
)


def find_labelled(name: str) -> Path | None:
    """The first folder that holds the texts of a name; None for embedded ones."""
    named = LABELLED[name]
    places = (folder / place for folder in data_folders() for place in named.places)
    return next((place for place in places if any(place.glob(named.sign))), None)


def place_of(name: str) -> Path | None:
    """The same, where it is an error if they should lie somewhere and do not."""
    named, found = LABELLED[name], find_labelled(name)
    if named.places and found is None:
        home = data_folders()[0] / named.places[0]
        raise DataIssue(
            f"{name} is not on this machine: put {named.files} from {named.source} into {home}"
            f"{beside(name)}",
            kind="absent",
        )
    return found


def name_at(path: Path) -> str:
    """The name of what lies at a path: SST-2's folder, SICK's folder or its file; else nothing."""
    if path.is_file():
        return "sick" if path.name in SICK_FILES else ""
    if not path.is_dir():
        return ""
    files = part_files(path)
    folders = {Path(place).name for place in LABELLED["sst2"].places}
    if path.resolve().name in folders and {"train", "validation"} <= {*files}:
        return "sst2"
    return "sick" if "train" not in files and any(path.glob(LABELLED["sick"].sign)) else ""


def read_sst2(folder: Path) -> dict[str, Read]:
    """SST-2 as GLUE gives it: 0 is negative, 1 is positive."""
    files = part_files(folder)
    if missing := [file for file in ("train", "validation") if file not in files]:
        raise DataIssue(
            f"{folder} has no {'train' if 'train' in missing else 'dev'}.tsv",
            folder,
            kind="missing",
        )
    reads = {"train": read_labels(files["train"]), "test": read_labels(files["validation"])}
    if "test" in files and "label" in head_of(files["test"]):
        further = read_labels(files["test"])
        if set(further.labels) <= {"0", "1"}:  # elsewhere -1 stands for "not told"
            reads[FURTHER] = further
    if strange := [label for label in reads["train"].labels if label not in ("0", "1")]:
        raise DataIssue(
            f"{files['train']} has label {strange[0]!r}; SST-2 has 0 and 1",
            files["train"],
            kind="label",
        )
    return reads


def read_sick(path: Path) -> dict[str, Read]:
    """SICK, all of which is one table with tabs; a column says which part a pair belongs to."""
    if path.is_dir():
        there = [path / name for name in SICK_FILES if (path / name).is_file()]
        if not there:
            raise DataIssue(f"{path} has no SICK.txt", path, kind="missing")
        path = there[0]
    read = read_labels(path, "sentence_A", "entailment_label", pair="sentence_B")
    read = read._replace(labels=tuple(label.lower() for label in read.labels))
    rows = (row for row in rows_of(path) if not row.fault)
    top, head, _ = next(rows)
    names = [name.strip().lower() for name in head]
    at = named_column(at_line(path, top), names, "SemEval_set", "", "part")
    assert at is not None
    part_in = {row.line: row.cells[at].strip() for row in rows if len(row.cells) == len(head)}
    parts: dict[str, list[int]] = {name: [] for name in SICK_PARTS}
    for row, line in enumerate(read.lines):
        if part_in[line] not in parts:
            raise DataIssue(
                f"{path}, line {line} is of part {part_in[line]!r}; SICK has {', '.join(parts)}",
                path,
                line,
                kind="split",
            )
        parts[part_in[line]].append(row)
    if empty := [name for name, some in parts.items() if not some]:
        raise DataIssue(f"{path} has no row of part {empty[0]}", path, kind="split")
    reads = {SICK_PARTS[name]: read.only(some) for name, some in parts.items()}
    labels, classes = sorted({*reads["train"].labels}), LABELLED["sick"].classes
    if labels != sorted(classes):
        raise DataIssue(
            f"{path} has labels {', '.join(labels)}; SICK has {', '.join(classes)}",
            path,
            kind="label",
        )
    return reads | {"train": reads["train"]._replace(faults=read.faults)}


READERS: Mapping[str, Callable[[Path], dict[str, Read]]] = MappingProxyType(
    {"sst2": read_sst2, "sick": read_sick}
)
