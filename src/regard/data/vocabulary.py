"""Texts as numbers and back, by words, byte pairs, word pieces, characters or bytes.

    vocabulary = fit_vocabulary(texts, VocabularyConfig(kind="words", floor=5))
    numbers = vocabulary.encode("A dog runs.")       # as in "a dog runs ."; no start, no end
    [vocabulary.start, *numbers, vocabulary.end]     # where a model wants them

Every vocabulary begins with its special entries, which no text can spell: padding 0, start 1,
end 2, then `unknown` for words and characters, then those asked for by name. Fitting the same
texts gives the same vocabulary on every machine, `to_text` and `from_text` keep it with a run, and
two vocabularies are equal when their entries are. Words, byte pairs and word pieces are below,
characters and bytes in `letters`. No torch here: `--help` reads the configuration.

Word pieces are not fitted but read from a published file, and keep its numbers: their special
entries may stand anywhere, so ask for `vocabulary.start` and never for the first few.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, get_args, runtime_checkable

from regard.config import check_kinds
from regard.data.entries import (
    BYTES,
    SPECIALS,
    UNKNOWN,
    Entries,
    all_of,
    check_bytes_fit,
    check_number,
    check_room,
    check_specials,
    number_kind,
    valid_text,
)
from regard.data.letters import CharacterVocabulary, RawVocabulary, fit_characters, fit_raw
from regard.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

BLOCK = 2**14  # letters that are handed to the tokenizers library at a time, about
Kind = Literal["words", "bytes", "characters", "raw"]
READ = ("wordpiece",)  # kinds that are read from a file, and fitted to no texts
CUT = re.compile(r"(?<=\w)[ \n]")  # no word holds a space, except before its first letter


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """What a text is cut into, and how many kinds of piece there may be."""

    kind: Kind = "words"
    """`words`: lower-cased words and punctuation; `bytes`: byte pairs, which can spell any text;
    `characters`: those of the training text, as they are; `raw`: the 256 bytes."""
    floor: int = 2
    """How often a word, a character or a pair of neighbours must occur to be given an entry."""
    size: int = 10_000
    """Most entries, the special ones included; the most frequent words or characters are kept."""
    digits: bool = False
    """Whether each digit stands alone, for byte pairs."""
    lower: bool = False
    """Whether byte pairs are fitted on, and texts cut after, lower-casing."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.floor < 1:
            raise ValueError(f"floor={self.floor}: it must be at least 1")
        least = len(SPECIALS) + (BYTES if self.kind in ("bytes", "raw") else 2)
        if self.size < least:
            raise ValueError(f"size={self.size}: kind={self.kind!r} needs at least {least}")
        asked = [name for name in ("digits", "lower") if getattr(self, name)]
        if asked and self.kind != "bytes":
            raise ValueError(f"{asked[0]}=True is for kind='bytes', and kind is {self.kind!r}")


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
    texts: Iterable[str], config: VocabularyConfig, *, extra: Sequence[str] = ()
) -> AnyVocabulary:
    """The vocabulary of some texts, read once and one at a time: an open file will do.

    `extra` names further special entries, such as the mask of a masked language model.
    """
    if isinstance(texts, str):
        raise ValueError("one text was given where several are expected: put it into a list")
    if config.kind == "words":
        return fit_words(texts, floor=config.floor, size=config.size, extra=extra)
    if config.kind == "bytes":
        return fit_byte_pairs(
            texts,
            floor=config.floor,
            size=config.size,
            extra=extra,
            digits=config.digits,
            lower=config.lower,
        )
    if config.kind == "characters":
        return fit_characters(texts, floor=config.floor, size=config.size, extra=extra)
    return fit_raw(texts, size=config.size, extra=extra)


@lru_cache(maxsize=8)
def from_text(text: str) -> AnyVocabulary:
    """A vocabulary from what its `to_text` gave; the same one for the same text."""
    try:
        kept = json.loads(text)
        kind, specials = kept["kind"], all_of(str, kept["specials"])
        if kind == "words":
            return WordVocabulary(specials, all_of(str, kept["words"]))
        if kind == "bytes":
            merges = tuple((a, b) for a, b in (all_of(int, pair) for pair in kept["merges"]))
            digits, lower = all_of(bool, (kept.get(name, False) for name in ("digits", "lower")))
            return BytePairVocabulary(specials, merges, digits, lower)
        if kind == "wordpiece":
            (lower,) = all_of(bool, [kept["lower"]])
            return WordPieceVocabulary(specials, all_of(str, kept["pieces"]), lower)
        if kind == "characters":
            return CharacterVocabulary(specials, *all_of(str, [kept["characters"]]))
        if kind == "raw":
            return RawVocabulary(specials)
    except (ValueError, KeyError, TypeError, RecursionError) as wrong:
        raise ValueError(f"this is no vocabulary: {wrong!r}") from None
    raise ValueError(
        f"no kind of vocabulary {kind!r}; there are {', '.join(get_args(Kind) + READ)}"
    )


# Words


def words_of(text: str) -> list[str]:
    """The words and punctuation marks of a text, lower-cased.

    - A word is a run of letters, digits and the marks that belong to them. A hyphen or an
      apostrophe between two such runs keeps them together (t-shirt, o'clock), as do the joiners
      of Persian and Hindi, and a point or comma between two digits (3.5).
    - The endings 's 'd 'm 're 've 'll are words of their own: "man's" and "man 's" are the same.
    - Any other sign that is no space is a word; an emoji made of several signs is one.
    - Before this, ’ becomes ', and letters that can be written in two ways (é) are in one.

    A script that puts no spaces between words gives very long ones: use byte pairs for it.
    """
    text = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())
    return word_rule().findall(text.replace("’", "'"))


