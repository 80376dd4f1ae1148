"""A sinusoidal position moves on by a rotation, which is the same wherever one starts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mpmath  # type: ignore[import-untyped]
import numpy as np
import torch

from regard.attention import learned, sinusoidal
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most
from regard.lab.figures import COLOURS, SIZE
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNIT = 2.0**-52
BASE = 10_000.0


def measure(width: int = 16, shift: int = 3, farthest: int = 1_000_000, seed: int = 0) -> Evidence:
    """One matrix for all positions, from 0 to a million, against the codes of the library.

    An angle pos · ω is rounded in proportion to pos, and so is the error that is allowed.

    Args:
        width: numbers in the code of a position.
        shift: positions to move on by; at least 1.
        farthest: the last position.
        seed: where the random numbers of the learned table, a control, start.
    """
    enough(width=(width, 1), farthest=(farthest, 1))
    if shift < 1:
        raise UserError(f"shift={shift}: at least 1; to stay needs no turn")
    pos = torch.from_numpy(np.unique(np.geomspace(1, farthest, 200).astype(int) - 1))
    codes = sinusoidal(width)
    here, there = codes.table(pos).numpy(), codes.table(pos + shift).numpy()
    turn = rotation(width, shift)
    rounding = 4 * UNIT * (pos.numpy() + shift + 1.0)

    def off(wanted: np.ndarray, found: np.ndarray) -> float:
        return float((np.abs(wanted - found).max(-1) / rounding).max())

    some = [0, len(pos) // 2, len(pos) - 1]
    exact = np.array([exact_code(int(pos[at]), width) for at in some])
    wrong = np.abs(exact - here[some]).max(-1) / (8 * rounding[some])
    # Positions without a rule: the best matrix for all of them is still far off.
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        table = learned(16 * width, width).table.detach().double().numpy()
    best, *_ = np.linalg.lstsq(table[:-shift], table[shift:], rcond=None)
    left = np.abs(table[:-shift] @ best - table[shift:]).max() / np.abs(table).max()
    errors = np.abs(here @ turn.T - there).max(-1)
    return Evidence(
        deciding=f"up to position {int(pos[-1]):,}: error {errors.max():.1e}",
        written=(
            at_most("rotated code, over what rounding allows", off(here @ turn.T, there), 1.0),
            at_most("transposed, backwards, the same", off(there @ turn, here), 1.0),
            at_most("codes against mpmath, the same", float(wrong.max()), 1.0),
        ),
        controls=(
            at_most("transposed, forwards, the same", off(here @ turn, there), 1.0),
            at_most("one matrix for a learned table: relative error", float(left), 1e-6),
        ),
        series={
            "position": pos.tolist(),
            "error": errors.tolist(),
            "allowed": rounding.tolist(),
            "shift": shift,
            "frequency": frequencies(width).tolist(),
        },
    )


def rotation(width: int, shift: int) -> np.ndarray:
    """[[cos, sin], [−sin, cos]] of shift · ω along the diagonal, for the order (sin, cos)."""
    turn = np.zeros((width, width))
    for i, angle in enumerate(shift * frequencies(width)):
        at = slice(2 * i, 2 * i + 2)
        turn[at, at] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    return turn


def frequencies(width: int) -> np.ndarray:
    return BASE ** (-np.arange(0, width, 2) / width)


def exact_code(pos: int, width: int) -> list[float]:
    """The code with thirty digits, rounded at the end alone."""
    with mpmath.workdps(30):
        angles = [pos / mpmath.mpf(BASE) ** (mpmath.mpf(i) / width) for i in range(0, width, 2)]
        return [float(wave(angle)) for angle in angles for wave in (mpmath.sin, mpmath.cos)]


def plot(evidence: Evidence) -> Figure:
    from regard.visualization.figures import INK, MUTED, Page, drawing

    shift, found = evidence.series["shift"], evidence.series["frequency"]
    pairs = [*range(min(4, len(found)))]
    title = f"Every step of {shift} turns a pair by the same angle, wherever it starts"
    with drawing(title):
        page = Page(3.0, SIZE[0])
        page.words(0.25, 0.2, title, fontsize=11, weight="bold", color=INK)
        page.words(
            0.25,
            0.5,
            f"Sine and cosine of positions 0, {shift}, {2 * shift} … in the first pairs of "
            "dimensions; the later the dot, the larger it is.",
            fontsize=8,
            color=MUTED,
        )
        side, gap = 1.36, 0.16
        for pair in pairs:
            axes = page.axes(0.25 + pair * (side + gap), 1.15, side, side)
            angle = shift * found[pair]
            around = np.linspace(0, 2 * math.pi, 100)
            axes.plot(np.sin(around), np.cos(around), color="#e1e6ec", linewidth=1)
            at = angle * np.arange(7)
            axes.scatter(np.sin(at), np.cos(at), s=6 + 6 * np.arange(7), color=COLOURS[0], zorder=3)
            for first, colour in ((0, COLOURS[1]), (3, COLOURS[2])):
                arc = np.linspace(at[first], at[first] + angle, 40)
                far = 0.62 if first else 0.78
                axes.plot(far * np.sin(arc), far * np.cos(arc), color=colour, linewidth=2)
            for step, name in ((0, "0"), (1, f"{shift}")):
                if step == 0 or min(angle, 1) > 0.2:
                    x, y = 1.22 * np.sin(at[step]), 1.22 * np.cos(at[step])
                    axes.text(x, y, name, ha="center", va="center", fontsize=8, color=MUTED)
            axes.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35))
            axes.spines[:].set_visible(False)
            axes.set_title(f"dimensions {2 * pair}, {2 * pair + 1}", fontsize=8.5, color=INK, pad=2)
            axes.set_xlabel(f"{math.degrees(angle):.3g}° a step", fontsize=8, color=MUTED)
        page.words(
            0.25,
            2.78,
            f"Inner arcs: the turn from 0 to {shift}, and that from {3 * shift} to {4 * shift}.",
            fontsize=8,
        )
        return page.figure


def ask(numbers: np.random.Generator) -> Question:
    shift, i = int(numbers.integers(2, 10)), int(numbers.integers(0, 3))
    width = int(numbers.choice([8, 16, 32]))
    angle = shift * BASE ** (-2 * i / width)
    return Question(
        f"Positions are coded with width ${width}$ and base $10000$. The pair $i = {i}$ of "
        f"position $p + {shift}$ is a matrix times that of $p$, in the order (sine, cosine). What "
        "is the first row of the matrix? (two numbers, angles in radians)",
        (math.cos(angle), math.sin(angle)),
        why=f"$(\\cos, \\sin)$ of ${shift} / 10000^{{{2 * i}/{width}}} = {angle:.4g}$",
    )


CLAIM = Claim(
    id="sinusoid-shift",
    source="D",
    statement="The code of position $p + \\varphi$ is a linear function of that of $p$ which does "
    "not depend on $p$.",
    verdict="holds",
    truth="Each pair (sine, cosine) turns by $\\varphi$ times its frequency, by the matrix "
    "[[cos, sin], [−sin, cos]]; its transpose turns back. Rounding grows with the position, "
    "as $p \\cdot 2^{-52}$.",
    measure=measure,
    plot=plot,
    ask=ask,
)
