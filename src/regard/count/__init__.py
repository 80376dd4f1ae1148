"""What a model costs: parameters, multiply-adds and memory, in closed form beside measured."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.count.formulas import Cost, Sizes

if TYPE_CHECKING:
    from regard.count.closed import cache_numbers, costs
    from regard.count.measured import Measured, measure
    from regard.training.step_cost import Estimate, Peak, estimate

_HOMES = {
    "regard.count.closed": ("costs", "cache_numbers"),
    "regard.count.measured": ("Measured", "measure"),
    "regard.training.step_cost": ("Estimate", "Peak", "estimate"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Cost",
    "Estimate",
    "Measured",
    "Peak",
    "Sizes",
    "cache_numbers",
    "costs",
    "estimate",
    "measure",
]
