"""Attentions by name: what an expression builds, in every model, and what it cannot."""

import pytest
import torch
from torch import nn

from golden import expect_error
from regard.attention import (
    ATTENTIONS,
    FEATURES,
    KVCache,
    LearnedFeatures,
    LinearAttention,
    LinearState,
    MultiHeadAttention,
    RandomFeatures,
    attend,
    attend_fused,
    make_attention,
    watch,
    window,
)
from regard.models import (
    GPT,
    MODELS,
    Bert,
    BertConfig,
    Captioner,
    CaptionerConfig,
    GPTConfig,
    Seq2Seq,
    Seq2SeqConfig,
    StackConfig,
    TokenBatch,
    ViT,
    ViTConfig,
    make_blocks,
)

SMALL = {"width": 16, "layers": 2, "heads": 2}
WORDS = torch.randint(1, 20, (3, 7), generator=torch.Generator().manual_seed(2))
PADDED = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, -1, -1, -1], [0, 1, 2, 3, 4, 5, -1]])
IMAGES = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(3))
LINEAR = [
    "linear",
    "linear(relu)",
    "linear(random(24, seed=1))",
    "linear(taylor)",
    "linear(learned)",
]


def vit(**fields: object) -> ViT:
    return ViT(ViTConfig(**SMALL, image_size=16, **fields))


def gpt(**fields: object) -> GPT:
    return GPT(GPTConfig(**SMALL, vocab_size=20, context_length=16, **fields))


def bert(**fields: object) -> Bert:
    return Bert(BertConfig(**SMALL, vocab_size=20, context_length=16, **fields))


def captioner(**fields: object) -> Captioner:
    eyes = ViTConfig(**SMALL, image_size=16, pool="mean", **fields)
    return Captioner(
        CaptionerConfig(**SMALL, vocab_size=20, context_length=16, encoder=eyes, **fields)
    )


def seq2seq(**fields: object) -> Seq2Seq:
    return Seq2Seq(Seq2SeqConfig(**SMALL, vocab_size=20, context_length=16, **fields))


RUNS = {
    "vit": (vit, lambda model: model(IMAGES)),
    "gpt": (gpt, lambda model: model(WORDS)),
    "gpt, padded": (gpt, lambda model: model(WORDS, positions=PADDED)),
    "bert": (bert, lambda model: model(WORDS, positions=PADDED)),
    "captioner": (captioner, lambda model: model(IMAGES, WORDS, positions=PADDED)),
    "seq2seq": (seq2seq, lambda model: model(TokenBatch(WORDS, PADDED), WORDS)),
}


def test_each_expression_builds_what_it_says():
    assert make_attention("softmax", 8) is attend_fused
    for name in FEATURES:
        assert isinstance(make_attention(f" linear({name}) ", 8), LinearAttention)
    made = make_attention("linear(random(24, seed=3))", 8).feature
    assert isinstance(made, RandomFeatures)
    assert (made.count, made.seed, made.directions.shape) == (24, 3, (24, 8))
    assert make_attention("linear(random(count=5))", 8).feature.count == 5
    assert isinstance(make_attention("linear(learned)", 8).feature, LearnedFeatures)
    assert type(make_attention("linear()", 8).feature).__name__ == "EluFeatures"
    assert set(ATTENTIONS) == {"softmax", "linear", "channel"}
    assert callable(make_attention("channel", 8))


@pytest.mark.parametrize(
    "expression",
    [
        "liner",
        "xyz",
        "linear(rely)",
        "linear(",
        "linear + 1",
        "__import__('os')",
        "linear(os.system)",
        "linear(relu, elu)",
        "linear(relu(3))",
        "linear(random('a'))",
        "linear(random(1, 2, 3))",
        "linear(random(width=3))",
        "linear(random(0))",
        "linear(random(-3))",
        "softmax(2)",
        "x" * 300,
        "",
    ],
)
def test_an_expression_that_means_nothing_is_refused_in_a_sentence(expression):
    with expect_error(ValueError):
        make_attention(expression, 8)
    with expect_error(ValueError):
        make_blocks(StackConfig(**SMALL, attention=expression))


@pytest.mark.parametrize("expression", LINEAR)
@pytest.mark.parametrize("run", RUNS)
def test_every_model_reads_and_learns_with_it_and_can_be_watched(run, expression):
    make, forward = RUNS[run]
    torch.manual_seed(0)
    model = make(attention=expression)
    out = forward(model)
    assert out.isfinite().all()
    out.square().mean().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
    maps = [m.weight for m in model.modules() if isinstance(m, LearnedFeatures)]
    assert bool(maps) == (expression == "linear(learned)")
    assert all(weight.grad.any() for weight in maps)
    assert len({id(weight) for weight in maps}) == len(maps)

    with torch.no_grad(), watch(model) as seen:
        again = forward(model)
    assert torch.equal(again, out)
    for layer in seen.values():
        assert layer.error() < 1e-5
        assert layer.error(rows=[0, 2]) < 1e-5
        weights = layer.weights()
        assert (weights >= -1e-7).all()
        total, reads = weights.sum(-1), weights.any(-1)
        torch.testing.assert_close(total, reads.to(total.dtype))
        torch.testing.assert_close(layer.weights(rows=[1], heads=[1]), weights[:, [1]][:, :, [1]])


