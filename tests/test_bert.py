"""Our BERT is BERT: on random weights, and on the published ones of MiniLM."""

import json
import os
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from torch import Tensor, nn

from golden import expect_error
from regard.attention import attend, watch
from regard.config import build, to_values
from regard.data.corpus import read_corpus
from regard.data.word_pieces import WordPieceVocabulary
from regard.errors import FieldError, UserError
from regard.models import MODELS, Bert, BertConfig
from regard.models import minilm as module
from regard.models.minilm import PACKAGE, minilm, published_file, published_homes, renamed
from strategies import examples
from test_torch_oracles import Twins, assert_same, scrambled

HAS_WEIGHTS = find_spec(PACKAGE.replace("-", "_")) is not None
needs_weights = pytest.mark.skipif(not HAS_WEIGHTS, reason=f"{PACKAGE} is not installed")

W, N, C, H = 13, 7, 12, 3  # words, length, width, heads


def made(**fields: object) -> Bert:
    """A small BERT in which every number counts."""
    small = {
        "width": C,
        "layers": 2,
        "heads": H,
        "mlp_width": 20,
        "vocab_size": W,
        "context_length": N,
    }
    return scrambled(Bert(BertConfig(**(small | fields))), torch.float64)


def padded(*lengths: int) -> Tensor:
    """Where the words of some texts are: from 0 on, then −1."""
    where = torch.arange(max(lengths)).expand(len(lengths), -1)
    return where.where(where < torch.tensor(lengths)[:, None], -1)


# Against transformers, on random weights


def theirs_of(config: BertConfig, **options: object) -> nn.Module:
    """The model of transformers that a configuration of ours describes."""
    transformers = pytest.importorskip("transformers")
    return transformers.BertModel(
        transformers.BertConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.width,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            intermediate_size=config.hidden_width,
            hidden_act="gelu",
            max_position_embeddings=config.context_length,
            type_vocab_size=config.token_types,
            layer_norm_eps=config.norm_eps,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=None,  # with one, its row of the table would get no gradient
            attn_implementation="eager",
            **options,
        ),
        add_pooling_layer=config.pooler,
    )


def tied(config: BertConfig, dtype: torch.dtype) -> tuple[Bert, nn.Module, Twins]:
    """Both models with the same random weights, part by part and not by `renamed`."""
    theirs = scrambled(theirs_of(config), dtype)
    ours, twins, embeddings = Bert(config).to(dtype).eval(), Twins(), theirs.embeddings
    twins.tie(ours.token_embedding.weight, embeddings.word_embeddings.weight)
    twins.tie(ours.token_type_embedding.weight, embeddings.token_type_embeddings.weight)
    twins.tie(ours.pos_embed.table, embeddings.position_embeddings.weight)
    twins.layer(ours.embed_norm, embeddings.LayerNorm)
    for mine, their in zip(ours.blocks, theirs.encoder.layer, strict=True):
        for name in ("query", "key", "value"):
            twins.layer(
                getattr(mine.attention, f"to_{name[0]}"), getattr(their.attention.self, name)
            )
        twins.layer(mine.attention.to_out, their.attention.output.dense)
        twins.layer(mine.attention_norm, their.attention.output.LayerNorm)
        twins.layer(mine.mlp.fc1, their.intermediate.dense)
        twins.layer(mine.mlp.fc2, their.output.dense)
        twins.layer(mine.mlp_norm, their.output.LayerNorm)
    if ours.pooler is not None:
        twins.layer(ours.pooler, theirs.pooler.dense)
    return ours, theirs, twins


