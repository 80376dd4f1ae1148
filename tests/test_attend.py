"""`attend` against NumPy loops and 50 digits of mpmath, and `attend_fused` against `attend`."""

import json
import math
import re
import subprocess
import sys
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from regard import attend, attend_fused, causal, explain_kernel, sinks, window
from regard.attention.call import Call
from regard.attention.core import plain_in_rows
from regard.attention.kernels.choose import choose

INF = math.inf


# What attention is, written a second time: loops, and the softmax's gradient derived by hand.


class Answer(NamedTuple):
    """What was read, with which weights, and the gradients of the loss by q, k, v and the bias."""

    read: np.ndarray
    weights: np.ndarray
    grads: dict[str, np.ndarray]


def by_loops(q, k, v, allowed, bias, beta, d_read, d_weights) -> Answer:
    """One query at a time, in float64; the loss is Σ read · d_read + Σ weights · d_weights.

    With g the gradient by a row's weights w, that by its scores is w · (g − Σ w g).
    """
    *lead, n, d = q.shape
    m, e = v.shape[-2:]
    beta = d**-0.5 if beta is None else beta
    share = q.shape[-3] // k.shape[-3] if lead else 1
    read, weights = np.zeros((*lead, n, e)), np.zeros((*lead, n, m))
    dq, dk, dv, dbias = (np.zeros_like(x) for x in (q, k, v, weights))
    for *head, i in np.ndindex(*lead, n):
        row = (*head, i)
        own = (*head[:-1], head[-1] // share) if head else ()
        keys = [j for j in range(m) if allowed[*row, j] and bias[*row, j] > -INF]
        if not keys:
            continue
        match = {j: sum(q[*row, x] * k[*own, j, x] for x in range(d)) for j in keys}
        if beta == INF:
            keys = [j for j in keys if match[j] == max(match.values())]
            scores = {j: bias[*row, j] for j in keys}
        else:
            scores = {j: beta * match[j] + bias[*row, j] for j in keys}
        top = max(scores.values())
        total = sum(math.exp(scores[j] - top) for j in keys)
        w = {j: math.exp(scores[j] - top) / total for j in keys}
        g = {j: d_read[row] @ v[*own, j] + d_weights[*row, j] for j in keys}
        mean = sum(w[j] * g[j] for j in keys)
        for j in keys:
            weights[*row, j] = w[j]
            read[row] += w[j] * v[*own, j]
            dv[*own, j] += w[j] * d_read[row]
            if beta < INF:  # at the limit gradients flow to v only
                ds = w[j] * (g[j] - mean)
                dbias[*row, j] = ds
                dq[row] += beta * ds * k[*own, j]
                dk[*own, j] += beta * ds * q[row]
    return Answer(read, weights, {"q": dq, "k": dk, "v": dv, "bias": dbias})


def assert_near(ours, right, limit: float, least: float = 0.0) -> None:
    """No entry is further off than `limit` times the largest, or `least` if that is larger."""
    ours, right = torch.as_tensor(ours), torch.as_tensor(right)
    assert ours.shape == right.shape
    if right.numel() == 0:
        return
    far, scale = (ours.double() - right.double()).abs().max(), right.double().abs().max()
    scale = max(scale, least)
    assert far <= limit * scale, f"off by {far:.3g} where the largest entry is {scale:.3g}"


def gradients(loss: Tensor, inputs) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss, list(inputs), materialize_grads=True)


def draw(q_lead, k_lead, n, m, d, e, dtype=torch.float64) -> dict[str, Tensor]:
    shapes = {"q": (*q_lead, n, d), "k": (*k_lead, m, d), "v": (*k_lead, m, e)}
    return {
        name: torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_()
        for name, shape in shapes.items()
    }


LEADS = {  # leading axes of q, and of k and v
    "n d": ((), ()),
    "h n d": ((3,), (3,)),
    "h n d, grouped": ((4,), (2,)),
    "b h n d": ((2, 2), (2, 2)),
    "b h n d, grouped": ((2, 6), (2, 2)),
    "b h n d, one key head": ((2, 3), (2, 1)),
    "a b h n d": ((2, 3, 2), (2, 3, 2)),
    "a b h n d, grouped": ((2, 1, 4), (2, 1, 2)),
}
SIZES = {"self": (4, 4, 3, 3), "cross": (3, 5, 4, 2), "more queries": (5, 2, 2, 3)}  # n m d e


def _scattered(*shape) -> Tensor:
    return torch.rand(shape) < 0.6


def _blind_in_row_1(n, m) -> Tensor:
    mask = _scattered(n, m)
    mask[1] = False
    return mask


def _shut(n, m) -> Tensor:
    bias = torch.randn(n, m, dtype=torch.float64).masked_fill(~_scattered(n, m), -INF)
    bias[1] = -INF
    return bias


def _normal(*shape) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)


def not_thirds(q, k) -> Tensor:
    return (q[..., :, None] + 2 * k[..., None, :]) % 3 > 0


def falling(q, k) -> Tensor:
    return (q[..., :, None] - k[..., None, :]).abs().double() * -0.3


