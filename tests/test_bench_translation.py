"""The translation benchmark trains on the same pairs, and counts what is no padding."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks import bench, translation
from benchmarks.translation import (
    CONFIG,
    IN_ORDER,
    OURS,
    PADDING,
    THEIRS,
    Theirs,
    drawn,
    evenly,
    pieces,
    their_loss,
    waste,
)
from regard.data.pair_batches import Picker
from test_torch_oracles import scrambled

TINY = replace(CONFIG, width=16, layers=1, heads=2, mlp_width=24, vocab_size=50, dropout=0.0)


def test_lengths_are_those_of_multi30k():
    sizes = drawn(5000, 1000).sizes
    assert 14 < sizes[:, 0].mean() < 16 and 14 < sizes[:, 1].mean() < 17
    assert sizes.std(0).min() > 4 and sizes.std(0).max() < 6
    assert 35 < sizes.max() < 70


@pytest.mark.parametrize("bucketed", [True, False])
def test_every_pair_is_trained_on_once_a_turn(bucketed):
    tokens = drawn(300, 50)
    rows = np.concatenate(pieces(tokens, 32, bucketed=bucketed))
    assert sorted(rows) == list(range(300))
    few = evenly(pieces(tokens, 8, bucketed=bucketed), 4)
    assert len(few) == 4 and len(set(np.concatenate(few))) == sum(map(len, few))


def test_bucketing_wastes_little():
    tokens = drawn(4000, 50)
    sorted_, in_order = (waste(tokens, pieces(tokens, 32, bucketed=how)) for how in (True, False))
    assert sorted_ < 0.06 and in_order > 0.3


def test_padding_changes_nothing_of_what_torch_computes():
    tokens = drawn(6, 50)
    model = scrambled(Theirs(TINY), torch.float64)
    pick = Picker(tokens, PADDING, torch.device("cpu"))

    def loss(rows: list[int]) -> float:
        batch = pick(torch.tensor(rows), tokens.sizes[rows])
        return their_loss(model, batch, 0.1).item()

    assert loss([0, 1, 2, 3, 4, 5]) == pytest.approx(sum(loss([row]) for row in range(6)))


def test_the_figures_are_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(translation, "CONFIG", TINY)
    monkeypatch.setattr(translation, "PAIRS", {"cpu": 80})
    monkeypatch.setattr(translation, "AT_ONCE", {"cpu": 8})
    bench("translation", quick=True, device="cpu", out=tmp_path)
    assert "real tokens a second" in capsys.readouterr().out
    facts = json.loads((tmp_path / "bench-translation-cpu.json").read_text(encoding="utf-8"))
    assert facts["command"] == "python -m benchmarks translation --device cpu --quick"
    assert facts["pairs"] == 80 and set(facts["rows"]) == {OURS, IN_ORDER, THEIRS}
    for row in facts["rows"].values():
        low, high = row["quartiles"]
        assert low <= row["tokens_per_second"] <= high
