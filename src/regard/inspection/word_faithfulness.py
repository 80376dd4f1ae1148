"""Whether a map points at the words that a model needs: delete them and see what it says then.

    orders = {"gradient": [maps.gradient for maps in found]}
    result = word_faithfulness(reader(model), texts, spans, orders)
    result.gain["gradient"]     Interval(value=0.21, low=0.18, high=0.24)

`faithfulness` does the same with the patches of an image, and has the words for what is measured:
deletion, insertion, and the gain over random orders. A word that is deleted is gone, and those
after it move up: a text has no grey to show in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from regard.evaluation.bootstrap import Interval
from regard.inspection.attribution import Probability, Span, Token, check, probabilities_of, without
from regard.inspection.faithfulness import Curves, area, gains, ranked, steps_of, written


@dataclass(frozen=True)
class WordFaithfulness:
    """What each order of words does to the answer, beside `random`, over some texts.

    `gain` is as in `Faithfulness`: 0 is no better than chance, and no order gains more than 1.
    """

    curves: Mapping[str, Curves]
    gain: Mapping[str, Interval]
    texts: int

    def to_values(self) -> dict[str, Any]:
        """The same as plain values, to be written as JSON."""
        return {"texts": self.texts, **written(self.gain, self.curves)}


def word_faithfulness(
    probability: Probability,
    texts: Sequence[Sequence[Token]],
    spans: Sequence[Sequence[Span]],
    orders: Mapping[str, Sequence[Float[np.ndarray, "_"]]],
    *,
    steps: int = 10,
    random_orders: int = 5,
    seed: int = 0,
    rounds: int = 2000,
) -> WordFaithfulness:
    """Delete the words of each text, and put them back, in each order, greatest first.

    Each of `orders` has a number for every word of every text. Followed is the class that the
    model finds most probable in the whole text, be it right or wrong; words with equal numbers
    come in a random sequence. Texts have different lengths, so curves are over shares of their
    words, in `steps`. A text of four words has no tenth of them: it is measured after every word,
    and read in between along a straight line.

    The interval of each gain comes from drawing the texts anew, `rounds` times.
    """
    check_orders(texts, spans, orders, steps, random_orders)
    chance = np.random.default_rng(seed)
    ranks: dict[str, list[list[Int[np.ndarray, "_"]]]] = {name: [] for name in orders}
    ranks["random"] = []
    for at, words in enumerate(spans):
        lots = chance.random((1, len(words)))  # the same for every order: each stands for itself
        drawn = chance.random((random_orders, 1, len(words)))
        for name, values in orders.items():
            ranks[name].append([ranked(values[at].astype(np.float64)[None], lots)[0]])
        ranks["random"].append([ranked(values, lots)[0] for values in drawn])

    counts = [steps_of(len(words), steps) for words in spans]
    shares = [each / each[-1] for each in counts]
    answers = probabilities_of(probability, texts).argmax(-1).tolist()
    followed = {
        name: follow(probability, texts, spans, answers, several, counts)
        for name, several in ranks.items()
    }
    # Areas are under the points that were measured; only the curves shown are read in between.
    deleted, inserted = (
        {
            name: np.concatenate(
                [area(each[kind][None], x) for each, x in zip(found, shares, strict=True)]
            )
            for name, found in followed.items()
        }
        for kind in (0, 1)
    )
    grid = np.linspace(0, 1, steps + 1)
    curves = {}
    for name, found in followed.items():
        read = [
            [np.interp(grid, x, curve) for curve in each]
            for each, x in zip(found, shares, strict=True)
        ]
        deletion, insertion = np.mean(read, axis=0)
        curves[name] = Curves(deletion, insertion, grid)
    return WordFaithfulness(curves, gains(deleted, inserted, rounds=rounds, seed=seed), len(texts))


def follow(
    probability: Probability,
    texts: Sequence[Sequence[Token]],
    spans: Sequence[Sequence[Span]],
    answers: Sequence[int],
    ranks: Sequence[Sequence[Int[np.ndarray, "_"]]],
    counts: Sequence[Int[np.ndarray, "_"]],
) -> list[Float[np.ndarray, "2 _"]]:
    """The probability of each text's answer when so many words are deleted, and put back.

    Where a text has several rankings, theirs is the mean.
    """
    shown: list[list[Token]] = []
    for text, words, several, ends in zip(texts, spans, ranks, counts, strict=True):
        for rank in several:
            for inserting in (False, True):
                for count in ends:
                    # Of those that come first, all are gone; or of all others, every one.
                    gone = (rank >= count) if inserting else (rank < count)
                    spans_gone = [span for span, out in zip(words, gone, strict=True) if out]
                    shown.append(without(text, spans_gone))
    found = probabilities_of(probability, shown).double().numpy()

    curves, start = [], 0
    for answer, several, ends in zip(answers, ranks, counts, strict=True):
        end = start + len(several) * 2 * len(ends)
        mine = found[start:end, answer].reshape(len(several), 2, len(ends))
        curves.append(mine.mean(0))
        start = end
    return curves


def check_orders(
    texts: Sequence[Sequence[Token]],
    spans: Sequence[Sequence[Span]],
    orders: Mapping[str, Sequence[np.ndarray]],
    steps: int,
    random_orders: int,
) -> None:
    """Refuse orders that do not number each word of each text."""
    if not texts or not orders:
        raise ValueError(f"there are {len(texts)} texts and {len(orders)} orders; at least 1 each")
    if len(spans) != len(texts):
        raise ValueError(f"{len(texts)} texts have the words of {len(spans)}")
    if "random" in orders:
        raise ValueError("an order may not be called 'random', which is what it is compared with")
    if steps < 1 or random_orders < 1:
        raise ValueError(f"steps={steps} and random_orders={random_orders} are at least 1")
    for at, (text, words) in enumerate(zip(texts, spans, strict=True)):
        check(len(text), words)
        if not words:
            raise ValueError(f"text {at} has 0 words, so that none can be deleted")
    for name, several in orders.items():
        if len(several) != len(texts):
            raise ValueError(f"order {name!r} is of {len(several)} texts, not of {len(texts)}")
        for at, (values, words) in enumerate(zip(several, spans, strict=True)):
            if values.shape != (len(words),):
                raise ValueError(
                    f"order {name!r} has shape {values.shape} for the {len(words)} words of "
                    f"text {at}"
                )
            if wrong := int(np.isnan(values).sum()):
                raise ValueError(f"order {name!r} holds {wrong} NaN in text {at}")
