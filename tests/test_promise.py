"""A recipe says what to expect before a run, and the run how far from it it came out."""

import json
import re
from dataclasses import fields
from pathlib import Path
from statistics import mean

import pytest

import regard as rg
from regard.cli import main
from regard.config import change
from regard.runs.promise import promise_kept
from regard.runs.recipe import recipes
from regard.runs.session import Session, departures, expectation, figure_words
from regard.tasks import TASKS, find

RESULTS = Path(__file__).parents[1] / "results"
TINY = {"model": {"width": 16, "layers": 1, "heads": 2, "mlp_width": 16}}
PROMISING = [
    (task, name) for task in TASKS for name, each in recipes(task).items() if each.about.expected
]


def on_the_boards() -> list[dict]:
    """What was recorded of recipes as they stand, on the split that is held out."""
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("run-*.json")]
    return [
        facts
        for facts in kept
        if len(facts["command"].split()) == 5
        and facts["split"] == ("test" if facts["parts"][2] else "validation")
    ]


@pytest.mark.parametrize("facts", on_the_boards(), ids=lambda facts: facts["command"])
def test_every_recipe_on_the_boards_promises_what_was_recorded(facts):
    about = recipes(facts["task"])[facts["recipe"]].about
    if about.metric.startswith("loss"):  # recorded when 1 / perplexity decided
        expected = mean(run["figures"]["loss"]["value"] for run in facts["runs"])
    else:
        expected = facts["mean"]
    assert about.expected == pytest.approx(expected, abs=about.tolerance)
    seconds = sum(run["seconds"] for run in facts["runs"]) / len(facts["runs"])
    assert about.minutes * 60 == pytest.approx(seconds, rel=0.35, abs=6)


@pytest.mark.parametrize(("task", "name"), PROMISING)
def test_every_recipe_that_promises_a_figure_says_so_before(task, name):
    recipe, entry = recipes(task)[name], find(task).load()
    config = recipe.config(entry.config)
    session = Session(entry, change(config, {"train.seed": 5}), recipe, quiet=True)
    assert session.departs == []
    said, figure = expectation(recipe, []), recipe.about.metric
    assert said.startswith(
        f"recipe {name}: {figure} {figure_words(figure, recipe.about.expected)} "
    )
    batch = next(field.name for field in fields(config) if field.name.startswith("batch"))
    changed = change(config, {"train.epochs": 1, batch: 7})
    assert departures(changed, config) == [batch, "train.epochs"]
    assert f"this run changes {batch}, train.epochs" in expectation(recipe, [batch, "train.epochs"])


def test_the_figure_expected_is_said_before_and_the_difference_after(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["train", "classify", "--recipe", "digits", "--epochs", "1", "--batch-size", "256"]
    assert main([*words, "--out", str(out), "--device", "cpu", "--no-report", "--test"]) == 0
    before, after = re.findall(
        r"^recipe digits .*(?:(?<=;)\n.*)?", capsys.readouterr().out, re.MULTILINE
    )
    assert before.startswith("recipe digits unchanged: test accuracy 98.0%, in about ")
    assert before.endswith("this run changes batch_size, train.epochs")
    run = rg.load(out, device="cpu")
    away = run.evaluated("test").accuracy.value - 0.98
    assert after == (
        "recipe digits promises test accuracy 98.0%, give or take 0.6%: this run, which has its "
        f"own batch_size, train.epochs, is {away:+.1%}"
    )
    # The same figures of a run that had followed the recipe to the letter.
    run.config = run.task.resolve(recipes("classify")["digits"].config(run.task.config), run.data)
    assert promise_kept(run, run.evaluated("test")).endswith(f"0.6%: this run is {away:+.1%}")


def test_without_test_nothing_is_read_of_it_and_nothing_promised_is_compared(tmp_path, capsys):
    changes = {**TINY, "batch_size": 256, "root": tmp_path, "device": "cpu", "report": False}
    run = rg.train("classify", epochs=1, **changes)
    assert "promises" not in capsys.readouterr().out
    assert not (run.folder.path / "evaluation-test.json").exists()
