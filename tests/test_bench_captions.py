"""The captions benchmark times like with like: one model in two libraries, the same words out."""

import json
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from benchmarks import bench, captions
from benchmarks import weights_out as twins
from benchmarks.captions import (
    BEGIN,
    END,
    MODELS,
    OURS,
    PADDING,
    TRANSFORMERS,
    Subject,
    check_words,
    drawn,
    noise,
    write,
    write_theirs,
    writers,
)
from benchmarks.table import figure, rate_table
from benchmarks.training import count
from benchmarks.weights_out import as_captioner, check_captioner
from golden import expect_error
from regard.generation.sample import GenerationConfig
from regard.models import Captioner, CaptionerConfig, ViTConfig

SEEN = ViTConfig(
    width=12,
    layers=2,
    heads=3,
    mlp_width=20,
    image_size=12,
    patch_size=4,
    channels=2,
    norm_eps=1e-3,
)
TINY = CaptionerConfig(
    width=12,
    layers=2,
    heads=2,
    mlp_width=16,
    vocab_size=30,
    context_length=9,
    norm_eps=1e-4,
    encoder=SEEN,
)
RULES = GenerationConfig(
    bos_id=BEGIN, eos_id=END, max_new_tokens=8, min_new_tokens=8, suppress_tokens=(PADDING, BEGIN)
)


def scattered(config: CaptionerConfig) -> Captioner:
    """In float64, with biases and norms drawn too, so that none of them can be forgotten."""
    torch.manual_seed(0)
    model = Captioner(config).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def theirs_of(model: Captioner) -> nn.Module:
    pytest.importorskip("transformers")
    return as_captioner(model)


@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh", "relu"])
def test_with_our_weights_transformers_computes_what_we_do(kind):
    seen = replace(SEEN, activation=kind)
    ours = scattered(replace(TINY, activation=kind, encoder=seen))
    theirs = theirs_of(ours)
    assert count(theirs) == count(ours)
    for part in (theirs.encoder, theirs.decoder):
        assert part.config._attn_implementation == "sdpa"
    images, words = torch.randn(3, 2, 12, 12, dtype=torch.float64), torch.randint(30, (3, 9))
    right = theirs(pixel_values=images, decoder_input_ids=words).logits
    torch.testing.assert_close(ours(images, words), right)


@pytest.mark.parametrize("size", MODELS)
def test_models_that_are_timed_have_a_twin_and_room_for_their_words(size):
    config, words = MODELS[size]
    check_captioner(config)
    assert (
        config.context_length >= words
        and f"{config.width}" in size
        and f"{config.vocab_size:,}" in size
    )


@pytest.mark.parametrize("beams", [1, 5])
def test_both_write_the_same_lively_words_at_the_length_that_is_the_rule(beams):
    config, _ = MODELS["width 128, 100 words"]
    ours, images = drawn(config), noise(4, config.encoder)
    said = write(ours, images, RULES, beams)
    assert {len(text) for text in said} == {8}
    assert not {PADDING, BEGIN, END} & {word for text in said for word in text}
    assert len(set(map(tuple, said))) == 4  # each image has a text of its own
    assert max(len(set(text)) for text in said) > 2  # and not one word over and over
    theirs = theirs_of(ours)
    assert write_theirs(theirs, images, RULES, beams) == said
    # What is compiled on a GPU can be had here too, uncompiled.
    assert write_theirs(theirs, images, RULES, beams, cache_implementation="static") == said


@pytest.mark.parametrize("beams", [1, 5])
def test_the_rule_holds_for_a_model_that_would_rather_end(beams):
    ours, images = drawn(TINY), noise(2, SEEN)
    with torch.no_grad():
        ours.norm.bias += 9 * ours.token_embedding.weight[END]
    assert write(ours, images, replace(RULES, min_new_tokens=0), beams) == [[], []]
    said = write(ours, images, RULES, beams)
    assert {len(text) for text in said} == {8}
    assert write_theirs(theirs_of(ours), images, RULES, beams) == said


def test_drafts_change_places_as_they_do_in_life(monkeypatch):
    config, _ = MODELS["width 128, 100 words"]
    from regard.models.decoder import DecodingState

    reorders, reorder = [], DecodingState.reorder

    def counted(self: DecodingState, rows: Tensor) -> None:
        reorders.append(rows)
        reorder(self, rows)

    monkeypatch.setattr(DecodingState, "reorder", counted)
    write(drawn(config), noise(1, config.encoder), RULES, 5)
    moved = [rows for rows in reorders[1:] if rows.flatten().tolist() != [0, 1, 2, 3, 4]]
    assert len(moved) >= 4  # of six steps between the first and the last


