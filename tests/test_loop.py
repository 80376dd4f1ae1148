"""The loop learns, resumes as if it had never stopped, and says what went wrong."""

import os
import random
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import toy_run
from golden import expect_error
from regard.errors import FieldError, UserError
from regard.run_folder import RunFolder, epochs_in
from regard.training.config import LRScheduleConfig, OptimizerConfig, TrainConfig
from regard.training.estimate import estimate
from regard.training.fit import Diverged, Progress, train


def run_toy(path: Path, config: TrainConfig = toy_run.CONFIG, **options) -> nn.Module:
    path.mkdir(exist_ok=True)
    net = options.pop("net", None) or toy_run.model()
    points = options.pop("points", None) or toy_run.Points()
    train(
        net,
        points,
        options.pop("objective", toy_run.objective),
        options.pop("measure", toy_run.measure),
        config,
        RunFolder(path),
        **options,
    )
    return net


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(
        torch.equal(x, y)
        for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def without_times(run: RunFolder) -> list[dict[str, float]]:
    times = ("train_seconds", "data_wait_seconds")
    return [{k: v for k, v in line.items() if k not in times} for line in run.metrics()]


def test_it_learns_and_writes_a_line_an_epoch(tmp_path):
    config = TrainConfig(epochs=25, optimizer=OptimizerConfig(lr=2e-2))
    run_toy(tmp_path, config)
    lines = RunFolder(tmp_path).metrics()
    assert [line["epoch"] for line in lines] == list(range(1, 26))
    assert lines[-1]["train/loss"] < 0.5 * lines[0]["train/loss"] and lines[-1]["accuracy"] > 0.9
    assert lines[-1]["step"] == 25 * 12
    assert 0 <= lines[-1]["data_wait_seconds"] <= lines[-1]["train_seconds"]


@pytest.mark.parametrize("stop", [1, 7, 12, 13, 24, 35])
def test_ctrl_c_at_any_step_saves_and_the_resumed_run_is_the_same_run(tmp_path, stop):
    calm = TrainConfig(**{**vars(toy_run.CONFIG), "checkpoint_seconds": 1e9})
    whole = run_toy(tmp_path / "whole", calm)

    def interrupt(progress: Progress) -> None:
        if progress.step == stop and progress.batch:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_toy(tmp_path / "cut", calm, report=interrupt)
    assert RunFolder(tmp_path / "cut").latest_state()[0] == stop
    torch.manual_seed(12345)
    random.seed(12345)
    assert same(run_toy(tmp_path / "cut", calm, resume=True), whole)
    assert without_times(RunFolder(tmp_path / "cut")) == without_times(
        RunFolder(tmp_path / "whole")
    )
    best = [
        RunFolder(tmp_path / name).read_tensors("model.safetensors") for name in ("cut", "whole")
    ]
    assert all(torch.equal(best[0][key], best[1][key]) for key in best[1])


def test_accumulated_batches_take_the_step_of_one_large_batch(tmp_path):
    def trained(name: str, batch: int, accumulate: int) -> nn.Module:
        config = TrainConfig(
            epochs=2,
            grad_accum_steps=accumulate,
            lr_schedule=LRScheduleConfig("constant", warmup_ratio=0.0),
            optimizer=OptimizerConfig(lr=1e-3),
        )
        points = toy_run.Points(count=92, batch=batch)  # the last batch is a short one
        points.x = points.x.double()

        def objective(net, batch):
            return nn.functional.cross_entropy(net(batch[0]), batch[1], reduction="sum"), len(
                batch[0]
            )

        return run_toy(
            tmp_path / name,
            config,
            net=toy_run.model(dropout=0.0).double(),
            points=points,
            objective=objective,
            measure=lambda net: {},
        )

    large, small = trained("large", 24, 1), trained("small", 8, 3)
    for a, b in zip(large.parameters(), small.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_state(tmp_path):
    seen = [0]

    def objective(net, batch):
        seen[0] += 1
        loss, count = toy_run.objective(net, batch)
        return (loss * float("nan") if seen[0] == 16 else loss), count

    with expect_error(Diverged):
        run_toy(tmp_path, objective=objective)
    step, state = RunFolder(tmp_path).latest_state()
    assert step == 15
    assert all(torch.isfinite(w).all() for w in state.read_tensors("state.safetensors").values())


def test_between_equal_figures_the_lower_loss_decides(tmp_path):
    losses = iter([0.5, 0.3, 0.4, 0.3])
    figures = [0.9, 0.9, 0.9, 0.8]

    def measured(_):
        return {"val/accuracy": figures.pop(0), "val/loss": next(losses)}

    config = replace(toy_run.CONFIG, epochs=4)
    run = RunFolder.at(tmp_path / "run")
    at = train(toy_run.model(), toy_run.Points(), toy_run.objective, measured, config, run)
    assert (at.best, at.best_loss, at.best_epoch) == (0.9, 0.3, 1)


def test_of_a_loss_the_least_is_the_best_and_patience_waits_for_less(tmp_path):
    losses = iter([0.9, 0.4, 0.5, 0.6, 0.3])

    def measured(_):
        return {"val/loss": next(losses), "val/accuracy": 0.5}

    config = replace(toy_run.CONFIG, epochs=5, patience=2)
    run = RunFolder.at(tmp_path / "run")
    at = train(toy_run.model(), toy_run.Points(), toy_run.objective, measured, config, run)
    assert (at.best, at.best_epoch, at.epoch) == (0.4, 1, 4)
    assert [line["is_best"] for line in run.metrics()] == [True, True, False, False]


def test_the_best_weights_by_validation_are_kept_and_patience_ends_the_run(tmp_path):
    figures, weights = iter([0.2, 0.9, 0.5, 0.4, 0.8, 0.7]), []

    def measure(net: nn.Module) -> dict[str, float]:
        weights.append({name: w.clone() for name, w in net.state_dict().items()})
        return {"accuracy": next(figures)}

    run_toy(tmp_path, TrainConfig(epochs=6, patience=2, ema_decay=0.5), measure=measure)
    run = RunFolder(tmp_path)
    assert [line["accuracy"] for line in run.metrics()] == [0.2, 0.9, 0.5, 0.4]
    kept = run.read_tensors("model.safetensors")
    assert all(torch.equal(kept[name], weights[1][name]) for name in kept)


def test_measuring_now_and_then_changes_no_step_and_leaves_out_no_loss(tmp_path):
    often = run_toy(tmp_path / "often", TrainConfig(epochs=5))
    seldom = run_toy(tmp_path / "seldom", TrainConfig(epochs=5, eval_every=2))
    assert same(often, seldom)
    lines, few = (RunFolder(tmp_path / name).metrics() for name in ("often", "seldom"))
    assert [line["epoch"] for line in few] == [2, 4, 5]
    assert few[-1]["accuracy"] == lines[-1]["accuracy"]
    losses = [line["train/loss"] for line in lines]  # all epochs have as many items
    pairs = [(losses[0] + losses[1]) / 2, (losses[2] + losses[3]) / 2, losses[4]]
    assert [line["train/loss"] for line in few] == pytest.approx(pairs)
    assert epochs_in(few) == 5 and epochs_in(few[:1]) == 2 and epochs_in([]) == 0


def test_patience_counts_what_was_measured_and_an_earlier_end_is_measured(tmp_path):
    figures = iter([0.5, 0.9, 0.8, 0.7, 0.6])

    def measure(net: nn.Module) -> dict[str, float]:
        return {"accuracy": next(figures)}

    config = TrainConfig(
        epochs=20, eval_every=3, patience=2
    )  # fewer than lie between two measurings
    run_toy(tmp_path / "patient", config, measure=measure)
    lines = RunFolder(tmp_path / "patient").metrics()
    assert [(line["epoch"], line["is_best"]) for line in lines] == [
        (3, True),
        (6, True),
        (9, False),
    ]

    path = tmp_path / "shorter"
    net, points = toy_run.model(), toy_run.Points()
    left = iter(range(2))  # two epochs of four, and none of them measured

    def stop(at: Progress) -> None:
        if not at.batch and next(left) == 1:
            raise KeyboardInterrupt

    config = replace(toy_run.CONFIG, epochs=8, eval_every=4)
    path.mkdir()
    with pytest.raises(KeyboardInterrupt):
        train(net, points, toy_run.objective, toy_run.measure, config, RunFolder(path), report=stop)
    run_toy(path, replace(config, epochs=2), resume=True)
    run = RunFolder(path)
    assert [line["epoch"] for line in run.metrics()] == [2]
    assert (path / "model.safetensors").exists()


def test_state_of_another_configuration_is_refused_in_a_sentence(tmp_path):
    run_toy(tmp_path)
    other = nn.Sequential(nn.Linear(2, 5), nn.Linear(5, 2))
    with expect_error(UserError):
        run_toy(tmp_path, resume=True, net=other)


def test_a_folder_in_use_is_refused_and_a_finished_run_has_nothing_left_to_do(tmp_path):
    done = run_toy(tmp_path)
    with RunFolder(tmp_path).locked(), expect_error(UserError):
        run_toy(tmp_path, resume=True)
    assert same(run_toy(tmp_path, resume=True), done)
    assert len(RunFolder(tmp_path).metrics()) == 3


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"epochs": 0}, "epochs"),
        ({"grad_accum_steps": 0}, "grad_accum_steps"),
        ({"ema_decay": 1.0}, "ema_decay"),
        ({"grad_clip": -1.0}, "grad_clip"),
    ],
)
def test_impossible_settings_are_named(fields, name):
    with expect_error(FieldError, field=name):
        TrainConfig(**fields)


