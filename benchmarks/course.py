"""How right a model has become after how many seconds, by a clock that stops while it is asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

Accuracy = Callable[[nn.Module], float]


class Point(NamedTuple):
    """One look: seconds of training so far, images seen, and the share of right answers."""

    seconds: float
    images: int
    accuracy: float


class Course:
    """One training towards a goal; `over` once that is met, or once the time is up.

    The clock starts when the course is made. `now` tells the time in seconds.
    """

    def __init__(
        self,
        accuracy: Accuracy,
        *,
        goal: float,
        every: int,
        limit: float,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.accuracy, self.goal, self.every, self.limit = accuracy, goal, every, limit
        self.now, self.began, self.asking = now, now(), 0.0
        self.points: list[Point] = []
        self.next, self.spent, self.over = every, 0.0, False

    def seconds(self) -> float:
        """Seconds since the beginning, without those in which the model was asked."""
        return self.now() - self.began - self.asking

    def saw(self, model: nn.Module, images: int) -> None:
        """After each step: how many images the model has learnt from altogether."""
        self.spent = self.seconds()
        if images >= self.next:
            self.next = (images // self.every + 1) * self.every
            paused = self.now()
            right = self.accuracy(model)
            self.asking += self.now() - paused
            self.points.append(Point(self.spent, images, right))
            self.over = right >= self.goal
        self.over = self.over or self.spent >= self.limit

    @property
    def reached(self) -> Point | None:
        """Where the goal was first met, if it was."""
        return next((point for point in self.points if point.accuracy >= self.goal), None)

    def to_values(self) -> dict[str, Any]:
        met = self.reached
        return {
            "reached": None if met is None else met.seconds,
            "images": self.points[-1].images if self.points else 0,
            "spent": self.spent,
            "points": [list(point) for point in self.points],
        }

    def __str__(self) -> str:
        best = max((point.accuracy for point in self.points), default=0.0)
        if (met := self.reached) is not None:
            return f"{met.accuracy:.1%} after {met.seconds:.2f} s and {met.images:,} images"
        return f"given up after {self.spent:.1f} s, at {best:.1%}: {self.goal:.1%} was not reached"
