"""Under autocast and in half precision: the dtype of v comes out, and a bias keeps its digits."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import grad

from regard.attention import (
    LinearAttention,
    Mask,
    MultiHeadAttention,
    alibi,
    attend,
    attend_fused,
    causal,
    explain_kernel,
    relative_bias,
    watch,
    window,
)
from regard.attention.channel import attend_channels

KINDS = [torch.float32, torch.bfloat16, torch.float16]
KERNELS: dict[str, tuple[int, dict[str, Any]]] = {
    "SDPA: nothing": (20, {}),
    "SDPA, causal flag": (20, {"mask": causal}),
    "SDPA with a mask": (20, {"mask": window(3)}),
    "SDPA with the bias": (20, {"bias": torch.linspace(-900, 1000, 400).view(20, 20)}),
    "SDPA window by window": (20, {"mask": Mask.parse("blocks(5)")}),
    "SDPA tile by tile": (600, {"mask": causal & window(64)}),
    "SDPA part by part": (512, {"mask": Mask.parse("causal & strided(64)")}),
    "plain": (20, {"beta": 0}),
}


def drawn(n: int, kind: torch.dtype, d: int = 8) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 2, n, d).to(kind).requires_grad_() for _ in "qkv"]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("words", KERNELS)
def test_autocast_changes_neither_what_a_kernel_reads_nor_its_dtype(words, kind):
    n, options = KERNELS[words]
    qkv = drawn(n, kind)
    if (words, kind) != ("SDPA part by part", torch.float16):  # which the host's kernel has not
        assert explain_kernel(*qkv, **options).startswith(words)
    for read in (attend_fused, lambda *qkv, **options: attend(*qkv, **options).output):
        alone = read(*qkv, **options)
        with torch.autocast("cpu", torch.bfloat16):
            under = read(*qkv, **options)
        assert under.dtype == alone.dtype == kind
        assert torch.equal(under, alone)
        assert all(map(torch.equal, grad(under.sum(), qkv), grad(alone.sum(), qkv)))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("read", [attend_channels, LinearAttention()], ids=["channels", "linear"])
def test_so_do_channels_and_linear_attention(read, kind):
    for options in ({}, {"mask": causal}) if isinstance(read, LinearAttention) else ({},):
        qkv = drawn(20, kind)
        alone = read(*qkv, **options)
        with torch.autocast("cpu", torch.bfloat16):
            under = read(*qkv, **options)
            inside = grad(under.sum(), qkv, retain_graph=True)  # where it should not be, but is
        assert under.dtype == kind and torch.equal(under, alone)
        slopes = grad(alone.sum(), qkv)
        assert all(map(torch.equal, grad(under.sum(), qkv), slopes))
        torch.testing.assert_close(inside, slopes, rtol=0, atol=3e-2)


FAR = 50_000 + torch.arange(20.0)[:, None] - torch.arange(20.0)
BIASES = {
    "near 1000": 1000 + 3 * torch.randn(2, 20, 20, generator=torch.Generator().manual_seed(3)),
    "far away": -0.25 * FAR,
    "learned": relative_bias(2, 8).bias(range(20), range(20)),
}


@pytest.mark.parametrize("autocast", [True, False], ids=["autocast", "alone"])
@pytest.mark.parametrize("trained", [True, False], ids=["trained", "given"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", BIASES)
def test_a_bias_in_float32_keeps_its_digits(name, kind, trained, autocast):
    qkv, bias = drawn(20, kind), BIASES[name].detach().requires_grad_(trained)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        read = attend_fused(*qkv, bias=bias, mask=causal)
    exact = [x.detach().double().requires_grad_() for x in (*qkv, bias)]
    wanted = attend(*exact[:3], bias=exact[3], mask=causal).output
    # The bias itself has steps of 6e-5 near 1000 and of 1e-3 far away.
    off = {torch.float32: 5e-3, torch.float16: 5e-3, torch.bfloat16: 2e-2}[kind]
    torch.testing.assert_close(read.double(), wanted, rtol=0, atol=off)
    of = [*qkv, bias] if trained else qkv
    slopes, right = grad(read.double().sum(), of), grad(wanted.sum(), exact[: len(of)])
    for x, slope, one in zip(of, slopes, right, strict=True):
        assert slope.dtype == x.dtype
        torch.testing.assert_close(slope.double(), one, rtol=0, atol=10 * off)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16], ids=str)
def test_a_bias_keeps_them_far_below_the_greatest_of_its_row_as_well(kind):
    """A key that the bias favours and the score does not leaves the rest to decide."""
    q, k = torch.ones(1, 1, 1, 8), torch.zeros(1, 1, 3, 8)
    k[..., 0, :] = -5  # a score of −40
    bias = torch.tensor([[0.0, -20.06, -19.94]])
    v = torch.tensor([0.0, -1.0, 1.0])[:, None].expand(1, 1, 3, 8)
    q, k, v = (x.to(kind) for x in (q, k, v))
    wanted = attend(*(x.double() for x in (q, k, v)), bias=bias.double(), beta=1).output
    read = attend_fused(q, k, v, bias=bias, beta=1)
    torch.testing.assert_close(read.double(), wanted, rtol=0, atol=2e-3)


@pytest.mark.parametrize(
    "place", [None, alibi(4), relative_bias(4)], ids=["none", "alibi", "learned"]
)
def test_a_layer_under_autocast_is_watched_as_it_read(place):
    layer = MultiHeadAttention(32, 4, mask=causal, pos_embed=place)
    x = torch.randn(2, 20, 32)
    with torch.autocast("cpu", torch.bfloat16), watch(layer) as seen:
        layer(x)
        (one,) = seen.values()
        assert one.error() < 1e-2
    assert one.output.dtype == one.call.v.dtype == torch.bfloat16
    assert one.error() < 1e-2


@pytest.mark.cuda
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", BIASES)
def test_a_gpu_keeps_the_digits_of_a_bias_and_the_dtype_of_v(name, kind):
    qkv = [x.detach().cuda() for x in drawn(20, kind)]
    bias = BIASES[name].detach().cuda()
    exact = [x.double() for x in (*qkv, bias)]
    wanted = attend(*exact[:3], bias=exact[3], mask=causal).output
    for autocast in (True, False):
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            read = attend_fused(*qkv, bias=bias, mask=causal)
        assert read.dtype == kind
        off = {torch.float32: 5e-3, torch.float16: 5e-3, torch.bfloat16: 2e-2}[kind]
        torch.testing.assert_close(read.double(), wanted, rtol=0, atol=off)


@pytest.mark.cuda
@pytest.mark.parametrize("n", [20, 600, 2048])
@pytest.mark.parametrize("words", ["causal", "causal & window(64)", "causal & strided(64)"])
def test_a_gpu_gives_the_dtype_of_v_whichever_kernel_it_takes(words, n):
    q, k, v = (torch.randn(1, 2, n, 64, device="cuda") for _ in "qkv")
    alone = attend_fused(q, k, v, mask=Mask.parse(words))
    with torch.autocast("cuda", torch.bfloat16):
        under = attend_fused(q, k, v, mask=Mask.parse(words))
    assert under.dtype == alone.dtype == torch.float32
    torch.testing.assert_close(under, alone, rtol=0, atol=1e-5)
