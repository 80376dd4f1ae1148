"""The tables of the results page, computed by hand where they could become wrong unseen."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import make_results
from benchmarks.growth import per_head
from make_results import anchor, contents
from regard.runs.recipe import recipes
from results_page import best, cells, cheaper_costs, ratios, records
from results_page.boards import boards, by_size, time_to
from results_page.captions import below, captioned
from results_page.cells import lasting, rate, spread, took
from results_page.commands import gives, label
from results_page.counted import beside, counted
from results_page.courses import (
    PATCHES,
    STEMS,
    board_of,
    compiling,
    draw,
    images_per_second,
    seconds_to,
    with_courses,
)
from results_page.gpu_tests import gpu_tests
from results_page.images import trained
from results_page.language import foretold
from results_page.origins import origins
from results_page.pretraining import pretrained
from results_page.reach import lines, times_as_long
from results_page.texts import understood
from results_page.translations import translated
from results_page.tried import tried
from results_page.typeset import SPACE, typeset
from test_docs import anchors
from test_figures import assert_legible

COURSE = [[31.0, 0.6], [33.0, 0.91], [35.0, 0.89], [37.5, 0.94], [39.5, 0.945]]
MACHINE = dict.fromkeys(("device", "torch", "python", "commit", "date"), "x")
PAGES = Path(make_results.__file__).parent


def run_of(parameters: int, *values: float, course: Any = COURSE, **more: Any) -> dict[str, Any]:
    """What `regard evaluate --save-results` writes, as far as the boards read it."""
    accuracies = [{"value": value, "low": value - 0.01, "high": value + 0.01} for value in values]
    facts: dict[str, Any] = {
        **{"task": "classify", "data": "cifar10", "recipe": "cifar10-patch", "split": "test"},
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


# Figures, times and where they come from


def test_one_seed_has_its_interval_and_several_have_minimum_and_maximum() -> None:
    low, high = ({"value": x, "low": x - 0.1, "high": x + 0.1} for x in (0.5, 0.7))
    assert spread([low]) == "50.0 (40.0 to 60.0)"
    assert spread([low, high]) == "60.0 (50.0 to 70.0)"
    assert spread([low, None, high], 3, 1, "%") == "0.600% (0.500% to 0.700%)"
    assert spread([{"value": 0.5}]) == "50.0" and spread([None]) == ""


def test_seconds_and_minutes_are_told_as_finely_as_they_matter() -> None:
    assert [lasting(x) for x in (13.4, 119, 176, 597, 1766)] == [
        *("13 s", "119 s", "2.9 min", "9.9 min", "29 min")
    ]


def of_a_task(task: str, figures: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Two seeds that took 10 and 50 seconds."""
    last = {"train_eval/accuracy": 1.0, "val/accuracy": 0.9, "val/loss": 1.0}
    run = {"figures": figures, "epochs": 3, "last": last, "waited": 0.0}
    facts = {"task": task, "data": "own", "recipe": "r", "command": f"regard train {task}"}
    facts |= {"split": "test", "parameters": 5, "parts": [1, 1, 1], "mean": 0.5, **MACHINE, **more}
    return facts | {"runs": [{**run, "seconds": 10.0}, {**run, "seconds": 50.0}]}


@pytest.mark.parametrize(
    ("task", "section", "figures"),
    [
        ("classify", trained, ["accuracy"]),
        ("caption", captioned, ["CIDEr-D"]),
        ("translate", translated, ["BLEU"]),
        (
            "language",
            foretold,
            ["loss", "bits_per_byte", "word_perplexity", "word_perplexity_with_eos"],
        ),
        ("classify-text", understood, ["accuracy"]),
        ("pretrain-bert", pretrained, ["mlm", "nsp", "inversion", "nli"]),
    ],
)
def test_time_is_the_mean_over_seeds_everywhere(
    results: Path, task: str, section: Any, figures: list[str]
) -> None:
    seen: dict[str, Any] = {name: {"value": 0.5, "low": 0.4, "high": 0.6} for name in figures}
    seen |= {"perplexity": 7.0}
    record(results, run_a=of_a_task(task, seen))
    said = "\n".join(section())
    assert "30 s" in said and "10 s" not in said and "50 s" not in said
    _, (data, *_) = best.SHOWN[task]
    record(results, run_a=of_a_task(task, seen, data=data))
    assert "| 30 s, x |" in best.in_short() and "| 30 s, x |" in best.in_full()