# Options for a call of (lead, n, m). The same rule on two integers stands beside each predicate.
READERS = {
    "all": lambda lead, n, m: {},
    "bool n m, one blind": lambda lead, n, m: {"mask": _blind_in_row_1(n, m)},
    "bool 1 m": lambda lead, n, m: {"mask": torch.arange(m)[None] != 1},
    "bool n 1": lambda lead, n, m: {"mask": torch.arange(n)[:, None] != 1},
    "bool for each head": lambda lead, n, m: {"mask": _scattered(*lead, n, m)},
    "causal": lambda lead, n, m: {"mask": causal},
    "a function of positions": lambda lead, n, m: {"mask": not_thirds},
    "bias n m": lambda lead, n, m: {"bias": _normal(n, m)},
    "bias 1 m": lambda lead, n, m: {"bias": _normal(1, m)},
    "bias for each head": lambda lead, n, m: {"bias": _normal(*lead[-1:], n, m)},
    "bias of −∞": lambda lead, n, m: {"bias": _shut(n, m)},
    "bias by position": lambda lead, n, m: {"bias": falling},
    "mask and bias": lambda lead, n, m: {"mask": causal, "bias": _normal(n, m)},
    "both, one by position": lambda lead, n, m: {"mask": _blind_in_row_1(n, m), "bias": falling},
}
RULES = {"causal": lambda q, k: k <= q, "a function of positions": lambda q, k: (q + 2 * k) % 3 > 0}
RULES["mask and bias"] = RULES["causal"]


def prepare(reader, lead, n, m):
    """The options of a call, and what they mean as arrays of the full shape."""
    options, full = READERS[reader](lead, n, m), (*lead, n, m)
    q_pos, k_pos = range(2, 2 + n), range(1, 1 + m)  # positions are not slots
    if any(not isinstance(x, Tensor) for x in options.values()):
        options |= {"q_pos": q_pos, "k_pos": k_pos}
    mask, bias = options.get("mask"), options.get("bias")
    if mask is None:
        allowed = np.ones((n, m), bool)
    elif isinstance(mask, Tensor):
        allowed = mask.numpy()
    else:
        allowed = np.array([[RULES[reader](q, k) for k in k_pos] for q in q_pos])
    if bias is None:
        added = np.zeros((n, m))
    elif isinstance(bias, Tensor):
        added = bias.numpy().copy()
        options["bias"] = bias.requires_grad_()
    else:
        added = np.array([[abs(q - k) * -0.3 for k in k_pos] for q in q_pos])
    return options, np.broadcast_to(allowed, full), np.broadcast_to(added, full)


def check_against_loops(lead, size, reader, beta) -> None:
    (q_lead, k_lead), (n, m, d, e) = LEADS[lead], SIZES[size]
    inputs = draw(q_lead, k_lead, n, m, d, e)
    options, allowed, added = prepare(reader, q_lead, n, m)
    d_read, d_weights = _normal(*q_lead, n, e), _normal(*q_lead, n, m)
    right = by_loops(
        *(x.detach().numpy() for x in inputs.values()),
        allowed,
        added,
        beta,
        d_read.numpy(),
        d_weights.numpy(),
    )

    ours = attend(**inputs, **options, beta=beta)
    if isinstance(options.get("bias"), Tensor):
        inputs["bias"] = options["bias"]
    grads = gradients(
        (ours.output * d_read).sum() + (ours.weights * d_weights).sum(), inputs.values()
    )

    assert_near(ours.output.detach(), right.read, 1e-10)
    assert_near(ours.weights.detach(), right.weights, 1e-10)
    for (name, x), grad in zip(inputs.items(), grads, strict=True):
        assert_near(grad, torch.as_tensor(right.grads[name]).sum_to_size(x.shape), 1e-10)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lead", LEADS)
def test_attending_agrees_with_loops_over_every_query_and_key(lead, size, reader):
    check_against_loops(lead, size, reader, None)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("beta", [0, 1e-3, 5, 1e3, INF], ids="beta={:g}".format)
