"""Schedules, optimisers and packed state: the parts of training that every task shares."""

import math
import random
from itertools import pairwise

import pytest
import torch
from torch import nn

from golden import expect_error
from regard.attention import learned, relative_bias
from regard.errors import FieldError
from regard.models import Bert, BertConfig, TokenEmbedding, ViT, ViTConfig
from regard.runs.compare import Row, table_of
from regard.training.checkpoint import pack, unpack
from regard.training.config import LRScheduleConfig, OptimizerConfig, TrainConfig
from regard.training.lr_schedule import rate
from regard.training.optim import EMA, come_trained, make_optimiser, parameter_groups
from regard.training.progress_line import written


def test_a_cosine_rises_from_its_first_step_and_ends_at_its_floor():
    config = LRScheduleConfig(warmup_steps=10, min_lr_ratio=0.1)
    rates = [rate(config, step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[10] == 1.0 and rates[-1] == pytest.approx(0.1)
    assert all(a >= b for a, b in pairwise(rates[10:]))
    middle = 10 + 89 // 2
    assert rates[middle] == pytest.approx(0.55, abs=0.02)


def test_the_schedule_of_2017_is_its_formula_up_to_the_peak():
    config, width = LRScheduleConfig("inverse_sqrt", warmup_steps=4000), 512
    formula = [
        width**-0.5 * min(step**-0.5, step * 4000**-1.5) for step in (1, 100, 4000, 4001, 100_000)
    ]
    ours = [rate(config, step - 1, 200_000) for step in (1, 100, 4000, 4001, 100_000)]
    peak = width**-0.5 * 4000**-0.5
    assert [x * peak for x in ours] == pytest.approx(formula)


@pytest.mark.parametrize("kind", ["cosine", "inverse_sqrt", "constant"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_every_schedule_stays_within_nothing_and_full_however_short_the_run(kind, steps):
    for warmup in ({}, {"warmup_ratio": 1.0}, {"warmup_steps": 1}, {"warmup_steps": 3}):
        rates = [rate(LRScheduleConfig(kind, **warmup), step, steps) for step in range(steps + 3)]
        assert all(0 <= x <= 1 and math.isfinite(x) for x in rates)
        assert rates[0] > 0


def test_contradicting_schedules_and_optimisers_are_named():
    with expect_error(FieldError, field="warmup_ratio"):
        LRScheduleConfig("inverse_sqrt", warmup_ratio=0.0)
    with expect_error(FieldError, field="warmup_ratio"):
        LRScheduleConfig(warmup_ratio=0.1, warmup_steps=10)
    with expect_error(FieldError, field="warmup_ratio"):
        LRScheduleConfig(warmup_ratio=500.0)
    with expect_error(FieldError, field="min_lr_ratio"):
        LRScheduleConfig(min_lr_ratio=2.0)
    with expect_error(FieldError, field="muon_lr"):
        OptimizerConfig(muon_lr=0.0)
    with expect_error(FieldError, field="betas"):
        OptimizerConfig(betas=(0.9, 1.0))


def test_the_warmup_is_a_share_of_the_run_or_a_number_of_steps():
    assert LRScheduleConfig().num_warmup_steps(200) == 20
    assert LRScheduleConfig(warmup_ratio=0.25).num_warmup_steps(200) == 50
    assert LRScheduleConfig(warmup_steps=3).num_warmup_steps(200) == 3
    assert LRScheduleConfig(warmup_steps=0).num_warmup_steps(200) == 0


@pytest.mark.parametrize(
    ("given", "kept"), [("float32", "fp32"), ("bfloat16", "bf16"), ("bf16", "bf16")]
)
def test_a_precision_is_kept_by_its_short_name(given, kept):
    assert TrainConfig(precision=given) == TrainConfig(precision=kept)
    assert TrainConfig(precision=given).precision == kept


def test_words_and_kinds_that_do_not_fit_are_named(in_a_plain_process):
    in_a_plain_process(
        """
from regard.training.config import OptimizerConfig, LRScheduleConfig, TrainConfig
for make, words in [
    (lambda: OptimizerConfig(name="adam"), "name='adam' is not one of 'adamw', 'muon'; did you"),
    (lambda: LRScheduleConfig(warmup_ratio="long"), "warmup_ratio='long' is not of the kind float"),
    (lambda: TrainConfig(epochs=2.5), "epochs=2.5 is not of the kind int"),
    (lambda: TrainConfig(optimizer="adamw"), "optimizer='adamw' is not of the kind Opt"),
]:
    try:
        make()
    except (ValueError, TypeError) as trouble:
        assert words in str(trouble), (words, trouble)
    else:
        raise AssertionError(words)
TrainConfig(grad_clip=1, optimizer=OptimizerConfig(betas=(0.9, 0.99)))
"""
    )


def test_only_matrices_decay_and_every_parameter_moves_once():
    model = nn.ModuleDict(
        {
            "words": TokenEmbedding(7, 8),
            "place": learned(5, 8),
            "bias": relative_bias(2, 3),
            "linear": nn.Linear(8, 8),
            "norm": nn.LayerNorm(8),
            "stem": nn.Conv2d(3, 8, 3),
            "head": nn.Linear(8, 7, bias=False),
        }
    )
    model["head"].weight = model["words"].weight  # tied
    frozen = nn.Linear(3, 3)
    frozen.requires_grad_(False)
    model["frozen"] = frozen
    groups = {kind: set(named) for kind, named in parameter_groups(model).items()}
    assert groups == {
        "matrices": {"linear.weight"},
        "kernels": {"stem.weight"},
        "tables": {"words.weight", "place.table", "bias.table"},
        "vectors": {"linear.bias", "norm.weight", "norm.bias", "stem.bias"},
    }


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_what_comes_trained_is_moved_at_its_share_of_the_rate(kind):
    torch.manual_seed(0)
    model = nn.ModuleDict({"seen": nn.Linear(6, 6), "said": nn.Linear(6, 6)})
    come_trained(model["seen"])
    model["said"].load_state_dict(model["seen"].state_dict())
    first = model["seen"].weight.detach().clone()
    optimiser = make_optimiser(
        model, OptimizerConfig(kind, pretrained_lr_scale=0.25, weight_decay=0.0)
    )
    for parameter in model.parameters():
        parameter.grad = torch.linspace(-1, 1, parameter.numel()).view_as(parameter)
    optimiser.set_rates(0.5)
    optimiser.step()
    moved = {name: layer.weight.detach() - first for name, layer in model.items()}
    assert moved["said"].abs().max() > 0
    torch.testing.assert_close(moved["seen"], 0.25 * moved["said"])


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_of_what_comes_trained_a_block_is_moved_less_the_lower_it_lies(kind):
    bert = Bert(BertConfig(vocab_size=7, width=8, layers=3, heads=2, context_length=5, pooler=True))
    model = nn.ModuleDict({"bert": come_trained(bert), "head": nn.Linear(8, 2)})
    config = OptimizerConfig(kind, lr=1.0, muon_lr=1.0, pretrained_lr_scale=0.5, layer_decay=0.1)
    optimiser = make_optimiser(model, config)
    optimiser.set_rates(2.0)
    groups = [group for part in optimiser.parts for group in part.param_groups]
    rates = {id(each): group["lr"] for group in groups for each in group["params"]}
    expected = {"head": 2.0, "bert.blocks.2": 1.0, "bert.blocks.1": 0.1, "bert.blocks.0": 0.01}
    expected |= {"bert.pooler": 1.0}
    beneath = ("token_embedding", "token_type_embedding", "pos_embed", "embed_norm")
    expected |= {f"bert.{part}": 0.001 for part in beneath}
    assert {*rates} == {id(each) for each in model.parameters()}
    for name, each in model.named_parameters():
        (rate_of,) = (full for part, full in expected.items() if name.startswith(part))
        assert rates[id(each)] == pytest.approx(rate_of), name
    with expect_error(FieldError, field="layer_decay"):
        OptimizerConfig(layer_decay=0.0)


@pytest.mark.parametrize("stem", ["patch", "conv"])
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_an_optimiser_learns_and_goes_on_exactly_from_packed_state(kind, stem):
    def start() -> tuple[ViT, object]:
        torch.manual_seed(0)
        model = ViT(ViTConfig(width=16, layers=1, heads=2, image_size=8, num_classes=3, stem=stem))
        return model, make_optimiser(model, OptimizerConfig(kind, lr=1e-2))

    images, labels = torch.randn(12, 3, 8, 8), torch.arange(12) % 3

    def steps(model, optimiser, count: int, first: int = 0) -> list[float]:
        losses = []
        for step in range(first, first + count):
            loss = nn.functional.cross_entropy(model(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.set_rates(rate(LRScheduleConfig(), step, 30))
            optimiser.step()
            losses.append(float(loss.detach()))
        return losses

    model, optimiser = start()
    losses = steps(model, optimiser, 30)
    assert losses[-1] < 0.5 * losses[0]

    half, half_optimiser = start()
    steps(half, half_optimiser, 11)
    tensors, text = pack({"model": half.state_dict(), "optimiser": half_optimiser.state()})
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    again, again_optimiser = start()
    steps(again, again_optimiser, 3)  # another past, to be forgotten
    tree = unpack(tensors, text)
    again.load_state_dict(tree["model"])
    again_optimiser.load(tree["optimiser"])
    steps(again, again_optimiser, 19, first=11)
    for ours, theirs in zip(again.parameters(), model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_state_of_random_numbers_survives_packing():
    torch.manual_seed(3), random.seed(3)
    tensors, text = pack({"torch": torch.get_rng_state(), "python": random.getstate()})
    want = torch.randn(4), random.random()
    torch.manual_seed(99), random.seed(99)
    tree = unpack(tensors, text)
    torch.set_rng_state(tree["torch"]), random.setstate(tree["python"])
    assert torch.equal(torch.randn(4), want[0]) and random.random() == want[1]


def test_packing_keeps_types_and_refuses_what_would_need_a_pickle():
    tree = {0: [1, 2.5, None, True, "x"], "t": (1, (torch.arange(3),)), "e": {}, -1: float("inf")}
    tensors, text = pack(tree)
    back = unpack(tensors, text)
    assert back["t"][1][0].tolist() == [0, 1, 2] and isinstance(back["t"], tuple)
    assert back[0] == tree[0] and back["e"] == {} and back[-1] == math.inf
    with expect_error(TypeError):
        pack({"model": nn.Linear(1, 1)})


def test_an_average_forgets_its_start_and_follows_the_model():
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 100.0)
    average = EMA(model, keep=0.9)
    nn.init.constant_(model.weight, 1.0)
    for _ in range(100):
        average.advance(), average.update(model)
    assert float(average.weights["weight"]) == pytest.approx(1.0, abs=0.02)
    twin = EMA(nn.Linear(1, 1, bias=False), keep=0.9)
    twin.load(average.weights, average.steps)
    nn.init.constant_(model.weight, 5.0)
    for one in (average, twin):
        one.advance(), one.update(model)
    assert torch.equal(twin.weights["weight"], average.weights["weight"])
    with expect_error(ValueError):
        EMA(model, keep=1.0)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("val/bleu", 0.0031234, "0.00312"),
        ("val/bleu", 0.0000123, "1.23e-05"),
        ("val/bleu", 0.03557, "0.0356"),
        ("val/bleu", 0.2666, "0.267"),
        ("train_eval/CIDEr-D", 0.0512, "0.0512"),
        ("val/loss", 0.000417, "0.000417"),
        ("val/loss", 12.3456, "12.346"),
        ("val/accuracy", 0.93456, "93.5%"),
        ("val/accuracy", 0.05312, "5.31%"),
        ("val/true_captions", 0.00104, "0.104%"),
        ("val/accuracy", 0.0, "0.0%"),
        ("val/accuracy", 1.0, "100.0%"),
        ("val/loss", math.nan, "nan"),
        ("val/accuracy", math.nan, "nan%"),
    ],
)
def test_a_figure_has_three_digits_that_count(name, value, words):
    assert written(name, value) == words


def test_small_figures_are_told_apart_in_a_comparison():
    rows = [Row(name, 3, 0.0039, best, 0.0008, best, None, 9.0) for name, best in NEAR.items()]
    _, *lines = table_of(rows).splitlines()
    assert [line.split()[3] for line in lines] == ["0.310%", "0.314%"]
    assert "93.4%" in table_of([Row("run", 3, 0.96, 0.934, 0.026, 0.934, None, 9.0)])


NEAR = {"one": 0.0031, "other": 0.003142}
