"""Intervals: they cover as often as they say, agree with scipy, and never claim certainty."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from golden import expect_error
from regard.evaluation import bootstrap as module
from regard.evaluation.bootstrap import (
    Interval,
    bootstrap,
    bootstrap_difference,
    bootstrap_of,
    in_parts,
    mean_of,
    resampled,
    unseen,
)


def seeded(seed=0):
    return np.random.default_rng(seed)


def hits(right, count):
    return (np.arange(count) < right).astype(float)


DRAWS = {
    "right 9 of 10": (lambda g: (g.random(200) < 0.9).astype(float), 0.9),
    "right half": (lambda g: (g.random(60) < 0.5).astype(float), 0.5),
    "losses": (lambda g: g.exponential(size=200), 1.0),
    "normal": (lambda g: g.normal(3.0, 2.0, size=100), 3.0),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_the_interval_holds_the_truth_as_often_as_it_says(draw):
    values, truth = DRAWS[draw]
    intervals = [bootstrap(values(seeded(s)), rounds=500, seed=s) for s in range(300)]
    assert 270 <= sum(i.low <= truth <= i.high for i in intervals) <= 297


def test_a_narrower_level_covers_less_often():
    values, truth = DRAWS["losses"]
    intervals = [bootstrap(values(seeded(s)), rounds=500, level=0.5, seed=s) for s in range(300)]
    assert 120 <= sum(i.low <= truth <= i.high for i in intervals) <= 180


@pytest.mark.parametrize("draw", DRAWS)
def test_scipy_draws_the_same_interval(draw):
    values = DRAWS[draw][0](seeded(7))
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=seeded(1)
    ).confidence_interval
    ours = bootstrap(values, rounds=20_000)
    assert ours.value == values.mean()
    # An end of 20,000 figures is known to some hundredths of the width, or to a step of 1/n.
    step = 1.01 / len(values) if set(values) <= {0, 1} else 0
    near = max(0.03 * (theirs.high - theirs.low), step)
    assert ours.low == pytest.approx(theirs.low, abs=near)
    assert ours.high == pytest.approx(theirs.high, abs=near)


@pytest.mark.parametrize(("right", "count"), [(1, 3), (2, 5), (351, 359), (5, 1000)])
def test_counting_ones_is_the_plain_resampling_of_them(right, count):
    fast = bootstrap(hits(right, count), rounds=20_000)
    plain = bootstrap_of(count, mean_of(hits(right, count)), rounds=20_000, seed=1)
    exact = stats.binom(count, right / count)
    assert fast.value == pytest.approx(plain.value)
    for end, fast_end, plain_end in ((0.025, fast.low, plain.low), (0.975, fast.high, plain.high)):
        assert fast_end == pytest.approx(exact.ppf(end) / count)
        assert plain_end == pytest.approx(exact.ppf(end) / count)


@given(st.integers(1, 2000), st.floats(0.5, 0.999))
def test_without_a_mistake_the_exact_bound_stands_in(count, level):
    rounds = 3000
    for right in (0, count):
        got = bootstrap(hits(right, count), rounds=rounds, level=level)
        exact = stats.binomtest(right, count).proportion_ci(level, method="exact")
        assert got == pytest.approx((right / count, exact.low, exact.high), abs=1e-9)


def test_values_between_0_and_1_are_not_taken_for_a_share():
    assert bootstrap(np.full(20, 0.5)) == Interval(0.5, 0.5, 0.5)
    assert bootstrap(np.array([0.0, 0.5, 1.0])).value == 0.5


def test_the_unseen_is_missed_as_often_as_the_level_leaves():
    for count in (1, 20, 10**6):
        assert (1 - unseen(count)) ** count == pytest.approx(0.025)


def test_pairs_are_kept_together():
    generator = seeded()
    hard = generator.normal(size=300) * 10
    a, b = hard + 0.5 + generator.normal(size=300) * 0.1, hard
    paired = bootstrap_difference(a, b)
    assert paired.value == pytest.approx(a.mean() - b.mean())
    assert 0.45 < paired.low < 0.5 < paired.high < 0.55
    assert paired == bootstrap(a - b)
    backwards = bootstrap_difference(b, a)
    assert backwards == pytest.approx((-paired.value, -paired.high, -paired.low))


def test_a_difference_of_models_covers_the_truth():
    covered = 0
    for seed in range(300):
        generator = seeded(seed)
        ease = generator.random(200)
        a, b = (ease < 0.8).astype(float), ((ease < 0.7) ^ (generator.random(200) < 0.1)) * 1.0
        interval = bootstrap_difference(a, b, rounds=500, seed=seed)
        covered += interval.low <= 0.8 - (0.7 * 0.9 + 0.3 * 0.1) <= interval.high
    assert 270 <= covered <= 297


def test_models_that_agree_everywhere_may_still_differ():
    ones, zeros, some, few = np.ones(20), np.zeros(20), hits(13, 20), unseen(20)
    assert bootstrap_difference(some, some) == Interval(0.0, -few, few)
    assert bootstrap_difference(ones, zeros) == Interval(1.0, 1 - 2 * few, 1.0)
    assert bootstrap_difference(zeros, ones) == Interval(-1.0, -1.0, 2 * few - 1)
    assert bootstrap_difference(np.full(20, 0.3), np.full(20, 0.3)) == Interval(0.0, 0.0, 0.0)
    assert 0.16 < few < 0.17


def test_any_statistic_of_the_rows_has_an_interval():
    values = seeded().exponential(size=80)
    theirs = stats.bootstrap(
        (values,), np.median, n_resamples=8000, method="percentile", rng=seeded(1)
    ).confidence_interval
    ours = bootstrap_of(80, lambda rows: np.median(values[rows], axis=-1), rounds=8000)
    assert ours.value == np.median(values)
    near = 0.1 * (theirs.high - theirs.low)
    assert ours == pytest.approx((ours.value, theirs.low, theirs.high), abs=near)


def test_resamples_are_of_all_items_with_replacement():
    rows = []
    resampled(7, lambda drawn: rows.append(drawn) or drawn.mean(-1), rounds=5000)
    drawn = np.concatenate(rows)
    assert drawn.shape == (5000, 7)
    assert stats.chisquare(np.bincount(drawn.ravel(), minlength=7)).pvalue > 1e-3
    distinct = np.mean([len(set(line)) for line in drawn])
    assert distinct == pytest.approx(7 * (1 - (6 / 7) ** 7), abs=0.05)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    values = seeded().normal(size=50)
    assert bootstrap(values, seed=3) == bootstrap(values, seed=3) != bootstrap(values, seed=4)
    right = hits(43, 500)
    assert bootstrap(right, seed=3) == bootstrap(right, seed=3)
    state = np.random.get_state()[1].copy()
    bootstrap(values)
    assert (np.random.get_state()[1] == state).all(), "the global generator was used"


def test_how_much_is_held_at_a_time_does_not_change_the_answer(monkeypatch):
    values = seeded().normal(size=37)
    whole = resampled(37, mean_of(values), rounds=333)
    for limit in (1, 38, 37 * 100):
        monkeypatch.setattr(module, "DRAWN_AT_ONCE", limit)
        assert sum(in_parts(333, 37)) == 333
        assert (resampled(37, mean_of(values), rounds=333) == whole).all()


def test_a_million_values_need_little_memory():
    values = seeded().normal(size=10**6)
    tracemalloc.start()
    try:
        interval = bootstrap(values, rounds=40)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert interval.low < interval.value < interval.high
    assert peak < 64 << 20


@pytest.mark.parametrize(
    "ask",
    [
        lambda: bootstrap(np.zeros(0)),
        lambda: bootstrap(np.array([1.0, np.nan])),
        lambda: bootstrap(np.array([np.inf, 1.0])),
        lambda: bootstrap(np.ones(3), level=1.0),
        lambda: bootstrap(np.ones(3), rounds=39),
        lambda: bootstrap_of(3, mean_of(np.ones(3)), rounds=0),
        lambda: bootstrap_difference(np.ones(0), np.ones(0)),
        lambda: bootstrap_of(0, mean_of(np.ones(0))),
        lambda: bootstrap_of(3, lambda rows: rows * 1.0),
        lambda: bootstrap_of(2, lambda rows: np.where(rows.any(-1), 1.0, np.nan)),
    ],
)
def test_what_has_no_interval_is_refused_in_a_sentence(ask):
    with expect_error(ValueError):
        ask()


def test_unequal_pairs_are_refused(in_a_plain_process):
    said = in_a_plain_process("""
import numpy as np
from regard.evaluation.bootstrap import bootstrap_difference
try:
    bootstrap_difference(np.ones(3), np.ones(4))
except ValueError as error:
    print(error)
""")
    assert "a has 3 values and b 4" in said
