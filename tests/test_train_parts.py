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
from regard.models import Bert, BertConfig, TokenEmbed, ViT, ViTConfig
from regard.runs.compare import Row, table_of
from regard.training.checkpoint import pack, unpack
from regard.training.config import OptimiserConfig, ScheduleConfig
from regard.training.lr_schedule import rate
from regard.training.optim import Average, come_trained, make_optimiser, parameter_groups
from regard.training.progress_line import written


def test_a_cosine_rises_from_its_first_step_and_ends_at_its_floor():
    config = ScheduleConfig(warmup=10.0, floor=0.1)
    rates = [rate(config, step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[10] == 1.0 and rates[-1] == pytest.approx(0.1)
    assert all(a >= b for a, b in pairwise(rates[10:]))
    middle = 10 + 89 // 2
    assert rates[middle] == pytest.approx(0.55, abs=0.02)


def test_the_schedule_of_2017_is_its_formula_up_to_the_peak():
    config, width = ScheduleConfig("2017", warmup=4000.0), 512
    formula = [
        width**-0.5 * min(step**-0.5, step * 4000**-1.5) for step in (1, 100, 4000, 4001, 100_000)
    ]
    ours = [rate(config, step - 1, 200_000) for step in (1, 100, 4000, 4001, 100_000)]
    peak = width**-0.5 * 4000**-0.5
    assert [x * peak for x in ours] == pytest.approx(formula)


@pytest.mark.parametrize("kind", ["cosine", "2017", "constant"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_every_schedule_stays_within_nothing_and_full_however_short_the_run(kind, steps):
    for warmup in (0.1, 1.0, 3.0):
        rates = [rate(ScheduleConfig(kind, warmup), step, steps) for step in range(steps + 3)]
        assert all(0 <= x <= 1 and math.isfinite(x) for x in rates)
        assert rates[0] > 0


def test_contradicting_schedules_and_optimisers_are_named():
    with expect_error(FieldError, field="warmup"):
        ScheduleConfig("2017", warmup=0.0)
    with expect_error(FieldError, field="floor"):
        ScheduleConfig(floor=2.0)
    with expect_error(FieldError, field="matrix_rate"):
        OptimiserConfig(matrix_rate=0.0)
    with expect_error(FieldError, field="betas"):
        OptimiserConfig(betas=(0.9, 1.0))


def test_words_and_kinds_that_do_not_fit_are_named(in_a_plain_process):
    in_a_plain_process(
        """
from regard.training.config import OptimiserConfig, ScheduleConfig, TrainConfig
for make, words in [
    (lambda: OptimiserConfig(kind="adam"), "kind='adam' is not one of 'adamw', 'muon'; did you"),
    (lambda: ScheduleConfig(warmup="long"), "warmup='long' is not of the kind float"),
    (lambda: TrainConfig(epochs=2.5), "epochs=2.5 is not of the kind int"),
    (lambda: TrainConfig(optimiser="adamw"), "optimiser='adamw' is not of the kind Opt"),
]:
    try:
        make()
    except (ValueError, TypeError) as trouble:
        assert words in str(trouble), (words, trouble)
    else:
        raise AssertionError(words)
TrainConfig(clip=1, optimiser=OptimiserConfig(betas=(0.9, 0.99)))
"""
    )


def test_only_matrices_decay_and_every_parameter_moves_once():
    model = nn.ModuleDict(
        {
            "words": TokenEmbed(7, 8),
            "place": learned(5, 8),
            "bias": relative_bias(2, 3),
            "linear": nn.Linear(8, 8),
            "norm": nn.LayerNorm(8),
            "stem": nn.Conv2d(3, 8, 3),
            "head": nn.Linear(8, 7, bias=False),
        }
    )
    model["head"].weight = model["words"].table.weight  # tied
    frozen = nn.Linear(3, 3)
    frozen.requires_grad_(False)
    model["frozen"] = frozen
    groups = {kind: set(named) for kind, named in parameter_groups(model).items()}
    assert groups == {
        "matrices": {"linear.weight"},
        "kernels": {"stem.weight"},
        "tables": {"words.table.weight", "place.table", "bias.table"},
        "vectors": {"linear.bias", "norm.weight", "norm.bias", "stem.bias"},
    }


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_what_comes_trained_is_moved_at_its_share_of_the_rate(kind):
    torch.manual_seed(0)
    model = nn.ModuleDict({"seen": nn.Linear(6, 6), "said": nn.Linear(6, 6)})
    come_trained(model["seen"])
    model["said"].load_state_dict(model["seen"].state_dict())
    first = model["seen"].weight.detach().clone()
    optimiser = make_optimiser(model, OptimiserConfig(kind, trained=0.25, decay=0.0))
    for parameter in model.parameters():
        parameter.grad = torch.linspace(-1, 1, parameter.numel()).view_as(parameter)
    optimiser.set_rates(0.5)
    optimiser.step()
    moved = {name: layer.weight.detach() - first for name, layer in model.items()}
    assert moved["said"].abs().max() > 0
    torch.testing.assert_close(moved["seen"], 0.25 * moved["said"])


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_of_what_comes_trained_a_block_is_moved_less_the_lower_it_lies(kind):
    bert = Bert(BertConfig(words=7, width=8, layers=3, heads=2, length=5, pooler=True))
    model = nn.ModuleDict({"bert": come_trained(bert), "head": nn.Linear(8, 2)})
    config = OptimiserConfig(kind, rate=1.0, matrix_rate=1.0, trained=0.5, fade=0.1)
    optimiser = make_optimiser(model, config)
    optimiser.set_rates(2.0)
    groups = [group for part in optimiser.parts for group in part.param_groups]
    rates = {id(each): group["lr"] for group in groups for each in group["params"]}
    expected = {"head": 2.0, "bert.blocks.2": 1.0, "bert.blocks.1": 0.1, "bert.blocks.0": 0.01}
    expected |= {"bert.pooler": 1.0}
    beneath = ("embed.", "segment", "place", "embed_norm")
    expected |= {f"bert.{part}": 0.001 for part in beneath}
    assert {*rates} == {id(each) for each in model.parameters()}
    for name, each in model.named_parameters():
        (rate_of,) = (full for part, full in expected.items() if name.startswith(part))
        assert rates[id(each)] == pytest.approx(rate_of), name
    with expect_error(FieldError, field="fade"):
        OptimiserConfig(fade=0.0)


@pytest.mark.parametrize("stem", ["patch", "conv"])
@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_an_optimiser_learns_and_goes_on_exactly_from_packed_state(kind, stem):
    def start() -> tuple[ViT, object]:
        torch.manual_seed(0)
        model = ViT(ViTConfig(width=16, layers=1, heads=2, image=8, classes=3, stem=stem))
        return model, make_optimiser(model, OptimiserConfig(kind, rate=1e-2))

    images, labels = torch.randn(12, 3, 8, 8), torch.arange(12) % 3

    def steps(model, optimiser, count: int, first: int = 0) -> list[float]:
        losses = []
        for step in range(first, first + count):
            loss = nn.functional.cross_entropy(model(images), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.set_rates(rate(ScheduleConfig(), step, 30))
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
    average = Average(model, keep=0.9)
    nn.init.constant_(model.weight, 1.0)
    for _ in range(100):
        average.advance(), average.update(model)
    assert float(average.weights["weight"]) == pytest.approx(1.0, abs=0.02)
    twin = Average(nn.Linear(1, 1, bias=False), keep=0.9)
    twin.load(average.weights, average.steps)
    nn.init.constant_(model.weight, 5.0)
    for one in (average, twin):
        one.advance(), one.update(model)
    assert torch.equal(twin.weights["weight"], average.weights["weight"])
    with expect_error(ValueError):
        Average(model, keep=1.0)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("validation.likelihood", 0.0031234, "0.00312"),
        ("validation.likelihood", 0.0000123, "1.23e-05"),
        ("validation.likelihood", 0.03557, "0.0356"),
        ("validation.likelihood", 0.2666, "0.267"),
        ("train.CIDEr-D", 0.0512, "0.0512"),
        ("validation.loss", 0.000417, "0.000417"),
        ("validation.loss", 12.3456, "12.346"),
        ("validation.accuracy", 0.93456, "93.5%"),
        ("validation.accuracy", 0.05312, "5.31%"),
        ("validation.true", 0.00104, "0.104%"),
        ("validation.accuracy", 0.0, "0.0%"),
        ("validation.accuracy", 1.0, "100.0%"),
        ("validation.loss", math.nan, "nan"),
        ("validation.accuracy", math.nan, "nan%"),
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