@pytest.mark.parametrize("compile", ["auto", "on", "off"])
def test_an_estimate_leaves_the_model_as_it_was_and_compiles_on_a_cpu_only_when_asked(compile):
    net, before = toy_run.model(), toy_run.model()
    config = replace(toy_run.CONFIG, compile=compile, epochs=10**6)
    of = estimate(net, toy_run.Points(), toy_run.objective, config, measured=7)
    assert same(net, before)
    assert of.seconds > 0 and of.compile is (compile == "on") and not of.capture
    longer = estimate(net, toy_run.Points(), toy_run.objective, config, measured=10**9)
    assert longer.seconds > 10 * of.seconds


def test_only_training_is_compiled_and_what_is_measured_is_the_model_as_it_stands(
    tmp_path, monkeypatch
):
    class Net(nn.Module):  # of a class of its own: torch compiles none of its own classes
        def __init__(self):
            super().__init__()
            self.inner = toy_run.model()

        def forward(self, x):
            return self.inner(x)

    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compile = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda net: compile(net, backend=count))
    plain = run_toy(tmp_path / "plain", net=Net())
    assert not graphs
    compiled = run_toy(tmp_path / "compiled", replace(toy_run.CONFIG, compile="on"), net=Net())
    assert len(graphs) == 1
    assert same(plain, compiled)


