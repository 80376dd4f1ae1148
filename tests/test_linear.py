"""Linear attention: its parallel, chunked and recurrent forms read what the dense weights say."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import grad

from golden import expect_error
from regard.attention import (
    EluFeatures,
    KVCache,
    LearnedFeatures,
    LinearAttention,
    LinearState,
    MultiHeadAttention,
    RandomFeatures,
    ReluFeatures,
    TaylorFeatures,
    alibi,
    causal,
    rope,
    watch,
    window,
)
from regard.attention.call import Call
from regard.attention.kernels.causal_sums import CHUNK, causal_sums, way_to_sum
from regard.attention.kernels.dtype import widen
from strategies import causal_masks, chunkings, examples

D = 6
FEATURES = {
    "elu": EluFeatures,
    "relu": ReluFeatures,
    "random": lambda: RandomFeatures(D, 20, seed=3),
    "taylor": TaylorFeatures,
    "learned": lambda: LearnedFeatures(D),
}
EXACT = {"rtol": 0.0, "atol": 1e-10}


def randn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def case(n: int = 9, m: int = 9, h: int = 4, g: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    return randn(2, h, n, D), randn(2, g, m, D), randn(2, g, m, 5)


def compare(attention: LinearAttention, qkv: tuple[Tensor, ...], **options: object) -> None:
    """The read and all its gradients against those of the dense twin."""
    ours = attention(*qkv, **options)
    plain = attention.plain(Call.check(*qkv, **options)).output
    torch.testing.assert_close(ours, plain, **EXACT)
    weights = torch.randn_like(plain)
    wanted = [*qkv, *attention.parameters()]
    for a, b in zip(
        grad((ours * weights).sum(), wanted, retain_graph=True),
        grad((plain * weights).sum(), wanted),
        strict=True,
    ):
        assert a.isfinite().all()
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


def by_hand(feature, q: Tensor, k: Tensor, v: Tensor, reads, beta: float) -> Tensor:
    """One query at a time, from the map as it is written."""
    read = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    root, share = math.sqrt(beta), q.shape[1] // k.shape[1]
    for b, h, i in torch.cartesian_prod(*(torch.arange(s) for s in q.shape[:-1])).tolist():
        keys = [j for j in range(k.shape[2]) if reads(i, j)]
        weights = [
            feature(q[b, h, i, None] * root)[0] @ feature(k[b, h // share, j, None] * root)[0]
            for j in keys
        ]
        total = float(sum(weights).detach())
        for w, j in zip(weights, keys, strict=True):
            read[b, h, i] += (w / total if total else 0) * v[b, h // share, j]
    return read


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("mask", [None, causal], ids=str)
def test_the_read_is_that_of_the_map_as_it_is_written(name, mask):
    feature = FEATURES[name]().double()
    q, k, v = (x.detach() for x in case(5, 5))
    read = LinearAttention(feature)(q, k, v, mask=mask, beta=0.7)
    wanted = by_hand(feature, q, k, v, lambda i, j: mask is None or j <= i, 0.7)
    torch.testing.assert_close(read, wanted)


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize(
    "n, m, mask",
    [(9, 9, None), (3, 7, None), (7, 3, None), (1, 1, None)]
    + [(n, n, causal) for n in (1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3)],
    ids=str,
)
def test_parallel_and_chunked_forms_agree_with_the_dense_twin(name, n, m, mask):
    attention = LinearAttention(FEATURES[name]()).double()
    compare(attention, case(n, m), mask=mask)


def test_queries_at_the_end_of_the_keys_read_what_is_before_them():
    qkv = case(4, 9)
    attention = LinearAttention()
    where = {"mask": causal, "q_pos": range(5, 9), "k_pos": range(9)}
    assert "causal sums" in attention.explain(*qkv, **where)
    compare(attention, qkv, **where)
    later = {"mask": causal, "q_pos": range(9, 13), "k_pos": range(9)}
    assert "reads all" in attention.explain(*qkv, **later)
    compare(attention, qkv, **later)


@pytest.mark.parametrize("name", FEATURES)
@pytest.mark.parametrize("mask", [None, causal, causal & window(3)], ids=str)
def test_padding_is_left_out_and_nothing_in_it_matters(name, mask):
    attention = LinearAttention(FEATURES[name]()).double()
    q, k, v = case(6, 6)
    where = torch.tensor([[-1, 0, 1, 2, -1, 3], [0, 1, 2, 3, 4, 5]])
    compare(attention, (q, k, v), mask=mask, q_pos=where, k_pos=where)
    options = {"mask": mask, "q_pos": where, "k_pos": where}
    read = attention(q, k, v, **options)
    assert not read[0, :, [0, 4]].any()
    for x in (q, k, v):
        x.data[0, :, [0, 4]] = torch.nan
    torch.testing.assert_close(attention(q, k, v, **options), read)
    rest = [1, 2, 3, 5]
    alone = attention(*(x[:1, :, rest] for x in (q, k, v)), mask=mask)
    torch.testing.assert_close(read[:1, :, rest], alone)


def test_positions_in_any_order_are_read_by_position():
    order = torch.stack([torch.randperm(9) for _ in range(2)])
    qkv = case()
    attention = LinearAttention()
    assert "by position" in attention.explain(*qkv, mask=causal, q_pos=order, k_pos=order)
    compare(attention, qkv, mask=causal, q_pos=order, k_pos=order)
    compare(attention, qkv, mask=causal, q_pos=order[0], k_pos=order[0])
    with expect_error(RuntimeError):
        attention(*qkv, mask=causal, q_pos=(same := order // 2), k_pos=same)


@given(st.data())
@examples(40)
def test_any_mask_reads_what_the_dense_weights_say(data):
    n, m = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    mask = data.draw(causal_masks())
    q_pos = range(at := data.draw(st.integers(0, 4)), at + n)
    compare(LinearAttention(), case(n, m), mask=mask, q_pos=q_pos, k_pos=range(m))


def test_a_bias_multiplies_weights_by_its_exponential():
    bias = torch.randn(4, 9, 9, dtype=torch.float64, requires_grad=True)
    qkv, attention = case(), LinearAttention()
    weights = attention.plain(Call.check(*qkv)).weights
    wanted = weights * bias.exp()
    biased = attention.plain(Call.check(*qkv, bias=bias)).weights
    torch.testing.assert_close(biased, wanted / wanted.sum(-1, keepdim=True))
    compare(attention, qkv, bias=bias, mask=causal)
    shut = bias.detach().clone().fill_(-torch.inf)
    assert not attention(*qkv, bias=shut).any()


def test_a_query_that_matches_nothing_reads_zeros_with_finite_gradients():
    q, k, v = case()
    q.data[:, :, 3] = -1.0  # relu leaves nothing of it
    for mask in (None, causal):
        compare(LinearAttention(ReluFeatures()), (q, k, v), mask=mask)
        assert not LinearAttention(ReluFeatures())(q, k, v, mask=mask)[:, :, 3].any()
    for n, m in ((0, 4), (4, 0), (0, 0)):
        qkv = case(n, m)
        assert LinearAttention()(*qkv).shape == (2, 4, n, 5)
        assert not LinearAttention()(*qkv).any()
    assert LinearAttention()(*case(0, 0), mask=causal).shape == (2, 4, 0, 5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", FEATURES)
def test_sums_run_in_float32_whatever_the_type(name, dtype):
    attention = LinearAttention(FEATURES[name]())
    q, k, v = (x.detach().to(dtype) for x in case(1500, 1500))
    for mask in (None, causal):
        read = attention(q, k, v + 1, mask=mask)
        assert read.dtype == dtype
        exact = attention.double()(q.double(), k.double(), (v + 1).double(), mask=mask)
        attention.float()
        torch.testing.assert_close(read.double(), exact, rtol=4e-3, atol=4e-3)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(attention(q, k, v + 1, mask=causal), read)


def test_random_features_survive_large_queries_and_keys():
    attention = LinearAttention(RandomFeatures(D, 200))
    q, k, v = (x.detach().float() for x in case(50, 50))
    for mask in (None, causal):
        read = attention(q * 30, k * 30, v, mask=mask)
        assert read.isfinite().all() and read.any()


@pytest.mark.parametrize("axes", [0, 1, 3])
@pytest.mark.parametrize("mask", [None, causal], ids=str)
def test_any_number_of_leading_axes(axes, mask):
    lead = (2, 3, 4)[:axes]
    q, k, v = (randn(*lead, 7, D) for _ in "qkv")
    compare(LinearAttention(), (q, k, v), mask=mask)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 200])
def test_causal_sums_are_the_sums(n):
    q, k, v = randn(3, n, 4), randn(3, n, 4), randn(3, n, 5)
    weights = torch.einsum("bif,bjf->bij", q, k).tril()
    for ours, wanted in zip(causal_sums(q, k, v, 64), (weights @ v, weights.sum(-1)), strict=True):
        g = torch.randn_like(wanted)
        torch.testing.assert_close(ours, wanted)
        for a, b in zip(
            grad((ours * g).sum(), (q, k, v), retain_graph=True, allow_unused=True),
            grad((wanted * g).sum(), (q, k, v), retain_graph=True, allow_unused=True),
            strict=True,
        ):
            torch.testing.assert_close(
                torch.zeros(1) if a is None else a, b if b is not None else a
            )


def test_a_long_sequence_is_never_written_out():
    n = 1 << 16  # a map would be 16 GB in float32
    q, k, v = (torch.rand(1, n, 4) for _ in "qkv")
    read = LinearAttention()(q, k, v, mask=causal)
    few = [0, 1, n // 2, n - 1]
    for row in few:
        call = Call.check(q[:, row, None], k[:, : row + 1], v[:, : row + 1])
        torch.testing.assert_close(read[:, row, None], LinearAttention().plain(call).output)


# Memory


def recurrent(layer: MultiHeadAttention, x: Tensor, chunks, where=None) -> Tensor:
    state = layer.new_cache()
    assert isinstance(state, LinearState)
    return torch.cat(
        [
            layer(
                x[:, chunk.start : chunk.stop],
                positions=chunk if where is None else where[:, chunk.start : chunk.stop],
                cache=state,
            )
            for chunk in chunks
        ],
        1,
    )


def made(name: str = "elu", **options: object) -> MultiHeadAttention:
    options = {"mask": causal, "pos_embed": rope(), "kv_heads": 2, **options}
    return MultiHeadAttention(
        4 * D, 4, attention=LinearAttention(FEATURES[name]()), **options
    ).double()


@pytest.mark.parametrize("name", FEATURES)
@given(st.data())
@examples(10)
def test_any_chunking_through_a_state_equals_the_one_shot_pass(name, data):
    n = data.draw(st.integers(1, 12))
    chunks, layer = data.draw(chunkings(n)), made(name)
    x = torch.randn(2, n, 4 * D, dtype=torch.float64, requires_grad=True)
    once, ours = layer(x), recurrent(layer, x, chunks)
    torch.testing.assert_close(ours, once, **EXACT)
    wanted = [x, *layer.parameters()]
    for a, b in zip(grad(ours.norm(), wanted), grad(once.norm(), wanted), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", FEATURES)
def test_texts_of_different_lengths_each_read_their_own(name):
    layer, lengths = made(name), (2, 5)
    x = torch.randn(2, 8, 4 * D, dtype=torch.float64)
    steps = torch.arange(5)
    prompt = torch.stack([torch.where(steps < n, steps, -1) for n in lengths])
    after = torch.tensor(lengths)[:, None] + torch.arange(3)
    ours = recurrent(layer, x, [range(5), range(5, 6), range(6, 8)], torch.cat([prompt, after], 1))
    for row, n in enumerate(lengths):
        alone = layer(torch.cat([x[row, :n], x[row, 5:]])[None])
        theirs = torch.cat([ours[row, :n], ours[row, 5:]])[None]
        torch.testing.assert_close(theirs, alone, **EXACT)


def test_a_state_does_not_grow_and_beams_reorder_it():
    layer, x = made("random"), torch.randn(3, 40, 4 * D, dtype=torch.float64)
    state = layer.new_cache()
    sizes = set()
    for at in range(30):
        layer(x[:, at : at + 1], positions=range(at, at + 1), cache=state)
        sizes.add(sum(part.numel() for part in state.kept.now))
    assert len(sizes) == 1
    index = torch.tensor([2, 0, 0])
    state.reorder(index)
    step = layer(x[index, 30:31], positions=range(30, 31), cache=state)
    torch.testing.assert_close(step, layer(x[index, :31])[:, -1:], **EXACT)


def test_a_state_agrees_with_a_cache_of_keys():
    layer, x = made(), torch.randn(2, 9, 4 * D, dtype=torch.float64)
    for cache in (KVCache(), KVCache(size=9), KVCache(size=9, keep=causal)):
        parts = [
            layer(x[:, list(at)], positions=at, cache=cache)
            for at in (range(4), range(4, 5), range(5, 9))
        ]
        torch.testing.assert_close(torch.cat(parts, 1), layer(x), **EXACT)


def test_a_context_is_summed_once():
    layer = MultiHeadAttention(
        4 * D, 4, attention=LinearAttention(), context_width=7, kv_heads=2
    ).double()
    x, context = (torch.randn(2, n, c, dtype=torch.float64) for n, c in ((5, 4 * D), (6, 7)))
    where = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 1, 2, -1, -1, -1]])
    once = layer(x, context, context_positions=where)
    state = layer.new_cache(context=True)
    for at in range(5):
        step = layer(
            x[:, at, None],
            context if at == 0 else torch.full_like(context, torch.nan),
            positions=range(at, at + 1),
            context_positions=where,
            cache=state,
        )
        torch.testing.assert_close(step, once[:, at, None], **EXACT)


def test_where_keys_are_needed_one_by_one_a_layer_keeps_them():
    assert isinstance(made(mask=causal & window(3)).new_cache(), KVCache)
    assert isinstance(made(pos_embed=alibi(4)).new_cache(), KVCache)
    assert isinstance(MultiHeadAttention(8, 2).new_cache(size=4), KVCache)
    layer, x = made(), torch.randn(1, 4, 4 * D, dtype=torch.float64)
    with watch(layer) as seen:
        cache = layer.new_cache()
        assert isinstance(cache, KVCache)
        layer(x, positions=range(4), cache=cache)
    assert seen["MultiHeadAttention"].error() < 1e-10
    state = layer.new_cache()
    with expect_error(RuntimeError), watch(layer):
        layer(x, positions=range(4), cache=state)


# What is refused


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: LinearAttention(EluFeatures),
        lambda: LinearAttention(torch.sin)(*case()),
        lambda: LinearAttention(lambda x: x.sum(-1))(*case()),
        lambda: LinearAttention()(*case(), beta=math.inf),
        lambda: LinearAttention()(*case(3, 4), mask=causal),
        lambda: LinearAttention(LearnedFeatures(5))(*case()),
        lambda: made()(
            torch.zeros(1, 2, 4 * D).double(),
            positions=range(2),
            mask=window(2),
            cache=made().new_cache(),
        ),
    ],
    ids=range(7),
)
def test_what_cannot_work_is_refused_in_a_sentence(attempt):
    torch.manual_seed(0)
    with expect_error((TypeError, ValueError)):
        attempt()


def test_a_state_refuses_tokens_that_come_too_late():
    layer, x = made(), torch.randn(1, 4, 4 * D, dtype=torch.float64)
    state = layer.new_cache()
    layer(x, positions=range(4), cache=state)
    with expect_error(ValueError):
        layer(x, positions=range(2, 6), cache=state)


def test_a_map_of_ones_own_is_looked_at_once_and_always_by_the_plain_twin():
    attention = LinearAttention(lambda x: x.exp())
    compare(attention, case(), mask=causal)
    attention = LinearAttention(lambda x: x + 9)
    compare(attention, case())
    with expect_error(ValueError):
        attention.plain(Call.check(*(x - 30 for x in case())))


def test_each_form_can_explain_itself():
    q, k, v = case()
    explain = LinearAttention().explain
    assert explain(q, k, v) == "sums over all keys: nothing is masked"
    assert explain(q, k, v, mask=causal) == "causal sums by chunks of 128 in plain torch"
    assert "window(3) leaves no common sums" in explain(q, k, v, mask=window(3))
    assert "no expression" in explain(q, k, v, mask=torch.ones(9, 9, dtype=torch.bool))
    assert "a bias" in explain(q, k, v, bias=torch.zeros(9, 9))
    tail = explain(q[..., 4:, :], k, v, mask=causal, q_pos=range(4, 9), k_pos=range(9))
    assert tail == "sums of the keys before, then causal sums by chunks of 128 in plain torch"
    assert "plain torch" in way_to_sum(widen(q), v).words


@pytest.mark.parametrize("width", [1, 4, 7])
def test_a_map_knows_how_many_features_it_makes(width):
    maps = (
        EluFeatures(),
        ReluFeatures(),
        RandomFeatures(width, 5),
        TaylorFeatures(),
        LearnedFeatures(width),
    )
    for each in maps:
        assert each.count_of(width) == each(torch.randn(2, 3, width)).shape[-1], each


COMPILED = """
import torch
from regard.attention import LinearAttention, MultiHeadAttention, causal
layer = MultiHeadAttention(24, 4, attention=LinearAttention(), mask=causal, kv_heads=2).double()
x = torch.randn(2, 300, 24, dtype=torch.float64, requires_grad=True)
compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
ours, eager = compiled(x), layer(x)
torch.testing.assert_close(ours, eager)
grads = [torch.autograd.grad(out.norm(), x) for out in (ours, eager)]
torch.testing.assert_close(*grads)
layer, x = layer.float(), x.detach().float().requires_grad_()
with torch.autocast("cpu", torch.bfloat16):
    ours, eager = compiled(x), layer(x)
