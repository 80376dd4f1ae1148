"""A text is classified as transformers' BERT does it, and padding has no say in it."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import grad

from golden import expect_error
from regard.attention import attend
from regard.config import build, to_values
from regard.errors import FieldError
from regard.models.config import TextClassifierConfig
from regard.models.ngram_head import GAIN, NgramHead
from regard.models.text_classifier import TextClassifier
from strategies import examples
from test_bert import padded, tied
from test_torch_oracles import Twins, scrambled

W, N, C, H, K = 13, 7, 12, 3, 4  # words, length, width, heads, classes
POOLS = pytest.mark.parametrize("pool", ["cls", "mean", "max"])


def configured(**fields: object) -> TextClassifierConfig:
    small = {
        "width": C,
        "layers": 2,
        "heads": H,
        "mlp_width": 20,
        "vocab_size": W,
        "context_length": N,
    }
    return TextClassifierConfig(**({**small, "num_classes": K} | fields))


def made(**fields: object) -> TextClassifier:
    """A small classifier in which every number counts."""
    return scrambled(TextClassifier(configured(**fields)), torch.float64)


def theirs_of(config: TextClassifierConfig) -> tuple[TextClassifier, nn.Module, Twins]:
    """Ours and transformers', with the same weights."""
    transformers = pytest.importorskip("transformers")
    bert, their_bert, twins = tied(config, torch.float64)
    their_bert.config.num_labels = config.num_classes
    theirs = transformers.BertForSequenceClassification(their_bert.config).double().eval()
    theirs.bert = their_bert
    ours = TextClassifier(config).double().eval()
    ours.bert = bert
    twins.layer(ours.head, theirs.classifier)
    return ours, theirs, twins


@examples(15)
@given(st.lists(st.integers(1, N), min_size=1, max_size=3), st.booleans(), st.integers(2, 5))
def test_scores_and_gradients_are_those_of_transformers(lengths, pairs, classes):
    ours, theirs, twins = theirs_of(configured(pool="cls", pooler=True, num_classes=classes))
    positions = padded(*lengths)
    words = torch.randint(W, positions.shape)
    segments = torch.randint(2, positions.shape) if pairs else None
    mine = ours(words, segments, positions=positions)
    their = theirs(words, attention_mask=(positions >= 0).long(), token_type_ids=segments).logits
    assert mine.shape == (len(lengths), classes)
    twins.agree(ours, mine, their, [])


@POOLS
@pytest.mark.parametrize("pooler", [False, True], ids="pooler={}".format)
def test_what_is_read_off_is_what_its_name_says(pool, pooler):
    model = made(pool=pool, pooler=pooler)
    positions = padded(3, 7, 1)
    words = torch.randint(W, positions.shape)
    hidden = model.bert(words, positions=positions)
    found = model.pooled(hidden, positions)
    for row, n in enumerate((3, 7, 1)):
        vectors = hidden[row, :n]
        of = {
            "cls": vectors[0],
            "mean": sum(vectors) / n,
            "max": torch.stack([max(column, key=lambda x: x.item()) for column in vectors.T]),
        }[pool]
        if pooler and pool == "cls":
            of = torch.tanh(model.bert.pooler(of))
        torch.testing.assert_close(found[row], of)
    torch.testing.assert_close(model(words, positions=positions), model.head(found))


@POOLS
def test_padding_has_no_say_and_gets_no_gradient(pool):
    model, words = made(pool=pool), torch.randint(1, W, (2, 5))
    alone = model(words)
    wide, where = torch.zeros(2, N, dtype=torch.int64), padded(5, N)[:1].expand(2, -1)
    wide[:, :5] = words
    torch.testing.assert_close(model(wide, positions=where), alone)
    model(wide, positions=where).square().sum().backward()
    rows = model.bert.token_embedding.weight.grad.abs().sum(-1)
    assert rows[0] == 0 and rows[words].min() > 0
    torch.testing.assert_close(model(words, positions=range(5)), alone)
    torch.testing.assert_close(model(words, positions=torch.arange(5)), alone)  # of all rows


