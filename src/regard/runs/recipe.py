"""Recipes: TOML files with a task's configuration, and what to expect of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from regard.config import build, parse_toml, table
from regard.errors import ConfigError, UserError, nearest
from regard.tasks import ELSEWHERE, called, find

C = TypeVar("C")
MOST_EPOCHS = 50  # that follow from how few images there are
FOLDER = Path(__file__).parents[1] / "tasks" / "recipes"


@dataclass(frozen=True, kw_only=True)
class About:
    """The head of a recipe: the table [recipe]."""

    task: str
    """What it is a recipe for."""
    description: str = ""
    """What it makes, in a line."""
    command: str = ""
    """How it is typed."""
    hardware: str = ""
    """What the time and the figure below were measured on."""
    minutes: float = 0.0
    """How long it takes there."""
    metric: str = ""
    """Which figure to expect."""
    expected: float = 0.0
    """Its value."""
    tolerance: float = 0.0
    """How far from it a single run may be."""
    default: bool = False
    """Whether it is taken for its data when no recipe is named."""
    shape: tuple[int, ...] = ()
    """Channels, rows and columns of images for which it is taken too, whoever's they are, …"""
    images: int = 0
    """… and how many of them it was made for: of fewer it makes more epochs."""


@dataclass(frozen=True)
class Recipe:
    """A recipe that was read: where it comes from, its head, and the values of a configuration."""

    name: str
    about: About
    values: Mapping[str, Any]
    why: str = ""  # it was chosen, if not for the name of its data

    def config(self, kind: type[C]) -> C:
        """The configuration, or a sentence about the key that is wrong."""
        return build(kind, self.values, source=self.name)


def read_recipe(path: Path, task: str) -> Recipe:
    """A recipe from a file of yours, or the configuration of a run."""
    whole = parse_toml(path)
    if "run" in whole:  # config.toml of a run
        head, values = {"task": whole.get("task", task)}, table(whole, "run", source=str(path))
    else:
        head = {"task": task, **table(whole, "recipe", source=str(path))}
        values = {name: value for name, value in whole.items() if name != "recipe"}
    about = build(About, head, source=str(path), under="recipe")
    if ELSEWHERE.get(about.task, about.task) != called(task):
        wrong = f"{path} is a recipe for {about.task}, not for {task}"
        raise ConfigError(wrong, key="recipe.task", value=about.task, file=str(path))
    return Recipe(str(path), about, values)


def recipes(task: str) -> dict[str, Recipe]:
    """The recipes that come with regard, by name."""
    task, found = called(task), {}
    for path in sorted((FOLDER / task).glob("*.toml")):
        recipe = read_recipe(path, task)
        found[path.stem] = Recipe(path.stem, recipe.about, recipe.values)
    return found


def choose_recipe(task: str, name: str | None = None, data: str | None = None) -> Recipe:
    """The recipe named, by name or path; else the one for the data; else that for your own.

    Of your own data, images may be of a shape that a recipe is for.
    """
    task = called(task)
    known = recipes(task)
    if name is not None:
        if name in known:
            return known[name]
        if name.endswith(".toml") or os.path.isfile(name):
            return read_recipe(Path(name), task)
        raise UserError(f"no recipe {name!r} for {task}, nor such a file; {nearest(name, known)}")
    default = [recipe for recipe in known.values() if recipe.about.default]
    if data is None:
        data = find(task).load_config()().data
    own = next(recipe for recipe in default if not recipe.values.get("data"))
    found = next((recipe for recipe in default if recipe.values.get("data") == data), None)
    if found is None and (shaped := [recipe for recipe in default if recipe.about.shape]):
        found = fitting(shaped, data)
    return found or own


def fitting(shaped: Sequence[Recipe], data: str) -> Recipe | None:
    """The recipe for images of the shape that these have, as long as that many need it."""
    from regard.data.peek import peek

    seen = peek(data)
    recipe = next((each for each in shaped if seen and each.about.shape == seen.shape), None)
    if seen is None or recipe is None:
        return None
    channels, rows, columns = seen.shape
    values = dict(recipe.values)
    train = values["train"] = dict(table(values, "train", source=recipe.name))
    more = round(recipe.about.images / max(1, seen.images) * train["epochs"])
    train["epochs"] = min(MOST_EPOCHS, max(train["epochs"], more))
    grey = "grey" if channels == 1 else "coloured"
    return replace(recipe, values=values, why=f"as images are {grey}, {rows} × {columns}")
