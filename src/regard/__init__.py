"""Transformers you can see through.

    import regard as rg
    output, weights = rg.attend(q, k, v, mask=rg.causal & (rg.window(64) | rg.sinks(4)))

Names are fetched from their stage when first used, so importing regard imports no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import ConfigError as ConfigError
from regard.errors import DataIssue as DataIssue
from regard.errors import UserError as UserError

__version__ = "0.1.0"

if TYPE_CHECKING:
    from regard.attention import *  # noqa: F403
    from regard.models import *  # noqa: F403
    from regard.runs.run import Run as Run
    from regard.runs.run import load as load
    from regard.runs.run import train as train

STAGES = ("regard.models", "regard.attention")  # the first answers for configurations, torch-free
VERBS = ("Run", "load", "train")  # of runs


def __getattr__(name: str) -> Any:
    if name in VERBS:
        return getattr(import_module("regard.runs.run"), name)
    if not name.startswith("_"):
        for stage in map(import_module, STAGES):
            if name in stage.__all__:
                value = globals()[name] = getattr(stage, name)
                return value
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(
        {*globals(), *VERBS, *(name for s in STAGES for name in import_module(s).__all__)}
    )
