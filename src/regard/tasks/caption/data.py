"""Images and their captions on the way to the model: read, numbered, and cut into batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Int64, UInt8
from torch import Tensor

from regard.config import change
from regard.data.augment import seeded
from regard.data.byte_pairs import BytePairVocabulary
from regard.data.captions import CaptionSet, CaptionSplit, captions_at_size, read_captions
from regard.data.images import SPLITS, Images
from regard.data.synthetic.scene_set import scene_set
from regard.data.tokenizer import fit_vocabulary, from_text
from regard.data.words import WordVocabulary
from regard.errors import UserError
from regard.run_folder import RunFolder
from regard.tasks.caption.config import IMAGENET, OWN, CaptionConfig
from regard.tasks.caption.features import SIZE, KeptFeatures, imagenet_inputs, kept_features
from regard.tasks.image_data import ImageMetadata, batch_seeds, placed, resident, statistics

SCENES = "scenes"
POOL = 16  # batches whose images are sorted by the length of their captions
ROUND = 4  # captions of a batch are padded to a multiple of this, so that few shapes occur

Words = WordVocabulary | BytePairVocabulary


@dataclass(frozen=True, kw_only=True)
class Metadata(ImageMetadata):
    """What a run must know of its data to be used without them."""

    vocabulary: str  # as its `to_text` gives it
    longest: int  # words of the longest caption that is learnt

    @property
    def words(self) -> Words:
        found = from_text(self.vocabulary)
        assert isinstance(found, Words)  # its configuration allows no other
        return found


@dataclass(frozen=True, eq=False)
class CaptionData:
    """A set of captioned images at the size of the encoder, and its facts."""

    captions: CaptionSet
    metadata: Metadata
    drawn: bool = False  # whether these are scenes, of which it is known what is true
    own: bool = True  # whether its training captions are those that the model learnt

    @property
    def name(self) -> str:
        return self.captions.name

    @cached_property
    def numbers(self) -> list[list[list[int]]]:
        """The training captions as numbers, image by image, however long."""
        words = self.metadata.words
        return [[words.encode(text) for text in texts] for texts in self.captions.train.captions]

    def words(self) -> str:
        """One line: what there is."""
        train, validation, test = self.metadata.images
        texts = sum(map(len, self.captions.train.captions))
        long = sum(len(text) > self.metadata.longest for each in self.numbers for text in each)
        cut = f" ({long:,} cut to their first {self.metadata.longest} words)" if long else ""
        skipped = f", {len(self.metadata.skipped)} left out" if self.metadata.skipped else ""
        words = len(self.metadata.words)
        return (
            f"{self.name}: {train:,} images to train on with {texts:,} captions{cut}, "
            f"{validation:,} for validation, {test:,} to test; {words:,} words{skipped}"
        )


def read(config: CaptionConfig) -> CaptionData:
    """The images and captions a configuration names, at the size its encoder wants."""
    found = captioned(config)
    for name in ("train", "validation"):
        if not len(found[name]):
            raise UserError(f"{found.name} has no image in {name}; training needs some")
    try:
        vocabulary = fit_vocabulary(found.train.texts(), config.tokenizer)
    except ValueError as trouble:
        raise UserError(f"{found.name}: {trouble}") from None
    longest = config.model.context_length - 2  # its start and its end have places too
    mean, deviation = scale_for(config, found.train.images)
    return CaptionData(
        found,
        Metadata(
            data=found.name,
            digest=found.digest,
            size=size_for(config),
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


def read_other(config: CaptionConfig, facts: Metadata, name: str) -> CaptionData:
    """Data that a run was not trained on; its words and its pixels stay as it knows them."""
    config = change(config, {"data": name})
    found = captioned(config)
    counts = (len(found.train), len(found.validation), len(found.test))
    theirs = replace(
        facts, data=found.name, digest=found.digest, images=counts, skipped=found.skipped
    )
    return CaptionData(found, theirs, drawn=config.data == SCENES, own=False)


def captioned(config: CaptionConfig) -> CaptionSet:
    """Images at the size of the encoder, with their captions."""
    size = size_for(config)
    if config.data == SCENES:
        return scene_set(config.num_scenes, size=size)  # a folder of that name is ./scenes
    found = read_captions(config.data, skip_bad=config.skip_invalid)
    return at_one_size(found, size, config.skip_invalid)


def size_for(config: CaptionConfig) -> int:
    return SIZE if config.encoder == IMAGENET else config.model.encoder.image_size


def scale_for(config: CaptionConfig, images: Images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and deviation by which pixels are scaled: those that a trained encoder learnt with."""
    if config.encoder not in (OWN, IMAGENET) and Path(config.encoder).is_dir():
        with suppress(UserError):  # what is no run is refused where its model is asked for
            theirs = RunFolder.open(Path(config.encoder)).read_facts("data") or {}
            if len(theirs.get("mean", ())) == 3:
                return tuple(theirs["mean"]), tuple(theirs["deviation"])
    return statistics(images)


