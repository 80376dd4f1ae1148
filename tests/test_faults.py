"""Killed, interrupted, crowded or out of memory, a run loses nothing that it had saved."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.cli import main
from regard.errors import UserError
from regard.hardware.device import does_not_fit
from regard.run_folder import RunFolder
from regard.tasks.classify import task

RECIPE = """
data = "digits"
batch_size = 128
model = { image_size = 8, patch_size = 2, width = 16, layers = 1, heads = 2 }
"""
TRAIN = ["train", "classify", "--recipe", "tiny.toml", "--no-report"]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}  # sums depend on how many there are


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    (tmp_path / "tiny.toml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)


def resume(run: Path | str, *more: str) -> list[str]:
    return ["train", "classify", "--resume", "--no-report", "--out", str(run), *more]


# Killed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_killed_at_random_moments_a_run_still_ends_with_the_same_bits():
    script = Path(__file__).with_name("faults.py")
    done = subprocess.run(
        [sys.executable, script, "--rounds", "3"], capture_output=True, text=True, env=ONE_THREAD
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": the same bits\n") == 3


def test_a_second_state_of_one_step_never_leaves_the_run_without_a_whole_one(tmp_path, monkeypatch):
    """After the last batch of an epoch there are two: before measuring and after."""
    run = RunFolder(tmp_path)
    run.write_state(9, {"x": torch.tensor([1.0])}, "before")
    rename = os.replace
    for last in ("state.json", "state.safetensors", "000000009.draft"):

        def stopped(draft: Path, final: Path, last: str = last) -> None:
            if last in (draft.name, final.name):
                raise KeyboardInterrupt
            rename(draft, final)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", stopped)
            with pytest.raises(KeyboardInterrupt):
                run.write_state(9, {"x": torch.tensor([2.0])}, "after")
        assert state_of(run) == (9, "before", 1.0)
    for number in (2.0, 3.0, 4.0):
        run.write_state(9, {"x": torch.tensor([number])}, "after")
        assert state_of(run) == (9, "after", number)
        assert len(list((tmp_path / "state").iterdir())) == 1


def state_of(run: RunFolder) -> tuple[int, str, float]:
    latest, found = run.latest_state(), run.read_state()
    assert latest is not None and found is not None
    return latest[0], found[2], float(found[1]["x"])


DEAD = ".draft-4711-0123abcd-"  # of a process that is gone


def test_what_a_killed_process_left_half_written_is_swept_up_by_the_next(tmp_path):
    """Also what is written without the lock, but for what a process that lives is writing."""
    run = RunFolder.at(tmp_path / "run")
    for name in ("model.safetensors", "curves.png", "report.html", "evaluation-test.json"):
        (run.path / f"{DEAD}{name}").write_bytes(b"half")
    with run.drafting("curves.svg") as (alive,):
        (run.path / f"{DEAD}report.html").symlink_to(tmp_path)
        with run.locked():
            pass
        assert {path.name for path in run.path.iterdir()} == {".lock", alive.name}
    assert {path.name for path in run.path.iterdir()} == {".lock", "curves.svg"}


def test_a_start_that_was_killed_is_started_again_in_the_same_place(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").write_bytes(b"")
    (run / f"{DEAD}config.toml").write_bytes(b"format = 1")
    (run / "manifest.json").write_text(json.dumps({"config.toml": [None, "0" * 64]}))
    assert main([*TRAIN, "--epochs", "1", "--quiet", "--out", str(run)]) == 0
    assert not list(run.glob(".draft*"))


def test_a_run_killed_as_it_began_notes_its_data_when_it_goes_on(tmp_path):
    run = tmp_path / "run"
    assert main([*TRAIN, "--epochs", "1", "--quiet", "--out", str(run)]) == 0
    facts = (run / "data.json").read_bytes()
    digests = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({"config.toml": digests["config.toml"]}))
    for name in ("data.json", "machine.json", "metrics.jsonl", "model.safetensors"):
        (run / name).unlink()
    (run / "evaluation-validation.json").unlink()
    for state in (run / "state").iterdir():
        for file in state.iterdir():
            file.unlink()
        state.rmdir()
    assert main(resume(run)) == 0
    assert (run / "data.json").read_bytes() == facts
    assert main(["predict", str(run), "--split", "test", "--index", "0"]) == 0


# Interrupted


@pytest.fixture
def running(tmp_path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """A process that trains, after its first epoch, in a folder whose name needs quotes."""
    run = tmp_path / "my run"
    command = [*TRAIN, "--epochs", "60", "--train.checkpoint-seconds", "0", "--out", "my run"]
    with subprocess.Popen(
        [sys.executable, "-m", "regard", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=ONE_THREAD,
        cwd=tmp_path,
    ) as process:
        while process.poll() is None and not RunFolder(run).metrics():
            time.sleep(0.01)
        try:
            yield process, run
        finally:
            process.kill()


def test_ctrl_c_saves_and_says_the_very_command_that_goes_on_and_a_second_process_is_refused(
    running, capsys
):
    process, run = running
    capsys.readouterr()
    assert main(resume("my run")) == 2
    assert capsys.readouterr().err == "regard: my run is being written by another process\n"
    assert main([*TRAIN, "--out", "my run"]) == 2
    assert capsys.readouterr().err == (
        "regard: my run is not empty, and a run is never overwritten\n"
    )
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "regard: stopped by the keyboard\n"
    words = "stopped; what is done is saved. Go on: "
    (line,) = [line for line in out.splitlines() if line.startswith(words)]
    command = line.removeprefix(words)
    assert command == "regard train classify --out 'my run' --resume"
    state, measured = RunFolder(run).latest_state(), len(RunFolder(run).metrics())
    assert state is not None and 0 < state[0] < 60 * 9
    # Typed as it was said, only shorter, so that this test is.
    epochs = 1 + -(-state[0] // 9)
    assert main([*shlex.split(command)[1:], "--epochs", str(epochs), "--no-report"]) == 0
    lines = RunFolder(run).metrics()
    assert [line["epoch"] for line in lines] == list(range(1, epochs + 1))
    assert lines[-1]["step"] == 9 * epochs
    said = capsys.readouterr().out
    assert f"epoch {epochs} of {epochs}  " in said
    told = [line for line in said.splitlines() if line.startswith("epoch ")]
    assert len(told) == epochs - measured  # those of the first sitting are not told again


def test_a_longer_run_stays_longer_when_it_is_stopped_once_more(tmp_path, monkeypatch):
    run = tmp_path / "run"
    quiet = ["--quiet", "--out", str(run)]
    assert main([*TRAIN, "--epochs", "1", *quiet]) == 0
    real = task.CLASSIFY.loss

    def interrupted(config, facts):
        of, calls = real(config, facts), []

        def objective(model, batch):
            calls.append(1)
            if len(calls) == 9:  # the estimate makes four
                os.kill(os.getpid(), signal.SIGINT)
            return of(model, batch)

        return objective

    with monkeypatch.context() as patch:
        patch.setattr(task, "CLASSIFY", replace(task.CLASSIFY, loss=interrupted))
        assert main(resume(run, "--epochs", "3", "--quiet")) == 130
    assert len(RunFolder(run).metrics()) == 1
    assert main(resume(run, "--quiet")) == 0
    assert len(RunFolder(run).metrics()) == 3


def test_a_run_goes_on_with_an_edit_that_was_accepted_and_its_log_says_so(tmp_path, capsys):
    run = tmp_path / "run"
    assert main([*TRAIN, "--epochs", "1", "--quiet", "--out", str(run)]) == 0
    config = run / "config.toml"
    config.write_text(
        config.read_text().replace("checkpoint_seconds = 60.0", "checkpoint_seconds = 30.0")
    )
    words = f"{config} is not the file that training wrote: it was edited, or is damaged"
    assert main(resume(run, "--epochs", "2", "--quiet")) == 2
    assert words in capsys.readouterr().err
    assert len(RunFolder(run, accept_edits=True).metrics()) == 1
    assert main(resume(run, "--epochs", "2", "--quiet", "--accept-edits")) == 0
    assert f"{words}; accepted, and from here on part of the run" in (run / "log.txt").read_text()
    assert "checkpoint_seconds = 30.0" in config.read_text()
    assert (
        main(["predict", str(run), "--split", "test", "--index", "0"]) == 0
    )  # it is the run's own now
    (run / "manifest.json").unlink()
    assert main(resume(run, "--quiet")) == 2
    assert main(resume(run, "--quiet", "--accept-edits")) == 0
    assert main(["predict", str(run), "--split", "test", "--index", "0"]) == 0


def test_only_one_of_two_that_begin_at_the_same_moment_gets_the_folder(tmp_path, monkeypatch):
    """Both find it empty; the second to lock it finds that the first has begun."""
    run = tmp_path / "run"
    first = RunFolder.at

    def at(path: Path) -> RunFolder:
        found = first(path)
        found.write_text("config.toml", "format = 1\n")  # by the other, just now
        return found

    monkeypatch.setattr(RunFolder, "at", at)
    assert main([*TRAIN, "--epochs", "1", "--quiet", "--out", str(run)]) == 2
    assert (run / "config.toml").read_text() == "format = 1\n"


# Out of memory


def stingy(most: int):
    """The task as it is where a batch of more than so many images does not fit."""
    real = task.CLASSIFY.loss

    def objective(config, facts):
        of = real(config, facts)

        def limited(model, batch):
            if len(batch.labels) > most:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return of(model, batch)

        return limited

    return replace(task.CLASSIFY, loss=objective)


@pytest.mark.parametrize(
    ("most", "words"),
    [
        (40, "32 do: --batch-size 32 --train.grad-accum-steps 4 makes the same steps"),
        (100, "64 do: --batch-size 64 --train.grad-accum-steps 2 makes the same steps"),
        (1, "1 do: --batch-size 1 --train.grad-accum-steps 128 makes the same steps"),
    ],
)
def test_a_batch_that_does_not_fit_is_answered_with_one_that_does(
    most, words, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(task, "CLASSIFY", stingy(most))
    run = tmp_path / "run"
    wanted = [*TRAIN, "--epochs", "1", "--quiet", "--out", str(run)]
    assert main(wanted) == 2
    said = capsys.readouterr().err
    where = "a batch of 128 images does not fit into this machine"
    assert said == f"regard: {where}; {words}\n"
    assert not run.exists()
    if most > 1:  # a step an image is slow
        flags = words.split(": ")[1].removesuffix(" makes the same steps").split()
        assert main([*wanted, *flags]) == 0
        assert RunFolder(run).metrics()[0]["step"] == 10  # 1259 images, 128 at a time


def test_a_model_that_does_not_fit_at_all_is_said_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(task, "CLASSIFY", stingy(0))
    assert main([*TRAIN, "--quiet", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert said == "regard: not even a batch of 1 fits into this machine; take a smaller model\n"
    assert not (tmp_path / "run").exists()


def test_memory_that_ends_in_the_middle_of_a_run_keeps_its_state(tmp_path, monkeypatch, capsys):
    run = tmp_path / "run"
    assert main([*TRAIN, "--epochs", "1", "--quiet", "--out", str(run)]) == 0
    weights = (run / "model.safetensors").read_bytes()
    monkeypatch.setattr(task, "CLASSIFY", stingy(64))
    assert main(resume(run, "--epochs", "2", "--quiet")) == 2
    assert "64 do: --batch-size 64" in capsys.readouterr().err
    assert (run / "model.safetensors").read_bytes() == weights
    monkeypatch.undo()
    assert main(resume(run, "--quiet")) == 0
    assert len(RunFolder(run).metrics()) == 2


@pytest.mark.parametrize(
    ("batch", "fits", "words"),
    [
        (7, 3, "3 do: --batch-size 3 --train.grad-accum-steps 3 makes steps of 9"),
        (100, 12, "12 do: --batch-size 12 --train.grad-accum-steps 9 makes steps of 108"),
    ],
)
def test_steps_that_are_not_quite_the_same_are_not_called_so(batch, fits, words):
    said = does_not_fit(batch, fits, torch.device("cuda"), "images")
    assert isinstance(said, UserError)
    assert str(said) == f"a batch of {batch} images does not fit into the memory of cuda; {words}"
