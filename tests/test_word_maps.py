"""Maps of words are what their names say: the words missed, the slopes added up, the rows read."""

import json
from functools import partial

import numpy as np
import pytest
import torch

from golden import expect_error
from regard.inspection import attribution as module
from regard.inspection.attribution import (
    METHODS,
    WordMaps,
    attention_read,
    integrated_gradients,
    left_out,
    log_odds,
    padded,
    reader,
    without,
    word_maps,
    words_item,
)
from regard.models.config import TextClassifierConfig
from regard.models.text_classifier import TextClassifier

SMALL = {
    "vocab_size": 13,
    "width": 12,
    "heads": 3,
    "layers": 2,
    "context_length": 12,
    "num_classes": 3,
}
TEXT = [1, 5, 7, 3, 9, 4, 2]  # start, four words of five pieces, end
SPANS = [(1, 2), (2, 4), (4, 5), (5, 6)]
KINDS = [0, 0, 0, 0, 1, 1, 1]
close = partial(np.testing.assert_allclose, rtol=0, atol=1e-10)


def made(**changes):
    """A small classifier in which every weight counts."""
    torch.manual_seed(0)
    model = TextClassifier(TextClassifierConfig(**{**SMALL, **changes}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) / 4)
    return model.double().eval()


def shares_of(model, tokens, segments=None):
    """The probabilities of one text, asked in the plainest way."""
    kinds = None if segments is None else torch.tensor([segments])
    with torch.no_grad():
        return model(torch.tensor([tokens]), kinds)[0].softmax(-1).numpy()


# Left out


def test_a_word_left_out_is_missed_by_as_much_as_it_said():
    """A model by hand: each token pulls the logit of class 1 by its own number."""

    def probability(texts):
        pull = torch.tensor([sum(text) for text in texts], dtype=torch.float64)
        return torch.stack((-pull, pull), -1).softmax(-1)

    tokens, spans = [0, 3, -1, -1, 2, 0], [(1, 2), (2, 4), (4, 5)]
    for answer, sign in ((1, 1), (0, -1)):
        log = lambda pull, sign=sign: -np.log1p(np.exp(-2 * sign * pull))  # noqa: E731
        expected = [log(3) - log(3 - word) for word in (3, -2, 2)]
        close(left_out(probability, tokens, spans, answer), expected)
    assert not len(left_out(probability, tokens, [], 0))


@pytest.mark.parametrize("place", ["learned", "rope", "sinusoidal", "none"])
@pytest.mark.parametrize("segments", [None, KINDS], ids=["one text", "a pair"])
def test_left_out_asks_the_shorter_texts_one_by_one(place, segments):
    model = made(pos_embed=place)
    maps = word_maps(model, TEXT, SPANS, segments=segments)
    whole = shares_of(model, TEXT, segments)
    close(maps.probabilities, whole)
    assert maps.answer == whole.argmax()
    for word, (start, end) in enumerate(SPANS):
        shorter = TEXT[:start] + TEXT[end:]
        kinds = None if segments is None else segments[:start] + segments[end:]
        share = shares_of(model, shorter, kinds)[maps.answer]
        close(maps.left_out[word], np.log(whole[maps.answer]) - np.log(share))
    assert np.ptp(maps.left_out) > 0.01, "words differ"


def test_an_answer_that_becomes_impossible_is_missed_by_a_finite_number():
    def certain(texts):
        kept = torch.tensor([float(7 in text) for text in texts])
        return torch.stack((1 - kept, kept), -1)

    lost = left_out(certain, [0, 7, 0], [(1, 2)], 1)
    assert 100 < lost[0] < 1000


def test_a_share_next_to_one_still_has_differences():
    model = made(num_classes=2)
    with torch.no_grad():
        model.head.weight.mul_(30)
    maps = word_maps(model.float(), TEXT, SPANS)
    assert maps.probabilities.max() > 0.9999
    assert np.unique(maps.left_out).size == len(SPANS)


# Gradient


