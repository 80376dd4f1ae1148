"""Many sentences in a screenful: of each kind the first few, and how many more there are.

grouped(["line 1: no label", "line 2: no label", …])
# line 1: no label
# line 2: no label
# line 3: no label
# and 797 more like this
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

EXAMPLES = 3  # sentences of a kind that are written out
QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")


def grouped(sentences: Sequence[str], most: int, examples: int = EXAMPLES) -> list[str]:
    """At most so many lines about all of these, in the order in which each kind comes first."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for sentence in sentences:
        kinds[kind_of(sentence)].append(sentence)
    lines: list[str] = []
    left = len(sentences)
    for same in kinds.values():
        shown = same if len(same) <= examples + 1 else same[:examples]
        more = len(same) - len(shown)
        if len(lines) + len(shown) + bool(more) > most - (len(same) < left):
            break
        lines += shown
        lines += [f"and {more:,} more like this"] if more else []
        left -= len(same)
    if left:
        room = most - len(lines) - 1
        rest = [same[0] for same in kinds.values() if same[0] not in lines][:room]
        lines += [*rest, f"and {left - len(rest):,} more"]
    return lines


def kind_of(sentence: str) -> str:
    """What a sentence says, without what it says it of: places, numbers and names of files."""
    return " ".join(plain_words(QUOTED.sub("", sentence).split()))


def plain_words(words: Iterable[str]) -> Iterable[str]:
    return (word for word in words if not re.search(r"[\d/\\]|\.\w", word))
