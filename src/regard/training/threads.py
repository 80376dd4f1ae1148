"""How many threads torch computes with on a CPU: the fewest that are about as fast as any.

A second thread halves the time of a large step and adds nothing to a small one; beside another busy
process it can make a step several times slower, since all threads wait for the last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median
from typing import Literal

import torch

Threads = Literal["auto"] | int

WORTH = 1.2  # how much faster a step must be with all threads to take more than one
TRIAL = 1.5  # seconds that a comparison may take, once each has been tried
ROUNDS = 24  # turns that are enough, however short the steps are


def threads_to_try(threads: Threads, environment: Mapping[str, str] = os.environ) -> list[int]:
    """The numbers of threads that come into question, fewest first.

    What was said in so many words stands: a number, or an OMP_NUM_THREADS of the user's or of
    torchrun's. Otherwise one thread, and as many as torch would take.
    """
    if threads != "auto":
        return [threads]
    most = torch.get_num_threads()
    if environment.get("OMP_NUM_THREADS") or environment.get("MKL_NUM_THREADS"):
        return [most]
    return sorted({1, most})


def compare_threads(numbers: list[int], step: Callable[[], None]) -> dict[int, float]:
    """Seconds that a step takes with each number of threads, in turns so that drift hits all.

    Medians, because beside another process the fastest step is the one that was left alone.
    """
    times: dict[int, list[float]] = {number: [] for number in numbers}
    for turn in range(1 + ROUNDS):
        for number in numbers:
            torch.set_num_threads(number)
            began = time.perf_counter()
            step()
            times[number].append(time.perf_counter() - began)
        if turn == 0:
            times = {number: [] for number in numbers}  # the first step of each was a warm-up
            clock = time.perf_counter()
        elif time.perf_counter() - clock > TRIAL:
            break
    return {number: median(each) for number, each in times.items()}


def fewest_of_the_fast(seconds: Mapping[int, float]) -> int:
    """The number of threads to take: more than the fewest only where that is worth it."""
    fewest, fastest = min(seconds), min(seconds, key=lambda number: seconds[number])
    return fastest if seconds[fewest] > WORTH * seconds[fastest] else fewest


@contextmanager
def keeping_threads() -> Iterator[None]:
    """Leave the caller's number of threads as it was."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
