"""Claims from max pooling to features of a CNN: verdicts, controls, questions, planted faults."""

import functools
import itertools
import json
import re

import mpmath
import numpy as np
import pytest
import torch

from golden import expect_error
from regard.attention import (
    ATTENTIONS,
    FEATURES,
    MASKS,
    PATTERNS,
    MultiHeadAttention,
    attend,
    causal,
)
from regard.attention.pos_embed import RelativeBias, sinusoidal_2d
from regard.errors import UserError
from regard.lab.claims import (
    cnn_features,
    decoder_order,
    equivariance_proof,
    head_formula,
    heads_as_kernels,
    key_noise,
    key_noise_mean,
    key_stretch,
    load_claim,
    maxpool_select,
    multihead_concat,
    order_blind,
)

NAMES = (
    "maxpool-select",
    "key-noise",
    "key-noise-mean",
    "key-stretch",
    "multihead-concat",
    "head-formula",
    "heads-as-kernels",
    "order-blind",
    "equivariance-proof",
    "decoder-order",
    "cnn-features",
)


@functools.cache
def measured(name, seed=0):
    """What a claim finds with no fault planted; measured once."""
    return load_claim(name).measure(seed=seed)


@pytest.mark.parametrize("seed", [1], ids="seed={}".format)
@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_is_found_and_every_control_fails(name, seed):
    claim = load_claim(name)
    found = measured(name, seed)
    assert found.verdict() == claim.verdict
    assert found.controls and not any(control.ok for control in found.controls)
    assert json.loads(json.dumps(found.to_values(), allow_nan=False))["found"] == claim.verdict
    assert 0 < len(found.deciding) <= 45


@pytest.mark.parametrize("name", NAMES)
def test_a_question_knows_its_answer_and_no_other(name):
    for seed in range(20):
        asked = load_claim(name).ask(np.random.default_rng(seed))
        answer = asked.answer
        assert asked.right(answer)
        if isinstance(answer, str):
            assert answer in asked.choices
            others = [choice for choice in asked.choices if choice != answer]
        elif isinstance(answer, tuple):
            others = [tuple(2 * part + 1 for part in answer), answer[:-1]]
        else:
            others = [2 * answer + 1, str(answer)]
        assert not any(asked.right(other) for other in others)
        assert asked.text.count("$") % 2 == 0 and "{}" not in asked.text


@pytest.mark.parametrize("name", [name for name in NAMES if load_claim(name).plot])
def test_a_picture_is_drawn_from_the_series(name, tmp_path):
    load_claim(name).plot(measured(name)).savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def with_beta(change):
    """attend with another β than was asked for."""
    return lambda q, k, v, *, beta=None, **rest: attend(q, k, v, beta=change(beta), **rest)


def against(q, k, v, **options):
    return attend(-q, k, v, **options)


def over_queries(q, k, v, *, beta, **options):
    weights = (beta * q @ k.mT).softmax(-2)
    return attend(q, k, v)._replace(output=weights @ v, weights=weights)


def causally(q, k, v, **options):
    return attend(q, k, v, **{**options, "mask": causal})


def interleaved(x, heads):
    return x.unflatten(-1, (-1, heads)).movedim(-1, -3)


def mirrored(self, q_pos, k_pos, straight=RelativeBias.bias):
    return straight(self, q_pos, k_pos).mT


FAULTS = {
    "maxpool-select": [(maxpool_select, "attend", with_beta(lambda beta: 1.0))],
    "key-noise": [
        (key_noise, "attend", with_beta(lambda beta: 2 * beta)),
        (key_noise, "attend", against),
    ],
    "key-noise-mean": [(key_noise_mean, "attend", with_beta(lambda beta: 2 * beta))],
    "key-stretch": [
        (key_stretch, "attend", against),
        (key_stretch, "attend", with_beta(lambda beta: 0.9 * beta)),
    ],
    "multihead-concat": [(MultiHeadAttention, "split", staticmethod(interleaved))],
    "head-formula": [(head_formula, "attend", over_queries)],
    "heads-as-kernels": [(RelativeBias, "bias", mirrored)],
    "order-blind": [(order_blind, "make_attention", lambda name, width: causally)],
    "equivariance-proof": [(equivariance_proof, "attend", causally)],
    "decoder-order": [("regard.models.decoder", "_mask", lambda config: None)],
    "cnn-features": [
        ("regard.models.vit", "_place", lambda config: sinusoidal_2d(config.grid, config.width)),
        (cnn_features, "cnn", lambda channels, depth, padding, seed: torch.nn.Identity()),
    ],
}


