"""Worksheets: questions hang on a seed alone, keys stay out of them, and marks are just."""

import json
import re
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden import expect_error
from regard.errors import UserError
from regard.lab import worksheet
from regard.lab.claim import SOURCES, Claim
from regard.lab.claims import CLAIMS, load_claim
from regard.lab.evidence import Evidence
from regard.lab.marking import Mark, mark, mark_answer, mark_verdict
from regard.lab.question import Question
from regard.lab.worksheet import Exercise, write

TWO = ("softmax-jacobian", "beta-limits")


def there(name: str) -> bool:
    """Whether a claim is written yet: each is a file of its own."""
    return find_spec(f"regard.lab.claims.{name.replace('-', '_')}") is not None


def sheet(folder: Path, seed: int = 7, names: tuple[str, ...] = TWO) -> dict[str, str]:
    """The three files of a worksheet, by the first word of their names."""
    assert write(seed, names, folder) == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        f"answers-{seed}.json",
        f"key-{seed}.html",
        f"worksheet-{seed}.html",
    ]
    return {path.name.split("-")[0]: path.read_text("utf-8") for path in folder.iterdir()}


def filled(seed: int, names: tuple[str, ...] | list[str]) -> dict[str, Any]:
    """A form with everything right in it."""
    answers = {}
    for name in names:
        asked = worksheet.ask(seed, name)
        assert asked is not None
        right = asked.question.answer
        answers[name] = {
            "verdict": asked.claim.verdict,
            "answer": list(right) if isinstance(right, tuple) else right,
        }
    return {"seed": seed, "claims": list(names), "answers": answers}


