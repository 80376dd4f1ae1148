"""Pairs of sentences as numbers, and as batches in which little is padding.

tokens = in_tokens(pairs, words)             # flat arrays: sources to their end, targets too
order = by_length(tokens.sizes)              # from short to long
starts = cut(tokens.sizes[order], 4096)      # where batches of at most so many tokens begin
pick = Picker(tokens, words.padding, device)
batch = pick(rows, tokens.sizes[order[starts[0] : starts[1]]])
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.lines import Lines, LineWriter
from regard.data.pairs import Pairs
from regard.data.tokenizer import Vocabulary

BLOCK = 2**16  # sizes that are Python numbers at a time


@dataclass(frozen=True, eq=False)
class Tokens:
    """Pairs as numbers: sources up to their end, targets from their start to their end."""

    source: Lines
    target: Lines

    def __len__(self) -> int:
        return len(self.source)

    @property
    def sizes(self) -> Int64[np.ndarray, "pairs sides"]:
        """Of each pair, what the model reads of the source and of the target."""
        # Of a target it never reads the end, which is there to be written.
        return np.stack((self.source.lengths, self.target.lengths - 1), 1)

    @property
    def longer(self) -> Int64[np.ndarray, "pairs"]:
        """Tokens of the longer side, neither start nor end counted."""
        return self.sizes.max(1) - 1

    def only(self, rows: Int64[np.ndarray, "some"]) -> Tokens:
        """Some of the pairs."""
        return Tokens(self.source.only(rows), self.target.only(rows))


def in_tokens(pairs: Pairs, words: Vocabulary, longest: int | None = None) -> Tokens:
    """The pairs of which neither sentence has more than so many tokens, start and end aside."""
    source, target = LineWriter(), LineWriter()
    for one, other in zip(pairs.source, pairs.target, strict=True):
        ours, theirs = words.encode(one), words.encode(other)
        if longest is None or max(len(ours), len(theirs)) <= longest:
            source.add([*ours, words.end])
            target.add([words.start, *theirs, words.end])
    return Tokens(source.done(), target.done())


@dataclass(frozen=True)
class PairBatch:
    """Sources, what was written of their translations, and what comes next at each real place."""

    source: Int64[Tensor, "b m"]
    positions: Int64[Tensor, "b m"] | None  # −1 is padding; None where there is none
    words: Int64[Tensor, "b n"]
    real: Int64[Tensor, "t"]  # places of `words`, row after row, that are no padding
    targets: Int64[Tensor, "t"]  # the word after each of those
    seed: int = 0
    generator: torch.Generator | None = None  # of a recorded step, which seeds it itself


class Picker:
    """Makes a batch of any rows where the tokens lie: on the device, or in another `home`."""

    def __init__(
        self,
        tokens: Tokens,
        padding: int,
        device: torch.device,
        home: torch.device | None = None,
    ) -> None:
        self.padding, self.device = padding, device
        self.home = device if home is None else home
        lines = (tokens.source, tokens.target)
        self.numbers = [torch.from_numpy(each.numbers).to(self.home) for each in lines]
        self.firsts = [torch.from_numpy(each.starts[:-1]).to(self.home) for each in lines]
        self.counts = torch.from_numpy(tokens.sizes.T.copy()).to(self.home)

    def __call__(
        self,
        rows: Int64[Tensor, "b"],
        sizes: Int64[np.ndarray, "b sides"],
        seed: int = 0,
    ) -> PairBatch:
        """A batch of these rows; the host knows their sizes, and so asks the device nothing."""
        (m, n), total = sizes.max(0).tolist(), int(sizes[:, 1].sum())
        source, where = self.side(0, rows, m)
        words, _ = self.side(1, rows, n)
        counts = self.counts[1][rows]
        # Of the t-th real place: how far its row's first place, or first word, is from t.
        before = counts.cumsum(0) - counts
        row = torch.arange(len(rows), device=self.home).repeat_interleave(counts, output_size=total)
        t = torch.arange(total, device=self.home) - before[row]
        targets = self.numbers[1][self.firsts[1][rows][row] + t + 1].long()
        batch = (source, words, row * n + t, targets)
        source, words, real, targets = (each.to(self.device, non_blocking=True) for each in batch)
        positions = None
        if int(sizes[:, 0].min()) < m:
            positions = where.to(self.device, non_blocking=True)
        return PairBatch(source, positions, words, real, targets, seed)

    def side(
        self, side: int, rows: Int64[Tensor, "b"], width: int
    ) -> tuple[Int64[Tensor, "b width"], Int64[Tensor, "b width"]]:
        """The words of some rows padded to a width, and where each is."""
        within = torch.arange(width, device=self.home)
        outside = within >= self.counts[side][rows][:, None]
        place = within.expand(len(rows), -1).masked_fill(outside, 0)
        words = self.numbers[side][self.firsts[side][rows][:, None] + place].long()
        return words.masked_fill(outside, self.padding), place.masked_fill(outside, -1)


def by_length(
    sizes: Int64[np.ndarray, "pairs sides"], draw: np.random.Generator | None = None
) -> Int64[np.ndarray, "pairs"]:
    """Rows from short to long, those of equal sizes in an order that is drawn."""
    ties = np.arange(len(sizes)) if draw is None else draw.permutation(len(sizes))
    source, target = sizes.T
    return np.lexsort((ties, target, source, sizes.max(1)))


def cut(sizes: Int64[np.ndarray, "pairs sides"], batch: int) -> Int64[np.ndarray, "batches_and_1"]:
    """Where batches begin and end: rows × (longest source + longest target) ≤ `batch`.

    A pair that alone is larger is a batch by itself.
    """
    starts, first, m, n = [0], 0, 0, 0
    blocks = (sizes[at : at + BLOCK].tolist() for at in range(0, len(sizes), BLOCK))
    for row, (source, target) in enumerate(chain.from_iterable(blocks)):
        m, n = max(m, source), max(n, target)
        if row > first and (row + 1 - first) * (m + n) > batch:
            starts.append(row)
            first, m, n = row, source, target
    return np.array([*starts, len(sizes)])


def padding(
    sizes: Int64[np.ndarray, "pairs sides"], starts: Int64[np.ndarray, "batches_and_1"]
) -> float:
    """The share of padding among the tokens of all batches."""
    widths = np.maximum.reduceat(sizes, starts[:-1]).sum(1)
    return 1 - float(sizes.sum() / (widths * np.diff(starts)).sum())
