"""One contract that every task keeps: what a run writes, resumes, answers, shows and refuses.

What tasks differ in stands in `tests/task_cases.py`; what only one of them does is tested in the
file of that task.
"""

import json
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

import regard as rg
from regard.cli import main
from regard.config import change
from regard.errors import UserError
from regard.run_folder import RunFolder
from regard.runs.recipe import choose_recipe
from regard.runs.session import Session
from regard.tasks import TASKS, find
from regard.tasks.inputs import Rows
from task_cases import CASES, TaskCase

CPU = torch.device("cpu")
TIMES = ("train_seconds", "data_wait_seconds")
BAD = [(name, bad) for name, case in CASES.items() for bad in case.bad]
pytestmark = [pytest.mark.usefixtures("own_folders"), pytest.mark.slow, pytest.mark.trains]


@pytest.fixture(scope="module", params=CASES)
def case(request):
    with pytest.MonkeyPatch.context() as patch:
        CASES[request.param].smaller(patch)
        yield CASES[request.param]


@pytest.fixture(scope="module")
def run(case, shared_run):
    return shared_run(case.task)


def typed(run: rg.Run, verb: str, *words: str) -> int:
    return main([verb, str(run.folder.path), *words, "--device", "cpu"])


def asked_for(case: TaskCase) -> list[str]:
    """How a command asks so that answers repeat."""
    return [word for name, value in case.asking.items() for word in (f"--{name}", str(value))]


def essence(answer: object) -> list[object]:
    """What an answer holds, whatever its input is called and whether the truth is known."""

    def leaves(value: object) -> list[object]:
        if isinstance(value, dict):
            return [leaf for inner in value.values() for leaf in leaves(inner)]
        if isinstance(value, list):
            return [leaf for inner in value for leaf in leaves(inner)]
        return [pytest.approx(value, abs=1e-4) if isinstance(value, float) else value]

    values = answer.to_values()
    return leaves({name: each for name, each in values.items() if name not in ("input", "truth")})


def test_every_task_has_its_case():
    assert set(CASES) == set(TASKS)


# Training


def flags(changes: dict[str, object]) -> list[str]:
    """Fields as they are typed."""
    words = []
    for name, value in changes.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            table, dot, last = flag.rpartition(".")
            words.append(f"--{flag}" if value else f"--{table}{dot}no-{last}")
        else:
            words += [f"--{flag}", str(value)]
    return words


def test_a_run_killed_in_between_ends_as_one_that_a_command_trained_through(case, tmp_path):
    """Python, killed in the second epoch and gone on with, and a command: the same bits."""
    task, data = find(case.task).load(), case.write_data(tmp_path / "data")
    recipe = case.write_recipe(tmp_path)
    chosen = choose_recipe(case.task, recipe, data)
    ending = {"train.epochs": 2, "train.checkpoint_seconds": 0.0, "train.threads": 1}
    changes = {**case.tiny, **case.steps, **ending}
    config = change(chosen.config(task.config), {**changes, "data": data})
    read = task.load_data(config)
    steps = len(task.batches(task.resolve(config, read), read, CPU))
    assert 2 <= steps <= 12

    def dying(config, facts):
        ask, calls = task.loss(config, facts), []

        def of(model, batch):
            # The estimate trains copies as it likes; the run itself has its folder by then.
            calls.append((tmp_path / "killed").exists())
            if sum(calls) == steps + 2:
                raise KeyboardInterrupt
            return ask(model, batch)

        return of

    def go(task, resume=False):
        session = Session(task, config, chosen, quiet=True)
        return session.go(out=tmp_path / "killed", root=tmp_path, resume=resume, device="cpu")

    with pytest.raises(KeyboardInterrupt):
        go(replace(task, loss=dying))
    assert RunFolder(tmp_path / "killed").latest_state()[0] == steps + 1
    ours = go(task, resume=True)
    command = ["train", case.task, "--data", data, "--out", str(tmp_path / "whole")]
    command += ["--recipe", recipe] if recipe else []
    how = ["--device", "cpu", "--quiet", "--no-report"]
    assert main([*command, *flags(changes), *how]) == 0
    whole = RunFolder.open(tmp_path / "whole")

    def figures(folder):
        lines = folder.metrics()
        return [{k: v for k, v in line.items() if k not in TIMES} for line in lines]

    assert figures(ours) == figures(whole) and len(figures(ours)) == 2
    assert ours.config(task.config) == whole.config(task.config)
    states = [folder.read_state()[1] for folder in (ours, whole)]
    weights = [folder.read_tensors("model.safetensors") for folder in (ours, whole)]
    for mine, theirs in (states, weights):
        assert mine.keys() == theirs.keys()
        assert [name for name in mine if not torch.equal(mine[name], theirs[name])] == []
    first = task.build_model(ours.config(task.config), read.metadata).state_dict()
    assert any(not torch.equal(weights[0][name], first[name]) for name in first), "it learnt"