@pytest.mark.parametrize("keep, epoch", [("best", 2), ("last", 4)])
def test_the_weights_kept_are_those_of_the_best_epoch_or_of_the_last(tmp_path, keep, epoch):
    seen, figures = [], iter([0.5, 0.9, 0.6, 0.7])

    def measured(net):
        seen.append({name: weight.clone() for name, weight in net.state_dict().items()})
        return {"val/accuracy": next(figures)}

    config = replace(toy_run.CONFIG, epochs=4, keep_weights=keep)
    run = RunFolder(tmp_path)
    at = train(toy_run.model(), toy_run.Points(), toy_run.objective, measured, config, run)
    kept = run.read_tensors("model.safetensors")
    assert at.best_epoch == epoch - 1
    assert all(torch.equal(kept[name], weight) for name, weight in seen[epoch - 1].items())
    assert [line["is_best"] for line in run.metrics()][epoch - 1]


@pytest.mark.parametrize(("writing", "states"), [(0.2, 2), (0.0, 7)])
def test_states_after_short_epochs_take_a_small_share_of_the_time(
    tmp_path, monkeypatch, writing, states
):
    """By a clock that moves when a state is written and, by half a second, at each epoch."""
    now, written, write = [0.0], [], RunFolder.write_state

    def slowly(run, step, *parts):
        now[0] += writing
        written.append(step)
        write(run, step, *parts)

    def measure(net):
        now[0] += 0.5
        return toy_run.measure(net)

    monkeypatch.setattr(RunFolder, "write_state", slowly)
    monkeypatch.setattr("regard.training.fit.time.monotonic", lambda: now[0])
    run_toy(tmp_path, replace(toy_run.CONFIG, epochs=6, checkpoint_seconds=60.0), measure=measure)
    assert len(written) == states and written[-1] == 6 * 12
