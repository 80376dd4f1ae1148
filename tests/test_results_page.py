"""The tables of the results page, computed by hand where they could become wrong unseen."""

import json
from pathlib import Path
from typing import Any

import pytest

from make_results import anchor, contents
from results_page import records
from results_page.boards import boards, by_size, time_to
from results_page.cells import rate
from results_page.counted import beside, counted
from results_page.courses import (
    PATCHES,
    STEMS,
    board_of,
    draw,
    images_per_second,
    once,
    seconds_to,
    with_courses,
)
from results_page.gpu_tests import gpu_tests
from results_page.pretraining import pretrained
from results_page.tried import tried
from test_docs import anchors
from test_figures import assert_legible

COURSE = [[31.0, 0.6], [33.0, 0.91], [35.0, 0.89], [37.5, 0.94], [39.5, 0.945]]
MACHINE = dict.fromkeys(("device", "torch", "python", "commit", "date"), "x")


def run_of(parameters: int, *values: float, course: Any = COURSE, **more: Any) -> dict[str, Any]:
    """What `regard evaluate --record` writes, as far as the boards read it."""
    accuracies = [{"value": value, "low": value - 0.01, "high": value + 0.01} for value in values]
    facts: dict[str, Any] = {
        **{"task": "classify", "data": "cifar10", "recipe": "cifar10-patch"},
        **{"command": "regard train classify --recipe cifar10-patch", "parts": [200, 20, 50]},
        **MACHINE,
        **{"parameters": parameters, "mean": sum(values) / len(values), "deviation": 0.001},
        "runs": [
            {"epochs": len(course or COURSE), "course": course, "figures": {"accuracy": seen}}
            for seen in accuracies
        ],
    }
    return facts | more