def test_a_run_folder_explains_itself(case, run):
    names = {path.name for path in run.folder.path.iterdir()}
    assert names >= {
        *("config.toml", "data.json", "metrics.jsonl", "model.safetensors", "state", "log.txt"),
        *("curves.png", "curves.svg", "report.html", "evaluation-validation.json"),
    }
    assert not [name for name in names if "draft" in name]
    log = (run.folder.path / "log.txt").read_text(encoding="utf-8")
    epochs = case.learnt["train.epochs"]
    for words in (*case.says, f"epoch {epochs} of {epochs}", "waiting for data"):
        assert words in log
    assert [line["epoch"] for line in run.metrics] == [*range(1, epochs + 1)]


def test_a_loaded_run_is_the_one_that_was_trained(case, run):
    again = rg.load(run.folder.path, device="cpu")
    assert again.config == run.config and again.metadata == run.metadata
    weights, stored = run.model.state_dict(), run.folder.read_tensors("model.safetensors")
    for name, weight in again.model.state_dict().items():
        assert torch.equal(weight, weights[name]) and torch.equal(weight, stored[name]), name
    epochs = case.learnt["train.epochs"]
    assert f"{epochs} epochs, best val/{case.decides}" in repr(again)
    assert '<img alt="curves" src="data:image/svg+xml;base64,' in again._repr_html_()


def test_the_weights_kept_are_those_of_the_best_epoch(case, run):
    best = [line for line in run.metrics if line["is_best"]][-1]
    figures = [name for name in best if name.startswith(("val/", "train_eval/"))]
    assert figures[0] == f"val/{case.decides}"
    choose = min if case.decides == "loss" else max
    assert best[figures[0]] == choose(line[figures[0]] for line in run.metrics)
    with torch.no_grad():
        found = run.task.evaluate_quick(run.config, run.data, CPU)(run.model)
    assert found == pytest.approx({name: best[name] for name in figures}, rel=1e-4)


# Measuring


def test_figures_come_back_as_they_were_written(case, run, capsys):
    judged = run.evaluate("validation")
    values = json.loads(json.dumps(judged.to_values()))
    assert next(iter(values)) == case.judged
    assert run.task.from_dict(values).to_values() == judged.to_values()
    assert run.evaluated("validation").to_values() == judged.to_values()
    assert run.evaluated("train") is None
    assert run.evaluate("validation").to_values() == judged.to_values(), "the same at every call"
    assert typed(run, "evaluate", "--split", "validation", "--json") == 0
    assert json.loads(capsys.readouterr().out) == values
    damaged = ({**values, **each} for each in case.damaged)
    for strange in ({}, {case.judged: 3}, *damaged):
        with pytest.raises(ValueError, match="not the values of a"):
            run.task.from_dict(strange)


def test_a_split_that_is_not_there_is_named(case, run):
    with pytest.raises(UserError) as refused:
        run.evaluate("tset")
    assert "no split 'tset'; there are train, validation, test" in str(refused.value)
    assert run.test_split == ("test" if case.test else "validation")
    if not case.test:
        assert run.evaluate().to_values() == run.evaluate("validation").to_values()
        with pytest.raises(UserError) as refused:
            run.evaluate("test")
        facts = (Path(run.config.data).name, "in test: take train or validation")
        assert all(fact in str(refused.value) for fact in facts)


def test_evaluate_prints_its_figures_and_compare_the_gap(case, run, capsys, tmp_path):
    assert typed(run, "evaluate", "--split", "validation") == 0
    out = capsys.readouterr().out
    assert run.task.summary(run.evaluated("validation"), "validation") in out
    assert "report.html" in out
    assert typed(run, "compare", str(run.folder.path), "--out", str(tmp_path / "c.png")) == 0
    last = run.metrics[-1]
    gap = last[f"train_eval/{case.decides}"] - last[f"val/{case.decides}"]
    assert (f"{-gap:.3f}" if case.decides == "loss" else f"{gap:.1%}") in capsys.readouterr().out
    assert (tmp_path / "c.png").stat().st_size > 5_000


# Asking