assert ours.dtype == eager.dtype == torch.bfloat16
grads = [torch.autograd.grad(out.float().norm(), x) for out in (ours, eager)]
torch.testing.assert_close(*grads, rtol=0, atol=1e-2)
"""


def test_a_compiled_layer_reads_the_same(in_a_plain_process):
    in_a_plain_process(COMPILED)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("mask", [None, causal], ids=str)
@pytest.mark.parametrize(
    "feature", [EluFeatures(), ReluFeatures(), RandomFeatures(64, 48)], ids=str
)
def test_a_gpu_reads_the_same_by_its_kernels(feature, mask, dtype):
    attention = LinearAttention(feature).cuda()
    shapes = ((2, 4, 300, 64), (2, 2, 300, 64), (2, 2, 300, 32))
    qkv = [torch.randn(shape, device="cuda").to(dtype).requires_grad_() for shape in shapes]
    exact = [x.detach().double().requires_grad_() for x in qkv]
    read = attention(*qkv, mask=mask)
    wanted = attention.plain(Call.check(*exact, mask=mask)).output
    loose = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 0.03, "atol": 0.03}
    torch.testing.assert_close(read.double(), wanted, **loose)
    g = torch.randn_like(wanted)
    for a, b in zip(grad(read, qkv, g.to(dtype)), grad(wanted, exact, g), strict=True):
        torch.testing.assert_close(
            a.double(), b, rtol=loose["rtol"], atol=loose["atol"] * b.abs().max().item()
        )
    if mask is causal:
        assert "plain torch" not in attention.explain(*qkv, mask=mask)


@pytest.mark.parametrize("n", [CHUNK, 2 * CHUNK, 2 * CHUNK + 1])
def test_heads_that_lie_side_by_side_in_one_text_are_read(n):
    """As `MultiHead` splits them: of a single text that is a view which cannot be cut in place."""
    q, k, v = (torch.randn(1, n, 2, 4, dtype=torch.float64).transpose(1, 2) for _ in "qkv")
    read, total = causal_sums(q.exp(), k.exp(), v)
    weights = (q.exp() @ k.exp().mT).tril()
    torch.testing.assert_close(read, weights @ v)
    torch.testing.assert_close(total, weights.sum(-1))