def test_attending_agrees_with_loops_for_beta_from_nothing_to_infinity(beta, reader):
    check_against_loops("b h n d, grouped", "cross", reader, beta)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("beta", "limit"),
    [(1e-3, 1e-14), (None, 1e-14), (5, 1e-13), (1e3, 1e-11)],
    ids=["beta=0.001", "beta=default", "beta=5", "beta=1000"],
)
def test_attending_agrees_with_fifty_digits(beta, limit, size):
    n, m, d, e = SIZES[size]
    inputs = draw((), (), n, m, d, e)
    mask = torch.ones(n, m, dtype=torch.bool).tril(1)
    bias, d_read = _normal(n, m).requires_grad_(), _normal(n, e)
    read = attend(**inputs, mask=mask, bias=bias, beta=beta).output
    leaves = [*inputs.values(), bias]
    grads = gradients((read * d_read).sum(), leaves)

    with mpmath.workdps(50):
        numbers = [mpmath.matrix(x.tolist()) for x in leaves]

        def exactly(q, k, v, bias) -> mpmath.matrix:
            out = mpmath.matrix(n, e)
            for i in range(n):
                keys = [j for j in range(m) if mask[i, j]]
                scale = 1 / mpmath.sqrt(d) if beta is None else mpmath.mpf(beta)
                raw = [scale * mpmath.fdot(q[i, :], k[j, :]) + bias[i, j] for j in keys]
                terms = [mpmath.exp(s - max(raw)) for s in raw]
                for x in range(e):
                    out[i, x] = mpmath.fdot(terms, [v[j, x] for j in keys]) / sum(terms)
            return out

        def loss(*numbers):
            out = exactly(*numbers)
            return mpmath.fsum(
                out[i, x] * mpmath.mpf(float(d_read[i, x])) for i in range(n) for x in range(e)
            )

        assert_near(read.detach(), np.array(exactly(*numbers).tolist(), float), limit)
        step = mpmath.mpf(10) ** -20  # central differences are then right to about 40 digits
        for x, grad in zip(numbers, grads, strict=True):
            slopes = np.zeros(grad.shape)
            for at in np.ndindex(*grad.shape):
                here = x[at]
                x[at] = here + step
                up = loss(*numbers)
                x[at] = here - step
                slopes[at] = float((up - loss(*numbers)) / (2 * step))
                x[at] = here
            assert_near(grad, slopes, limit, least=1e-2)  # a hard softmax has next to none


# Precision


@pytest.mark.parametrize("attention", [attend, attend_fused])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_scores_below_any_finite_fill_still_beat_a_masked_key(dtype, attention):
    q, k = torch.tensor([[1e5]], dtype=dtype), torch.tensor([[-1e5], [-1e5], [1e5]], dtype=dtype)
    v = torch.tensor([[1.0], [2.0], [70.0]], dtype=dtype)
    shut = torch.tensor([[True, True, False]])
    # Scores of −1e10, −1e10 and 1e10: −1e9, put in place of the last or added, would let it win.
    ways = {
        "bool": {"mask": shut},
        "predicate": {"mask": sinks(2), "q_pos": range(1), "k_pos": range(3)},
        "bias": {"bias": torch.zeros(1, 3, dtype=dtype).masked_fill(~shut, -INF)},
        "nowhere": {"k_pos": torch.tensor([0, 1, -1])},
    }
    for name, options in ways.items():
        out = attention(q, k, v, **options, beta=1)
        read = out if attention is attend_fused else out.output
        assert read.item() == pytest.approx(1.5, rel=1e-6), name


def test_differences_between_huge_scores_are_kept_exactly():
    # ±1e10 + j is exact in float64, so the weights must be those of the scores j alone.
    for size in (1e5, -1e5, 1e10, -1e10):
        q = torch.tensor([[abs(size), 1.0]]).double()
        k = torch.tensor([[math.copysign(1.0, size), float(j)] for j in range(4)]).double()
        weights = attend(q, k, torch.eye(4).double(), beta=1).weights
        right = np.exp(np.arange(4) - 3.0)
        assert_near(weights, (right / right.sum())[None], 1e-14)


@pytest.mark.parametrize("reader", ["all", "causal", "bool n m, one blind", "bias n m"])
@pytest.mark.parametrize("beta", [0, None, 5, INF], ids="beta={}".format)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_a_narrow_read_is_the_float64_read_rounded_once(dtype, beta, reader):
    lead, (n, m, d, e) = (2, 2), (7, 33, 16, 5)
    inputs = draw(lead, lead, n, m, d, e, dtype)
    options, _, _ = prepare(reader, lead, n, m)
    ours = attend(**inputs, **options, beta=beta)
    right = attend(**{name: x.double() for name, x in inputs.items()}, **options, beta=beta)
    assert ours.output.dtype == ours.weights.dtype == dtype
    # Half a unit in the last place, and a little for float32 inside; subnormals of float16.
    rtol = 0.51 * torch.finfo(dtype).eps if dtype != torch.float32 else 1e-5
    for narrow, wide in zip(ours, right, strict=True):
        torch.testing.assert_close(narrow.double(), wide, rtol=rtol, atol=2e-6)


def test_float64_is_never_narrowed_on_the_way():
    inputs = draw((2,), (2,), 6, 9, 8, 8)
    wide, narrow = attend(**inputs), attend(**{name: x.float() for name, x in inputs.items()})
    right = by_loops(
        *(x.detach().numpy() for x in inputs.values()),
        np.ones((2, 6, 9), bool),
        np.zeros((2, 6, 9)),
        None,
        np.zeros((2, 6, 8)),
        np.zeros((2, 6, 9)),
    )
    assert_near(wide.weights.detach(), right.weights, 1e-14)
    with pytest.raises(AssertionError):  # the limit above tells float32 from float64
        assert_near(narrow.weights.detach(), right.weights, 1e-10)


# β = ∞


