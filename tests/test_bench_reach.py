"""Time to an accuracy: one model, one start, and a clock that stops at the goal."""

import json

import pytest
import torch
from torch import nn

from benchmarks import bench
from benchmarks import time_to_accuracy as reach
from benchmarks import time_to_accuracy_loops as reach_loops
from benchmarks.course import Course, Point
from benchmarks.time_to_accuracy import (
    OURS,
    SUBJECTS,
    TAUGHT,
    THEIRS,
    Subject,
    ratios,
    recipe_called,
    spread_of,
)
from benchmarks.time_to_accuracy_figure import draw
from benchmarks.time_to_accuracy_loops import Goal, Learner, Rows, WithLoss, by_regard, by_trainer
from golden import expect_error
from regard.config import change
from regard.errors import UserError
from test_figures import assert_legible

CPU = torch.device("cpu")
EXACTLY = "donot_use_mm_for_euclid_dist"
SMALL = {
    "batch_size": 128,
    "model.width": 8,
    "model.heads": 2,
    "model.layers": 1,
    "model.mlp_width": 8,
}


def learner(seed: int = 0) -> Learner:
    """A very small model of digits, of which there are few."""
    task, recipe = recipe_called("digits-quick")
    config = change(recipe.config(task.config), {**SMALL, "train.seed": seed, "train.epochs": 1})
    data = task.load_data(config)
    return Learner(task, task.resolve(config, data), data, CPU)


@pytest.fixture(scope="module")
def accelerated() -> None:
    pytest.importorskip("accelerate")


# The clock


class Time:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def course(accuracies: list[float], time: Time, **said: float) -> Course:
    """A course on which asking takes 7 seconds, and answers are foretold."""
    left = iter(accuracies)

    def accuracy(model: nn.Module) -> float:
        time.seconds += 7
        return next(left)

    return Course(accuracy, **{"goal": 0.9, "every": 10, "limit": 50.0, **said}, now=time)


def train(towards: Course, time: Time, steps: int = 100) -> int:
    """Steps of 4 images that take a second each; how many were made."""
    model = nn.Identity()
    for step in range(1, steps + 1):
        time.seconds += 1
        towards.saw(model, 4 * step)
        if towards.over:
            return step
    return steps


def test_the_clock_stops_at_the_goal_and_stands_still_while_the_model_is_asked():
    time = Time()
    towards = course([0.5, 0.8, 0.93, 1.0], time)
    assert train(towards, time) == 8
    assert towards.points == [Point(3, 12, 0.5), Point(5, 20, 0.8), Point(8, 32, 0.93)]
    assert towards.reached == Point(8, 32, 0.93)
    assert str(towards) == "93.0% after 8.00 s and 32 images"


def test_a_goal_that_is_not_reached_in_time_is_told_as_such():
    time = Time()
    towards = course([0.5, 0.85, 0.6], time, limit=9.0)
    assert train(towards, time) == 9 and towards.reached is None
    assert str(towards) == "given up after 9.0 s, at 85.0%: 90.0% was not reached"
    values = towards.to_values()
    assert values["reached"] is None and values["spent"] == 9 and len(values["points"]) == 3


def test_a_ratio_is_of_medians_and_a_bound_where_somebody_was_given_up_on():
    def runs(*seconds: float | None) -> list[dict[str, float | None]]:
        return [{"reached": each, "spent": each or 60.0} for each in seconds]

    seen = {OURS: runs(2.0, 4.0, 3.0), THEIRS: runs(30.0, None, 45.0), TAUGHT: runs(6.0, 6.0, 7.0)}
    assert ratios(seen) == {OURS: 1.0, THEIRS: 15.0, TAUGHT: 2.0}
    assert spread_of(seen[THEIRS]).bound and not spread_of(seen[TAUGHT]).bound
    assert ratios({**seen, OURS: runs(2.0, None)})[THEIRS] is None


# One model, one start


def test_both_loops_start_from_the_same_weights_and_see_the_same_images():
    ours, theirs, other = learner(), learner(), learner(seed=1)
    images, labels = ours.images("train")
    wrapped = WithLoss(theirs.model)
    assert sum(p.numel() for p in wrapped.parameters()) == sum(
        p.numel() for p in ours.model.parameters()
    )
    seen = wrapped(images[:5], labels[:5])
    assert torch.equal(seen["logits"], ours.model(images[:5]))
    assert not torch.equal(other.model(images[:5]), ours.model(images[:5]))
    batch = next(iter(ours.task.batches(ours.config, ours.data, CPU).epoch(0, 0)))
    asked: list[torch.Tensor] = []
    ours.model.register_forward_pre_hook(lambda _, inputs: asked.append(inputs[0]))
    loss, items = ours.task.loss(ours.config, ours.data.metadata)(ours.model, batch)
    shown = asked[0].flatten(1)
    nearest = torch.cdist(shown, images.flatten(1), compute_mode=EXACTLY).min(-1)
    assert nearest.values.max() < 1e-4 and torch.equal(labels[nearest.indices], batch.labels)
    alike = wrapped(images[nearest.indices], batch.labels)["loss"]
    torch.testing.assert_close(loss / items, alike)
    assert len(Rows(theirs.images("train"))) == ours.data.metadata.parts[0] == 1259


