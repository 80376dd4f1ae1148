"""The benchmark of cheaper attention: what it checks, counts, fits and leaves out."""

import json
import math

import pytest
import torch
from matplotlib.colors import to_hex
from PIL import Image
from torch.utils.checkpoint import checkpoint

from benchmarks import bench
from benchmarks import contenders as parts
from benchmarks import sparse as cheaper
from benchmarks.contenders import CAUSAL, FULL, Contender, contenders, grid, masked
from benchmarks.growth import beaten, crossover, foretold, per_head, slope
from benchmarks.sparse import (
    Disagreement,
    Measured,
    Shape,
    agree,
    checked_at,
    once,
    summary,
)
from benchmarks.sparse_figure import draw, round_numbers, short
from golden import expect_error
from regard.attention import causal, window
from regard.count.live_bytes import LiveBytes
from regard.visualization.figures import MUTED
from test_figures import assert_legible, boxes_of_words

CPU, GPU = torch.device("cpu"), torch.device("cuda")
METHODS = {name: one for group in contenders(CPU) for name, one in group.items()}
MB = 1 << 20


def drawn(n, width=16):
    torch.manual_seed(0)
    return tuple(torch.randn(1, 2, n, width, requires_grad=True) for _ in "qkv")


def test_the_benchmark_prints_growth_and_crossovers_and_keeps_its_figures(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(cheaper.SIZES, "cpu", [64, 128, 256, 512])
    monkeypatch.setitem(cheaper.KEYS, "cpu", 32)
    monkeypatch.setattr(parts, "SIDE", 4)
    bench("efficient-attention", quick=True, device="cpu", out=tmp_path)
    printed = capsys.readouterr().out
    assert "beats causal" in printed and "linear causal" in printed
    facts = json.loads((tmp_path / "bench-cheaper-cpu.json").read_text(encoding="utf-8"))
    assert facts["command"] == "python -m benchmarks efficient-attention --device cpu --quick"
    assert {"device", "commit", "date"} <= set(facts) and facts["left_out"] == []
    sizes = {name: [r["n"] for r in facts["rows"] if r["name"] == name] for name in METHODS}
    for name, contender in METHODS.items():
        assert sizes[name] == ([64] if contender.square else [64, 128])  # 128 is no square
    assert set(facts["checked"]) == set(METHODS)
    for row in facts["rows"]:
        assert row["method"] and row["path"]
        for way in ("forward", "both"):
            assert row[way] > 0 and row["bytes"][way] > 0
            low, high = row["quartiles"][way]
            assert low <= row[way] <= high
        assert row["bytes"]["both"] > row["bytes"]["forward"]
    assert list(facts["summary"]) == list(METHODS)
    assert set(facts["summary"]["window"]["beats"]) == {FULL, CAUSAL}
    assert set(facts["summary"]["linear"]["beats"]) == {FULL}
    picture = Image.open(tmp_path / "bench-cheaper-cpu.png")
    assert picture.width > 1000 and len(picture.convert("L").getcolors()) > 20


@pytest.mark.parametrize("name", METHODS)
def test_every_contender_agrees_with_its_dense_twin_in_values_and_gradients(name, monkeypatch):
    monkeypatch.setattr(parts, "SIDE", 4)
    inputs = drawn(256)
    method = METHODS[name].make(256, 32)
    off = agree(name, method, inputs, torch.randn_like(inputs[0]))
    assert set(off) == {"read", "dq", "dk", "dv"} and max(off.values()) < 1e-4
    if name not in (FULL, CAUSAL):  # … and computes something else than full attention
        everything = METHODS[FULL].make(256, 32).read(*inputs)
        assert not torch.allclose(method.read(*inputs), everything, atol=1e-3)


@pytest.mark.parametrize("fault", ["read", "gradient", "nan"])
def test_a_contender_that_computes_something_else_is_not_timed(fault):
    right = masked(causal & window(8))

    def wrong(q, k, v):
        read = right.read(q, k, v)
        if fault == "gradient":
            return read.detach() + 0.5 * (read - read.detach())
        return read * (math.nan if fault == "nan" else 1.01)

    inputs = drawn(64)
    with expect_error(Disagreement):
        agree("mine", right._replace(read=wrong), inputs, torch.ones_like(inputs[0]))


def test_the_exponent_is_that_of_the_upper_half():
    sizes = [2**power for power in range(8, 15)]
    assert slope([(n, 3.0 * n**1.5) for n in sizes]) == pytest.approx(1.5)
    bent = [(n, 1.0 if n < 2048 else (n / 2048) ** 2) for n in sizes]
    assert slope(bent) == pytest.approx(2.0)  # what happens at small sizes does not count
    assert slope([(1, 1.0), (2, 2.0), (4, 8.0)]) == pytest.approx(2.0)
    assert slope([(256, 1.0)]) is None and slope([]) is None


def test_a_crossover_lies_where_the_lines_meet_for_good():
    sizes = [256, 512, 1024, 2048, 4096]
    full = [(n, float(n * n)) for n in sizes]
    start, upto = crossover([(n, 700.0 * n) for n in sizes], full)  # n² = 700 n
    assert start == pytest.approx(700) and upto == 4096
    assert crossover([(n, 1.0 * n) for n in sizes], full) == (256, 4096)
    assert crossover([(n, 2.0 * n * n) for n in sizes], full) == (None, 4096)
    # Less at first, more later, less again: the last change counts.
    wild = [(256, 1.0), (512, 9e9), (1024, 9e9), (2048, 1.0), (4096, 1.0)]
    assert 1024 < crossover(wild, full)[0] < 2048
    # Sizes that one of both lacks do not count.
    assert crossover([(n, 5000.0 * n) for n in sizes] + [(8192, 1.0)], full) == (None, 4096)
    assert crossover([(8192, 1.0)], full) == (None, 0)
    assert crossover([], full) == (None, 0)


def test_crossovers_are_told_in_words():
    assert beaten({"from": 1234.4, "upto": 4096}) == "from 1,234"
    assert beaten({"from": None, "upto": 16384}) == "never up to 16,384"
    assert beaten({"from": None, "upto": 0}) == beaten(None) == "–"


def test_what_a_larger_size_takes_is_foretold_carefully():
    assert foretold([], 1024) == 0
    assert foretold([(512, 1.0)], 1024) == pytest.approx(4.0)  # one size: take it for quadratic
    assert foretold([(256, 1.0), (512, 2.0)], 1024) == pytest.approx(4.0)
    assert foretold([(256, 1.0), (512, 4.0)], 2048) == pytest.approx(64.0)
    assert foretold([(256, 3.0), (512, 3.0)], 1024) == pytest.approx(6.0)  # never less than with n


def row(name, n, seconds, heads=4, batch=1, size=1e6):
    both = {"forward": seconds / 3, "both": seconds}
    return {
        "name": name,
        "n": n,
        "batch": batch,
        "heads": heads,
        "path": "somehow",
        "bytes": dict.fromkeys(both, size),
        **both,
    }


def test_times_are_compared_head_by_head():
    rows = [row(FULL, 64, 1.0, heads=16, batch=2), row(FULL, 128, 1.0, heads=8)]
    assert per_head(rows, "both") == [(64, 1 / 32), (128, 1 / 8)]
    assert per_head(rows, "bytes", "both") == [(64, 1e6 / 32), (128, 1e6 / 8)]
    told = summary(rows, {FULL: METHODS[FULL]})
    assert told[FULL]["slope"] == pytest.approx(2.0)
    del rows[1]["both"], rows[1]["bytes"]["both"]  # forward alone
    assert per_head(rows, "both") == [(64, 1 / 32)]
    assert summary(rows, {FULL: METHODS[FULL]})[FULL]["n"] == 64


def test_what_takes_too_long_too_much_or_comes_too_late_is_left_out_with_the_reason(monkeypatch):
    measured, shape = Measured(CPU, 8, [32], 1), Shape(1, 4, 64)

    def why(n, contender=METHODS[FULL]):
        return measured.hindrance(FULL, contender, n, shape)

    assert why(64) is None
    measured.rows = [row(FULL, 64, 2.0)]
    assert why(128) is None
    assert why(256) == "would take about 32 s"
    measured.rows = [row(FULL, 64, 0.01, size=9e8)]
    assert why(256) == "would take about 14 GB"
    assert why(128, METHODS[FULL]._replace(upto=100)) == "not asked for above 100 tokens"
    monkeypatch.setitem(cheaper.SECONDS, "cpu", 0.0)
    assert why(128) == "the 0 s for the whole run were spent"
    measured.left_out = [{"name": FULL, "n": 128, "why": "…"}]
    assert why(256) == "a smaller size was left out"


def test_a_contender_that_breaks_is_left_out_and_the_others_are_measured():
    def broken(n, keys):
        def read(q, k, v):
            raise RuntimeError("out of everything\nand more")

        return masked(None)._replace(read=read)

    measured = Measured(CPU, 8, [32], 1)
    measured.size(32, {"broken": Contender("dense", broken), FULL: METHODS[FULL]})
    assert measured.left_out == [
        {"name": "broken", "n": 32, "why": "RuntimeError: out of everything"}
    ]
    assert [row["name"] for row in measured.rows] == [FULL] == list(measured.checked)


def test_live_bytes_counts_births_and_deaths():
    x = torch.zeros(MB // 4)  # a megabyte, and there before
    with LiveBytes() as live:
        y = x.view(512, 512)[:8]
        assert live.now == 0  # views of what was there
        y = x + 1
        z = y.view(512, 512).t()
        assert live.now == MB
        x.add_(1)
        assert live.now == MB  # in place
        w = y * 2
        assert live.now == live.peak == 2 * MB
        del w
        assert live.now == MB
        del y
        assert live.now == MB  # its view lives on
        del z
        assert live.now == 0
        _ = torch.empty(3 * MB, dtype=torch.uint8)
    assert live.peak == 3 * MB


def test_live_bytes_sees_what_a_backward_pass_keeps():
    x = torch.zeros(MB // 4, requires_grad=True)

    def passes(kept):
        def block(x):
            return x.exp().exp().exp().exp()

        y = block(x) if kept else checkpoint(block, x, use_reentrant=False)
        return torch.autograd.grad(y, x, torch.ones(1).expand_as(y))

    # Four results are kept until their backward; a gradient or two live beside them.
    _, most = once(lambda: passes(True), CPU)
    assert 5 * MB <= most <= 6 * MB + 64
    with torch.no_grad():
        _, least = once(lambda: x.exp().exp().exp().exp(), CPU)
    assert least == 2 * MB


def test_full_attention_in_plain_torch_takes_the_square():
    sizes = []
    for n in (128, 256):
        q = torch.randn(1, 1, n, 8)
        sizes.append(once(lambda q=q: (q @ q.mT).softmax(-1) @ q, CPU)[1])
    assert sizes[1] / sizes[0] == pytest.approx(4, rel=0.01)
    assert sizes[1] == 2 * 4 * 256**2 or sizes[1] == 2 * 4 * 256**2 + 4 * 8 * 256


def test_shapes_shrink_where_texts_are_long_and_only_forward_is_asked():
    assert Shape.of(16384, CPU) == (1, 4, 64)
    assert Shape.of(65536, GPU) == (2, 16, 128) and Shape.of(65536, GPU).rows == 32
    assert Shape.of(262144, GPU).rows == 16 and Shape.of(1 << 20, GPU).rows == 8
    for n in (s for s in cheaper.SIZES["cuda"] if s >= 1024):
        one = 2 * Shape.of(n, GPU).rows * 128 * n
        assert 8 * one < 60e9


def test_a_grid_is_as_square_as_can_be():
    assert grid(4096) == (64, 64) and grid(512) == (16, 32) and grid(7) == (1, 7)


def test_the_check_takes_the_largest_size_that_its_twin_affords():
    assert checked_at([256, 512, 2048], 1024) == 512
    assert checked_at([2048, 4096], 1024) == 2048


def test_an_axis_has_round_numbers_enough():
    assert round_numbers(0.5, 2000.0) == pytest.approx([1, 10, 100, 1000])
    assert round_numbers(3.0, 60.0) == pytest.approx([5, 10, 20, 50])


def test_tokens_on_an_axis_are_short():
    assert [short(n) for n in (256, 1024, 1 << 14, 1 << 20, 1500)] == [
        *("256", "1k", "16k", "1M", "1500")
    ]


def test_a_crowded_figure_of_a_gpu_keeps_its_names_apart(tmp_path):
    everyone = {name: one for group in contenders(GPU) for name, one in group.items()}
    rows = [
        row(name, n, 1e-7 * n ** (1 + at / 20), 16 if n < 1 << 20 else 8, 2, 900.0 * n)
        for at, name in enumerate(everyone)
        for n in cheaper.SIZES["cuda"]
        if n <= everyone[name].upto
    ]
    for each in rows:
        if each["n"] == 1 << 20:
            del each["both"], each["bytes"]["both"]
    facts = {
        "summary": summary(rows, everyone),
        "rows": rows,
        "batch": 2,
        "heads": 16,
        "head_width": 128,
        "dtype": "bfloat16",
        "device": "NVIDIA H200",
        "torch": "2.13.0+cu130",
    }
    page = draw(facts, tmp_path / "crowd.png")
    assert_legible(page)
    words = [words for words, _ in boxes_of_words(page)]
    assert any("Hollow: forward alone." in text and "fewer heads" in text for text in words)
    names = [text for text in words if text.startswith("linear causal")]
    assert len(names) == 2 and "$n^{1." in names[0]
    # A row a family and a column a measure, full attention in every one.
    assert len(page.axes) == 8 and sum(text.startswith("full ") for text in words) == 8
    hollow = [
        line for axes in page.axes for line in axes.lines if line.get_markerfacecolor() == "white"
    ]
    asked = [one for one in everyone.values() if one.upto >= 1 << 20]
    dense = sum(one.family == "dense" for one in asked)
    assert len(hollow) == 2 * (len(asked) - dense) + 8 * dense
    for column in (page.axes[:4], page.axes[4:]):
        assert len({(axes.get_xlim(), axes.get_ylim()) for axes in column}) == 1
        for axes in column:  # every name in the colour of a line, and none twice
            colours = [
                to_hex(line.get_color()) for line in axes.lines if line.get_marker() != "None"
            ]
            told = [to_hex(text.get_color()) for text in axes.texts]
            assert set(told) - {MUTED} <= set(colours)
            assert len(set(told) - {MUTED}) == len(axes.texts) - 2


def test_a_family_that_nobody_is_of_has_no_panels(tmp_path):
    everyone = {name: METHODS[name] for name in (FULL, CAUSAL, "window")}
    rows = [row(name, n, 1e-6 * n, 4, 1, 900.0 * n) for name in everyone for n in (256, 512)]
    about = {"batch": 1, "heads": 4, "head_width": 64, "dtype": "float32", "torch": "2.13.0+cpu"}
    facts = {"summary": summary(rows, everyone), "rows": rows, "device": "a CPU", **about}
    page = draw(facts, tmp_path / "few.png")
    assert_legible(page)
    assert [axes.get_title("left") for axes in page.axes] == ["Windows on a text", ""]
