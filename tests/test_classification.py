"""Figures of a classifier: scikit-learn computes the same, and intervals cover the truth."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics
from sklearn.calibration import calibration_curve

from golden import expect_error
from regard.evaluation import bootstrap as bootstrap_module
from regard.evaluation.bootstrap import Interval, bootstrap, bootstrap_of, unseen
from regard.evaluation.classification import (
    BINS,
    Answers,
    Calibration,
    ClassFigures,
    ClassificationMetrics,
    among_best,
    assess,
    calibrate,
    confused_pairs,
    mistakes,
    summary,
)

ROUNDS = 40  # the fewest there may be, where the interval is not what is tested


def answers_of(probabilities, labels, names=None):
    p = np.array(probabilities, np.float32)
    names = names or tuple(f"class {c}" for c in range(p.shape[1]))
    return Answers(p, np.array(labels, np.int64), tuple(names))


def certain(given, labels, classes, names=None):
    """A model that gives each answer with probability 1."""
    return answers_of(np.eye(classes)[given], labels, names)


def normalised(parts):
    return (parts / parts.sum(1, keepdims=True)).astype(np.float32)


@st.composite
def some(draw, least_classes=2):
    """Probabilities and labels, of which `answers_of` makes answers.

    Of whole parts out of few, so that ties, classes without items and empty bins are common.
    """
    k, n = draw(st.integers(least_classes, 9)), draw(st.integers(1, 30))
    line = st.lists(st.integers(1, 5), min_size=k, max_size=k)
    parts = draw(st.lists(line, min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    return normalised(np.array(parts) ** 3.0), labels


@pytest.fixture
def digits():
    """A fair model of ten classes: 400 answers, some of them wrong."""
    generator = np.random.default_rng(0)
    labels = generator.integers(10, size=400)
    logits = generator.normal(size=(400, 10)) * 1.5 + 5 * np.eye(10)[labels]
    return answers_of(normalised(np.exp(logits)), labels, "0123456789")


@given(some())
def test_every_figure_is_the_one_of_scikit_learn(parts):
    answers = answers_of(*parts)
    p, labels, k = answers.probabilities, answers.labels, len(answers.classes)
    ours, every, chosen = assess(answers, rounds=ROUNDS), range(k), p.argmax(1)

    assert ours.count == len(labels)
    assert ours.accuracy.value == pytest.approx(metrics.accuracy_score(labels, chosen))
    matrix = metrics.confusion_matrix(labels, chosen, labels=every)
    assert (ours.confusion == matrix).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a class is answered that never occurs
        balanced = metrics.balanced_accuracy_score(labels, chosen)
    assert ours.balanced_accuracy == pytest.approx(balanced)

    exact = p.astype(float) / p.sum(1, dtype=float)[:, None]
    assert ours.loss.value == pytest.approx(metrics.log_loss(labels, exact, labels=every), rel=1e-5)
    theirs = metrics.brier_score_loss(
        np.eye(k)[labels] if k > 2 else labels,
        exact if k > 2 else exact[:, 1],
        labels=[0, 1] if k == 2 else None,
        scale_by_half=False,
    )
    assert ours.brier.value == pytest.approx(theirs, rel=1e-5)

    precision, recall, f1, count = metrics.precision_recall_fscore_support(
        labels, chosen, labels=every, zero_division=np.nan
    )
    for part, c in zip(ours.per_class, every, strict=True):
        assert (part.name, part.count) == (f"class {c}", count[c])
        found = part.accuracy.value if part.accuracy else None
        for mine, other in ((found, recall), (part.precision, precision), (part.f1, f1)):
            if mine is None:
                assert np.isnan(other[c])
            else:
                assert mine == pytest.approx(other[c])


@given(some(least_classes=3), st.integers(1, 9))
def test_the_best_few_are_those_of_scikit_learn_ties_included(parts, count):
    answers = answers_of(*parts)
    p, labels, k = answers.probabilities, answers.labels, len(answers.classes)
    if count >= k:
        assert among_best(answers, count).all()
        return
    # Scikit-learn puts the highest class first in a tie; seen backwards, that is the lowest.
    theirs = metrics.top_k_accuracy_score(
        k - 1 - labels, p[:, ::-1], k=count, labels=range(k), normalize=False
    )
    assert among_best(answers, count).sum() == theirs
    assert (among_best(answers, 1) == answers.right).all()


def test_top_5_is_a_figure_of_more_than_five_classes():
    for k in (2, 5):
        assert assess(certain([0, 1], [0, 0], k), rounds=ROUNDS).top5 is None
    six = answers_of([[0.4, 0.3, 0.1, 0.1, 0.06, 0.04]] * 4, [0, 1, 4, 5])
    assert assess(six, rounds=ROUNDS).top5.value == 0.75


def test_the_lowest_class_wins_a_tie():
    tied = answers_of([[0.2, 0.4, 0.4]], [1])
    assert tied.given == [1] and tied.right.all() and tied.confidence == np.float32(0.4)


@given(some())
def test_bins_are_those_of_scikit_learn_and_the_error_their_mean_distance(parts):
    answers = answers_of(*parts)
    ours = calibrate(answers, rounds=ROUNDS)
    accuracy, confidence = calibration_curve(answers.right, answers.confidence, n_bins=BINS)
    full = [part for part in ours.bins if part.count]
    assert len(ours.bins) == BINS
    assert [part.confidence for part in full] == pytest.approx(confidence)
    assert [part.accuracy for part in full] == pytest.approx(accuracy)
    assert sum(part.count for part in full) == len(answers.labels)
    for part in ours.bins:
        inside = (answers.confidence > part.low) & (answers.confidence <= part.high)
        assert part.count == inside.sum()
        assert part.count or (part.confidence is None and part.accuracy is None)
    distance = sum(part.count * abs(part.confidence - part.accuracy) for part in full)
    assert ours.error.value == pytest.approx(distance / len(answers.labels))


def test_by_hand():
    answers = answers_of(
        [[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1], [0.8, 0.1, 0.1]], [0, 1, 1, 0], "abc"
    )
    got = assess(answers, rounds=ROUNDS)
    assert got.accuracy.value == 0.75 and got.balanced_accuracy == 0.75
    assert got.confusion.tolist() == [[2, 0, 0], [1, 1, 0], [0, 0, 0]]
    assert got.loss.value == pytest.approx(-np.log([0.9, 0.7, 0.3, 0.8]).mean())
    assert got.brier.value == pytest.approx((0.02 + 0.14 + 0.86 + 0.06) / 4)
    assert got.calibration.error.value == pytest.approx((0.1 + 0.3 + 0.6 + 0.2) / 4)
    a, b, c = got.per_class
    assert (a.count, a.accuracy.value, a.precision, a.f1) == (2, 1.0, 2 / 3, 0.8)
    assert (b.count, b.accuracy.value, b.precision, b.f1) == (2, 0.5, 1.0, 2 / 3)
    assert (c.count, c.accuracy, c.precision, c.f1) == (0, None, None, None)


def test_a_label_without_probability_costs_much_but_not_infinity():
    got = assess(certain([1, 0], [0, 0], 2), rounds=ROUNDS)
    assert got.loss.value == pytest.approx(87.3365 / 2)
    assert got.brier.value == 1.0


def test_losses_that_are_all_zero_are_not_a_share_of_the_items():
    got = assess(certain([0, 1, 0], [0, 1, 0], 2), rounds=ROUNDS)
    assert got.loss == got.brier == Interval(0.0, 0.0, 0.0)
    assert got.accuracy == Interval(1.0, 1 - unseen(3), 1.0)
    assert got.calibration.error == Interval(0.0, 0.0, pytest.approx(unseen(3)))


def test_intervals_are_bootstraps_of_each_item(digits):
    got, n = assess(digits, rounds=400, seed=5), 400
    ask = {"rounds": 400, "seed": 5}
    assert got.accuracy == bootstrap(digits.right.astype(float), **ask)
    assert got.top5 == bootstrap(among_best(digits, 5).astype(float), **ask)
    p = digits.probabilities.astype(float)
    of_label = p[np.arange(n), digits.labels]
    squares = ((p - np.eye(10)[digits.labels]) ** 2).sum(1)
    assert got.loss == pytest.approx(bootstrap(-np.log(of_label), **ask))
    assert got.brier == pytest.approx(bootstrap(squares, **ask))
    seven = digits.right[digits.labels == 7].astype(float)
    assert got.per_class[7].accuracy == bootstrap(seven, **ask)
    assert assess(digits, rounds=400, seed=6).loss != got.loss


def test_the_upper_end_of_the_calibration_error_is_the_plain_bootstraps(digits):
    def errors(rows):
        return np.array([calibrate(part(digits, line), rounds=40).error.value for line in rows])

    plain = bootstrap_of(400, errors, rounds=100, seed=2)
    ours = calibrate(digits, rounds=100, seed=2).error
    assert (ours.value, ours.high) == pytest.approx((plain.value, plain.high))


def part(answers, rows):
    return Answers(answers.probabilities[rows], answers.labels[rows], answers.classes)


def model_with(accuracy, seed, count=300):
    """Answers of two classes with random confidence c, right in accuracy(c) of the cases."""
    generator = np.random.default_rng(seed)
    sure = generator.uniform(0.5, 1, count)
    right = generator.random(count) < accuracy(sure)
    # All labels are 0: the model answers 0 where it is right.
    return answers_of(
        np.where(right[:, None], [1, 0], [0, 1]) * (2 * sure - 1)[:, None] + (1 - sure)[:, None],
        np.zeros(count),
    )


@pytest.mark.parametrize(
    ("accuracy", "truth"),
    [(lambda c: c, 0.0), (lambda c: c - 0.05, 0.05), (lambda c: c - 0.3, 0.3)],
    ids=["calibrated", "nearly", "boastful"],
)
def test_the_calibration_error_is_covered_also_when_it_is_none(accuracy, truth):
    got = [calibrate(model_with(accuracy, s), rounds=200, seed=s).error for s in range(100)]
    assert sum(i.low <= truth <= i.high for i in got) >= 90
    assert all(i.low <= i.value <= i.high for i in got)
    if truth == 0.3:
        assert all(i.low > 0.15 for i in got)


def test_chance_is_the_error_of_calibrated_models():
    seen = [calibrate(model_with(lambda c: c, s), rounds=200, seed=s) for s in range(100)]
    values, chances = [c.error.value for c in seen], [c.chance for c in seen]
    assert np.mean(chances) == pytest.approx(np.mean(values), rel=0.05)


def test_how_much_is_held_at_a_time_does_not_change_calibration(digits, monkeypatch):
    whole = calibrate(digits, rounds=50)
    monkeypatch.setattr(bootstrap_module, "DRAWN_AT_ONCE", 1500)
    assert calibrate(digits, rounds=50) == whole


def test_confidence_above_1_by_rounding_is_in_the_last_bin():
    over = answers_of([[1.0005, 0.0], [1.0, 0.0]], [0, 0])
    assert calibrate(over, rounds=ROUNDS).bins[-1].count == 2


def test_mistakes_come_with_the_most_confident_first_and_ties_by_row():
    answers = answers_of(
        [[0.6, 0.4], [0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.95, 0.05], [0.6, 0.4]],
        [1, 1, 1, 0, 0, 1],
    )
    assert mistakes(answers, 10).tolist() == [1, 3, 0, 5]
    assert mistakes(answers, 3).tolist() == [1, 3, 0]
    assert mistakes(answers, 0).tolist() == []


@given(some())
def test_mistakes_are_all_wrong_answers_and_no_other(parts):
    answers = answers_of(*parts)
    rows = mistakes(answers, len(answers.labels))
    assert sorted(rows) == np.flatnonzero(answers.given != answers.labels).tolist()
    assert (np.diff(answers.confidence[rows]) <= 0).all()


def test_confused_pairs_are_the_most_frequent_mistakes():
    given = [1, 1, 0, 2, 0, 0, 2, 2]
    labels = [0, 0, 0, 0, 2, 2, 2, 1]
    got = assess(certain(given, labels, 3, "abc"), rounds=ROUNDS)
    assert confused_pairs(got, 9) == (("a", "b", 2), ("c", "a", 2), ("a", "c", 1), ("b", "c", 1))
    assert confused_pairs(got, 1)[0].times == 2
    assert got.confusion.trace() == 2, "the assessment was changed"


@given(some())
def test_values_survive_json(parts):
    answers = answers_of(*parts)
    assessment = assess(answers, rounds=ROUNDS)
    values = assessment.to_values()
    again = ClassificationMetrics.from_values(json.loads(json.dumps(values, allow_nan=False)))
    assert again.to_values() == values
    assert again.confusion.dtype == np.int64
    for name in ("accuracy", "top5", "loss", "brier", "calibration", "per_class"):
        assert getattr(again, name) == getattr(assessment, name)
    assert values["accuracy"].keys() == {"value", "low", "high"}


def test_values_of_something_else_are_refused(digits):
    values = assess(digits, rounds=ROUNDS).to_values()
    for broken in ({}, {**values, "loss": 3.0}, {**values, "confusion": [[1, 2]]}):
        with expect_error(ValueError):
            ClassificationMetrics.from_values(broken)


def test_the_summary_in_full():
    assessment = ClassificationMetrics(
        accuracy=Interval(0.975, 0.955, 0.989),
        top5=Interval(1.0, 0.98976, 1.0),
        balanced_accuracy=0.9746,
        loss=Interval(0.0815, 0.0552, 0.1131),
        brier=Interval(0.04, 0.025, 0.0572),
        calibration=Calibration((), Interval(0.0123, 0.0, 0.0256), 0.0094),
        per_class=(
            ClassFigures("cat", 1234, Interval(0.999, 0.997, 1.0), 0.99, 0.99),
            ClassFigures("ox", 9, Interval(0.778, 0.444, 1.0), 0.88, 0.82),
            ClassFigures("emu", 0, None, None, None),
        ),
        confusion=np.array([[1233, 1, 0], [2, 7, 0], [0, 0, 0]]),
    )
    assert summary(assessment) == "\n".join(
        (
            "accuracy            97.5%  (95.5 to 98.9, 1,243 images)",
            "top 5              100.0%  (99.0 to 100.0)",
            "balanced accuracy   97.5%",
            "loss                0.082  (0.055 to 0.113)",
            "Brier score         0.040  (0.025 to 0.057)",
            "calibration error    1.2%  (0.0 to 2.6, 0.9 by chance alone)",
            "weakest class       77.8%  (44.4 to 100.0, class ox, 9 images)",
            "mistakes                3  (2 of them: class ox predicted as cat)",
            "Ranges are 95% intervals over the choice of images.",
        )
    )


def test_the_summary_of_a_model_without_a_mistake_is_no_boast():
    text = summary(assess(certain([0, 1], [0, 1], 2)), "words")
    assert "accuracy           100.0%  (15.8 to 100.0, 2 words)\n" in text
    assert "mistakes                0\n" in text
    assert "weakest" not in text and "top 5" not in text and "images" not in text


HALF = [[0.5, 0.5]]


@pytest.mark.parametrize(
    "fields",
    [
        (HALF, [0], "abc"),
        (np.zeros((0, 2)), [], "ab"),
        ([*HALF * 3, [0.5, 0.4]], [0] * 4, "ab"),
        ([*HALF, [np.nan, 1.0]], [0, 0], "ab"),
        ([[1.5, -0.5]], [0], "ab"),
        ([[7.0, -3.0]], [0], "ab"),
        (HALF * 2, [0, 2], "ab"),
        (HALF * 2, [-1, 0], "ab"),
    ],
)
def test_answers_that_cannot_be_are_refused(fields):
    with expect_error(ValueError):
        answers_of(*fields)


def test_other_kinds_and_shapes_are_refused(in_a_plain_process):
    said = in_a_plain_process("""
import numpy as np
from regard.evaluation.classification import Answers
half = np.full((1, 2), 0.5, np.float32)
for p, labels in (
    (half, np.array([0, 1])),
    (half[0], np.array([0])),
    (half.astype(float), np.array([0], np.int32)),
):
    try:
        Answers(p, labels, ("a", "b"))
    except ValueError as error:
        print(error)
""").splitlines()
    assert "shape (1, 2) and labels (2,); with 2 classes they should be (n, 2) and (n,)" in said[0]
    assert "shape (2,) and labels (1,)" in said[1]
    assert "probabilities are float64 and labels int32" in said[2]


def test_fewer_than_no_mistakes_are_refused(digits):
    for ask in (mistakes, lambda _, count: confused_pairs(assess(digits, rounds=40), count)):
        with expect_error(ValueError):
            ask(digits, -1)


def test_evaluation_needs_no_torch(in_a_new_process):
    assert "False" in in_a_new_process(
        "import sys, regard.evaluation.classification; print('torch' in sys.modules)"
    )
