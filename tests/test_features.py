"""Feature maps: what their products are, and that none of them is ever negative."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from golden import expect_error
from regard.attention import (
    EluFeatures,
    FeatureMap,
    LearnedFeatures,
    RandomFeatures,
    ReluFeatures,
    TaylorFeatures,
)
from regard.attention.features import EluPlusOne, check_features, draw_directions

D = 6
MAPS = [EluFeatures(), ReluFeatures(), RandomFeatures(D, 32), TaylorFeatures(), LearnedFeatures(D)]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("feature", MAPS, ids=lambda f: type(f).__name__)
def test_no_product_of_two_features_is_negative(feature):
    q, k = feature(3 * randn(2, 50, D)), feature(3 * randn(2, 50, D).flip(0))
    assert (q @ k.mT >= 0).all()
    assert feature.signed or (q >= 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("feature", MAPS, ids=lambda f: type(f).__name__)
def test_features_are_in_float32_at_least(feature, dtype):
    x = randn(3, D).to(dtype)
    assert feature(x).dtype == torch.promote_types(dtype, torch.float32)
    torch.testing.assert_close(feature.scaled(x, 0.5), feature(x.to(feature(x).dtype) * 0.5))


def test_elu_is_torchs_plus_one_and_keeps_small_exponentials():
    x = torch.linspace(-5, 5, 101, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(EluFeatures()(x[None]), torch.nn.functional.elu(x[None]) + 1)
    assert gradcheck(lambda x: EluPlusOne.apply(x, 0.7), (x,))
    assert EluFeatures()(torch.tensor([[-50.0]])).item() == pytest.approx(math.exp(-50))


def test_taylor_features_multiply_to_the_first_terms_of_the_exponential():
    q, k = randn(7, D), randn(8, D).flip(0)
    scores = q @ k.mT
    torch.testing.assert_close(
        TaylorFeatures()(q) @ TaylorFeatures()(k).mT, 1 + scores + scores**2 / 2
    )
    assert TaylorFeatures()(q).shape[-1] == 1 + D + D * (D + 1) // 2


def test_random_features_average_to_the_exponential():
    q, k = randn(4, D) / 5, randn(5, D).flip(0) / 5
    exact = (q @ k.mT).exp()
    draws = [RandomFeatures(D, 12, seed) for seed in range(2000)]
    mean = sum(draw(q) @ draw(k).mT for draw in draws) / len(draws)
    torch.testing.assert_close(mean, exact, rtol=0.03, atol=0.0)
    many = RandomFeatures(D, 20_000)
    torch.testing.assert_close(many(q) @ many(k).mT, exact, rtol=0.03, atol=0.0)


def test_what_is_taken_out_of_random_features_cancels():
    feature, q, k = RandomFeatures(D, 12), randn(4, D), randn(5, D)
    here = torch.tensor([True, True, False, True, True])[:, None]
    mapped = feature.keys(k, 0.5, here)
    wanted = feature(k * 0.5) * math.sqrt(12) * here
    torch.testing.assert_close(mapped.values * mapped.shift.exp(), wanted)
    assert mapped.values.max() == 1
    ratio = feature.queries(q, 0.5) / feature(q * 0.5)
    torch.testing.assert_close(ratio, ratio[:, :1].expand_as(ratio))
    nothing = feature.keys(k, 0.5, torch.zeros_like(here))
    assert not nothing.values.any() and nothing.shift == -torch.inf
    assert feature.keys(k[:0], 0.5, None).values.shape == (0, 12)


def test_directions_are_orthogonal_in_blocks_and_told_by_their_seed():
    drawn = draw_directions(4, 10, seed=5)
    assert drawn.shape == (10, 4)
    for block in drawn.split(4):
        gram = block @ block.mT
        torch.testing.assert_close(gram, gram.diag().diag(), rtol=0.0, atol=1e-5)
    assert torch.equal(drawn, draw_directions(4, 10, seed=5))
    assert not torch.equal(drawn, draw_directions(4, 10, seed=6))
    lengths = draw_directions(4, 4000, seed=0).square().sum(-1)
    assert lengths.mean() == pytest.approx(4, rel=0.05)
    assert "directions" not in RandomFeatures(4, 10).state_dict()


def test_learned_features_start_as_shares_and_are_trained():
    feature, x = LearnedFeatures(D), randn(3, D)
    features = feature(x)
    torch.testing.assert_close(features.sum(-1), torch.ones(3, dtype=torch.float64))
    torch.testing.assert_close(features, torch.cat([x, -x], -1).softmax(-1))
    features[:, 0].sum().backward()
    assert feature.weight.grad.any()


def test_what_cannot_be_a_feature_map_is_refused():
    with expect_error(ValueError):
        RandomFeatures(4, 0)
    with expect_error(ValueError):
        RandomFeatures(4)(randn(2, D))
    with expect_error(ValueError):
        check_features(EluFeatures(), torch.tensor([1.0, -2.0]))
    with expect_error(ValueError):
        check_features(EluFeatures(), torch.tensor([1.0, torch.nan]))
    check_features(TaylorFeatures(), torch.tensor([-2.0]))
    with pytest.raises(NotImplementedError):
        FeatureMap()(randn(1, 2))
