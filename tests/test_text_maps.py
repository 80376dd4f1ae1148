"""Maps of texts are the weights that the model read with, and padding has none."""

import base64
from copy import deepcopy
from functools import partial

import numpy as np
import pytest
import torch

from golden import expect_error
from regard.attention import attend
from regard.attention.channel import attend_channels
from regard.inspection.places import has_places
from regard.inspection.text_maps import (
    alignment_maps,
    bert_maps,
    reading_item,
    text_layers,
    text_maps,
)
from regard.models.bert import Bert
from regard.models.config import BertConfig, GPTConfig, Seq2SeqConfig
from regard.models.gpt import GPT
from regard.models.seq2seq import Seq2Seq, TokenBatch

SMALL = {"vocab_size": 11, "width": 8, "heads": 2, "layers": 3, "context_length": 9}
close = partial(torch.testing.assert_close, rtol=0, atol=1e-12)


def writer(**changes):
    torch.manual_seed(0)
    return livelier(GPT(GPTConfig(**{**SMALL, **changes})))


def translator(**changes):
    torch.manual_seed(0)
    return livelier(Seq2Seq(Seq2SeqConfig(**{**SMALL, **changes})))


def reader(**changes):
    torch.manual_seed(0)
    return livelier(Bert(BertConfig(**{**SMALL, **changes})))


def livelier(model):
    """The same model in float64, with weights large enough for words to tell words apart."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 3)
    return model.double().eval()


def text(*shape, seed=1):
    return torch.randint(0, 11, shape, generator=torch.Generator().manual_seed(seed))


def rows_of(*lengths):
    """Positions of texts of these lengths, padded to the longest."""
    longest = max(lengths)
    return torch.tensor([[*range(n), *[-1] * (longest - n)] for n in lengths])


def weights_by_hand(layer, x, context=None, **where):
    """What `attend` says that a layer's heads read with, from its own projections."""
    context = x if context is None else context
    q, k, v = (
        part(tokens).unflatten(-1, (heads, -1)).transpose(-3, -2)
        for part, tokens, heads in (
            (layer.to_q, x, layer.heads),
            (layer.to_k, context, layer.groups),
            (layer.to_v, context, layer.groups),
        )
    )
    return attend(q, k, v, mask=layer.mask, **where).weights


@torch.no_grad()
def maps_by_hand(model, words, positions, context=None, context_positions=None):
    """Every block of a pre-norm model written out, its weights kept on the way."""
    x = model.pos_embed.embed(model.token_embedding(words), positions)
    own, across = [], []
    for block in model.blocks:
        y = block.attention_norm(x)
        own.append(weights_by_hand(block.attention, y, q_pos=positions, k_pos=positions))
        x = x + block.attention(y, positions=positions)
        if context is not None:
            y = block.cross_norm(x)
            where = {"q_pos": positions, "k_pos": context_positions}
            across.append(weights_by_hand(block.cross, y, context, **where))
            x = x + block.cross(
                y, context, positions=positions, context_positions=context_positions
            )
        x = x + block.mlp(block.mlp_norm(x))
    return torch.stack(own, 1), torch.stack(across, 1) if across else None


# A text that reads itself


@pytest.mark.parametrize("groups", [2, 1], ids="kv_heads={}".format)
def test_a_texts_maps_are_the_weights_written_out(groups):
    model, words = writer(kv_heads=groups), text(4, 7)
    maps = text_maps(model, words)
    assert maps.shape == (4, 3, 2, 7, 7)
    close(maps, maps_by_hand(model, words, torch.arange(7))[0])
    close(maps.sum(-1), torch.ones(4, 3, 2, 7, dtype=torch.float64))
    assert not maps.triu(1).any(), "no word looks at a later one"
    assert maps.std((0, 1, 2))[-1].min() > 0.01, "heads and layers differ"


@pytest.mark.parametrize("place", ["rope", "sinusoidal", "none"])
def test_a_word_looks_the_same_whatever_comes_after_it(place):
    model, words = writer(pos_embed=place), text(2, 7)
    changed = torch.cat((words[:, :4], 10 - words[:, 4:]), 1)
    close(text_maps(model, words)[..., :4, :4], text_maps(model, changed)[..., :4, :4])
    close(text_maps(model, words)[..., :4, :4], text_maps(model, words[:, :4]))


def test_a_mask_that_forgets_shows_in_the_map():
    maps = text_maps(writer(mask="causal & window(3)"), text(2, 7))
    assert not maps.tril(-3).any() and maps.diagonal(-2, -2, -1).min() > 0
    close(maps.sum(-1), torch.ones(2, 3, 2, 7, dtype=torch.float64))