@POOLS
def test_the_fast_attention_is_the_plain_one(pool):
    fast = made(pool=pool)
    plain = TextClassifier(fast.config, attention=attend).double().eval()
    plain.load_state_dict(fast.state_dict())
    positions = padded(4, 7)
    words, segments = torch.randint(W, (2, 7)), torch.randint(2, (2, 7))

    def found(model: TextClassifier) -> tuple[Tensor, list[Tensor]]:
        scores = model(words, segments, positions=positions)
        return scores, list(grad(scores.square().sum(), list(model.parameters())))

    torch.testing.assert_close(found(fast), found(plain), atol=1e-10, rtol=1e-9)


def test_dropout_of_the_head_is_for_training_alone():
    model, words = made(classifier_dropout=0.5), torch.randint(W, (1, N))
    assert torch.equal(model(words), model(words))
    read = []
    model.head.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    model.train()(words.expand(200, -1))
    assert 0.45 < (read[0] == 0).double().mean() < 0.55


def test_a_configuration_survives_and_contradictions_are_named():
    config = configured(pool="max", classifier_dropout=0.2)
    assert build(TextClassifierConfig, to_values(config)) == config
    for fields, name in (
        ({"num_classes": 1}, "num_classes"),
        ({"classifier_dropout": 1.0}, "classifier_dropout"),
    ):
        with expect_error(FieldError, field=name):
            configured(**fields)


def test_words_and_pairs_vote_by_the_table_and_padding_does_not():
    votes = NgramHead(W, 50, K).double()
    nn.init.normal_(votes.table.weight)
    positions = padded(5, 1, 3)
    words = torch.randint(W, positions.shape)
    found = votes(words, positions)
    for row, length in enumerate((5, 1, 3)):
        text = words[row, :length].tolist()
        rows = [votes.table.weight[word] for word in text]
        for pair in pairwise(text):
            rows.append(votes.table.weight[votes.pairs(torch.tensor([pair]))[0, 0]])
        wanted = GAIN * torch.stack(rows).sum(0) / len(rows) ** 0.5
        torch.testing.assert_close(found[row], wanted)
    assert (votes.pairs(words) >= W).all() and (votes.pairs(words) < W + 50).all()


def test_neighbours_in_the_other_order_vote_otherwise():
    votes = NgramHead(1000, 1 << 18, 2)
    words = torch.randint(1000, (1, 200))
    assert (votes.pairs(words) != votes.pairs(words.flip(1)).flip(1)).all()


def test_scores_are_the_mean_of_two_opinions_each_of_which_learns_alone():
    model = made(ngram_buckets=64)
    positions, words = padded(6, 4), torch.randint(W, (2, 6))
    both = model(words, positions=positions)
    opinions = model(words, positions=positions, each=True)
    assert opinions.shape == (2, 2, K)
    torch.testing.assert_close(both, opinions.mean(0))
    torch.testing.assert_close(opinions[1], model.ngram(words, positions))
    (taught,) = grad(opinions[0].sum(), list(model.ngram.parameters()))
    assert not taught.any()  # what the reader says teaches the votes nothing
    without = made()
    assert without(words, positions=positions, each=True).shape == (1, 2, K)


@pytest.mark.parametrize("say", [0.0, 0.25, 1.0, 3.0])
def test_votes_count_for_as_much_as_is_said(say):
    model = made(ngram_buckets=64, ngram_weight=say)
    nn.init.normal_(model.ngram.table.weight)
    positions, words = padded(6, 4), torch.randint(W, (2, 6))
    reader, votes = model(words, positions=positions, each=True)
    torch.testing.assert_close(
        model(words, positions=positions), (reader + say * votes) / (1 + say)
    )


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"ngram_buckets": -1}, "ngram_buckets"),
        ({"ngram_weight": -0.5}, "ngram_weight"),
        ({"ngram_weight": math.inf}, "ngram_weight"),
    ],
)
def test_votes_that_make_no_sense_are_refused(fields, name):
    with expect_error(FieldError, field=name):
        configured(**fields)