def test_an_item_gets_the_same_answer_in_whatever_way_it_is_given(case, run, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    given = case.same(run, tmp_path)
    answers = run.predict(*given, **case.asking)
    assert len(answers) == len(given) > 5
    first, *others = map(essence, answers)
    assert first and [other for other in others if other != first] == []
    (alone,) = run.predict(given[0], **case.asking)
    assert essence(alone) == first  # whatever else is asked
    assert [json.loads(json.dumps(each.to_values())) for each in answers] == [
        each.to_values() for each in answers
    ]


def test_rows_of_its_own_data_are_answered_in_order(case, run):
    split = run.test_split
    name = Path(run.config.data).name
    first, second = run.predict(split=split, indices=[1, 0], **case.asking)
    assert (first.name, second.name) == (f"{name} {split}:1", f"{name} {split}:0")
    (again,) = run.predict(Rows(split, (1,)), **case.asking)
    assert essence(again) == essence(first)


def test_the_command_prints_the_answers_of_python(case, run, capsys):
    split = run.test_split
    words = ["--split", split, "--index", "0", "1", *asked_for(case)]
    answers = run.predict(split=split, indices=[0, 1], **case.asking)
    assert typed(run, "predict", *words, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [answer.to_values() for answer in answers]
    assert typed(run, "predict", *words) == 0
    assert capsys.readouterr().out == "".join(f"{answer}\n" for answer in answers)


@pytest.mark.parametrize(
    ("task", "bad"), BAD, ids=[f"{task}-{bad.name}".replace(" ", "-") for task, bad in BAD]
)
def test_what_is_no_input_is_refused_with_its_place_and_reason(
    task, bad, shared, tmp_path, monkeypatch
):
    CASES[task].smaller(monkeypatch)
    run = shared(task)
    given = bad.make(tmp_path)
    with pytest.raises(UserError) as refused:
        run.predict(given)
    words = str(refused.value)
    assert [fact for fact in bad.facts if fact not in words] == [], words
    assert "\n" not in words


@pytest.fixture(scope="module")
def shared(shared_run):
    """The run of a task, loaded once."""
    found: dict[str, rg.Run] = {}

    def run_of(task: str) -> rg.Run:
        if task not in found:
            found[task] = shared_run(task)
        return found[task]

    return run_of


def test_what_a_run_was_trained_with_is_settled(case, run):
    with pytest.raises(UserError) as refused:
        run.predict(split=run.test_split, indices=0, model={"width": 8})
    assert "model.width is settled" in str(refused.value)


# Looking


class Markup(HTMLParser):
    """A page as a browser reads it: its elements, what it fetches, and the document within."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.fetched: list[str] = []
        self.data = ""
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.elements.append(tag)
        self.inside = given.get("id") == "document"
        self.fetched += [str(given[name]) for name in ("src", "href") if name in given]

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.data += data

    def handle_endtag(self, tag: str) -> None:
        self.inside = False


def page_at(path: Path) -> dict:
    """The document of a page that has all it needs within itself."""
    page = Markup(path.read_text(encoding="utf-8"))
    assert {"html", "body", "script", "style"} <= {*page.elements}
    assert [url for url in page.fetched if not url.startswith(("data:", "#"))] == []
    return json.loads(page.data)


def test_look_writes_pages_and_pictures(case, run, tmp_path, capsys):
    split = run.test_split
    for name in ("look.html", "look.png", "look.svg"):
        words = ("--split", split, "--index", "1", "--out", str(tmp_path / name))
        assert typed(run, "look", *words) == 0
        assert str(tmp_path / name) in capsys.readouterr().out
        assert (tmp_path / name).stat().st_size > 5_000
    document = page_at(tmp_path / "look.html")
    assert document["sections"] and all(section["view"] for section in document["sections"])
    assert f"{Path(run.config.data).name} {split}:1" in json.dumps(document, ensure_ascii=False)
    assert case.looked.lower() in (tmp_path / "look.html").read_text(encoding="utf-8").lower()
    assert '<iframe srcdoc="' in run.look(split=split, indices=1)._repr_html_()
    both = run.look(split=split, indices=[1, 2])
    assert page_at(both.write(tmp_path / "both.html"))["sections"]
    with pytest.raises(UserError) as refused:
        both.write(tmp_path / "both.png")
    assert "holds one" in str(refused.value) and "2 were given" in str(refused.value)
    with pytest.raises(UserError) as refused:
        run.look()
    assert "to look at" in str(refused.value)


def test_the_report_opens_and_holds_all_there_is_to_say(case, run):
    document = page_at(run.report("validation"))
    titles = [section["title"] for section in document["sections"]]
    assert titles[0] == "Learning" and titles[-1] == "Configuration" and len(titles) >= 4
    assert document["title"] == run.folder.path.name and case.task in document["subtitle"]
    learning, configuration = document["sections"][0], document["sections"][-1]
    assert learning["data"]["runs"][0]["lines"] == run.metrics
    rows = {tuple(map(str, row)) for row in configuration["data"]["rows"]}
    assert any("width" in field for row in rows for field in row)
    views = run.task.report(run.trained, run.data, "validation", run.evaluated("validation"))
    assert titles[1:-1] == [section["title"] for section in views]
    assert views[0]["view"] == "figures"