class Case(NamedTuple):
    config: BertConfig
    lengths: list[int]
    pairs: bool
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    heads, length = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    config = BertConfig(
        width=heads * draw(st.integers(2, 5)),
        layers=draw(st.integers(1, 3)),
        heads=heads,
        mlp_width=draw(st.integers(1, 20)),
        vocab_size=draw(st.integers(2, 20)),
        context_length=length,
        token_types=draw(st.integers(1, 3)),
        norm_eps=draw(st.sampled_from([1e-12, 1e-3])),
        pooler=draw(st.booleans()),
    )
    lengths = draw(st.lists(st.integers(1, length), min_size=1, max_size=3))
    return Case(config, lengths, draw(st.booleans()), draw(st.integers(0, 99)))


@examples(40)
@given(cases())
def test_hidden_states_and_gradients_are_those_of_transformers(case):
    torch.manual_seed(case.seed)
    config, positions = case.config, padded(*case.lengths)
    ours, theirs, twins = tied(config, torch.float64)
    real, words = positions >= 0, torch.randint(config.vocab_size, positions.shape)
    segments = torch.randint(config.token_types, positions.shape) if case.pairs else None
    mine = ours(words, segments, positions=positions)
    their = theirs(words, attention_mask=real.long(), token_type_ids=segments)
    right = their.last_hidden_state
    if not config.pooler:
        assert their.pooler_output is None
        twins.agree(ours, mine[real], right[real], [])
        return
    assert_same(mine[real], right[real])
    both = [
        torch.cat([hidden[real].flatten(), pooled.flatten()])
        for hidden, pooled in ((mine, ours.pooled(mine)), (right, their.pooler_output))
    ]
    twins.agree(ours, *both, [])


@pytest.mark.parametrize("pooler", [True, False], ids="pooler={}".format)
def test_published_names_find_the_places_that_the_parts_have(pooler):
    config = BertConfig(width=C, layers=3, heads=H, vocab_size=W, context_length=N, pooler=pooler)
    ours, theirs, _ = tied(config, torch.float32)
    again = renamed(theirs.state_dict(), ours)
    assert again.keys() == ours.state_dict().keys()
    assert all(torch.equal(again[name], tensor) for name, tensor in ours.state_dict().items())


# What it does by itself


def test_nothing_reads_padding_wherever_it_stands():
    model, words = made(), torch.randint(W, (2, 5))
    alone = model(words)
    for at in ([0, 1, 2, 3, 4], [2, 3, 4, 5, 6], [0, 2, 3, 5, 6]):
        wide, where = torch.randint(W, (2, N)), torch.full((2, N), -1)
        wide[:, at], where[:, at] = words, torch.arange(5)
        torch.testing.assert_close(model(wide, positions=where)[:, at], alone)
        other = wide.where(where >= 0, torch.randint(W, (2, N)))
        assert torch.equal(
            model(wide, positions=where)[:, at], model(other, positions=where)[:, at]
        )


def test_no_gradient_comes_from_padding():
    model, positions = made(), padded(7, 3)
    words = torch.where(positions >= 0, torch.randint(1, W, (2, 7)), 0)
    model(words, positions=positions)[positions >= 0].square().sum().backward()
    rows = model.token_embedding.weight.grad.abs().sum(-1)
    assert rows[0] == 0 and rows[words[0]].min() > 0


def test_a_segment_that_is_not_said_is_the_first():
    model, words = made(), torch.randint(W, (2, N))
    plain = model(words)
    torch.testing.assert_close(model(words, torch.zeros_like(words)), plain)
    assert not torch.allclose(model(words, torch.ones_like(words)), plain)


def test_a_grid_with_fewer_places_than_a_text_has_words_is_refused_with_one_that_has_enough():
    with expect_error(ValueError):
        made(mask="axial((2, 3)) | sinks(1)")
    assert not made(mask="axial((3, 3))").blocks[0].attention.mask(range(N), range(N)).all()


def test_every_word_reads_both_ways_unless_a_mask_says_otherwise():
    words, other = torch.randint(W, (1, N)), torch.randint(W, (1, N))
    other[:, :-1] = words[:, :-1]
    other[:, -1] = (words[:, -1] + 1) % W
    both, left = made(), made(mask="causal")
    assert ((both(words) - both(other)).abs().amax(-1) > 1e-6).all()
    assert torch.equal(left(words)[:, :-1], left(other)[:, :-1])