def test_all_models_of_the_table_take_a_name():
    for entry in MODELS.values():
        fields = {"attention": "linear"} if issubclass(entry.config, StackConfig) else {}
        if not fields:
            continue
        model = entry.build(**SMALL, **fields)
        assert any(isinstance(module, LinearAttention) for module in model.modules())


def test_an_attention_that_is_passed_in_wins_over_the_name():
    model = GPT(GPTConfig(**SMALL, vocab_size=20, attention="linear"), attention=attend)
    assert all(block.attention.attention is attend for block in model.blocks)


@pytest.mark.parametrize("expression", LINEAR)
@pytest.mark.parametrize("lengths", [None, (2, 4, 1)], ids=["one length", "several"])
def test_writing_word_by_word_equals_one_pass(expression, lengths):
    torch.manual_seed(0)
    model = gpt(attention=expression, pos_embed="rope").double().eval()
    state = model.new_state(3)
    assert not state.lean
    assert all(isinstance(cache.attention, LinearState) for cache in state.caches)
    with torch.no_grad():
        scores = [model.decode(WORDS[:, :4], state, lengths)]
        scores += [model.decode(WORDS[:, at : at + 1], state) for at in range(4, 7)]
        for row, own in enumerate(lengths or (4, 4, 4)):
            text = torch.cat([WORDS[row, :own], WORDS[row, 4:]])[None]
            wanted = model(text)[0, own - 1 :]
            ours = torch.stack([each[row] for each in scores])
            torch.testing.assert_close(ours, wanted)


def test_beams_of_a_captioner_share_a_context_that_is_summed_once():
    model = captioner(attention="linear").double().eval()
    images = IMAGES.double()
    with torch.no_grad():
        state = model.new_state(images)
        model.decode(WORDS[:, :2], state)
        state.reorder(torch.tensor([[0, 0], [1, 1], [2, 2]]))
        more = torch.stack([WORDS[:, 2], WORDS[:, 3]], 1).reshape(6, 1)
        model.decode(more, state)
        state.reorder(torch.tensor([[1, 0], [4, 5]]))  # the second of three images is left out
        last = model.decode(WORDS[:1, 4].expand(4)[:, None], state)
        texts = torch.cat(
            [
                WORDS[[0, 0, 2, 2], :2],
                more[[1, 0, 4, 5]],
                WORDS[:1, 4].expand(4)[:, None],
            ],
            1,
        )
        wanted = model(images[[0, 2]], texts)[:, -1]
    torch.testing.assert_close(last, wanted)
    assert isinstance(state.caches[0].cross, LinearState)


def test_a_softmax_model_keeps_its_keys_and_its_fast_steps():
    model = gpt().eval()
    state = model.new_state(2)
    assert state.lean
    assert all(isinstance(cache.attention, KVCache) for cache in state.caches)
    windowed = gpt(attention="linear", mask="causal & window(3)").double().eval()
    assert all(isinstance(cache.attention, KVCache) for cache in windowed.new_caches())
    with torch.no_grad():
        state = windowed.new_state(3)
        steps = [windowed.decode(WORDS[:, at : at + 1], state) for at in range(7)]
        torch.testing.assert_close(torch.stack(steps, 1), windowed(WORDS))


def test_a_saved_model_says_all_there_is_to_say():
    first, second = (gpt(attention="linear(random(24, seed=4))") for _ in range(2))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(WORDS), second(WORDS))
    assert not any("directions" in name for name in first.state_dict())
    assert isinstance(first.blocks[0].attention.attention, nn.Module)


@pytest.mark.parametrize(
    "build",
    [
        lambda: ViT(ViTConfig(width=8, layers=1, heads=2, attention="channel", mask="window(3)")),
        lambda: MultiHeadAttention(8, 2, attention=make_attention("channel", 4), mask=window(3)),
    ],
)
def test_a_mask_is_refused_for_channels_before_anything_is_computed(build):
    with expect_error(ValueError):
        build()


@pytest.mark.parametrize("build", [gpt, captioner, seq2seq])
def test_a_model_that_writes_says_why_channels_are_not_for_it(build):
    with expect_error(ValueError) as refused:
        build(attention="channel")
    assert "leave it out" not in str(refused.value)  # nobody said it
