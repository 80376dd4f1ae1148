"""Channels read channels: attention on its side, against the dense reference and plain sums."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import grad

from golden import expect_error
from regard.attention import Call, MultiHeadAttention, attend, causal, window
from regard.attention.channel import attend_channels


def tensors(*shape, dtype=torch.float64, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=draw).to(dtype).requires_grad_() for _ in "qkv"]


def by_hand(q, k, v, beta):
    """Written out without attend: channel i of a head reads channel j."""
    weights = (torch.einsum("bhni,bhnj->bhij", q, k) * beta).softmax(-1)
    return torch.einsum("bhij,bhnj->bhni", weights, v)


@pytest.mark.parametrize("beta", [None, 0.3, 8**-0.5], ids="beta={}".format)
@pytest.mark.parametrize("n, d", [(6, 8), (7, 5), (1, 4), (33, 1), (4, 4)])
def test_reading_agrees_with_the_dense_reference_and_with_sums_by_hand(n, d, beta):
    qkv = tensors(2, 3, n, d)
    ours = attend_channels(*qkv, beta=beta)
    said = n**-0.5 if beta is None else beta
    dense = attend(*(x.mT for x in qkv), beta=said).output.mT
    by_sums = by_hand(*qkv, said)
    twin = attend_channels.plain(attend_channels.check(*qkv, beta=beta))
    for other in (dense, by_sums, twin.output):
        torch.testing.assert_close(ours, other)
        torch.testing.assert_close(grad_of(ours, qkv), grad_of(other, qkv))


def grad_of(read, qkv):
    return grad(read.sin().sum(), qkv, retain_graph=True)


@given(
    st.integers(1, 3), st.integers(1, 2), st.integers(1, 12), st.integers(1, 9), st.integers(0, 99)
)
def test_any_sizes_agree(b, h, n, d, seed):
    qkv = tensors(b, h, n, d, seed=seed)
    torch.testing.assert_close(attend_channels(*qkv), by_hand(*qkv, n**-0.5))


@pytest.mark.parametrize("shape", [(5, 4), (3, 5, 4), (2, 2, 3, 5, 4)], ids=str)
def test_any_number_of_leading_axes(shape):
    qkv = tensors(*shape)
    flat = [x.reshape(1, -1, 5, 4) for x in qkv]
    expected = by_hand(*flat, 5**-0.5).reshape(shape)
    torch.testing.assert_close(attend_channels(*qkv), expected)


def test_heads_that_share_keys_read_the_same_channels():
    q, k, v = tensors(2, 4, 6, 8)
    few = attend_channels(q, k[:, :2], v[:, :2])
    many = attend_channels(q, *(x[:, :2].repeat_interleave(2, 1) for x in (k, v)))
    torch.testing.assert_close(few, many)


@pytest.mark.parametrize(
    "dtype, near", [(torch.float32, 1e-6), (torch.bfloat16, 0.03), (torch.float16, 4e-3)], ids=str
)
def test_narrow_numbers_stay_near_the_wide_ones(dtype, near):
    qkv = tensors(2, 2, 4096, 16, dtype=dtype)
    ours, wide = attend_channels(*qkv), attend_channels(*(x.double() for x in qkv))
    assert ours.dtype == dtype
    assert (ours - wide).abs().max() < near * wide.abs().max()
    assert all(torch.isfinite(g).all() for g in grad(ours.float().sum(), qkv))


def test_half_precision_does_not_overflow_where_tokens_are_many_and_alike():
    q = torch.full((1, 1, 8192, 8), 4.0, dtype=torch.float16)
    assert torch.isfinite(attend_channels(q, q, q)).all()  # 16 · 8192 is beyond float16


@pytest.mark.parametrize("beta", [0, math.inf])
def test_the_limits_of_beta_are_those_of_attend(beta):
    qkv = tensors(2, 2, 5, 3)
    expected = attend(*(x.mT for x in qkv), beta=beta).output.mT
    torch.testing.assert_close(attend_channels(*qkv, beta=beta), expected)


@pytest.mark.parametrize("beta", [None, 0.5], ids="beta={}".format)
def test_padding_changes_nothing_reads_zeros_and_may_hold_nan(beta):
    short = tensors(2, 2, 5, 4)
    positions = torch.tensor([[0, 1, -1, 2, 3, 4, -1], [0, -1, 1, 2, 3, 4, -1]])
    padded = []
    for x in short:
        long = torch.full((2, 2, 7, 4), math.nan, dtype=x.dtype)
        for row, where in enumerate(positions):
            long[row][:, where >= 0] = x[row].detach()
        padded.append(long.requires_grad_())
    options = {"q_pos": positions, "k_pos": positions, "beta": beta}
    read = attend_channels(*padded, **options)
    twin = attend_channels.plain(
        attend_channels.check(*padded, q_pos=positions, k_pos=positions, beta=beta)
    )
    expected = attend_channels(*short, beta=beta)
    for row, where in enumerate(positions):
        torch.testing.assert_close(read[row][:, where >= 0], expected[row])
        assert not read[row][:, where < 0].any()
    torch.testing.assert_close(read, twin.output)
    for gradient in grad(read.sum(), padded):
        assert torch.isfinite(gradient).all()


def test_a_sequence_of_nowhere_reads_zeros_with_finite_gradients():
    qkv = tensors(2, 1, 3, 4)
    nowhere = torch.tensor([[0, 1, 2], [-1, -1, -1]])
    read = attend_channels(*qkv, q_pos=nowhere, k_pos=nowhere)
    assert not read[1].any() and read[0].any()
    assert all(torch.isfinite(g).all() for g in grad(read.sum(), qkv))


def test_a_query_that_is_nowhere_reads_zeros_though_its_value_is_there():
    qkv, q_pos = tensors(2, 1, 3, 4), torch.tensor([0, -1, 2])
    read = attend_channels(*qkv, q_pos=q_pos)
    twin = attend_channels.plain(attend_channels.check(*qkv, q_pos=q_pos))
    assert not read[..., 1, :].any() and read[..., [0, 2], :].all()
    torch.testing.assert_close(read, twin.output)
    others = attend_channels(*(x[..., [0, 2], :] for x in qkv))
    torch.testing.assert_close(read[..., [0, 2], :], others)


def test_no_tokens_read_nothing():
    q = torch.zeros(2, 1, 0, 4)
    assert attend_channels(q, q, q).shape == (2, 1, 0, 4)


def test_the_map_is_between_channels_and_sums_to_one():
    call = attend_channels.check(*tensors(2, 3, 6, 4))
    weights = attend_channels.plain(call).weights
    assert weights.shape == (2, 3, 4, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4, dtype=weights.dtype))
    with expect_error(ValueError):
        attend_channels.plain(call.rows([0, 3]))


def test_a_call_with_the_beta_between_tokens_is_refused_rather_than_shown_wrongly():
    with expect_error(ValueError):
        attend_channels.plain(Call.check(*tensors(2, 3, 6, 4)))


def test_it_serves_as_the_attention_of_heads():
    torch.manual_seed(0)
    layer = MultiHeadAttention(12, 3, attention=attend_channels)
    x = torch.randn(2, 5, 12)
    q, k, v = (layer.split(to(x), 3) for to in (layer.to_q, layer.to_k, layer.to_v))
    read = by_hand(q, k, v, 5**-0.5)
    torch.testing.assert_close(layer(x), layer.to_out(read.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize(
    "options",
    [
        {"mask": causal},
        {"mask": window(3)},
        {"mask": torch.ones(6, 6, dtype=torch.bool)},
        {"bias": torch.zeros(6, 6)},
        {"q_pos": range(6), "k_pos": range(1, 7)},
        {"beta": -1},
    ],
    ids=lambda x: "" if isinstance(x, dict) else x[:12],
)
def test_what_channels_cannot_have_is_refused_in_a_sentence(options):
    with expect_error(ValueError):
        attend_channels(*tensors(1, 1, 6, 4), **options)


def test_other_lengths_and_widths_are_refused_with_their_numbers(in_a_plain_process):
    in_a_plain_process(
        """
import torch
from regard.attention.channel import attend_channels
for q, k, v, words in [
    ((3, 4), (5, 4), (5, 4), "3 queries cannot be with 5 keys"),
    ((5, 4), (5, 4), (5, 2), "keys have 4 channels and values 2"),
    ((5, 4), (5, 3), (5, 3), "queries are 4 wide and keys 3"),
]:
    try:
        attend_channels(torch.zeros(q), torch.zeros(k), torch.zeros(v))
    except ValueError as trouble:
        assert words in str(trouble), (words, trouble)
    else:
        raise AssertionError(words)
"""
    )
