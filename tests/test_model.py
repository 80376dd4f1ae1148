"""Blocks, configurations and the ViT: each contradiction named, each part doing what it says."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from golden import expect_error
from regard.attention import MultiHeadAttention, attend
from regard.errors import FieldError
from regard.models import (
    MLP,
    MODELS,
    Block,
    PatchEmbed,
    TokenBatch,
    TokenEmbedding,
    ViT,
    ViTConfig,
)
from regard.models.layers import DropPath, init_weights


def inputs_of(name: str) -> tuple[torch.Tensor | TokenBatch, ...]:
    """What a model of the table is called with."""
    images, words = torch.randn(3, 3, 32, 32), torch.randint(0, 9, (3, 5))
    known = {"captioner": (images, words), "seq2seq": (TokenBatch(words), words)}
    return known.get(name, (images,) if name in ("vit", "davit") else (words,))


SMALL = {"davit": {"widths": (8, 16), "depths": (1, 1), "heads": (2, 2)}}  # others: as below


@pytest.mark.parametrize("name", MODELS)
def test_every_model_of_the_table_builds_runs_learns_and_loads_its_own_weights(name):
    entry = MODELS[name]
    fields = SMALL.get(name, {"width": 16, "layers": 2, "heads": 2})
    model = entry.build(**fields)
    assert dataclasses.replace(model.config) == model.config
    assert dataclasses.fields(entry.config) and entry.config.__dataclass_params__.frozen
    given = inputs_of(name)
    logits = model(*given)
    logits.logsumexp(-1).sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
    twin = entry.build(**fields)
    assert not torch.equal(twin(*given), logits)
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(*given), logits)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"width": 100, "heads": 6}, "width"),
        ({"heads": 4, "kv_heads": 3}, "kv_heads"),
        ({"image_size": 30, "patch_size": 4}, "image_size"),
        ({"image_size": 2, "patch_size": 4}, "image_size"),
        ({"pos_embed": "rope", "width": 12, "heads": 2}, "pos_embed"),
        ({"pos_embed": "sinusoidal", "width": 6, "heads": 1}, "pos_embed"),
        ({"dropout": 1.0}, "dropout"),
        ({"drop_path": -0.1}, "drop_path"),
        ({"layers": 0}, "layers"),
        ({"num_classes": 0}, "num_classes"),
        ({"mlp_width": 0}, "mlp_width"),
        ({"patch_size": 0}, "patch_size"),
        ({"norm_eps": -1.0}, "norm_eps"),
    ],
    ids=str,
)
def test_contradicting_fields_are_named_together(fields, name):
    with expect_error(FieldError, field=name):
        ViTConfig(**fields)


def test_values_of_the_wrong_kind_name_the_field_and_the_nearest_choice(in_a_plain_process):
    in_a_plain_process(
        """
from regard import ViTConfig
for fields, words in [
    ({"pool": "clas"}, "pool='clas' is not one of 'cls', 'mean'; did you mean 'cls'?"),
    ({"pos_embed": "rotary"}, "pos_embed='rotary' is not one of"),
    ({"init": "xavier"}, "init='xavier' is not one of"),
    ({"width": 64.0}, "width=64.0 is not of the kind int"),
    ({"heads": True}, "heads=True is not of the kind int"),
    ({"image_size": (32, 32)}, "image_size=(32, 32) is not of the kind int"),
    ({"mask": 3}, "mask=3 is not of the kind str or NoneType"),
]:
    try:
        ViTConfig(**fields)
    except (ValueError, TypeError) as trouble:
        assert words in str(trouble), (words, trouble)
    else:
        raise AssertionError(fields)
"""
    )


def test_a_mask_on_another_grid_than_the_image_is_refused_with_both():
    with expect_error(ValueError):
        ViT(ViTConfig(mask="axial((3, 3)) | global_tokens(1)"))


def test_what_is_no_batch_of_images_is_refused_in_a_sentence(in_a_plain_process):
    in_a_plain_process(
        """
import torch
from regard import MultiHeadAttention, ViT, ViTConfig, rope
model = ViT(ViTConfig(width=16, heads=2, layers=1))
for act, words in [
    (lambda: model(torch.zeros(3, 32, 32)), "images have 3 axes, (3, 32, 32); a batch has 4"),
    (lambda: model(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)), "images hold torch.uint8"),
    (
        lambda: MultiHeadAttention(12, 3)(torch.zeros(1, 4, 10)),
        "x is 10 wide and this layer reads 12",
    ),
    (lambda: MultiHeadAttention(12, 0), "heads=0"),
    (lambda: MultiHeadAttention(12, 3, pos_embed=rope), "pos_embed is an instance such as rope()"),
    (lambda: MultiHeadAttention(12, 3, mask="causal"), "Mask.parse('causal')"),
    (lambda: MultiHeadAttention(12, 3, attention="fused"), "attention is a function"),
]:
    try:
        act()
    except (ValueError, TypeError) as trouble:
        assert words in str(trouble), (words, trouble)
    else:
        raise AssertionError(words)
