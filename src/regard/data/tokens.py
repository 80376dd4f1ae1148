"""A text as one long array of numbers, kept on disk, so that it is encoded once and never whole.

    numbers = tokenised(corpus.train, vocabulary)
    numbers[1000:1256]                      # of a memory-mapped array of 16 bits a number
    tokens_of(corpus.train, vocabulary)     # the same, with how many bytes and unknown words

An entry of the cache is a folder named by the digests of text and vocabulary. It is written beside
its place and renamed into it when complete; one that is damaged is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import UInt16, UInt32

from regard.data.entries import number_kind
from regard.data.text import Text
from regard.data.tokenizer import Vocabulary
from regard.errors import DataIssue
from regard.paths import cache_folder
from regard.progress import progress
from regard.run_folder.drafts import draft_folder

RULE = 1  # raised when the same text and vocabulary would give other numbers

Numbers = UInt16[np.ndarray, "n"] | UInt32[np.ndarray, "n"]


@dataclass(frozen=True, eq=False)
class Tokens:
    """The numbers of a text, without start or end; how long it was, and how much was not known."""

    numbers: Numbers
    bytes: int  # of the text in UTF-8: what bits per byte are counted by
    unknown: int  # numbers that stand for something the vocabulary does not have

    def __len__(self) -> int:
        return len(self.numbers)


def tokenised(text: Text, vocabulary: Vocabulary) -> Numbers:
    """The numbers of a text, and nothing else of what `tokens_of` gives."""
    return tokens_of(text, vocabulary).numbers


def tokens_of(text: Text, vocabulary: Vocabulary) -> Tokens:
    """The numbers of a text, from the cache if they are there, else encoded and put there.

    Where the cache cannot be written (no space, no permission) they are kept in memory.
    """
    entry = Entry(tokens_folder() / key(text, vocabulary))
    kind = number_kind(len(vocabulary))
    if (found := entry.read(kind)) is not None:
        return found
    try:
        tokens_folder().mkdir(parents=True, exist_ok=True)
        entry.write(text, vocabulary)
        if (found := entry.read(kind)) is not None:
            return found
    except OSError:
        pass  # read-only or full: the text is still there, only its numbers are not kept
    return tokens_in_memory(text, vocabulary)


def tokens_in_memory(text: Text, vocabulary: Vocabulary) -> Tokens:
    """The same without the cache."""
    blocks = list(encoded(text, vocabulary))
    numbers = np.concatenate(blocks) if blocks else vocabulary.encode_array("")
    return Tokens(numbers, text.size, count_unknown(numbers, vocabulary))


def encoded(text: Text, vocabulary: Vocabulary) -> Iterator[Numbers]:
    """The numbers of a text, a block at a time; a text that is no longer the same is refused."""
    seen = hashlib.sha256()
    with progress("encoding text", text.size) as advance:
        for block in text:
            spelt = block.encode()
            seen.update(spelt)
            yield vocabulary.encode_array(block)
            advance(len(spelt))
    if seen.hexdigest() != text.digest():
        raise DataIssue(
            "the text has changed since it was first looked at; start again", kind="changed"
        )


def count_unknown(numbers: Numbers, vocabulary: Vocabulary) -> int:
    if "unknown" not in vocabulary.specials:
        return 0
    return int(np.count_nonzero(numbers == vocabulary.special("unknown")))


def key(text: Text, vocabulary: Vocabulary) -> str:
    """Changes when the text, the vocabulary or what Python knows of letters does."""
    parts = (RULE, text.digest(), vocabulary.to_text(), unicodedata.unidata_version)
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:32]


def tokens_folder() -> Path:
    return cache_folder() / "tokens"


@dataclass(frozen=True)
class Entry:
    """One folder of the cache: `numbers`, plain and lowest byte first, and `facts.json`."""

    folder: Path

    def read(self, kind: np.dtype) -> Tokens | None:
        """What is kept, or None if it is not there or not whole."""
        try:
            facts = json.loads((self.folder / "facts.json").read_text(encoding="utf-8"))
            count, size, unknown = (int(facts[name]) for name in ("count", "bytes", "unknown"))
            file = self.folder / "numbers"
            if file.stat().st_size != count * kind.itemsize:
                return None
            stored = kind.newbyteorder("<")
            if not count:  # an empty file cannot be mapped
                return Tokens(np.empty(0, stored), size, unknown)
            return Tokens(np.memmap(file, stored, mode="r"), size, unknown)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, text: Text, vocabulary: Vocabulary) -> None:
        """Encode into a folder beside, and give it its name when it is complete."""
        with draft_folder(self.folder) as beside:
            count = unknown = 0
            with (beside / "numbers").open("wb") as out:
                for numbers in encoded(text, vocabulary):
                    out.write(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False).data)
                    count += len(numbers)
                    unknown += count_unknown(numbers, vocabulary)
            facts = {"count": count, "bytes": text.size, "unknown": unknown}
            (beside / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
            # Another process may have been faster, or left something that is not whole.
            if self.read(number_kind(len(vocabulary))) is None:
                shutil.rmtree(self.folder, ignore_errors=True)
                os.replace(beside, self.folder)