def hard(scores: list[float], dtype=torch.float64, **options) -> list[float]:
    """The weights that one query puts on keys with these scores."""
    k = torch.tensor(scores, dtype=dtype)[:, None]
    return attend(torch.ones(1, 1, dtype=dtype), k, k, beta=INF, **options).weights[0].tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_at_infinite_beta_only_keys_within_rounding_of_the_best_share(dtype):
    eps = torch.finfo(dtype).eps
    assert hard([1, 3, 2], dtype) == [0, 1, 0]
    assert hard([3, 3, 2], dtype) == [0.5, 0.5, 0]
    assert hard([-3, -3, -3, -4], dtype) == pytest.approx([1 / 3] * 3 + [0])
    assert hard([0, 0], dtype) == [0.5, 0.5]
    assert hard([1, 1 + eps], dtype) == [0.5, 0.5]
    assert hard([1, 1.001], dtype) == [0, 1]
    assert hard([1, 1 + 100 * eps], dtype) == [0, 1]
    assert hard([1e5, 1e5 + 1], dtype) == [0, 1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_sums_of_one_set_of_products_in_any_order_tie_at_infinite_beta(dtype):
    products = torch.randn(16, dtype=dtype)
    k = torch.stack([products[torch.randperm(16)] for _ in range(40)])
    weights = attend(torch.ones(1, 16, dtype=dtype), k, k, beta=INF).weights
    assert_near(weights, torch.full((1, 40), 1 / 40), 1e-6)


def test_at_infinite_beta_the_best_key_is_sought_among_the_readable():
    shut = torch.tensor([[True, False, True]])
    assert hard([1, 3, 2], mask=shut) == [0, 0, 1]
    assert hard([1, 3, 2], bias=torch.tensor([[0.0, -INF, 0.0]])) == [0, 0, 1]
    assert hard([1, 3, 2], mask=torch.zeros(1, 3, dtype=torch.bool)) == [0, 0, 0]
    # softmax(β s + bias) → the best, in proportion to e^bias
    assert hard([3, 3, 2], bias=torch.tensor([[0.0, math.log(3), 9.0]])) == pytest.approx(
        [0.25, 0.75, 0], rel=1e-6
    )


@pytest.mark.parametrize("attention", [attend, attend_fused])
def test_at_infinite_beta_gradients_flow_to_the_values_only(attention):
    inputs, bias = draw((2,), (2,), 3, 4, 5, 5), _normal(3, 4).requires_grad_()
    with torch.no_grad():
        inputs["k"][:, 1:] = inputs["k"][:, :1]  # all tie, so the bias decides their shares
    out = attention(**inputs, bias=bias, beta=INF)
    read = out if attention is attend_fused else out.output
    to_q, to_k, to_v, to_bias = gradients(read.sum(), [*inputs.values(), bias])
    assert not to_q.any() and not to_k.any() and not to_bias.any()
    assert to_v.sum().item() == pytest.approx(2 * 3 * 5)


def test_beta_approaches_both_of_its_limits():
    inputs = draw((2,), (2,), 5, 6, 4, 4)
    for near, limit in ((1e-9, 0), (1e9, INF)):
        weights, at_limit = (attend(**inputs, beta=beta).weights for beta in (near, limit))
        assert_near(weights.detach(), at_limit.detach(), 1e-7)


# Queries that may read nothing, and tokens that are nowhere


def _nothing_to_read(way: str, n: int, m: int) -> dict:
    """Options under which queries 0 and 2 may read nothing."""
    blind = torch.zeros(n, dtype=torch.bool)
    blind[[0, 2]] = True
    if way == "bool":
        return {"mask": ~blind[:, None].expand(n, m)}
    if way == "predicate":  # nothing behind position 0, and 7 is further than the window
        q_pos = torch.tensor([0, 4, 99, 3, 2])
        return {"mask": window(3) & ~sinks(1) & causal, "q_pos": q_pos, "k_pos": range(m)}
    if way == "bias":
        return {"bias": torch.zeros(n, m).double().masked_fill(blind[:, None], -INF)}
    if way == "nowhere":
        return {"q_pos": torch.where(blind, -1, torch.arange(n)), "k_pos": range(m)}
    raise KeyError(way)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("attention", [attend, attend_fused])
@pytest.mark.parametrize("beta", [0, None, INF], ids="beta={}".format)
@pytest.mark.parametrize("way", ["bool", "predicate", "bias", "nowhere"])
def test_a_query_that_may_read_nothing_reads_zeros_with_finite_gradients(way, beta, attention):
    n, m = 5, 6
    inputs = draw((2, 4), (2, 2), n, m, 4, 3)
    with torch.autograd.detect_anomaly(check_nan=True):
        out = attention(**inputs, **_nothing_to_read(way, n, m), beta=beta)
        read = out if attention is attend_fused else out.output
        grads = gradients(read.square().sum(), inputs.values())
    assert not read[..., [0, 2], :].any()
    assert read[..., [1, 3, 4], :].all()
    assert all(grad.isfinite().all() for grad in grads)
    assert not grads[0][..., [0, 2], :].any() and grads[2].any()
    if attention is attend:
        sums = out.weights.detach().sum(-1)
        assert not sums[..., [0, 2]].any()
        assert_near(sums[..., [1, 3, 4]], torch.ones(2, 4, 3), 1e-12)


@pytest.mark.parametrize("beta", [0, None, INF], ids="beta={}".format)
@pytest.mark.parametrize("biased", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("masked", [False, True], ids=["no mask", "mask"])
def test_without_gradients_the_same_bits_are_read(masked, biased, beta):
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in "qkv")
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    mask[2] = False
    bias = torch.randn(3, 5, 5) if biased else None
    said = {"mask": mask if masked else None, "bias": bias, "beta": beta}
    before = [x.clone() for x in (q, k, v, mask)]
    quick = attend(q, k, v, **said)
    slow = attend(*(x.clone().requires_grad_() for x in (q, k, v)), **said)
    assert quick.output.equal(slow.output) and quick.weights.equal(slow.weights)
    assert all(x.equal(was) for x, was in zip((q, k, v, mask), before, strict=True))
    assert bool(quick.weights[:, :, 2].any()) is not masked


@pytest.mark.parametrize("attention", [attend, attend_fused])
def test_with_no_keys_at_all_every_query_reads_zeros(attention):
    inputs = draw((2,), (2,), 3, 0, 4, 5)
    for options in ({}, {"mask": torch.ones(3, 0, dtype=torch.bool)}, {"beta": INF}, {"beta": 0}):
        out = attention(**inputs, **options)
        read = out if attention is attend_fused else out.output
        assert read.shape == (2, 3, 5) and not read.any()


NOWHERE_OPTIONS = {
    "no mask": {},
    "causal": {"mask": causal},
    "~causal": {"mask": ~causal | window(1)},
    "bool": {"mask": torch.ones(5, 8, dtype=torch.bool)},
    "bias": {"bias": torch.arange(40.0).reshape(5, 8).double().sin()},
    "beta=0": {"beta": 0},
    "beta=inf": {"beta": INF},
}


@pytest.mark.parametrize("attention", [attend, attend_fused])
@pytest.mark.parametrize("said", NOWHERE_OPTIONS)
@pytest.mark.parametrize("lead", ["n d", "h n d, grouped", "b h n d, grouped", "a b h n d"])
def test_nan_in_keys_that_are_nowhere_changes_neither_reads_nor_gradients(lead, said, attention):
    q_lead, k_lead = LEADS[lead]
    n, m, gone = 5, 8, [0, 3, 7]
    here = [j for j in range(m) if j not in gone]
    inputs = draw(q_lead, k_lead, n, m, 4, 3)
    q_pos, k_pos = torch.arange(1, 1 + n), torch.arange(m)
    k_pos[gone] = -1
    d_read = _normal(*q_lead, n, 3)
    options = NOWHERE_OPTIONS[said]

    def read(q, k, v, options, **positions):
        out = attention(q, k, v, **options, **positions)
        return out if attention is attend_fused else out.output

    q, k, v = inputs.values()
    spoilt = [q, *(x.detach().index_fill(-2, torch.tensor(gone), math.nan) for x in (k, v))]
    spoilt = [x.detach().requires_grad_() for x in spoilt]
    ours = read(*spoilt, options, q_pos=q_pos, k_pos=k_pos)
    grads = gradients((ours * d_read).sum(), spoilt)

    # The same call without the keys that are nowhere.
    few = {x: y[..., here] if isinstance(y, Tensor) else y for x, y in options.items()}
    right = read(q, k[..., here, :], v[..., here, :], few, q_pos=q_pos, k_pos=k_pos[here])
    right_grads = gradients((right * d_read).sum(), [q, k, v])
    assert_near(ours.detach(), right.detach(), 1e-12)
    for grad, wanted in zip(grads, right_grads, strict=True):
        assert_near(grad, wanted, 1e-12)
    assert not grads[1][..., gone, :].any() and not grads[2][..., gone, :].any()


@pytest.mark.parametrize("attention", [attend, attend_fused])
@pytest.mark.parametrize("beta", [0, None, INF], ids="beta={}".format)
def test_queries_that_are_nowhere_read_zeros_even_when_they_are_nan(beta, attention):
    q, k, v = draw((2, 2), (2, 2), 4, 4, 3, 3).values()
    q = q.detach().index_fill(-2, torch.tensor([1]), math.nan).requires_grad_()
    positions = torch.tensor([0, -1, 2, 3])
    for mask in (None, causal, ~causal, torch.ones(4, 4, dtype=torch.bool)):
        out = attention(q, k, v, mask=mask, q_pos=positions, k_pos=range(4), beta=beta)
        read = out if attention is attend_fused else out.output
        assert not read[..., 1, :].any() and read.isfinite().all()
        assert all(g.isfinite().all() for g in gradients(read.sum(), (q, k, v)))


@pytest.mark.parametrize("attention", [attend, attend_fused])
def test_positions_of_a_batch_are_each_sequences_own(attention):
    q, k, v = draw((3, 4), (3, 2), 4, 5, 4, 3).values()
    q_pos = torch.tensor([[0, 1, 2, 3], [5, 4, -1, 1], [2, 2, 9, 0]])
    k_pos = torch.tensor([[0, 1, 2, 3, 4], [7, -1, 1, 0, 3], [4, 3, 2, 1, 0]])

    def slope(q, k):  # a bias has the axes b h n m
        return (q[..., :, None] - k[..., None, :]).abs().mul(-0.5).unsqueeze(-3)

    def read(q, k, v, **options):
        out = attention(q, k, v, mask=causal, bias=slope, **options)
        return out if attention is attend_fused else out.output

    together = read(q, k, v, q_pos=q_pos, k_pos=k_pos)
    alone = [read(q[i], k[i], v[i], q_pos=q_pos[i], k_pos=k_pos[i]) for i in range(3)]
    assert_near(together.detach(), torch.stack(alone).detach(), 1e-12)


# The fast paths. `explain` says which one is taken, so that no test checks another by mistake.

BOOL = torch.arange(35).reshape(5, 7) % 3 > 0
BOOL[1] = False
WAVES = torch.arange(35.0).reshape(5, 7).double().sin() * 2
SCATTERED = {"q_pos": torch.tensor([3, -1, 0, 5]), "k_pos": torch.tensor([5, 0, -1, 2, 3, 4])}


def _at(q_first, q_stop, k_first, k_stop, mask) -> dict:
    return {"mask": mask, "q_pos": range(q_first, q_stop), "k_pos": range(k_first, k_stop)}


def _causal_at(*ends) -> dict:
    return _at(*ends, causal)


ONLY_VALUES = "SDPA with a mask: only an expression"
BIAS = "SDPA with the bias"
TILES = "SDPA tile by tile"
PATHS = {  # n, m, the words of the explanation, options
    "whole": (9, 13, "SDPA: nothing is masked", {}),
    "whole, all of it behind": (7, 7, "SDPA: causal reads everything", _causal_at(20, 27, 0, 7)),
    "causal_square": (11, 11, "SDPA, causal flag", {"mask": causal}),
    "causal_square, further on": (11, 11, "SDPA, causal flag", _causal_at(4, 15, 4, 15)),
    "causal_square, cut down": (11, 11, "SDPA, causal flag", {"mask": causal & window(11)}),
    "dense, as many keys, further back": (7, 7, "mask: causal over 7 × 7", _causal_at(3, 10, 0, 7)),
    "dense, behind a cache": (5, 13, "mask: causal over 5 × 13", _causal_at(8, 13, 0, 13)),
    "dense, some blind": (9, 9, "mask: causal & ~sinks(3) over", {"mask": causal & ~sinks(3)}),
    "dense, all blind": (5, 7, "mask: causal reads nothing", _causal_at(0, 5, 9, 16)),
    "dense, bool n m": (5, 7, ONLY_VALUES, {"mask": BOOL}),
    "dense, bool 1 m": (5, 7, ONLY_VALUES, {"mask": torch.arange(7)[None] != 2}),
    "dense, bool n 1": (5, 7, ONLY_VALUES, {"mask": torch.arange(5)[:, None] != 2}),
    "dense, function": (5, 5, ONLY_VALUES, {"mask": not_thirds}),
    "dense, bias n m": (5, 7, BIAS, {"bias": WAVES}),
    "dense, bias 1 m": (5, 7, BIAS, {"bias": WAVES[:1]}),
    "dense, bias n 1": (5, 7, BIAS, {"bias": WAVES[:, :1]}),
    "dense, bias of −∞": (5, 7, BIAS, {"bias": WAVES.masked_fill(~BOOL, -INF)}),
    "dense, bias and mask": (5, 7, BIAS, {"bias": WAVES, **_causal_at(3, 8, 0, 7)}),
    "dense, bias by position": (7, 7, BIAS, {"mask": causal, "bias": falling}),
    "dense, some nowhere": (4, 6, "positions are a tensor", {"mask": causal, **SCATTERED}),
    "tiled, window": (515, 515, TILES, {"mask": causal & window(40)}),
    "tiled, in pieces": (301, 905, TILES, _at(604, 905, 0, 905, causal & (window(70) | sinks(3)))),
    "tiled, some blind": (513, 515, TILES, _at(3, 516, 0, 515, window(30) & ~sinks(200))),
    "plain, beta=0": (5, 7, "plain, in blocks of rows: β = 0", {"beta": 0}),
    "plain, beta=inf": (5, 7, "plain, in blocks of rows: β = inf", {"beta": INF}),
}
FUSED_LEADS = {
    "n d": ((), ()),
    "b h n d": ((2, 2), (2, 2)),
    "b h n d, grouped": ((1, 6), (1, 2)),
    "a b h n d, grouped": ((1, 2, 2), (1, 2, 1)),
}
WIDTHS = {"d=e": (8, 8), "d<e": (3, 5), "d>e": (7, 2)}
LIMITS = {torch.float64: 1e-11, torch.float32: 1e-5, torch.bfloat16: 2.5e-2}
DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in LIMITS}