def test_the_fast_attention_is_the_plain_one():
    fast, positions, words = made(), padded(4, 7), torch.randint(W, (2, 7))
    plain = Bert(fast.config, attention=attend).double().eval()
    plain.load_state_dict(fast.state_dict())
    torch.testing.assert_close(
        fast(words, positions=positions), plain(words, positions=positions), atol=1e-12, rtol=0
    )


def test_dropout_is_for_training_alone():
    model, words = made(dropout=0.5), torch.randint(W, (2, N))
    assert torch.equal(model(words), model(words))
    entering = []
    model.blocks[0].register_forward_pre_hook(lambda _, given: entering.append(given[0]))
    assert not torch.equal(model.train()(words), model(words))
    assert all(0.3 < (x == 0).double().mean() < 0.7 for x in entering)  # embeddings too


def test_norms_may_come_first():
    model, words = made(norm_first=True), torch.randint(W, (2, N))
    out = model(words)
    rows = (out - model.norm.bias) / model.norm.weight  # as the last norm leaves them
    torch.testing.assert_close(rows.mean(-1), torch.zeros(2, N).double(), atol=1e-9, rtol=0)


def test_a_configuration_survives_being_written_down():
    config = made(pooler=True, token_types=3, mask="window(3)").config
    assert build(BertConfig, to_values(config)) == config
    assert type(MODELS["bert"].build(**to_values(config))) is Bert


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"vocab_size": 1}, "vocab_size"),
        ({"context_length": 0}, "context_length"),
        ({"token_types": 0}, "token_types"),
        ({"width": 10, "heads": 3}, "width"),
    ],
    ids=str,
)
def test_contradicting_fields_are_named(fields, name):
    with expect_error(FieldError, field=name):
        BertConfig(**fields)


def test_mistakes_in_a_call_are_sentences(in_a_plain_process):
    model, words = made(), torch.randint(W, (2, N))
    with expect_error(ValueError):
        model.pooled(model(words))
    with expect_error(ValueError):
        model(torch.zeros(1, N + 1, dtype=torch.long))
    in_a_plain_process(
        """
import torch
from regard.models import Bert, BertConfig
words = torch.zeros(2, 5, dtype=torch.long)
try:
    Bert(BertConfig())(words, words[:1])
except ValueError as wrong:
    assert "segments of the shape (1, 5)" in str(wrong) and "(2, 5)" in str(wrong), wrong
else:
    raise AssertionError("one row of segments was spread over two texts")
"""
    )


def test_watching_shows_the_maps_that_were_used_and_changes_nothing():
    model, positions, words = made(), padded(7, 4), torch.randint(W, (2, 7))
    plain = model(words, positions=positions)
    with watch(model) as seen:
        watched = model(words, positions=positions)
    assert torch.equal(plain, watched)
    assert list(seen) == ["blocks.0.attention", "blocks.1.attention"]
    for layer in seen.values():
        maps = layer.weights()
        assert maps.shape == (2, H, 7, 7) and layer.error() < 1e-12
        assert not maps[1, :, :4, 4:].any()
        ones = torch.ones(H, 4, dtype=torch.float64)
        torch.testing.assert_close(maps[1, :, :4].sum(-1), ones)


# Weights that do not fit


