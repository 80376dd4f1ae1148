"""Everything that is wrong with a data set, found before any training."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from regard.data.catalogue import EMBEDDED, KNOWN, from_listing, read_images, resolve
from regard.data.cifar import holds_cifar
from regard.data.idx import holds_idx
from regard.data.images import SPLITS, FileImages, ImageSet
from regard.data.listing import list_images
from regard.data.workers import decode_all
from regard.errors import UserError


@dataclass(frozen=True)
class Report:
    """What was looked at, what is wrong, and what is only worth knowing; one sentence each."""

    name: str
    classes: int
    images: dict[str, int]  # by split
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def check(data: str, *, workers: int | None = None) -> Report:
    """Read every image of a set, by its name or path, and list what is wrong."""
    path = resolve(data)
    if data in EMBEDDED or data in KNOWN or holds_cifar(path) or holds_idx(path):
        return check_official(data)
    listing = list_images(path)
    problems = [*listing.problems, *listing.doubts]
    notes = []
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
    digests = {
        split: [
            hashlib.sha256(images[split].images[row].tobytes()).hexdigest()
            for row in range(len(images[split]))
        ]
        for split in SPLITS
    }
    found = list(twins(images, digests))
    note = (f"{len(found)} images are there twice, as published: {found[0]}",) if found else ()
    return Report(images.name, len(images.classes), counts(images), (), note)


def counts(images: ImageSet) -> dict[str, int]:
    return {split: len(images[split]) for split in SPLITS}


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
