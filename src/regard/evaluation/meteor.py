"""METEOR-lite: align a sentence with a reference word by word, also across endings.

    counts = meteor_counts(hypotheses, references)   # lists of words; several references each
    meteor(counts)                                   # one figure for all, 0 … 1

METEOR 1.5 (Denkowski and Lavie 2014) matches equal words, equal stems, synonyms of WordNet and
paraphrases from a table of 60 MB, then asks how much of both sentences is matched and in how few
pieces. This file has its first two matchers and none of its data: hence the name. As published are

    α 0.85, β 0.2, γ 0.6, δ 0.75    precision against recall, the pieces, the function words
    1.0 and 0.6                     what equal words and equal stems are worth
    40                              how many ways to align are kept at a time
    `meteor_words`                  how the program's -norm cuts words once more

The function words are a list of our own, by part of speech. The program has another, of words that
are frequent in large texts; given our list (-s) and told to use two matchers (-m) it says the same
as this file, but for 1 of 3,000 sentences tried. As it comes, with its own list and all four, it
says more, because it finds more (1,000 test images of Flickr8k, times 100):

    sentences                                        METEOR 1.5   METEOR-lite   less by
    people's first against their other four               25.00         23.91      1.10
    the training sentence nearest to the references       30.77         30.00      0.77
    any sentence of the training set                       7.88          6.62      1.26

So do not set it beside a published METEOR. Part of what the matchers lack the list gives back: with
its own list and two matchers the program says 23.46, 29.79 and 6.41. Between sentences METEOR-lite
orders much alike: the two correlate with 0.91, 0.96 and 0.85.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int, Num

from regard.evaluation.bootstrap import Statistic
from regard.evaluation.caption_bleu import sums_over
from regard.evaluation.ngram import Words, check_pairs
from regard.evaluation.porter import stem

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75  # tuned by the authors to people's rankings
EXACT, STEM = 1.0, 0.6  # what a match of each kind is worth
BEAM = 40

# Words that hold a sentence together rather than say what is in it, each under one kind though
# many belong to several. They weigh 1 − δ, others δ.
FUNCTION_WORDS_BY_KIND = {
    "article": "a an the",
    "pronoun": """
        i me my mine myself you your yours yourself yourselves he him his himself she her hers
        herself it its itself we us our ours ourselves they them their theirs themselves one oneself
        someone somebody something anyone anybody anything everyone everybody everything
    """,
    "demonstrative": "this that these those such",
    "quantifier": """
        all any both each either enough every few fewer half least less many more most much several
        some other others another
    """,
    "question or relative": """
        who whom whose which what when where why how whoever whatever whichever whenever wherever
    """,
    "preposition": """
        about above across after against along alongside amid among amongst around as at before
        behind below beneath beside besides between beyond by despite down during except for from in
        inside into like near of off on onto opposite out outside over past per round through
        throughout to toward towards under underneath up upon via with within without
    """,
    "conjunction": """
        and or but so yet if unless because since although though while whilst whereas whether until
        till than lest
    """,
    "auxiliary": """
        be am is are was were been being have has had having do does did done doing can could may
        might must shall should will would ought
    """,
    "negation": "no not nor neither never none nobody nothing nowhere",
    "particle": "there here then also too very just only even still however please yes",
    # As they are written, and as `meteor_words` leaves them: "n't" is "n" and "'t", "'ll" alone is
    # "'" and "ll". Without "t", which is mostly half of a "t-shirt".
    "clitic": "'s 'm 're 've 'll 'd 't n't s m re ve ll d n ai ca sha wo",
    "punctuation": """
        . , ; : ? ! ... … ' " ` - -- – — ‘ ’ “ ” « » ( ) [ ] { } / &
        -lrb- -rrb- -lsb- -rsb- -lcb- -rcb-
    """,
}
FUNCTION_WORDS = frozenset(
    word for words in FUNCTION_WORDS_BY_KIND.values() for word in words.split()
)


class MeteorCounts(NamedTuple):
    """What METEOR is made of, for each hypothesis and the reference that is best for it.

    Of each pair the first is of the hypothesis, the second of the reference.
    """

    matched: Float[np.ndarray, "n 2"]  # matches by kind, content words δ and others 1 − δ
    weight: Float[np.ndarray, "n 2"]  # the same of all words
    hits: Int[np.ndarray, "n 2"]  # words matched
    chunks: Int[np.ndarray, "n"]  # in how many pieces, each in the same order on both sides


def meteor(counts: MeteorCounts) -> float:
    """How much of all hypotheses and their references is matched, and in how few pieces: 0 … 1."""
    return float(_score(*(part.sum(0, keepdims=True) for part in counts))[0])


def meteor_each(counts: MeteorCounts) -> Float[np.ndarray, "n"]:
    """The same for every hypothesis by itself; their mean is not the METEOR of the whole."""
    return _score(*counts)


def meteor_of(counts: MeteorCounts) -> Statistic:
    """METEOR-lite of chosen rows, for `bootstrap_of`."""
    return lambda rows: _score(*sums_over(rows, *counts))


def meteor_counts(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> MeteorCounts:
    """Matches of each hypothesis with the reference for which it scores best, for `meteor`."""
    check_pairs(hypotheses, references)
    owner = np.repeat(np.arange(len(hypotheses)), [len(known) for known in references])
    lines = []
    for words, known in zip(hypotheses, references, strict=True):
        own = meteor_words(words)
        lines += [_line(own, meteor_words(reference)) for reference in known]
    every = MeteorCounts(*(np.array(part) for part in zip(*lines, strict=True)))
    # The first of the best: sorted by hypothesis, then by score, and stable.
    order = np.lexsort((-_score(*every), owner))
    best = order[np.searchsorted(owner[order], np.arange(len(hypotheses)))]
    return MeteorCounts(*(part[best] for part in every))


def align(a: Words, b: Words) -> list[tuple[int, int, float]]:
    """Which word of `a` goes with which of `b`, and the worth of the match; none goes twice.

    Two words that can only go with each other do. Of the other ways, the one with the most equal
    words is taken; of those, the one in the fewest chunks; of those, the first: earlier words of
    `a` before later ones. Matches of lesser worth do not count in this choice, since METEOR 1.5
    adds up whole numbers: two stems that vie for one word may both go without. Like it, this
    goes through `b` with the 40 best ways so far, and where words repeat may miss the best.
    """
    stems_a, stems_b = [stem(word) for word in a], [stem(word) for word in b]
    times_a, times_b = Counter(stems_a), Counter(stems_b)
    equal_at, kin_at = _places(a), _places(stems_a)
    # A way: equal words (negative: less is better), finished chunks, words of `a` that are used
    # (one bit each), the word of `a` with which the last chunk would go on or -1, the matches.
    ways: list[_Way] = [(0, 0, 0, -1, None)]
    for there, (word, root) in enumerate(zip(b, stems_b, strict=True)):
        certain = times_a[root] == times_b[root] == 1
        same = equal_at.get(word, 0)
        offers = ((EXACT, same), (STEM, kin_at.get(root, 0) & ~same))
        longer: list[_Way] = []
        for equal, chunks, used, onwards, path in ways:
            for worth, places in offers:
                for here in _first_bits(places & ~used, onwards):
                    link = (path, here, there, worth)
                    broken = onwards not in (-1, here)
                    now = used | 1 << here
                    longer.append((equal - int(worth), chunks + broken, now, here + 1, link))
            if not certain:
                longer.append((equal, chunks + (onwards != -1), used, -1, path))
        if len(longer) > 1:
            longer.sort(key=_cost)  # stable: of equals, the first stays first
        ways = longer[:BEAM]
    best = min(ways, key=lambda way: (way[0], way[1] + (way[3] != -1)))
    return sorted(_unwound(best[4]))


def meteor_words(words: Words) -> list[str]:
    """Words as METEOR 1.5 cuts them again: "t-shirt" is two, "'s" is two, "u.s." is "us".

    Hebrew, Arabic or Chinese words, which it takes letter by letter, stay whole here.
    """
    return [
        part for place, word in enumerate(words) for part in _parts(word, place == len(words) - 1)
    ]


_Way: TypeAlias = tuple[int, int, int, int, Any]
_cost = itemgetter(0, 1)


def _places(words: Words) -> dict[str, int]:
    """Where each word stands, one bit a place."""
    found: dict[str, int] = {}
    for place, word in enumerate(words):
        found[word] = found.get(word, 0) | 1 << place
    return found


def _first_bits(places: int, onwards: int) -> Iterator[int]:
    """The lowest places, and `onwards` if it is one: others cost no less and could not be kept."""
    for _ in range(BEAM):
        if not places:
            return
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest
    if onwards >= 0 and places >> onwards & 1:
        yield onwards


def _unwound(path: Any) -> Iterator[tuple[int, int, float]]:
    while path is not None:
        path, here, there, worth = path
        yield here, there, worth


def _line(a: Words, b: Words) -> tuple[list[float], list[float], list[int], int]:
    """`MeteorCounts` of one pair of sentences."""
    own, theirs = _weights(a), _weights(b)
    matches = align(a, b)
    chunks, expected = 0, (-1, -1)
    for here, there, _ in matches:
        chunks += (here, there) != expected
        expected = here + 1, there + 1
    matched = [
        sum((own[here] * worth for here, _, worth in matches), 0.0),
        sum((theirs[there] * worth for _, there, worth in matches), 0.0),
    ]
    hits = [len(matches)] * 2
    if chunks == 1 and hits == [len(a), len(b)]:
        chunks = 0  # the same sentence is not in pieces
    return matched, [sum(own, 0.0), sum(theirs, 0.0)], hits, chunks


def _weights(words: Words) -> list[float]:
    return [1 - DELTA if word in FUNCTION_WORDS else DELTA for word in words]


@lru_cache(1 << 16)
def _parts(word: str, last: bool) -> tuple[str, ...]:
    if word.isalpha() or re.fullmatch("-[lr][rsc]b-", word):
        return (word,)
    letter = r"[^\W\d_]"
    word = re.sub(r"^(?:\w\.)+\w\.(?=-|$)", lambda initials: initials[0].replace(".", ""), word)
    word = re.sub(r"(\w)-(\w)", r"\1 \2", word)  # takes both letters: "tug-o-war" is "tug o-war"
    word = re.sub(r"[^\w\s.,'-]|_|(?<!\d),|,(?!\d)", r" \g<0> ", word)
    word = re.sub(rf"(?<!{letter})'|'(?!{letter})", " ' ", word)
    word = re.sub(rf"(?<={letter})'(?={letter})", " '", word)
    if last:
        word = re.sub(r"(?<=\w)\.$", " .", word)
    return tuple(word.split())


def _score(
    matched: Float[np.ndarray, "*r 2"],
    weight: Float[np.ndarray, "*r 2"],
    hits: Num[np.ndarray, "*r 2"],
    chunks: Num[np.ndarray, "*r"],
) -> Float[np.ndarray, "*r"]:
    share = np.divide(matched, weight, out=np.zeros_like(matched), where=weight > 0)
    precision, recall = share[..., 0], share[..., 1]
    below = ALPHA * precision + (1 - ALPHA) * recall
    mean = np.divide(precision * recall, below, out=np.zeros_like(below), where=below > 0)
    half = hits.sum(-1) / 2
    pieces = np.divide(chunks, half, out=np.zeros_like(half), where=half > 0)
    return mean * (1 - GAMMA * pieces**BETA)