def marked(form: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    path = folder / "form.json"
    path.write_text(form if isinstance(form, str) else json.dumps(form), "utf-8")
    assert mark(path) == 0
    return capsys.readouterr().out


def made(**changes: Any) -> Claim:
    """A claim of this test's own, under the name of one that there is."""
    values = {
        "id": "beta-limits",
        "source": "B 1.1b",
        "statement": "It is so.",
        "verdict": "holds",
        "truth": "It is.",
        "measure": lambda: Evidence(deciding="", controls=()),
    }
    return Claim(**(values | changes))


class Reader(HTMLParser):
    """Tags that are open, elements seen, and the text."""

    void = frozenset({"meta", "link", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


# The files


def test_a_seed_gives_the_same_bytes_and_another_seed_other_numbers(tmp_path, capsys):
    first, again = sheet(tmp_path / "a"), sheet(tmp_path / "b" / "c")
    assert first == again
    told = capsys.readouterr().out.split()
    assert told[:3] == [
        str(tmp_path / "a" / name) for name in ("worksheet-7.html", "key-7.html", "answers-7.json")
    ]
    other = sheet(tmp_path / "d", seed=8)
    assert math_of(first["worksheet"]) != math_of(other["worksheet"])
    assert math_of(first["key"]) != math_of(other["key"])


def math_of(text: str) -> list[str]:
    return re.findall(r"<math.*?</math>", text)


def test_a_question_does_not_hang_on_what_else_is_on_the_sheet(tmp_path):
    both, alone = sheet(tmp_path / "a"), sheet(tmp_path / "b", names=("beta-limits",))

    def question(text: str) -> str:
        found = re.search(r'<section class="question" id="beta-limits">.*?</section>', text)
        assert found
        return re.sub(r"<h2>.*?</h2>", "", found[0])

    assert question(both["worksheet"]) == question(alone["worksheet"])
    drawn = load_claim("beta-limits").ask
    assert drawn is not None
    number = CLAIMS.index("beta-limits")
    asked = worksheet.ask(7, "beta-limits")
    assert asked is not None
    assert asked.question == drawn(np.random.default_rng([7, number]))


def test_a_sheet_written_again_takes_the_place_of_the_first(tmp_path):
    first = sheet(tmp_path)
    (tmp_path / "key-7.html").write_text("torn")
    assert sheet(tmp_path) == first


def test_the_form_is_blank_and_of_this_sheet(tmp_path):
    blank = {"verdict": None, "answer": None}
    assert json.loads(sheet(tmp_path)["answers"]) == {
        "seed": 7,
        "claims": list(TWO),
        "answers": dict.fromkeys(TWO, blank),
    }


def test_claims_without_a_question_are_left_out(tmp_path, monkeypatch):
    claims = {"residual": made(id="residual"), "beta-limits": load_claim("beta-limits")}
    monkeypatch.setattr(worksheet, "load_claim", claims.__getitem__)
    files = sheet(tmp_path, names=("residual", "beta-limits", "beta-limits"))
    assert json.loads(files["answers"])["claims"] == ["beta-limits"]
    assert "residual" not in read(files["worksheet"]).words
    with expect_error(UserError):
        write(7, ("residual",), tmp_path)


def test_what_cannot_be_written_is_said(tmp_path):
    with expect_error(UserError):
        write(-1, TWO, tmp_path)
    (tmp_path / "file").write_text("in the way")
    with expect_error(UserError):
        write(7, TWO, tmp_path / "file")
    with expect_error(UserError):
        write(7, ("beta-limit",), tmp_path)


# The pages


@pytest.mark.parametrize("seed", range(5), ids="seed={}".format)
def test_no_answer_is_on_the_worksheet(tmp_path, seed):
    files = sheet(tmp_path, seed)
    texts = {kind: "".join(read(files[kind]).words) for kind in ("worksheet", "key")}
    for name in TWO:
        asked = worksheet.ask(seed, name)
        assert asked is not None
        question = asked.question
        answer, why, truth = (
            "".join(read(written(words)).words)
            for words in (worksheet.shown(question), question.why, asked.claim.truth)
        )
        for secret in (f"Answer {answer}", why, truth):
            assert secret in texts["key"]
            assert secret not in texts["worksheet"]
    # −y₁y₂ is in no question, so that its digits must not be anywhere.
    asked = worksheet.ask(seed, "softmax-jacobian")
    assert asked is not None
    digits = worksheet.shown(asked.question).strip("$-").partition("e")[0]
    assert digits in texts["key"] and digits not in texts["worksheet"]
    assert 'class="right"' in files["key"]
    assert 'class="right"' not in files["worksheet"] and "✓" not in read(files["worksheet"]).words


def written(words: str) -> str:
    element = worksheet.element("p", *worksheet.typeset(words))
    return worksheet.ElementTree.tostring(element, encoding="unicode", method="html")


@pytest.mark.parametrize("kind", ["worksheet", "key"])
def test_pages_are_whole_and_need_nothing_else(tmp_path, kind):
    text = sheet(tmp_path)[kind]
    page = read(text)
    tags = [tag for tag, _ in page.seen]
    assert tags.count("math") >= 8 and tags.count("section") == 2
    assert "script" not in tags and "img" not in tags
    for _, attributes in page.seen:
        addresses = [value for name, value in attributes.items() if name in ("href", "src")]
        assert all(value and value.startswith("data:") for value in addresses)
    # An icon may say which language it is written in.
    assert not re.search(r"https?:|url\(|@import|@font-face", re.sub("xmlns='[^']*'", "", text))
    assert "$" not in "".join(page.words)
    assert "default-src 'none'" in text


def test_the_policy_lets_the_style_through(tmp_path):
    text = sheet(tmp_path)["worksheet"]
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL)
    policy = re.search(r"style-src 'sha256-([^']*)'", text)
    assert style and policy
    digest = worksheet.hashlib.sha256(style[1].encode()).digest()
    assert policy[1] == worksheet.base64.b64encode(digest).decode()


def test_text_is_escaped_and_choices_are_ticked_in_the_key():
    claim = made(statement="<script>alert(1)</script> & $a < b$, so.", verdict="depends")
    question = Question("Which?", "$O(n)$", choices=("$O(n)$", "<b>"), why='since "1 < 2" & so')
    asked = [Exercise(claim, question)]
    for key in (False, True):
        text = worksheet.page(1, asked, key)
        page = read(text)
        tags = [tag for tag, _ in page.seen]
        assert "script" not in tags and tags.count("b") == 2  # the letters of the parts
        assert "<script>alert(1)</script> & " in page.words
        ticked = re.findall(r'<li class="right">(.*?)</li>', text)
        assert len(ticked) == 2 * key
    assert "depends" in ticked[0] and "<mi>O</mi>" in ticked[1]


@pytest.mark.parametrize(
    ("tex", "found"),
    [
        (r"(-3, 1)", r'<mo form="prefix" lspace="0" rspace="0">−</mo><mn>3</mn>'),
        (r"a - b", r"<mi>a</mi><mo>−</mo><mi>b</mi>"),
        (r"(a) - b", r"\)</mo><mo>−</mo><mi>b</mi>"),
        (r"1.5e-05", r"<mn>1.5</mn><mo>×</mo><msup><mn>10</mn>.*5</mn>"),
        (r"\beta \to \infty", r"<mi>∞</mi>"),
        (r"x/y", r'<mo stretchy="false" lspace="0" rspace="0">/</mo>'),
        (r"\lVert x \rVert^2", r'<msup><mo stretchy="false" lspace="0" rspace="0">‖</mo>'),
    ],
)
def test_formulas_are_spaced_as_in_tex(tex, found):
    assert re.search(found, written(f"${tex}$"))


def test_a_claim_from_two_documents_names_both():
    found = worksheet.documents("B 1.3b, c and E 12.3")
    assert found == f"{SOURCES['B']}; {SOURCES['E']}"


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (Question("", 1.0), "within 1\u00a0%"),
        (Question("", 1.0, tolerance=0.0), "exact"),
        (Question("", (1.0, 2.0), tolerance=0.001), "in order, each within 0.1\u00a0%"),
        (Question("", "yes", choices=("yes", "no")), "one of these"),
        (Question("", "yes"), "a word"),
    ],
)
def test_a_worksheet_says_how_near_an_answer_has_to_be(question, words):
    assert words in read(worksheet.page(1, [Exercise(made(), question)], key=False)).words