def check_fused(path, lead, widths, dtype, beta=None) -> None:
    """`attend_fused` against `attend` in float64 on the same numbers, gradients included."""
    n, m, words, said = PATHS[path]
    (q_lead, k_lead), (d, e) = FUSED_LEADS[lead], WIDTHS[widths]
    inputs, options = draw(q_lead, k_lead, n, m, d, e, dtype), {"beta": beta, **said}
    exact = {name: x.detach().double().requires_grad_() for name, x in inputs.items()}
    exact_options = dict(options)
    leaves, exact_leaves = list(inputs.values()), list(exact.values())
    if isinstance(options.get("bias"), Tensor):
        options["bias"] = options["bias"].to(dtype, copy=True).requires_grad_()
        exact_options["bias"] = options["bias"].detach().double().requires_grad_()
        leaves.append(options["bias"])
        exact_leaves.append(exact_options["bias"])
    d_read = _normal(*q_lead, n, e).to(dtype)

    why = explain_kernel(**inputs, **options)
    assert words in why
    read = attend_fused(**inputs, **options)
    right = attend(**exact, **exact_options).output
    assert read.dtype == dtype
    assert_near(read.detach(), right.detach(), LIMITS[dtype])
    grads = gradients((read * d_read).sum(), leaves)
    for grad, wanted in zip(
        grads, gradients((right * d_read.double()).sum(), exact_leaves), strict=True
    ):
        assert grad.dtype == dtype
        assert_near(grad, wanted, LIMITS[dtype], least=0.1)  # one may be 0, as by a bias (n 1)