@pytest.mark.parametrize(
    ("name", "fault"), [(name, fault) for name, faults in FAULTS.items() for fault in faults]
)
def test_a_planted_fault_is_disputed(name, fault, monkeypatch):
    where, what, wrong = fault
    if isinstance(where, str):
        monkeypatch.setattr(f"{where}.{what}", wrong)
    else:
        monkeypatch.setattr(where, what, wrong)
    assert load_claim(name).measure().verdict() == "disputed"


@pytest.mark.parametrize(("inputs", "width"), [(3, 2), (4, 3), (5, 1)])
def test_the_chance_that_a_maximum_is_an_input_by_counting_all_cases(inputs, width):
    cases = list(itertools.product(range(inputs), repeat=width))  # who is largest where
    counted = sum(len(set(case)) == 1 for case in cases) / len(cases)
    assert counted == pytest.approx(inputs ** (1 - width))


def test_max_pooling_of_single_numbers_does_select_so_that_nothing_is_to_be_corrected():
    assert load_claim("maxpool-select").measure(width=1).verdict() == "disputed"


def test_max_pooling_returns_what_is_desired_as_often_as_counting_says():
    written = load_claim("maxpool-select").measure(inputs=3, width=2, draws=20_000).written[0]
    assert written.value == pytest.approx(3.0**-2, abs=0.01) and not written.ok


def test_the_change_of_the_read_follows_the_exact_weight_too():
    found = measured("key-noise").series
    a, sizes = found["weight"], np.array(found["β q·ε"])
    grown = a * np.exp(sizes) / (1 - a + a * np.exp(sizes))
    np.testing.assert_allclose(
        np.array(found["change"]) / found["change"][0],
        (grown - a) / (grown[0] - a),
        rtol=1e-9,
    )


def test_one_key_alone_is_refused_in_a_sentence():

    for name in ("key-noise", "key-noise-mean"):
        with expect_error(UserError):
            load_claim(name).measure(keys=1)


@pytest.mark.parametrize("u", [0.05, 0.3])
def test_the_mean_change_against_an_integral_with_mpmath(u):
    share = mpmath.mpf("0.2")

    def along(z):
        grown = share * mpmath.exp(u * z)
        return (grown / (1 - share + grown) - share) / (1 - share) * mpmath.npdf(z)

    exact = float(mpmath.quad(along, [-12, -4, 0, 4, 12]))
    assert key_noise_mean.expected(0.2, u) == pytest.approx(exact, rel=1e-6)
    assert exact == pytest.approx(0.5 * 0.2 * 0.6 * u**2, rel=u)


def test_one_draw_that_is_raised_against_the_query_disputes_it(monkeypatch):
    def once(q, k, v, **options):
        turned = q.clone()
        turned[0] *= -1.0 if len(q) > 1 else 1.0
        return attend(turned, k, v, **options)

    monkeypatch.setattr(key_stretch, "attend", once)
    assert load_claim("key-stretch").measure().verdict() == "disputed"


def test_a_stretched_key_rises_falls_or_stays_all_the_way():
    found = measured("key-stretch").series
    assert (np.diff(found["along"]) > 0).all()
    assert (np.diff(found["against"]) < 0).all()
    np.testing.assert_allclose(found["across"], found["across"][0], rtol=1e-12)


def test_the_loop_over_heads_against_einsum_in_numpy():
    layer = MultiHeadAttention(12, 3).double().requires_grad_(False)
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    q, k, v = (
        np.einsum("bnc,hdc->bhnd", x, to.weight.unflatten(0, (3, -1)))
        + to.bias.unflatten(0, (3, 1, -1)).numpy()
        for to in (layer.to_q, layer.to_k, layer.to_v)
    )
    powers = np.exp(np.einsum("bhnd,bhmd->bhnm", q, k) / 2)
    weights = powers / powers.sum(-1, keepdims=True)
    reads, maps = multihead_concat.by_head(layer, x)
    np.testing.assert_allclose(np.stack(maps, 1), weights, rtol=1e-10)
    np.testing.assert_allclose(np.stack(reads, 1), weights @ v, rtol=1e-10, atol=1e-12)


