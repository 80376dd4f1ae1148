"""Texts as words that people see, and the tokens that stand for each."""

from __future__ import annotations

import re
from dataclasses import dataclass

from regard.data.batching import trimmed
from regard.data.tokenizer import Vocabulary
from regard.inspection.attribution import Span

# Words with the space before them; what a vocabulary may keep together (3.5, don't) is in one.
WORD = re.compile(r"\s*(?:\w+(?:['’-]\w+|(?<=\d)[.,](?=\d)\w+)*|[^\w\s]+)")


@dataclass(frozen=True)
class Spelt:
    """A text, or a pair, as the model reads it, with the place of each of its words."""

    tokens: tuple[int, ...]  # start, words, end; and for a pair words and end again
    spans: tuple[Span, ...]
    words: tuple[str, ...]  # each with the space before it: joined, they are the text
    segments: tuple[int, ...] | None = None
    breaks: tuple[int, ...] = ()  # the word that the second text begins with
    cut: bool = False  # whether the text is longer
    first: int = 0  # the number of its first word, in the text
    count: int = 0  # words of the text, or of both, shown or not


def spelt(
    vocabulary: Vocabulary, text: str, second: str | None, longest: int, start: int = 0
) -> Spelt:
    """The words of a text that are read at once, and where each has its tokens.

    Of a long text these are from the token `start` on. A word at the edge has those of its tokens
    that are read.
    """
    texts = [pieces_of(vocabulary, each) for each in (text, second) if each is not None]
    whole = [range(sum(len(pieces) for _, pieces in each)) for each in texts]
    room = longest - 1 - len(texts)
    if second is None:
        kept = [whole[0][start : start + room]]
    else:
        kept = [range(len(each)) for each in trimmed(whole[0], whole[1], room)]
    tokens, segments, breaks = [vocabulary.start], [0], list[int]()
    spans: list[Span] = []
    words: list[str] = []
    numbers: list[int] = []
    for part, (each, read) in enumerate(zip(texts, kept, strict=True)):
        breaks += [len(words)] * part
        at = 0
        for number, (word, pieces) in enumerate(each):
            inside = pieces[max(0, read.start - at) : max(0, read.stop - at)]
            at += len(pieces)
            if inside:
                spans.append((len(tokens), len(tokens) + len(inside)))
                words.append(word)
                numbers.append(number)
                tokens += inside
        tokens.append(vocabulary.end)
        segments += [part] * (len(tokens) - len(segments))
    return Spelt(
        tuple(tokens),
        tuple(spans),
        tuple(words),
        None if second is None else tuple(segments),
        tuple(place for place in breaks if 0 < place < len(words)),
        [*map(len, kept)] != [*map(len, whole)],
        numbers[0] if numbers else 0,
        sum(map(len, texts)),
    )


def pieces_of(vocabulary: Vocabulary, text: str) -> list[tuple[str, list[int]]]:
    """Each word of a text with its tokens; a word of which a vocabulary knows nothing is none.

    The first has a space before it, as everywhere in the task.
    """
    found = []
    for number, word in enumerate(WORD.findall(text)):
        pieces = vocabulary.encode(word if number else f" {word.lstrip()}")
        if pieces:
            found.append((word, pieces))
    return found
