"""What is kept of runs is theirs: the command makes them again, and old figures are forgotten."""

import json
import shlex

import pytest

import regard as rg
from golden import expect_error, golden
from regard.cli import COMMANDS, main
from regard.errors import UserError
from regard.runs.record import command_of, flag, recorded
from regard.runs.report import marks

TINY = {"model": {"width": 16, "layers": 1, "heads": 2, "mlp_width": 16}, "batch_size": 64}


def small(root, **changes):
    options = {"data": "digits", "epochs": 1, "quiet": True, "report": False, "device": "cpu"}
    return rg.train("classify", root=root, **options, **(TINY | changes))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    return [small(root, train={"seed": seed}) for seed in (0, 1)]


def test_a_file_for_several_seeds_has_mean_spread_and_hardware(runs, tmp_path, capsys):
    paths = [str(run.folder.path) for run in runs]
    out = tmp_path / "run.json"
    assert main(["evaluate", *paths, "--save-results", str(out), "--device", "cpu", "--json"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len([json.loads(line) for line in said]) == 2  # nothing but JSON
    kept = json.loads(out.read_text(encoding="utf-8"))
    values = [run["figures"]["accuracy"]["value"] for run in kept["runs"]]
    assert kept["mean"] == pytest.approx(sum(values) / 2)
    assert kept["deviation"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert [run["seed"] for run in kept["runs"]] == [0, 1]
    for entry, run in zip(kept["runs"], runs, strict=True):
        course = [[line["train_seconds"], line["val/accuracy"]] for line in run.metrics]
        assert entry["course"] == [[seconds, round(right, 4)] for seconds, right in course]
    assert kept["data"] == "digits" and kept["parts"] == [1259, 179, 359]
    assert {"device", "torch", "commit", "command", "parameters"} <= set(kept)


def test_the_command_that_is_kept_makes_the_same_configuration(tmp_path):
    run = small(
        tmp_path,
        label_smoothing=0.1,
        skip_invalid=True,
        augment={"crop_padding": 1},
        **{
            "model.bias": False,
            "model.head_hidden": (8, 4),
            "train.optimizer.betas": (0.8, 0.9),
            "train.seed": 3,
        },
    )
    _, verb, *words = shlex.split(command_of(run))
    assert verb == "train" and "--skip-invalid" in words and "--model.no-bias" in words
    out = tmp_path / "again"
    again = [*words, "--out", str(out), "--no-report", "--quiet", "--device", "cpu"]
    assert main(["train", *again, "--train.seed", "3"]) == 0
    assert rg.load(out).config == run.config
    assert COMMANDS["train"].read(words) is not None


@pytest.mark.parametrize(
    ("key", "value", "typed"),
    [
        ("skip_invalid", True, "--skip-invalid"),
        ("model.bias", False, "--model.no-bias"),
        ("train.optimizer.betas", (0.9, 0.95), "--train.optimizer.betas 0.9 0.95"),
        (
            "model.mask",
            "window(2) | global_tokens(1)",
            "--model.mask 'window(2) | global_tokens(1)'",
        ),
    ],
)
def test_a_field_as_it_is_typed(key, value, typed):
    assert shlex.join(flag(key, value)) == typed


def test_runs_that_differ_in_more_than_their_seed_are_not_averaged(runs, tmp_path):
    other = small(tmp_path, label_smoothing=0.2)
    judged = [run.evaluate("validation") for run in (runs[0], other)]
    with expect_error(UserError):
        recorded([runs[0], other], judged, "validation")


def test_figures_of_other_weights_are_forgotten(tmp_path):
    run = small(tmp_path)
    run.evaluate("test")
    assert run.evaluated("test") is not None and marks(run.folder)
    path = run.folder.path
    further = rg.train(
        "classify", out=path, resume=True, epochs=3, quiet=True, report=False, device="cpu"
    )
    # Else the weights would still be the old ones.
    assert any(line["is_best"] for line in further.metrics[1:])
    assert further.evaluated("test") is None and not marks(further.folder)


def test_only_figures_on_a_runs_own_data_are_recorded(runs, tmp_path, capsys):
    path = str(runs[0].folder.path)
    command = ["evaluate", path, "--data", "digits", "--save-results", str(tmp_path / "x.json")]
    assert main(command) == 2
    golden(capsys.readouterr().err)


def test_runs_of_two_tasks_have_no_mean_and_no_figure_together(runs, tmp_path, capsys):
    (tmp_path / "book.txt").write_text("one two three four\n" * 200)
    sizes = {"width": 16, "layers": 1, "heads": 2, "context_length": 16}
    text = rg.train(
        "language",
        **{"data": tmp_path / "book.txt", "epochs": 1, "root": tmp_path, "model": sizes},
        **{"tokenizer": {"name": "char"}, "quiet": True, "report": False, "device": "cpu"},
    )
    both = [str(runs[0].folder.path), str(text.folder.path)]
    for command in (["evaluate", *both], ["compare", *both, "--out", str(tmp_path / "c.png")]):
        assert main(command) == 2
        golden(capsys.readouterr().err)
