"""Texts as words that people see, and the tokens that stand for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.vocabulary import Vocabulary
from regard.look.word_maps import Span

WORD = re.compile(r"\s*(?:\w+(?:['’-]\w+)*|[^\w\s]+)")


@dataclass(frozen=True)
class Spelt:
    """A text, or a pair, as the model reads it, with the place of each of its words."""

    tokens: tuple[int, ...]  # start, words, end; and for a pair words and end again
    spans: tuple[Span, ...]
    words: tuple[str, ...]  # each with the space before it: joined, they are the text
    segments: tuple[int, ...] | None = None
    breaks: tuple[int, ...] = ()  # the word that the second text begins with
    cut: bool = False  # whether the text was longer


def spelt(vocabulary: Vocabulary, text: str, second: str | None, longest: int) -> Spelt:
    """The words of a text as far as it is read at once, and where each has its tokens."""
    tokens = [vocabulary.start]
    spans: list[Span] = []
    words: list[str] = []
    segments, breaks = [0], list[int]()
    texts = [text] if second is None else [text, second]
    cut = False
    for number, each in enumerate(texts):
        # Of a pair, the first text leaves half of the room to the second.
        ends = len(texts) - number
        room = longest - ends if number == len(texts) - 1 else (longest - 1) // 2
        if number:
            breaks.append(len(words))
        for word in WORD.findall(each):
            pieces = encoded(vocabulary, word, first=not words or len(words) in breaks)
            if len(tokens) + len(pieces) > room:
                cut = True
                break
            if not pieces:  # no token of this vocabulary is in it
                continue
            spans.append((len(tokens), len(tokens) + len(pieces)))
            words.append(word)
            tokens += pieces
        tokens.append(vocabulary.end)
        segments += [number] * (len(tokens) - len(segments))
    paired = None if second is None else tuple(segments)
    kept = tuple(place for place in breaks if 0 < place < len(words))
    return Spelt(tuple(tokens), tuple(spans), tuple(words), paired, kept, cut)


def encoded(vocabulary: Vocabulary, word: str, first: bool) -> Sequence[int]:
    """The tokens of a word with the space before it, which the first word has in any case."""
    return vocabulary.encode(f" {word.lstrip()}" if first or word[:1].isspace() else word)