def test_the_shapes_of_the_formula():
    assert measured("head-formula").series == {
        "softmax(QᵀK)": [4, 6],
        "V": [5, 6],
        "heads side by side": [4, 10],
        "W^O as written": [6, 3],
        "W^O as it must be": [10, 7],
    }


def test_the_convolution_that_is_compared_with_is_that_of_numpy():
    x, taps = torch.randn(9, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    ours = heads_as_kernels.conv(x[None, :, None], taps[None, None])[0, :, 0]
    np.testing.assert_allclose(ours, np.correlate(x.numpy(), taps.numpy(), "valid"), rtol=1e-12)


def test_every_mixer_mask_and_pattern_of_the_library_is_asked_whether_it_is_blind_to_order():
    opened = {re.match(r"\w+", name).group() for name in order_blind.masks(3, 4)}
    assert opened == set(MASKS) | set(PATTERNS)
    mixers = [re.findall(r"[a-z]+", name) for name in order_blind.MIXERS]
    assert {mixer[0] for mixer in mixers} == set(ATTENTIONS)
    assert {mixer[1] for mixer in mixers if mixer[0] == "linear"} == set(FEATURES)


def test_all_masks_and_positions_break_equivariance_and_no_mixer_does():
    found = measured("order-blind").series
    assert max(found["blind to order"].values()) < 1e-12
    assert min([*found["masks"].values(), *found["positions"].values()]) > 0.01
    assert set(found["positions"]) == set(found["positions that move along"])


def test_the_map_of_shuffled_tokens_by_hand():
    first, moved, told = (np.array(each) for each in measured("equivariance-proof").series.values())
    order = equivariance_proof.shuffle(6, seeded())
    assert sorted(order.tolist()) == list(range(6))
    assert all(at != there for at, there in enumerate(order.tolist()))
    np.testing.assert_allclose(moved, told, rtol=1e-12)
    np.testing.assert_allclose(first.sum(0), 1)
    np.testing.assert_allclose(np.sort(moved, None), np.sort(first, None), rtol=1e-12)
    assert not np.allclose(moved, first)


def test_the_last_word_hears_of_the_order_from_the_second_causal_layer_on():
    found = load_claim("decoder-order").measure(layers=3, length=6).series
    one, *deeper = found["causal mask"]
    assert one < 1e-12 < 1e-3 < min(deeper)
    assert max(found["every word reads all"]) < 1e-12


@pytest.mark.parametrize("seed", [1])
def test_running_means_of_the_question_by_numpy(seed):
    asked = decoder_order.ask(np.random.default_rng(seed))
    texts = re.findall(r"\$(\d+), (\d+), (\d+)\$", asked.text)
    mean = np.tril(np.ones((3, 3))) / np.arange(1, 4)[:, None]
    expected = [(mean @ mean @ np.array(text, float))[2] for text in texts]
    assert asked.answer == pytest.approx(expected)


@pytest.mark.parametrize("seed", [1])
def test_the_borders_of_the_question_by_numpy(seed):
    asked = cnn_features.ask(np.random.default_rng(seed))
    length, level, *taps = map(int, re.findall(r"\d+", asked.text)[:5])
    row = np.correlate(np.full(length, float(level)), np.array(taps, float), "same")
    assert asked.answer == pytest.approx((row[0], row[length // 2], row[-1]))


def test_a_probe_reads_all_of_a_place_that_is_written_into_the_features():
    where = torch.stack(torch.meshgrid(*[torch.linspace(-1, 1, 4).double()] * 2, indexing="ij"))
    features = torch.cat([where, torch.randn(3, 4, 4).double()]).expand(6, -1, -1, -1)
    share, told = cnn_features.probe(features.contiguous(), where)
    assert share == pytest.approx(1.0)
    torch.testing.assert_close(told, where)


def seeded():
    return torch.Generator().manual_seed(0)