def test_padding_of_a_text_neither_looks_nor_is_looked_at():
    model, words, where = writer(), text(3, 7), rows_of(7, 4, 1)
    maps = text_maps(model, words, positions=where)
    for row, length in enumerate((7, 4, 1)):
        close(maps[row, ..., :length, :length], text_maps(model, words[row, None, :length])[0])
        assert not maps[row, ..., length:, :].any() and not maps[row, ..., :, length:].any()
    close(maps.sum(-1), (where >= 0)[:, None, None].expand(3, 3, 2, 7).double())
    close(maps, maps_by_hand(model, words, where)[0])


# A text that is read both ways


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_readers_maps_are_the_weights_written_out(norm_first):
    model, words, where = reader(norm_first=norm_first), text(3, 7), rows_of(7, 4, 1)
    segments = (torch.arange(7) > 2).long().expand(3, 7)
    maps = bert_maps(model, words, segments, positions=where)
    assert maps.shape == (3, 3, 2, 7, 7)
    with torch.no_grad():
        x = model.token_embedding(words) + model.token_type_embedding(segments)
        x = model.embed_norm(model.pos_embed.embed(x, where))
        for depth, block in enumerate(model.blocks):
            y = block.attention_norm(x) if norm_first else x
            by_hand = weights_by_hand(block.attention, y, q_pos=where, k_pos=where)
            close(maps[:, depth], by_hand)
            x = block(x, positions=where)
    assert maps[0].triu(1).any() and maps[0].tril(-1).any(), "words look both ways"
    close(maps.sum(-1), (where >= 0)[:, None, None].expand(3, 3, 2, 7).double())
    for row, length in enumerate((7, 4, 1)):
        alone = bert_maps(model, words[row, None, :length], segments[row, None, :length])
        close(maps[row, ..., :length, :length], alone[0])
        assert not maps[row, ..., length:, :].any() and not maps[row, ..., :, length:].any()


# A text that reads another


def test_alignments_are_the_weights_written_out():
    model, words, where = translator(), text(3, 5), rows_of(6, 3, 2)
    source = TokenBatch(text(3, 6, seed=2), where)
    maps = alignment_maps(model, source, words)
    assert maps.shape == (3, 3, 2, 5, 6)
    with torch.no_grad():
        context = model.encode(source)
    close(maps, maps_by_hand(model, words, torch.arange(5), context, where)[1])
    close(maps.sum(-1), torch.ones(3, 3, 2, 5, dtype=torch.float64))
    assert not maps.masked_select((where < 0)[:, None, None, None]).any()
    assert maps.triu(1).any(), "every word of the source can be looked at"


def test_padding_on_either_side_has_zeros_and_changes_nothing():
    model, words, where = translator(), text(3, 5), rows_of(5, 2, 4)
    sources, lengths = text(3, 6, seed=2), (6, 3, 2)
    source = TokenBatch(sources, rows_of(*lengths))
    maps = alignment_maps(model, source, words, positions=where)
    for row, (n, m) in enumerate(zip((5, 2, 4), lengths, strict=True)):
        alone = alignment_maps(model, TokenBatch(sources[row, None, :m]), words[row, None, :n])
        close(maps[row, ..., :n, :m], alone[0])
    close(maps.sum(-1), (where >= 0)[:, None, None].expand(3, 3, 2, 5).double())


def test_several_translations_of_a_sentence_have_a_map_each():
    model, words = translator(), text(6, 5)
    sources = text(2, 4, seed=2)
    where, lengths = rows_of(5, 1, 3, 5, 4, 2), rows_of(4, 3)
    maps = alignment_maps(model, TokenBatch(sources, lengths), words, positions=where)
    twins = TokenBatch(sources.repeat_interleave(3, 0), lengths.repeat_interleave(3, 0))
    close(maps, alignment_maps(model, twins, words, positions=where))


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_watched_model_reads_with_the_maps_it_shows(norm_first):
    """Each map times the values is what the layer read: the proof that it is the map used."""
    from regard.attention import watch

    model, words = translator(norm_first=norm_first), text(2, 5)
    source = TokenBatch(text(2, 6, seed=2))
    maps = alignment_maps(model, source, words)
    with torch.no_grad(), watch(model, "blocks.*.cross") as seen:
        model(source, words)
    for depth, layer in enumerate(seen.values()):
        assert layer.name == f"blocks.{depth}.cross"
        close(maps[:, depth] @ layer.call.v, layer.output)


@pytest.mark.parametrize("n", [4, 7], ids="n={}".format)  # a head is 4 wide
def test_a_map_between_channels_is_refused_as_one_of_words_whatever_its_shape(n):
    model = reader(attention="channel")
    with expect_error(ValueError):
        bert_maps(model, text(2, n))
    other = translator()
    other.blocks[1].cross.attention = attend_channels
    with expect_error(ValueError):
        alignment_maps(other, TokenBatch(text(2, n)), text(2, n))
    assert not has_places(model) and not has_places(deepcopy(model)) and has_places(other)


