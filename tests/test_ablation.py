"""What each kind of question adds: means, gains over the same seed from scratch, intervals."""

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy import stats

from benchmarks.experiments.pretrain_ablation import (
    CHOICES,
    MODULE,
    QUESTIONS,
    UNTRAINED,
    Ablation,
    command,
    drawn,
    flags,
    interval,
    keep,
    main,
    named,
    summarised,
)
from golden import expect_error
from regard.errors import UserError
from regard.runs.processes import in_processes


def row(choice: str, seed: int, sst2: float, sick: float, **more: Any) -> dict[str, Any]:
    return {"choice": choice, "seed": seed, "sst2": sst2, "sick": sick, **more}


ROWS = [
    row("from scratch", 0, 0.60, 0.50),
    row("from scratch", 1, 0.70, 0.52),
    row("mlm", 0, 0.64, 0.55, questions={"mlm": 0.40}),
    row("mlm", 1, 0.72, 0.57, questions={"mlm": 0.50}),
    row(UNTRAINED, 0, 0.61, 0.51),
]


def test_gains_are_over_the_same_seed() -> None:
    lines = {line["choice"]: line for line in summarised(ROWS)}
    assert list(lines) == ["from scratch", UNTRAINED, "mlm"]  # scratch and untrained first
    assert lines["from scratch"]["sst2"]["gain"] is None
    assert lines["mlm"]["sst2"]["mean"] == pytest.approx(0.68)
    assert lines["mlm"]["sst2"]["gain"]["value"] == pytest.approx(0.03)  # of 0.04 and 0.02
    assert lines["mlm"]["questions"] == {"mlm": pytest.approx(0.45)}
    assert (lines["mlm"]["sick"]["low"], lines["mlm"]["sick"]["high"]) == (0.55, 0.57)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_an_interval_is_students(count: int) -> None:
    values = [0.1, 0.4, 0.2, 0.9, 0.3][:count]
    found = interval(values)
    low, high = stats.t.interval(0.95, count - 1, loc=sum(values) / count, scale=stats.sem(values))
    assert found["low"] == pytest.approx(low, rel=1e-3)
    assert found["high"] == pytest.approx(high, rel=1e-3)


def test_one_seed_has_no_interval() -> None:
    assert interval([0.5]) == {"value": 0.5, "low": -math.inf, "high": math.inf}


def test_the_table_says_what_was_asked_and_gained() -> None:
    out = io.StringIO()
    Console(file=out, width=200).print(drawn(summarised(ROWS)))
    line = next(line for line in out.getvalue().splitlines() if "45.0" in line)
    assert "mlm" in line and "68.0" in line and "+3.0" in line and "56.0" in line


def test_what_is_done_is_kept_with_its_command(tmp_path: Path) -> None:
    how, path = Ablation(seeds=2, draws=3, device="cpu", epochs=4), tmp_path / "a.json"
    keep(how, path, ROWS)
    facts = json.loads(path.read_text())
    assert facts["command"].endswith("ablation --seeds 2 --draws 3 --epochs 4")
    assert facts["rows"] == ROWS and facts["summary"] == summarised(ROWS)


def test_the_command_says_which_recipe_and_choices_were_asked_for() -> None:
    how = Ablation(recipe="wikitext-2-masked", only=("from scratch", "mlm"))
    asked = "--seeds 3 --draws 3 --recipe wikitext-2-masked --only 'from scratch' mlm"
    assert command(how).endswith(asked)
    assert flags(how, "mlm", 1)[:2] == ["--recipe", "wikitext-2-masked"]


def test_a_choice_that_there_is_not_is_refused() -> None:
    with expect_error(UserError):
        main(Ablation(only=("maskd",)))


def test_every_question_is_left_out_and_asked_somewhere() -> None:
    asked = [choice for choice in CHOICES.values() if choice is not None]
    for name in QUESTIONS:
        assert any(name in choice for choice in asked)
        assert any(name not in choice for choice in asked)


def test_what_goes_wrong_in_a_process_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_DATA", "/nowhere")
    how = Ablation(recipe="no-such-corpus", device="cpu")
    with expect_error(RuntimeError):
        list(in_processes(MODULE, {named("mlm", 1): flags(how, "mlm", 1)}, workers=1))