@pytest.mark.parametrize("pool", ["cls", "mean"])
@pytest.mark.parametrize(
    "fields", [{}, {"pos_embed": "rope"}, {"norm_first": True}, {"pooler": True}]
)
@pytest.mark.parametrize("segments", [None, KINDS], ids=["one text", "a pair"])
def test_gradients_add_up_to_what_the_words_change(monkeypatch, pool, fields, segments):
    monkeypatch.setattr(module, "ENOUGH", 1e-6)
    model = made(pool=pool, **fields)
    for answer in range(3):
        values, error = integrated_gradients(model, TEXT, SPANS, answer, segments=segments)
        assert error < 1e-6
        assert values[0] == values[-1] == 0, "start and end do not move"
        blank = model.bert.token_embedding(torch.arange(13)).mean(0).detach()
        vectors = torch.stack([model.bert.token_embedding(torch.tensor(TEXT)).detach()] * 2)
        vectors[0, 1:-1] = blank
        kinds = None if segments is None else torch.tensor([segments])
        before, after = log_odds(model, torch.tensor([TEXT]), kinds, vectors, answer).tolist()
        assert abs(after - before) > 1e-3
        assert values.sum() == pytest.approx(after - before, abs=1e-5)


def test_gradients_are_those_of_a_fine_riemann_sum():
    """The integral by its definition: many small steps, and the gradients at their middles."""
    model, answer = made(), 1
    values, _ = integrated_gradients(model, TEXT, SPANS, answer)
    whole = model.bert.token_embedding(torch.tensor(TEXT)).detach()
    blank = whole.clone()
    blank[1:-1] = model.bert.token_embedding(torch.arange(13)).mean(0).detach()
    total, steps = torch.zeros_like(whole), 500
    for some in ((torch.arange(steps) + 0.5) / steps).split(100):
        at = (blank + some[:, None, None] * (whole - blank)).requires_grad_()
        out = log_odds(model, torch.tensor([TEXT]), None, at, answer)
        total += torch.autograd.grad(out.sum(), at)[0].sum(0) / steps
    plain = (total * (whole - blank)).sum(-1).numpy()
    np.testing.assert_allclose(values, plain, rtol=0, atol=0.01 * np.abs(plain).sum())


def test_of_a_linear_model_the_gradient_is_exact():
    """Without layers, the mean of embeddings is read linearly: each word has its own share."""
    model = made(layers=1, num_classes=2, pos_embed="none")
    model.bert.embed_norm = torch.nn.Identity()
    model.bert.blocks = torch.nn.ModuleList()
    values, error = integrated_gradients(model, TEXT, SPANS, 1)
    table = model.bert.token_embedding.weight.detach()
    pull = model.head.weight[1].detach() - model.head.weight[0].detach()
    expected = ((table[TEXT] - table.mean(0)) @ pull / len(TEXT)).numpy()
    expected[[0, -1]] = 0
    close(values, expected)
    assert error < 1e-12


def test_log_odds_are_those_of_the_probability():
    model = made()
    vectors = model.bert.token_embedding(torch.tensor([TEXT])).detach()
    share = shares_of(model, TEXT)
    for answer in range(3):
        odds = log_odds(model, torch.tensor([TEXT]), None, vectors, answer)
        close(odds.detach().numpy(), [np.log(share[answer] / (1 - share[answer]))])