@pytest.mark.parametrize(
    ("value", "tolerance", "text"),
    [
        (4194304.0, 0.001, "$4194304$"),
        (-2.0, 0.01, "$-2$"),
        (1 / 3, 0.01, "$0.3333$"),
        (1 / 3, 1e-6, "$0.333333$"),
        (0.1 + 0.2, 0.0, "$0.30000000000000004$"),
        (1.23456e-7, 0.01, "$1.235e-07$"),
    ],
)
def test_a_key_shows_as_many_digits_as_a_right_answer_needs(value, tolerance, text):
    assert worksheet.shown(Question("", value, tolerance)) == text


def test_punctuation_stays_with_the_formula_before_it():
    assert re.search(r"</math>,</span> so<", written("$x$, so"))
    assert re.search(r"</math></span> so<", written("$x$ so"))


def test_a_formula_that_cannot_be_typeset_is_an_error():
    with expect_error(ValueError):
        written("a $x")
    with expect_error(ValueError):
        written(r"$\text{a <b}$")


# Every claim there is


@pytest.mark.parametrize("name", CLAIMS)
def test_every_question_can_be_written_and_its_shown_answer_is_right(name):
    if not there(name) or load_claim(name).ask is None:
        pytest.skip("asks nothing")
    for seed in range(4):
        asked = worksheet.ask(seed, name)
        assert asked is not None
        claim, question = asked
        assert claim.source.split()[0] in SOURCES
        if question.choices:
            assert question.answer in question.choices
        for key in (False, True):
            page = read(worksheet.page(seed, [asked], key))
            assert "\\" not in "".join(page.words)
        shown = worksheet.shown(question).replace("$", "")
        given: object = shown.split(", ") if isinstance(question.answer, tuple) else shown
        if isinstance(question.answer, str):
            given = question.answer
        assert mark_answer(given, question) == Mark(True, "right")


def test_all_right_is_all_points_on_every_claim(tmp_path, capsys):
    asking = [name for name in CLAIMS if there(name) and load_claim(name).ask is not None]
    said = marked(filled(3, asking), tmp_path, capsys)
    assert f"{2 * len(asking)} of {2 * len(asking)} points" in said
    assert "wrong" not in said


# Marks


def rows(said: str) -> dict[str, list[str]]:
    """The cells of the table, by claim."""
    lines = (line.strip("│ \n").split("│") for line in said.splitlines() if "│" in line)
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}


def test_planted_errors_lose_exactly_their_points(tmp_path, capsys):
    form = filled(7, TWO)
    assert "4 of 4 points" in marked(form, tmp_path, capsys)
    form["answers"]["softmax-jacobian"]["answer"] *= -1
    form["answers"]["beta-limits"]["verdict"] = "corrected"
    said = marked(form, tmp_path, capsys)
    assert "2 of 4 points" in said
    assert rows(said)["softmax-jacobian"] == ["right", "wrong", "1 of 2", "-0.02203"]
    assert rows(said)["beta-limits"] == ["wrong", "right", "1 of 2", "holds"]


def test_a_blank_form_can_be_marked(tmp_path, capsys):
    blank = sheet(tmp_path / "sheet")["answers"]
    capsys.readouterr()
    said = marked(blank, tmp_path, capsys)
    assert "0 of 4 points" in said and said.count("not answered") == 4
    for answers in ({}, {"beta-limits": None}, {"beta-limits": {}}):
        said = marked({"seed": 7, "claims": TWO, "answers": answers}, tmp_path, capsys)
        assert "0 of 4 points" in said and said.count("not answered") == 4
    assert "0 of 2 points" in marked({"seed": 7, "claims": ["beta-limits"]}, tmp_path, capsys)


def test_a_form_with_a_mark_of_its_encoding_can_be_read(tmp_path, capsys):
    assert "4 of 4" in marked("\ufeff" + json.dumps(filled(7, TWO)), tmp_path, capsys)


