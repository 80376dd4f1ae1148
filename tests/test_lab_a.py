"""Claims about shapes, axes, scales and reach: their verdicts, and what turns each of them."""

import importlib
import json
import math
import re
from functools import cache, partial
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from golden import expect_error
from regard.attention import MultiHeadAttention, attend, attend_channels, window
from regard.attention.core import AttentionOutput
from regard.errors import UserError
from regard.lab.claims import load_claim
from regard.lab.evidence import DISPUTED, Evidence
from regard.lab.report import plain
from regard.models import BertConfig

NAMES = (
    "shapes-projection",
    "map-axis",
    "softmax-per-query",
    "parallel-cnn",
    "path-length",
    "any-length",
    "shapes-multihead",
    "softargmax-axis",
    "beta-scale",
    "divide-by-dk",
    "scale-dmodel",
    "attention-types",
)
DRAWN = tuple(name for name in NAMES if load_claim(name).plot is not None)
# Smaller than what the lab shows, where that takes long.
SMALL = {
    "any-length": {"times": 3},
    "beta-scale": {"widths": (4, 64, 1024), "samples": 128},
    "divide-by-dk": {"widths": (4, 64, 256), "steps": 30},
    "parallel-cnn": {"tokens": 16, "layers": 3},
}


def measured(name: str, **numbers) -> Evidence:
    return load_claim(name).measure(**(SMALL.get(name, {}) | numbers))


@cache
def found_at(name: str, seed: int) -> Evidence:
    return measured(name, seed=seed)


def module(name: str) -> ModuleType:
    return importlib.import_module(f"regard.lab.claims.{name.replace('-', '_')}")


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("name", NAMES)
def test_figures_come_to_the_verdict(name, seed):
    claim, evidence = load_claim(name), found_at(name, seed)
    assert claim.id == name
    assert evidence.verdict() == claim.verdict, [
        str(check) for _, checks in evidence.groups() for check in checks
    ]
    assert evidence.controls
    assert not any(control.ok for control in evidence.controls)
    assert len(evidence.deciding) <= 45
    assert json.loads(json.dumps(evidence.to_values()))["found"] == claim.verdict


@pytest.mark.parametrize("name", NAMES)
def test_questions_know_their_answers(name):
    for seed in range(20):
        question = load_claim(name).ask(np.random.default_rng(seed))
        assert question.text.count("$") % 2 == 0
        assert question.why
        assert question.right(question.answer)
        match question.answer:
            case str():
                assert question.answer in question.choices
                (other, *_) = (each for each in question.choices if each != question.answer)
            case tuple():
                other = (question.answer[0] * 1.5 + 1, *question.answer[1:])
            case number:
                other = number * 1.5 + 1
        assert not question.right(other)


@pytest.mark.parametrize("name", NAMES)
def test_words_leave_no_trace_of_tex_in_a_terminal(name):
    claim = load_claim(name)
    question = claim.ask(np.random.default_rng(0))
    for words in (claim.statement, claim.truth, question.text, question.why):
        assert not re.search(r"[\\${}]", plain(words)), plain(words)
        assert words.count("$") % 2 == 0


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_are_drawn(name):
    figure = load_claim(name).plot(found_at(name, 0))
    assert figure.axes


# What turns each verdict: the library with one thing wrong.


def over_queries(
    q: Tensor, k: Tensor, v: Tensor, *, beta: float | None = None, **_
) -> AttentionOutput:
    """Attention with its softmax along the wrong axis."""
    beta = q.shape[-1] ** -0.5 if beta is None else beta
    weights = (beta * q @ k.mT).softmax(-2)
    return AttentionOutput(weights @ v, weights)


def beta_unheard(*qkv: Tensor, beta: float | None = None, **options) -> AttentionOutput:
    return attend(*qkv, **options)


