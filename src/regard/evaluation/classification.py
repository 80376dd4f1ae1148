"""How good a classifier's answers are: how often right, where wrong, and whether it knows.

    answers = Answers(probabilities, labels, classes)
    print(summary(assess(answers)))
    mistakes(answers, 10)                 # the rows it was surest of and wrong about

A model's answer is its most probable class; of classes that are equally probable, the lowest.
Intervals are the 95% of `regard.evaluation.bootstrap`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Float32, Int, Int64

from regard.evaluation.bootstrap import (
    ROUNDS,
    Interval,
    Statistic,
    bootstrap,
    bootstrap_of,
    checked,
    in_parts,
    interval_from,
    mean_of,
    middle,
    resampled,
)

BINS = 15  # of confidence, equally wide, as Guo et al. 2017 have them
LEAST = float(np.finfo(np.float32).tiny)  # a label given no probability costs 87.3, not infinity


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model said about n items, and what was true."""

    probabilities: Float32[np.ndarray, "n classes"]
    labels: Int64[np.ndarray, "n"]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        p, labels, k = self.probabilities, self.labels, len(self.classes)
        if p.ndim != 2 or p.shape != (len(labels), k) or labels.ndim != 1:
            raise ValueError(
                f"probabilities have shape {p.shape} and labels {labels.shape}; with {k} classes "
                f"they should be (n, {k}) and (n,)"
            )
        if not len(labels):
            raise ValueError("there are 0 answers; at least one is needed")
        if p.dtype != np.float32 or labels.dtype != np.int64:
            raise ValueError(
                f"probabilities are {p.dtype} and labels {labels.dtype}; they should be float32 "
                "and int64"
            )
        total = p.sum(1, dtype=np.float64)
        strange = ~(np.abs(total - 1) <= 1e-3) | (p.min(1) < 0)  # ~(… <= …) also finds NaN
        if strange.any():
            row = int(strange.argmax())
            raise ValueError(
                f"row {row} of the probabilities sums to {total[row]:.4g} with {p[row].min():.4g} "
                "as its least; it should sum to 1 with none below 0 (of logits, take the softmax)"
            )
        outside = (labels < 0) | (labels >= k)
        if outside.any():
            row = int(outside.argmax())
            raise ValueError(f"labels[{row}] is {labels[row]}; {k} classes are 0 to {k - 1}")

    @property
    def given(self) -> Int64[np.ndarray, "n"]:
        """The class that was answered."""
        return self.probabilities.argmax(1).astype(np.int64)

    @property
    def confidence(self) -> Float[np.ndarray, "n"]:
        """How probable the model held its answer."""
        return self.probabilities.max(1).astype(np.float64)

    @property
    def right(self) -> Bool[np.ndarray, "n"]:
        """Whether the answer was the label."""
        return self.given == self.labels


@dataclass(frozen=True)
class ClassFigures:
    """One class: of its items, how many were found; of the items called so, how many were.

    What has nothing to be measured on is None: the accuracy of a class without items, the
    precision of one that was never answered, the F1 of one that is neither.
    """

    name: str
    count: int
    accuracy: Interval | None  # also called recall
    precision: float | None
    f1: float | None


@dataclass(frozen=True)
class Bin:
    """The answers whose confidence is above `low` and not above `high`; empty, its means are None.

    A calibrated model is right as often as it is confident.
    """

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Calibration:
    """Whether the model is right as often as it says.

    `error` is the mean distance between confidence and accuracy over the bins, each weighted by
    its answers. Chance alone pulls the two apart: `chance` is the error that a perfectly
    calibrated model would show on average with these confidences.
    """

    bins: tuple[Bin, ...]
    error: Interval
    chance: float


@dataclass(frozen=True, eq=False)
class ClassificationMetrics:
    """Every figure of one set of answers."""

    accuracy: Interval
    top5: Interval | None  # the label among the five most probable; None up to five classes
    balanced_accuracy: float  # the mean of the classes' accuracies, each counting the same
    loss: Interval  # the mean of -log p of the label, in nats
    brier: Interval  # squared distance to the truth summed over classes: 0 is best, 2 worst
    calibration: Calibration
    per_class: tuple[ClassFigures, ...]
    confusion: Int[np.ndarray, "classes classes"]  # a row is the truth, a column the answer

    @property
    def count(self) -> int:
        """How many answers there were."""
        return int(self.confusion.sum())

    def to_values(self) -> dict[str, Any]:
        """The same as dictionaries, lists and numbers, for JSON."""
        values: dict[str, Any] = _plain(self)
        return values

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> ClassificationMetrics:
        """What `to_values` was made of."""
        try:
            calibration, k = values["calibration"], len(values["per_class"])
            found = cls(
                accuracy=interval_from(values["accuracy"]),
                top5=_interval(values["top5"]),
                balanced_accuracy=values["balanced_accuracy"],
                loss=interval_from(values["loss"]),
                brier=interval_from(values["brier"]),
                calibration=checked(
                    Calibration(
                        bins=tuple(checked(Bin(**part)) for part in calibration["bins"]),
                        error=interval_from(calibration["error"]),
                        chance=calibration["chance"],
                    )
                ),
                per_class=tuple(
                    checked(ClassFigures(**{**part, "accuracy": _interval(part["accuracy"])}))
                    for part in values["per_class"]
                ),
                confusion=np.array(values["confusion"], np.int64).reshape(k, k),
            )
            if not math.isfinite(found.balanced_accuracy):
                raise ValueError(f"balanced_accuracy is {found.balanced_accuracy}")
            return found
        except (KeyError, TypeError, ValueError, OverflowError) as trouble:
            raise ValueError(f"these are not the values of an assessment: {trouble}") from None


