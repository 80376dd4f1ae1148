"""What holds for any content, shape and mask: order, blindness, and the twins' agreement."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import grad

from regard.attention import Mask, MultiHeadAttention, attend, attend_fused, causal, rope, window
from regard.attention.call import Call
from regard.attention.kernels import tiles as sparse
from regard.models import StackConfig, make_blocks
from strategies import PLACES, examples, masks

EXACT = {"rtol": 0.0, "atol": 1e-10}
PATHS = {"attend": lambda *qkv, **how: attend(*qkv, **how).output, "attend_fused": attend_fused}
each_path = pytest.mark.parametrize("read", PATHS.values(), ids=PATHS)


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def qkv(n: int = 6, m: int = 6, groups: int = 2, d: int = 4, e: int = 3) -> list[Tensor]:
    """Four query heads on some key heads, ready for gradients."""
    shapes = [(2, 4, n, d), (2, groups, m, d), (2, groups, m, e)]
    return [randn(*shape).requires_grad_() for shape in shapes]


def layer(**options) -> MultiHeadAttention:
    return MultiHeadAttention(16, 4, kv_heads=2, **options).double()


def block(**options) -> torch.nn.Module:
    config = StackConfig(width=16, heads=4, kv_heads=2, layers=1, mlp_width=8)
    return make_blocks(config, **options).double()[0]


# Order


@given(st.permutations(range(6)))
@examples(15)
def test_without_positions_and_mask_a_shuffled_input_gives_a_shuffled_output(order):
    x = randn(2, 6, 16)
    for module in (layer(), block(), layer(attention=attend)):
        torch.testing.assert_close(module(x[:, order]), module(x)[:, order], **EXACT)
    q, k, v = qkv()
    shuffled_keys = [q, k[:, :, order], v[:, :, order]]
    for read in PATHS.values():
        once = read(q, k, v)
        torch.testing.assert_close(read(*shuffled_keys), once, **EXACT)
        torch.testing.assert_close(read(q[:, :, order], k, v), once[:, :, order], **EXACT)


@pytest.mark.parametrize("make", [layer, block], ids=["MultiHeadAttention", "Block"])
@pytest.mark.parametrize("place", ["rope", "rotary_2d", "alibi", "relative_bias"])
def test_positions_break_the_symmetry(make, place):
    built = PLACES[place](4, 16, 6)
    module = layer(pos_embed=built) if make is layer else block(pos_embed=lambda: built)
    x, order = randn(2, 6, 16), [1, 0, 2, 3, 5, 4]
    assert (module(x[:, order]) - module(x)[:, order]).abs().max() > 1e-3
    # It is the positions, not the order of the slots: moved along with them, nothing changes.
    moved = module(x[:, order], positions=torch.tensor(order))
    torch.testing.assert_close(moved, module(x)[:, order], **EXACT)


@pytest.mark.parametrize("place", ["learned", "sinusoidal"])
def test_embedded_positions_break_the_symmetry(place):
    module, embed = layer(), PLACES[place](4, 16, 6).double().embed
    x, order = randn(2, 6, 16), [1, 0, 2, 3, 5, 4]
    once = module(embed(x, range(6)))
    assert (module(embed(x[:, order], range(6))) - once[:, order]).abs().max() > 1e-3
    moved = module(embed(x[:, order], torch.tensor(order)))
    torch.testing.assert_close(moved, once[:, order], **EXACT)


@given(st.permutations(range(6)))
@examples(15)
def test_causal_breaks_the_symmetry_and_positions_restore_it(order):
    x = randn(2, 6, 16)
    for module in (layer(mask=causal), block(mask=causal)):
        once = module(x)[:, order]
        alike = torch.allclose(module(x[:, order]), once, **EXACT)
        assert alike == (list(order) == list(range(6)))
        moved = module(x[:, order], positions=torch.tensor(order))
        torch.testing.assert_close(moved, once, **EXACT)


# Nowhere


@st.composite
def with_holes(draw: st.DrawFn, most: int = 7) -> Tensor:
    """Positions of two sequences, −1 anywhere."""
    n = draw(st.integers(1, most))
    row = st.lists(st.integers(-1, 12), min_size=n, max_size=n)
    return torch.tensor([draw(row), draw(row)])


@each_path
@pytest.mark.parametrize("rubbish", [math.nan, math.inf, 1e300])
@given(st.data())
@examples(25)
def test_content_that_is_nowhere_changes_neither_outputs_nor_gradients(read, rubbish, data):
    mask = data.draw(st.one_of(st.none(), masks()), "mask")
    q_pos, k_pos = data.draw(with_holes(), "q_pos"), data.draw(with_holes(), "k_pos")
    beta = data.draw(st.sampled_from([None, 0.7, 0, math.inf]), "beta")
    clean = qkv(q_pos.shape[1], k_pos.shape[1], groups=data.draw(st.sampled_from([1, 2, 4])))
    places = [(pos < 0)[:, None, :, None] for pos in (q_pos, k_pos, k_pos)]
    dirty = [
        x.detach().masked_fill(nowhere, rubbish).requires_grad_()
        for x, nowhere in zip(clean, places, strict=True)
    ]
    bias = None if data.draw(st.booleans(), "bias") else randn(4, *map(len, (q_pos.T, k_pos.T)))
    how = {"mask": mask, "q_pos": q_pos, "k_pos": k_pos, "beta": beta, "bias": bias}
    once, again = read(*clean, **how), read(*dirty, **how)
    assert torch.equal(again, once) and once.isfinite().all()
    towards = randn(*once.shape)
    wanted = grad((once * towards).sum(), clean, materialize_grads=True)
    got = grad((again * towards).sum(), dirty, materialize_grads=True)
    for a, b, nowhere in zip(got, wanted, places, strict=True):
        torch.testing.assert_close(a, b, **EXACT)
        assert a.isfinite().all() and not a.masked_select(nowhere).any()
    assert not again.masked_select((q_pos < 0)[:, None, :, None]).any()


@given(with_holes(), st.one_of(st.none(), masks()), st.sampled_from(list(PLACES)))
@examples(40)
def test_padding_changes_neither_a_layers_outputs_nor_its_gradients(positions, mask, place):
    module = layer(pos_embed=PLACES[place](4, 16, 13), mask=mask)
    here = positions >= 0
    clean = randn(2, positions.shape[1], 16)
    dirty = clean.masked_fill(~here[..., None], 1e6)
    results = []
    for x in (clean, dirty):
        out = module(module.pos_embed.embed(x, positions), positions=positions)[here]
        results.append((out, grad(out.pow(2).sum(), module.parameters(), materialize_grads=True)))
    torch.testing.assert_close(results[1], results[0], rtol=1e-12, atol=1e-12)


@each_path
def test_nan_in_padding_reaches_no_real_token_and_no_gradient_behind_attention(read):
    # The projections see the NaN before attention can hide it: the gradient of to_q's weight is
    # a sum of gradient times token, and 0 · NaN is NaN. All that lies behind attention is clean,
    # and so are the biases; a model that pads with NaN must clean its embeddings itself.
    module = layer(attention=read, mask=causal | window(2), pos_embed=rope())
    positions = torch.tensor([[0, 1, 2, -1, -1], [-1, 0, -1, 1, 2]])
    here, x = positions >= 0, randn(2, 5, 16)
    names = [
        n for n, _ in module.named_parameters() if n.startswith("to_out") or n.endswith("bias")
    ]
    wanted = [module.get_parameter(name) for name in names]
    results = []
    for tokens in (x, x.masked_fill(~here[..., None], math.nan)):
        out = module(tokens, positions=positions)
        assert out.isfinite().all()  # also at the padding, which reads zeros
        results.append((out, *grad(out[here].pow(2).sum(), wanted)))
    torch.testing.assert_close(results[1], results[0], **EXACT)


# Blindness


@each_path
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@given(st.data())
@examples(30)
def test_content_that_a_query_may_not_read_changes_none_of_its_results(read, dtype, data):
    mask = data.draw(masks(), "mask")
    start, n, m = (data.draw(st.integers(*ends)) for ends in ((0, 8), (1, 7), (1, 12)))
    q_pos, k_pos = range(start, start + n), range(m)
    biased = data.draw(st.booleans(), "bias")
    how = {
        "mask": mask,
        "q_pos": q_pos if data.draw(st.booleans(), "range") else torch.tensor(q_pos),
        "k_pos": k_pos,
        "bias": torch.randn(4, n, m, dtype=dtype) if biased else None,
    }
    q, k, v = (x.detach().to(dtype) for x in qkv(n, m))
    row = data.draw(st.integers(0, n - 1), "row")
    unread = ~mask(q_pos, k_pos)[row]
    once = read(q, k, v, **how)[:, :, row]
    sign = torch.where(torch.rand(m) < 0.5, -1, 1)[:, None]
    for garbage in (1e30, 1e-30):
        fill = (sign * garbage).to(dtype)
        other = [torch.where(unread[:, None], fill, x).requires_grad_() for x in (k, v)]
        again = read(q, *other, **how)[:, :, row]
        assert torch.equal(again, once)
        for g in grad(again.sum(), other, materialize_grads=True):
            assert not g[:, :, unread].any() and g.isfinite().all()


@given(masks(), st.integers(1, 8), st.integers(0, 7))
@examples(30)
def test_a_layer_never_reads_what_its_mask_hides(mask, n, row):
    row %= n
    module, x = layer(mask=mask, pos_embed=rope()), randn(2, n, 16)
    unread = ~mask(range(n), range(n))[row]
    unread[row] = False  # its own token is its query
    other = torch.where(unread[:, None], 1e3 * randn(2, n, 16), x)
    torch.testing.assert_close(module(other)[:, row], module(x)[:, row], **EXACT)


# The twins


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[Tensor], dict]:
    """Any q, k and v under any mask, bias and positions."""
    n, m, start = draw(st.integers(1, 9)), draw(st.integers(1, 12)), draw(st.integers(0, 9))
    lead = draw(st.sampled_from([(), (4,), (2, 4), (1, 4), (3, 2, 4)]))
    heads = draw(st.sampled_from([1, 2, 4])) if lead else 1
    group = (*lead[:-1], heads) if lead else ()
    d, e = draw(st.sampled_from([(4, 4), (8, 3), (2, 5), (1, 1)]))
    tensors = [randn(*lead, n, d), randn(*group, m, d), randn(*group, m, e)]
    mask = draw(st.one_of(st.none(), masks(), st.just(torch.rand(n, m) < 0.6)))
    q_pos, k_pos = range(start, start + n), range(m)
    if draw(st.booleans()):
        keys = st.lists(st.integers(-1, 14), min_size=m, max_size=m)
        rows = [draw(keys) for _ in range(lead[0])] if len(lead) == 2 else draw(keys)
        k_pos = torch.tensor(rows)
    bias = draw(st.sampled_from([None, (n, m), (1, m), (*lead, n, m)]))
    bias = None if bias is None else randn(*bias)
    if bias is not None and draw(st.booleans()):
        bias = bias.masked_fill(torch.rand(bias.shape) < 0.3, -math.inf)
    beta = draw(st.sampled_from([None, None, 0.3, 5.0, 0, math.inf]))
    how = {"mask": mask, "q_pos": q_pos, "k_pos": k_pos, "bias": bias, "beta": beta}
    return [x.requires_grad_() for x in tensors], how


@given(calls())
@examples(150)
def test_the_fast_path_agrees_with_the_plain_one(call):
    tensors, how = call
    if how["bias"] is not None:
        how["bias"].requires_grad_()
        tensors = [*tensors, how["bias"]]
    plain, fast = attend(*tensors[:3], **how).output, attend_fused(*tensors[:3], **how)
    assert fast.isfinite().all()
    torch.testing.assert_close(fast, plain, **EXACT)
    towards = randn(*plain.shape)
    wanted = grad((plain * towards).sum(), tensors, materialize_grads=True)
    got = grad((fast * towards).sum(), tensors, materialize_grads=True)
    assert all(g.isfinite().all() for g in got)
    torch.testing.assert_close(got, wanted, **EXACT)


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of four tokens, so that short sequences have many of them."""
    monkeypatch.setattr(sparse, "TILE", 4)
    sparse._strips.cache_clear()
    yield
    sparse._strips.cache_clear()


