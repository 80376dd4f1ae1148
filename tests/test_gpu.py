"""What holds on a CPU holds on a GPU: every kernel there equals the plain path, and says so."""

import time

import pytest
import torch
from torch.autograd import grad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from regard.attention import (
    KVCache,
    Mask,
    MultiHeadAttention,
    attend,
    attend_fused,
    causal,
    explain_kernel,
    rope,
    watch,
)
from regard.models import ViT, ViTConfig

pytestmark = pytest.mark.cuda

ROUNDING = {torch.float32: 2e-5, torch.bfloat16: 2e-2, torch.float16: 3e-3}

PATHS = {  # words the chooser must use → (heads, groups, n, m, d, e, mask)
    "by cuDNN: nothing": (4, 4, 640, 640, 128, 128, None),
    "SDPA: nothing": (4, 2, 50, 65, 16, 16, None),
    "by cuDNN, causal flag": (4, 2, 515, 515, 64, 64, "causal"),
    "SDPA, causal flag": (4, 4, 50, 50, 64, 64, "causal"),
    "aligned to the last key": (4, 2, 130, 700, 64, 64, "causal"),
    "reads everything here": (4, 2, 1, 700, 64, 64, "causal"),
    "block mask of causal & window(100)": (4, 2, 2100, 2100, 64, 64, "causal & window(100)"),
    "block mask of causal & (w": (2, 2, 1900, 2300, 128, 128, "causal & (window(70) | sinks(4))"),
    "block mask of window(64) | gl": (2, 2, 2048, 2048, 64, 64, "window(64) | global_tokens(3)"),
    "block mask of random_keys": (2, 2, 2060, 2060, 32, 32, "random_keys(3, 500, 1) | window(9)"),
    "block mask of neighborhood": (2, 2, 2117, 2117, 64, 64, "neighborhood(2, (46, 46))"),
    "merged: axial": (4, 2, 4096, 4096, 64, 64, "axial((64, 64))"),
    "merged: causal & (window(60)": (
        *(2, 2, 9000, 10000, 64, 64),
        "causal & (window(60) | strided(60))",
    ),
    "merged: window(64)": (2, 2, 6100, 6100, 128, 128, "window(64) | strided(61)"),
    "with a mask: ~causal": (2, 2, 300, 300, 64, 32, "~causal"),  # the last query is blind
    "with a mask: blocks(7) & ~causal": (2, 1, 90, 90, 24, 24, "blocks(7) & ~causal"),
    "with a mask: causal & window(50)": (2, 1, 600, 700, 64, 64, "causal & window(50)"),
    "tile by tile: window(50)": (2, 1, 2100, 2200, 64, 32, "window(50)"),
}


def check(ours: torch.Tensor, plain: torch.Tensor, dtype: torch.dtype) -> None:
    off = (ours.double() - plain.double()).abs().amax() / plain.double().abs().amax().clamp(
        min=1e-9
    )
    assert off <= ROUNDING[dtype], f"{float(off):.1e} of the largest entry"


@pytest.mark.parametrize(
    "words, dtype",
    [
        (words, dtype)
        for words in PATHS
        for dtype in ROUNDING
        if "block mask" not in words or dtype == torch.bfloat16 or "window(100)" in words
    ],  # compiling a kernel takes ten seconds and more
    ids=str,
)
def test_each_kernel_reads_what_the_plain_path_reads(words: str, dtype: torch.dtype) -> None:
    heads, groups, n, m, d, e, expression = PATHS[words]
    options = {
        "mask": None if expression is None else Mask.parse(expression),
        "q_pos": range(m - n, m),
        "k_pos": range(m),
    }
    q = torch.randn(2, heads, n, d, device="cuda", dtype=dtype, requires_grad=True)
    k = torch.randn(2, groups, m, d, device="cuda", dtype=dtype, requires_grad=True)
    v = torch.randn(2, groups, m, e, device="cuda", dtype=dtype, requires_grad=True)
    if dtype != torch.float32:  # cuDNN is chosen for half precision alone
        assert words in explain_kernel(q, k, v, **options)
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    plain, fused = attend(*exact, **options).output, attend_fused(q, k, v, **options)
    check(fused, plain, dtype)
    upstream = torch.randn_like(fused)
    theirs = grad((plain * upstream.double()).sum(), exact)
    for ours, right in zip(grad(fused, (q, k, v), upstream), theirs, strict=True):
        check(ours, right, dtype)


