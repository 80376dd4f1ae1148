"""Counting neighbours, against the same written out slowly; and on texts that it can guess."""

import math
from collections import Counter

import numpy as np
import pytest

from golden import expect_error
from regard.evaluation import nearby_words
from regard.evaluation.nearby_words import REACH, SHARES, NearbyWords, neighbours


def slow_scores(text: list[int], words: int, around: list[int], share: float) -> dict[int, float]:
    """Naive Bayes on the words nearby, one pair of places at a time."""
    times = Counter(text)
    together: Counter[tuple[int, int]] = Counter()
    for a, one in enumerate(text):
        for b, other in enumerate(text):
            if a != b and abs(a - b) <= REACH:
                together[one, other] += 1
    met = Counter()
    for (one, _), n in together.items():
        met[one] += n
    scores = {}
    for word in times:
        chance = times[word] / len(text)
        scores[word] = math.log(chance) + share * sum(
            math.log((together[near, word] + 5 * chance) / (met[near] * chance + 5 * chance))
            for near in around
            if near in times
        )
    return scores


@pytest.mark.parametrize("seed", range(3))
def test_it_counts_as_the_slow_one_does(seed):
    draw = np.random.default_rng(seed)
    text = draw.choice(8, 200, p=draw.dirichlet(np.ones(8)))
    simple = NearbyWords.fit(text, words=9)
    counted = text[:180].tolist()
    assert set(simple.known.tolist()) == set(counted)
    for share in SHARES:
        made = NearbyWords(simple.known, simple.place, simple.alone, simple.speaks, share)
        for _ in range(20):
            around = draw.integers(9, size=draw.integers(0, 6)).tolist()
            scores = slow_scores(counted, 9, around, share)
            best = max(scores.values())
            assert scores[made.guess(around)] == pytest.approx(best, abs=1e-4)
    for near in set(counted):
        alone, beside = (slow_scores(counted, 9, some, 1.0) for some in ([], [near]))
        for word in set(counted):
            a, b = simple.place[[near, word]]
            assert simple.speaks[a, b] == pytest.approx(beside[word] - alone[word], abs=1e-4)


def test_the_share_is_the_one_that_guesses_most_of_what_was_not_counted():
    draw = np.random.default_rng(0)
    text = np.concatenate(
        [draw.permutation([2 * n, 2 * n + 1] * 6) for n in draw.integers(5, size=60)]
    )
    simple = NearbyWords.fit(text, words=10)
    rest = text[len(text) * 9 // 10 :]

    def right(share: float) -> int:
        made = NearbyWords(simple.known, simple.place, simple.alone, simple.speaks, share)
        return sum(made.guess(neighbours(rest, at)) == word for at, word in enumerate(rest))

    assert simple.share > 0
    assert right(simple.share) == max(map(right, SHARES)) > 1.5 * right(0.0)


def test_obvious_neighbours_are_guessed_and_the_most_frequent_word_otherwise():
    draw = np.random.default_rng(1)

    def told(topics: int) -> np.ndarray:
        """Two words in turn as they like, then two others; a fifth is everywhere."""
        text = np.concatenate([draw.permutation([2 * n, 2 * n + 1] * 15) for n in topics])
        text[::6] = 30
        return text

    simple = NearbyWords.fit(told(draw.integers(10, size=120)), words=40)
    assert simple.guess([]) == simple.guess([38, 39]) == 30
    text = told(np.arange(10))
    guessed = np.array([simple.guess(neighbours(text, at)) for at in range(len(text))])
    assert (guessed == text).mean() > 1.5 * (text == 30).mean()
    inside = (text != 30) & (abs(np.arange(len(text)) % 30 - 15) < 5)
    assert (guessed[inside] // 2 == text[inside] // 2).mean() > 0.9, "one of the two"


def test_words_never_asked_for_are_neither_counted_nor_guessed():
    text = np.array([7, 7, 7, 1, 2, 7, 7, 1, 2, 7] * 10)
    simple = NearbyWords.fit(text, words=8, never=[7])
    assert set(simple.known.tolist()) == {1, 2} and simple.guess([7, 7]) in (1, 2)


def test_only_the_most_frequent_words_are_counted(monkeypatch):
    monkeypatch.setattr(nearby_words, "MOST", 2)
    simple = NearbyWords.fit(np.array([0, 1, 1, 2, 2, 2, 1, 2, 0, 1] * 3), words=3)
    assert sorted(simple.known.tolist()) == [1, 2] and simple.place[0] == -1


def test_neighbours_are_those_within_reach_that_can_be_seen():
    text = np.arange(30)
    assert neighbours(text, 0).tolist() == list(range(1, REACH + 1))
    assert neighbours(text, 15).tolist() == [*range(5, 15), *range(16, 26)]
    assert neighbours(text, 29).tolist() == list(range(19, 29))
    seen = np.arange(30) % 3 == 0
    assert neighbours(text, 3, seen).tolist() == [0, 6, 9, 12]


def test_a_text_without_a_word_to_count_is_refused():
    with expect_error(ValueError):
        NearbyWords.fit(np.array([3]), words=5)
