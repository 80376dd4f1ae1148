"""Documents as sentences in tokens, and runs of their sentences as texts to read.

    documents = in_documents(sentences.documents(corpus.train), words, room=125, together=2)
    single_rows(documents, 125, draw)       # texts that fill 125 tokens with whole sentences
    next_rows(documents, 125, draw)         # pairs: half of them follow one another, half do not

All sentences lie in one array, document after document, so that a run of them is a slice of it and
new texts are drawn for every epoch without moving a token. A sentence that is longer than the room
lies there in pieces, or else only its beginning would ever be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Int64

from regard.data.batching import Rows
from regard.data.lines import Lines, lined
from regard.data.tokenizer import Vocabulary

FAR = 50  # sentences between a text and what does not follow it, if both are of one document
TRIES = 30  # places that are looked at for a text that does not follow


@dataclass(frozen=True, eq=False)
class Documents:
    """Sentences, or pieces of long ones, in tokens, and the document that each is of."""

    lines: Lines
    owner: Int64[np.ndarray, "sentences"]
    cut: int = 0  # sentences that lie in pieces
    pieces: int = 0  # of these

    @property
    def sentences(self) -> int:
        """How many sentences there are, pieces of one counted once."""
        return len(self.lines) - self.pieces + self.cut

    @property
    def count(self) -> int:
        """How many documents there are."""
        return int(self.owner[-1]) + 1 if len(self.owner) else 0

    @property
    def tokens(self) -> int:
        return len(self.lines.numbers)

    @cached_property
    def ends(self) -> Int64[np.ndarray, "sentences"]:
        """The sentence behind the last of each one's document."""
        return np.searchsorted(self.owner, self.owner, side="right")

    def alone(self, room: int) -> float:
        """The share of the tokens that fit into the room with no sentence beside their own."""
        lengths = self.lines.lengths
        fits = np.zeros(len(lengths), bool)
        beside = (self.owner[1:] == self.owner[:-1]) & (lengths[1:] + lengths[:-1] <= room)
        fits[1:] |= beside
        fits[:-1] |= beside
        return float(lengths[~fits].sum() / max(1, self.tokens))


def in_documents(
    found: Iterable[Sequence[str]], words: Vocabulary, room: int | None = None, together: int = 1
) -> Documents:
    """Every sentence cut into tokens; one without any is left out, and so is an empty document.

    Each has a space before it, as it stands in running text: byte pairs know words by that. One of
    more tokens than there is `room` for is cut into pieces, of which so many fit there `together`.
    """
    sentences: list[Sequence[int]] = []
    owner: list[int] = []
    number = cut = pieces = 0
    for document in found:
        before = len(sentences)
        for tokens in (words.encode(f" {sentence}") for sentence in document):
            if room is None or len(tokens) <= room:
                sentences += [tokens] if tokens else []
            else:
                some = in_pieces(tokens, room // together)
                sentences += some
                cut, pieces = cut + 1, pieces + len(some)
        owner += [number] * (len(sentences) - before)
        number += len(sentences) > before
    return Documents(lined(sentences), np.array(owner, np.int64), cut, pieces)


def in_pieces(tokens: Sequence[int], most: int) -> list[Sequence[int]]:
    """All of a sentence in as few pieces as can be, of about one length, at most so long each."""
    count = -(-len(tokens) // most)
    ends = [len(tokens) * at // count for at in range(count + 1)]
    return [tokens[start:end] for start, end in pairwise(ends)]


def single_rows(documents: Documents, room: int, draw: np.random.Generator) -> Rows:
    """Texts of whole sentences of one document, as many as there is room for."""
    first = [slice_of(documents, run, room) for run in runs(documents, room, draw)]
    return Rows(documents.lines.numbers, as_slices(first))


def next_rows(
    documents: Documents, room: int, draw: np.random.Generator
) -> tuple[Rows, Bool[np.ndarray, "rows"]]:
    """Pairs of texts, and whether the second follows the first: yes and no in turn.

    A run of sentences is cut in two where one of them ends. Of every other pair, the second text
    is exchanged for one about as long from another document, or, where there is only one, from a
    place far away. A run of one sentence has no pair.
    """
    first: list[tuple[int, int]] = []
    second: list[tuple[int, int]] = []
    for run in runs(documents, room, draw):
        if len(run) < 2:
            continue
        cut = int(draw.integers(1, len(run)))
        head, tail = (slice_of(documents, part, room) for part in (run[:cut], run[cut:]))
        if len(first) % 2:
            other = elsewhere(documents, run, tail[1], room - head[1], draw)
            if other is None:
                continue
            tail = slice_of(documents, other, room)
        first.append(head)
        second.append(tail)
    count = len(first) // 2 * 2  # the last may have no counterpart
    rows = Rows(documents.lines.numbers, as_slices(first[:count]), as_slices(second[:count]))
    return rows, np.arange(count) % 2 == 0


def runs(documents: Documents, room: int, draw: np.random.Generator) -> Iterator[range]:
    """Sentences of one document that fit together, from its beginning to its end.

    The first run of each document is cut short by chance, so that other sentences come together
    in another epoch. A sentence that is too long by itself, as it was not cut into pieces, is a
    run of its own.
    """
    lengths, owner = documents.lines.lengths.tolist(), documents.owner.tolist()
    start, held, limit = 0, 0, room
    for at, (length, whose) in enumerate(zip(lengths, owner, strict=True)):
        begins = at == 0 or owner[at - 1] != whose
        if at > start and (begins or held + length > limit):
            yield range(start, at)
            start, held, limit = at, 0, room
        if begins:
            limit = int(draw.integers(room // 4, room + 1))
        held += length
    if start < len(lengths):
        yield range(start, len(lengths))


def elsewhere(
    documents: Documents, run: range, length: int, room: int, draw: np.random.Generator
) -> range | None:
    """Sentences that do not follow a run, of about so many tokens, if some are found that fit.

    Of several places, the one is taken where whole sentences come nearest to that length: were
    texts that do not follow any shorter than those that do, their length would tell.
    """
    starts, total = documents.lines.starts, len(documents.owner)
    at = draw.integers(total, size=TRIES)
    over = np.minimum(np.searchsorted(starts, starts[at] + length), documents.ends[at])
    at, stop = np.tile(at, 2), np.concatenate((over, over - 1))
    held = starts[stop] - starts[at]
    if documents.count > 1:
        apart = documents.owner[at] != documents.owner[run.start]
    else:
        far = min(FAR, total // 4)
        apart = (at >= run.stop + far) | (stop <= run.start - far)
    off = np.where((stop > at) & (held <= room) & apart, abs(held - length), room + 1)
    best = int(off.argmin())
    return range(int(at[best]), int(stop[best])) if off[best] <= room else None


def slice_of(documents: Documents, run: range, room: int) -> tuple[int, int]:
    """Where the tokens of a run begin, and how many of them there is room for."""
    starts = documents.lines.starts
    begin, end = int(starts[run.start]), int(starts[run.stop])
    return begin, min(end - begin, room)


def as_slices(found: Sequence[tuple[int, int]]) -> Int64[np.ndarray, "rows 2"]:
    return np.array(found, np.int64).reshape(-1, 2)
