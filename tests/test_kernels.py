"""The chooser and its switches, as far as a machine without a GPU can tell."""

import json
import threading
from pathlib import Path

import pytest
import torch

from regard.attention import Mask, attend, attend_fused, causal, explain_kernel, sinks, window
from regard.attention.call import Call
from regard.attention.kernels import sdpa
from regard.attention.kernels import tiles as sparse
from regard.attention.kernels.choose import ALONE, ROW, parts_pay
from regard.attention.kernels.scattered import arrange
from regard.attention.kernels.tiles import share_read

RESULTS = Path(__file__).parent.parent / "results"
SWITCHES = ("cudnn", "flash", "mem_efficient", "math")


def switches() -> dict[str, bool]:
    return {name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in SWITCHES}


@pytest.mark.parametrize("cudnn", [True, False])
def test_switches_are_turned_for_one_call_and_go_back_exactly(cudnn):
    before = switches()
    torch.backends.cuda.enable_mem_efficient_sdp(False)  # somebody's own choice
    try:
        with pytest.raises(ZeroDivisionError), sdpa._only(cudnn=cudnn):
            inside = switches()
            raise ZeroDivisionError
        assert inside["cudnn"] is cudnn
        assert inside["flash"] is inside["math"] is not cudnn
        assert inside["mem_efficient"] is False
        assert switches() == {**before, "mem_efficient": False}
    finally:
        torch.backends.cuda.enable_mem_efficient_sdp(before["mem_efficient"])


