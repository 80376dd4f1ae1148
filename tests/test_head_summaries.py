"""What a head does, in numbers: against loops by hand, and on maps whose habits are known."""

import math

import numpy as np
import pytest

from regard.inspection.summaries import Yardstick


def softmax_maps(n, m, causal, seed=0):
    scores = 2 * np.random.default_rng(seed).normal(size=(n, m))
    scores = np.where(np.tri(n, m, dtype=bool), scores, -np.inf) if causal else scores
    raised = np.exp(scores)
    return raised / raised.sum(1, keepdims=True)


def by_hand(tokens, weights, causal):
    """The same numbers, a pair of words at a time."""
    n = len(tokens)
    rows = [i for i in range(n) if sum(weights[i]) and (i > 0 if causal else n > 1)]
    bits = [-sum(w * math.log2(w) for w in weights[i] if w) for i in rows]
    possible = [math.log2(i + 1 if causal else n) for i in rows]
    again = {}
    for i in rows:
        places = {p + 1 for p in range(i - 1) if tokens[p] == tokens[i]}
        if places:
            again[i] = sum(weights[i][j] for j in places)
    later = [i for i in rows if i]
    found = {
        "entropy": bits,
        "even": [b / p for b, p in zip(bits, possible, strict=True)],
        "distance": [sum(w * abs(i - j) for j, w in enumerate(weights[i])) for i in rows],
        "previous": [weights[i][i - 1] for i in later],
        "first": [weights[i][0] for i in later],
        "itself": [weights[i][i] for i in rows],
        "induction": list(again.values()),
    }
    return {name: sum(values) / len(values) for name, values in found.items()}


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both ways"])
def test_numbers_are_those_of_loops_by_hand(causal):
    tokens = list("abcabbacdaa")
    weights = softmax_maps(11, 11, causal)
    weights[5] = 0  # padding looks nowhere, and counts for nothing
    found = Yardstick(tokens, 11, 11, causal=causal)(weights)
    right = by_hand(tokens, weights.tolist(), causal)
    assert list(found) == list(right)
    assert found == pytest.approx(right, abs=6e-5)


def summary(tokens, weights):
    return Yardstick(tokens, *weights.shape, causal=True)(weights)


def test_a_head_that_looks_evenly_has_all_the_entropy_there_is():
    found = summary(list("abcdefgh"), np.tri(8) / np.arange(1, 9)[:, None])
    assert found["even"] == 1 and found["induction"] is None, "nothing recurs"
    assert found["entropy"] == pytest.approx(np.log2(np.arange(2, 9)).mean(), abs=1e-4)
    assert found["distance"] == pytest.approx(np.arange(1, 8).mean() / 2, abs=1e-4)
    assert found["first"] == found["previous"] == found["itself"]


def test_a_head_that_looks_at_the_token_before_has_no_entropy():
    weights = np.eye(8, k=-1)
    weights[0, 0] = 1
    found = summary(list("abcdefgh"), weights)
    assert (found["previous"], found["distance"], found["entropy"]) == (1, 1, 0)
    assert found["itself"] == 0 and found["first"] == round(1 / 7, 4)


def test_an_induction_head_is_found_on_a_random_sequence_that_repeats():
    once = np.random.default_rng(0).permutation(20)
    tokens = [str(number) for number in [*once, *once]]
    weights = np.zeros((40, 40))
    weights[:20, 0] = 1  # there is nothing to go by yet
    weights[np.arange(20, 40), np.arange(1, 21)] = 1
    assert summary(tokens, weights)["induction"] == 1
    assert summary(tokens, np.tri(40) / np.arange(1, 41)[:, None])["induction"] < 0.05


def test_of_two_texts_only_what_they_have_in_common_is_known():
    along = np.zeros((3, 5))
    along[[0, 1, 2], [0, 2, 4]] = 1  # the place equally far along
    found = Yardstick(None, 3, 5, causal=False)(along)
    assert (found["entropy"], found["even"], found["distance"]) == (0, 0, 0)
    assert {found[name] for name in ("previous", "first", "itself", "induction")} == {None}
    even = Yardstick(None, 3, 5, causal=False)(np.full((3, 5), 0.2))
    assert even["even"] == 1 and even["entropy"] == pytest.approx(math.log2(5), abs=1e-4)


@pytest.mark.parametrize("n", [0, 1])
def test_without_a_choice_there_is_nothing_to_say(n):
    assert set(summary(["a"] * n, np.ones((n, n))).values()) == {None}