@pytest.mark.usefixtures("small_tiles")
def test_the_tiled_path_agrees_with_the_plain_one():
    @given(masks(), st.integers(1, 19), st.integers(1, 23), st.integers(0, 9), st.integers(0, 5))
    @examples(80)
    def agrees(mask: Mask, n: int, m: int, q_start: int, k_start: int) -> None:
        tensors = qkv(n, m)
        where = range(q_start, q_start + n), range(k_start, k_start + m)
        plain = attend(*tensors, mask=mask, q_pos=where[0], k_pos=where[1]).output
        fast = sparse.tiled(Call.check(*tensors, mask, *where))
        torch.testing.assert_close(fast, plain, **EXACT)
        towards = randn(*plain.shape)
        wanted = grad((plain * towards).sum(), tensors, materialize_grads=True)
        got = grad((fast * towards).sum(), tensors, materialize_grads=True)
        torch.testing.assert_close(got, wanted, **EXACT)

    agrees()


# Scale


@each_path
@given(st.sampled_from([0.25, 0.5, 2.0, 8.0]), st.one_of(st.none(), masks(2)))
@examples(25)
def test_beta_scales_the_queries_or_the_keys_alike(read, by, mask):
    q, k, v = qkv()
    once = read(q, k, v, mask=mask, beta=0.4 * by)
    torch.testing.assert_close(read(q * by, k, v, mask=mask, beta=0.4), once, **EXACT)
    torch.testing.assert_close(read(q, k * by, v, mask=mask, beta=0.4), once, **EXACT)
    torch.testing.assert_close(read(q, k, v * by, mask=mask, beta=0.4 * by), once * by, **EXACT)
    same = read(q, k, v, mask=mask, beta=q.shape[-1] ** -0.5)
    torch.testing.assert_close(read(q, k, v, mask=mask), same, **EXACT)


