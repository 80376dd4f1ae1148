"""Residual streams, position codes, and what attention counts and costs: each claim can fail."""

import inspect
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from golden import expect_error
from regard.attention import LinearAttention, MultiHeadAttention, attend, attend_channels
from regard.attention.pos_embed import Sinusoidal
from regard.errors import UserError
from regard.lab.claims import (
    count_attention,
    head_width,
    input_kept,
    kernel_trick,
    load_claim,
    new_token,
    output_nonlinearity,
    patch_or_channel,
    pe_index,
    residual,
    same_size,
    sinusoid_shift,
)
from regard.lab.evidence import DISPUTED, Evidence
from regard.models import Block

OURS = (
    "residual",
    "input-kept",
    "sinusoid-shift",
    "pe-index",
    "output-nonlinearity",
    "count-attention",
    "same-size",
    "head-width",
    "new-token",
    "patch-or-channel",
    "kernel-trick",
)
# Where the default takes long, less of it shows the same.
SMALLER: dict[str, dict[str, Any]] = {
    "residual": {"depths": (2, 32)},
    "input-kept": {"blocks": 32},
    "kernel-trick": {"longer": (64, 256, 512)},
    "new-token": {"longer": (16,)},
}


def measured(name: str, seed: int) -> Evidence:
    claim, numbers = load_claim(name), dict(SMALLER.get(name, {}))
    if "seed" in inspect.signature(claim.measure).parameters:
        numbers["seed"] = seed
    return claim.measure(**numbers)


def figures(evidence: Evidence) -> dict[str, float]:
    """Every figure by its words."""
    return {check.words: check.value for _, checks in evidence.groups() for check in checks}


@pytest.mark.parametrize("name", OURS)
def test_each_claim_is_found_as_stated_whatever_the_seed(name):
    claim = load_claim(name)
    seed = int("seed" in inspect.signature(claim.measure).parameters)  # that of 0 is in test_lab
    evidence = measured(name, seed)
    assert evidence.verdict() == claim.verdict, [*evidence.groups()]
    assert evidence.controls and not any(check.ok for check in evidence.controls)
    assert len(evidence.deciding) <= 45
    assert json.loads(json.dumps(evidence.to_values(), allow_nan=False))
    if claim.plot is not None:
        assert isinstance(claim.plot(evidence), Figure)


@pytest.mark.parametrize("name", OURS)
def test_each_question_knows_its_answer_and_no_other(name):
    ask = load_claim(name).ask
    assert ask is not None
    asked = [ask(np.random.default_rng(seed)) for seed in range(20)]
    for question in asked:
        assert question.right(question.answer)
        wrong = [each * 1.5 + 1 for each in np.atleast_1d(question.answer)]
        assert not question.right(wrong if len(wrong) > 1 else wrong[0])
        assert question.text.count("$") % 2 == 0 and question.why.count("$") % 2 == 0
    assert len({question.text for question in asked}) > 5


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("count-attention", {"heads": 1}),
        ("head-width", {"heads": (4, 4)}),
        ("input-kept", {"blocks": 1}),
        ("patch-or-channel", {"groups": 3}),
        ("pe-index", {"width": 2}),
        ("sinusoid-shift", {"shift": 0}),
    ],
)
def test_numbers_that_show_nothing_are_refused_in_a_sentence(name, numbers):
    with expect_error(UserError):
        load_claim(name).measure(**numbers)


# residual


def test_the_gradient_of_the_first_block_is_that_of_differences():
    wiring = residual.WIRINGS["residual, norm before"]
    found = residual.first_gradient(wiring, 1, 4, 3, 2, 0)
    draw = torch.Generator().manual_seed(0)
    x, direction = torch.randn(2, 3, 4, generator=draw, dtype=torch.float64)
    blocks = residual.make_blocks(wiring, 1, 4, 2, 0)
    total, step = 0.0, 1e-6

    def read_out() -> float:
        *_, y = residual.stream(blocks, wiring, x)
        return float((torch.layer_norm(y, (4,)) * direction).sum())

    with torch.no_grad():
        for weight in (each for each in blocks[0].parameters() if each.ndim == 2):
            for at in range(weight.numel()):
                kept = weight.view(-1)[at].item()
                weight.view(-1)[at] = kept + step
                above = read_out()
                weight.view(-1)[at] = kept - step
                total += ((above - read_out()) / (2 * step)) ** 2
                weight.view(-1)[at] = kept
    assert math.sqrt(total) == pytest.approx(found, rel=1e-6)