def record(folder: Path, **files: dict[str, Any]) -> None:
    for name, facts in files.items():
        (folder / f"{name.replace('_', '-')}.json").write_text(json.dumps(facts))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of records."""
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    return tmp_path


def test_seconds_to_an_accuracy_are_those_of_the_first_epoch_that_has_it() -> None:
    assert seconds_to(COURSE, 0.9) == 33.0  # though the next is below again
    assert seconds_to(COURSE, 0.94) == 37.5  # as high is enough
    assert seconds_to(COURSE, 0.95) is None


def test_what_is_done_once_is_the_first_epoch_less_the_median_of_the_others() -> None:
    assert once(COURSE) == 31.0 - 2.0  # of 2, 2, 2.5 and 2 seconds
    assert images_per_second(COURSE, 200) == 4 * 200 / 8.5


def test_a_mean_over_seeds_says_how_many_got_there() -> None:
    assert time_to([30.0, 33.0]) == "32 s"
    assert time_to([30.0, None, 32.0]) == "31 s (2 of 3 seeds)"
    assert time_to([None, None]) == ""


@pytest.mark.parametrize(
    ("recipe", "changes", "board"),
    [
        ("cifar10-patch", "", PATCHES),
        ("cifar10-small", "", PATCHES),
        ("cifar10-stem", "", STEMS),  # a DaViT
        ("cifar10-davit", "", STEMS),
        ("cifar10-conv", "", STEMS),
        ("cifar10-patch", " --model.stem conv --model.patch 2", STEMS),
    ],
)
def test_the_stem_decides_the_board(recipe: str, changes: str, board: str) -> None:
    command = f"regard train classify --recipe {recipe}{changes}"
    assert board_of({"recipe": recipe, "command": command}) == board


def test_a_board_has_a_row_for_each_record_with_a_course(results: Path) -> None:
    assert boards() == []
    later = [[a + 10, b - 0.01] for a, b in COURSE]
    facts = run_of(3_000_000, 0.93, 0.95)
    facts["runs"][1]["course"] = later
    record(results, run_a=facts, run_b=run_of(7, 0.5, course=None))
    said = "\n".join(boards())
    assert (
        "| 3,000,000 | 94.00% ± 0.10% (2 seeds) | 38 s | 38 s (1 of 2 seeds) |  | 44 s | 34 s | 94 "
        in said
    )
    assert "### Patches alone" in said and "### Small stems" not in said
    for run in facts["runs"]:
        run["epochs"] *= 4  # measured after every fourth
    record(results, run_a=facts)
    assert "| 44 s | 34 s | 376 " in "\n".join(boards())
    assert "| 0.15 million | 50.00% (49.0% to 51.0%, one seed) | 7 |" in said


def test_the_best_of_a_size_may_be_smaller(results: Path) -> None:
    record(results, run_a=run_of(140_000, 0.9), run_b=run_of(200_000, 0.8))
    record(results, run_c=run_of(999_999, 0.95), run_d=run_of(9_000_000, 0.99))
    record(results, run_e=run_of(1000, 0.999, data="digits"))
    lines = by_size()[-1].splitlines()[2:]
    assert [line.split(" | ")[:3] for line in lines] == [
        ["| 0.15 million", "90.00% (89.0% to 91.0%, one seed)", "140,000"],
        ["| 0.3 million", "90.00% (89.0% to 91.0%, one seed)", "140,000"],
        ["| 1 million", "95.00% (94.0% to 96.0%, one seed)", "999,999"],
        ["| 4 million", "95.00% (94.0% to 96.0%, one seed)", "999,999"],
    ]


def test_a_size_that_nothing_is_under_is_a_dash(results: Path) -> None:
    record(results, run_a=run_of(999_999, 0.9))
    lines = by_size()[-1].splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines[:2]] == ["–", "–"]
    assert [line.split(" | ")[2] for line in lines[2:]] == ["999,999", "999,999"]


def test_the_picture_shows_every_course_without_compiling_and_legibly(tmp_path: Path) -> None:
    figure = draw(tmp_path / "courses.png")
    assert_legible(figure)
    assert (tmp_path / "courses.png").stat().st_size < 150_000
    drawn = [line.get_xydata().tolist() for line in figure.axes[0].get_lines()]
    for _, facts in with_courses():
        for run in facts["runs"]:
            first, last = run["course"][0], run["course"][-1]
            line = next(one for one in drawn if [seen for _, seen in one] == seen_in(run))
            assert line[-1][0] - line[0][0] == pytest.approx(last[0] - first[0])
            assert 0 < line[0][0] <= first[0]  # the first epochs, and not what was compiled


def seen_in(run: dict[str, Any]) -> list[float]:
    return [seen for _, seen in run["course"]]


def test_counts_that_are_the_same_are_ticked_and_others_said(results: Path) -> None:
    assert counted() == []
    assert beside(1000, 1000, 1e3, 1) == "✓"
    assert beside(1001, 1000, 1e3, 3) == "1.001 (+0.1%)"
    row = {
        "command": "regard count gpt --width 8 --device cuda --steps 1000 --check",
        "parameters": {"closed": 1234},
        "multiply_adds": {"closed": 2_000_000_000, "measured": 2_000_000_000, "torch": 2.5e9},
        "activations": {"closed": 3_000_000, "measured": 2_700_000},
        "estimate": {"seconds": 0.009, "real": 0.01, "bytes": 3e6, "real_bytes": 4e6},
    }
    record(results, count_cuda={**MACHINE, "command": "x", "rows": [row]})
    said = "\n".join(counted())
    assert "| `gpt --width 8` | 1,234 | 2.000 | ✓ | 2.500 (+25.0%) | 3.0 | 2.7 (-10.0%) |" in said
    assert "| `gpt --width 8` | 9.0 | 10.0 | 0.90 | 3 | 4 | 0.75 |" in said


def test_what_was_tried_is_shown_best_first_with_what_came_after(results: Path) -> None:
    assert tried() == []
    worse = {"recipe": "a", "changes": {}, "parameters": 9, "epochs": 2, "validation": 0.5}
    better = worse | {"changes": {"x": 1, "y": 2}, "validation": 0.6, "also": {"more": 0.7}}
    then = {"words": "Then", "command": "c", "mean": 0.4, "deviation": 0.01, "values": [0.39, 0.41]}
    facts = {"words": "Two", "command": "c", "split": "z", "seeds": 1, "rows": [worse, better]}
    record(results, tried_a={**MACHINE, **facts, "then": [then]})
    said = "\n".join(tried())
    assert (
        "| a | `x = 1`, `y = 2` | 9 | 2 | 60.0% | 70.0% |\n| a | nothing | 9 | 2 | 50.0% |" in said
    )
    assert "Then: 40.0% ± 1.0% (39.0%, 41.0%), by `c`." in said


def test_shares_after_pretraining_are_means_over_seeds(results: Path) -> None:
    assert pretrained() == []
    seeds = []
    for value in (0.4, 0.5):
        figures = {name: {"value": value} for name in ("masked", "next", "inverted")}
        figures |= {"inference": {"value": 0.6}, "perplexity": 100 * value}
        seeds.append({"figures": figures, "epochs": 3, "seconds": 10.0})
    facts = {**MACHINE, "task": "pretrain", "command": "c", "split": "test", "parameters": 5}
    record(results, run_p=facts | {"runs": seeds})
    said = "\n".join(pretrained())
    assert "inverted | 45.0% (40.0% to 50.0%) | 50% |" in said
    assert "hidden | 45.0% (40.0% to 50.0%) |  |" in said
    assert "is 45.0 (40.0 to 50.0). Of *inference* all seeds have equally many right." in said


def test_a_note_on_the_gpu_tests_is_shown(results: Path) -> None:
    counts = {"passed": 1, "failed": 1, "skipped": 0, "seconds": 2.0, "note": "It passes now."}
    tests = [{"id": "tests/a.py::b", "outcome": "failed"}]
    record(results, gpu_tests={**MACHINE, **counts, "tests": tests})
    assert gpu_tests()[-2:] == ["Failed: `tests/a.py::b`.", "It passes now."]


def test_contents_lead_to_every_section() -> None:
    parts = ["## One, two", "words", "### Below", "## Three"]
    assert contents(parts) == "- [One, two](#one-two)\n- [Three](#three)"
    assert {anchor("A `b`, c-d")} == anchors("## A `b`, c-d\n")


def test_a_rate_is_never_written_with_an_exponent() -> None:
    assert [rate(2734.4), rate(105.2), rate(68.64)] == ["2,734", "105", "68.6"]
