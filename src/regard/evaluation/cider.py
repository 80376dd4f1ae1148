"""CIDEr-D: how much a sentence says what people say of this image and of few others.

    cider(hypotheses, references)   # one figure an image, 0 … 10; the mean is the whole's

Runs of one to four words are weighted by how rare they are among the images' references, so that
"a man in a" counts for little; the score is the cosine between the weights of the hypothesis and
of each reference, with a penalty for another length (Vedantam et al. 2015, as in pycocoevalcap).
Rarity is measured on the very references given: figures of different sets, or of a part of a
set, cannot be compared, and of one image alone everything is common and the score is 0.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from regard.evaluation.ngram import ORDERS, Words, check_pairs, count_ngrams, ngrams, values_at

SIGMA = 6.0  # a difference of so many words costs 39%


def cider(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> Float[np.ndarray, "n"]:
    """For each hypothesis, how far its telling runs of words are those of its references.

    10 is the sentence that all references agree on, 0 nothing in common. Good models reach means
    of about 1: people agree that little on words.
    """
    check_pairs(hypotheses, references)
    n = len(hypotheses)
    owner = np.repeat(np.arange(n), [len(known) for known in references])
    everything = [*hypotheses, *(words for known in references for words in known)]
    cosines = np.zeros(len(owner))
    for sentence, gram, times, kinds in count_ngrams(everything):
        first = int(np.searchsorted(sentence, n))  # where the references begin
        place = sentence[first:] - n
        held = np.unique(owner[place] * (kinds + 1) + gram[first:])
        images = np.bincount(held % (kinds + 1), minlength=kinds + 1)
        weight = times * (math.log(n) - np.log(np.maximum(1, images)))[gram]
        norm = np.sqrt(np.bincount(sentence, weight**2, minlength=len(everything)))
        own = values_at(
            owner[place] * (kinds + 1) + gram[first:],
            sentence[:first] * (kinds + 1) + gram[:first],
            weight[:first],
        )
        # A run that is repeated counts no more than in the reference: repeating gains nothing.
        product = np.minimum(own, weight[first:]) * weight[first:]
        shared = np.zeros(len(owner))
        np.add.at(shared, place, product)
        norms = norm[owner] * norm[n:]
        cosines += np.divide(shared, norms, out=np.zeros_like(shared), where=norms != 0)
    length = np.array([len(words) for words in everything])
    cosines *= np.exp(-((length[owner] - length[n:]) ** 2) / (2 * SIGMA**2))
    return 10 / ORDERS * np.bincount(owner, cosines, minlength=n) / np.bincount(owner)


def cider_plain(
    hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]
) -> Float[np.ndarray, "n"]:
    """`cider` sentence by sentence, with dictionaries."""
    check_pairs(hypotheses, references)
    images: Counter[tuple[str, ...]] = Counter()
    for known in references:
        images.update({run for words in known for n in _orders() for run in ngrams(words, n)})

    def weights(words: Words, n: int) -> dict[tuple[str, ...], float]:
        rarity = {run: math.log(len(references) / max(1, images[run])) for run in ngrams(words, n)}
        return {run: times * rarity[run] for run, times in ngrams(words, n).items()}

    scores = []
    for words, known in zip(hypotheses, references, strict=True):
        total = 0.0
        for reference in known:
            gap = len(words) - len(reference)
            for n in _orders():
                a, b = weights(words, n), weights(reference, n)
                norms = math.hypot(*a.values()) * math.hypot(*b.values())
                shared = sum(min(a[run], b[run]) * b[run] for run in a.keys() & b.keys())
                if norms:
                    total += shared / norms * math.exp(-(gap**2) / (2 * SIGMA**2))
        scores.append(10 * total / ORDERS / len(known))
    return np.array(scores)


def _orders() -> range:
    return range(1, ORDERS + 1)
