"""How a measure grows with n, and from where on one is less than another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Points = Sequence[tuple[int, float]]  # a measure against n, n growing


def slope(points: Points) -> float | None:
    """The exponent of n: least squares on logarithms, over the upper half of the sizes."""
    upper = points[len(points) // 2 :] if len(points) > 3 else points[-2:]
    if len(upper) < 2:
        return None
    x, y = ([math.log(value) for value in column] for column in zip(*upper, strict=True))
    middle, level = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - middle) ** 2 for a in x)
    return sum((a - middle) * (b - level) for a, b in zip(x, y, strict=True)) / spread


def foretold(points: Points, n: int) -> float:
    """What a measure will be at n, going on as between the last two sizes; 0 if nothing is known.

    It is taken to grow with n at the least, and with its square where one size alone is known.
    """
    if not points:
        return 0.0
    last, value = points[-1]
    power = 2.0 if len(points) == 1 else max(1.0, slope(points[-2:]) or 1.0)
    return value * (n / last) ** power


def crossover(cheap: Points, full: Points) -> tuple[float | None, int]:
    """From how many tokens on `cheap` is less than `full`, and the largest size both have.

    None where it is not less even there. Between sizes both are straight lines on logarithms; a
    cheap one that is less everywhere is so from the smallest size on.
    """
    known = dict(full)
    gaps = [(n, math.log(value / known[n])) for n, value in cheap if n in known]
    if not gaps:
        return None, 0
    upto = gaps[-1][0]
    if gaps[-1][1] >= 0:
        return None, upto
    lost = [at for at, (_, gap) in enumerate(gaps) if gap >= 0]
    if not lost:
        return float(gaps[0][0]), upto
    (before, above), (after, below) = gaps[lost[-1]], gaps[lost[-1] + 1]
    share = above / (above - below)
    return before * (after / before) ** share, upto


def per_head(rows: Iterable[Mapping[str, Any]], what: str, way: str | None = None) -> Points:
    """A measure against n, divided by the heads it was measured with."""
    found = []
    for row in rows:
        value = row.get(what) if way is None else row[what].get(way)
        if value is not None:
            found.append((row["n"], value / (row["batch"] * row["heads"])))
    return found


def beaten(where: Mapping[str, Any] | None) -> str:
    """Where a contender beats another, in words."""
    if where is None or not where["upto"]:
        return "–"
    if where["from"] is None:
        return f"never up to {where['upto']:,}"
    return f"from {round(where['from']):,}"
