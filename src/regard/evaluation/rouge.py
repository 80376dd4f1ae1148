"""ROUGE-L: the longest run of words, gaps allowed, that a sentence shares with a reference.

    rouge_l([["a", "dog", "runs"]], [[["the", "dog", "runs", "fast"]]])

Words count if they stand in the same order in both, whatever stands between them (Lin 2004). As
in pycocoevalcap, precision and recall are each taken from the reference that is best for it, and
recall weighs more (β = 1.2).
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.evaluation.ngram import Words, check_pairs

BETA = 1.2


def rouge_l(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> Float[np.ndarray, "n"]:
    """For each hypothesis, how much of it and of a reference is the same words in order: 0 … 1.

    Without any words it scores 0, also against a reference without any, where pycocoevalcap says 1.
    The figure of all of them is the mean.
    """
    check_pairs(hypotheses, references)
    return np.array(
        [_score(words, known) for words, known in zip(hypotheses, references, strict=True)]
    )


def common_words(a: Words, b: Words) -> int:
    """How many words the longest sequence has that is in both, with gaps.

    Column by column as in `common_words_plain`, but a column is one whole number whose zero bits
    say where the length grows (Hyyrö 2004): addition carries a match up to the next such place.
    """
    places: dict[str, int] = {}
    for row, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << row
    whole = (1 << len(a)) - 1
    column = whole
    for word in b:
        met = column & places.get(word, 0)
        column = (column + met | column - met) & whole
    return len(a) - column.bit_count()


def common_words_plain(a: Words, b: Words) -> int:
    """The same by the textbook's table, one cell a pair of words."""
    row = [0] * (len(b) + 1)
    for word in a:
        above, row = row, [0]
        for place, other in enumerate(b):
            longest = max(above[place + 1], row[place])
            row.append(above[place] + 1 if word == other else longest)
    return row[-1]


def _score(words: Words, known: Sequence[Words]) -> float:
    common = [common_words(words, reference) for reference in known]
    if not any(common):
        return 0.0
    precision = max(common) / len(words)
    recall = max(
        same / len(reference) for same, reference in zip(common, known, strict=True) if reference
    )
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)
