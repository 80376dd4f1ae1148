"""Our pretrainer is BERT's: both of its heads, and one for each further question."""

import pytest
import torch
from torch import Tensor, nn

from golden import expect_error
from regard.config import build, to_values
from regard.errors import FieldError
from regard.models import MODELS, BertForPretraining, BertForPretrainingConfig
from test_bert import padded, tied
from test_torch_oracles import Twins, assert_same, scrambled

W, N, C = 13, 9, 12  # words, length, width
SMALL = {"width": C, "layers": 2, "heads": 3, "mlp_width": 20, "vocab_size": W, "context_length": N}


def made(*asked: str, **fields: object) -> BertForPretraining:
    """A small one in which every number counts."""
    return scrambled(
        BertForPretraining(BertForPretrainingConfig(**SMALL, pair_tasks=asked, **fields)),
        torch.float64,
    )


def texts(*lengths: int) -> tuple[Tensor, Tensor, Tensor]:
    positions = padded(*lengths)
    words = torch.randint(W, positions.shape)
    return words, (positions > 2).long(), positions


def twins_of(config: BertForPretrainingConfig) -> tuple[BertForPretraining, nn.Module, Twins]:
    """Ours and BertForPreTraining with the same random weights, part by part."""
    transformers = pytest.importorskip("transformers")
    bert, their_bert, twins = tied(config, torch.float64)
    theirs = scrambled(transformers.BertForPreTraining(their_bert.config), torch.float64)
    theirs.bert = their_bert
    theirs.tie_weights()
    head = theirs.cls.predictions
    assert head.decoder.weight is their_bert.embeddings.word_embeddings.weight
    ours = BertForPretraining(config).double().eval()
    ours.bert = bert
    twins.layer(ours.mlm_dense, head.transform.dense)
    twins.layer(ours.mlm_norm, head.transform.LayerNorm)
    twins.tie(ours.mlm_bias, head.decoder.bias)
    twins.layer(ours.pair_heads["nsp"], theirs.cls.seq_relationship)
    return ours, theirs, twins


@pytest.mark.parametrize("lengths", [(9,), (9, 4, 1)], ids=str)
def test_scores_and_gradients_are_those_of_transformers(lengths):
    ours, theirs, twins = twins_of(BertForPretrainingConfig(**SMALL, pair_tasks=("nsp",)))
    words, segments, positions = texts(*lengths)
    real = positions >= 0
    their = theirs(words, attention_mask=real.long(), token_type_ids=segments)
    hidden = ours.hidden_states(words, segments, positions=positions)
    said = ours(words, segments, positions=positions)
    assert said.shape == (*words.shape, W)
    assert_same(said[real], their.prediction_logits[real])
    assert_same(ours.token_logits(hidden[real]), their.prediction_logits[real])
    assert_same(ours.pair_logits("nsp", hidden), their.seq_relationship_logits)
    both = [
        torch.cat((scores[real].flatten(), answers.flatten()))
        for scores, answers in (
            (said, ours.pair_logits("nsp", hidden)),
            (their.prediction_logits, their.seq_relationship_logits),
        )
    ]
    twins.agree(ours, *both, [])


def test_each_question_has_a_head_of_its_own_on_what_bert_makes_of_the_first_word():
    model = made("nsp", "nli")
    words, segments, positions = texts(9, 5)
    hidden = model.hidden_states(words, segments, positions=positions)
    one, other = (model.pair_logits(name, hidden) for name in ("nsp", "nli"))
    assert one.shape == (2, 2) and not torch.allclose(one, other)
    pooled = model.bert.pooled(hidden)
    assert_same(other, pooled @ model.pair_heads["nli"].weight.T + model.pair_heads["nli"].bias)
    changed = torch.cat((hidden[:, :1], -hidden[:, 1:]), 1)
    assert_same(model.pair_logits("nsp", changed), one)


@pytest.mark.parametrize(
    "asked",
    [
        (),
        ("nsp", "inversion"),
    ],
    ids=["none", "two"],
)
def test_an_unknown_question_is_said_in_a_sentence(asked):
    model = made(*asked)
    with expect_error(ValueError):
        model.pair_logits("nxt", torch.zeros(1, 3, C, dtype=torch.float64))


def test_without_questions_nothing_is_built_to_answer_them():
    names = [name for name, _ in made().named_parameters()]
    assert not any("pooler" in name or "questions" in name for name in names)
    every = [name for name, _ in made("nsp", "inversion").named_parameters()]
    assert {name.split(".")[1] for name in every if "pair_heads" in name} == {"nsp", "inversion"}
    assert any("pooler" in name for name in every)


@pytest.mark.parametrize(
    "fields",
    [
        {"norm_first": True, "pos_embed": "rope", "width": 24},
        {"activation": "swiglu", "norm": "rmsnorm"},
        {"activation": "relu", "pos_embed": "sinusoidal"},
    ],
    ids=str,
)
def test_any_stack_will_do_and_every_number_is_taught(fields):
    model = BertForPretraining(
        BertForPretrainingConfig(**{**SMALL, "pair_tasks": ("nsp",), **fields})
    )
    words, segments, positions = texts(9, 5)
    hidden = model.hidden_states(words, segments, positions=positions)
    (
        model.token_logits(hidden)[:, 3].square().sum() + model.pair_logits("nsp", hidden).sum()
    ).backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters() if p.ndim > 1)


def test_it_is_among_the_models_and_its_configuration_is_read_back():
    config = BertForPretrainingConfig(**SMALL, pair_tasks=("nsp", "inversion"))
    assert build(BertForPretrainingConfig, to_values(config)) == config
    assert MODELS["bert_for_pretraining"].build(**to_values(config)).config == config
    with expect_error(FieldError, field="pair_tasks"):
        BertForPretrainingConfig(**SMALL, pair_tasks=("nsp", "nsp"))
    with expect_error(FieldError, field="pair_tasks"):
        BertForPretrainingConfig(**SMALL, pair_tasks=("nsp",), pooler=False)