def test_times_of_a_shared_gpu_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = of_a_task("classify-text", {})
    assert took(facts) == "30 s"
    assert took(facts | {"note": "Thus; the GPU was shared with other runs."}) == "30 s†"
    monkeypatch.setattr(records, "SHARED", {("r", "x")})
    assert took(facts) == "30 s†" and took(facts | {"commit": "y"}) == "30 s"


def test_every_run_that_shared_its_gpu_is_recorded() -> None:
    found = {(facts["recipe"], facts["commit"]) for facts in map(records.read, every_run())}
    assert found >= records.SHARED


def every_run() -> list[str]:
    return records.named("run-*")


def test_footnotes_say_only_in_what_a_row_differs() -> None:
    usual = {"device": "a", "torch": "2", "commit": "c", "date": "d"}
    other, third = usual | {"commit": "e"}, usual | {"device": "b", "torch": "3"}
    assert origins([usual, usual]) == (["", ""], "Measured on a, torch 2, commit c, d.")
    marks, line = origins([other, usual, third, usual, other, usual])
    assert marks == ["¹", "", "²", "", "¹", ""]
    assert line == "Measured on a, torch 2, commit c, d. ¹ commit e. ² b, torch 3."


# Commands


def test_the_command_beside_a_figure_is_the_one_that_prints_it() -> None:
    def typed(split: str, command: str = "regard train t --recipe r") -> str:
        return gives({"command": command, "split": split})

    assert typed("test") == "`regard train t --recipe r --test`"
    assert typed("validation") == "`regard train t --recipe r`"  # which training ends with
    assert (
        typed("test2017") == "`regard train t --recipe r`<br>`regard evaluate RUN --split test2017`"
    )
    averaged = "regard average (5 runs of regard train t --recipe r --batch-size 2)"
    trained = "`regard train t --recipe r --batch-size 2 --train.seed SEED` for 5 seeds<br>"
    assert typed("test", averaged) == f"{trained}`regard average RUNS --test`"
    assert typed("validation", averaged) == f"{trained}`regard average RUNS`"


def test_a_mean_of_runs_is_called_one() -> None:
    averaged = "regard average (5 runs of regard train t --recipe r{})"
    assert label({"recipe": "r", "command": averaged.format("")}) == "mean of 5 runs of `r`"
    assert (
        label({"recipe": "r", "command": averaged.format(" --batch-size 2")})
        == "mean of 5 runs of `r` + 1 flag"
    )


def test_a_figure_on_validation_is_of_data_without_a_test() -> None:
    for facts in map(records.read, every_run()):
        has_test = facts["parts"][2] > 0
        assert (facts["split"] == "validation") == (not has_test), facts["recipe"]


@pytest.mark.parametrize("made", [best.in_short, best.in_full])
def test_every_best_run_has_a_command_of_a_known_recipe(made: Callable[[], str]) -> None:
    tasks = set()
    for row in made().splitlines()[2:]:
        _, command, parameters, measured, time = row.removesuffix(" |").split(" | ")
        task, name = re.findall(r"regard train ([\w-]+) --recipe ([\w-]+)", command)[0]
        tasks.add(task)
        assert name in recipes(task)
        assert ("--split test2017" in command) == ("test2017:" in measured)
        assert ("--test" in command) == bool(re.search(r"\btest\b", measured.partition(":")[0]))
        repeats = "means?" if "regard average" in command else "seeds?"
        assert re.search(rf"\d {repeats}$", measured)
        assert re.search(r"\d (s|min)", time) and parameters
    assert tasks == set(best.SHOWN) == set(best.TOLD)