"""
    )


def test_a_model_in_half_precision_reads_images_of_other_sizes():
    model = ViT(ViTConfig(width=16, heads=2, layers=1, image_size=16)).bfloat16()
    assert torch.isfinite(model(torch.randn(1, 3, 24, 24).bfloat16())).all()


def test_heads_that_do_not_split_the_width_name_the_nearest_widths():
    with expect_error(ValueError):
        MultiHeadAttention(100, 6)
    with expect_error(ValueError):
        MultiHeadAttention(60, 6, kv_heads=4)


def test_parameters_of_the_small_vit_follow_the_closed_form():
    config = ViTConfig(
        width=64, layers=5, heads=4, image_size=32, patch_size=4, num_classes=10, mlp_width=128
    )
    c, f, tokens = 64, 128, 65
    block = 4 * (c * c + c) + (c * f + f) + (f * c + c) + 2 * 2 * c
    want = (48 * c + c) + c + tokens * c + 5 * block + 2 * c + (c * 10 + 10)
    assert sum(p.numel() for p in ViT(config).parameters()) == want == 175498


def test_patches_are_a_convolution_with_kernel_and_stride_of_one_patch():
    patches, conv = PatchEmbed(4, 3, 8), nn.Conv2d(3, 8, 4, 4)
    conv.weight.data = patches.project.weight.data.reshape(8, 3, 4, 4)
    conv.bias.data = patches.project.bias.data
    images = torch.randn(2, 3, 8, 12)
    torch.testing.assert_close(patches(images), conv(images).flatten(2).mT)
    with expect_error(ValueError):
        patches(torch.randn(2, 3, 9, 12))


@pytest.mark.parametrize("place", ["learned", "sinusoidal", "rope", "none"])
@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_a_vit_reads_images_of_other_sizes(place, pool):
    fields = {
        "width": 16,
        "layers": 2,
        "heads": 2,
        "image_size": 16,
        "mask": "neighborhood(1, (4, 4))",
    }
    model = ViT(ViTConfig(pos_embed=place, pool=pool, **fields))
    extra = pool == "cls"
    assert model.features(torch.randn(2, 3, 24, 20)).shape == (2, 30 + extra, 16)
    other = ViT(ViTConfig(pos_embed=place, pool=pool, **{**fields, "mask": None}))
    other.load_state_dict(model.state_dict())
    images = torch.randn(2, 3, 24, 20)
    assert not torch.allclose(model(images), other(images))  # the mask moved to the new grid


def test_a_vit_without_positions_does_not_see_the_order_of_its_patches():
    for place, blind in (("none", True), ("learned", False)):
        model = ViT(ViTConfig(width=16, layers=2, heads=2, image_size=8, pos_embed=place)).double()
        images = torch.randn(1, 3, 8, 8, dtype=torch.float64)
        same = torch.allclose(model(images), model(images.roll(4, -1)), atol=1e-12)
        assert same is blind


def test_images_with_the_wrong_number_of_channels_are_refused_with_both_numbers():
    with expect_error(ValueError):
        ViT(ViTConfig(width=16, heads=2))(torch.zeros(1, 1, 32, 32))


def test_plain_and_fused_attention_give_the_same_vit():
    config = ViTConfig(width=16, layers=2, heads=2, kv_heads=1, activation="swiglu", norm="rmsnorm")
    fused, plain = ViT(config).double(), ViT(config, attention=attend).double()
    plain.load_state_dict(fused.state_dict())
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(fused(images), plain(images), atol=1e-12, rtol=0)


def test_stochastic_depth_skips_whole_samples_and_keeps_the_mean():
    layer = DropPath(0.25)
    out = layer(torch.ones(40_000, 3))
    assert sorted(out.unique().tolist()) == pytest.approx([0.0, 1 / 0.75])
    assert (out == out[:, :1]).all()
    assert abs(float(out.mean()) - 1) < 0.01
    assert torch.equal(layer.eval()(out), out)


def test_depth_of_stochastic_depth_grows_from_none_at_the_first_block():
    model = ViT(ViTConfig(width=16, heads=2, layers=4, drop_path=0.3))
    shares = [block.drop_path.drop_prob for block in model.blocks]
    assert shares == pytest.approx([0, 0.1, 0.2, 0.3])


def test_dropout_acts_in_training_only_and_never_on_attention_weights():
    model = ViT(ViTConfig(width=16, heads=2, layers=1, dropout=0.5))
    images = torch.randn(2, 3, 32, 32)
    assert not torch.equal(model.train()(images), model(images))
    assert torch.equal(model.eval()(images), model(images))
    assert not [m for m in model.blocks[0].attention.modules() if isinstance(m, nn.Dropout)]


def test_first_weights_of_2017_are_xavier_and_modern_ones_shrink_with_depth():
    def deviation(how: str, layers: int) -> tuple[float, float]:
        layer = nn.ModuleDict({"to_q": nn.Linear(256, 256), "to_out": nn.Linear(256, 256)})
        init_weights(layer, how, layers)
        assert not layer["to_q"].bias.any()
        return tuple(float(m.weight.detach().std()) for m in layer.values())

    xavier = math.sqrt(2 / 512)
    assert deviation("xavier_uniform", 8) == pytest.approx((xavier, xavier), rel=0.05)
    cut = 0.02 * 0.88  # cutting a normal at two deviations narrows it to 0.88
    assert deviation("trunc_normal", 8) == pytest.approx((cut, cut / 4), rel=0.05)


def test_tokens_of_2017_are_scaled_by_the_root_of_the_width():
    words = torch.tensor([[1, 3]])
    plain, scaled = TokenEmbedding(5, 16), TokenEmbedding(5, 16, scaled=True)
    scaled.load_state_dict(plain.state_dict())
    torch.testing.assert_close(scaled(words), 4 * plain(words))


def test_a_block_that_reads_a_context_says_so_when_it_gets_none():
    block = Block(
        MultiHeadAttention(8, 2),
        MLP(8, 16),
        cross=MultiHeadAttention(8, 2),
        norm=lambda: nn.LayerNorm(8),
    )
    with expect_error(ValueError):
        block(torch.zeros(1, 3, 8))
    with pytest.raises((ValueError, TypeError), match="mid"):
        Block(MultiHeadAttention(8, 2), MLP(8, 16), norm=lambda: nn.LayerNorm(8), norm_first="mid")
