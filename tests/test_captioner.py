"""The captioner: one pass or many give one answer, padding is nowhere, texts share their image."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from golden import expect_error
from regard.attention import attend, causal, watch
from regard.config import build, to_values
from regard.errors import FieldError
from regard.models import MODELS, Captioner, CaptionerConfig, ViT, ViTConfig
from strategies import chunkings, examples
from test_torch_oracles import DTYPES, Twins, assert_same, leaf, scrambled

B, N, M, W = 3, 7, 5, 11  # images, words of a text, places of an image, vocabulary
EXACT = {"rtol": 0.0, "atol": 1e-10}
EYES = ViTConfig(width=8, layers=1, heads=2, image_size=8, patch_size=4, channels=1, pool="mean")


def made(**fields) -> Captioner:
    """A small model over features, with every number drawn anew."""
    fields = {"width": 12, "layers": 2, "heads": 2, "vocab_size": W, "encoder_width": 6} | fields
    return scrambled(Captioner(CaptionerConfig(**fields)), torch.float64)


def features(rows: int = B) -> Tensor:
    return torch.randn(rows, M, 6, dtype=torch.float64)


def texts(rows: int = B, n: int = N) -> Tensor:
    return torch.randint(W, (rows, n))


LLAMA = {
    "pos_embed": "rope",
    "tie_embeddings": False,
    "norm": "rmsnorm",
    "activation": "swiglu",
    "bias": False,
}
KINDS = [
    {},
    {
        "norm_first": False,
        "init": "xavier_uniform",
        "pos_embed": "sinusoidal",
        "scale_embeddings": True,
    },
    LLAMA,
    {"pos_embed": "none", "kv_heads": 1},
    {"mask": "causal & window(3)", "pos_embed": "rope"},
]
IDS = ["gpt", "2017", "llama", "grouped", "window"]


@pytest.mark.parametrize("fields", KINDS, ids=IDS)
@given(st.data())
@examples(15)
def test_any_chunking_through_the_caches_equals_the_one_shot_pass(fields, data):
    model, context, words = made(**fields), features(), texts()
    once = model(context, words)
    caches = model.new_caches()
    for chunk in data.draw(chunkings(N)):
        said = data.draw(st.booleans())
        out = model.next_token_logits(
            words[:, chunk],
            context,
            positions=torch.tensor(chunk) if said else chunk,
            caches=caches,
        )
        torch.testing.assert_close(out, once[:, chunk], **EXACT)


@pytest.mark.parametrize("fields", KINDS, ids=IDS)
def test_the_pass_is_that_of_the_plain_blocks(fields):
    model, context, words = made(**fields), features(), texts()
    plain = Captioner(model.config, attention=attend).double().eval()
    plain.load_state_dict(model.state_dict())
    x = plain.pos_embed.embed(plain.token_embedding(words), range(N))
    for block in plain.blocks:
        x = block(x, context, positions=range(N))
    x = plain.norm(x)
    table = plain.token_embedding.weight if plain.lm_head is None else plain.lm_head.weight
    torch.testing.assert_close(model(context, words), x @ table.T, **EXACT)


@pytest.mark.parametrize("fields", KINDS, ids=IDS)
def test_padding_is_nowhere_wherever_it_stands(fields):
    model, context, words = made(**fields), features(1), texts(1, 4)
    alone = model(context, words)
    for at in ([0, 1, 2, 3], [3, 4, 5, 6], [0, 2, 5, 6]):
        padded, positions = texts(1), torch.full((1, N), -1)
        padded[:, at], positions[:, at] = words, torch.arange(4)
        out = model(context, padded, positions=positions)
        torch.testing.assert_close(out[:, at], alone, **EXACT)


def test_padded_places_of_an_image_are_not_read():
    model, words = made(), texts(2)
    context = features(2)
    where = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, -1, -1]])
    right = model(context[1:, :3], words[1:])
    context[1, 3:] = torch.nan
    out = model(context, words, context_positions=where)
    torch.testing.assert_close(out[1:], right, **EXACT)
    torch.testing.assert_close(out[:1], model(context[:1], words[:1]), **EXACT)


@pytest.mark.parametrize("padded", [False, True], ids="padded={}".format)
def test_several_texts_about_one_image_read_it_as_each_would_alone(padded):
    model, context, words = made(pos_embed="rope"), features(), texts(2 * B)
    positions = None
    if padded:
        positions = torch.arange(N).expand(2 * B, -1).clone()
        positions[torch.arange(N) >= torch.randint(1, N, (2 * B, 1))] = -1
    out = model(context, words, positions=positions)
    right = model(context.repeat_interleave(2, 0), words, positions=positions)
    here = torch.ones(2 * B, N, dtype=bool) if positions is None else positions >= 0
    torch.testing.assert_close(out[here], right[here], **EXACT)
    with expect_error(ValueError):
        model(context, texts(7))


def test_a_word_that_is_nowhere_looks_nowhere_also_beside_other_texts():
    model, context, words = made(), features(), texts(2 * B)
    positions = torch.arange(N).expand(2 * B, -1).clone()
    positions[1, 3:] = -1
    with watch(model, "blocks.0.cross") as seen:
        model(context, words, positions=positions)
    weights = seen["blocks.0.cross"].weights().unflatten(-2, (2, N))  # b h k n m
    assert not weights[0, :, 1, 3:].any()
    assert (weights.sum(-1) > 0).sum() == (positions >= 0).sum() * 2


def test_gradients_through_shared_images_are_those_of_repeated_ones():
    model, words = made(), texts(2 * B)
    context = features().requires_grad_()
    up = torch.randn(2 * B, N, W, dtype=torch.float64)
    slopes = [
        torch.autograd.grad((model(c, words) * up).sum(), [context, *model.parameters()])
        for c in (context, context.repeat_interleave(2, 0))
    ]
    for a, b in zip(*slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("fields", KINDS, ids=IDS)
def test_steps_follow_a_reordering_and_the_loss_of_an_image(fields):
    model, context = made(**fields), features()
    state = model.new_state(context)
    first = texts(n=3)
    model.decode(first, state)
    rows = torch.tensor([[0, 0], [1, 1], [2, 2]])
    state.reorder(rows)
    assert len(state) == 6
    second = texts(6, 1)
    written = torch.cat([first[rows.flatten()], second], 1)
    out = model.decode(second, state)
    right = model(context.repeat_interleave(2, 0), written)[:, -1]
    torch.testing.assert_close(out, right, **EXACT)

    rows = torch.tensor([[1, 0], [5, 5]])  # the image in the middle leaves
    state.reorder(rows)
    third = texts(4, 1)
    written = torch.cat([written[rows.flatten()], third], 1)
    out = model.decode(third, state)
    right = model(context[[0, 0, 2, 2]], written)[:, -1]
    torch.testing.assert_close(out, right, **EXACT)


def test_padded_places_leave_with_their_image():
    model, context = made(), features()
    where = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 2, 3, -1], [0, -1, -1, -1, -1]])
    words = texts(n=2)
    for first in (0, 2):  # words written before the image in the middle leaves
        state = model.new_state(context, where)
        if first:
            model.decode(words, state)
        state.reorder(torch.tensor([[0], [2]]))
        more = texts(2, 1)
        out = model.decode(more, state)
        written = torch.cat([words[[0, 2], :first], more], 1)
        right = model(context[[0, 2]], written, context_positions=where[[0, 2]])[:, -1]
        torch.testing.assert_close(out, right, **EXACT)


def test_the_keys_of_an_image_are_computed_once_and_not_copied():
    model, context = made(), features()
    state = model.new_state(context)
    model.decode(texts(n=1), state)
    kept = state.caches[0].cross.kept.k
    state.reorder(torch.arange(B)[:, None].expand(-1, 4))
    model.decode(texts(4 * B, 1), state)
    assert state.caches[0].cross.kept.k is kept and len(kept) == B
    assert len(state.caches[0].attention.kept.k) == 4 * B


@pytest.mark.parametrize("cached", [False, True], ids="cached={}".format)
def test_watching_names_the_layers_and_changes_nothing(cached):
    model, context, words = made(), features(), texts()

    def run() -> Tensor:
        if not cached:
            return model(context, words)
        caches = model.new_caches()
        parts = [
            model.next_token_logits(
                words[:, at : at + 1], context, positions=range(at, at + 1), caches=caches
            )
            for at in range(N)
        ]
        return torch.cat(parts, 1)

    plain = run()
    with watch(model) as seen:
        assert torch.equal(run(), plain)
    names = [f"blocks.{i}.{part}" for i in range(2) for part in ("attention", "cross")]
    assert sorted(seen) == names
    for name in names:
        for call in seen.calls(name):
            assert call.error() < 1e-12
    weights = torch.cat([call.weights() for call in seen.calls("blocks.1.cross")], -2)
    assert weights.shape == (B, 2, N, M)


def test_an_encoder_is_a_value_and_keeps_its_weights():
    eyes = ViT(EYES)
    before = {name: w.clone() for name, w in eyes.state_dict().items()}
    config = CaptionerConfig(width=12, layers=1, heads=2, vocab_size=W, encoder_width=8)
    images, words = torch.randn(2, 1, 8, 8), texts(2)
    model = Captioner(config, encoder=eyes).eval()
    assert all(torch.equal(w, before[name]) for name, w in eyes.state_dict().items())
    seen = eyes.features(images)
    assert torch.equal(model(images, words), model(seen, words))

    # Any call that gives features will do, here patches as they are.
    plain = Captioner(config, encoder=nn.Sequential(nn.Unflatten(1, (1, 1)), nn.Flatten(1, 3)))
    assert plain.encode(images).shape == (2, 8, 8)

    own = Captioner(CaptionerConfig(width=12, layers=1, heads=2, vocab_size=W, encoder=EYES))
    assert own.encode(images).shape == (2, 4, 8)
    assert not any("head" in name.split(".") for name, _ in own.named_parameters())


def test_wrong_inputs_are_refused_in_a_sentence():
    config = CaptionerConfig(width=12, layers=1, heads=2, vocab_size=W)
    with expect_error(ValueError):
        Captioner(config, encoder=ViT(EYES))
    model = made()
    with expect_error(ValueError):
        model.encode(torch.randn(2, 1, 8, 8))
    with expect_error(ValueError):
        model.encode(torch.randn(2, 5, 7))
    with expect_error(ValueError):
        model.next_token_logits(texts(), features(), caches=model.new_caches())
    with expect_error(ValueError):
        made(mask="window(3)")


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"vocab_size": 1}, "vocab_size"),
        ({"context_length": 0}, "context_length"),
        ({"pos_embed": "rope", "width": 9, "heads": 3}, "pos_embed"),
        ({"pos_embed": "sinusoidal", "width": 9, "heads": 3}, "pos_embed"),
        ({"encoder_width": 0}, "encoder_width"),
    ],
    ids=str,
)
def test_contradicting_fields_are_named_together(fields, name):
    with expect_error(FieldError, field=name):
        CaptionerConfig(**fields)


@pytest.mark.parametrize("fields", [{}, {"encoder_width": 9}, {"encoder": EYES}], ids=str)
def test_a_configuration_survives_being_written_down(fields):
    config = CaptionerConfig(width=16, heads=2, **fields)
    assert build(CaptionerConfig, to_values(config)) == config
    assert dataclasses.replace(config) == config


def test_the_table_builds_one_that_learns_in_all_its_parts():
    model = MODELS["captioner"].build(width=16, layers=2, heads=2, vocab_size=W)
    images = torch.randn(2, 3, 32, 32)
    model(images, texts(4)).logsumexp(-1).sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())


# transformers' GPT-2 with cross-attention


def gpt2(
    dtype: torch.dtype = torch.float32, *, width: int = 12, words: int = W, std: float = 0.3, **more
) -> tuple[Captioner, nn.Module, Twins]:
    """Theirs, drawn at random, and ours with its weights; features are as wide as the model."""
    transformers = pytest.importorskip("transformers")
    options = {"layers": 2, "heads": 2, "mlp_width": 20, "context_length": 32} | more
    theirs = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=words,
            n_positions=options["context_length"],
            n_embd=width,
            n_layer=options["layers"],
            n_head=options["heads"],
            n_inner=options["mlp_width"],
            activation_function="gelu_new",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            add_cross_attention=True,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        )
    )
    if std:
        theirs = scrambled(theirs, dtype)
    theirs = theirs.to(dtype).eval()
    config = CaptionerConfig(
        width=width, vocab_size=words, activation="gelu_tanh", encoder_width=width, **options
    )
    ours, twins = Captioner(config).to(dtype).eval(), Twins()

    def conv(mine: nn.Linear, their: nn.Module, part=lambda w: w) -> None:
        """Their Conv1D is a linear layer lying on its side."""
        twins.tie(mine.weight, their.weight, lambda w: part(w.T))
        twins.tie(mine.bias, their.bias, part)

    body = theirs.transformer
    twins.tie(ours.token_embedding.weight, body.wte.weight)
    twins.tie(ours.pos_embed.table, body.wpe.weight)
    for mine, their in zip(ours.blocks, body.h, strict=True):
        for i, layer in enumerate((mine.attention.to_q, mine.attention.to_k, mine.attention.to_v)):
            conv(layer, their.attn.c_attn, lambda w, i=i: w.chunk(3)[i])
        conv(mine.attention.to_out, their.attn.c_proj)
        twins.layer(mine.attention_norm, their.ln_1)
        conv(mine.cross.to_q, their.crossattention.q_attn)
        for i, layer in enumerate((mine.cross.to_k, mine.cross.to_v)):
            conv(layer, their.crossattention.c_attn, lambda w, i=i: w.chunk(2)[i])
        conv(mine.cross.to_out, their.crossattention.c_proj)
        twins.layer(mine.cross_norm, their.ln_cross_attn)
        conv(mine.mlp.fc1, their.mlp.c_fc)
        conv(mine.mlp.fc2, their.mlp.c_proj)
        twins.layer(mine.mlp_norm, their.ln_2)
    twins.layer(ours.norm, body.ln_f)
    return ours, theirs, twins


@DTYPES
def test_logits_and_gradients_are_those_of_gpt2_with_cross_attention(dtype):
    ours, theirs, twins = gpt2(dtype)
    context, words = leaf(B, M, 12, dtype=dtype), texts()
    right = theirs(words, encoder_hidden_states=context).logits
    twins.agree(ours, ours(context, words), right, [context])


@DTYPES
def test_padding_on_the_left_is_nowhere_as_in_gpt2(dtype):
    ours, theirs, _ = gpt2(dtype)
    context, words = leaf(B, M, 12, dtype=dtype), texts()
    real = torch.arange(N) >= torch.tensor([[2], [0], [5]])
    where = real.long().cumsum(-1) - 1
    right = theirs(
        words,
        encoder_hidden_states=context,
        attention_mask=real.long(),
        position_ids=where.clamp(min=0),
    ).logits
    where = torch.where(real, where, -1)
    assert_same(ours(context, words, positions=where)[real], right[real])


def test_the_default_mask_is_causal():
    assert made().mask == causal