def test_every_recipe_on_a_board_and_the_best_of_fashion_mnist_are_on_the_page() -> None:
    table = best.in_full()
    names = [facts["recipe"] for _, facts in with_courses()]
    assert len(names) >= 4
    for name in (*names, "fashion-mnist-large"):
        assert f"`regard train classify --recipe {name} --test`" in table


def test_the_best_of_each_split_is_shown_and_no_other(results: Path) -> None:
    for number, (split, mean) in enumerate([("test", 0.3), ("test", 0.4), ("test2017", 0.2)]):
        figures = {"BLEU": {"value": mean}}
        more = {"split": split, "mean": mean, "recipe": f"r{number}", "data": "multi30k"}
        record(results, **{f"run_{number}": of_a_task("translate", figures, **more)})
    assert [facts["recipe"] for facts in best.shown("translate", "multi30k")] == ["r1", "r2"]
    assert "Multi30k test (test2016): BLEU 40.0 (40.0 to 40.0), 2 seeds" in best.in_full()


def test_a_recipe_with_changes_is_told_by_its_flags() -> None:
    command = "regard train t --recipe r --model.no-bias --model.head-hidden 64 64"
    assert label({"recipe": "r", "command": command}) == "`r` + 2 flags"
    assert label({"recipe": "r", "command": "regard train t --recipe r"}) == "`r`"


# Boards


def test_seconds_to_an_accuracy_are_those_of_the_first_epoch_that_has_it() -> None:
    assert seconds_to(COURSE, 0.9) == 33.0  # though the next is below again
    assert seconds_to(COURSE, 0.94) == 37.5  # as high is enough
    assert seconds_to(COURSE, 0.95) is None


def test_compiling_is_the_first_epoch_less_the_median_of_the_others() -> None:
    assert compiling(COURSE) == 31.0 - 2.0  # of 2, 2, 2.5 and 2 seconds
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
        ("cifar10-patch", " --model.stem conv --model.patch-size 2", STEMS),
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
        "| `cifar10-patch` | 3,000,000 | 94.00% (93.00% to 95.00%) | 2 | 38 s | "
        "38 s (1 of 2 seeds) |  |\n" in said
    )
    assert "`cifar10-patch`: 34 s of compiling, then 94 images/s." in said
    assert "on validation: 20 training images" in said
    assert "### Patches alone" in said and "### Small stems" not in said
    for run in facts["runs"]:
        run["epochs"] *= 4  # measured after every fourth
    record(results, run_a=facts | {"note": "It rained."})
    assert "34 s of compiling, then 376 images/s. It rained." in "\n".join(boards())
    assert "| 0.15 million | 50.00% (49.00% to 51.00%) | 7 |" in said


