"""Names that were given up are nowhere: fields, flags, public names, recipes, metrics, weights."""

import ast
import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

import regard as rg
import toy_run
from regard.cli import main
from regard.models import MODELS
from regard.run_folder import RunFolder
from regard.tasks import TASKS, find
from regard.training.fit import train
from retired_names import FIELDS, FLAGS, METRICS, PUBLIC, VALUES, WEIGHTS
from retired_names import TASKS as RETIRED_TASKS

SOURCE = Path(rg.__file__).parent


def classes_in(config: Any) -> Iterator[type]:
    """A configuration's class, those of its tables, and all that they are made from."""
    for each in type(config).__mro__:
        if is_dataclass(each):
            yield each
    for field in fields(config):
        if is_dataclass(getattr(config, field.name)):
            yield from classes_in(getattr(config, field.name))


def configs() -> dict[str, list[type]]:
    """Every configuration class of tasks and models, by name."""
    found: dict[str, list[type]] = {}
    for config in (
        *(find(task).load_config()() for task in TASKS),
        *(entry.config() for entry in MODELS.values()),
    ):
        for each in classes_in(config):
            if each not in found.setdefault(each.__name__, []):
                found[each.__name__].append(each)
    return found


def retired_of(kind: type) -> set[str]:
    """What the class, and those it is made from, do not call a field any more."""
    return {old for base in kind.__mro__ for old in FIELDS.get(base.__name__, {})}


def test_no_field_of_a_configuration_has_a_retired_name() -> None:
    known = configs()
    assert {"StackConfig", "ViTConfig", "TrainConfig", "OptimizerConfig"} <= set(known)
    for kinds in known.values():
        for kind in kinds:
            now = {field.name for field in fields(kind)}
            new = {new for base in kind.__mro__ for new in FIELDS.get(base.__name__, {}).values()}
            assert not now & (retired_of(kind) - new), kind.__name__


def test_every_new_name_of_the_table_is_a_field() -> None:
    """Else the table would say nothing, and the test above could not fail."""
    known = configs()
    for name, table in FIELDS.items():
        for kind in known.get(name, []):
            now = {field.name for field in fields(kind)}
            assert set(table.values()) <= now, name


def test_no_value_of_a_choice_is_retired() -> None:
    import typing

    for (name, field), table in VALUES.items():
        for kind in configs().get(name, []):
            choices = get_args(typing.get_type_hints(kind).get(field))
            new = set(table.values())
            assert not (set(choices) & set(table)) - new, (name, field)


def test_no_public_name_is_retired() -> None:
    assert not set(dir(rg)) & set(PUBLIC)


def keys_of(values: Any, under: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        yield (*under, name)
        if isinstance(value, dict):
            yield from keys_of(value, (*under, name))


@pytest.mark.parametrize("task", TASKS)
def test_no_recipe_has_a_retired_key(task: str) -> None:
    from regard.runs.recipe import recipes

    default = find(task).load_config()()
    for recipe in recipes(task).values():
        for path in keys_of(recipe.values):
            config = default
            for part in path[:-1]:
                config = getattr(config, part)
            assert path[-1] not in retired_of(type(config)) or hasattr(config, path[-1]), path
    assert not {*RETIRED_TASKS} & {*TASKS}


def flags_in(help_text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][\w.-]*", help_text))


def help_of(words: list[str]) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return shown.getvalue()


def retired_flags(task: str) -> set[str]:
    """The retired fields of a task's configuration as they were typed."""
    config = find(task).load_config()()
    found: set[str] = set()

    def walk(value: Any, path: str) -> None:
        now = {field.name for field in fields(value)}
        for old in retired_of(type(value)) - now:
            found.add(f"--{path}{old}".replace("_", "-"))
        for field in fields(value):
            if is_dataclass(getattr(value, field.name)):
                walk(getattr(value, field.name), f"{path}{field.name}.")

    walk(config, "")
    return found


@pytest.mark.parametrize("task", TASKS)
def test_no_flag_of_a_task_is_retired(task: str) -> None:
    shown = flags_in(help_of(["train", task]))
    assert len(shown) > 30 and len(retired_flags(task)) > 15
    assert not shown & retired_flags(task)


@pytest.mark.parametrize("command", FLAGS)
def test_no_flag_of_a_command_is_retired(command: str) -> None:
    words = {"count": ["count", "vit"]}.get(command, [command])
    shown = flags_in(help_of(words))
    assert shown and not shown & set(FLAGS[command])


def strings_in(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_metric_has_a_retired_name() -> None:
    old = re.compile(r"^(validation|train)\.(accuracy|loss|true|likelihood|\w+ accuracy)$")
    for path in SOURCE.rglob("*.py"):
        assert not [text for text in strings_in(path) if old.match(text)], path
    for path in SOURCE.rglob("*.js"):
        assert not re.search(r"[\"'`](validation|train)\.", path.read_text(encoding="utf-8")), path


def test_a_line_of_metrics_has_the_names_of_today(tmp_path: Path) -> None:
    config = replace(toy_run.CONFIG, epochs=1)
    folder, model = RunFolder.at(tmp_path / "run"), toy_run.model()
    train(model, toy_run.Points(16), toy_run.objective, toy_run.measure, config, folder)
    (line,) = folder.metrics()
    wanted = {"epoch", "step", "train/loss", "lr", "train_seconds", "data_wait_seconds", "is_best"}
    assert wanted <= set(line) and not set(line) & set(METRICS)


@pytest.mark.parametrize("name", MODELS)
def test_no_weight_has_a_retired_name(name: str) -> None:
    entry = MODELS[name]
    with torch.device("meta"):
        model = entry.build(
            **{field.name: getattr(entry.config(), field.name) for field in fields(entry.config)}
        )
    for weight in model.state_dict():
        assert not any(re.search(pattern, weight) for pattern in WEIGHTS), weight