def assess(answers: Answers, *, rounds: int = ROUNDS, seed: int = 0) -> ClassificationMetrics:
    """Every figure there is, the means with intervals of `rounds` resamples."""
    p, labels, n = answers.probabilities, answers.labels, len(answers.labels)
    of_label = p[np.arange(n), labels].astype(np.float64)
    losses = -np.log(np.maximum(of_label, LEAST))
    # Σ (p - truth)² without the matrix of truths, which may be a gigabyte.
    briers = np.einsum("nc,nc->n", p, p, dtype=np.float64) - 2 * of_label + 1

    def share(hits: Bool[np.ndarray, "m"]) -> Interval:
        return bootstrap(hits.astype(np.float64), rounds=rounds, seed=seed)

    def mean(costs: Float[np.ndarray, "n"]) -> Interval:
        # Not `bootstrap`, which would take costs that are all 0 for a share of the items.
        return bootstrap_of(n, mean_of(costs), rounds=rounds, seed=seed)

    found = confusion(answers)
    per_class = []
    for row, name in enumerate(answers.classes):
        count, called, hits = (
            int(x) for x in (found[row].sum(), found[:, row].sum(), found[row, row])
        )
        per_class.append(
            ClassFigures(
                name=name,
                count=count,
                accuracy=share(np.arange(count) < hits) if count else None,
                precision=hits / called if called else None,
                f1=2 * hits / (count + called) if count + called else None,
            )
        )
    return ClassificationMetrics(
        accuracy=share(answers.right),
        top5=share(among_best(answers, 5)) if len(answers.classes) > 5 else None,
        balanced_accuracy=float(np.mean([c.accuracy.value for c in per_class if c.accuracy])),
        loss=mean(losses),
        brier=mean(np.maximum(briers, 0.0)),
        calibration=calibrate(answers, rounds=rounds, seed=seed),
        per_class=tuple(per_class),
        confusion=found,
    )


def confusion(answers: Answers) -> Int64[np.ndarray, "classes classes"]:
    """How often each class (row) was answered as each (column)."""
    k = len(answers.classes)
    pairs = answers.labels * k + answers.given
    return np.bincount(pairs, minlength=k * k).reshape(k, k).astype(np.int64)


def among_best(answers: Answers, count: int) -> Bool[np.ndarray, "n"]:
    """Whether the label is among the `count` most probable classes, lower ones first in a tie."""
    p, labels = answers.probabilities, answers.labels[:, None]
    of_label = np.take_along_axis(p, labels, 1)
    before = (p > of_label) | ((p == of_label) & (np.arange(p.shape[1]) < labels))
    return before.sum(1) < count


def calibrate(answers: Answers, *, rounds: int = ROUNDS, seed: int = 0) -> Calibration:
    """Confidence against accuracy in bins, and the error between them.

    Noise can only add to this error, and a resample adds noise to noise: the plain percentile
    interval never holds the 0 of a calibrated model. So the upper end is the percentile's, the
    lower end lies as far below the value, and it is 0 where a calibrated model could well have
    shown as much.
    """
    n, confidence, right = len(answers.labels), answers.confidence, answers.right
    edges = np.linspace(0, 1, BINS + 1)
    place = np.searchsorted(edges, confidence).clip(1, BINS) - 1  # rounding may exceed 1
    count, sure, hits = (
        np.bincount(place, weights, minlength=BINS) for weights in (None, confidence, right)
    )
    bins = tuple(
        Bin(
            low=float(edges[b]),
            high=float(edges[b + 1]),
            count=int(count[b]),
            confidence=float(sure[b] / count[b]) if count[b] else None,
            accuracy=float(hits[b] / count[b]) if count[b] else None,
        )
        for b in range(BINS)
    )
    value = float(np.abs(sure - hits).sum() / n)
    drawn = resampled(n, _errors(place, confidence - right), rounds=rounds, seed=seed)
    chance = calibrated_errors(place, confidence, rounds=rounds, seed=seed)
    # Without a mistake no resample has one either, but the exact bound on accuracy knows of them.
    accuracy = bootstrap(right.astype(np.float64), rounds=rounds, seed=seed)
    high = max(value, middle(drawn)[1], float(confidence.mean()) - accuracy.low)
    low = 0.0 if value <= middle(chance)[1] else max(0.0, 2 * value - high)
    return Calibration(bins, Interval(value, low, high), float(chance.mean()))