@pytest.mark.parametrize("lead", FUSED_LEADS)
@pytest.mark.parametrize("path", PATHS)
def test_every_fast_path_reads_what_the_plain_one_reads(path, lead):
    check_fused(path, lead, "d<e", torch.float64)


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("path", PATHS)
def test_fast_paths_are_as_exact_as_their_dtype_at_any_widths(path, dtype, widths):
    check_fused(path, "b h n d, grouped", widths, DTYPES[dtype])


@pytest.mark.parametrize("beta", [1e-3, 5, 100], ids="beta={:g}".format)
@pytest.mark.parametrize("path", [path for path in PATHS if "plain" not in path])
def test_fast_paths_take_any_finite_beta(path, beta):
    check_fused(path, "b h n d", "d>e", torch.float64, beta)


@pytest.mark.parametrize("name", ["mask", "bias"])
@pytest.mark.parametrize("shape", [(), (7,)], ids=["one for all", "one a key"])
def test_masks_and_biases_of_fewer_than_two_axes_broadcast_like_any_other(shape, name):
    inputs = draw((2, 2), (2, 2), 5, 7, 4, 3)
    said = BOOL[3] if name == "mask" else WAVES[3]
    said = said.reshape(-1)[: math.prod(shape)].reshape(shape)
    call = Call.check(**inputs, **{name: said})
    right = attend(**inputs, **{name: said.expand(5, 7)}).output
    assert_near(choose(call).kernel(call).detach(), right.detach(), 1e-12)
    assert_near(plain_in_rows(call, 10).detach(), right.detach(), 1e-12)


