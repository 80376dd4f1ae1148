"""Transformers you can see through.

    import regard as rg
    read, weights = rg.attend(q, k, v, mask=rg.causal & (rg.window(64) | rg.sinks(4)))

Names are fetched from their stage when first used, so importing regard imports no torch.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from regard import training as train

__version__ = "0.1.0"

if TYPE_CHECKING:
    from regard.attention import *  # noqa: F403
    from regard.models import *  # noqa: F403
    from regard.tasks import Run as Run
    from regard.tasks import load as load

STAGES = ("regard.models", "regard.attention")  # the first answers for configurations, torch-free
VERBS = ("Run", "load")  # from the tasks, together with `train`


class _Verb(ModuleType):
    """`rg.train(…)`: the stage of that name, called, trains.

    Importing anything from `regard.training` makes Python put that folder under the name, whatever
    stood there before; so the folder itself answers the call.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Train a model and return its run: see `regard.runs.run.train`."""
        return import_module("regard.runs.run").train(*args, **options)


train.__class__ = _Verb


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
