"""Everything that is wrong with a data set, found before any training."""

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.data import caption_check
from regard.data.caption_check import CaptionReport
from regard.data.caption_files import (
    IMAGE_COLUMNS,
    NAMES,
    TABLES,
    TEXT_COLUMNS,
    files_in,
    names_captions,
)
from regard.data.captions import CaptionSet
from regard.data.cifar import holds_cifar
from regard.data.corpus import CORPORA
from regard.data.flickr import FLICKR8K, TOKENS, holds_tokens, start_of
from regard.data.idx import holds_idx
from regard.data.images import SPLITS, FileImages, ImageSet
from regard.data.labelled import LABELLED
from regard.data.listing import LABEL_COLUMNS, list_images, table
from regard.data.pairs import PAIRS
from regard.data.registry import EMBEDDED, KNOWN, find, from_listing, read_images, resolve
from regard.data.synthetic.scene_grammar import true_of
from regard.data.synthetic.scene_set import HELD, scene_set
from regard.data.synthetic.scenes import scene
from regard.data.text_check import (
    TextReport,
    alike,
    check_labels,
    check_pairs,
    check_text,
    holds_labels,
    holds_pairs,
    holds_text,
    is_blank,
    is_plain,
)
from regard.data.workers import decode_all
from regard.errors import DataIssue, UserError, nearest


@dataclass(frozen=True)
class Report:
    """What was looked at, what is wrong, and what is only worth knowing; one sentence each."""

    name: str
    classes: int
    images: dict[str, int]  # by split
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def sentences(self) -> Iterator[str]:
        """What the set is, for people to read after the problems and notes."""
        if count := sum(self.images.values()):
            sizes = ", ".join(f"{self.images[split]} {split}" for split in SPLITS)
            yield f"{self.name}: {count} images ({sizes}), {self.classes} classes"


def check(
    data: str, *, text: str = "", label: str = "", pair: str = "", workers: int | None = None
) -> Report | CaptionReport | TextReport:
    """Read every image or text of a set, by its name or path, and list what is wrong.

    `text`, `label` and `pair` name the columns of a table of texts, where it needs that.
    """
    for names, of_words in ((LABELLED, check_labels), (CORPORA, check_text), (PAIRS, check_pairs)):
        if data in names and not (text or label or pair):
            return of_words(data)  # what is not on this machine is an error, and not a fault of it
    if data == SCENES:
        return check_scenes()
    if data == FLICKR8K:
        return caption_check.check_captions(data, workers=workers)
    if data in EMBEDDED or data in KNOWN:
        if data in KNOWN and find(KNOWN[data]) is None:
            read_images(data)  # which says how it comes here
        return check_official(data)
    path = resolve(data)
    if (found := check_words(data, path, text, label, pair)) is not None:
        return found
    if holds_captions(path):
        return caption_check.check_captions(data, workers=workers)
    if holds_cifar(path) or holds_idx(path):
        return check_official(data)
    if keys := keys_of(path):
        raise DataIssue(
            f"{path} has the keys {', '.join(keys)} in its lines: neither images with captions, "
            "for which there must be image and caption, nor a table of texts and labels, which are "
            "read as .csv or .tsv",
            path,
            kind="format",
        )
    if is_plain(path):
        return run_check(check_text, data)
    if not os.path.exists(path) and not any(sign in data for sign in "/\\."):
        known = (SCENES, FLICKR8K, *EMBEDDED, *KNOWN, *CORPORA, *PAIRS, *LABELLED)
        raise DataIssue(f"{path} is not there; {nearest(data, known)}", path, kind="missing")
    listing = list_images(path)
    problems = [*listing.problems, *listing.doubts]
    notes = list(alike(listing.classes))
    if listing.passed_over:
        count, first = len(listing.passed_over), listing.passed_over[0]
        notes.append(f"{count} files are no images by their names, such as {first}; not read")
    images = from_listing(path, listing)
    digests: dict[str, list[str]] = {}
    for split in SPLITS:
        files = images[split].images
        assert isinstance(files, FileImages)
        outcomes = decode_all(files.paths, None, workers=workers)
        problems += [outcome.trouble for outcome in outcomes if outcome.trouble]
        digests[split] = [outcome.digest for outcome in outcomes]
    problems += twins(images, digests)
    return Report(images.name, len(images.classes), counts(images), tuple(problems), tuple(notes))


def check_official(data: str) -> Report:
    """A set in arrays is checked by its reader; what its authors left in it is for a note."""
    try:
        images = read_images(data)
    except UserError as trouble:
        return Report(data, 0, {}, (str(trouble),))
    found = list(twins(images, digests_of(images)))
    note = (f"{len(found)} images are there twice, as published: {found[0]}",) if found else ()
    return Report(images.name, len(images.classes), counts(images), (), note)


