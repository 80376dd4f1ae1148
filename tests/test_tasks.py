"""Tasks are values: nothing outside their folder knows their names, and each keeps one contract."""

import ast
from pathlib import Path

import pytest

import regard as rg
from golden import expect_error
from regard.config import build, to_values
from regard.errors import ConfigError, UserError
from regard.runs.recipe import choose_recipe, read_recipe, recipes
from regard.runs.run import flattened
from regard.tasks import TASKS, find

PACKAGE = Path(rg.__file__).parent
RECIPES = [(task, name) for task in TASKS for name in recipes(task)]


def mentions(text: str) -> list[str]:
    """Names of tasks that a file says: as a word of their own, or in a line to be typed."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            lines = [line.split() for line in node.value.replace("`", " ").splitlines()]
            typed = {word for line in lines if "regard" in line for word in line}
            found += [name for name in TASKS if node.value == name or name in typed]
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [getattr(node, "module", "") or "", *(alias.name for alias in node.names)]
            found += [n for n in TASKS if any(f"tasks.{n}" in m for m in names)]
    return found


def test_no_file_outside_the_tasks_names_one():
    files = [
        file for file in PACKAGE.rglob("*.py") if "tasks" not in file.relative_to(PACKAGE).parts
    ]
    assert len(files) > 50
    named = {str(file): mentions(file.read_text(encoding="utf-8")) for file in files}
    assert {file: names for file, names in named.items() if names} == {}


@pytest.mark.parametrize(
    "text",
    [
        "kind = 'classify'",
        "from regard.tasks.classify.data import read",
        "import regard.tasks.classify.task",
        "'try: regard train classify'",
        "def f():\n    '''`regard train classify` does.'''",
    ],
)
def test_a_planted_name_is_found(text):
    assert mentions(text) == ["classify"]


def test_a_mistyped_task_gets_the_nearest_name():
    with expect_error(UserError):
        find("clasify")


def test_every_command_on_runs_has_an_example_from_every_task():
    for task in TASKS:
        for command in ("train", "evaluate", "predict", "look", "compare"):
            lines = TASKS[task].examples[command]
            assert lines and all(line.startswith(f"regard {command} ") for line in lines)


# Recipes


@pytest.mark.parametrize(("task", "name"), RECIPES)
def test_a_recipe_is_whole(task, name):
    recipe = recipes(task)[name]
    config = recipe.config(find(task).load_config())
    assert build(type(config), to_values(config)) == config
    about = recipe.about
    assert about.description and about.command.startswith(f"regard train {task}")
    if about.expected:
        assert about.hardware and about.minutes and about.metric and about.tolerance
        assert 0 < about.expected <= (1 if not about.metric.startswith("loss") else 10)


def test_each_set_of_data_has_at_most_one_recipe_of_its_own_and_the_rest_share_one():
    for task in TASKS:
        chosen = [r.values.get("data") for r in recipes(task).values() if r.about.default]
        assert len(chosen) == len(set(chosen)) and None in chosen


def test_the_recipe_follows_the_data():
    assert choose_recipe("classify").name == "digits"
    assert choose_recipe("classify", data="digits").name == "digits"
    assert choose_recipe("classify", data="my/photos").name == "own"


def test_a_recipe_of_ones_own(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('data = "digits"\n[model]\nimage_size = 8\npatch_size = 4\n', encoding="utf-8")
    config = read_recipe(mine, "classify").config(find("classify").load_config())
    assert config.model.patch_size == 4 and config.data == "digits"
    assert choose_recipe("classify", str(mine)).values == read_recipe(mine, "classify").values


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[model]\nwitdh = 3\n", "model.witdh"),
        ("[recipe]\ntask = 'other'\n", "recipe.task"),
        ("[recipe]\nminuts = 3\n", "recipe.minuts"),
        ("batch_size = 'many'\n", "batch_size"),
        ("[model]\nwidth = 10\nheads = 4\n", "model.width"),
        ("data = ", ""),
    ],
)
def test_a_recipe_with_a_mistake_is_refused_in_a_sentence(tmp_path, text, key):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with expect_error(ConfigError, key=key, file=path):
        read_recipe(path, "classify").config(find("classify").load_config())


# The façade


def test_train_is_a_verb_whatever_was_imported_before(in_a_new_process):
    script = """
import regard as rg
assert "torch" not in __import__("sys").modules and callable(rg.train)
from regard.training.config import TrainConfig
import regard.training.fit
assert callable(rg.train) and regard.training.fit.train is not rg.train
try:
    rg.train("xyz")
except Exception as trouble:
    print(trouble)
print(rg.load.__module__, rg.Run.__name__, "load" in dir(rg))
"""
    said = in_a_new_process(script).splitlines()
    assert said[0] == "no task 'xyz'; there are " + ", ".join(TASKS)
    assert said[1] == "regard.runs.run Run True"


def test_changes_are_named_by_dots_or_by_nesting():
    changes = {"batch_size": 8, "model": {"width": 32}, "train.optimizer.lr": 0.1}
    assert dict(flattened(changes)) == {
        "batch_size": 8,
        "model.width": 32,
        "train.optimizer.lr": 0.1,
    }
    assert dict(flattened({"augment": rg.ViTConfig(width=8, heads=2)}))["augment.width"] == 8


def test_torch_is_needed_by_no_table(in_a_new_process):
    said = in_a_new_process(
        "import sys; from regard.tasks import TASKS, find\n"
        "[find(name).load_config() for name in TASKS]\n"
        "print('torch' in sys.modules)"
    )
    assert said.strip() == "False"


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_complete_and_frozen(task):
    loaded = find(task).load()
    assert loaded.name == task
    with pytest.raises(AttributeError):
        loaded.name = "another"  # type: ignore[misc]
