"""Which labelled texts are held out to choose by: the same on every machine, in whatever order.

out = a_tenth(texts, labels)            # a set of texts; whole texts, wherever they recur
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence

HELD = 1_000  # texts, at the most
SENTENCES = 20  # of so many sentences, one is held out with its phrases
WORD = re.compile(r"\S+")

Held = Callable[[Sequence[str], Sequence[int]], set[str]]  # a rule: texts and labels, some texts


def a_tenth(texts: Sequence[str], labels: Sequence[int]) -> set[str]:
    """Texts in the order of their hashes, about a tenth.

    A text that occurs too often to fit is passed over, and so is the last one of a class; if none
    fits, the rarest is held, or none at all if each is the last.
    """
    times = Counter(texts)
    classes: dict[str, set[int]] = {}
    for text, label in zip(texts, labels, strict=True):
        classes.setdefault(text, set()).add(label)
    left = Counter(label for some in classes.values() for label in some)
    order = sorted(times, key=fingerprint)
    spare = [text for text in order if all(left[label] > 1 for label in classes[text])]
    room = min(HELD, len(texts) // 10)
    held: set[str] = set()
    for text in spare:
        if times[text] <= room and all(left[label] > 1 for label in classes[text]):
            held.add(text)
            room -= times[text]
            left.subtract(classes[text])
    return held or set(sorted(spare, key=lambda text: times[text])[:1])


def with_phrases(texts: Sequence[str], labels: Sequence[int]) -> set[str]:
    """Every twentieth sentence by its hash, with the phrases that occur in no other sentence.

    A sentence is a text that is no phrase of a longer one. Held out without its phrases, it would
    be known from them.
    """
    all_texts = set(texts)
    sentences: dict[str, set[str]] = {}  # with the texts that are phrases of each, itself included
    around: dict[str, set[str]] = {}  # the sentences that each phrase occurs in
    for text in sorted(all_texts, key=lambda text: (-len(text), text)):
        if text not in around:
            sentences[text] = phrases(text) & all_texts
            for phrase in sentences[text]:
                around.setdefault(phrase, set()).add(text)
    order = sorted(sentences, key=fingerprint)
    out = set(order[: max(1, len(order) // SENTENCES)]) if len(order) > 1 else set()
    return {phrase for text in out for phrase in sentences[text] if around[phrase] <= out}


def phrases(text: str) -> set[str]:
    """Every run of words of a text, itself included."""
    words = [word.span() for word in WORD.finditer(text)]
    return {text[start:end] for n, (start, _) in enumerate(words) for _, end in words[n:]}


def fingerprint(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