def check_words(
    data: str, path: Path, text: str = "", label: str = "", pair: str = ""
) -> TextReport | None:
    """What is wrong with texts in a file or a folder; None for what holds or names images."""
    if text or label or pair:
        return run_check(check_labels, data, text, label, pair)
    if "," in data and not os.path.exists(path):
        return run_check(check_pairs, data)
    try:
        if is_blank(path):
            return TextReport((f"{path} is empty, or has nothing but spaces and line breaks",))
        if (path.name in NAMES and path.is_file()) or names_captions(path):
            return None
        if holds_pairs(path):
            return run_check(check_pairs, data)
        if holds_labels(path):
            return run_check(check_labels, data)
        alone = path.is_file() and holds_text(path) and not says_words(path)
        return run_check(check_text, data) if alone else None
    except OSError:
        return None  # whoever reads it next says why


def run_check(check_one: Callable[..., TextReport], data: str, *columns: str) -> TextReport:
    """A report; what makes the whole of your own texts no use is what is wrong with them."""
    try:
        return check_one(data, *columns)
    except UserError as trouble:
        return TextReport((str(trouble),))


SCENES = "scenes"  # drawn


def holds_captions(path: Path) -> bool:
    """Whether there are captions, or a file of them, rather than classes."""
    try:
        if path.is_dir():
            texts = (path / TOKENS, path / "Flickr8k_text" / TOKENS)
            official = (path / "annotations").glob("captions_*.json")
            named = files_in(path)
            return any(map(Path.is_file, texts)) or any(official) or any(map(says_words, named))
        return path.is_file() and says_words(path)
    except OSError:
        return False  # whoever reads it next says why


def says_words(file: Path) -> bool:
    """Whether a file is one of captions: a table may be of paths and labels, or of texts."""
    if holds_tokens(file) or names_captions(file):
        return True
    if file.suffix.lower() not in TABLES:
        keys = keys_of(file)
        return file.suffix.lower() in (".json", ".jsonl") and (not keys or speaks_of_images(keys))
    head = {name.strip().lower() for name in next(table(file, []), (1, []))[1]}
    if head.isdisjoint(TEXT_COLUMNS):
        return file.name in NAMES and head.isdisjoint(LABEL_COLUMNS)
    return True


def speaks_of_images(keys: list[str]) -> bool:
    """Whether one of some keys is what images are called by."""
    return not {*IMAGE_COLUMNS}.isdisjoint(key.strip().lower() for key in keys)


def keys_of(file: Path) -> list[str]:
    """What the first object of json lines has; nothing of other files, nor of what is no json."""
    if file.suffix.lower() != ".jsonl" or not file.is_file():
        return []
    first = next((line for line in start_of(file).split(b"\n") if line.strip()), b"")
    try:
        entry = json.loads(first)
    except (ValueError, RecursionError):
        return []
    return [str(key) for key in entry] if isinstance(entry, dict) else []


def check_scenes() -> CaptionReport:
    """A sample of the embedded scenes: that captions are true, and no picture is there twice."""
    scenes = scene_set(HELD)
    problems = [
        f"{text!r} is not true of {split}[{row}]"
        for split in SPLITS
        for row, texts in enumerate(scenes[split].captions)
        for text in texts
        if not true_of(text, scene(row, split))
    ]
    problems += caption_check.twins(scenes, digests_of(scenes))
    sizes = {split: len(scenes[split]) for split in SPLITS}
    return CaptionReport(
        scenes.name,
        sizes,
        {split: sum(map(len, scenes[split].captions)) for split in SPLITS},
        tuple(problems),
        (f"scenes are drawn, as many as are asked for; this is of {sum(sizes.values())}",),
        caption_check.statistics(scenes),
    )


def counts(images: ImageSet) -> dict[str, int]:
    return {split: len(images[split]) for split in SPLITS}


def digests_of(found: ImageSet | CaptionSet) -> dict[str, list[str]]:
    """The SHA-256 of each image's pixels, by split."""
    return {
        split: [
            hashlib.sha256(found[split].images[row].tobytes()).hexdigest()
            for row in range(len(found[split]))
        ]
        for split in SPLITS
    }


def twins(images: ImageSet, digests: dict[str, list[str]]) -> Iterator[str]:
    """Images with the same content in two splits, or under two classes."""
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for split, column in digests.items():
        for row, digest in enumerate(column):
            if digest:
                places[digest].append((split, row))
    for same in places.values():
        first, *others = same
        for other in others:
            labels = [int(images[split].labels[row]) for split, row in (first, other)]
            pair = " and ".join(name_of(images, *place) for place in (first, other))
            if labels[0] != labels[1]:
                a, b = (images.classes[label] for label in labels)
                yield f"{pair} are the same image, once called {a!r} and once {b!r}"
            elif first[0] != other[0]:
                yield f"{pair} are the same image, in {first[0]} and in {other[0]}"


def name_of(images: ImageSet, split: str, row: int) -> str:
    source = images[split].images
    return str(source.paths[row]) if isinstance(source, FileImages) else f"{split}[{row}]"
