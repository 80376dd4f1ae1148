"""One configuration counted: its closed form, and the real one beside it where that can be run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard.config import to_values
from regard.count.formulas import NUMBER, Cost, Sizes, held_bytes, total, training_peak
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.count.measured import Measured

# Multiply-adds and bytes of activations above which a model is built but not run, by device.
MOST_RUN = {"cpu": (1 << 37, 1 << 32), "cuda": (1 << 44, 1 << 35)}
HUGE = 2_000_000_000  # parameters above which nothing is built, and there is the closed form alone
LONG = 5_000  # operations, all layers counted, above which it is so too: each takes time to build


@dataclass(frozen=True)
class Counted:
    """One configuration: its closed form, and what was measured of the real one."""

    config: Any
    sizes: Sizes
    costs: Sequence[Cost]
    """Of the whole pass."""
    step: Sequence[Cost] | None
    """Of one more token, if there is a cache."""
    cache: int
    """Numbers in it, or what they would be."""
    measured: Measured

    @property
    def agrees(self) -> bool:
        """Whether the parameters are those of the closed form, module by module, if measured."""
        if self.measured.parameters is None:
            return True
        for field in ("weights", "biases"):
            found = {where: n for where, n in getattr(self.measured, field).items() if n}
            if by_module(self.costs, field) != found:
                return False
        return True

    def to_values(self) -> dict[str, Any]:
        """Plain values, for programs."""
        costs, real = self.costs, self.measured
        return {
            "config": to_values(self.config),
            "sizes": vars(self.sizes),
            "parameters": {
                "closed": total(costs, "parameters"),
                "weights": total(costs, "weights"),
                "biases": total(costs, "biases"),
                "measured": real.parameters,
            },
            "multiply_adds": {
                "closed": total(costs, "multiply_adds"),
                "skipped_by_the_mask": total(costs, "skipped"),
                "measured": summed(real.multiply_adds),
                "torch": real.torch,
            },
            "bytes_moved": {
                "closed": NUMBER * total(costs, "moved"),
                "measured": summed(real.moved),
            },
            "activations": {"closed": held_bytes(costs), "measured": real.held},
            "training_peak": NUMBER * training_peak(costs),
            "one_more_token": {
                "closed": None if self.step is None else total(self.step, "multiply_adds"),
                "measured": real.cached,
            },
            "cache": {"closed": NUMBER * self.cache, "measured": real.cache},
        }


def count_one(config: Any, sizes: Sizes, device: str = "cpu", *, run: bool = True) -> Counted:
    """The closed form of a whole pass, and the real thing beside it if it is not too large."""
    listed = closed_form(config, replace(sizes, cached=False))
    heavy, room = MOST_RUN.get(device.partition(":")[0], MOST_RUN["cpu"])
    light = total(listed, "multiply_adds") + total(listed, "skipped") <= heavy
    runs = run and light and held_bytes(listed) <= room
    with as_user_error():
        from regard.count.closed import cache_numbers

        return Counted(
            config,
            sizes,
            listed,
            closed_form(config, sizes) if sizes.cached else None,
            cache_numbers(config, sizes),
            measured_if_small(config, sizes, listed, device, run=runs),
        )


def measured_if_small(
    config: Any, sizes: Sizes, listed: Sequence[Cost], device: str, *, run: bool
) -> Measured:
    """What the real one has; of one that is too large nothing, but its contradictions are told."""
    from regard.count.measured import Measured, measure, parameters
    from regard.training.step_cost import thinned

    if not too_large(listed):
        return measure(config, sizes, device, run=run)
    with suppress(RuntimeError):  # more numbers than torch can say a size of, even without memory
        parameters(thinned(config), sizes)
    return Measured()


def too_large(listed: Sequence[Cost]) -> str:
    """Why something is not built, with its number; nothing where it is."""
    parameters, operations = total(listed, "parameters"), sum(cost.times for cost in listed)
    if parameters > HUGE:
        return f"{parameters:,} parameters, more than {HUGE:,}"
    return f"{operations:,} operations, more than {LONG:,}" if operations > LONG else ""


def closed_form(config: Any, sizes: Sizes) -> list[Cost]:
    from regard.count.closed import costs

    with as_user_error():
        return costs(config, sizes)


@contextmanager
def as_user_error() -> Iterator[None]:
    """What a model says against its own configuration is a user's mistake."""
    try:
        yield
    except ValueError as contradiction:
        raise UserError(str(contradiction)) from None


def by_module(costs: Sequence[Cost], field: str) -> dict[str, int]:
    """A field summed over the operations of each module, those with none left out."""
    found: dict[str, int] = {}
    for cost in costs:
        found[cost.where] = found.get(cost.where, 0) + getattr(cost, field) * cost.times
    return {where: n for where, n in found.items() if n}


def summed(counts: Mapping[str, int] | None) -> int | None:
    return None if counts is None else sum(counts.values())
