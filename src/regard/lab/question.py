"""A question of a worksheet, with numbers of its own, and its answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """What is asked, formulas between dollars, and what is right."""

    text: str
    answer: float | tuple[float, ...] | str  # a number, several in order, or one of `choices`
    tolerance: float = 0.01  # share of a number by which an answer may differ; 0: exactly
    choices: tuple[str, ...] = ()
    why: str = ""  # for the key: how one gets there

    def right(self, given: object) -> bool:
        """Whether an answer is right; one of another kind is not."""
        if isinstance(self.answer, str):
            return isinstance(given, str) and given.strip().lower() == self.answer.lower()
        if isinstance(self.answer, tuple):
            if not isinstance(given, Sequence) or isinstance(given, str):
                return False
            if len(given) != len(self.answer):
                return False
            return all(map(self.near, given, self.answer))
        return self.near(given, self.answer)

    def near(self, given: object, wanted: float) -> bool:
        if isinstance(given, bool) or not isinstance(given, int | float):
            return False
        # Zero has no share of itself to differ by.
        slack = 1e-9 if wanted == 0 else 0.0
        return math.isclose(given, wanted, rel_tol=self.tolerance, abs_tol=slack)