NUMBER = Question("", 0.25)
EXACT = Question("", 3.0, tolerance=0.0)
PAIR = Question("", (0.25, -2.0))
WORD = Question("", "Yes", choices=("Yes", "No"))


@pytest.mark.parametrize(
    ("question", "given", "words"),
    [
        (NUMBER, 0.25, "right"),
        (NUMBER, 0.2501, "right"),
        (NUMBER, 0.26, "wrong"),
        (NUMBER, "0.25", "right"),
        (NUMBER, " 2.5e-1 ", "right"),
        (NUMBER, None, "not answered"),
        (NUMBER, "  ", "not answered"),
        (NUMBER, "a quarter", "wrong: 'a quarter' is not a number"),
        (NUMBER, "0,25", "wrong: '0,25' is not a number"),
        (NUMBER, float("nan"), "wrong: NaN is not a number"),
        (NUMBER, "nan", "wrong: 'nan' is not a number"),
        (NUMBER, float("inf"), "wrong"),
        (NUMBER, 10**400, f"wrong: {'1' + '0' * 22}… is not a number"),
        (NUMBER, True, "wrong: true is not a number"),
        (NUMBER, [0.25], "wrong: [0.25] is not a number"),
        (NUMBER, "\x1b[2J\u009b", r"wrong: '\x1b[2J\x9b' is not a number"),
        (EXACT, 3, "right"),
        (EXACT, 3.0001, "wrong"),
        (PAIR, [0.25, -2], "right"),
        (PAIR, ["0.25", "−2"], "right"),
        (PAIR, [-2, 0.25], "wrong"),
        (PAIR, [0.25], "wrong: a list of 1, not of 2 numbers"),
        (PAIR, [0.25, None], "wrong: null is not a number"),
        (PAIR, 0.25, "wrong: 0.25 is not a list of 2 numbers"),
        (PAIR, "ab", "wrong: 'ab' is not a list of 2 numbers"),
        (WORD, " yes", "right"),
        (WORD, "No", "wrong"),
        (WORD, 1, "wrong: 1 is not a word"),
    ],
)
def test_answers_are_marked_by_their_kind(question, given, words):
    assert mark_answer(given, question) == Mark(words == "right", words)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("holds", "right"),
        (" Holds ", "right"),
        ("depends", "wrong"),
        ("true", "wrong: 'true' is none of the four"),
        (1, "wrong: 1 is none of the four"),
        (["holds"], 'wrong: ["holds"] is none of the four'),
        (None, "not answered"),
    ],
)
def test_verdicts_are_marked_by_word(given, words):
    assert mark_verdict(given, made()) == Mark(words == "right", words)


def test_what_a_form_holds_is_no_markup(tmp_path, capsys):
    form = filled(7, TWO)
    form["answers"]["beta-limits"]["verdict"] = "[red]x[/]"
    assert "'[red]x[/]' is none" in marked(form, tmp_path, capsys)


GOOD = {"seed": 7, "claims": ["beta-limits"], "answers": {}}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[" * 100_000,
        "\udcff",
        "[1]",
        GOOD | {"seed": None},
        GOOD | {"seed": "7"},
        GOOD | {"seed": True},
        GOOD | {"seed": -7},
        GOOD | {"seed": float("nan")},
        {"claims": ["beta-limits"]},
        {"seed": 7},
        GOOD | {"claims": []},
        GOOD | {"claims": "beta-limits"},
        GOOD | {"claims": ["beta-limit"]},
        GOOD | {"claims": [["beta-limits"]]},
        GOOD | {"answers": {"beta": {}}},
        GOOD | {"answers": {"softmax-jacobian": {}}},
        GOOD | {"answers": [1]},
        GOOD | {"answers": {"beta-limits": 0.5}},
        GOOD | {"answers": {"beta-limits": {"anwser": 1}}},
    ],
)
def test_a_form_that_cannot_be_marked_is_said_with_its_name(tmp_path, text):
    path = tmp_path / "form.json"
    text = text if isinstance(text, str) else json.dumps(text)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with expect_error(UserError):
        mark(path)


def test_a_form_that_is_not_there_is_said(tmp_path):
    with expect_error(UserError):
        mark(tmp_path / "none.json")
    with expect_error(UserError):
        mark(tmp_path)


def test_a_claim_that_asks_nothing_cannot_be_marked(tmp_path, monkeypatch):
    monkeypatch.setattr(worksheet, "load_claim", lambda name: made())
    path = tmp_path / "form.json"
    path.write_text(json.dumps(GOOD))
    with expect_error(UserError):
        mark(path)


def test_marking_needs_no_mathml(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "latex2mathml.converter", None)
    assert "4 of 4" in marked(filled(7, TWO), tmp_path, capsys)