def test_the_captions_benchmark_prints_rates_and_keeps_its_figures(tmp_path, monkeypatch, capsys):
    pytest.importorskip("transformers")
    monkeypatch.setattr(captions, "MODELS", {"tiny": Subject(TINY, 5), "other": Subject(TINY, 3)})
    monkeypatch.setattr(captions, "BATCHES", [1, 3])
    bench("captions", quick=True, device="cpu", out=tmp_path)
    printed = capsys.readouterr().out
    assert "captions/s" in printed and "Every text has 5 words (tiny)" in printed
    facts = json.loads((tmp_path / "bench-captions-cpu.json").read_text(encoding="utf-8"))
    assert facts["command"] == "python -m benchmarks captions --device cpu --quick"
    assert facts["dtype"] == "float32" and {"commit", "device", "date"} <= set(facts)
    assert facts["left_out"] == {} and facts["versions"][TRANSFORMERS]
    sizes = [(row["model"], row["batch"], row["beams"], row["words"]) for row in facts["rows"]]
    assert sizes == [("tiny", batch, beams, 5) for batch in (1, 3) for beams in (1, 5)]
    for row in facts["rows"]:
        assert row["parameters"] == count(Captioner(TINY))
        assert 1 <= row["different"] <= row["batch"]
        assert set(row["captions_per_second"]) == {OURS, TRANSFORMERS}
        for name, rate in row["captions_per_second"].items():
            low, high = row["quartiles"][name]
            assert 0 < low <= rate <= high


def test_without_transformers_ours_is_measured_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(captions, "import_module", lambda name: __import__("no_such_library"))
    monkeypatch.setattr(captions, "MODELS", {"tiny": Subject(TINY, 3)})
    monkeypatch.setattr(captions, "BATCHES", [2])
    bench("captions", quick=True, device="cpu", out=tmp_path)
    sentence = "transformers is left out (No module named 'no_such_library')"
    assert sentence in capsys.readouterr().out
    facts = json.loads((tmp_path / "bench-captions-cpu.json").read_text(encoding="utf-8"))
    assert facts["versions"] == {} and facts["left_out"][TRANSFORMERS].startswith(sentence)
    assert [set(row["captions_per_second"]) for row in facts["rows"]] == [{OURS}] * 2


def test_a_model_that_says_something_else_is_not_timed(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    honest = twins.renamed

    def faulty(own, there, *here, lying=False):
        for name, weight in honest(own, there, *here, lying=lying):
            yield name, weight * 1.5 if name.endswith("ln_f.weight") else weight.flip(0)

    monkeypatch.setattr(twins, "renamed", faulty)
    monkeypatch.setattr(captions, "MODELS", {"tiny": Subject(TINY, 5)})
    with expect_error(RuntimeError):
        bench("captions", quick=True, device="cpu", out=tmp_path)


def test_other_words_and_short_texts_are_refused_with_numbers():
    right = [[3, 4], [5, 6], [7, 8]]
    check_words({OURS: right, TRANSFORMERS: [[3, 4], [5, 6], [7, 8]]}, 2)
    with expect_error(RuntimeError):
        check_words({OURS: right, TRANSFORMERS: [[3, 4], [5, 7], [8, 8]]}, 2)
    with expect_error(RuntimeError):
        check_words({OURS: right, TRANSFORMERS: [[3, 4], [5], [7, 8]]}, 2)
    close = {OURS: right * 4, TRANSFORMERS: [*(right * 4)[:-1], [7, 9]]}
    assert check_words(close, 2, forgiven=0.1) == {OURS: 0, TRANSFORMERS: 1}
    with expect_error(RuntimeError):
        check_words({OURS: right, TRANSFORMERS: [[3, 4], [5, 6], [7, 9]]}, 2, forgiven=0.1)


@pytest.mark.parametrize(
    "config",
    [
        replace(TINY, pos_embed="rope"),
        replace(TINY, tie_embeddings=False),
        replace(TINY, encoder_width=12),
        replace(TINY, activation="swiglu"),
        replace(TINY, encoder=replace(SEEN, pool="mean")),
        replace(TINY, encoder=replace(SEEN, bias=False)),
        replace(TINY, width=16),
    ],
    ids=["rope", "untied", "features", "gated", "mean", "no bias", "width"],
)
def test_a_captioner_without_a_twin_is_refused(config):
    with expect_error(ValueError):
        check_captioner(config)


def test_transformers_takes_part_where_it_is_installed():
    ours = Captioner(TINY)
    assert set(writers(ours, None)) == {OURS}
    assert set(writers(ours, nn.Linear(2, 2))) == {OURS, TRANSFORMERS}


def test_each_contender_has_a_line_beside_ours():
    row = {
        "model": "small",
        "batch": 4,
        "rates": {"ours": 1000.0, "theirs": 250.0},
        "quartiles": {"ours": (990.0, 1010.0), "theirs": (4.0, 300.0)},
        "other": {"ours": 0, "theirs": 7},
    }
    names = {"about": ("model", "batch"), "unit": "words/s", "rates": "rates", "ours": "ours"}
    table = rate_table("title", [row, row], more={"differ": "other"}, **names)
    headings = [column.header for column in table.columns]
    assert headings == ["model", "batch", "who", "words/s", "quartiles", "× time", "differ"]
    lines = list(zip(*(column.cells for column in table.columns), strict=True))
    ours = ("small", "4", "ours", "1,000", "990 … 1,010", "1.00", "0")
    theirs = ("small", "4", "theirs", "250", "4.00 … 300", "4.00", "7")
    assert lines == [ours, theirs] * 2
    assert [line.end_section for line in table.rows] == [False, True] * 2
    assert len(rate_table("title", [row], **names).columns) == 6


def test_rates_are_printed_with_three_digits():
    assert [figure(rate) for rate in (1.2345, 13.0, 123.4, 12345.6)] == [
        "1.23",
        "13.0",
        "123",
        "12,346",
    ]