def test_nothing_stays_set_after_a_kernel_was_preferred(in_a_plain_process) -> None:
    in_a_plain_process(
        """
import torch
from regard import MultiHeadAttention, attend_fused, explain_kernel

def flags():
    cuda = torch.backends.cuda
    enabled = (cuda.flash_sdp_enabled, cuda.mem_efficient_sdp_enabled, cuda.math_sdp_enabled)
    return [ask() for ask in (*enabled, cuda.cudnn_sdp_enabled)]

def order():  # torch settles its own preference at its first call
    x = torch.randn(1, 1, 128, 64, device="cuda", dtype=torch.bfloat16)
    torch.nn.functional.scaled_dot_product_attention(x, x, x)
    return torch._C._get_sdp_priority_order()

before = flags()
q = torch.randn(4, 16, 2048, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
assert "cuDNN" in explain_kernel(q, q, q)
attend_fused(q, q, q).sum().backward()
attend_fused(q[:, :, :1], q, q).sum().backward()
layer = MultiHeadAttention(128, 2).cuda().bfloat16()
torch.compile(layer)(torch.randn(1, 256, 128, device="cuda", dtype=torch.bfloat16))
assert flags() == before, (before, flags())
after = order()
import subprocess, sys
fresh = "import torch; x = torch.randn(1, 1, 128, 64, device='cuda', dtype=torch.bfloat16); " \
    "torch.nn.functional.scaled_dot_product_attention(x, x, x); " \
    "print(torch._C._get_sdp_priority_order())"
pristine = subprocess.run([sys.executable, "-c", fresh], capture_output=True, text=True)
assert pristine.stdout.strip() == str(after), (pristine.stdout, after)
"""
    )


@pytest.mark.parametrize("expression", [None, "causal", "causal & window(100)"])
def test_a_compiled_layer_equals_the_eager_one(expression: str | None) -> None:
    mask = None if expression is None else Mask.parse(expression)
    layer = MultiHeadAttention(256, 4, kv_heads=2, pos_embed=rope(), mask=mask).cuda()
    x = torch.randn(2, 640, 256, device="cuda", requires_grad=True)
    with torch.autocast("cuda", torch.bfloat16):
        eager = layer(x)
        compiled = torch.compile(layer, fullgraph=True)(x)
    check(compiled, eager, torch.bfloat16)
    for ours, right in zip(
        grad(compiled.float().sum(), (x, *layer.parameters())),
        grad(eager.float().sum(), (x, *layer.parameters())),
        strict=True,
    ):
        check(ours, right, torch.bfloat16)


def test_a_forced_backend_is_respected() -> None:
    q = torch.randn(1, 2, 256, 64, device="cuda", dtype=torch.bfloat16)
    with sdpa_kernel(SDPBackend.MATH):
        assert "cuDNN" not in explain_kernel(q, q, q)
        math = scaled_dot_product_attention(q, q, q)
        assert torch.equal(attend_fused(q, q, q), math)


def test_decoding_with_ever_more_keys_does_not_plan_at_every_token() -> None:
    def seconds(step) -> float:
        times = []
        for m in range(300, 320):
            q = torch.randn(1, 8, 1, 64, device="cuda", dtype=torch.bfloat16)
            k = torch.randn(1, 8, m, 64, device="cuda", dtype=torch.bfloat16)
            torch.cuda.synchronize()
            start = time.perf_counter()
            step(q, k)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return sorted(times)[10]

    assert seconds(lambda q, k: attend_fused(q, k, k)) < 5e-3


def test_a_compiled_vit_is_watched_at_the_price_of_one_recompile() -> None:
    model = ViT(ViTConfig(width=64, heads=4, layers=2)).cuda()
    images = torch.randn(4, 3, 32, 32, device="cuda")
    compiled = torch.compile(model)
    with torch.no_grad():
        plain = compiled(images)
        with watch(compiled) as seen:
            watched = compiled(images)
    check(watched, plain, torch.float32)
    assert seen["blocks.1.attention"].weights(rows=[-1]).shape == (4, 4, 1, 65)
    assert seen["blocks.1.attention"].error() < 1e-4


def test_watching_inside_a_captured_graph_is_refused() -> None:
    layer = MultiHeadAttention(64, 4).cuda()
    x = torch.randn(1, 8, 64, device="cuda")
    layer(x)
    with (
        watch(layer),
        pytest.raises(RuntimeError, match="captured as a CUDA graph"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        layer(x)


@pytest.mark.parametrize("keep", [None, "causal & (window(5) | sinks(2))"])
def test_decoding_from_a_fixed_cache_replays_as_one_graph(keep: str | None) -> None:
    mask = causal if keep is None else Mask.parse(keep)
    layer = MultiHeadAttention(64, 4, pos_embed=rope(), mask=mask).cuda()
    x = torch.randn(3, 24, 64, device="cuda")
    cache = KVCache(size=24, keep=None if keep is None else mask)
    with torch.no_grad():
        once = layer(x)
        parts = [layer(x[:, :9], positions=range(9), cache=cache)]
        token, where = x[:, 9:10].clone(), torch.tensor([9], device="cuda")
        step = layer(token, positions=where, cache=cache)  # a first one to warm up
        parts.append(step.clone())
        graph = torch.cuda.CUDAGraph()
        token.copy_(x[:, 10:11]), where.fill_(10)
        with torch.cuda.graph(graph):
            step = layer(token, positions=where, cache=cache)
        for at in range(10, 24):
            token.copy_(x[:, at : at + 1]), where.fill_(at)
            graph.replay()
            parts.append(step.clone())
    torch.testing.assert_close(torch.cat(parts, 1), once, atol=1e-4, rtol=1e-4)
