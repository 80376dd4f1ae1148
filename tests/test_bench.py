"""Benchmarks run, check that contenders agree before timing them, and keep what they printed."""

import json
import math

import pytest
import torch

from benchmarks import attention, bench, watch
from benchmarks.__main__ import main
from benchmarks.attention_figure import draw
from benchmarks.harness import interleave
from golden import expect_error, golden
from regard.errors import UserError
from regard.models import ViTConfig
from test_figures import assert_legible

CPU = torch.device("cpu")


def test_the_attention_benchmark_prints_ratios_and_keeps_its_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(attention.SIZES, "cpu", [32, 64])
    bench("attention", quick=True, device="cpu", out=tmp_path)
    printed = capsys.readouterr().out
    assert "× torch" in printed and "growth of causal" in printed
    facts = json.loads((tmp_path / "bench-attention-cpu.json").read_text(encoding="utf-8"))
    assert facts["command"] == "python -m benchmarks attention --device cpu --quick"
    assert {row["n"] for row in facts["rows"]} == {16, 32, 64}
    for row in facts["rows"]:
        for way in ("forward", "both"):
            assert set(row[way]) == {"fused", "torch", "plain"}
            assert all(0 < seconds < 10 for seconds in row[way].values())
            low, high = row["quartiles"][way]["fused"]
            assert low <= row[way]["fused"] <= high
    assert (tmp_path / "bench-attention-cpu.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("largest", [64, 4096])
def test_the_figure_of_attention_names_every_line_in_every_panel(tmp_path, largest):
    times = {"fused": 1e-3, "torch": 1.001e-3, "plain": 9e-3}  # which nearly hide one another
    rows = [
        {"pattern": case.pattern, "m": case.m, "both": {k: v * case.m for k, v in times.items()}}
        for case in attention.cases([32, largest])
    ]
    for row in rows:
        if row["m"] == 4096:  # for memory
            del row["both"]["plain"]
    about = {"device": "a CPU", "dtype": "float32", "torch": "2.13.0+cpu"}
    facts = {**about, "batch": 1, "heads": 4, "head_width": 64, "rows": rows}
    page = draw(facts, tmp_path / "a.png")
    assert_legible(page)
    for axes in page.axes:
        assert {text.get_text() for text in axes.texts} == {"fused", "torch", "plain"}
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in page.axes}) == 1


def test_the_watch_benchmark_runs(tmp_path, monkeypatch, capsys):
    small = {"tiny": (ViTConfig(width=16, layers=2, heads=2, image_size=8), 2, 2)}
    monkeypatch.setattr(watch, "MODELS", small)
    bench("watch", quick=True, device="cpu", out=tmp_path)
    assert "watched" in capsys.readouterr().out
    facts = json.loads((tmp_path / "bench-watch-cpu.json").read_text(encoding="utf-8"))
    assert [row["pass"] for row in facts["rows"]] == ["forward", "forward + backward"]


def test_a_contender_that_computes_something_else_is_not_timed():
    q = torch.randn(1, 2, 4, 8)
    with expect_error(RuntimeError):
        attention.agree({"fused": lambda: q * 1.1, "torch": lambda: q}, q)
    with expect_error(RuntimeError):
        attention.agree({"fused": lambda: q * math.nan, "torch": lambda: q}, q)


def test_contenders_take_turns_and_the_slower_one_is_slower():
    turns = []

    def sleeper(name, size):
        x = torch.randn(size, size)

        def run():
            turns.append(name)
            x @ x

        return run

    seen = interleave(
        {"small": sleeper("small", 8), "large": sleeper("large", 400)}, CPU, rounds=5, seconds=0.0
    )
    assert seen["large"].median > seen["small"].median
    assert seen["small"].low <= seen["small"].median <= seen["small"].high
    assert turns.count("small") == turns.count("large") == 2 + 2 * 5


def test_the_exponent_of_growth_is_that_of_the_two_largest_sizes():
    rows = [{"pattern": "p", "n": n, "both": {"fused": n**1.5}} for n in (1, 10, 100)]
    assert attention.growth(rows) == {"p": pytest.approx(1.5)}


def test_an_unknown_benchmark_or_device_is_a_sentence(tmp_path, capsys):
    assert main(["attenton"]) == 2
    golden(capsys.readouterr().err)
    if not torch.cuda.is_available():
        with expect_error(UserError):
            bench("attention", device="cuda")
    (tmp_path / "file").write_text("")
    with expect_error(UserError):
        bench("attention", device="cpu", out=tmp_path / "file" / "below")
