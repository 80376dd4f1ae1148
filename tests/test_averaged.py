"""The mean of runs' weights is a run, and is measured beside them before it is praised."""

import json
from dataclasses import replace

import pytest
import torch

import regard as rg
from golden import expect_error
from regard.cli import main
from regard.errors import UserError
from regard.runs.average import average, mean_of
from regard.runs.record import recorded

TINY = {"model": {"width": 16, "layers": 1, "heads": 2, "mlp_width": 16}, "batch_size": 64}


def small(root, **changes):
    options = {"data": "digits", "epochs": 1, "quiet": True, "report": False, "device": "cpu"}
    return rg.train("classify", root=root, **options | TINY | changes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return [small(root, train={"seed": seed}) for seed in (0, 1)]


def test_the_mean_is_of_every_weight_and_is_a_run_like_others(runs, tmp_path, capsys):
    out = tmp_path / "mean"
    paths = [str(run.folder.path) for run in runs]
    assert main(["average", *paths, "--out", str(out), "--device", "cpu", "--test"]) == 0
    said = capsys.readouterr().out
    made = rg.load(out, device="cpu")
    theirs = [run.model.state_dict() for run in runs]
    for name, weight in made.model.state_dict().items():
        by_hand = (theirs[0][name].double() + theirs[1][name].double()) / 2
        torch.testing.assert_close(weight.double(), by_hand, rtol=0, atol=1e-7)
    worth = made.evaluated("validation").accuracy.value
    assert f"the mean of their weights                {worth:.2%}" in said
    for run in runs:
        assert f"{run.evaluated('validation').accuracy.value:.2%}" in said
    assert made.evaluated("test") is not None and "accuracy" in said
    (line,) = made.metrics
    assert line["val/accuracy"] == pytest.approx(worth)
    assert line["train_seconds"] == pytest.approx(
        sum(run.metrics[-1]["train_seconds"] for run in runs)
    )
    assert main(["evaluate", str(out), "--device", "cpu"]) == 0
    assert main(["train", "classify", "--out", str(out), "--resume", "--device", "cpu"]) == 2
    kept = recorded([made], [made.evaluated("test")], "test")
    assert kept["command"].startswith("regard average (2 runs of regard train classify --recipe ")
    json.dumps(kept)


@pytest.mark.parametrize(
    ("worth", "words"),
    [(0.95, "at least as good as the best"), (0.85, "not than the best"), (0.5, "worse than")],
)
def test_what_came_of_it_is_said(runs, worth, words):
    from regard.runs.average import Averaged

    assert words in str(Averaged(runs[0], worth, {"a": 0.7, "b": 0.9}))
    losses = {"a": 1 - 0.7, "b": 1 - 0.9}
    assert words in str(Averaged(runs[0], 1 - worth, losses, lower=True))


def test_runs_from_scratch_are_seen_through(runs, tmp_path):
    """Two networks that found the same function in different places have no use for a mean."""
    model = runs[0].model
    turned = {name: weight.clone() for name, weight in model.state_dict().items()}
    for name in ("fc1.weight", "fc1.bias"):
        name = f"blocks.0.mlp.{name}"
        turned[name] = turned[name].flip(0)
    name = "blocks.0.mlp.fc2.weight"
    turned[name] = turned[name].flip(1)
    mean = mean_of([model.state_dict(), turned])
    other = runs[0].task.build_model(runs[0].config, runs[0].metadata).eval()
    images = torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        other.load_state_dict(turned)
        torch.testing.assert_close(other(images), model(images), rtol=1e-4, atol=1e-5)
        other.load_state_dict(mean)
        assert not torch.allclose(other(images), model(images), rtol=1e-2, atol=1e-3)


def test_what_cannot_be_averaged_gets_a_sentence(runs, tmp_path):
    wider = small(tmp_path, **{"model.width": 32})
    for found in (runs[:1], [runs[0], runs[0]], [runs[0], wider]):
        with expect_error(UserError):
            average(found, tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
    with expect_error(UserError):
        average(runs, wider.folder.path)


def test_it_lies_beside_the_first_where_no_place_is_named(runs):
    found = average(runs)
    assert found.run.folder.path == runs[0].folder.path.parent / "classify-digits-mean-001"
    again = average([found.run, runs[0]])  # a mean may be averaged like any other run
    assert again.run.folder.about()["averaged"] == "2"


def test_where_the_data_are_gone_no_folder_is_begun(runs, tmp_path, monkeypatch):
    def gone(config):
        raise UserError("digits are gone")

    again = [rg.load(run.folder.path, device="cpu") for run in runs]
    monkeypatch.setattr(again[0], "task", replace(again[0].task, load_data=gone))
    with pytest.raises(UserError, match="are gone"):
        average(again, tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
