"""How far a run is from what its recipe promises: what is said once the run has been measured."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from regard.runs.recipe import recipes
from regard.runs.record import headline, settled_recipe
from regard.runs.session import departures, figure_words
from regard.tasks.several import few_names
from regard.tasks.task import Judged

if TYPE_CHECKING:
    from regard.runs.run import Run


def promise_kept(run: Run, judged: Judged) -> str | None:
    """The figure promised beside the one that was measured, if the run's recipe promises one."""
    recipe = recipes(run.task.name).get(str(run.folder.about().get("recipe")))
    if recipe is None or not recipe.about.expected:
        return None
    about = recipe.about
    in_words = partial(figure_words, about.metric)
    away = headline(judged) - about.expected
    departs = departures(run.config, settled_recipe(recipe, run))
    own = f", which has its own {few_names(departs)}," if departs else ""
    return (
        f"recipe {recipe.name} promises {about.metric} {in_words(about.expected)}, give or take "
        f"{in_words(about.tolerance)}: this run{own} is {'+' * (away >= 0)}{in_words(away)}"
    )