def normalised(text: str) -> str:
    """A text as a vocabulary of words gives it back: its words with one space between."""
    return " ".join(words_of(text))


@cache
def word_rule() -> re.Pattern[str]:
    marks = "".join(f"{first}-{last}" for first, last in mark_ranges())
    letter = rf"[\w{marks}]"
    ending = rf"'(?:s|d|m|re|ve|ll)(?!{letter})"
    inside = rf"(?!{ending})['\-\u200c\u200d]|(?<=\d)[.,](?=\d)"
    word = rf"{letter}+(?:(?:{inside}){letter}+)*"
    flag = "[\U0001f1e6-\U0001f1ff]{2}"
    sign = rf"[^\w\s{marks}][{marks}\U0001f3fb-\U0001f3ff]*"  # with its shade or its form
    return re.compile(rf"{word}|{ending}|{flag}|{sign}(?:\u200d{sign})*")


def mark_ranges() -> Iterator[tuple[str, str]]:
    """Vowel signs, accents and the like, which Python's `\\w` leaves out."""
    first = last = -2
    for number in (*range(0x20000), *range(0xE0100, 0xE01F0)):  # no others have been assigned
        if unicodedata.category(chr(number))[0] == "M":
            if number > last + 1:
                if last >= 0:
                    yield chr(first), chr(last)
                first = number
            last = number
    yield chr(first), chr(last)


def fit_words(
    texts: Iterable[str], *, floor: int, size: int, extra: Sequence[str] = ()
) -> WordVocabulary:
    """The words that occur at least `floor` times, most frequent first, equals by letter."""
    specials = (*SPECIALS, "unknown", *extra)
    count: Counter[str] = Counter()
    for text in texts:
        count.update(words_of(text))
    known = sorted((-n, word) for word, n in count.items() if n >= floor)
    if not known:
        most = max(count.values(), default=0)
        raise ValueError(f"no word occurs floor={floor} times; the most frequent occurs {most}")
    check_room(size, specials)
    return WordVocabulary(specials, tuple(word for _, word in known[: size - len(specials)]))


@dataclass(frozen=True)
class WordVocabulary(Entries):
    """Lower-cased words and punctuation; what is not among them is `<unknown>`."""

    words: tuple[str, ...]

    unknown: ClassVar[int] = UNKNOWN

    def __post_init__(self) -> None:
        check_specials(self.specials, (*SPECIALS, "unknown"))
        if len(set(self.words)) < len(self.words):
            twice, n = Counter(self.words).most_common(1)[0]
            raise ValueError(f"the word {twice!r} is there {n} times")

    def __len__(self) -> int:
        return len(self.specials) + len(self.words)

    def encode(self, text: str) -> list[int]:
        numbers = self._numbers
        return [numbers.get(word, UNKNOWN) for word in words_of(text)]

    def encode_array(self, text: str) -> np.ndarray:
        import numpy as np

        return np.array(self.encode(text), number_kind(len(self)))

    def decode(self, numbers: Iterable[int]) -> str:
        silent = set(range(len(self.specials))) - {UNKNOWN}
        return " ".join(self.entry(number) for number in numbers if number not in silent)

    def entry(self, number: int) -> str:
        return self.named(number) or self.words[number - len(self.specials)]

    def to_text(self) -> str:
        return json.dumps({"kind": "words", "specials": self.specials, "words": self.words})

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, len(self.specials))}


# Byte pairs


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
        shift, size = len(self.specials), len(self)
        pieces = []
        for number in numbers:
            check_number(number, size)
            if number >= shift:
                pieces.append(self.pieces[number - shift])
        return b"".join(pieces).decode("utf-8", errors="replace")

    def entry(self, number: int) -> str:
        if shown := self.named(number):
            return shown
        return self.pieces[number - len(self.specials)].decode("utf-8", errors="backslashreplace")

    def to_text(self) -> str:
        # What is not asked for is not said, so that texts of earlier versions stay the same.
        asked = {name: True for name in ("digits", "lower") if getattr(self, name)}
        kept = {"kind": "bytes", "specials": self.specials, "merges": self.merges, **asked}
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


def in_blocks(text: str) -> Iterator[str]:
    """A long text in parts that give the same numbers as the whole, in far less memory."""
    start = 0
    while len(text) - start > BLOCK and (cut := CUT.search(text, start + BLOCK)):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]


@cache
def signs_of_bytes() -> tuple[str, ...]:
    """The visible sign that stands for each byte inside the tokenizers library.

    Bytes that are visible in Latin-1 stand for themselves, the others for signs from 256 on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return tuple(chr(byte if byte in visible else next(others)) for byte in range(BYTES))


# Word pieces

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
        raise UserError(f"{path} cannot be read: {trouble.strerror}") from None
    except UnicodeDecodeError as wrong:
        raise UserError(f"{path} is no UTF-8 text: see byte {wrong.start}") from None
    if not lines[-1]:
        lines.pop()
    specials = tuple(name for name, spelt in PUBLISHED.items() if spelt in set(lines))
    try:
        return WordPieceVocabulary(specials, tuple(lines), lower)
    except ValueError as wrong:
        raise UserError(f"{path} is no vocabulary of word pieces: {wrong}") from None


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
        said = " ".join(self.entry(number) for number in numbers if number not in silent)
        return said.replace(f" {INSIDE}", "").removeprefix(INSIDE)

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


AnyVocabulary = (
    WordVocabulary | BytePairVocabulary | WordPieceVocabulary | CharacterVocabulary | RawVocabulary
)
