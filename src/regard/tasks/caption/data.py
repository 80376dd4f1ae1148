"""Images and their captions on the way to the model: read, numbered, and cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from regard.data.augment import seeded
from regard.data.captions import CaptionSet, CaptionSplit, captions_at_size, read_captions
from regard.data.embedded.scene_set import scene_set
from regard.data.images import SPLITS, Images
from regard.data.vocabulary import BytePairVocabulary, WordVocabulary, fit_vocabulary, from_text
from regard.errors import UserError
from regard.tasks.caption.config import IMAGENET, CaptionConfig
from regard.tasks.caption.features import SIZE, KeptFeatures, imagenet_inputs, kept_features
from regard.tasks.pixels import ImageFacts, batch_seeds, placed, resident, statistics

SCENES = "scenes"
POOL = 16  # batches whose images are sorted by the length of their captions
ROUND = 4  # captions of a batch are padded to a multiple of this, so that few shapes occur

Words = WordVocabulary | BytePairVocabulary


@dataclass(frozen=True, kw_only=True)
class Facts(ImageFacts):
    """What a run must know of its data to be used without them."""

    vocabulary: str  # as its `to_text` gives it
    longest: int  # words of the longest caption that is learnt

    @property
    def words(self) -> Words:
        return vocabulary_of(self.vocabulary)


@lru_cache(maxsize=4)
def vocabulary_of(text: str) -> Words:
    return from_text(text)


@dataclass(frozen=True, eq=False)
class CaptionData:
    """A set of captioned images at the size of the encoder, and its facts."""

    captions: CaptionSet
    facts: Facts
    drawn: bool = False  # whether these are scenes, of which it is known what is true

    @property
    def name(self) -> str:
        return self.captions.name

    @cached_property
    def numbers(self) -> list[list[list[int]]]:
        """The training captions as numbers, image by image, however long."""
        words = self.facts.words
        return [[words.encode(text) for text in texts] for texts in self.captions.train.captions]

    def words(self) -> str:
        """One line: what there is."""
        train, validation, test = self.facts.images
        size = self.facts.size
        texts = sum(map(len, self.captions.train.captions))
        long = sum(len(text) > self.facts.longest for each in self.numbers for text in each)
        cut = f" ({long:,} cut to their first {self.facts.longest} words)" if long else ""
        skipped = f", {len(self.facts.skipped)} left out" if self.facts.skipped else ""
        return (
            f"{self.name}: {train:,} images to train on with {texts:,} captions{cut}, "
            f"{validation:,} to choose by, {test:,} to test, {len(self.facts.words):,} words, "
            f"{size} × {size} pixels{skipped}"
        )


def read(config: CaptionConfig) -> CaptionData:
    """The images and captions a configuration names, at the size its encoder wants."""
    size = SIZE if config.encoder == IMAGENET else config.model.encoder.image
    if config.data == SCENES:
        found = scene_set(config.scenes, size=size)  # a folder of that name is ./scenes
    else:
        found = read_captions(config.data, skip_bad=config.skip_bad)
        found = at_one_size(found, size, config.skip_bad)
    for name in ("train", "validation"):
        if not len(found[name]):
            raise UserError(f"{found.name} has no image in {name}; training needs some")
    try:
        vocabulary = fit_vocabulary(found.train.texts(), config.vocabulary)
    except ValueError as trouble:
        raise UserError(f"{found.name}: {trouble}") from None
    longest = config.model.length - 2  # its start and its end have places too
    mean, deviation = statistics(found.train.images)
    return CaptionData(
        found,
        Facts(
            data=found.name,
            digest=found.digest,
            size=size,
            channels=3,
            mean=mean,
            deviation=deviation,
            images=(len(found.train), len(found.validation), len(found.test)),
            skipped=found.skipped,
            vocabulary=vocabulary.to_text(),
            longest=longest,
        ),
        drawn=config.data == SCENES,
    )


def at_one_size(found: CaptionSet, size: int, skip_bad: bool) -> CaptionSet:
    try:
        return captions_at_size(found, size, skip_bad=skip_bad)
    except UserError as trouble:
        if skip_bad:
            raise
        raise UserError(f"{trouble}; --skip-bad leaves out what cannot be read") from None


@dataclass(frozen=True)
class CaptionBatch:
    """Images or their features, and the numbers of the captions of each, start and end included."""

    seen: UInt8[Tensor, "b k y x"] | Float[Tensor, "b m width"]
    words: Int64[Tensor, "r n"]
    seed: int
    generator: torch.Generator | None = None  # of a recorded step, which seeds it itself

    def numbers(self) -> torch.Generator:
        """Random numbers, the same each time for the same seed."""
        return self.generator or seeded(self.seed, self.seen.device)


class CaptionBatches:
    """Training images, each with some of its captions, in an order that seed and epoch decide.

    Images whose captions are about as long come together, so that little is padding; the images
    left over when an epoch does not split evenly sit it out.
    """

    def __init__(self, config: CaptionConfig, data: CaptionData, device: torch.device) -> None:
        self.data, self.device, self.seed = data, device, config.train.seed
        self.count = len(data.captions.train)
        self.batch, self.texts = min(config.batch, self.count), config.texts
        images = data.captions.train.images
        self.kept: KeptFeatures | None = None
        self.pixels: UInt8[Tensor, "n k y x"] | None = None
        if config.kept:
            self.kept = kept_features(
                images, device, mirrored=config.augment.flip, depth=config.depth
            )
        else:
            self.pixels = resident(images, device)

    def __len__(self) -> int:
        return self.count // self.batch

    def epoch(self, number: int, start: int) -> Iterator[CaptionBatch]:
        draw = np.random.default_rng([self.seed, number])
        chosen = self.choose(draw)
        groups = self.group(draw, chosen)
        mirrored = draw.random(self.count) < 0.5
        seeds = batch_seeds(self.seed, number, len(self))
        for rows, seed in islice(zip(groups, seeds, strict=True), start, None):
            lines = [chosen[row][at] for row in rows for at in range(self.texts)]
            yield CaptionBatch(self.see(rows, mirrored[rows]), self.padded(lines), seed)

    def choose(self, draw: np.random.Generator) -> list[list[list[int]]]:
        """So many captions of each image, none twice before all were taken; the long are cut."""
        picked, longest = [], self.data.facts.longest
        for texts in self.data.numbers:
            order = [int(at) for at in draw.permutation(len(texts))]
            picked.append([texts[order[at % len(order)]][:longest] for at in range(self.texts)])
        return picked

    def group(
        self, draw: np.random.Generator, chosen: list[list[list[int]]]
    ) -> list[Int64[np.ndarray, "b"]]:
        """Rows in batches: sorted by length within pools, then the batches in any order."""
        order = draw.permutation(self.count)[: len(self) * self.batch]
        lengths = np.array([max(map(len, texts)) for texts in chosen])
        groups = []
        for first in range(0, len(order), POOL * self.batch):
            pool = order[first : first + POOL * self.batch]
            pool = pool[np.argsort(lengths[pool], kind="stable")]
            groups += [pool[at : at + self.batch] for at in range(0, len(pool), self.batch)]
        return [groups[at] for at in draw.permutation(len(groups))]

    def padded(self, lines: list[list[int]]) -> Int64[Tensor, "r n"]:
        return self.lined(lines, self.data.facts).to(self.device, non_blocking=True)

    @staticmethod
    def lined(lines: list[list[int]], facts: Facts) -> Int64[Tensor, "r n"]:
        """Captions from start to end, one under the other, padded to one length."""
        words, n = facts.words, 1 + max(map(len, lines))
        n = 1 + min(-(-n // ROUND) * ROUND, facts.longest + 1)  # a model is given all but the last
        out = np.full((len(lines), n), words.padding, np.int64)
        for row, line in enumerate(lines):
            out[row, : len(line) + 2] = [words.start, *line, words.end]
        return torch.from_numpy(out)

    def see(self, rows: Int64[np.ndarray, "b"], mirrored: np.ndarray) -> Tensor:
        if self.kept is not None:
            return self.kept.take(rows, mirrored, self.device)
        if self.pixels is not None:
            return self.pixels[torch.from_numpy(rows).to(self.device)]
        images = self.data.captions.train.images
        return torch.from_numpy(images.take(rows)).to(self.device, non_blocking=True)


Source = Callable[[slice], Tensor]


def source_of(config: CaptionConfig, facts: Facts, images: Images, device: torch.device) -> Source:
    """A function from rows of a split to what the model takes: images made ready, or features."""
    if config.kept:
        kept = kept_features(images, device, mirrored=False, depth=config.depth)
        return lambda rows: kept.take(
            np.arange(rows.start, rows.stop), np.zeros(rows.stop - rows.start, bool), device
        ).float()
    pixels = placed(images, device)
    ready = inputs_of(config, facts)
    return lambda rows: ready(pixels(rows).float() / 255)


def inputs_of(config: CaptionConfig, facts: Facts) -> Callable[[Tensor], Tensor]:
    """How pixels in 0 … 1 become the encoder's numbers."""
    if config.encoder == IMAGENET:
        return imagenet_inputs
    return facts.normalised


def part_of(data: CaptionData, split: str) -> CaptionSplit:
    """The images of a split with their captions."""
    if split not in SPLITS:
        raise UserError(f"no split {split!r}; there are {', '.join(SPLITS)}")
    part = data.captions[split]
    if not len(part):
        raise UserError(f"{data.name} has no image in {split}")
    return part
