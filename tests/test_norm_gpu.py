"""Our LayerNorm on a GPU is torch's, forward and backward, and faster on narrow rows."""

import pytest
import torch
from torch.nn import functional as F

from benchmarks.harness import interleave
from regard.models import ViT, ViTConfig
from regard.models.norm import NARROW, LayerNorm

pytestmark = pytest.mark.cuda

CUDA = torch.device("cuda")


def pair(width: int, *, bias: bool = True) -> tuple[LayerNorm, torch.nn.LayerNorm]:
    torch.manual_seed(width)
    ours = LayerNorm(width, eps=1e-5, bias=bias, device="cuda")
    theirs = torch.nn.LayerNorm(width, eps=1e-5, bias=bias, device="cuda", dtype=torch.float64)
    with torch.no_grad():
        for name, weight in ours.named_parameters():
            weight.normal_()
            theirs.get_parameter(name).copy_(weight)
    return ours, theirs


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "shape", [(1, 64), (3, 65, 64), (256, 65, 64), (7, 48), (999, 1), (5, 1000)]
)
def test_it_is_layer_norm_with_its_gradients(shape, bias):
    ours, theirs = pair(shape[-1], bias=bias)
    x = (torch.randn(shape, device="cuda") * 3 + 5).requires_grad_()
    y = x.detach().double().requires_grad_()
    assert ours.pays(x)
    push = torch.randn(shape, device="cuda")
    got = torch.autograd.grad(ours(x), [x, *ours.parameters()], push)
    want = torch.autograd.grad(theirs(y), [y, *theirs.parameters()], push.double())
    torch.testing.assert_close(ours(x).double(), theirs(y), atol=1e-5, rtol=1e-5)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a.double(), b, atol=2e-5 * (1 + float(b.abs().max())), rtol=1e-5)


def test_under_autocast_it_gives_what_torch_gives_in_float32():
    ours, _ = pair(64)
    x = torch.randn(300, 64, device="cuda", dtype=torch.bfloat16)
    with torch.autocast("cuda", torch.bfloat16):
        assert ours.pays(x)
        got = ours(x)
        want = F.layer_norm(x, (64,), ours.weight, ours.bias, 1e-5)
    assert got.dtype == want.dtype == torch.float32
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_rows_that_do_not_lie_in_order_are_read_right_and_the_same_each_time():
    ours, theirs = pair(32)
    x = torch.randn(40, 32, 50, device="cuda").mT.requires_grad_()
    torch.testing.assert_close(ours(x).double(), theirs(x.double()), atol=1e-5, rtol=1e-5)
    push = torch.randn(40, 50, 32, device="cuda")
    first, again = (torch.autograd.grad(ours(x), ours.weight, push)[0] for _ in range(2))
    assert torch.equal(first, again)


def test_what_it_does_not_take_goes_to_torch():
    wide, half = LayerNorm(NARROW + 1, device="cuda"), LayerNorm(8, device="cuda").bfloat16()
    for norm, x in (
        (wide, torch.randn(3, NARROW + 1, device="cuda")),
        (half, torch.randn(3, 8, device="cuda", dtype=torch.bfloat16)),
        (LayerNorm(8, device="cuda"), torch.randn(0, 8, device="cuda")),
        (LayerNorm(8, device="cuda", elementwise_affine=False), torch.randn(2, 8, device="cuda")),
    ):
        assert not norm.pays(x)
        assert torch.equal(norm(x), torch.nn.LayerNorm.forward(norm, x))


def test_a_compiled_model_and_one_that_is_not_agree():
    torch.manual_seed(0)
    model = ViT(ViTConfig(width=64, layers=1, heads=2)).cuda()
    images = torch.randn(8, 3, 32, 32, device="cuda")
    plain = model(images)
    torch.testing.assert_close(torch.compile(model)(images), plain, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("width", [64, 192, 384, 768, 1024])
def test_it_is_no_slower_than_torchs(width, record_property):
    ours, _ = pair(width)
    x = torch.randn(16640, width, device="cuda", requires_grad=True)
    push = torch.randn_like(x)

    def both_ways(forward):
        def run():
            torch.autograd.grad(forward(x), [x, ours.weight, ours.bias], push)

        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            run(), run()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    times = interleave(
        {
            "ours": both_ways(ours),
            "torch": both_ways(lambda x: torch.nn.LayerNorm.forward(ours, x)),
        },
        CUDA,
        rounds=5,
    )
    ratio = times["torch"].median / times["ours"].median
    record_property("times_as_fast", round(ratio, 2))
    print(f"width {width}: {ratio:.2f} times as fast as torch, {times['ours'].median * 1e6:.1f} µs")
    assert ratio > 0.95