def test_torchs_own_layers_stay_flat_too_with_the_norm_first():
    def gradient(depth: int) -> float:
        torch.manual_seed(0)
        layers = [
            nn.TransformerEncoderLayer(
                32, 4, 128, 0.0, "gelu", norm_first=True, dtype=torch.float64, batch_first=True
            )
            for _ in range(depth)
        ]
        y = torch.randn(1, 8, 32, dtype=torch.float64)
        for layer in layers:
            y = layer(y)
        y = torch.layer_norm(y, (32,))
        weight = layers[0].linear1.weight
        (found,) = torch.autograd.grad((y * torch.randn_like(y)).sum(), weight)
        return float(found.norm())

    assert 0.1 < gradient(32) / gradient(2) < 10


def test_a_block_that_drops_its_residual_disputes_both_claims(monkeypatch):
    def forgets(self: Block, x: Tensor, norm: nn.Module, sublayer: Any) -> Tensor:
        return sublayer(norm(x))

    monkeypatch.setattr(Block, "add", forgets)
    assert residual.measure(depths=(2, 32)).verdict() == DISPUTED
    assert input_kept.measure(blocks=16).verdict() == DISPUTED


# input-kept


def test_the_cosine_is_that_of_lengths_where_what_is_added_is_orthogonal():
    """‖x‖ / ‖y‖, for y = x and something orthogonal to it; random branches nearly are."""
    wiring = input_kept.WIRINGS["residuals, norm before"]
    x = torch.randn(64, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    blocks = residual.make_blocks(wiring, 4, 32, 4, 0)
    with torch.no_grad():
        *_, y = residual.stream(blocks, wiring, x)
    assert input_kept.cosine(x, y) == pytest.approx(float(x.norm() / y.norm()), abs=0.1)


# sinusoid-shift


def test_two_positions_give_the_matrix_of_every_pair_that_all_others_obey():
    """The matrix, solved for instead of written down."""
    codes = Sinusoidal(8).table(torch.arange(2000)).numpy()
    for pair in range(4):
        of_pair = codes[:, 2 * pair : 2 * pair + 2]
        turn = np.linalg.solve(of_pair[[0, 1000]], of_pair[[5, 1005]]).T
        np.testing.assert_allclose(of_pair[:-5] @ turn.T, of_pair[5:], atol=1e-10)
        at = slice(2 * pair, 2 * pair + 2)
        np.testing.assert_allclose(turn, sinusoid_shift.rotation(8, 5)[at, at], atol=1e-10)


@pytest.mark.parametrize("fault", ["cosine first", "a wavelength too long"])
def test_other_codes_dispute_the_shift_and_the_index(fault, monkeypatch):
    whole = Sinusoidal.table

    def broken(self: Sinusoidal, pos: Tensor) -> Tensor:
        if fault == "cosine first":
            return whole(self, pos).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        return whole(Sinusoidal(self.width, 10_001.0), pos)

    monkeypatch.setattr(
        sinusoid_shift, "sinusoidal", type("Other", (Sinusoidal,), {"table": broken})
    )
    monkeypatch.setattr(pe_index, "sinusoidal", sinusoid_shift.sinusoidal)
    assert sinusoid_shift.measure().verdict() == DISPUTED
    assert pe_index.measure().verdict() == DISPUTED


# pe-index


@pytest.mark.parametrize("width", [4, 6, 64])
def test_the_index_is_a_pair_at_any_width(width):
    assert pe_index.measure(width=width).verdict() == "corrected"


def test_dimension_seven_of_eight_holds_the_cosine_of_a_thousandth():
    """i = 3 and 10000^(6/8) = 1000, so the number at position 5 is cos(5/1000)."""
    found = pe_index.coded(np.array([5]), np.arange(4), 8)
    assert found[0, 7] == pytest.approx(math.cos(0.005), rel=1e-14)


# output-nonlinearity


@pytest.mark.parametrize("bend", [torch.relu, torch.tanh], ids=["relu", "tanh"])
def test_a_layer_that_bends_its_heads_disputes_it(bend, monkeypatch):
    straight = MultiHeadAttention.read
    monkeypatch.setattr(MultiHeadAttention, "read", lambda *a, **b: bend(straight(*a, **b)))
    assert output_nonlinearity.measure().verdict() == DISPUTED


def test_doubling_would_not_tell_a_relu_from_nothing():
    (found,) = (v for k, v in output_nonlinearity.measure().series.items() if "doubling" in k)
    assert found < 1e-12


# count-attention, same-size


def test_the_counts_are_those_of_the_exercise():
    found = figures(count_attention.measure(tokens=4, width=10, heads=5))
    assert found["biases of q, k and v: 3D"] == 30
    assert found["attention weights, 5 heads: HN²"] == 80
    assert found["biases of a dense layer: DN"] == 40


def test_a_layer_without_the_bias_of_its_keys_disputes_the_count(monkeypatch):
    def keyless(*args: Any, **options: Any) -> MultiHeadAttention:
        layer = MultiHeadAttention(*args, **options)
        layer.to_k.bias = None
        return layer

    monkeypatch.setattr(count_attention, "MultiHeadAttention", keyless)
    assert count_attention.measure().verdict() == DISPUTED


def test_a_layer_that_loses_a_token_disputes_the_size(monkeypatch):
    monkeypatch.setattr(MultiHeadAttention, "forward", lambda self, x, **options: x[..., 1:, :])
    assert same_size.measure(depths=(1, 2)).verdict() == DISPUTED


# head-width, new-token, patch-or-channel: counts


@pytest.mark.parametrize(
    "attention", [attend, attend_channels, LinearAttention()], ids=["softmax", "channel", "linear"]
)
def test_products_are_counted_as_torch_counts_them(attention):
    layer, x = MultiHeadAttention(16, 2, attention=attention), torch.randn(9, 16)
    ours = patch_or_channel.count(layer, x).products
    with torch.no_grad(), FlopCounterMode(display=False) as theirs:
        layer(x)
    assert 2 * ours == theirs.get_total_flops() > 0


def test_the_largest_tensor_counts_what_is_made_and_not_what_is_seen_anew():
    counts = patch_or_channel.count(lambda x: x.expand(100, 5).relu()[:, :2], torch.ones(5))
    assert counts.largest == 500
    assert patch_or_channel.count(lambda x: x.expand(100, 5), torch.ones(5)).largest == 0


def test_heads_that_are_all_as_wide_as_a_token_dispute_the_cost(monkeypatch):
    def wide(width: int, heads: int, **options: Any) -> MultiHeadAttention:
        return MultiHeadAttention(width, heads, **{"head_width": width, **options})

    monkeypatch.setattr(head_width, "MultiHeadAttention", wide)
    assert head_width.measure().verdict() == DISPUTED


def test_a_new_token_reads_what_torchs_own_layer_reads():
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, mask=new_token.causal, attention=attend).double()
    theirs = nn.MultiheadAttention(8, 2, dtype=torch.float64)
    into = (layer.to_q, layer.to_k, layer.to_v)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([each.weight for each in into]))
        theirs.in_proj_bias.copy_(torch.cat([each.bias for each in into]))
        theirs.out_proj.load_state_dict(layer.to_out.state_dict())
    x = torch.randn(6, 8, dtype=torch.float64)
    row, keys, _ = new_token.one_step(layer, x[:-1], x[-1:])
    future = torch.ones(6, 6, dtype=torch.bool).triu(1)
    whole, _ = theirs(x, x, x, attn_mask=future, need_weights=False)
    torch.testing.assert_close(row, whole[-1:])
    assert keys == 6


