"""A statement of the theory, where it stands, and how it is checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.lab.evidence import Evidence, Verdict

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from regard.lab.question import Question

SOURCES = {
    "A": "ECS795P, coursework 1",
    "B": "CSCI-GA 2572, homework 4",
    "C": "exercise 05, vision transformers",
    "D": "assignment 2, captioning",
    "E": "chapter 12, problems on transformers",
}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One row of the lab.

    `measure` takes the numbers that a user may put in the place of ours, by name and with
    defaults, and returns what it found. Formulas in `statement` and `truth` stand between dollars,
    as in TeX.
    """

    id: str
    source: str  # the document's letter and the place in it: "B 1.1b"
    statement: str  # as it is published
    verdict: Verdict  # what must be found
    truth: str  # the correction, the condition or the answer; of what holds, why it does
    measure: Callable[..., Evidence]
    plot: Callable[[Evidence], Figure] | None = None
    ask: Callable[[np.random.Generator], Question] | None = None  # for a worksheet
    train: Callable[[str], dict[str, Any]] | None = None  # on a device: makes what is recorded
