"""How an image becomes tokens and a token becomes scores: the ViT's stems and heads."""

import math
import tomllib

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from golden import expect_error
from regard.config import build, change, to_toml
from regard.errors import ConfigError, FieldError
from regard.models import PatchEmbed, ViT, ViTConfig
from regard.models.layers import ConvStem, init_weights, make_head

SMALL = {"width": 16, "layers": 2, "heads": 2, "image_size": 16}


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    "fields",
    [
        {"patch_size": 8, "patch_norm": True, "pool": "mean"},
        {"patch_size": 4, "bias": False, "head_hidden": (64, 64)},
    ],
    ids=["a", "c"],
)
def test_two_layouts_have_the_140_618_parameters_of_the_coursework(fields):
    model = ViT(ViTConfig(image_size=32, width=64, layers=5, heads=4, mlp_width=64, **fields))
    assert count(model) == 140_618
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_without_biases_the_patches_and_the_head_keep_theirs():
    model = ViT(ViTConfig(**SMALL, bias=False, head_hidden=(8,)))
    linear = {n: m for n, m in model.named_modules() if isinstance(m, nn.Linear)}
    biased = {name for name, layer in linear.items() if layer.bias is not None}
    assert biased == {"patches.project", "head.0", "head.2"}


@pytest.mark.parametrize("patch", [1, 2, 3, 4, 5, 6, 7, 8, 14, 16])
def test_convolutions_end_on_the_grid_that_patches_would(patch):
    cut, folded = PatchEmbed(patch, 3, 8), ConvStem(patch, 3, 8)
    for rows, columns in ((1, 1), (2, 3), (5, 2)):
        images = torch.randn(2, 3, rows * patch, columns * patch)
        assert cut(images).shape == folded(images).shape == (2, rows * columns, 8)
    assert sum(isinstance(part, nn.Conv2d) for part in folded.modules()) <= 2


@pytest.mark.parametrize("patch", [2, 4, 6, 8])
def test_a_convolved_token_is_what_the_sums_written_out_say(patch):
    torch.manual_seed(0)
    stem = ConvStem(patch, 3, 8).double()
    images = torch.randn(2, 3, 3 * patch, 2 * patch, dtype=torch.float64)
    seen = convolve(images, stem.conv)
    centred = seen - seen.mean(1, keepdim=True)
    seen = centred / (seen.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    hidden = seen * (1 + torch.erf(seen / math.sqrt(2))) / 2
    tokens = convolve(hidden, stem.project)
    for row in range(3):
        for column in range(2):
            torch.testing.assert_close(stem(images)[:, 2 * row + column], tokens[..., row, column])


@pytest.mark.parametrize("patch", [1, 2, 3, 4, 8])
def test_a_convolved_token_sees_all_of_its_own_place_and_nothing_far_away(patch):
    torch.manual_seed(0)
    stem = ConvStem(patch, 3, 8).double()
    side = 7 * patch
    images = torch.randn(1, 3, side, side, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(stem(images)[0, 3 * 7 + 3].sum(), images)
    read = (grad != 0).any(1)[0]
    assert read[3 * patch : 4 * patch, 3 * patch : 4 * patch].all()
    rows = read.any(1).nonzero()
    assert rows.min() >= 3 * patch - 3 and rows.max() <= 4 * patch + 2


def test_an_image_does_not_change_with_its_neighbours_in_the_batch():
    stem, images = ConvStem(4, 3, 8).double(), torch.randn(5, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(stem(images)[2:3], stem(images[2:3]))


@pytest.mark.parametrize("place", ["learned", "sinusoidal", "rope", "none"])
def test_a_convolved_vit_reads_images_of_other_sizes(place):
    model = ViT(ViTConfig(**SMALL, stem="conv", pos_embed=place))
    assert model.features(torch.randn(2, 3, 24, 20)).shape == (2, 30 + 1, 16)
    with expect_error(ValueError):
        model(torch.randn(1, 3, 24, 18))


def test_normalised_patches_are_each_a_layer_norm_of_their_own_pixels():
    patches = PatchEmbed(4, 3, 8, normalise=True).double()
    nn.init.normal_(patches.norm.weight)
    nn.init.normal_(patches.norm.bias)
    images = torch.randn(2, 3, 8, 12, dtype=torch.float64)
    corner = images[:, :, 4:8, 8:12].flatten(1)  # the last patch, by hand
    centred = corner - corner.mean(1, keepdim=True)
    normal = centred / (corner.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    wanted = patches.project(normal * patches.norm.weight + patches.norm.bias)
    torch.testing.assert_close(patches(images)[:, -1], wanted)


def test_normalised_patches_do_not_see_brightness_or_contrast():
    images = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    for normalise in (True, False):
        config = ViTConfig(**SMALL, patch_norm=normalise, norm_eps=1e-12)
        model = ViT(config).double()
        same = torch.allclose(model(images), model(3 * images + 0.5), atol=1e-9)
        assert same is normalise


def test_a_head_of_no_hidden_widths_is_one_linear_layer_under_its_old_name():
    weights = ViT(ViTConfig(**SMALL)).state_dict()
    assert weights["head.weight"].shape == (10, 16) and weights["head.bias"].shape == (10,)
    assert not [name for name in weights if name.startswith("patches.norm")]


def test_a_head_bends_between_its_layers_and_not_after_the_last():
    head, x = make_head(6, (5, 4), 3), torch.randn(7, 6)
    first, _, second, _, last = head
    torch.testing.assert_close(head(x), last(F.gelu(second(F.gelu(first(x))))))
    assert [layer.out_features for layer in (first, second, last)] == [5, 4, 3]


@pytest.mark.parametrize(
    "fields",
    [{"stem": "conv"}, {"patch_norm": True}, {"head_hidden": (12, 8)}],
    ids=str,
)
def test_every_weight_of_a_stem_and_a_head_learns(fields):
    torch.manual_seed(0)
    model = ViT(ViTConfig(**SMALL, **fields))
    model(torch.randn(3, 3, 16, 16)).logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        if name.startswith(("patches", "head")):
            assert parameter.grad is not None and (parameter.grad != 0).any(), name


@pytest.mark.parametrize("how", ["trunc_normal", "xavier_uniform"])
def test_convolutions_get_first_weights_like_linear_layers(how):
    torch.manual_seed(0)
    stem = ConvStem(4, 3, 128)
    init_weights(stem, how, layers=5)
    for conv in (stem.conv, stem.project):
        fans = 9 * (conv.in_channels + 64 * (1 if conv is stem.conv else 2))
        wanted = 0.02 * 0.88 if how == "trunc_normal" else math.sqrt(2 / fans)
        assert float(conv.weight.detach().std()) == pytest.approx(wanted, rel=0.05)
        assert not conv.bias.any()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"stem": "conv", "patch_norm": True}, "patch_norm"),
        ({"head_hidden": (64, 0)}, "head_hidden"),
    ],
    ids=str,
)
def test_contradicting_stems_and_heads_are_refused_in_a_sentence(fields, name):
    with expect_error(FieldError, field=name):
        ViTConfig(**fields)