@each_path
@given(st.one_of(st.none(), masks(2)), st.sampled_from([-40.0, 3.0, 900.0]))
@examples(25)
def test_what_is_added_to_all_scores_of_a_query_changes_nothing(read, mask, shift):
    q, k, v = qkv()
    bias, by_row = randn(4, 6, 6), shift * randn(4, 6, 1)
    once = read(q, k, v, mask=mask, bias=bias)
    torch.testing.assert_close(read(q, k, v, mask=mask, bias=bias + by_row), once, **EXACT)
    # The same for one vector added to every key, which adds q · vector to every score of a row.
    torch.testing.assert_close(read(q, k + randn(4), v, mask=mask, bias=bias), once, **EXACT)


@each_path
@given(st.one_of(st.none(), masks(2)), st.sampled_from([0, 0.5, 3.0, math.inf]))
@examples(25)
def test_a_read_lies_among_the_values_it_may_read(read, mask, beta):
    q, k, v = qkv(e=1)
    out = read(q, k, v, mask=mask, beta=beta)
    seen = torch.ones(6, 6).bool() if mask is None else mask(range(6), range(6))
    values = v.repeat_interleave(2, 1)[..., 0][:, :, None]  # b h 1 m
    least = values.masked_fill(~seen, math.inf).amin(-1).masked_fill(~seen.any(-1), 0.0)
    most = values.masked_fill(~seen, -math.inf).amax(-1).masked_fill(~seen.any(-1), 0.0)
    assert (out[..., 0] >= least - 1e-12).all() and (out[..., 0] <= most + 1e-12).all()


@given(st.one_of(st.none(), masks(2)), st.sampled_from([None, 0, 0.5, math.inf]))
@examples(30)
def test_weights_are_shares(mask, beta):
    weights = attend(*qkv(), mask=mask, beta=beta).weights
    seen = torch.ones(6, 6).bool() if mask is None else mask(range(6), range(6))
    assert (weights >= 0).all() and not weights[..., ~seen].any()
    torch.testing.assert_close(
        weights.sum(-1), seen.any(-1).double().expand(weights.shape[:-1]), **EXACT
    )