def test_the_best_of_a_size_may_be_smaller(results: Path) -> None:
    record(results, run_a=run_of(140_000, 0.9), run_b=run_of(200_000, 0.8))
    record(results, run_c=run_of(999_999, 0.95), run_d=run_of(9_000_000, 0.99))
    record(results, run_e=run_of(1000, 0.999, data="digits"))
    lines = by_size()[-1].splitlines()[2:]
    assert [line.split(" | ")[:3] for line in lines] == [
        ["| 0.15 million", "90.00% (89.00% to 91.00%)", "140,000"],
        ["| 0.3 million", "90.00% (89.00% to 91.00%)", "140,000"],
        ["| 1 million", "95.00% (94.00% to 96.00%)", "999,999"],
        ["| 4 million", "95.00% (94.00% to 96.00%)", "999,999"],
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


# Cheaper attention


def measured(n: int, batch: int, heads: int, seconds: float | None, path: str) -> dict[str, Any]:
    both = {} if seconds is None else {"both": seconds}
    size = {} if seconds is None else {"both": 2_000_000}
    row = {"name": "window", "n": n, "batch": batch, "heads": heads, "path": path, "bytes": size}
    return row | both


def cheap() -> dict[str, Any]:
    """A method at three sizes: all heads, half of them, and forward alone."""
    told = {"slope": 1.0, "slope_bytes": None, "times_full": {"n": 64, "ratio": 3.21}}
    told |= {"beats": {"full": {"from": 12.3, "upto": 64}}, "path": "that of 256 tokens"}
    told |= {"n": 128, "seconds": 0.25, "bytes": 2_000_000}
    rows = [measured(64, 2, 16, 0.3, "a"), measured(128, 1, 16, 0.25, "b | c")]
    rows.append(measured(256, 1, 8, None, "that of 256 tokens"))
    shape = {"batch": 2, "heads": 16, "head_width": 128, "dtype": "bfloat16"}
    return {**MACHINE, "command": "c", **shape, "summary": {"window": told}, "rows": rows}


def test_times_and_memory_are_scaled_to_the_same_heads_and_the_path_is_of_the_same_row() -> None:
    facts = cheap()
    assert cheaper_costs.row(facts, "window") == [
        *("window", "128", "500", "n<sup>1.00</sup>", "4", "", "3.2 at 64", "from 12", "–")
    ]
    assert cheaper_costs.path(facts, "window") == ["window", "128", "`b \\| c`"]


def test_what_was_scaled_is_said_with_batch_heads_width_and_dtype(results: Path) -> None:
    facts = cheap()
    assert cheaper_costs.shape(facts) == (
        "Batch 2, 16 heads of width 128, bfloat16. 128 tokens were measured with batch 1 and 16 "
        "heads, and are scaled to these 32 heads."
    )
    record(results, bench_cheaper_cuda=facts | {"left_out": []})
    said = "\n".join(cheaper_costs.cheaper_costs())
    assert f"**On one H200.** {cheaper_costs.shape(facts)}" in said
    facts["rows"].pop(1)
    assert cheaper_costs.shape(facts) == "Batch 2, 16 heads of width 128, bfloat16."


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_table_has_what_the_picture_draws_head_by_head(device: str) -> None:
    facts = records.read(f"bench-cheaper-{device}")
    heads = facts["batch"] * facts["heads"]
    for method in facts["summary"]:
        own = [row for row in facts["rows"] if row["name"] == method]
        last, seconds = per_head(own, "both")[-1]
        _, size = per_head(own, "bytes", "both")[-1]
        _, n, ms, _, peak, *_ = cheaper_costs.row(facts, method)
        assert n == f"{last:,}"
        assert (ms, peak) == (rate(1e3 * heads * seconds), rate(1e-6 * heads * size))


def test_what_was_left_out_is_told_once_a_reason() -> None:
    left = [("a", 64, "slow"), ("b", 64, "slow"), ("a", 128, "a smaller size was left out")]
    facts = {"left_out": [{"name": name, "n": n, "why": why} for name, n, why in left]}
    assert cheaper_costs.left_out(facts) == ["Left out: a, b from 64 tokens (slow)."]
    assert cheaper_costs.left_out({"left_out": []}) == []


# Speed


def test_a_ratio_stands_beside_the_weak_and_the_strong_rival(results: Path) -> None:
    rates = {"regard": 100.0, "transformers": 8.0}
    compiled = rates | {"transformers, static cache, compiled": 40.0}
    record(results, bench_decoding_cuda={"rows": [{"words_per_second": compiled}]})
    record(results, bench_decoding_cpu={"rows": [{"words_per_second": rates}]})
    against = "transformers, eager / compiled"
    assert ratios.one_text() == [["generating one text", against, "12 / 2.50", "12 / –"]]

    rates = {"regard": 3.0, "transformers": 3.0, "transformers, compiled": 4.0}
    rows = [{"model": "m", "images_per_second": rates | {"regard, compiled": 6.0}}]
    record(results, bench_training_cuda={"rows": rows})
    ((_, _, *found),) = ratios.training()
    assert found == ["1.00 / 1.50", "–"]  # compiled beside compiled


REACHED = {
    "recipe": "digits",
    "goal": 0.97,
    "parameters": 1,
    "seconds": {
        "regard": {"median": 1.0, "low": 0.9, "high": 1.1, "bound": False},
        "Trainer": {"median": 8.5, "low": 8.0, "high": 9.0, "bound": True},
        "Trainer, our settings": {"median": 1.5, "low": 1.4, "high": 1.6, "bound": False},
    },
    "ratio": {"regard": 1.0, "Trainer": 8.52, "Trainer, our settings": 1.47},
}


def test_time_to_a_goal_is_a_bound_where_a_run_was_stopped(results: Path) -> None:
    assert [line[3:] for line in lines(REACHED)] == [
        ["1.0 (0.9 … 1.1)", "1.0"],
        ["> 8.5 (8.0 … 9.0)", "> 8.5"],
        ["1.5 (1.4 … 1.6)", "1.5"],
    ]
    assert times_as_long({**REACHED, "ratio": {"Trainer": None}}, "Trainer") == ""
    record(results, bench_reach_cpu={"rows": [REACHED]})
    assert ratios.sooner()[0][1:] == [
        *("transformers' Trainer, defaults / our settings", "–", "> 8.5 / 1.5")
    ]


def test_the_page_opens_with_one_row_a_task_and_six_ratios() -> None:
    assert len(best.in_short().splitlines()) == 2 + len(best.SHOWN)
    assert len(ratios.ratios(ratios.SHORT).splitlines()) == 2 + 6


def test_a_rate_is_never_written_with_an_exponent() -> None:
    assert [rate(2734.4), rate(105.2), rate(68.64)] == ["2,734", "105", "68.6"]


# Other sections


def test_meteor_lite_is_told_by_how_much_it_is_lower(results: Path) -> None:
    assert below() == []
    rows = [("a-0", 0.30, 0.29), ("a-1", 0.32, 0.297)]
    facts = {"rows": [{"run": run, "METEOR": x, "lite": y} for run, x, y in rows]}
    record(results, meteor_jar=facts | {"command": "python x.py results/y.json a-0 a-1"})
    assert "is 1.0 to 2.3 points lower on these 2 runs" in below()[0]
    record(results, run_a=of_a_task("caption", {"CIDEr-D": {"value": 0.5}}, recipe="a"))
    assert "| METEOR | 31.0 (30.0 to 32.0) |" in "\n".join(captioned())


def test_counts_that_are_the_same_are_ticked_and_others_said(results: Path) -> None:
    assert counted() == []
    assert beside(1000, 1000, 1e3, 1) == "✓"
    assert beside(1001, 1000, 1e3, 3) == "1.001 (+0.1%)"
    row = {
        "command": "regard count gpt --width 8 --device cuda --steps 1000 --verify",
        "parameters": {"closed": 1234},
        "multiply_adds": {"closed": 2_000_000_000, "measured": 2_000_000_000, "torch": 2.5e9},
        "activations": {"closed": 3_000_000, "measured": 2_700_000},
        "estimate": {"seconds": 0.009, "real": 0.01, "bytes": 3e6, "real_bytes": 4e6},
    }
    recipe = row | {"command": "regard count vit --recipe small --batch-size 2"}
    record(results, count_cuda={**MACHINE, "command": "x", "rows": [row, recipe]})
    said = "\n".join(counted())
    assert "| gpt | 1,234 | 2.000 | ✓ | 2.500 (+25.0%) | 3.0 | 2.7 (-10.0%) |" in said
    assert "| gpt | 9.0 | 10.0 | 0.90 | 3 | 4 | 0.75 |" in said
    assert f"| vit small | `{recipe['command']}` |" in said


def test_what_was_tried_is_shown_best_first_with_what_came_after(results: Path) -> None:
    assert tried() == []
    worse = {"recipe": "a", "changes": {}, "parameters": 9, "epochs": 2, "validation": 0.5}
    better = worse | {"changes": {"x": 1, "y": 2}, "validation": 0.6, "also": {"more": 0.7}}
    then = {"words": "Then", "command": "c", "mean": 0.4, "deviation": 0.01, "values": [0.39, 0.41]}
    facts = {"words": "Two", "command": "c", "split": "z", "seeds": 1, "rows": [worse, better]}
    record(results, tried_a={**MACHINE, **facts, "then": [then]})
    said = "\n".join(tried())
    assert "Two. One row a setting, one seed each; accuracy on z." in said
    assert (
        "| a | `x = 1`, `y = 2` | 9 | 2 | 60.0% | 70.0% |\n| a | nothing | 9 | 2 | 50.0% |" in said
    )
    assert "Then: 40.0% ± 1.0% (39.0%, 41.0%), by `c`." in said


def test_accuracy_after_pretraining_is_the_mean_over_seeds(results: Path) -> None:
    assert pretrained() == []
    seeds = []
    for value in (0.4, 0.5):
        figures: dict[str, Any] = {name: {"value": value} for name in ("mlm", "nsp", "inversion")}
        figures |= {"nli": {"value": 0.6}, "perplexity": 100 * value}
        seeds.append({"figures": figures, "epochs": 3, "seconds": 10.0})
    record(results, run_p=of_a_task("pretrain-bert", {}) | {"runs": seeds})
    said = "\n".join(pretrained())
    assert "inverted | 45.0% (40.0% to 50.0%) | 50% |" in said
    assert "hidden | 45.0% (40.0% to 50.0%) |  |" in said
    assert "is 45.0 (40.0 to 50.0). On *nli* all seeds have the same accuracy." in said


def test_a_note_on_the_gpu_tests_is_shown(results: Path) -> None:
    counts = {"passed": 1, "failed": 1, "skipped": 0, "seconds": 2.0, "note": "It passes now."}
    tests = [{"id": "tests/a.py::b", "outcome": "failed"}]
    record(results, gpu_tests={**MACHINE, **counts, "tests": tests})
    assert gpu_tests()[-2:] == ["Failed: `tests/a.py::b`.", "It passes now."]


# The pages


def test_contents_lead_to_every_section() -> None:
    parts = ["## One, two (`a`)", "words", "### Below", "## Three\n\nMore"]
    assert contents(parts) == "[One, two](#one-two-a) · [Three](#three)"
    assert {anchor("A `b`, c-d")} == anchors("## A `b`, c-d\n")


def test_tables_keep_figures_on_a_line_and_code_as_it_is() -> None:
    text = "| 2.9 min | `a (1, 2)` | about 1.2 (1.0 to 1.4), 3 seeds | some longer words, 12 |"
    kept = text.replace("2.9 min", f"2.9{SPACE}min")
    kept = kept.replace("(1.0 to 1.4)", f"(1.0{SPACE}to{SPACE}1.4)")
    assert typeset(f"{text}\n2.9 min") == f"{kept}\n2.9 min"


def test_no_table_is_wider_than_nine_columns() -> None:
    for line in make_results.page().splitlines():
        if line.startswith("| "):
            assert line.count(" | ") < 9, line


def test_no_figure_is_typed_into_the_sections() -> None:
    typed = re.compile(r"\d\.\d|\d,\d{3}|\d ?%|\d ?(?:s|ms|MB|min)\b")
    agreed = {cells.SPREAD, "95% interval"}  # by convention, and in every table
    for path in (PAGES / "make_results.py", *(PAGES / "results_page").glob("*.py")):
        if path.name == "published.py":
            continue
        for words in said_in(ast.parse(path.read_text(encoding="utf-8"))):
            for convention in agreed:
                words = words.replace(convention, "")
            assert not typed.search(words), f"{path.name}: {words}"


def said_in(tree: ast.AST) -> list[str]:
    """The strings of a file, without docstrings and without how numbers are formatted."""
    silent = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            silent |= {id(part) for part in ast.walk(node.format_spec)}
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            silent.add(id(node.value))
    strings = [node for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return [str(x.value) for x in strings if isinstance(x.value, str) and id(x) not in silent]


def test_a_typed_figure_would_be_found() -> None:
    source = '"""Of 5%."""\nx = f"{1:.1%} and 15%"\n'
    assert said_in(ast.parse(source)) == [" and 15%"]


@pytest.mark.parametrize(("words", "code"), [(["--chek"], 2), (["now"], 2), (["--help"], 0)])
def test_the_script_refuses_what_it_does_not_know_and_answers_help(
    words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_results, "DOCS", tmp_path / "docs")
    with pytest.raises(SystemExit) as stopped:
        make_results.main(words)
    assert stopped.value.code == code and not list(tmp_path.iterdir())
