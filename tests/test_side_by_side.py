"""Choices side by side: jobs in processes, FLOPs against hand counts and torch's, the summary."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch.utils.flop_counter import FlopCounterMode

from golden import expect_error
from regard.attention import attend
from regard.count.flops import forward_flops
from regard.models.config import GPTConfig, ViTConfig
from regard.models.davit import DaViT
from regard.models.davit_config import DaViTConfig
from regard.models.gpt import GPT
from regard.models.vit import ViT
from regard.runs.processes import in_processes, written
from regard.runs.sweep import in_turns, summarised, table
from regard.runs.sweep_figure import Labels, draw
from test_figures import boxes_of_words

LABELS = Labels(
    title="Cheaper",
    quality="accuracy",
    deciding="accuracy",
    flops="MFLOP",
    speed="images/s",
    shown="{:.2f}".format,
    further={"validation": ("validation", "{:.2f}".format)},
)


# FLOPs

IMAGE = torch.zeros(1, 3, 8, 8)
SMALL = {"image_size": 8, "patch_size": 2, "width": 8, "layers": 2, "heads": 2, "mlp_width": 12}


def around_attention(n: int, c: int = 8, f: int = 12) -> int:
    """One block by hand: four projections and a feed-forward, 2 for each weight and token."""
    return 2 * n * (4 * c * c + 2 * c * f)


@pytest.mark.parametrize(
    ("mask", "pairs"),
    [
        (None, 17 * 17),
        # On a grid of 4 × 4: 7 cells of a row and a column; the class token with all, both ways.
        ("axial((4, 4))", 16 * 7 + 16 + 17),
        ("grid_windows(2, (4, 4))", 16 * 4 + 16 + 17),
        # In each direction 2 · 3 + 2 · 2 = 10 of 16 pairs of rows are at most 1 apart.
        ("neighborhood(1, (4, 4))", 10 * 10 + 16 + 17),
        ("neighborhood(0, (4, 4))", 16 + 16 + 17),
    ],
)
def test_a_vit_is_counted_as_by_hand(mask: str | None, pairs: int) -> None:
    config = ViTConfig(**SMALL, mask=mask, num_classes=5)
    patches, head = 2 * 16 * 12 * 8, 2 * 8 * 5
    by_hand = patches + 2 * (around_attention(17) + 4 * 8 * pairs) + head
    assert forward_flops(ViT(config), IMAGE) == by_hand


@pytest.mark.parametrize("attention", ["softmax", "linear", "linear(learned)", "channel"])
@pytest.mark.parametrize("groups", [None, 1])
def test_what_reads_everything_is_counted_as_torch_does(attention: str, groups: int | None) -> None:
    config = ViTConfig(**SMALL, attention=attention, kv_heads=groups)
    model = ViT(config, attention=attend) if attention == "softmax" else ViT(config)
    assert forward_flops(model, IMAGE) == torch_counts(model, IMAGE)


@pytest.mark.parametrize("attention", ["linear", "linear(relu)", "linear(learned)"])
@pytest.mark.parametrize("length", [100, 256, 300])  # which split into chunks without padding
def test_causal_sums_are_counted_as_they_are_computed(attention: str, length: int) -> None:
    config = GPTConfig(
        vocab_size=11, context_length=length, width=8, layers=2, heads=2, attention=attention
    )
    model, words = GPT(config), torch.zeros(2, length, dtype=torch.long)
    assert forward_flops(model, words) == torch_counts(model, words)


def test_a_language_model_is_counted_as_by_hand() -> None:
    config = GPTConfig(
        vocab_size=11, context_length=10, width=8, layers=1, heads=2, mask="causal & window(3)"
    )
    by_hand = around_attention(10, f=32) + 4 * 8 * (1 + 2 + 8 * 3) + 2 * 10 * 8 * 11
    assert forward_flops(GPT(config), torch.zeros(1, 10, dtype=torch.long)) == by_hand


def test_linear_attention_with_a_mask_pays_for_all_pairs() -> None:
    config = GPTConfig(vocab_size=11, context_length=10, width=8, layers=1, heads=2)
    masked = GPTConfig(**{**vars(config), "attention": "linear", "mask": "causal & window(3)"})
    words = torch.zeros(1, 10, dtype=torch.long)
    softmax = forward_flops(GPT(config), words)
    assert forward_flops(GPT(masked), words) == softmax + 4 * 8 * (100 - 55)


def test_davit_pays_for_its_windows_alone() -> None:
    config = DaViTConfig(
        image_size=8, patch_size=1, widths=(8, 8), depths=(1, 1), heads=(2, 2), window_size=4
    )
    model = DaViT(config)
    # Windows of 4 × 4 on 8 × 8: torch's dense count has 64² pairs, of which 64 · 16 are read.
    dense = torch_counts(DaViT(config, attention=attend), IMAGE)
    assert forward_flops(model, IMAGE) == dense - 4 * 8 * (64 * 64 - 64 * 16)


def test_counting_leaves_the_model_alone() -> None:
    model = ViT(ViTConfig(**SMALL, attention="linear(learned)"))
    before = model(torch.ones(1, 3, 8, 8))
    assert forward_flops(model, IMAGE) == forward_flops(model, IMAGE)
    torch.testing.assert_close(model(torch.ones(1, 3, 8, 8)), before)


def test_an_attention_that_nobody_knows_is_refused() -> None:
    model = ViT(ViTConfig(**SMALL), attention=lambda q, k, v, **_: v)
    with expect_error(ValueError):
        forward_flops(model, IMAGE)


def torch_counts(model: torch.nn.Module, inputs: torch.Tensor) -> int:
    """What really runs on a CPU, with the one product in place that torch does not know."""

    def added_in_place(_: Any, a: Any, b: Any, **others: Any) -> int:
        return int(2 * a[0] * a[1] * a[2] * b[2])

    known = {torch.ops.aten.baddbmm_: added_in_place}
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=known) as seen:
        model.eval()(inputs)
    return int(seen.get_total_flops())


# Processes

JOB = """
import sys
number = int(sys.argv[1])
assert sys.argv[2] == "--runs"
if number == 1:
    sys.exit("one is too few")