def test_threads_that_switch_at_once_leave_nothing_switched():
    before = switches()

    def work(cudnn: bool) -> None:
        for _ in range(200):
            with sdpa._only(cudnn=cudnn):
                assert switches()["cudnn"] is cudnn

    threads = [threading.Thread(target=work, args=(bool(i % 2),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert switches() == before


CALLED_NOW = {"everywhere(": "global_tokens(", "neighbourhood(": "neighborhood("}


@pytest.mark.parametrize("n", [4096, 16384])
@pytest.mark.parametrize("name", ["axial", "Sparse Transformer", "BigBird", "neighbourhood"])
def test_a_gpu_takes_a_mask_apart_where_that_was_measured_to_pay(name, n):
    """Recorded times of parts, beside FlexAttention, of which 0.36 ns a score were measured."""
    record = json.loads((RESULTS / "bench-cheaper-cuda.json").read_text("utf-8"))
    (row,) = (row for row in record["rows"] if (row["name"], row["n"]) == (name, n))
    method = row["method"]
    for then, now in CALLED_NOW.items():  # recorded under the names of that day
        method = method.replace(then, now)
    mask, positions = Mask.parse(method), range(n)
    parts = arrange(mask, positions, positions)
    scores = share_read(mask, positions, positions) * n * n
    if not row["path"].startswith("SDPA part by part"):
        assert not parts_pay(parts, "cuda", scores)  # as it was decided there
        return
    measured = row["both"] / (scores * 0.36e-9)
    foretold = parts.work(alone=ALONE["cuda"], row=ROW["cuda"]) / scores
    assert foretold == pytest.approx(measured, rel=0.35)
    assert parts_pay(parts, "cuda", scores) == (measured <= 1)


def test_the_chooser_never_reads_a_tensor():
    shape = (1, 2, 700, 16)
    q, k, v = (torch.empty(shape, device="meta") for _ in "qkv")  # they hold no values at all
    assert "tile by tile" in explain_kernel(q, k, v, mask=causal & window(40))
    assert "causal flag" in explain_kernel(q, k, v, mask=causal)
    where = torch.empty(700, device="meta", dtype=torch.int64)
    assert "positions are a tensor" in explain_kernel(
        q, k, v, mask=causal, q_pos=where, k_pos=where
    )


@pytest.mark.parametrize("mask", [causal & window(40), causal & (window(40) | sinks(3)), window(9)])
def test_a_long_masked_call_on_a_cpu_never_holds_the_whole_mask(mask, monkeypatch):
    largest = []
    original = sparse.written

    def spy(mask, q_pos, k_pos, device):
        largest.append(len(q_pos) * len(k_pos))
        return original(mask, q_pos, k_pos, device)

    monkeypatch.setattr(sparse, "written", spy)
    q, k, v = (torch.randn(1, 1, 1500, 8, requires_grad=True) for _ in "qkv")
    fused = attend_fused(q, k, v, mask=mask)
    assert max(largest) <= 128 * 512 < 1500 * 1500 / 30
    plain = attend(q, k, v, mask=mask).output
    torch.testing.assert_close(fused, plain)
    up = torch.randn_like(plain)
    for ours, right in zip(
        torch.autograd.grad(fused, (q, k, v), up),
        torch.autograd.grad(plain, (q, k, v), up),
        strict=True,
    ):
        torch.testing.assert_close(ours, right)


def test_masks_are_written_once_for_all_layers_and_offsets():
    from regard.attention.call import _kept

    _kept.cache_clear()
    q, k = torch.randn(1, 1, 20, 8), torch.randn(1, 1, 30, 8)
    for start in (0, 7, 1000):  # a relative mask is the same wherever it stands
        where = {"q_pos": range(start + 10, start + 30), "k_pos": range(start, start + 30)}
        attend(q, k, k, mask=causal & window(5), **where)
    assert _kept.cache_info().misses == 1 and _kept.cache_info().hits == 2


def test_compiled_layers_serve_every_length_given_tensors_and_symbolic_sizes(in_a_plain_process):
    in_a_plain_process(
        """
import torch
from torch._dynamo.testing import CompileCounter
from regard import MultiHeadAttention, ViT, ViTConfig, attend_fused, causal, rope, window

count, layer = CompileCounter(), MultiHeadAttention(16, 2, mask=causal, pos_embed=rope())
compiled = torch.compile(layer, backend=count, fullgraph=True)
for n in range(10, 30):
    x = torch.randn(1, n, 16)
    torch.testing.assert_close(compiled(x, positions=torch.arange(n)), layer(x))
assert count.frame_count == 2, count.frame_count

for mask in (causal, causal & window(5)):
    call = lambda q: attend_fused(q, q, q, mask=mask)
    compiled = torch.compile(call, dynamic=True, backend="eager", fullgraph=True)
    for n in (8, 12, 20):
        q = torch.randn(1, 2, n, 8)
        torch.testing.assert_close(compiled(q), call(q))

model = ViT(ViTConfig(width=16, heads=2, layers=1, image_size=16, mask="neighborhood(1, (4, 4))"))
compiled = torch.compile(model, backend="eager")
for side in (16, 24, 32):
    images = torch.randn(1, 3, side, side)
    torch.testing.assert_close(compiled(images), model(images))
"""
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(32, 8, 5, 64, 32), (16, 12, 1, 256, 64), (160, 8, 1, 20, 32)])
def test_a_few_queries_of_many_keys_are_read_by_two_products(shape, dtype, monkeypatch):
    b, h, n, m, d = shape
    q, k, v = (torch.randn(b, h, size, d, dtype=dtype) for size in (n, m, m))
    asked, plain = [], sdpa.products
    monkeypatch.setattr(sdpa, "products", lambda *args: asked.append(args) or plain(*args))
    assert explain_kernel(q, k, v) == "two products, for few queries: nothing is masked"
    read = attend_fused(q, k, v)
    assert len(asked) == 1
    exact = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(read, attend(q, k, v)[0], rtol=0, atol=exact)
    read = attend_fused(q.transpose(1, 2).contiguous().transpose(1, 2), k, v, beta=0.7)
    torch.testing.assert_close(read, attend(q, k, v, beta=0.7)[0], rtol=0, atol=exact)
    assert len(asked) == 2
    # Gradients, few keys and many queries are left to the kernels that are made for them.
    attend_fused(q.requires_grad_(), k, v)
    with torch.no_grad():
        attend_fused(q, k, v)
        attend_fused(q[:1, :1], k[:1, :1], v[:1, :1])
        attend_fused(torch.randn(b, h, 9, d, dtype=dtype), k, v)
    assert len(asked) == 3


@pytest.mark.parametrize("words", ["causal & window(64)", "causal & (window(64) | strided(64))"])
@pytest.mark.parametrize("batch, width", [(0, 8), (2, 0)])
def test_where_an_axis_is_empty_nothing_is_read(batch, width, words):
    q, k = torch.randn(2, batch, 2, 1024, 8)
    v = torch.randn(batch, 2, 1024, width)
    mask = Mask.parse(words)
    assert "length 0" in explain_kernel(q, k, v, mask=mask)
    assert attend_fused(q, k, v, mask=mask).shape == attend(q, k, v, mask=mask).output.shape


def test_a_chunk_behind_a_cache_may_have_any_number_of_axes():
    q, k, v = torch.randn(2, 3, 2, 5, 8), *torch.randn(2, 2, 3, 2, 9, 8)
    where = {"q_pos": range(4, 9), "k_pos": range(9)}
    call = Call.check(q, k, v, causal, *where.values())
    plain = attend(q, k, v, mask=causal, **where).output
    torch.testing.assert_close(sdpa.causal_tail(call), plain)  # which a GPU takes here
