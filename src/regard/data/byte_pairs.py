"""Texts as the numbers of byte pairs: frequent words are one entry, and any text can be spelt.

    vocabulary = fit_byte_pairs(texts, floor=2, size=10_000)
    vocabulary.decode(vocabulary.encode("To be,\\n")) == "To be,\\n"      # every byte comes back

A text is cut before each word, and within a word neighbours that were often seen together are
joined (Sennrich et al. 2016, over bytes). The tokenizers library does both, and is not imported
before it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from regard.data.blocks import in_blocks
from regard.data.entries import (
    BYTES,
    SPECIALS,
    Entries,
    check_bytes_fit,
    check_number,
    check_specials,
    number_kind,
    valid_text,
)

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer


def join_neighbours(text: bytes, ranks: Mapping[tuple[bytes, bytes], int]) -> list[bytes]:
    """Byte-pair encoding, plainly: of all neighbours join those learnt first, until none are left.

    `BytePairVocabulary.encode` does the same within each word, by the tokenizers library.
    """
    pieces = [text[at : at + 1] for at in range(len(text))]
    while known := [(ranks[pair], at) for at, pair in enumerate(pairwise(pieces)) if pair in ranks]:
        _, at = min(known)
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
    return pieces


def fit_byte_pairs(
    texts: Iterable[str],
    *,
    floor: int,
    size: int,
    extra: Sequence[str] = (),
    digits: bool = False,
    lower: bool = False,
) -> BytePairVocabulary:
    """All bytes, and then, again and again, the pair of neighbours that occurs most often."""
    from tokenizers import pre_tokenizers, trainers

    specials = (*SPECIALS, *extra)
    check_bytes_fit(size, specials)
    learner = new_tokenizer({}, [], digits)
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(specials),
        min_frequency=floor,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    # In blocks, as the library needs many times the room of what it is given at once.
    blocks = (block for text in texts for block in in_blocks(cased(valid_text(text), lower)))
    learner.train_from_iterator(blocks, trainer)
    back = {sign: bytes([byte]) for byte, sign in enumerate(signs_of_bytes())}
    numbers = {bytes([byte]): byte for byte in range(BYTES)}
    merges = []
    for pair in json.loads(learner.to_str())["model"]["merges"]:
        a, b = (b"".join(back[sign] for sign in piece) for piece in pair)
        merges.append((numbers[a], numbers[b]))
        numbers.setdefault(a + b, len(numbers))
    return BytePairVocabulary(specials, tuple(merges), digits, lower)


@dataclass(frozen=True)
class BytePairVocabulary(Entries):
    """The 256 bytes, and pieces made by joining two earlier ones; every text comes back exactly.

    A merge is two numbers of pieces, counted without the special entries: below 256 a byte, then
    one more for each merge that made a new piece. With `digits`, a digit is joined to nothing; with
    `lower`, what comes back is the text in lower case.
    """

    merges: tuple[tuple[int, int], ...]
    digits: bool = False
    lower: bool = False

    def __post_init__(self) -> None:
        check_specials(self.specials, SPECIALS)
        if len(set(self.merges)) < len(self.merges):
            raise ValueError("a merge is there twice")
        assert self.pieces  # made now, so that a merge of what is not there is found now

    @cached_property
    def pieces(self) -> tuple[bytes, ...]:
        """The bytes of every entry after the special ones."""
        pieces = {bytes([byte]): byte for byte in range(BYTES)}
        ordered = list(pieces)
        for a, b in self.merges:
            if not (0 <= a < len(ordered) and 0 <= b < len(ordered)):
                raise ValueError(f"merge {a, b} joins what is not among {len(ordered)} pieces")
            joined = ordered[a] + ordered[b]
            if joined not in pieces:  # two merges may spell the same: ab+c and a+bc
                pieces[joined] = len(ordered)
                ordered.append(joined)
        return tuple(ordered)

    def __len__(self) -> int:
        return len(self.specials) + len(self.pieces)

    def encode(self, text: str) -> list[int]:
        tokenizer = self._tokenizer
        blocks = in_blocks(cased(valid_text(text), self.lower))
        return [number for block in blocks for number in tokenizer.encode(block).ids]

    def encode_array(self, text: str) -> np.ndarray:
        import numpy as np

        # Block by block, as one of Python's own numbers takes the room of many of these.
        tokenizer, kind = self._tokenizer, number_kind(len(self))
        blocks = in_blocks(cased(valid_text(text), self.lower))
        return np.concatenate([np.array(tokenizer.encode(block).ids, kind) for block in blocks])

    def decode(self, numbers: Iterable[int]) -> str:
        """Bytes that are no UTF-8, which only a model can write, become �."""
        return b"".join(map(self.spelling, numbers)).decode("utf-8", errors="replace")

    def entry(self, number: int) -> str:
        return self.named(number) or self.spelling(number).decode(errors="backslashreplace")

    def spelling(self, number: int) -> bytes:
        """The bytes that an entry stands for, which may be part of a letter; none if special."""
        check_number(number, len(self))
        shift = len(self.specials)
        return self.pieces[number - shift] if number >= shift else b""

    def to_text(self) -> str:
        # What is not asked for is not said, so that texts of earlier versions stay the same.
        options = {name: True for name in ("digits", "lower") if getattr(self, name)}
        kept = {"kind": "bpe", "specials": self.specials, "merges": self.merges, **options}
        return json.dumps(kept)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        signs = signs_of_bytes()
        shown = ["".join(signs[byte] for byte in piece) for piece in self.pieces]
        # The library counts from the first piece behind our special entries, and knows none of
        # them: a text that says "<start>" is spelt like any other.
        numbers = {piece: number for number, piece in enumerate(shown, len(self.specials))}
        merges = [(shown[a], shown[b]) for a, b in self.merges]
        return new_tokenizer(numbers, merges, self.digits)


def new_tokenizer(
    numbers: dict[str, int], merges: list[tuple[str, str]], digits: bool = False
) -> Tokenizer:
    """Byte pairs within words, each with the space before it; perhaps with each digit apart."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE(vocab=numbers, merges=merges))
    by_words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    apart = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([apart, by_words]) if digits else by_words
    return tokenizer


def cased(text: str, lower: bool) -> str:
    return text.lower() if lower else text


@cache
def signs_of_bytes() -> tuple[str, ...]:
    """The visible sign that stands for each byte inside the tokenizers library.

    Bytes that are visible in Latin-1 stand for themselves, the others for signs from 256 on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return tuple(chr(byte if byte in visible else next(others)) for byte in range(BYTES))
