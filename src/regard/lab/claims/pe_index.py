"""In the formula of sinusoidal positions, i counts pairs of dimensions: 2i and 2i + 1."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.attention import sinusoidal
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most, equal
from regard.lab.figures import lines
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BASE = 10_000.0
ROUNDING = 1e-9


def measure(width: int = 16, positions: int = 50) -> Evidence:
    """Codes with i as a pair and with i as a dimension, beside those of the library.

    Args:
        width: numbers in the code of a position; an even number of at least 4.
        positions: positions that are coded, of which the first is 0.
    """
    enough(positions=(positions, 1))
    if width < 4:
        raise UserError(f"width={width}: at least 4, so that there are two pairs to tell apart")
    codes = sinusoidal(width).table(torch.arange(positions)).numpy()
    pairs, dimensions = np.arange(width // 2), np.arange(width)
    named = {*(2 * pairs).tolist(), *(2 * pairs + 1).tolist()}
    as_pair, as_dimension = (coded(np.arange(positions), i, width) for i in (pairs, dimensions))
    sines, cosines = codes[:, 0::2], codes[:, 1::2]
    return Evidence(
        deciding=f"i = 0 … {width // 2 - 1} names {len(named)} of {width} dimensions",
        written=(
            at_most("i a dimension: the last 2i + 1", 2 * dimensions[-1] + 1, width - 1),
            at_most("i a dimension: codes, from the library's", far(as_dimension, codes), ROUNDING),
        ),
        corrected=(
            equal("i a pair: the last 2i + 1", max(named), width - 1),
            equal("i a pair: dimensions it names", len(named), width),
            at_most("i a pair: codes, from the library's", far(as_pair, codes), ROUNDING),
            at_most("2i and 2i + 1: sin² + cos², from 1", off_circle(sines, cosines), ROUNDING),
        ),
        controls=(
            at_most(
                "2i + 1 and 2i + 2: sin² + cos², from 1",
                off_circle(sines[:, 1:], cosines[:, :-1]),
                ROUNDING,
            ),
            at_most(
                "i a pair counted from 1: codes, from the library's",
                far(coded(np.arange(positions), pairs + 1, width), codes),
                ROUNDING,
            ),
        ),
        series={
            "dimension": dimensions.astype(float).tolist(),
            "i a pair": wavelengths(dimensions // 2, width),
            "i a dimension": wavelengths(dimensions, width),
        },
    )


def coded(pos: np.ndarray, i: np.ndarray, width: int) -> np.ndarray:
    """The published formula: sine at 2i and cosine at 2i + 1, as far as there are dimensions."""
    codes = np.full((len(pos), 2 * int(i.max()) + 2), np.nan)
    angles = pos[:, None] / BASE ** (2 * i / width)
    codes[:, 2 * (i - i.min())], codes[:, 2 * (i - i.min()) + 1] = np.sin(angles), np.cos(angles)
    return codes


def far(codes: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference; numbers for which there is no dimension count as they are."""
    missing = max(0, codes.shape[1] - wanted.shape[1])
    return float(np.nanmax(np.abs(codes - np.pad(wanted, ((0, 0), (0, missing))))))


def off_circle(sines: np.ndarray, cosines: np.ndarray) -> float:
    return float(np.abs(sines**2 + cosines**2 - 1).max())


def wavelengths(i: np.ndarray, width: int) -> list[float]:
    """Positions until sine and cosine repeat."""
    return [float(each) for each in 2 * math.pi * BASE ** (2 * i / width)]


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        found["dimension"],
        {name: found[name] for name in ("i a pair", "i a dimension")},
        title="How slowly each dimension of a position turns",
        across="dimension",
        up="positions until it repeats",
        log="y",
        about="Dimensions 2i and 2i + 1 share a wavelength; the longest is below 2π · 10,000.",
    )


def ask(numbers: np.random.Generator) -> Question:
    width = int(numbers.choice([4, 8, 16, 32]))
    dimension, pos = int(numbers.integers(2, width)), int(numbers.integers(1, 6))
    i, wave = dimension // 2, "cos" if dimension % 2 else "sin"
    angle = pos / BASE ** (2 * i / width)
    return Question(
        f"Sinusoidal positions have the width ${width}$ and the base $10000$, and dimensions are "
        f"counted from 0. Which $i$ belongs to dimension ${dimension}$, and what is the number in "
        f"that dimension at position ${pos}$? (two numbers, angles in radians)",
        (float(i), float(getattr(math, wave)(angle))),
        why=f"${dimension} = 2 \\cdot {i}{' + 1' if dimension % 2 else ''}$, so "
        f"$\\{wave}({pos} / 10000^{{{2 * i}/{width}}})$",
    )


CLAIM = Claim(
    id="pe-index",
    source="D",
    statement="In $PE(p, 2i) = \\sin(p / 10000^{2i/d})$ and $PE(p, 2i+1) = "
    "\\cos(p / 10000^{2i/d})$, $i$ is the dimension.",
    verdict="corrected",
    truth="$i$ counts pairs of dimensions, from 0 to $d/2 - 1$: the dimensions are $2i$, a sine, "
    "and $2i + 1$, the cosine of the same angle. Were it the dimension, half of the numbers would "
    "have no place to go.",
    measure=measure,
    plot=plot,
    ask=ask,
)