def calibrated_errors(
    place: Int[np.ndarray, "n"], confidence: Float[np.ndarray, "n"], *, rounds: int, seed: int
) -> Float[np.ndarray, "rounds"]:
    """The errors of a model that is right exactly as often as it says, by chance alone."""
    generator, parts = np.random.default_rng(seed), []
    for lines in in_parts(rounds, len(place)):
        right = generator.random((lines, len(place))) < confidence
        parts.append(_errors_of(np.broadcast_to(place, right.shape), confidence - right))
    return np.concatenate(parts)


def mistakes(answers: Answers, count: int) -> Int64[np.ndarray, "found"]:
    """The rows of at most `count` wrong answers, the most confident first, ties by row."""
    _at_least_none(count)
    wrong = np.flatnonzero(~answers.right)
    order = np.argsort(-answers.confidence[wrong], kind="stable")
    return wrong[order[:count]].astype(np.int64)


class Confused(NamedTuple):
    """Items of one class that were answered as another, by the names of the classes."""

    truth: str
    answer: str
    times: int


def confused_pairs(assessment: ClassificationMetrics, count: int) -> tuple[Confused, ...]:
    """At most `count` pairs of classes that were confused, the most frequent first."""
    _at_least_none(count)
    wrong, names = assessment.confusion.copy(), [part.name for part in assessment.per_class]
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:count]
    cells = zip(*np.unravel_index(order, wrong.shape), strict=True)
    return tuple(
        Confused(names[row], names[column], int(wrong[row, column]))
        for row, column in cells
        if wrong[row, column]
    )


def summary(assessment: ClassificationMetrics, items: str = "images") -> str:
    """A few lines for a terminal; `items` is what the answers are about."""
    a, chance = assessment, f"{100 * assessment.calibration.chance:.1f} by chance alone"
    lines = [("accuracy", *_percent(a.accuracy, f"{a.count:,} {items}"))]
    if a.top5:
        lines.append(("top 5", *_percent(a.top5)))
    lines.append(("balanced accuracy", f"{100 * a.balanced_accuracy:.1f}%", ""))
    lines.append(("loss", *_number(a.loss)))
    lines.append(("Brier score", *_number(a.brier)))
    lines.append(("calibration error", *_percent(a.calibration.error, chance)))
    if pairs := confused_pairs(a, 1):
        weakest, accuracy = min(
            ((part, part.accuracy) for part in a.per_class if part.accuracy),
            key=lambda pair: pair[1].value,
        )
        of = f"class {weakest.name}, {weakest.count:,} {items}"
        lines.append(("weakest class", *_percent(accuracy, of)))
        truth, answer, times = pairs[0]
        wrong = a.count - int(a.confusion.trace())
        most = f"({times:,} of them: class {truth} predicted as {answer})"
        lines.append(("mistakes", f"{wrong:,}", most))
    else:
        lines.append(("mistakes", "0", ""))
    first, second = (max(len(line[column]) for line in lines) for column in (0, 1))
    aligned = [
        f"{name:<{first}}  {value:>{second}}  {more}".rstrip() for name, value, more in lines
    ]
    return "\n".join([*aligned, f"Ranges are 95% intervals over the choice of {items}."])


def _errors(place: Int[np.ndarray, "n"], gap: Float[np.ndarray, "n"]) -> Statistic:
    """The statistic of the calibration error, from each item's bin and confidence less right."""
    return lambda rows: _errors_of(place.take(rows), gap.take(rows))


def _errors_of(
    place: Int[np.ndarray, "r n"], gap: Float[np.ndarray, "r n"]
) -> Float[np.ndarray, "r"]:
    r, n = place.shape
    cells = place + BINS * np.arange(r)[:, None]  # all lines counted at once
    gaps = np.bincount(cells.ravel(), gap.ravel(), minlength=r * BINS).reshape(r, BINS)
    return np.abs(gaps).sum(1) / n


def _plain(value: Any) -> Any:
    if isinstance(value, Interval):
        return value._asdict()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _interval(values: Mapping[str, float] | None) -> Interval | None:
    return None if values is None else interval_from(values)


def _percent(interval: Interval, more: str = "") -> tuple[str, str]:
    value, low, high = (100 * part for part in interval)
    return f"{value:.1f}%", f"({low:.1f} to {high:.1f}{', ' if more else ''}{more})"


def _number(interval: Interval) -> tuple[str, str]:
    value, low, high = interval
    return f"{value:.3f}", f"({low:.3f} to {high:.3f})"


def _at_least_none(count: int) -> None:
    if count < 0:
        raise ValueError(f"count={count} is below 0")