class Unturned(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


class WithoutTurn(MultiHeadAttention):
    def __init__(self, width: int, *args, **options) -> None:
        super().__init__(width, *args, **options)
        self.to_k = Unturned(width, width, bias=False)


class Steps(MultiHeadAttention):
    """A layer that goes from token to token."""

    def forward(self, x: Tensor, context: Tensor | None = None, **options) -> Tensor:
        reads = []
        for at in range(x.shape[-2]):
            waited = reads[-1][..., :1, :1] * 0 if reads else 0
            reads.append(super().forward(x[..., at : at + 1, :] + waited, x, **options))
        return torch.cat(reads, -2)


class Jumbled(MultiHeadAttention):
    @staticmethod
    def split(x: Tensor, heads: int) -> Tensor:
        return x.reshape(*x.shape[:-2], heads, x.shape[-2], -1)


class BetaUnheard(MultiHeadAttention):
    def __init__(self, *args, beta: float | None = None, **options) -> None:
        super().__init__(*args, **options)


class ScaledByModel(MultiHeadAttention):
    def __init__(self, width: int, heads: int, *, beta: float | None = None, **options) -> None:
        beta = width**-0.5 if beta is None else beta
        super().__init__(width, heads, beta=beta, **options)


class Deaf(MultiHeadAttention):
    """A layer that never reads another sequence."""

    def forward(self, x: Tensor, context: Tensor | None = None, **options) -> Tensor:
        return super().forward(x, **options)


def always_learned(**fields) -> BertConfig:
    return BertConfig(**(fields | {"pos_embed": "learned"}))


def with_channels_scaled_by_tokens(q: Tensor, k: Tensor, v: Tensor, *, beta: float) -> Tensor:
    return attend_channels(q, k, v)


@pytest.mark.parametrize(
    ("name", "part", "fault"),
    [
        ("shapes-projection", "MultiHeadAttention", WithoutTurn),
        ("map-axis", "attend", over_queries),
        ("map-axis", "attend_channels", with_channels_scaled_by_tokens),
        ("softmax-per-query", "attend", over_queries),
        ("parallel-cnn", "MultiHeadAttention", Steps),
        ("path-length", "MultiHeadAttention", partial(MultiHeadAttention, mask=window(2))),
        ("path-length", "layers_to_cover", lambda mask, n: n),
        ("any-length", "BertConfig", always_learned),
        ("shapes-multihead", "MultiHeadAttention", Jumbled),
        ("softargmax-axis", "attend", over_queries),
        ("softargmax-axis", "attend", beta_unheard),
        ("beta-scale", "attend", beta_unheard),
        ("divide-by-dk", "attend", beta_unheard),
        ("divide-by-dk", "MultiHeadAttention", BetaUnheard),
        ("scale-dmodel", "MultiHeadAttention", ScaledByModel),
        ("scale-dmodel", "MultiHeadAttention", BetaUnheard),
        ("attention-types", "MultiHeadAttention", Deaf),
        (
            "attention-types",
            "MultiHeadAttention",
            partial(MultiHeadAttention, attention=over_queries),
        ),
    ],
)
def test_a_fault_of_the_library_turns_the_verdict(name, part, fault, monkeypatch):
    monkeypatch.setattr(module(name), part, fault)
    if fault.__class__ is partial and "attention" in fault.keywords:
        # The watched weights come from the layer's own twin, which is to be as wrong.
        monkeypatch.setattr(over_queries, "plain", wrong_twin, raising=False)
    assert measured(name).verdict() == DISPUTED


def wrong_twin(call) -> AttentionOutput:
    return over_queries(call.q, call.k, call.v, beta=call.beta)


# Figures that others published, or that follow from another way to them.


def test_shapes_are_those_of_the_document():
    both = found_at("shapes-projection", 0).series
    assert both["tokens as columns"] == {name: [768, 6] for name in "QKV"}
    assert both["tokens as rows"] == {name: [6, 768] for name in "QKV"}
    steps = found_at("shapes-multihead", 0).series["steps"]
    assert steps["q per head"] == steps["z per head, tokens first"] == [1, 5, 12, 64]
    assert steps["map = softmax(β q kᵀ)"] == [1, 12, 5, 5]
    assert steps["z, heads side by side"] == [1, 5, 768]


def test_the_map_between_tokens_is_numpys():
    draw = torch.Generator().manual_seed(3)
    q, k = (torch.randn(5, 4, generator=draw, dtype=torch.float64).numpy() for _ in range(2))
    scores = np.exp(np.einsum("dq,dk->qk", q, k) / 5**0.5)
    found = measured("map-axis", width=5, tokens=4, seed=3).series["map"]
    np.testing.assert_allclose(found, scores / scores.sum(1, keepdims=True), rtol=1e-12)


def test_a_chain_is_as_long_as_its_longest_way():
    x = torch.ones(2, requires_grad=True)  # itself one step of the graph, which collects
    from regard.lab.counting import chain

    assert chain(x.exp()) == 2
    assert chain(x.exp().sin().exp() + x) == 5


@pytest.mark.parametrize(("kernel", "layers"), [(3, 100), (5, 50), (7, 34), (9, 25)])
def test_wider_kernels_need_fewer_layers(kernel, layers):
    evidence = measured("path-length", kernel=kernel)
    assert evidence.verdict() == "holds"
    found = evidence.series["convolution"]
    assert found.index(100) == layers
    assert found[1] == (kernel - 1) // 2


def test_a_learned_table_takes_what_is_within_it():
    found = measured("any-length", length=8, times=3).series
    taken = [n for n, felt in zip(found["lengths"], found["felt"]["learned"], strict=True) if felt]
    assert taken == [4, 8]
    assert found["lengths"][-1] == 24


def test_values_of_one_share_out_the_keys_among_the_queries():
    sums = measured("softargmax-axis", queries=3, keys=7).series["sums"]
    assert len(sums) == 3
    assert sum(sums) == pytest.approx(7)  # each key gives away a weight of one


def test_gradients_of_the_scales_are_those_of_torch():
    draw = torch.Generator().manual_seed(0)
    shapes = (5, 1, 16), (5, 6, 16), (5, 6, 8), (5, 1, 8)
    q, k, v, up = (torch.randn(s, generator=draw, dtype=torch.float64) for s in shapes)
    found = module("beta-scale").figures(q, k, v, up, 0.7)
    q.requires_grad_()
    read = scaled_dot_product_attention(q, k, v, scale=0.7)
    (slope,) = torch.autograd.grad((read * up).sum(), q)
    assert found["to q, mean"] == pytest.approx(float(slope.norm(dim=-1).mean()), rel=1e-10)


def test_scores_spread_as_the_width_says():
    found = found_at("divide-by-dk", 0).series
    for d, root, whole in zip(
        found["d"],
        found["standard deviation of scores, 1/√d"],
        found["standard deviation of scores, 1/d"],
        strict=True,
    ):
        assert root == pytest.approx(1, abs=0.2)
        assert whole == pytest.approx(root / math.sqrt(d), rel=1e-12)


def test_each_divisor_has_its_best_of_several_rates():
    found = found_at("divide-by-dk", 0).series
    tried = found["last loss by divisor and rate"]
    for name, losses in found["loss at the best rate, by divisor"].items():
        assert losses[-1] == min(x for x in tried[name].values() if x != "diverged")
        assert len(tried[name]) >= 4
    assert set(tried) == {"√d", "d", "nothing"}


def test_heads_divide_the_variance():
    found = found_at("scale-dmodel", 0).series
    for heads, by_model, by_head in zip(
        found["heads"], found["by √d_model"], found["by √(d_model / heads)"], strict=True
    ):
        assert by_model * heads == pytest.approx(by_head, rel=1e-12)


def test_equal_weights_and_one_key_are_the_ends_of_both_kinds():
    found = measured("attention-types", tokens=4).series
    for kind in ("self-attention", "cross-attention"):
        assert found[kind][0] == pytest.approx(1 / 4, abs=0.01)
        assert found[kind][-1] == pytest.approx(1, abs=0.05)


def test_answers_are_what_attention_computes():
    for seed in range(5):
        question = load_claim("softmax-per-query").ask(np.random.default_rng(seed))
        first, second, *_ = map(float, re.findall(r"-?\d+", question.text))
        scores = torch.tensor([[first], [second]], dtype=torch.float64)
        one = torch.ones(1, 1, dtype=torch.float64)
        weight = attend(one, scores, scores, beta=1.0).weights[0, 0]
        assert question.answer == pytest.approx(float(weight))

        question = load_claim("divide-by-dk").ask(np.random.default_rng(seed))
        d, score, *_ = map(float, re.findall(r"\d+", question.text))
        for by, answer in zip((math.sqrt(d), d), question.answer, strict=True):
            both = torch.tensor([[score], [0.0]], dtype=torch.float64)
            weight = attend(one, both, both, beta=1 / by).weights[0, 0]
            assert answer == pytest.approx(float(weight))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("path-length", {"kernel": 4}),
        ("path-length", {"distance": 2, "kernel": 7}),
        ("parallel-cnn", {"tokens": 4}),
        ("parallel-cnn", {"layers": 1}),
        ("any-length", {"times": 1}),
        ("scale-dmodel", {"heads": (2, 4)}),
    ],
)
def test_numbers_that_show_nothing_are_refused(name, numbers):
    with expect_error(UserError):
        measured(name, **numbers)