def test_a_mask_that_lets_through_the_next_token_disputes_it(monkeypatch):
    from regard.attention import window

    monkeypatch.setattr(new_token, "causal", window(30))
    assert new_token.measure(longer=(16,)).verdict() == DISPUTED


def test_the_exercise_takes_the_published_numbers():
    found = figures(patch_or_channel.measure())
    assert found["patches: multiply-adds, 2 N² D"] == 67_108_864
    assert found["channels: multiply-adds, 2 N D²"] == 134_217_728
    assert found["patches: four projections, 4 N D²"] == 268_435_456
    assert found["channels: exponentials, D²"] == 4 * found["patches: exponentials, N²"]
    assert found["whole layer, channels over patches"] == 1.2


def test_attention_over_tokens_in_the_place_of_channels_disputes_it(monkeypatch):
    monkeypatch.setattr(patch_or_channel, "attend_channels", attend)
    assert patch_or_channel.measure(patches=16, width=32).verdict() == DISPUTED


# kernel-trick


@pytest.mark.parametrize("fault", ["all pairs", "no division"])
def test_sums_that_are_not_regrouped_rightly_dispute_it(fault, monkeypatch):
    def forward(self: LinearAttention, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        call = kernel_trick.Call.check(q, k, v, **options)
        if fault == "all pairs":
            return self.plain(call).output
        mapped, keys, values = self.map(call)
        return mapped @ (keys.mT @ values)

    monkeypatch.setattr(LinearAttention, "forward", forward)
    assert kernel_trick.measure(longer=(64, 256)).verdict() == DISPUTED
