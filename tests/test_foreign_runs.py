"""A run from anywhere: its files are read as data, and what they say is never run or trusted."""

import html
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import regard as rg
from golden import expect_error
from regard.config import parse_toml, to_toml
from regard.errors import UserError
from regard.run_folder import RunFolder
from regard.run_folder.metric_lines import read_line
from regard.runs.compare import rows_of, table_of
from regard.runs.report import write_curves
from regard.runs.run import Run

ATTACK = "</script><svg onload=alert(1)><img src=x onerror=alert(1)>\"'\u2028]]>-->"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts and labels, one of which would run a script where it is taken for markup."""
    path = tmp_path_factory.mktemp("table") / "texts.csv"
    rows = [f"{word} it was {number},{label}" for number in range(30) for word, label in WORDS]
    path.write_text("\n".join(("text,label", *rows)) + "\n", encoding="utf-8")
    return path


WORDS = (("lovely", "good"), ("dreadful", "bad"))


@pytest.fixture(scope="module")
def trained(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of texts with its evaluation, curves and report."""
    run = rg.train(
        "classify-text",
        data=table,
        epochs=2,
        model={"width": 8, "layers": 1, "heads": 2},
        root=tmp_path_factory.mktemp("runs"),
        quiet=True,
        report=False,
        threads=1,
    )
    run.evaluate("validation")
    return run.folder.path


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def edited(run: Path) -> Run:
    """A run as its files are now, whatever they were."""
    return rg.load(run, device="cpu", accept_edits=True)


# What a page or a notebook is given


