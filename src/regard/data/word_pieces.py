"""Texts as the numbers of word pieces, read from a published file such as BERT's vocab.txt.

    vocabulary = read_wordpieces("vocab.txt")
    [vocabulary.entry(n) for n in vocabulary.encode("unhappily")]      # perhaps un ##happi ##ly

Nothing is fitted, and the file's numbers are kept: special entries may stand anywhere, so ask for
`vocabulary.start` or `vocabulary.special("mask")` and never for the first few. The tokenizers
library cuts texts, and is not imported before it is needed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from regard.data.blocks import in_blocks
from regard.data.entries import SPECIALS, check_number, check_specials, number_kind, valid_text
from regard.errors import DataIssue

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

INSIDE = "##"  # before a piece that does not begin its word
LONGEST_WORD = 100  # letters; a longer one is unknown
PUBLISHED = {  # what BERT's files call the special entries
    "padding": "[PAD]",
    "start": "[CLS]",
    "end": "[SEP]",
    "unknown": "[UNK]",
    "mask": "[MASK]",
}


def longest_pieces(word: str, known: Container[str]) -> list[str]:
    """WordPiece, plainly: again and again the longest piece that the rest of a word begins with.

    A piece that does not begin its word is written with ## before it. A word of which some part is
    no piece is unknown as a whole. `WordPieceVocabulary.encode` does the same by the library.
    """
    pieces: list[str] = []
    start = 0
    while start < len(word):
        before = INSIDE if start else ""
        ends = range(len(word), start, -1)
        end = next((end for end in ends if before + word[start:end] in known), None)
        if end is None or len(word) > LONGEST_WORD:
            return [PUBLISHED["unknown"]]
        pieces.append(before + word[start:end])
        start = end
    return pieces


def read_wordpieces(path: str | Path, *, lower: bool = True) -> WordPieceVocabulary:
    """A vocabulary from a file such as BERT's vocab.txt, which has an entry a line, in order.

    `lower` says whether the model was trained on texts without capitals and accents.
    """
    path = Path(path)
    try:
        # Only \n ends a line here: other signs that Python splits at are entries themselves.
        lines = path.read_bytes().decode("utf-8").replace("\r\n", "\n").split("\n")
    except OSError as trouble:
        raise DataIssue(
            f"{path} cannot be read: {trouble.strerror}", path, kind="unreadable"
        ) from None
    except UnicodeDecodeError as wrong:
        raise DataIssue(
            f"{path} is no UTF-8 text: see byte {wrong.start}", path, kind="encoding"
        ) from None
    if not lines[-1]:
        lines.pop()
    specials = tuple(name for name, spelt in PUBLISHED.items() if spelt in set(lines))
    try:
        return WordPieceVocabulary(specials, tuple(lines), lower)
    except ValueError as wrong:
        raise DataIssue(
            f"{path} is no vocabulary of word pieces: {wrong}", path, kind="format"
        ) from None


@dataclass(frozen=True)
class WordPieceVocabulary:
    """Words and parts of words under the numbers that they were published with, as BERT has them.

    `pieces` has every entry by its number, the special ones among them, as `[CLS]` and the like.
    With `lower`, texts are read without capitals and accents. What comes back has a space between
    any two words or punctuation marks.
    """

    specials: tuple[str, ...]
    pieces: tuple[str, ...]
    lower: bool = True

    def __post_init__(self) -> None:
        check_specials(self.specials, (*SPECIALS, "unknown"))
        numbers = self._numbers
        if len(numbers) < len(self.pieces):
            twice, n = Counter(self.pieces).most_common(1)[0]
            raise ValueError(f"the piece {twice!r} is there {n} times")
        if "" in numbers:
            raise ValueError(f"entry {numbers['']} is empty")
        for name in self.specials:
            if name not in PUBLISHED:
                raise ValueError(f"no special entry {name!r}; there may be {', '.join(PUBLISHED)}")
            if PUBLISHED[name] not in numbers:
                raise ValueError(f"no entry is {PUBLISHED[name]!r}, which stands for {name}")

    @property
    def padding(self) -> int:
        return self.special("padding")

    @property
    def start(self) -> int:
        return self.special("start")

    @property
    def end(self) -> int:
        return self.special("end")

    @property
    def unknown(self) -> int:
        return self.special("unknown")

    def special(self, name: str) -> int:
        if name not in self.specials:
            raise ValueError(f"no special entry {name!r}; there are {', '.join(self.specials)}")
        return self._numbers[PUBLISHED[name]]

    def __len__(self) -> int:
        return len(self.pieces)

    def encode(self, text: str) -> list[int]:
        tokenizer = self._tokenizer
        return [n for block in in_blocks(valid_text(text)) for n in tokenizer.encode(block).ids]

    def encode_array(self, text: str) -> np.ndarray:
        import numpy as np

        tokenizer, kind = self._tokenizer, number_kind(len(self))
        blocks = in_blocks(valid_text(text))
        return np.concatenate([np.array(tokenizer.encode(block).ids, kind) for block in blocks])

    def decode(self, numbers: Iterable[int]) -> str:
        silent = {self.special(name) for name in self.specials} - {self.unknown}
        text = " ".join(self.entry(number) for number in numbers if number not in silent)
        return text.replace(f" {INSIDE}", "").removeprefix(INSIDE)

    def entry(self, number: int) -> str:
        check_number(number, len(self))
        return self._shown.get(number) or self.pieces[number]

    def to_text(self) -> str:
        kept = {"kind": "wordpiece", "specials": self.specials, "pieces": self.pieces}
        return json.dumps(kept | {"lower": self.lower})

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self.pieces)}

    @cached_property
    def _shown(self) -> dict[int, str]:
        return {self.special(name): f"<{name}>" for name in self.specials}

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

        # The library is told of no special entries: a text that says "[SEP]" is spelt like any
        # other, as punctuation is cut off before pieces are looked for.
        tokenizer = Tokenizer(
            models.WordPiece(
                vocab=self._numbers,
                unk_token=PUBLISHED["unknown"],
                max_input_chars_per_word=LONGEST_WORD,
                continuing_subword_prefix=INSIDE,
            )
        )
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=self.lower)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return tokenizer
