"""Everything that is wrong with images and their captions, and how long and varied these are."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.data.caption_files import list_captions
from regard.data.captions import CaptionSet, from_listing, place_of
from regard.data.images import SPLITS, FileImages
from regard.data.listing import images_in
from regard.data.words import words_of
from regard.data.workers import decode_all

FLOOR = 5  # times; the share of words that are rarer is told
EXAMPLES = 20  # notes of one kind that are written out


@dataclass(frozen=True)
class CaptionReport:
    """What was looked at, what is wrong, and what is only worth knowing; one sentence each."""

    name: str
    images: dict[str, int]  # by split
    captions: dict[str, int]  # by split
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    statistics: "Statistics | None"  # None where there is no caption

    def sentences(self) -> Iterator[str]:
        """What the set is, for people to read after the problems and notes."""
        if count := sum(self.images.values()):
            sizes = ", ".join(f"{self.images[split]} {split}" for split in SPLITS)
            captions = sum(self.captions.values())
            yield f"{self.name}: {count} images with {captions} captions ({sizes})"
        if self.statistics:
            yield from self.statistics.sentences()


@dataclass(frozen=True)
class Statistics:
    """How many captions an image has, how many words a caption, and how rare these are.

    Words are those of `words_of`, punctuation included. All but `unseen` is about training.
    """

    fewest: int  # captions of one image
    most: int
    shortest: int  # words of one caption
    median: int
    nearly_all: int  # 95 of 100 captions have no more
    longest: int
    words: int  # in all
    distinct: int
    frequent: int  # of the distinct ones, those that occur FLOOR times
    covered: float  # share of all words that these make up
    unseen: float  # share of words of validation and test that training does not have

    def sentences(self) -> Iterator[str]:
        each = f"{self.fewest}" if self.fewest == self.most else f"{self.fewest} to {self.most}"
        yield (
            f"to train on: {each} captions an image; {self.shortest} to {self.longest} words a "
            f"caption, half have at most {self.median}, 95 % at most {self.nearly_all}"
        )
        yield (
            f"{self.words} words, {self.distinct} different; the {self.frequent} that occur "
            f"{FLOOR} times or more make up {self.covered:.1%}"
        )
        yield f"{self.unseen:.1%} of the words held out do not occur in training"


def check_captions(data: str, *, workers: int | None = None) -> CaptionReport:
    """Read every image and caption of a set, by its name or path, and list what is wrong."""
    listing = list_captions(place_of(data))
    problems, notes = [*listing.problems, *listing.faults], shortened(listing.notes)
    captions = from_listing(listing)
    outcomes = {}
    for split in SPLITS:
        files = captions[split].images
        assert isinstance(files, FileImages)
        outcomes[split] = decode_all(files.paths, None, workers=workers)
        problems += [outcome.trouble for outcome in outcomes[split] if outcome.trouble]
    digests = {split: [outcome.digest for outcome in column] for split, column in outcomes.items()}
    problems += twins(captions, digests)
    notes += bystanders(captions)
    return CaptionReport(
        captions.name,
        {split: len(captions[split]) for split in SPLITS},
        {split: sum(map(len, captions[split].captions)) for split in SPLITS},
        tuple(problems),
        tuple(notes),
        statistics(captions) if len(captions.train) else None,
    )


def statistics(captions: CaptionSet) -> Statistics:
    """Count the captions for training, and what the others have that these have not."""
    each = [len(texts) for texts in captions.train.captions]
    lengths = []
    count: Counter[str] = Counter()
    for text in captions.train.texts():
        words = words_of(text)
        lengths.append(len(words))
        count.update(words)
    frequent = [n for n in count.values() if n >= FLOOR]
    held = [
        word for split in SPLITS[1:] for text in captions[split].texts() for word in words_of(text)
    ]
    median, nearly_all = np.percentile(lengths, (50, 95), method="inverted_cdf")
    return Statistics(
        fewest=min(each),
        most=max(each),
        shortest=min(lengths),
        median=int(median),
        nearly_all=int(nearly_all),
        longest=max(lengths),
        words=count.total(),
        distinct=len(count),
        frequent=len(frequent),
        covered=sum(frequent) / count.total(),
        unseen=sum(word not in count for word in held) / len(held) if held else 0.0,
    )


def twins(captions: CaptionSet, digests: dict[str, list[str]]) -> Iterator[str]:
    """Files with the same content in two splits: what is learnt there is asked for here."""
    places: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for split, column in digests.items():
        for row, digest in enumerate(column):
            if digest:
                places[digest].append((split, row))
    for (split, row), *others in places.values():
        for other, there in others:
            if other != split:
                pair = " and ".join(path_of(captions, *at) for at in ((split, row), (other, there)))
                yield f"{pair} are the same image, in {split} and in {other}"


def path_of(captions: CaptionSet, split: str, row: int) -> str:
    images = captions[split].images
    return str(images.paths[row]) if isinstance(images, FileImages) else f"{split}[{row}]"


def bystanders(captions: CaptionSet) -> Iterator[str]:
    """Images in the same folders that no caption is about."""
    named = {
        path
        for split in SPLITS
        if isinstance(images := captions[split].images, FileImages)
        for path in images.paths
    }
    folders = {path.parent for path in named}
    top = [folder for folder in folders if not folders & set(folder.parents)]
    others = [path for folder in sorted(top) for path in images_in(folder)[0] if path not in named]
    if others:
        yield f"{len(others)} images have no caption, such as {others[0]}; not read"


def shortened(notes: tuple[str, ...]) -> list[str]:
    """The first few notes, and how many more there are."""
    more = len(notes) - EXAMPLES
    return [*notes[:EXAMPLES], *([f"and {more} more such notes"] if more > 0 else [])]