def at_one_size(found: CaptionSet, size: int, skip_bad: bool) -> CaptionSet:
    try:
        return captions_at_size(found, size, skip_bad=skip_bad)
    except UserError as trouble:
        if skip_bad:
            raise
        raise trouble.reworded(
            f"{trouble}; --skip-invalid leaves out what cannot be read"
        ) from None


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
    left over when an epoch does not split evenly sit it out. Whatever fits lies on the device, and
    so does the order of an epoch: a copy for each batch would keep a GPU waiting.
    """

    def __init__(self, config: CaptionConfig, data: CaptionData, device: torch.device) -> None:
        self.data, self.device, self.seed = data, device, config.train.seed
        self.count = len(data.captions.train)
        self.batch, self.texts = min(config.batch_size, self.count), config.captions_per_image
        longest = data.metadata.longest
        lines = [text[:longest] for texts in data.numbers for text in texts]
        self.lengths = np.array([len(line) for line in lines])
        self.lines = lined(lines, data.metadata, np.int32).to(device)
        self.counts = np.array([len(texts) for texts in data.numbers])
        self.firsts = self.counts.cumsum() - self.counts
        images = data.captions.train.images
        self.kept: KeptFeatures | None = None
        self.pixels: UInt8[Tensor, "n k y x"] | None = None
        if config.kept:
            self.kept = kept_features(
                images, device, mirrored=config.augment.hflip, depth=config.feature_stage
            )
        else:
            self.pixels = resident(images, device)

    def __len__(self) -> int:
        return self.count // self.batch

    def epoch(self, number: int, start: int) -> Iterator[CaptionBatch]:
        draw = np.random.default_rng([self.seed, number])
        chosen = self.choose(draw)
        rows = self.group(draw, chosen)
        mirrored = (draw.random(self.count) < 0.5)[rows]
        texts = chosen[rows].reshape(len(rows), -1)
        widths = width_of(self.lengths[texts].max(1), self.data.metadata)
        there = [torch.from_numpy(part).to(self.device) for part in (rows, mirrored, texts)]
        seeds = batch_seeds(self.seed, number, len(self))
        for at in range(start, len(self)):
            rows_there, mirrored_there, texts_there = (part[at] for part in there)
            if self.kept is not None and self.kept.resident:
                seen = self.kept.pick(rows_there, mirrored_there)
            elif self.kept is not None:
                seen = self.kept.take(rows[at], mirrored[at], self.device)
            elif self.pixels is not None:
                seen = self.pixels.index_select(0, rows_there)
            else:
                pixels = torch.from_numpy(self.data.captions.train.images.take(rows[at]))
                seen = pixels.to(self.device, non_blocking=True)
            words = self.lines.index_select(0, texts_there)[:, : widths[at]].long()
            yield CaptionBatch(seen, words, seeds[at])

    def choose(self, draw: np.random.Generator) -> Int64[np.ndarray, "n texts"]:
        """So many captions of each image, none twice before all were taken."""
        image = np.repeat(np.arange(self.count), self.counts)
        order = np.lexsort((draw.random(len(image)), image))  # each image's own, in any order
        return order[self.firsts[:, None] + np.arange(self.texts) % self.counts[:, None]]

    def group(
        self, draw: np.random.Generator, chosen: Int64[np.ndarray, "n texts"]
    ) -> Int64[np.ndarray, "batches b"]:
        """Rows in batches: sorted by length within pools, then the batches in any order."""
        order = draw.permutation(self.count)[: len(self) * self.batch]
        lengths = self.lengths[chosen].max(1)
        for first in range(0, len(order), POOL * self.batch):
            pool = order[first : first + POOL * self.batch]
            pool[:] = pool[np.argsort(lengths[pool], kind="stable")]
        return order.reshape(len(self), self.batch)[draw.permutation(len(self))]


def lined(lines: list[list[int]], facts: Metadata, kind: type = np.int64) -> Int[Tensor, "r n"]:
    """Captions from start to end, one under the other, padded to one length."""
    words = facts.words
    start, end, n = words.start, words.end, int(width_of(max(map(len, lines)), facts))
    out: np.ndarray = np.full((len(lines), n), words.padding, kind)
    for row, line in enumerate(lines):
        out[row, : len(line) + 2] = [start, *line, end]
    return torch.from_numpy(out)


def width_of(longest: Any, facts: Metadata) -> Any:
    """What captions of so many words at most are padded to, start and end included."""
    n = -(-(longest + 1) // ROUND) * ROUND  # a model is given all but the last
    return 1 + np.minimum(n, facts.longest + 1)


Source = Callable[[slice], Tensor]


def source_of(
    config: CaptionConfig, facts: Metadata, images: Images, device: torch.device
) -> Source:
    """A function from rows of a split to what the model takes: images made ready, or features."""
    if config.kept:
        kept = kept_features(images, device, mirrored=False, depth=config.feature_stage)
        return lambda rows: kept.rows(rows, device).float()
    pixels = placed(images, device)
    ready = inputs_of(config, facts)
    return lambda rows: ready(pixels(rows).float() / 255)


def inputs_of(config: CaptionConfig, facts: Metadata) -> Callable[[Tensor], Tensor]:
    """How pixels in 0 … 1 become the encoder's numbers."""
    if config.encoder == IMAGENET:
        return imagenet_inputs
    return facts.normalised


def part_of(data: CaptionData, split: str) -> CaptionSplit:
    """The images of a split, or all there are, with their captions."""
    if split not in (*SPLITS, "all"):
        raise UserError(f"no split {split!r}; there are {', '.join(SPLITS)} and all")
    if split == "all" and data.drawn:
        raise UserError("scenes are numbered within their splits: say --split test, or another")
    part = data.captions.whole() if split == "all" else data.captions[split]
    if not len(part):
        raise UserError(f"{data.name} has no image in {split}")
    return part