@pytest.mark.parametrize(
    "damage",
    [
        lambda w: w.pop("embeddings.LayerNorm.bias"),
        lambda w: [w.pop(f"encoder.layer.1.output.dense.{end}") for end in ("weight", "bias")],
        lambda w: w.update({"cls.bias": torch.zeros(3)}),
        lambda w: w.update({"embeddings.position_embeddings.weight": torch.zeros(3, C)}),
    ],
    ids=["missing", "two missing", "left over", "misshaped"],
)
def test_weights_that_do_not_fit_are_refused(damage):
    model = made()
    homes, published = dict(published_homes(model.config)), {}
    for name, tensor in model.state_dict().items():
        home, _, end = name.rpartition(".")
        published[homes[name] if name in homes else f"{homes[home]}.{end}"] = tensor
    published["embeddings.position_ids"] = torch.arange(N)
    assert renamed(published, model).keys() == model.state_dict().keys()
    damage(published)
    with expect_error(ValueError):
        renamed(published, model)


def test_without_the_package_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with expect_error(UserError):
        minilm()


@needs_weights
@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt"])
def test_a_file_with_one_byte_changed_or_gone_is_refused(name, monkeypatch, tmp_path):
    spec = find_spec(PACKAGE.replace("-", "_"))
    data = bytearray(published_file(name).read_bytes())
    data[len(data) // 2] ^= 1
    path = tmp_path / "model" / name
    path.parent.mkdir()
    path.write_bytes(data)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(module, "find_spec", lambda _: spec)
    for _ in "changed", "gone":
        with expect_error(UserError):
            published_file(name)
        path.unlink(missing_ok=True)


# MiniLM


@cache
def trained() -> tuple[Bert, WordPieceVocabulary]:
    return minilm(pooler=True)


@cache
def trained_theirs() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    return transformers.BertModel.from_pretrained(
        published_file("vocab.txt").parent, attn_implementation="eager"
    ).eval()


def docstrings(count: int) -> list[str]:
    """Sentences and code by the authors of Python, one paragraph each."""
    paragraphs = (part for block in read_corpus("docstrings").train for part in block.split("\n\n"))
    return list(islice((part for part in paragraphs if 3 <= len(part.split()) < 60), count))


def sst2(count: int) -> list[str]:
    lines = (Path(os.environ["REGARD_DATA"]) / "sst2/train.tsv").read_text("utf-8").splitlines()
    return [line.split("\t")[1] for line in lines[1 :: (len(lines) - 1) // count]][:count]


SENTENCES = [
    pytest.param(docstrings, 200, id="docstrings"),
    pytest.param(sst2, 1000, id="sst2", marks=pytest.mark.data("sst2")),
]
SIGNS = [
    "",
    "   ",
    "A fine film!",
    "Crème BRÛLÉE, naïve café; ÅNGSTRÖM",
    "don't-stop 3.14 $5 50% a_b C++ #1 ##ing [unused3]",
    "犬が二匹、雪で遊ぶ 한국어 العربية हिन्दी ΣΊΣΥΦΟΣ İstanbul",
    "tabs\tand\nlines\r\nand\u00a0spaces\u200b\u0000\ufffd",
    "👩🏽‍🚀 flies 🇩🇪",
    "x" * 100 + " " + "x" * 101,
]


@needs_weights
@pytest.mark.parametrize(("source", "count"), SENTENCES)
def test_words_are_cut_as_the_package_cuts_them(source, count):
    transformers = pytest.importorskip("transformers")
    _, vocabulary = trained()
    folder = published_file("vocab.txt").parent
    packed = Tokenizer.from_file(str(folder / "tokenizer.json"))
    packed.no_truncation()
    packed.no_padding()
    fast = transformers.BertTokenizerFast.from_pretrained(folder)
    texts = source(count)
    assert len(texts) == count
    for text in texts + SIGNS:
        ours = [vocabulary.start, *vocabulary.encode(text), vocabulary.end]
        assert ours == packed.encode(text).ids == fast(text)["input_ids"], text
        assert [vocabulary.start, *vocabulary.encode_array(text).tolist(), vocabulary.end] == ours


@needs_weights
def test_the_vocabulary_is_the_one_that_the_package_describes():
    _, vocabulary = trained()
    folder = published_file("vocab.txt").parent
    kept = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    assert kept["model"]["vocab"] == {piece: n for n, piece in enumerate(vocabulary.pieces)}
    assert len(vocabulary) == 30_522 and vocabulary.lower
    numbers = {name: vocabulary.special(name) for name in vocabulary.specials}
    assert numbers == {"padding": 0, "start": 101, "end": 102, "unknown": 100, "mask": 103}


def batches(texts: list[str], vocabulary: WordPieceVocabulary, size: int = 50):
    """Words and positions of texts of about one length."""
    rows = [[vocabulary.start, *vocabulary.encode(text), vocabulary.end] for text in texts]
    rows.sort(key=len)
    for at in range(0, len(rows), size):
        some = rows[at : at + size]
        positions = padded(*map(len, some))
        words = torch.full_like(positions, vocabulary.padding)
        words[positions >= 0] = torch.tensor([word for row in some for word in row])
        yield words, positions


@needs_weights
@pytest.mark.parametrize(("source", "count"), SENTENCES)
@torch.no_grad()
def test_minilm_computes_what_transformers_does_with_its_weights(source, count):
    (model, vocabulary), theirs = trained(), trained_theirs()
    for words, positions in batches(source(count), vocabulary):
        real = positions >= 0
        right = theirs(words, attention_mask=real.long())
        ours = model(words, positions=positions)
        assert (ours - right.last_hidden_state)[real].abs().max() < 1e-5
        assert (model.pooled(ours) - right.pooler_output).abs().max() < 1e-5


@needs_weights
@torch.no_grad()
def test_minilm_reads_pairs_and_shows_the_maps_of_transformers():
    (model, vocabulary), theirs = trained(), trained_theirs()
    first, second = (vocabulary.encode(text) for text in ("A dog barks.", "An animal is loud."))
    row = [vocabulary.start, *first, vocabulary.end, *second, vocabulary.end]
    words = torch.tensor([row])
    segments = (torch.arange(len(row)) > len(first) + 1).long()[None]
    right = theirs(words, token_type_ids=segments, output_attentions=True)
    with watch(model) as seen:
        ours = model(words, segments)
    assert (ours - right.last_hidden_state).abs().max() < 1e-5
    assert len(seen) == len(right.attentions) == 6
    for layer, maps in zip(seen.values(), right.attentions, strict=True):
        assert (layer.weights() - maps).abs().max() < 1e-5
        assert layer.error() < 1e-5


@needs_weights
@torch.no_grad()
def test_minilm_knows_what_sentences_are_about():
    model, vocabulary = trained()
    texts = ["Someone makes music.", "The bank raised its rates.", "A man is playing a guitar now."]
    ((words, positions),) = batches(texts, vocabulary)  # in the same order, as they grow in length
    real = (positions >= 0)[..., None]
    means = (model(words, positions=positions) * real).sum(1) / real.sum(1)
    music, bank, guitar = nn.functional.normalize(means, dim=-1)
    assert music @ guitar > 0.3 > 0.2 > max(music @ bank, guitar @ bank)


@needs_weights
def test_minilm_has_the_published_sizes_and_comes_ready_to_use():
    model, vocabulary = minilm()
    assert not model.training and model.pooler is None and model.config.dropout == 0.1
    assert sum(p.numel() for p in model.parameters()) == 22_565_376
    assert sum(p.numel() for p in trained()[0].parameters()) == 22_713_216
    assert trained()[0].config == replace(model.config, pooler=True)
    assert vocabulary == trained()[1]
    assert all(p.requires_grad for p in model.parameters())


@needs_weights
def test_no_code_of_the_package_is_run(in_a_plain_process):
    in_a_plain_process(
        f"""
import sys
from regard.models.minilm import minilm
minilm()
assert {PACKAGE.replace("-", "_")!r} not in sys.modules
assert not {{"transformers", "sentence_transformers"}} & {{*sys.modules}}
"""
    )