@pytest.mark.parametrize("beta", [0, None, INF], ids="beta={}".format)
@pytest.mark.parametrize("reader", READERS)
def test_the_plain_path_in_blocks_of_rows_is_the_plain_path(reader, beta):
    lead, (n, m, d, e) = (2, 2), SIZES["more queries"]
    inputs = draw(lead, lead, n, m, d, e)
    options, _, _ = prepare(reader, lead, n, m)
    one_row, two_rows = 1, 4 * m * 2
    right = attend(**inputs, **options, beta=beta).output
    for entries in (one_row, two_rows):
        read = plain_in_rows(Call.check(**inputs, **options, beta=beta), entries)
        torch.testing.assert_close(read, right, rtol=0, atol=1e-15)


# What does not fit is refused in a sentence with the numbers in it. The shape checks that pytest
# switches on would speak first, so the sentences are collected by a Python without them.

# x makes a tensor of a shape; q is (3 8), k is (5 8). The words are of the sentence expected.
WRONG_VALUES = {
    "n ≠ m under a mask, no positions": ("q, k, k, mask=causal", "3 5 causal q_pos k_pos"),
    "n ≠ m, one position missing": ("q, k, k, mask=causal, q_pos=range(3)", "3 5 k_pos"),
    "n ≠ m under a bias, no positions": ("q, k, k, bias=lambda q, k: q", "3 5 q_pos k_pos"),
    "keys of another width": ("q, x(5, 6), x(5, 6)", "8 6"),
    "fewer values than keys": ("q, k, x(4, 8)", "5 4"),
    "another number of axes": ("x(2, 3, 8), k, k", "3 2"),
    "one axis": ("x(8), x(8), x(8)", "1"),
    "another batch": ("x(2, 4, 3, 8), x(5, 4, 3, 8), x(5, 4, 3, 8)", "(2,) (5,)"),
    "heads that do not divide": ("x(6, 3, 8), x(4, 5, 8), x(4, 5, 8)", "6 4"),
    "more key heads than query heads": ("x(2, 3, 8), x(4, 5, 8), x(4, 5, 8)", "2 4"),
    "key heads unlike value heads": ("x(6, 3, 8), x(3, 5, 8), x(2, 5, 8)", "6 3 2"),
    "a mask of another shape": ("q, k, k, mask=x(5, 3) > 0", "(5, 3) (3, 5)"),
    "a mask with too many axes": ("q, k, k, mask=x(1, 3, 5) > 0", "(1, 3, 5) (3, 5)"),
    "a bias of another shape": ("q, k, k, bias=x(3, 4)", "(3, 4) (3, 5)"),
    "too few positions": ("q, k, k, mask=causal, q_pos=range(2), k_pos=range(5)", "q_pos 2 3"),
    "a range of steps": ("q, q, q, mask=causal, q_pos=range(0, 6, 2)", "q_pos range(0, 6, 2)"),
    "a range from below 0": ("q, q, q, mask=causal, k_pos=range(-1, 2)", "k_pos range(-1, 2)"),
    "too few positions in a tensor": ("q, k, k, k_pos=torch.arange(4)", "k_pos (4,) 5"),
    "positions of another batch": ("*[x(2, 1, 3, 8)] * 3, k_pos=x(5, 3).long()", "(5, 3) (2, 3)"),
    "beta below 0": ("q, k, k, beta=-0.5", "beta -0.5"),
    "beta not a number": ("q, k, k, beta=float('nan')", "beta nan"),
}
WRONG_TYPES = {
    "mixed dtypes": ("q, k.double(), k.double()", "float32 float64"),
    "a mask of numbers": ("q, k, k, mask=x(3, 5)", "bool float32 bias="),
    "a mask that is a word": ("q, q, q, mask='causal'", "Mask.parse('causal')"),
    "positions that are not whole": ("q, q, q, q_pos=x(3)", "q_pos float32"),
    "positions that are bool": ("q, q, q, q_pos=x(3) > 0", "q_pos bool"),
    "positions in a list": ("q, q, q, q_pos=[0, 1, 2]", "q_pos list"),
}
WRONG = WRONG_VALUES | WRONG_TYPES