print("words that nobody asked for")
print(f'FOUND [{{"number": {number}}}]')
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "a_job.py").write_text(JOB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "a_job"


def test_jobs_tell_their_rows(job: str) -> None:
    jobs = {f"job {number}": [str(number)] for number in (2, 3, 4)}
    found = [row["number"] for rows in in_processes(job, jobs, 2) for row in rows]
    assert sorted(found) == [2, 3, 4]


def test_a_job_that_fails_is_said_when_the_others_are_done(job: str) -> None:
    jobs = {f"job {number}": [str(number)] for number in (1, 2, 3)}
    found = []
    with expect_error(RuntimeError):
        for rows in in_processes(job, jobs, 1):
            found += rows
    assert [row["number"] for row in found] == [2, 3]


def test_a_file_of_results_says_where_it_comes_from(tmp_path: Path) -> None:
    written(tmp_path / "a.json", command="python -m x", device="cpu", rows=[{"a": 1}])
    facts = json.loads((tmp_path / "a.json").read_text())
    assert next(iter(facts)) == "command"
    assert {"device", "commit", "date", "torch"} <= set(facts)
    assert facts["rows"] == [{"a": 1}]


# The summary and the picture


def row(choice: str, seed: int, accuracy: float, flops: int) -> dict[str, Any]:
    said = {"choice": choice, "seed": seed, "words": f"{choice}()", "split": "test"}
    said |= {"accuracy": accuracy, "validation": accuracy + 0.01, "parameters": 10, "epochs": 1}
    return {**said, "flops": flops}


ROWS = [
    row("full", 0, 0.80, 3_000_000),
    row("full", 1, 0.90, 3_000_000),
    row("axial", 0, 0.70, 1_000_000),
]
SPEEDS = {"full": {"items_per_second": 1000.0, "peak_bytes": 7_000_000}}


def test_seeds_are_summed_up_in_the_order_of_the_choices() -> None:
    axial, full = summarised(ROWS, SPEEDS, ["axial", "linear", "full"])
    assert (axial["choice"], axial["seeds"], full["seeds"]) == ("axial", 1, 2)
    assert full["accuracy"] == {"mean": pytest.approx(0.85), "low": 0.80, "high": 0.90}
    assert (full["flops"], full["parameters"]) == (3_000_000, 10)
    assert full["items_per_second"] == 1000.0 and "items_per_second" not in axial


def test_the_table_says_quality_and_cost() -> None:
    out = io.StringIO()
    lines = summarised(ROWS, SPEEDS, ["full", "axial"])
    Console(file=out, width=200).print(table(lines, LABELS))
    line = next(line for line in out.getvalue().splitlines() if "full()" in line)
    for words in ("0.85 (0.80 to 0.90)", " 3.00 ", " 1,000 ", " 7 ", " 0.86 "):
        assert words in line


@pytest.mark.parametrize("timed", [False, True])
def test_the_picture_names_every_choice_in_every_panel(tmp_path: Path, timed: bool) -> None:
    speeds = {name: {"items_per_second": 1e5} for name in ("full", "axial")} if timed else {}
    lines = summarised(ROWS, speeds, ["full", "axial"])
    figure = draw(lines, LABELS, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert len(figure.axes) == 1 + timed
    for axes in figure.axes:
        assert [text.get_text() for text in axes.texts] == ["full", "axial"]


def test_names_do_not_cover_one_another(tmp_path: Path) -> None:
    rows = [row(f"choice {at}", 0, 0.8 + at / 1e3, 3_000_000 + at) for at in range(5)]
    rows.append(row("far", 0, 0.5, 9_000_000))
    lines = summarised(rows, {}, [row["choice"] for row in rows])
    figure = draw(lines, LABELS, tmp_path / "a.png")
    boxes = [box for words, box in boxes_of_words(figure) if words in {r["choice"] for r in rows}]
    assert len(boxes) == len(rows)
    for at, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:at])


class Counting:
    """A loop that notes whose turn it is."""

    def __init__(self, name: str, turns: list[str]) -> None:
        self.name, self.turns = name, turns

    def steps_for(self, seconds: float) -> int:
        return 3

    def rate(self, steps: int) -> float:
        self.turns.append(self.name)
        return float(steps)


def test_loops_take_turns_and_another_begins_each_round() -> None:
    turns: list[str] = []
    loops: Any = {name: Counting(name, turns) for name in "abc"}
    found = in_turns(loops, 3)
    assert list(found) == list("abc") and found["a"] == [3.0, 3.0, 3.0]
    assert "".join(turns) == "abcbcacab"