def test_stems_and_heads_of_the_wrong_kind_are_named(in_a_plain_process):
    in_a_plain_process(
        """
from regard import ViTConfig
for fields, words in [
    ({"stem": "convolution"}, "stem='convolution' is not one of 'patch', 'conv'; did you mean"),
    ({"head_hidden": 64}, "head_hidden=64 is not of the kind tuple"),
    ({"head_hidden": (64.0,)}, "head_hidden=(64.0,): hidden widths are whole numbers"),
    ({"head_hidden": (True,)}, "head_hidden=(True,): hidden widths are whole numbers"),
    ({"patch_norm": 1}, "patch_norm=1 is not of the kind bool"),
]:
    try:
        ViTConfig(**fields)
    except (ValueError, TypeError) as trouble:
        assert words in str(trouble), (words, trouble)
    else:
        raise AssertionError(fields)
"""
    )


@pytest.mark.parametrize("head", [(), (64,), (64, 32)], ids=str)
def test_a_head_survives_the_file(head):
    config = ViTConfig(stem="conv", head_hidden=head)
    text = to_toml(config)
    assert f"head_hidden = {list(head)}" in text
    assert build(ViTConfig, tomllib.loads(text)) == config


def test_a_head_is_changed_by_name_and_a_word_in_it_refused():
    assert change(ViTConfig(), {"head_hidden": [64, 64]}).head_hidden == (64, 64)
    with expect_error(ConfigError, key="head_hidden[1]"):
        change(ViTConfig(), {"head_hidden": [64, "wide"]})


def convolve(images: torch.Tensor, conv: nn.Conv2d) -> torch.Tensor:
    """What a convolution with one row of zeros around the image means, place by place."""
    kernel, stride = conv.kernel_size[0], conv.stride[0]
    padded = F.pad(images, (1, 1, 1, 1))
    windows = padded.unfold(2, kernel, stride).unfold(3, kernel, stride)  # b k y x kernel kernel
    return torch.einsum("bkyxij,okij->boyx", windows, conv.weight) + conv.bias[:, None, None]