COLLECT = """
import json, sys, torch
from regard import attend, attend_fused, causal

def x(*shape):
    return torch.zeros(shape)

def said(f, arguments):
    try:
        eval(f"f({arguments})", globals() | {"f": f, "q": x(3, 8), "k": x(5, 8)})
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""

lines = json.load(sys.stdin)
print(json.dumps([[said(f, line) for f in (attend, attend_fused)] for line in lines]))
"""


@pytest.fixture(scope="module")
def sentences() -> dict[str, list[list[str]]]:
    lines = json.dumps([arguments for arguments, _ in WRONG.values()])
    run = subprocess.run(
        [sys.executable, "-c", COLLECT], input=lines, capture_output=True, text=True, check=True
    )
    return dict(zip(WRONG, json.loads(run.stdout), strict=True))


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_refused_in_a_sentence_with_the_numbers_in_it(mistake, sentences):
    _, words = WRONG[mistake]
    plain, fused = sentences[mistake]
    assert plain == fused
    error, sentence = plain
    assert error == ("TypeError" if mistake in WRONG_TYPES else "ValueError"), sentence
    for word in re.findall(r"\S*\([^)]*\)|\S+", words):  # a shape or a range is one word
        assert word in sentence


def test_weights_stay_float32_under_autocast_and_shapes_need_no_values():
    q, k, v = (torch.randn(1, 2, 6, 8) for _ in "qkv")
    with torch.autocast("cpu", torch.bfloat16):
        ours = attend(q, k, v, mask=causal)
    exact = attend(q, k, v, mask=causal)
    assert torch.equal(ours.weights, exact.weights) and torch.equal(ours.output, exact.output)
    meta = attend(*(x.to("meta") for x in (q, k, v)))
    assert meta.output.shape == (1, 2, 6, 8) and meta.weights.shape == (1, 2, 6, 6)


def test_transforms_of_functions_go_through_it():
    """Also where the mask is what they vary, so that scores are one for all of them."""
    q, k, v = torch.randn(3, 5, 8).unbind()
    masks = torch.rand(4, 5, 5) > 0.4
    one_by_one = torch.stack([attend(q, k, v, mask=mask).output for mask in masks])
    at_once = torch.func.vmap(lambda mask: attend(q, k, v, mask=mask).output)(masks)
    torch.testing.assert_close(at_once, one_by_one)
    with torch.no_grad():
        again = torch.func.vmap(lambda mask: attend(q, k, v, mask=mask).output)(masks)
    assert torch.equal(again, at_once)

    def total(q):
        return attend(q, k, v, mask=masks[0]).output.square().sum()

    by_hand = torch.autograd.grad(total(q.requires_grad_()), q)[0]
    for transform in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(total)(q.detach()), by_hand)


def test_slopes_may_be_taken_forwards_under_a_mask():
    q, k, v, along = torch.randn(4, 1, 2, 6, 4, dtype=torch.float64)
    with forward_ad.dual_level():
        read = attend(forward_ad.make_dual(q, along), k, v, mask=causal).output
        forwards = forward_ad.unpack_dual(read).tangent
    step = 1e-6
    ahead, behind = (attend(q + by * along, k, v, mask=causal).output for by in (step, -step))
    torch.testing.assert_close(forwards, (ahead - behind) / (2 * step), rtol=0, atol=1e-8)
