"""Timing side by side: contenders take turns in one process, so that drift hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any, NamedTuple

import torch
from torch import nn


class Timing(NamedTuple):
    """Seconds of one call: the median over the rounds and the quartiles around it."""

    low: float
    median: float
    high: float


def interleave(
    contenders: Mapping[str, Callable[[], Any]],
    device: torch.device,
    *,
    rounds: int = 9,
    seconds: float = 0.02,
    settle: bool = True,
) -> dict[str, Timing]:
    """Time every contender once a round, each turn at least `seconds` long.

    Rounds start with another contender in turn, and each turn with a call that is not timed, so
    that nobody always pays for what the one before it left in caches and memory. Calls so long
    that this is nothing beside them need not `settle`.
    """
    repeats = {}
    for name, run in contenders.items():
        run()  # compilation and first-touch allocations are not what is measured
        once = _turn(run, 1, device)
        repeats[name] = max(1, min(1000, int(seconds / max(once, 1e-7))))
    turns: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for first in range(rounds):
        for at in range(len(names)):
            name = names[(first + at) % len(names)]
            if settle:
                contenders[name]()
            turns[name].append(_turn(contenders[name], repeats[name], device))
    return {name: _timing(seen) for name, seen in turns.items()}


def _turn(run: Callable[[], Any], repeats: int, device: torch.device) -> float:
    if device.type == "cuda":
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize(device)
        start.record()
        for _ in range(repeats):
            run()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / 1e3 / repeats
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - begin) / repeats


def _timing(turns: list[float]) -> Timing:
    if len(turns) < 2:
        return Timing(turns[0], turns[0], turns[0])
    low, median, high = statistics.quantiles(turns, n=4, method="inclusive")
    return Timing(low, median, high)


def matmul_peak(device: torch.device, dtype: torch.dtype) -> float:
    """Multiply-adds times two per second of a large matrix product: the ceiling to compare with."""
    side = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    timing = interleave({"product": lambda: a @ b}, device, rounds=5)["product"]
    return 2 * side**3 / timing.median


def count(model: nn.Module) -> int:
    """How many numbers a model has to learn."""
    return sum(parameter.numel() for parameter in model.parameters())


def version(name: str) -> str | None:
    """Of an installed package, if it says."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # copied beside us rather than installed
        return None
