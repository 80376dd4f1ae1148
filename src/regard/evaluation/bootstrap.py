"""How far a figure can be trusted: measure it again on items drawn anew from the same ones.

    right = (answers == labels).astype(float)
    bootstrap(right)                      # Interval(value=0.975, low=0.955, high=0.989)
    bootstrap_difference(right, others)   # two models on the same items

A test set is one draw of many that could have been made. Drawing as many items from it, with
replacement, imitates another draw; the middle 95% of a figure over 2000 of them is the interval
(the percentile bootstrap, Efron 1979). It tells of the luck in the choice of items and of nothing
else: neither of another training seed, nor of images that are unlike these. The same seed gives
the same interval.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from jaxtyping import Float, Int

from regard.config import check_kinds

T = TypeVar("T")
ROUNDS = 2000
LEVEL = 0.95
DRAWN_AT_ONCE = 1 << 20  # rows held at a time, 8 MB, unless a single resample has more

# Given rows of the items, one resample a line, the figure of each resample.
Statistic: TypeAlias = Callable[[Int[np.ndarray, "r n"]], Float[np.ndarray, "r"]]


class Interval(NamedTuple):
    """A figure as measured, and the ends between which another draw would likely put it."""

    value: float
    low: float
    high: float


def interval_from(values: Any) -> Interval:
    """An interval from what its `_asdict` gave: three finite numbers."""
    found = Interval(**values)
    if not all(type(each) in (int, float) and math.isfinite(each) for each in found):
        raise ValueError(f"{values!r:.200} has something else than three numbers")
    return found


def rows_from(values: Any) -> Float[np.ndarray, "n"]:
    """One finite number an item, from the list that was kept of them."""
    found = np.array(values, np.float64)
    if found.ndim != 1 or not len(found) or not np.isfinite(found).all():
        raise ValueError(f"{values!r:.200} is no list of numbers, one an item")
    return found


def checked(found: T) -> T:
    """A dataclass that was read from a file, with each field of the kind it is declared as."""
    check_kinds(found)
    return found


def bootstrap(
    values: Float[np.ndarray, "n"], *, rounds: int = ROUNDS, level: float = LEVEL, seed: int = 0
) -> Interval:
    """The mean of one value an item.

    Where all values are 0, or all 1, every resample is the same and the bootstrap would claim
    certainty, so the exact bound of Clopper and Pearson (1934) stands in: 20 of 20 right is
    1.0, from 0.83. Other values without any spread, a single loss for one, give a point.
    """
    values = _checked(values, "values")
    n, share = len(values), float(values.mean())
    if not _zeros_and_ones(values):
        return bootstrap_of(n, mean_of(values), rounds=rounds, level=level, seed=seed)
    _check(rounds, level)
    if share in (0.0, 1.0):
        hidden = unseen(n, level)
        return Interval(share, max(0.0, share - hidden), min(1.0, share + hidden))
    # How many ones a resample has is binomial, so it is drawn as such: a draw instead of n.
    drawn = np.random.default_rng(seed).binomial(n, share, rounds) / n
    return Interval(share, *middle(drawn, level))


def bootstrap_difference(
    a: Float[np.ndarray, "n"],
    b: Float[np.ndarray, "n"],
    *,
    rounds: int = ROUNDS,
    level: float = LEVEL,
    seed: int = 0,
) -> Interval:
    """The mean of `a` less the mean of `b`, both measured on the same items in the same order.

    Items are drawn in pairs, so what makes an item hard for both cancels. Zeros and ones that
    differ by the same amount everywhere get an exact bound, as in `bootstrap`: two models that
    agree on all of 20 items may still differ by 0.17 either way.
    """
    a, b = _checked(a, "a"), _checked(b, "b")
    if len(a) != len(b):
        raise ValueError(f"a has {len(a)} values and b {len(b)}; they are compared in pairs")
    gap = a - b
    if _zeros_and_ones(a) and _zeros_and_ones(b) and np.ptp(gap) == 0:
        _check(rounds, level)
        same = float(gap[0])
        # An unseen item is at worst at the far end: 1 away from agreement, 2 from -1 or 1.
        hidden = unseen(len(gap), level) * (1 + abs(same))
        return Interval(same, max(-1.0, same - hidden), min(1.0, same + hidden))
    return bootstrap_of(len(gap), mean_of(gap), rounds=rounds, level=level, seed=seed)


def bootstrap_of(
    count: int, statistic: Statistic, *, rounds: int = ROUNDS, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Any figure of `count` items.

    `statistic` is given the numbers of items, one resample a line, and returns one figure a line:
    for a median, `lambda rows: np.median(values[rows], axis=-1)`.
    """
    _check(rounds, level)
    drawn = resampled(count, statistic, rounds=rounds, seed=seed)
    value = float(statistic(np.arange(count)[None])[0])
    strange = int((~np.isfinite(drawn)).sum())
    if strange or not math.isfinite(value):
        raise ValueError(
            f"the figure is {value} of all {count} items, and not a finite number in {strange} of "
            f"{rounds} resamples: it needs a value where what it counts does not occur"
        )
    return Interval(value, *middle(drawn, level))


def resampled(
    count: int, statistic: Statistic, *, rounds: int = ROUNDS, seed: int = 0
) -> Float[np.ndarray, "rounds"]:
    """The figure of each of `rounds` resamples, a few of which are in memory at a time."""
    if count < 1:
        raise ValueError(f"{count} items have no figure; at least one is needed")
    generator, parts = np.random.default_rng(seed), []
    for lines in in_parts(rounds, count):
        figures = np.asarray(statistic(generator.integers(count, size=(lines, count))), np.float64)
        if figures.shape != (lines,):
            raise ValueError(
                f"the statistic gave {figures.shape} for {lines} resamples; it should give one "
                "figure for each, reducing the last axis only"
            )
        parts.append(figures)
    return np.concatenate(parts)


def in_parts(rounds: int, count: int) -> Iterator[int]:
    """How many resamples of `count` items to hold at a time, until there were `rounds`."""
    step = max(1, DRAWN_AT_ONCE // count)
    for start in range(0, rounds, step):
        yield min(step, rounds - start)


def mean_of(values: Float[np.ndarray, "n"]) -> Statistic:
    """The statistic of a mean."""
    return lambda rows: values.take(rows).mean(-1)


def middle(drawn: Float[np.ndarray, "rounds"], level: float = LEVEL) -> tuple[float, float]:
    """The ends that cut off as many figures below as above, and leave `level` of them between."""
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def unseen(count: int, level: float = LEVEL) -> float:
    """How frequent a thing may be that did not occur in `count` items.

    A thing of frequency f is missed with probability (1 - f)^count; this is the f at which that
    falls to half of what the level leaves, as Clopper and Pearson take it.
    """
    return -math.expm1(math.log((1 - level) / 2) / count)


def _checked(values: Float[np.ndarray, "n"], name: str) -> Float[np.ndarray, "n"]:
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} has shape {values.shape}; one value an item, at least one")
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"{name}[{row}] is {values[row]}, and has no mean with the others")
    return values


def _zeros_and_ones(values: Float[np.ndarray, "n"]) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def _check(rounds: int, level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level={level} is not between 0 and 1, such as 0.95")
    needed = math.ceil(2 / (1 - level) - 1e-6)
    if rounds < needed:
        raise ValueError(
            f"rounds={rounds} leave no figure outside the middle {level:.4g} of them; take "
            f"{needed} or more"
        )
