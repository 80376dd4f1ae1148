"""Causal linear attention in Triton is the plain sums over all pairs, with all its gradients.

These tests want a GPU. Without one, Triton's interpreter runs them on a CPU (slowly, and only as
far as it goes): `TRITON_INTERPRET=1 pytest tests/test_linear_kernel.py`, with Triton installed.
"""

import importlib.util
import os

import pytest
import torch
from torch import Tensor
from torch.autograd import grad

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1" and importlib.util.find_spec("triton")
DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = [] if INTERPRETED else pytest.mark.cuda

CLOSE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}
LENGTHS = [1, 2, 63, 64, 65, 300 if INTERPRETED else 1000]


def features(n, f=32, e=32, dtype=torch.float32, *, batch=1, heads=2, groups=None) -> list[Tensor]:
    """q and k above 0, and v of any sign, as values that `dtype` holds."""
    torch.manual_seed(n + f + e)
    q = torch.rand(batch, heads, n, f)
    k = torch.rand(batch, groups or heads, n, f)
    v = torch.randn(batch, groups or heads, n, e)
    return [x.to(DEVICE, dtype).requires_grad_() for x in (q, k, v)]


def plain_sums(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """All n × n products in float64: what the kernel must agree with."""
    share = q.shape[-3] // k.shape[-3]
    k, v = (x.repeat_interleave(share, dim=-3) for x in (k, v))
    weights = (q @ k.mT).tril()
    return weights @ v, weights.sum(-1)


def plain_read(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    numerator, normaliser = plain_sums(q, k, v)
    empty = (normaliser == 0)[..., None]
    return torch.where(empty, 0.0, numerator / normaliser[..., None].masked_fill(empty, 1.0))


def exact(tensors: list[Tensor]) -> list[Tensor]:
    return [x.detach().double().requires_grad_() for x in tensors]


def assert_near(ours: Tensor, theirs: Tensor, dtype: torch.dtype, least: float = 1e-30) -> None:
    """To within a few roundings of the largest numbers: sums over signs have no relative error."""
    assert ours.isfinite().all()
    scale = max(float(theirs.detach().abs().max()), least)
    torch.testing.assert_close(ours.double() / scale, theirs / scale, atol=CLOSE[dtype], rtol=0)


def check_sums(qkv: list[Tensor], chunk: int = 64) -> None:
    from regard.attention.kernels.linear_triton import causal_sums

    kind = qkv[2].dtype
    twins = exact(qkv)
    numerator, normaliser = causal_sums(*qkv, chunk=chunk)
    right, right_normaliser = plain_sums(*twins)
    assert numerator.dtype == kind and normaliser.dtype == torch.float32
    assert_near(numerator, right, kind)
    assert_near(normaliser, right_normaliser, torch.float32 if kind == torch.float32 else kind)
    # As large as they come in use: the gradients of a quotient are numerators' over normalisers.
    push = (torch.randn_like(right) / right_normaliser[..., None]).detach().to(kind)
    shove = (torch.randn_like(right_normaliser) / right_normaliser).detach().float()
    ours = grad([numerator, normaliser], qkv, [push, shove])
    theirs = grad([right, right_normaliser], twins, [push.double(), shove.double()])
    for got, want, x in zip(ours, theirs, qkv, strict=True):
        assert got.dtype == x.dtype
        assert_near(got, want, kind)


def check_read(qkv: list[Tensor], chunk: int = 64) -> None:
    from regard.attention.kernels.linear_triton import causal_read

    kind = qkv[2].dtype
    twins = exact(qkv)
    ours, theirs = causal_read(*qkv, chunk=chunk), plain_read(*twins)
    assert ours.dtype == kind
    assert_near(ours, theirs, kind)
    push = torch.randn_like(ours)
    least = 0.1 if ours.shape[-2] == 1 else 1e-30  # alone, a token reads itself whatever q and k
    for got, want in zip(grad(ours, qkv, push), grad(theirs, twins, push.double()), strict=True):
        assert_near(got, want, kind, least)


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("n", LENGTHS)
def test_sums_and_reads_are_the_plain_ones_with_their_gradients(n, dtype):
    check_sums(features(n, dtype=dtype))
    check_read(features(n, dtype=dtype))


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize(
    ("f", "e"), [(16, 16), (3, 1), (48, 80), (64, 128), (128, 64), (256, 256), (200, 136)]
)
def test_any_width_of_features_and_values(f, e, dtype):
    check_sums(features(150, f, e, dtype))
    check_read(features(150, f, e, dtype))


def test_one_feature_is_enough_to_add_up():
    check_sums(features(150, 1, 5))  # (to read all alike, whatever q and its gradient of 0)


@pytest.mark.parametrize("chunk", [1, 32, 100, 128, 4096])
def test_the_length_of_a_block_changes_nothing(chunk):
    check_sums(features(270), chunk)
    check_read(features(270, dtype=torch.bfloat16), chunk)


def test_a_few_heads_of_keys_serve_many_of_queries():
    check_sums(features(70, batch=2, heads=6, groups=2))
    check_read(features(70, batch=2, heads=6, groups=1))


def test_mixed_dtypes_are_computed_as_the_finest_and_given_as_they_came():
    q, k, v = features(100)
    half = v.detach().bfloat16().requires_grad_()
    check_sums([q, k, half])
    check_read([q, k, half])


def test_tensors_may_lie_in_memory_as_they_like():
    from regard.attention.kernels.linear_triton import causal_read

    torch.manual_seed(0)
    whole = torch.rand(2, 90, 3, 4, 16, device=DEVICE)  # (b n qkv h d), as one projection gives it
    views = [x.transpose(1, 2).requires_grad_() for x in whole.unbind(2)]
    check_sums(views)
    check_read(views)
    assert causal_read(*views).transpose(1, 2).is_contiguous()  # so heads are joined for nothing
    check_read([x.mT.contiguous().mT.detach().requires_grad_() for x in views])
    more = [x.detach()[None].expand(2, -1, -1, -1, -1).requires_grad_() for x in views]
    assert torch.equal(causal_read(*more)[1], causal_read(*views))
    fewer = [x.detach()[1].requires_grad_() for x in views]
    check_read(fewer)


def test_a_query_that_matches_nothing_reads_zeros_with_finite_gradients():
    from regard.attention.kernels.linear_triton import causal_read, causal_sums

    q, k, v = features(140)
    with torch.no_grad():
        k[:, :, :70] = 0  # the first queries have nothing to match
        q[:, :, 100] = 0  # and this one matches nothing
    assert not causal_read(q, k, v, chunk=32)[:, :, :70].any()
    assert not causal_read(q, k, v, chunk=32)[:, :, 100].any()
    assert not causal_sums(q, k, v, chunk=32)[1][:, :, 100].any()
    check_read([q, k, v])
    nothing = [torch.zeros_like(x).requires_grad_() for x in (q, k, v)]
    for gradient in grad(causal_read(*nothing).sum(), nothing):
        assert not gradient.any()


def test_float16_reads_where_its_sums_would_pass_its_largest_number():
    from regard.attention.kernels.linear_triton import causal_sums

    q, k, v = features(200, dtype=torch.float16)
    with torch.no_grad():
        q *= 20
        k *= 20
        v += 2
    assert causal_sums(q, k, v)[0].isinf().any()
    check_read([q, k, v])


@pytest.mark.parametrize("shape", [(2, 3, 0, 8), (0, 3, 5, 8)])
def test_no_tokens_or_no_texts_give_nothing(shape):
    from regard.attention.kernels.linear_triton import causal_read, causal_sums

    q = torch.rand(shape, device=DEVICE, requires_grad=True)
    numerator, normaliser = causal_sums(q, q, q)
    assert numerator.shape == causal_read(q, q, q).shape == shape
    assert normaliser.shape == shape[:-1] and normaliser.dtype == torch.float32
    numerator.sum().backward()
    assert q.grad is not None and q.grad.shape == shape


def test_only_one_of_the_two_sums_may_be_used():
    from regard.attention.kernels.linear_triton import causal_sums

    for which in (0, 1):
        qkv = features(80)
        twins = exact(qkv)
        ours = grad(causal_sums(*qkv, chunk=32)[which].sum(), qkv, materialize_grads=True)
        theirs = grad(plain_sums(*twins)[which].sum(), twins, materialize_grads=True)
        for got, want in zip(ours, theirs, strict=True):
            assert_near(got, want, torch.float32)


def test_what_it_cannot_do_is_said_with_numbers():
    from regard.attention.kernels.linear_triton import causal_sums

    q = torch.rand(1, 6, 5, 8, device=DEVICE)
    with pytest.raises(ValueError, match="q, k, v are float32, float64, float32: the kernel takes"):
        causal_sums(q, q.double(), q)
    with pytest.raises(ValueError, match="6 heads of queries cannot share 4 heads of keys"):
        causal_sums(q, q[:, :4], q[:, :4])
    with pytest.raises(ValueError, match="a chunk of 0 tokens"):
        causal_sums(q, q, q, chunk=0)


@pytest.mark.cuda
def test_a_million_tokens_are_read_in_one_pass():
    from regard.attention.kernels.linear_triton import causal_read

    n = 1 << 20
    torch.manual_seed(0)
    # (b n h d) in memory: the last tokens lie beyond 2³¹ numbers.
    q, k, v = torch.rand(3, 1, n, 20, 128, device="cuda", dtype=torch.bfloat16).transpose(2, 3)
    k[:, :, -4:] *= n  # most is read from the last, so what is read says from where
    with torch.no_grad():
        got = causal_read(q, k, v)[0, -1, -1].double()
        weights = k[0, -1].double() @ q[0, -1, -1].double()
        want = weights @ v[0, -1].double() / weights.sum()
    torch.testing.assert_close(got, want, atol=1e-2, rtol=0)


@pytest.mark.cuda
def test_it_can_be_compiled_around():
    from regard.attention.kernels.linear_triton import causal_read

    def layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return causal_read(q.relu() + 0.1, k.relu() + 0.1, v) * 2

    qkv = features(300, 64, 64)
    ours, theirs = torch.compile(layer)(*qkv), layer(*qkv)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(grad(ours.sum(), qkv), grad(theirs.sum(), qkv))


@pytest.mark.cuda
@pytest.mark.skipif(
    importlib.util.find_spec("fla") is None, reason="flash-linear-attention is not installed"
)
@pytest.mark.parametrize("n", [1, 65, 1000])
def test_flash_linear_attention_reads_the_same_where_it_is_installed(n):
    from regard.attention.kernels.causal_sums import way_to_sum

    # Our kernel holds no heads as wide as these.
    qkv = features(n, 320, 64, torch.bfloat16, heads=4, groups=2)
    way = way_to_sum(qkv[0], qkv[2], 320)
    assert way.words == "flash-linear-attention"
    twins = exact(qkv)
    read, right = way.read(*qkv, torch.bfloat16), plain_read(*twins)
    assert_near(read, right, torch.bfloat16)
    push = torch.randn_like(right)
    ours = grad(read, qkv, push.to(read.dtype))
    # A token alone reads itself, whatever q and k: of their gradients only roundings are left.
    some = slice(2, None) if n == 1 else slice(None)
    for got, want in zip(ours[some], grad(right, twins, push)[some], strict=True):
        assert_near(got, want, torch.bfloat16)
