"""Every position scheme against its formula, and all of them about the same positions."""

import math

import pytest
import torch
from torch.nn.functional import interpolate

from golden import expect_error
from regard.attention import (
    MultiHeadAttention,
    PositionalEncoding,
    alibi,
    learned,
    learned_2d,
    relative_bias,
    rope,
    rope_2d,
    sinusoidal,
    sinusoidal_2d,
)

SCHEMES = {
    "none": lambda: PositionalEncoding(),
    "sinusoidal": lambda: sinusoidal(16),
    "sinusoidal_2d": lambda: sinusoidal_2d((3, 4), 16),
    "learned": lambda: learned(20, 16),
    "learned_2d": lambda: learned_2d((3, 4), 16, extra=2),
    "rope": lambda: rope(),
    "rotary_2d": lambda: rope_2d((3, 4)),
    "alibi": lambda: alibi(2),
    "relative_bias": lambda: relative_bias(2, reach=5),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_range_and_the_tensor_that_spells_it_are_the_same_place(name):
    place, span = SCHEMES[name](), range(2, 9)
    x, q, k = torch.randn(1, 7, 16), torch.randn(1, 2, 7, 8), torch.randn(1, 2, 7, 8)
    tensor = torch.arange(2, 9)
    torch.testing.assert_close(place.embed(x, span), place.embed(x, tensor))
    torch.testing.assert_close(place.embed(x, span), place.embed(x, tensor[None]))
    for a, b in zip(
        place.rotate(q, k, span, span), place.rotate(q, k, tensor, tensor), strict=True
    ):
        torch.testing.assert_close(a, b)
    for a, b in zip(
        place.rotate(q, k, span, span), place.rotate(q, k, tensor[None], tensor[None]), strict=True
    ):
        torch.testing.assert_close(a, b)
    ours, same = place.bias(span, range(12)), place.bias(tensor, torch.arange(12))
    batched = place.bias(tensor[None], torch.arange(12)[None])
    if ours is None:
        assert same is None and batched is None
    else:
        assert ours.shape == (2, 7, 12) and batched.shape == (1, 2, 7, 12)
        torch.testing.assert_close(ours, same)
        torch.testing.assert_close(ours, batched[0])


@pytest.mark.parametrize("name", SCHEMES)
def test_a_token_that_is_nowhere_is_left_finite_and_unmoved(name):
    place, where = SCHEMES[name](), torch.tensor([-1, 0, 3, -1])
    x = torch.randn(4, 16)
    assert torch.equal(place.embed(x, where)[[0, 3]], x[[0, 3]])
    q = torch.randn(2, 4, 8)
    for turned in place.rotate(q, q, where, where):
        assert torch.isfinite(turned).all()
    bias = place.bias(where, where)
    assert bias is None or torch.isfinite(bias).all()


def test_sinusoidal_positions_follow_the_formula_of_2017_at_any_length():
    codes = sinusoidal(6).embed(
        torch.zeros(1, 3, 6, dtype=torch.float64), torch.tensor([0, 7, 10**6])
    )
    for row, pos in enumerate([0, 7, 10**6]):
        for i in range(3):
            angle = pos / 10_000 ** (2 * i / 6)
            assert math.isclose(codes[0, row, 2 * i], math.sin(angle), abs_tol=1e-9)
            assert math.isclose(codes[0, row, 2 * i + 1], math.cos(angle), abs_tol=1e-9)


def test_on_a_grid_one_half_tells_the_row_and_the_other_the_column():
    zeros = torch.zeros(1, 13, 16, dtype=torch.float64)
    codes = sinusoidal_2d((3, 4), 16).embed(zeros, range(13))[0]
    line = sinusoidal(8).embed(torch.zeros(1, 4, 8, dtype=torch.float64), range(4))[0]
    for pos in range(12):
        row, column = divmod(pos, 4)
        torch.testing.assert_close(codes[pos], torch.cat([line[row], line[column]]))
    assert not codes[12].any()  # the class token


@pytest.mark.parametrize("shift", [1, 5, 1000])
def test_rotary_scores_depend_on_the_distance_alone(shift):
    q, k = (
        torch.randn(1, 1, 6, 8, dtype=torch.float64),
        torch.randn(1, 1, 6, 8, dtype=torch.float64),
    )

    def scores(place: PositionalEncoding, start: int) -> torch.Tensor:
        a, b = place.rotate(q, k, range(start, start + 6), range(start, start + 6))
        return a @ b.mT

    torch.testing.assert_close(scores(rope(), 0), scores(rope(), shift), atol=1e-10, rtol=0)
    assert not torch.allclose(scores(rope(), 0), q @ k.mT)
    norms = rope().rotate(q, k, range(6), range(6))[0].norm(dim=-1)
    torch.testing.assert_close(norms, q.norm(dim=-1))


def test_rotary_2d_scores_depend_on_rows_and_columns_apart_and_not_on_the_class_token():
    place, grid = rope_2d((5, 7)), (5, 7)
    q, k = (
        torch.randn(1, 1, 1, 8, dtype=torch.float64),
        torch.randn(1, 1, 1, 8, dtype=torch.float64),
    )

    def score(a: tuple[int, int], b: tuple[int, int]) -> float:
        q_pos, k_pos = (torch.tensor([row * grid[1] + column]) for row, column in (a, b))
        turned = place.rotate(q, k, q_pos, k_pos)
        return float((turned[0] * turned[1]).sum())

    assert math.isclose(score((0, 0), (2, 3)), score((2, 1), (4, 4)), rel_tol=1e-9)
    assert not math.isclose(score((0, 0), (2, 3)), score((0, 0), (3, 2)), rel_tol=1e-3)
    class_token = torch.tensor([35])
    torch.testing.assert_close(place.rotate(q, k, class_token, class_token)[0], q)


def test_rotary_stays_exact_where_float32_angles_would_not():
    q = torch.randn(1, 1, 1, 64)
    near = rope().rotate(q, q, range(1), range(3, 4))
    far = rope().rotate(q, q, range(10**6, 10**6 + 1), range(10**6 + 3, 10**6 + 4))
    a, b = ((x * y).sum() for x, y in (near, far))
    torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("heads", [1, 2, 4, 6, 8, 12])
def test_alibi_slopes_fall_geometrically_and_bias_with_distance(heads):
    place = alibi(heads)
    slopes = place.slopes()
    whole = 1 << (heads.bit_length() - 1)
    assert len(slopes) == heads
    assert slopes[:whole] == pytest.approx([2 ** (-8 / whole * (i + 1)) for i in range(whole)])
    bias = place.bias(range(3, 5), range(6))
    for head, slope in enumerate(slopes):
        for n, q in enumerate(range(3, 5)):
            for m in range(6):
                assert float(bias[head, n, m]) == pytest.approx(-slope * abs(q - m))


def test_relative_bias_gives_far_offsets_the_last_learned_number():
    place = relative_bias(2, reach=3)
    bias = place.bias(range(10), range(10))
    for q in range(10):
        for k in range(10):
            offset = max(-3, min(3, q - k))
            assert torch.equal(bias[:, q, k], place.table[:, offset + 3])
    bias.sum().backward()
    assert place.table.grad.sum() == 200


@pytest.mark.parametrize("positions", [range(18, 22), torch.tensor([3, 21])], ids=type)
def test_a_learned_table_past_its_length_names_both_numbers(positions):
    count = len(positions)
    with expect_error(ValueError):
        learned(20, 16).embed(torch.zeros(1, count, 16), positions)
    with expect_error(ValueError):
        learned_2d((3, 4), 16, extra=1).embed(torch.zeros(1, count, 16), positions)


def test_learned_positions_are_resampled_to_another_grid_with_gradients_to_the_original():
    place = learned_2d((4, 4), 8, extra=1)
    assert place.resize((4, 4)) is place
    larger = place.resize((6, 5))
    codes = larger.embed(torch.zeros(1, 31, 8), range(31))[0]
    image = place.table.detach().T.reshape(1, 8, 4, 4)
    want = interpolate(image, size=(6, 5), mode="bicubic", antialias=True)[0].flatten(1).T
    torch.testing.assert_close(codes[:30], want)
    torch.testing.assert_close(codes[30], place.extra[0])
    codes.sum().backward()
    assert place.table.grad.abs().min() > 0
    assert not list(larger.parameters()) and larger.resize((4, 4)) is place


def test_widths_that_cannot_be_paired_name_the_nearest():
    with expect_error(ValueError):
        sinusoidal(7)
    with expect_error(ValueError):
        MultiHeadAttention(12, 2, pos_embed=rope_2d((2, 2)))(torch.zeros(1, 4, 12))