class Markup(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def runs_nothing(text: str) -> bool:
    """Whether markup has no element or attribute that runs a script."""
    for tag, attributes in Markup(text).found:
        if tag in ("script", "svg", "object", "embed", "link", "base", "form"):
            return False
        if any(name.startswith("on") for name in attributes):
            return False
        if tag == "iframe" and "allow-same-origin" in str(attributes.get("sandbox", "")):
            return False
    return True


def test_a_notebook_shows_the_curves_of_a_run_as_an_image(run: Path) -> None:
    (run / "curves.svg").write_text("<svg onload='alert(1)'><script>alert(1)</script></svg>")
    shown = edited(run)._repr_html_()
    (image,) = [attributes for tag, attributes in Markup(shown).found if tag == "img"]
    assert str(image["src"]).startswith("data:image/svg+xml;base64,") and runs_nothing(shown)


def test_names_of_a_run_and_of_its_figures_are_text_in_a_notebook(
    trained: Path, tmp_path: Path
) -> None:
    path = tmp_path / "<svg onload=alert(1)>"
    shutil.copytree(trained, path)
    (path / "metrics.jsonl").write_text(json.dumps({"epoch": 1, f"val/{ATTACK}": 0.5}))
    shown = edited(path)._repr_html_()
    assert runs_nothing(shown) and "onload=alert(1)" in html.unescape(shown)


def attacked(run: Path) -> None:
    """An attack in every text that a run holds."""
    config = parse_toml(run / "config.toml")
    config["recipe"] = ATTACK
    head = {name: word for name, word in config.items() if name != "run"}
    lines = [f"{name} = {json.dumps(word)}" for name, word in head.items()]
    body = re.sub(r"(?m)^\[", "[run.", to_toml(as_config(run)))
    text = "\n".join(lines) + f"\n\n[run]\n{body}"
    (run / "config.toml").write_text(text, encoding="utf-8")
    facts = json.loads((run / "data.json").read_text(encoding="utf-8"))
    facts |= {"data": ATTACK, "classes": [f"{ATTACK}{number}" for number in range(2)]}
    (run / "data.json").write_text(json.dumps(facts), encoding="utf-8")
    lines = [{**line, f"val/{ATTACK}": 0.5} for line in RunFolder(run, accept_edits=True).metrics()]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    evaluation = run / "evaluation-validation.json"
    found = json.loads(evaluation.read_text(encoding="utf-8"))
    for part in found["figures"]["assessment"]["per_class"]:
        part["name"] = ATTACK + part["name"]
    evaluation.write_text(json.dumps(found), encoding="utf-8")


def as_config(run: Path) -> Any:
    return edited(run).config


def test_nothing_that_a_run_says_becomes_markup_of_its_report_or_of_a_look(run: Path) -> None:
    attacked(run)
    loaded = edited(run)
    assert loaded.metadata.classes[0] == f"{ATTACK}0"
    looked = loaded.look(f"lovely {ATTACK}")
    page = looked.write(run.parent / "look.html").read_text(encoding="utf-8")
    assert runs_nothing(looked._repr_html_())
    report = loaded.report("validation").read_text(encoding="utf-8")
    assert "onload" in page and "onload" in report  # it is all there, as text
    for text in (page, report):
        # What the page itself is made of, and nothing else.
        kinds = [tag for tag, _ in Markup(text).found if tag not in ("meta", "title", "link")]
        assert kinds == ["html", "head", "style", "body", "noscript", *["script"] * 3]
        assert "<svg onload" not in text and "<img src=x" not in text


# What is wrong with numbers and tables


LINES = {
    "a word": '{"epoch": 1, "train/loss": "low"}',
    "nothing": '{"epoch": 1, "train/loss": null}',
    "a list": '{"epoch": 1, "val/accuracy": [1]}',
    "a truth": '{"epoch": 1, "train_seconds": true}',
    "a word for an epoch": '{"epoch": "1"}',
    "half an epoch": '{"epoch": 1.5}',
    "no epoch": '{"epoch": NaN}',
    "epochs before the first": '{"epoch": -1}',
    "a number for a truth": '{"epoch": 1, "is_best": 1}',
    "a huge number": f'{{"train/loss": 1{"0" * 400}}}',
    "depth": f'{{"train/loss": {"[" * 100_000}',
}


@pytest.mark.parametrize("case", LINES)
def test_a_line_of_metrics_that_is_wrong_is_named(run: Path, case: str) -> None:
    text = LINES[case]
    path = run / "metrics.jsonl"
    before = path.read_text(encoding="utf-8")
    path.write_text(f"{before}{text}\n", encoding="utf-8")
    with expect_error(UserError) as trouble:
        RunFolder(run, accept_edits=True).metrics()
    assert str(trouble.value).startswith(f"{path}, line 3 is damaged: ")
    assert len(str(trouble.value)) < 300 + len(str(path))


def test_figures_may_be_no_numbers_where_a_training_went_astray() -> None:
    figures = '"train/loss": NaN, "is_best": false, "val/loss": Infinity, "train_seconds": 3'
    line = f'{{"epoch": 2, {figures}}}'
    found = read_line(line, "here")
    assert found is not None and found["train_seconds"] == 3 and found["is_best"] is False
    assert read_line('{"epoch": 1, "lo', "here") is None  # where a process was killed
    assert read_line("[1, 2]", "here") is None


FILES = ("config.toml", "data.json", "metrics.jsonl", "evaluation-validation.json")
DEEP = "[" * 100_000
OTHERS = ("a word", None, True, -1, 10**30, 1e300, float("nan"), [], {}, [[["x"]]], {"value": "x"})


def mutations(values: Any) -> Iterator[Any]:
    """A table with each of its values, at any depth, replaced by some others or taken away."""
    for at, inner in list(values.items() if isinstance(values, dict) else enumerate(values[:2])):
        for other in (*OTHERS, GONE):
            if other is GONE and isinstance(values, dict):
                yield {name: value for name, value in values.items() if name != at}
            elif other is not GONE:
                yield put(values, at, other)
        if isinstance(inner, dict | list):
            yield from (put(values, at, changed) for changed in mutations(inner))


GONE = object()


def put(values: Any, at: Any, other: Any) -> Any:
    copy = dict(values) if isinstance(values, dict) else list(values)
    copy[at] = other
    return copy


def broken(run: Path, name: str) -> Iterator[str]:
    """The text of a file in many wrong ways."""
    text = (run / name).read_text(encoding="utf-8")
    yield from ("", "{", "null", "[]", '"word"', DEEP, '{"a": ' + DEEP, "1" * 5000, text[:-20])
    yield "\x00" + text
    if name == "config.toml":
        for line in text.splitlines():
            key, equals, _ = line.partition(" = ")
            for other in ('"a word"', "-1", "true", "[]", "{}", "1e300", "nan", "10000000000"):
                if equals:
                    yield text.replace(line, f"{key} = {other}", 1)
            yield text.replace(f"{line}\n", "", 1)
    elif name.endswith(".json"):
        every = 1 if name == "data.json" else 3  # of hundreds that are much alike
        yield from map(json.dumps, islice(mutations(json.loads(text)), 0, None, every))
    else:
        line, *more = text.splitlines()
        yield from ("\n".join((json.dumps(x), *more)) for x in mutations(json.loads(line)))


def asked(run: Path, name: str) -> Iterator[Callable[[], object]]:
    """What is done with a run, one file of which is not as it was."""
    loaded = edited(run)
    yield lambda: loaded.metadata
    yield lambda: write_curves(loaded.folder)
    yield loaded.__repr__
    if name in ("config.toml", "data.json"):  # the others decide no answer
        yield lambda: loaded.predict("lovely")
    yield lambda: table_of(rows_of([loaded]))
    yield (
        lambda: (
            loaded.evaluated("validation")
            and loaded.task.summary(loaded.evaluated("validation"), "validation")
        )
    )


@pytest.mark.parametrize("name", FILES)
def test_no_change_of_a_file_makes_more_than_a_sentence(
    run: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Curves are left undrawn: what they are made of is read all the same."""
    monkeypatch.setattr("regard.runs.report.curves_figure", lambda *args, **options: None)
    began, tried, refused = time.perf_counter(), 0, 0
    for text in broken(run, name):
        (run / name).write_text(text, encoding="utf-8")
        tried += 1
        try:
            for ask in asked(run, name):
                ask()
        except UserError as trouble:
            refused += 1
            assert len(str(trouble)) < 1000
    assert tried > 40 and refused > tried / 3
    assert time.perf_counter() - began < 60