def test_gradients_leave_no_trace_and_can_be_asked_for_anywhere():
    model = made(dropout=0.5, classifier_dropout=0.5).train()
    model.bert.blocks[1].eval()  # frozen, say
    modes = [part.training for part in model.modules()]
    with torch.inference_mode():
        first = word_maps(model, TEXT, SPANS)
    with torch.no_grad():
        second = word_maps(model, TEXT, SPANS)
    for one, two in zip(first.by_method().values(), second.by_method().values(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert [part.training for part in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.bert.token_embedding._forward_hooks


# Attention


def weights_by_hooks(model, tokens):
    """Each layer's mean over heads, from its projections alone: watch and Seen are not used."""
    found, handles = [], []

    def keep(layer, inputs, _out):
        (x,) = inputs
        q, k = (
            part(x).unflatten(-1, (layer.heads, -1)).transpose(1, 2)[0]
            for part in (layer.to_q, layer.to_k)
        )
        scores = q @ k.mT * q.shape[-1] ** -0.5
        found.append(scores.softmax(-1).mean(0).numpy())

    for block in model.bert.blocks:
        handles.append(block.attention.register_forward_hook(keep))
    with torch.no_grad():
        model(torch.tensor([tokens]))
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("pool", ["cls", "mean", "max"])
def test_attention_is_the_rollout_of_a_plain_loop(pool):
    model, n = made(pool=pool, layers=3), len(TEXT)
    flow = [[float(i == j) for j in range(n)] for i in range(n)]
    for weights in weights_by_hooks(model, TEXT):
        after = [[0.0] * n for _ in range(n)]
        for i in range(n):
            for j in range(n):
                through = sum(weights[i][k] * flow[k][j] for k in range(n))
                after[i][j] = (flow[i][j] + through) / 2
        flow = after
    rows = flow[:1] if pool == "cls" else flow
    expected = [sum(row[j] for row in rows) / len(rows) for j in range(n)]
    close(attention_read(model, TEXT), expected)

    maps = word_maps(model, TEXT, SPANS)
    close(maps.attention, [sum(expected[start:end]) for start, end in SPANS])
    close(maps.attention.sum(), 1 - expected[0] - expected[-1])


def test_where_channels_read_channels_words_are_shown_without_what_was_read():
    model = made(attention="channel")  # a head is as wide as the text below has tokens
    maps = word_maps(model, TEXT[:4], SPANS[:2])
    assert maps.attention is None and list(maps.by_method()) == ["left out", "gradient"]
    item = words_item("", ["a", "b"], maps, ["x", "y", "z"])
    assert [method["name"] for method in item["methods"]] == ["left out", "gradient"]
    with expect_error(ValueError):
        attention_read(model, TEXT[:4])


# Words, pieces, batches


def test_a_words_number_is_that_of_all_its_pieces():
    model = made()
    pieces = word_maps(model, TEXT, [(place, place + 1) for place in range(1, 6)])
    words = word_maps(model, TEXT, SPANS)
    for many, few in (
        (pieces.gradient, words.gradient),
        (pieces.attention, words.attention),
    ):
        close(few, [many[0], many[1] + many[2], many[3], many[4]])


def test_another_answer_may_be_asked_about():
    model = made(num_classes=2)
    ours = word_maps(model, TEXT, SPANS)
    other = word_maps(model, TEXT, SPANS, answer=1 - ours.answer)
    close(other.gradient, -ours.gradient)
    close(other.attention, ours.attention)
    assert other.answer == 1 - ours.answer
    assert (np.sign(other.left_out) == -np.sign(ours.left_out)).all()


@pytest.mark.parametrize("tokens", [1, 17, 4096], ids="at once {}".format)
@pytest.mark.parametrize("pairs", [False, True], ids=["texts", "pairs"])
@pytest.mark.parametrize("pool", ["cls", "mean", "max"])
def test_texts_read_together_are_what_they_are_alone(monkeypatch, tokens, pairs, pool):
    monkeypatch.setattr(module, "TOKENS", tokens)
    model = made(pool=pool)
    texts = [TEXT, TEXT[:3], [1, 2], TEXT[::-1], [*TEXT, 3, 4], [1, 6, 2]]
    kinds = [[at % 2 for at in range(len(text))] for text in texts]
    given = (
        [list(zip(*both, strict=True)) for both in zip(texts, kinds, strict=True)]
        if pairs
        else texts
    )
    found = reader(model)(given).numpy()
    for row, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        close(found[row], shares_of(model, text, kind if pairs else None))


def test_slopes_a_few_at_a_time_are_the_same(monkeypatch):
    model = made()
    whole, _ = integrated_gradients(model, TEXT, SPANS, 0)
    monkeypatch.setattr(module, "TOKENS", 10)
    parts, _ = integrated_gradients(model, TEXT, SPANS, 0)
    close(parts, whole)


def test_padding_is_nowhere_and_comes_last():
    words, kinds, where = padded([[4, 5, 6], [7]])
    assert words.tolist() == [[4, 5, 6], [7, 0, 0]] and kinds is None
    assert where.tolist() == [[0, 1, 2], [0, -1, -1]]
    words, kinds, where = padded([[(4, 0), (5, 1)], [(6, 1), (7, 1)]])
    assert words.tolist() == [[4, 5], [6, 7]] and kinds.tolist() == [[0, 1], [1, 1]]
    assert where is None, "nothing is padded"


def test_words_are_deleted_with_all_their_tokens():
    assert without(TEXT, [SPANS[1], SPANS[3]]) == [1, 5, 9, 2]
    assert without(TEXT, []) == TEXT


def test_a_text_without_words_has_empty_maps():
    maps = word_maps(made(), [1, 2], [])
    assert all(values.shape == (0,) for values in maps.by_method().values())
    assert maps.gradient_error == 0
    assert words_item("nothing", [], maps, ["a", "b", "c"])["methods"][0]["values"] == []


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": [], "spans": []},
        {"segments": [0]},
        {"spans": [(1, 2), (3, 3)]},
        {"spans": [(5, 8)]},
        {"spans": [(-1, 2)]},
        {"spans": [(2, 4), (1, 3)]},
        {"answer": 3},
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(options):
    with expect_error(ValueError):
        word_maps(**{"model": made(), "tokens": TEXT, "spans": SPANS, **options})


# For the page


def by_hand(words=4, classes=2):
    draw = np.random.default_rng(0)
    shares = np.array([0.2, 0.8]) if classes == 2 else draw.dirichlet(np.ones(classes))
    return WordMaps(
        int(shares.argmax()),
        shares,
        draw.normal(size=words),
        draw.normal(size=words),
        draw.dirichlet(np.ones(words)),
        0.0,
    )


def test_an_item_says_all_that_the_page_shows():
    maps = by_hand()
    words = ["A", " fine", " film", "."]
    item = words_item("test:3", words, maps, ("no", "yes"), truth="no", breaks=[2], note="n")
    item = json.loads(json.dumps(item))
    assert item["words"] == words and item["breaks"] == [2] and item["truth"] == "no"
    assert item["answers"] == [{"name": "yes", "share": 0.8}, {"name": "no", "share": 0.2}]
    assert item["answer"] == "yes" and item["name"] == "test:3" and item["note"] == "n"
    assert [way["name"] for way in item["methods"]] == [*METHODS] == [*maps.by_method()]
    assert [way["signed"] for way in item["methods"]] == [True, True, False]
    assert [way["unit"] for way in item["methods"]] == ["log-probability", "log-odds", "share"]
    for way, values in zip(item["methods"], maps.by_method().values(), strict=True):
        np.testing.assert_allclose(way["values"], values, rtol=1e-3)


def test_of_many_classes_the_first_five_are_named():
    maps = by_hand(classes=9)
    item = words_item("", list("abcd"), maps, list("ABCDEFGHI"))
    shares = [answer["share"] for answer in item["answers"]]
    assert shares == sorted(maps.probabilities, reverse=True)[:5]
    assert item["answers"][0]["name"] == "ABCDEFGHI"[maps.answer]


@pytest.mark.parametrize(
    "options",
    [
        {"words": ["a"]},
        {"classes": ["a"]},
        {"breaks": [4]},
        {"breaks": [0]},
    ],
)
def test_an_item_that_does_not_fit_is_refused(options):
    asked = {"name": "", "words": list("abcd"), "maps": by_hand(), "classes": ["a", "b"]}
    with expect_error(ValueError):
        words_item(**{**asked, **options})


def test_numbers_that_are_not_finite_are_refused():
    maps = by_hand()
    maps.gradient[1] = np.nan
    with expect_error(ValueError):
        words_item("", list("abcd"), maps, ["a", "b"])
