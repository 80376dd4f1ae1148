"""A verdict follows from figures, a control that passes spoils it, and the command says so."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from golden import expect_error, golden
from regard.cli import main
from regard.errors import UserError
from regard.lab import claims
from regard.lab.claim import SOURCES, Claim
from regard.lab.claims import CLAIMS, load_claim
from regard.lab.command import checked
from regard.lab.evidence import DISPUTED, Evidence, at_least, at_most, equal, shown
from regard.lab.question import Question
from regard.lab.records import provenance, recorded
from regard.lab.report import plain

GOOD, BAD = at_most("error", 1e-15, 1e-12), at_most("error", 1.0, 1e-12)


def found(**groups) -> str:
    return Evidence(deciding="", **({"controls": (BAD,)} | groups)).verdict()


def test_a_figure_is_held_against_its_bound():
    assert at_most("", 1, 1).ok and not at_most("", 1.1, 1).ok
    assert at_least("", 1, 1).ok and not at_least("", 0.9, 1).ok
    assert equal("", 3, 3).ok and not equal("", 3.1, 3).ok
    nan = float("nan")
    assert not any(check("", nan, 1).ok for check in (at_most, at_least, equal))
    assert str(GOOD) == "error: 1e-15 ≤ 1e-12" and str(BAD) == "error: 1 not ≤ 1e-12"
    assert [shown(x) for x in (140618.0, 0.25, float("inf"))] == ["140,618", "0.25", "inf"]


def test_each_verdict_follows_from_the_figures():
    assert found(written=(GOOD,)) == "holds"
    assert found(written=(GOOD, BAD), corrected=(GOOD,)) == "corrected"
    assert found(inside=(GOOD,), outside=(BAD,)) == "depends"
    assert found(answer=(GOOD,)) == "answered"


@pytest.mark.parametrize(
    "groups",
    [
        {"written": (BAD,)},
        {"written": (BAD,), "corrected": (GOOD, BAD)},
        {"written": (GOOD,), "corrected": (GOOD,)},  # nothing to correct
        {"inside": (BAD,), "outside": (BAD,)},
        {"inside": (GOOD,), "outside": (GOOD,)},  # no condition is needed
        {"inside": (GOOD,), "outside": (BAD, GOOD)},
        {"answer": (BAD,)},
        {},
    ],
)
def test_figures_that_say_neither_are_disputed(groups):
    assert found(**groups) == DISPUTED


def test_without_a_control_that_fails_nothing_is_shown():
    for controls in ((), (GOOD,), (BAD, GOOD)):
        assert found(written=(GOOD,), controls=controls) == DISPUTED


def test_what_is_no_number_decides_nothing():
    nan = at_most("error", float("nan"), 1.0)
    assert found(written=(GOOD,), controls=(nan,)) == DISPUTED
    assert found(written=(nan,), corrected=(GOOD,)) == DISPUTED
    assert found(inside=(GOOD,), outside=(nan,)) == DISPUTED


def test_there_are_the_53_claims_of_the_documents_each_in_a_file_of_its_own():
    assert len(CLAIMS) == len(set(CLAIMS)) == 53
    (folder,) = map(Path, claims.__path__)
    files = {path.stem.replace("_", "-") for path in folder.glob("*.py")} - {"--init--"}
    assert files == set(CLAIMS)
    with expect_error(UserError):
        load_claim("beta-limit")


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_says_where_it_stands_and_what_is_true(name):
    claim = load_claim(name)
    assert isinstance(claim, Claim) and claim.id == name
    assert claim.source.split()[0] in SOURCES
    assert claim.statement.endswith((".", "?")) and claim.truth.endswith(".")
    for words in (claim.statement, claim.truth):
        assert words.count("$") % 2 == 0, "a formula that does not end"
        assert "\\" not in plain(words), f"a letter that told.LETTERS lacks: {plain(words)}"


def test_seventeen_statements_are_wrong_as_published():
    verdicts = [load_claim(name).verdict for name in CLAIMS]
    assert {name: verdicts.count(name) for name in set(verdicts)} == {
        "holds": 20,
        "corrected": 17,
        "depends": 14,
        "answered": 2,
    }


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_is_found_as_stated_and_its_controls_fail(name):
    each = checked(load_claim(name))
    assert each.evidence.verdict() == each.claim.verdict, "\n".join(
        str(check) for _, checks in each.evidence.groups() for check in checks
    )
    assert each.evidence.controls and not any(check.ok for check in each.evidence.controls)
    assert 0 < len(each.evidence.deciding) <= 60
    values = json.loads(json.dumps(each.to_values()))
    assert values["found"] == values["verdict"] and values["agrees"] is True


@pytest.mark.parametrize("name", CLAIMS)
def test_questions_are_drawn_anew_and_know_their_answer(name):
    claim = load_claim(name)
    if claim.ask is None:
        pytest.skip("nothing is asked about it")
    drawn = [claim.ask(np.random.default_rng([seed, 3])) for seed in range(6)]
    again = claim.ask(np.random.default_rng([0, 3]))
    assert again == drawn[0]
    assert len({question.text for question in drawn}) > 1, "every student gets the same"
    for question in drawn:
        given = list(question.answer) if isinstance(question.answer, tuple) else question.answer
        assert question.right(given)
        assert not question.right(None) and not question.right("nothing of this")
        if isinstance(question.answer, str):
            assert question.answer in question.choices and len(question.choices) > 1
        assert question.text.count("$") % 2 == 0 and question.why.count("$") % 2 == 0


def test_an_answer_may_differ_by_a_share_of_itself():
    question = Question("?", 200.0, tolerance=0.01)
    assert question.right(201) and not question.right(203) and not question.right(True)
    several = Question("?", (1.0, 2.0))
    assert several.right([1.0, 2.0]) and not several.right([2.0, 1.0])
    assert not several.right([1.0]) and not several.right("12")
    assert Question("?", "yes", choices=("yes", "no")).right(" Yes ")


# The command


def test_one_claim_is_told_in_full(capsys):
    assert main(["lab", "softmax-jacobian"]) == 0
    said = capsys.readouterr().out
    assert "5.638e-42" in said and "verdict: corrected" in said and "controls" in said


def test_numbers_of_ones_own_take_the_place_of_ours(capsys):
    assert main(["lab", "softmax-jacobian", "--z", "0", "0", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["softmax-jacobian"]
    assert np.allclose(values["series"]["jacobian"], [[0.25, -0.25], [-0.25, 0.25]])
    assert main(["lab", "beta-limits", "--keys", "0"]) == 2
    golden(capsys.readouterr().err)


def test_several_are_a_table_and_one_that_is_not_as_stated_is_told_and_counted(capsys, monkeypatch):
    assert main(["lab", "softmax-jacobian", "beta-limits"]) == 0
    said = capsys.readouterr().out
    assert "2 claims" in said and "1 holds, 1 corrected" in said
    monkeypatch.setattr(
        "regard.lab.claims.beta_limits.attend",
        lambda q, k, v, beta: __import__("regard").attend(q, k, v, beta=beta / 2 + 0.1),
    )
    assert main(["lab", "softmax-jacobian", "beta-limits"]) == 1
    assert "not as stated: beta-limits" in capsys.readouterr().out


def test_pictures_are_drawn_into_a_folder(tmp_path):
    assert main(["lab", "softmax-jacobian", "--plot", str(tmp_path / "p")]) == 0
    assert (tmp_path / "p" / "softmax-jacobian.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lab", "softmax-jacobean"], "there is no claim 'softmax-jacobean'; did you mean"),
        (["lab", "softmax-jacobian", "--train"], "nothing is trained for softmax-jacobian"),
        (["lab", "softmax-jacobian", "--z", "a"], "--z"),
    ],
)
def test_mistakes_are_told_in_a_sentence(words, said, capsys):
    assert main(words) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


def test_a_record_that_is_missing_or_damaged_says_how_to_make_it(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.lab.records.FOLDER", tmp_path)
    with expect_error(UserError):
        recorded("epochs")
    (tmp_path / "epochs.json").write_text("{")
    with expect_error(UserError):
        recorded("epochs")
    facts = {"date": "d", "commit": "c", "device": "x", "command": "run", "seeds": 3}
    assert provenance(facts) == "recorded d at c on x, 3 seeds: run"


def test_formulas_are_told_as_one_types_them():
    words = "$\\beta \\to \\infty$ and $\\sqrt{d}$, $\\frac{a}{b}$, $\\mathrm{softmax}(z)$"
    assert plain(words) == "β → ∞ and √(d), a / b, softmax(z)"
    for letter, power in product("qk", "T2"):
        assert plain(f"${letter}^{{{power}}}$") == f"{letter}^{power}"
