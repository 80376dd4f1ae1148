"""The decoding benchmark times like with like: one language model in two libraries."""

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from benchmarks import bench, decoding
from benchmarks.captions import OURS, TRANSFORMERS
from benchmarks.decoding import Subject, write, write_theirs
from benchmarks.harness import count
from benchmarks.weights_out import as_gpt2
from golden import expect_error
from regard.models import GPT, GPTConfig

TINY = GPTConfig(
    width=12, layers=2, heads=3, mlp_width=20, vocab_size=30, context_length=24, norm_eps=1e-4
)


@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh", "relu"])
def test_with_our_weights_gpt2_computes_what_we_do(kind):
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    ours = GPT(replace(TINY, activation=kind)).double().eval()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.4)
    theirs = as_gpt2(ours)
    assert count(theirs) == count(ours)
    words = torch.randint(30, (3, 7))
    torch.testing.assert_close(ours(words), theirs(words).logits, rtol=0, atol=1e-9)
    assert write(ours, words, 16) == write_theirs(theirs, words, 16)


def test_a_model_without_a_twin_is_refused():
    pytest.importorskip("transformers")
    with expect_error(ValueError):
        as_gpt2(GPT(replace(TINY, heads=2, pos_embed="rope")))


def test_the_figures_are_kept(tmp_path, monkeypatch, capsys):
    pytest.importorskip("transformers")
    tiny = {"tiny": Subject(TINY, torch.float32, (1, 2), 3, 16)}
    monkeypatch.setattr(decoding, "SUBJECTS", {"cpu": tiny, "cuda": tiny})
    bench("decoding", quick=True, device="cpu", out=tmp_path)
    assert "words a second" in capsys.readouterr().out
    facts = json.loads((tmp_path / "bench-decoding-cpu.json").read_text(encoding="utf-8"))
    assert facts["command"] == "python -m benchmarks decoding --device cpu --quick"
    assert [row["batch"] for row in facts["rows"]] == [1, 2]
    for row in facts["rows"]:
        assert set(row["words_per_second"]) == {OURS, TRANSFORMERS} and row["words"] == 2
        assert all(low <= high for low, high in row["quartiles"].values())