@pytest.mark.parametrize("build", [writer, reader, translator])
def test_a_model_in_training_is_refused(build):
    model = build(dropout=0.1).train()
    with expect_error(ValueError):
        if build is translator:
            alignment_maps(model, TokenBatch(text(1, 3)), text(1, 3))
        else:
            (text_maps if build is writer else bert_maps)(model, text(1, 3))


# For the page


def unpacked(item):
    """The maps of an item, as a page reads them."""
    values = item["maps"].to_values()
    heads, n, m = values["shape"]
    whole = base64.b64decode(values["base64"])
    blocks = [whole[i * len(whole) // heads : (i + 1) * len(whole) // heads] for i in range(heads)]
    maps = np.zeros((heads, n, m))
    inside = np.tri(n, dtype=bool) if values["causal"] else np.ones((n, m), bool)
    for each, block in zip(maps, blocks, strict=True):
        each[inside] = np.frombuffer(block, np.uint8, offset=4 * n)
        each *= np.frombuffer(block, "<f4", n)[:, None]
    return maps


def test_an_item_has_the_mean_first_and_keeps_faint_rows():
    maps = np.random.default_rng(0).dirichlet(np.full(400, 0.5), (2, 3, 400))
    maps[:, :, 0] = np.eye(400)[0]
    item = reading_item("A tale", ["a"] * 400, None, maps, note="of old")
    assert (item["name"], item["read"], item["note"]) == ("A tale", None, "of old")
    assert item["heads"][:3] == ["mean of all", "layer 1, head 1", "layer 1, head 2"]
    assert item["heads"][-1] == "layer 2, head 3" and len(item["heads"]) == 7
    each = np.concatenate((maps.mean((0, 1))[None], maps.reshape(6, 400, 400)))
    error = np.abs(unpacked(item) - each)
    assert (error <= each.max(-1, keepdims=True) / 510 * (1 + 1e-5)).all(), "a scale a row"
    assert item["grid"] == [2, 3] and len(item["summaries"]) == 7


def test_what_lies_beyond_the_diagonal_of_causal_maps_is_left_out():
    maps = np.tril(np.random.default_rng(0).random((2, 2, 40, 40)).astype(np.float32))
    item = reading_item("", ["a"] * 40, None, maps)
    each = np.concatenate((maps.mean((0, 1))[None], maps.reshape(4, 40, 40)))
    np.testing.assert_allclose(unpacked(item), each, atol=1 / 509)
    assert item["maps"].size == 5 * (4 * 40 + 40 * 41 // 2)
    small = item["maps"].small
    assert small.shape == (5, 20, 20), "two by two, so that they are at most 32"
    assert (small.max(2) == 255).all() and not np.triu(small[1], 1).any()


def test_layers_that_come_one_by_one_make_the_same_item():
    model, words = writer(), text(1, 7)
    tokens = list("abcabca")
    whole = reading_item("", tokens, None, text_maps(model, words)[0].numpy())
    layers = text_layers(model, words).each(lambda layer: layer[0].numpy())
    item = reading_item("", tokens, None, layers, causal=True)
    assert item.pop("maps").to_values() == whole.pop("maps").to_values()
    summaries = item.pop("summaries")
    assert summaries.size == layers.size > 0, "nothing is measured before somebody asks"
    assert summaries.to_values() == whole.pop("summaries") == summaries.to_values()
    assert summaries.size == 0 and item == whole


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -0.1])
def test_shares_that_are_none_are_refused(wrong):
    maps = np.full((1, 1, 2, 2), 0.5)
    maps[0, 0, 1, 0] = wrong
    with expect_error(ValueError):
        reading_item("", ["a", "b"], None, maps)


def test_an_item_of_one_head_has_no_mean():
    maps = np.random.default_rng(0).dirichlet(np.ones(3), (1, 1, 2))
    item = reading_item("", ("x", "y"), ("a", "b", "c"), maps)
    assert item["heads"] == ["layer 1, head 1"] and item["read"] == ["a", "b", "c"]
    assert item["maps"].to_values()["shape"] == [1, 2, 3] and not item["maps"].causal


@pytest.mark.parametrize("shape", [(2, 2, 3, 3), (2, 2, 3, 2), (0, 2, 2, 3)], ids=str)
def test_maps_that_do_not_fit_the_words_are_refused(shape):
    with expect_error(ValueError):
        reading_item("", ["x", "y"], ["a", "b", "c"], np.zeros(shape))
