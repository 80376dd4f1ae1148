"""Claims that need training: what they read from records, and what they measure beside it."""

import json
import math
import re
import shutil
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from golden import expect_error
from regard.data.synthetic import grammar
from regard.errors import UserError
from regard.lab.claims import (
    cheaper_vit,
    cls_readout,
    epochs,
    load_claim,
    pretraining_tasks,
    small_vit,
)
from regard.lab.records import recorded
from regard.models import ViT, ViTConfig
from regard.runs import sweep as side_by_side
from regard.runs.sweep import configured

NAMES = ("epochs", "cls-readout", "small-vit", "pretraining-tasks", "cheaper-vit")
SEEDED = ("cls-readout", "pretraining-tasks")
RESULTS = Path(__file__).parents[1] / "results"
ADDED = ("source", "command_today")  # to what is condensed from a file of results
CALLED_NOW = {"neighbourhood": "neighborhood", "windows": "grid_windows"}  # masks in those files


@pytest.fixture(scope="module")
def evidence():
    return {name: load_claim(name).measure() for name in NAMES}


def results(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


@pytest.fixture
def with_record(monkeypatch):
    """Put another record in the place of a claim's own."""

    def put(module, change):
        values = deepcopy(recorded(module.CLAIM.id))
        change(values)
        monkeypatch.setattr(module, "recorded", lambda name: values)
        return module.CLAIM.measure().verdict()

    return put


# All five


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_is_what_is_said_and_every_control_fails(name, evidence):
    found, claim = evidence[name], load_claim(name)
    assert claim.id == name and found.verdict() == claim.verdict
    assert found.controls and not any(check.ok for check in found.controls)
    assert len(found.deciding) <= 45
    json.dumps(found.to_values())


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", SEEDED)
def test_another_seed_finds_the_same(name, seed):
    claim = load_claim(name)
    assert claim.measure(seed=seed).verdict() == claim.verdict


@pytest.mark.parametrize("name", NAMES)
def test_a_record_says_where_it_comes_from_and_the_notes_say_it_too(name, evidence):
    values = recorded(name)
    for key in ("command", "commit", "date", "device", "seeds"):
        assert values[key], key
    assert any(note.startswith("recorded 20") for note in evidence[name].notes)


@pytest.mark.parametrize("name", NAMES)
def test_questions_have_answers_that_are_right_and_others_that_are_not(name):
    claim = load_claim(name)
    texts = set()
    for seed in range(5):
        question = claim.ask(np.random.default_rng(seed))
        texts.add(question.text)
        assert question.right(question.answer) and not question.right(question.answer * 1.1)
        assert not question.right("neither") and question.why
    assert len(texts) > 1


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_drawn(name, evidence):
    figure = load_claim(name).plot(evidence[name])
    assert len(figure.axes) == 1 and figure.axes[0].get_ylabel()


# epochs


def test_what_is_left_to_win_is_what_a_plain_look_at_the_curves_says(evidence):
    runs = recorded("epochs")["runs"]["bare"]["50"]
    accuracy = np.mean([run["accuracy on unseen images"] for run in runs], 0)
    error = stats.sem([1] * round(accuracy.max() * 359) + [0] * round((1 - accuracy.max()) * 359))
    first = 1 + int(np.argmax(accuracy >= accuracy.max() - error))
    assert evidence["epochs"].series["settled"] == first == 7
    # That is no end of it: the best mean is the last one, by less than can be shown.
    assert accuracy.argmax() == 49 and 0 < accuracy[49] - accuracy[6] < error
    assert "stop" not in evidence["epochs"].deciding + epochs.CLAIM.truth
    loss = np.mean([run["loss on training images"] for run in runs], 0)
    assert loss[9] > loss[29] > loss[49]  # as is published


def test_unseen_images_that_go_on_getting_better_dispute_it(with_record):
    def improve(values):
        for run in values["runs"]["bare"]["50"]:
            run["accuracy on unseen images"] = np.linspace(0.5, 0.99, 50).tolist()
            run["loss on unseen images"] = run["loss on training images"]

    assert with_record(epochs, improve) == "disputed"


def test_unseen_images_that_are_flat_from_the_start_dispute_it(with_record):
    def flatten(values):
        for run in values["runs"]["bare"]["50"]:
            run["accuracy on unseen images"] = [0.97] * 50

    assert with_record(epochs, flatten) == "disputed"


def test_budgets_are_of_what_is_recorded():
    early = epochs.measure(budgets=(2, 5)).outside
    assert early[0].ok  # so early, unseen images are better with more epochs
    for wrong in ((10,), (30, 10), (1, 5), (10, 60)):
        with expect_error(UserError):
            epochs.measure(budgets=wrong)


def test_curves_are_trained_and_leave_random_numbers_alone():
    before = torch.get_rng_state()
    changes = {**epochs.BARE, "train.epochs": 1, "model.layers": 1, "model.width": 16}
    found = epochs.curves("cpu", changes, 0)
    assert torch.equal(before, torch.get_rng_state())
    assert set(found) == set(epochs.CURVES.values()) and {len(v) for v in found.values()} == {1}
    assert 0 < found["accuracy on unseen images"][0] < 1 < found["loss on unseen images"][0]
    assert epochs.tested() == recorded("epochs")["tested"] == 359


# cls-readout


def test_a_model_that_reads_its_patches_disputes_it(monkeypatch):
    monkeypatch.setattr(ViT, "pool", lambda self, tokens: tokens.mean(1))
    assert cls_readout.measure().verdict() == "disputed"


def test_a_class_token_that_learns_less_disputes_it(with_record):
    def spoil(values):
        values["rows"][1]["cls"] = 0.9

    assert with_record(cls_readout, spoil) == "disputed"


def test_a_borrowed_head_is_given_the_mean_of_the_patches():
    class Run:
        model = ViT(ViTConfig(image_size=8, channels=1, width=16, layers=1))
        trained = data = None
        task = SimpleNamespace(
            evaluate=lambda *_: SimpleNamespace(to_values=lambda: {"accuracy": 1})
        )

    tokens = torch.randn(2, 5, 16)
    assert cls_readout.right(Run) == 1.0 and torch.equal(Run.model.pool(tokens), tokens[:, -1])
    assert cls_readout.right(Run, borrowed=True) == 1.0
    torch.testing.assert_close(Run.model.pool(tokens), tokens[:, :4].mean(1))


# small-vit


def test_a_layout_with_one_parameter_more_disputes_it(monkeypatch):
    class More(ViT):
        def __init__(self, config):
            super().__init__(config)
            self.one = torch.nn.Parameter(torch.zeros(1))

    monkeypatch.setattr(small_vit, "ViT", More)
    assert small_vit.measure().verdict() == "disputed"


def test_the_record_says_what_the_results_do():
    files = ("coursework", "coursework-c", "small")
    rows = recorded("small-vit")["rows"]
    assert [row["trained"] for row in rows] == list(small_vit.TRAINED)
    for row, name in zip(rows, files, strict=True):
        facts = results(f"run-cifar10-{name}-cuda.json")
        assert row["command"] == facts["command"]
        assert row["parameters"] == facts["parameters"] == 140_618
        assert row["seeds"] == len(row["accuracy"]) == len(facts["runs"])
        # Made anew by `--train`: a GPU does not add in the same order twice.
        assert np.mean(row["accuracy"]) == pytest.approx(facts["mean"], abs=0.015)


def test_what_is_trained_has_the_parameters_that_are_published(monkeypatch):
    asked = []

    def trained(task, recipe, changes, device, root):
        _, config = configured(task, recipe, changes)
        asked.append((recipe, config.train.seed, small_vit.counted(config.model)))
        return SimpleNamespace(
            task=SimpleNamespace(evaluate=lambda *_: None),
            trained=None,
            data=None,
            test_split="test",
        )

    monkeypatch.setattr(side_by_side, "trained", trained)
    file = results("run-cifar10-small-cuda.json")
    monkeypatch.setattr("regard.runs.record.recorded", lambda *_: file)
    kept = small_vit.train("cpu")
    assert [recipe for recipe, _, _ in asked] == ["cifar10-coursework"] * 2 + ["cifar10-small"] * 3
    assert {count for _, _, count in asked} == {140_618}
    assert [seed for _, seed, _ in asked] == [0, 0, 0, 1, 2]
    assert [row["trained"] for row in kept["rows"]] == list(small_vit.TRAINED)


def test_only_what_has_several_seeds_has_a_worst_one(evidence):
    found = evidence["small-vit"]
    assert all(check.words.endswith("one seed") for check in found.outside)
    assert found.inside[-1].words.endswith("the worst of 3 seeds")


# pretraining-tasks


def test_gains_are_those_of_the_ablation(evidence):
    summary = results("ablation-wikitext-2-cuda.json")["summary"]
    gains = evidence["pretraining-tasks"].series["gains"]
    for line in summary[1:]:
        for data in ("sst2", "sick"):
            wanted = line[data]["gain"]
            found = gains[data][line["choice"]]
            np.testing.assert_allclose(found, [wanted[k] for k in ("value", "low", "high")])
    together = next(line for line in summary if line["choice"] == "all four")
    assert evidence["pretraining-tasks"].series["right"] == pytest.approx(together["questions"])


def test_most_intervals_include_nothing_gained(evidence):
    note = evidence["pretraining-tasks"].notes[0]
    assert "of 14 gains" in note and "11 have a 95% interval that includes 0" in note


@pytest.mark.parametrize("question", ["mlm", "nsp", "inversion", "nli"])
def test_one_head_at_the_level_of_guessing_disputes_it(question, with_record):
    def spoil(values):
        row = next(row for row in values["rows"] if row["choice"] == "all four")
        row["questions"][question] = 0.1 if question == "mlm" else 0.55

    assert with_record(pretraining_tasks, spoil) == "disputed"


def test_the_pairs_that_an_untrained_model_is_asked_about_have_answers():
    """A reader who knows the grammar is right about all of them."""
    told = pretraining_tasks.inverted(64, 3)
    assert len(told) == 64 and sum(answer for *_, answer in told) == 32
    for first, second, answer in told:
        assert (second in grammar.inversions(first)) is answer
    follows = pretraining_tasks.inferred(64, 3)
    assert sum(answer for *_, answer in follows) == 32
    untrained = pretraining_tasks.Untrained(64, 3)
    for name, pairs in (("inversion", told), ("nli", follows)):
        assert untrained.yes[name].tolist() == [int(answer) for *_, answer in pairs]


def test_an_untrained_model_that_knows_the_answers_disputes_it(monkeypatch):
    monkeypatch.setattr(pretraining_tasks.Untrained, "right", lambda self, question: 0.7)
    assert pretraining_tasks.measure(pairs=64).verdict() == "disputed"


def test_chance_is_exceeded_by_four_standard_errors_of_a_coin():
    bound = pretraining_tasks.above_chance("", 0.5, 512).bound
    # A head that guesses gets there once in thirty thousand times.
    assert stats.binom.sf(math.ceil(bound * 512) - 1, 512, 0.5) < 1e-4


def test_the_ablation_is_trained_anew_and_condensed(monkeypatch):
    ablation = import_module("benchmarks.experiments.pretrain_ablation")
    asked = []

    def main(how):
        asked.append(how)
        shutil.copy(RESULTS / "ablation-wikitext-2-cuda.json", how.record)

    monkeypatch.setattr(ablation, "main", main)
    known = recorded("pretraining-tasks")
    monkeypatch.setattr(pretraining_tasks, "baselines", lambda task, name: known["baselines"])
    found = pretraining_tasks.train("cpu")
    assert asked[0].seeds == 3 and asked[0].device == "cpu"
    assert {**found, **{name: known[name] for name in ADDED}} == known


def test_baselines_are_shares_of_the_tokens_of_validation(monkeypatch):
    class Words:
        def encode(self, text):
            return [{"<": 1, "u": 2, ">": 3}[letter] for letter in text if letter in "<u>"]

    numbers = np.array([0, 0, 0, 0, 1, 2, 3, 4, 4, 5])
    lines = SimpleNamespace(lines=SimpleNamespace(numbers=numbers))
    data = SimpleNamespace(
        parts={"validation": SimpleNamespace(documents=lines)},
        metadata=SimpleNamespace(words=Words()),
    )
    entry = SimpleNamespace(load=lambda: SimpleNamespace(load_data=lambda config: data))
    monkeypatch.setattr("regard.tasks.find", lambda name: entry)
    monkeypatch.setattr(side_by_side, "configured", lambda *_: (None, None))
    found = pretraining_tasks.baselines("any", "any")
    assert found == {"most frequent token": 0.4, "pieces of <unk>": 0.3}


# cheaper-vit


def test_flops_that_are_counted_otherwise_dispute_it(monkeypatch):
    counted = cheaper_vit.computed
    monkeypatch.setattr(cheaper_vit, "computed", lambda config: counted(config) + 1)
    assert cheaper_vit.measure(sides=(4, 8)).verdict() == "disputed"


def test_growth_is_that_of_pairs_counted_one_by_one(evidence):
    growth = evidence["cheaper-vit"].series["exponents"]
    few, many = 16, 32

    def exponent(pairs):
        return math.log(pairs(many) / pairs(few)) / math.log(many**2 / few**2)

    assert growth["full"] == pytest.approx(exponent(lambda n: n**4))
    assert growth["windows"] == pytest.approx(exponent(lambda n: n**2 * 4**2))
    assert growth["dilated"] <= 1.1
    assert growth["axial"] == pytest.approx(exponent(lambda n: n**2 * (2 * n - 1)))


def test_what_was_trained_is_what_the_results_say(evidence):
    for line in results("cheaper-cifar10-cuda.json")["summary"]:
        name = line["choice"]
        found = evidence["cheaper-vit"].series
        assert found["accuracy"][name] == pytest.approx(line["accuracy"]["mean"])
        assert found["FLOPs at 64 patches"][name] == line["flops"]


@pytest.mark.parametrize(("name", "change"), [("axial", -0.02), ("windows", -0.004)])
def test_a_pattern_that_loses_more_than_is_said_disputes_it(name, change, with_record):
    def spoil(values):
        row = next(row for row in values["rows"] if row["choice"] == name)
        row["accuracy"] = [value + change for value in row["accuracy"]]

    assert with_record(cheaper_vit, spoil) == "disputed"


def test_the_comparison_is_trained_anew_and_condensed(monkeypatch):
    cheaper = import_module("benchmarks.experiments.cheaper_vit")
    asked = []

    def main(how):
        asked.append(how)
        shutil.copy(RESULTS / "cheaper-cifar10-cuda.json", how.record)

    monkeypatch.setattr(cheaper, "main", main)
    known = recorded("cheaper-vit")
    found = cheaper_vit.train("cpu")
    for row in found["rows"]:
        for then, now in CALLED_NOW.items():
            row["words"] = re.sub(rf"\b{then}\(", f"{now}(", row["words"])
    assert {**found, **{name: known[name] for name in ADDED}} == known
    assert asked[0].recipe == "cifar10-small" and asked[0].seeds == 3
