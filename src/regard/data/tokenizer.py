"""Texts as numbers and back, by words, byte pairs, word pieces, characters or bytes.

    vocabulary = fit_vocabulary(texts, TokenizerConfig(name="word", min_frequency=5))
    numbers = vocabulary.encode("A dog runs.")       # as in "a dog runs ."; no start, no end
    [vocabulary.start, *numbers, vocabulary.end]     # where a model wants them

Every vocabulary that is fitted begins with its special entries, which no text can spell: padding 0,
start 1, end 2, then `unknown` for words and characters, then those asked for by name. Fitting the
same texts gives the same vocabulary on every machine, `to_text` and `from_text` keep it with a run,
and two vocabularies are equal when their entries are. Each kind has a file of its own: `words`,
`byte_pairs`, `letters` for characters and bytes, and `word_pieces`, which are not fitted but read
from a published file. Those keep its numbers, so ask for `vocabulary.start` and never for the first
few entries. No torch here: `--help` reads the configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol, get_args, runtime_checkable

from regard.config import check_kinds
from regard.data.byte_pairs import BytePairVocabulary, fit_byte_pairs
from regard.data.entries import BYTES, SPECIALS, all_of
from regard.data.letters import CharacterVocabulary, RawVocabulary, fit_characters, fit_raw
from regard.data.word_pieces import WordPieceVocabulary
from regard.data.words import WordVocabulary, fit_words
from regard.errors import FieldError

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["word", "bpe", "char", "byte"]
READ = ("wordpiece",)  # kinds that are read from a file, and fitted to no texts
AnyVocabulary = (
    WordVocabulary | BytePairVocabulary | WordPieceVocabulary | CharacterVocabulary | RawVocabulary
)


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """What a text is cut into, and how many kinds of piece there may be."""

    name: Kind = "word"
    """`word`: lower-cased words and punctuation; `bpe`: byte pairs, which can spell any text;
    `char`: characters of the training text, as they are; `byte`: the 256 bytes."""
    min_frequency: int = 2
    """How often a word, a character or a pair of neighbours must occur to be given an entry."""
    vocab_size: int = 10_000
    """Most entries, the special ones included; the most frequent words or characters are kept."""
    split_digits: bool = False
    """Whether each digit stands alone, for byte pairs."""
    lowercase: bool = False
    """Whether byte pairs are fitted on, and texts cut after, lower-casing."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.min_frequency < 1:
            raise FieldError(
                f"min_frequency={self.min_frequency}: it must be at least 1", "min_frequency"
            )
        least = len(SPECIALS) + (BYTES if self.name in ("bpe", "byte") else 2)
        if self.vocab_size < least:
            raise FieldError(
                f"vocab_size={self.vocab_size}: name={self.name!r} needs at least {least}",
                "vocab_size",
            )
        options = [name for name in ("split_digits", "lowercase") if getattr(self, name)]
        if options and self.name != "bpe":
            raise FieldError(
                f"{options[0]}=True is for name='bpe', and name is {self.name!r}", options[0]
            )


@runtime_checkable
class Vocabulary(Protocol):
    """What models and tasks know of a vocabulary, whatever it is made of."""

    @property
    def specials(self) -> tuple[str, ...]: ...
    @property
    def padding(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    def __len__(self) -> int: ...
    def encode(self, text: str) -> list[int]:
        """The numbers of a text, with no special entries added."""

    def encode_array(self, text: str) -> np.ndarray:
        """The same as an array of 16 bits a number, or 32 where the vocabulary is too large."""

    def decode(self, numbers: Iterable[int]) -> str:
        """The text of some numbers; padding, start and end, wherever they stand, say nothing."""

    def entry(self, number: int) -> str:
        """One entry as people may be shown it, `<start>` and the like included."""

    def special(self, name: str) -> int:
        """The number of a special entry."""

    def to_text(self) -> str:
        """Everything as JSON, to be kept with a run; `from_text` reads it."""


def fit_vocabulary(
    texts: Iterable[str], config: TokenizerConfig, *, extra: Sequence[str] = ()
) -> AnyVocabulary:
    """The vocabulary of some texts, read once and one at a time: an open file will do.

    `extra` names further special entries, such as the mask of a masked language model.
    """
    if isinstance(texts, str):
        raise ValueError("one text was given where several are expected: put it into a list")
    if config.name == "word":
        return fit_words(texts, floor=config.min_frequency, size=config.vocab_size, extra=extra)
    if config.name == "bpe":
        return fit_byte_pairs(
            texts,
            floor=config.min_frequency,
            size=config.vocab_size,
            extra=extra,
            digits=config.split_digits,
            lower=config.lowercase,
        )
    if config.name == "char":
        return fit_characters(
            texts, floor=config.min_frequency, size=config.vocab_size, extra=extra
        )
    return fit_raw(texts, size=config.vocab_size, extra=extra)


@lru_cache(maxsize=8)
def from_text(text: str) -> AnyVocabulary:
    """A vocabulary from what its `to_text` gave; the same one for the same text."""
    try:
        kept = json.loads(text)
        kind, specials = kept["kind"], all_of(str, kept["specials"])
        if kind == "word":
            return WordVocabulary(specials, all_of(str, kept["words"]))
        if kind == "bpe":
            merges = tuple((a, b) for a, b in (all_of(int, pair) for pair in kept["merges"]))
            digits, lower = all_of(bool, (kept.get(name, False) for name in ("digits", "lower")))
            return BytePairVocabulary(specials, merges, digits, lower)
        if kind == "wordpiece":
            (lower,) = all_of(bool, [kept["lower"]])
            return WordPieceVocabulary(specials, all_of(str, kept["pieces"]), lower)
        if kind == "char":
            return CharacterVocabulary(specials, *all_of(str, [kept["characters"]]))
        if kind == "byte":
            return RawVocabulary(specials)
    except (ValueError, KeyError, TypeError, RecursionError) as wrong:
        raise ValueError(f"this is no vocabulary: {wrong!r}") from None
    raise ValueError(
        f"no kind of vocabulary {kind!r}; there are {', '.join(get_args(Kind) + READ)}"
    )
