"""What errors know of themselves: keys, values, files and lines, which outlive every rewording."""

import ast
import copy
import importlib
import pickle
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import regard
from golden import expect_error
from regard.config import build, change, read_toml
from regard.errors import (
    ConfigError,
    DataIssue,
    FieldError,
    FieldTypeError,
    Located,
    UserError,
    at_line,
    located,
)
from regard.models.config import ViTConfig
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.language.config import LanguageConfig

SOURCE = Path(regard.__file__).parent
NAMING = [path for path in sorted(SOURCE.rglob("*.py")) if "FieldError(" in path.read_text("utf-8")]


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({"modle.width": 3}, "modle", {"width": 3}),
        ({"model.widht": 3}, "model.widht", 3),
        ({"model.width": "wide"}, "model.width", "wide"),
        ({"model.width": 2**70}, "model.width", 2**70),
        ({"model.heads": 3}, "model.width", 64),
        ({"model.norm": "batch"}, "model.norm", "batch"),
        ({"model.head_hidden": (8, "x")}, "model.head_hidden[1]", "x"),
        ({"train.optimizer.lr": -1.0}, "train.optimizer.lr", -1.0),
        ({"train.optimizer.betas": (0.9,)}, "train.optimizer.betas", (0.9,)),
        ({"batch_size": 0}, "batch_size", 0),
        ({"train": 3}, "train", 3),
        ({"davit.window_size": 2}, "davit.window_size", 2),
    ],
    ids=str,
)
def test_an_error_of_a_configuration_has_its_dotted_key_and_the_value(changes, key, value):
    with expect_error(ConfigError, key=key, value=value, file=""):
        change(ClassifyConfig(), changes)


def test_a_field_of_a_field_is_named_and_its_value_found():
    with expect_error(ConfigError, key="model.context_length", value=1):
        change(LanguageConfig(), {"model.context_length": 1})


def test_a_key_that_is_read_from_a_file_knows_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[model]\nwidht = 3\n")
    with expect_error(ConfigError, key="model.widht", value=3, file="mine.toml"):
        read_toml(ClassifyConfig, path)
    path.write_text("[model\n")
    with expect_error(ConfigError, key="", file="mine.toml"):
        read_toml(ClassifyConfig, path)


def test_in_python_it_is_a_value_error_that_names_its_field():
    with expect_error(FieldError, field="heads"):
        ViTConfig(heads=0)
    with expect_error(FieldTypeError, field="width"):
        ViTConfig(width="wide")
    assert issubclass(FieldError, ValueError) and issubclass(FieldTypeError, TypeError)


@pytest.mark.parametrize("path", NAMING, ids=lambda path: str(path.relative_to(SOURCE)))
def test_each_field_that_an_error_names_is_one(path):
    """What a rename of fields must not forget: the name stands in a string."""
    module = importlib.import_module(".".join(("regard", *path.relative_to(SOURCE).parts))[:-3])
    known = {
        field.name
        for kind in vars(module).values()
        if isinstance(kind, type) and is_dataclass(kind)
        for field in fields(kind)
    }
    named = {
        call.args[1].value.partition(".")[0]
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "FieldError"
        if isinstance(call.args[1], ast.Constant)
    }
    assert named <= known


def test_a_place_in_a_file_goes_with_the_words():
    where = at_line(Path("own") / "a.csv", 3)
    fault = Located(f"{where}: no label", where, kind="label")
    assert fault == "own/a.csv, line 3: no label"
    assert (fault.file, fault.line, fault.kind) == ("own/a.csv", 3, "label")
    issue = DataIssue(f"{fault} (and 2 more)", fault)
    assert (issue.file, issue.line, issue.kind) == ("own/a.csv", 3, "label")
    assert issue.located == str(issue) and issue.located.line == 3
    assert DataIssue(fault).line == 3 and located(issue).kind == "label"
    assert located(UserError("no")) == "no" and located(UserError("no")).file == ""


@pytest.mark.parametrize(
    "error",
    [
        UserError("no"),
        ConfigError("no", key="a.b", value=3, file="own.toml"),
        DataIssue("no", "own.csv", 3, kind="label"),
        FieldError("no", "width"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_and_places_cross_from_process_to_process_whole(error):
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(other), str(other), vars(other)) == (type(error), "no", vars(error))
    fault = pickle.loads(pickle.dumps(Located("no", "own.csv", 3, kind="label")))
    assert (fault, fault.file, fault.line, fault.kind) == ("no", "own.csv", 3, "label")


def test_other_words_leave_the_fields_as_they_are():
    error = ConfigError("no", key="a.b", value=3).reworded("never")
    assert (type(error), str(error), error.key, error.value) == (ConfigError, "never", "a.b", 3)


def test_what_is_missing_is_named():
    from regard.runs.recipe import About

    with expect_error(ConfigError, key="recipe.task", value=None):
        build(About, {}, under="recipe")