def test_ours_learns_until_the_goal_and_no_further():
    course = by_regard(learner(), Goal(0.0, 200, 1e9))
    assert [point.images for point in course.points] == [256] and course.over
    whole = by_regard(learner(), Goal(2.0, 640, 1e9))  # nobody is right more often than always
    assert whole.reached is None and not whole.over and len(whole.points) == 1


def test_theirs_learns_until_the_goal_and_keeps_its_defaults(accelerated, monkeypatch):
    import transformers

    made: list[transformers.TrainingArguments] = []
    own = transformers.TrainingArguments
    monkeypatch.setattr(
        transformers, "TrainingArguments", lambda **said: made.append(own(**said)) or made[-1]
    )
    start, subject = learner(), learner()
    course = by_trainer(subject, Goal(0.0, 40, 1e9), reach.defaults(SUBJECTS[0]))
    assert [point.images for point in course.points] == [40] and course.over
    (said,) = made
    assert said.per_device_train_batch_size == 8 and said.learning_rate == 5e-5
    assert said.lr_scheduler_type == "linear" and said.weight_decay == 0
    moved = [
        (now - before).abs().max().item()
        for now, before in zip(subject.model.parameters(), start.model.parameters(), strict=True)
    ]
    assert 0 < max(moved) < 6 * 5e-5  # five steps of AdamW, each of about its rate


def test_the_trainer_is_taught_what_the_recipe_says(accelerated):
    import transformers

    task, recipe = recipe_called("digits-quick")
    config = recipe.config(task.config)
    said = transformers.TrainingArguments(output_dir="nowhere", **reach.taught(config))
    steps = 200
    assert said.per_device_train_batch_size == config.batch_size
    assert said.get_warmup_steps(steps) == config.train.lr_schedule.num_warmup_steps(steps)


# The command


def test_the_benchmark_prints_ratios_and_keeps_its_figures(
    accelerated, tmp_path, monkeypatch, capsys
):
    subjects = (
        Subject("digits-quick", goal=0.0, every=64, epochs=1, limit=1e9, seeds=1),
        Subject("digits-quick", goal=2.0, every=64, epochs=1, limit=0.0, seeds=1),
    )
    monkeypatch.setattr(reach, "SUBJECTS", subjects)
    bench("time-to-accuracy", device="cpu", out=tmp_path)
    printed = capsys.readouterr().out
    assert "0.0% after" not in printed and "200.0% was not reached" in printed
    facts = json.loads((tmp_path / "bench-reach-cpu.json").read_text(encoding="utf-8"))
    assert facts["command"] == "python -m benchmarks time-to-accuracy --device cpu"
    assert {"commit", "device", "date", "versions"} <= set(facts) and not facts["left_out"]
    met, unmet = facts["rows"]
    assert met["parameters"] == unmet["parameters"] and met["batch"] == 64
    for who in (OURS, THEIRS, TAUGHT):
        assert [run["seed"] for run in met["runs"][who]] == [0]
        assert all(len(run["points"]) == 1 for run in met["runs"][who])
        assert not met["seconds"][who]["bound"] and unmet["seconds"][who]["bound"]
        assert met["ratio"][who] > 0 and unmet["ratio"][who] is None
    assert (tmp_path / "bench-reach-cpu.png").stat().st_size < 200_000


def test_the_figure_is_legible(tmp_path):
    def runs(*seconds: float, reached: bool = True) -> list[dict]:
        return [
            {
                "points": [[t, 100 * at, 0.5 + 0.1 * at] for at, t in enumerate((s, 2 * s, 5 * s))],
                "reached": 5 * s if reached else None,
            }
            for s in seconds
        ]

    row = {"recipe": "fashion-mnist-quick", "goal": 0.88}
    row["runs"] = {OURS: runs(1.0, 1.2), THEIRS: runs(30.0, reached=False), TAUGHT: runs(4.0)}
    versions = {"transformers": "5.22.2", "accelerate": "1.15.0"}
    facts = {"device": "AMD EPYC, 2 threads", "torch": "2.13.0", "versions": versions}
    assert_legible(draw({**facts, "rows": [row, row]}, tmp_path / "reach.png"))


@pytest.mark.parametrize("absent", ["transformers", "accelerate"])
def test_a_library_that_is_missing_is_named_with_its_cure(monkeypatch, absent):
    def find(name: str) -> object:
        if name == absent:
            raise ImportError(name)
        return object()

    monkeypatch.setattr(reach_loops, "import_module", find)
    with expect_error(UserError):
        bench("time-to-accuracy", device="cpu")


def test_images_that_are_not_on_this_machine_are_left_out_with_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(reach, "load_trainer", lambda: None)
    monkeypatch.setattr(reach, "SUBJECTS", (Subject("no-such-recipe", 0.5, 1, 1, 1.0, 1),))
    bench("time-to-accuracy", device="cpu")
    assert "no-such-recipe is left out: no task has a recipe" in capsys.readouterr().out
