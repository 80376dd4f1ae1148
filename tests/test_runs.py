"""A run folder is written whole or not at all, loads by itself, and is never overwritten."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from golden import expect_error
from regard.errors import ConfigError, UserError
from regard.models import ViTConfig
from regard.run_folder import FORMAT, RunFolder


@dataclass(frozen=True)
class Recipe:
    epochs: int = 5
    note: str = "[not a table]"
    model: ViTConfig = field(default_factory=ViTConfig)


def test_folders_are_numbered_and_never_used_twice(tmp_path):
    names = [RunFolder.create("classify-digits", tmp_path).path.name for _ in range(3)]
    assert names == ["classify-digits-001", "classify-digits-002", "classify-digits-003"]
    (tmp_path / "classify-digits-007").mkdir()
    assert RunFolder.create("classify-digits", tmp_path).path.name == "classify-digits-008"
    assert RunFolder.create("a/b c", tmp_path).path.name == "a-b-c-001"


def test_many_that_start_at_once_get_a_folder_each(tmp_path):
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(RunFolder.create("r", tmp_path).path))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 16


def test_a_folder_that_holds_something_is_refused(tmp_path):
    RunFolder.at(tmp_path / "new").write_text("log.txt", "")
    with expect_error(UserError):
        RunFolder.at(tmp_path / "new")
    with expect_error(UserError):
        RunFolder.open(tmp_path / "missing")
    with expect_error(UserError):
        RunFolder.open(tmp_path / "new")
    (tmp_path / "file").write_text("")
    with expect_error(UserError):
        RunFolder.create("r", tmp_path / "file" / "runs")


def test_the_configuration_comes_back_with_its_format(tmp_path):
    run, recipe = RunFolder.at(tmp_path), Recipe(7, model=ViTConfig(width=32, mask="window(3)"))
    run.write_config(recipe, task="classify")
    again = RunFolder.open(tmp_path)
    assert again.config(Recipe) == recipe
    assert again.about() == {"format": FORMAT, "task": "classify"}
    text = (tmp_path / "config.toml").read_text(encoding="utf-8")
    again = RunFolder.open(tmp_path, accept_edits=True)
    (tmp_path / "config.toml").write_text(text.replace("width = 32", "widht = 32"))
    with expect_error(ConfigError, key="model.widht", file="config.toml"):
        again.config(Recipe)
    (tmp_path / "config.toml").write_text(text.replace(f"format = {FORMAT}", "format = 99"))
    with expect_error(UserError):
        again.about()


def test_a_line_of_metrics_cut_short_is_passed_over_and_not_carried_on(tmp_path):
    run = RunFolder.at(tmp_path)
    assert run.metrics() == []
    run.add_metrics({"epoch": 1, "train/loss": 0.5})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"epoch": 2, "lo')  # killed here
    assert run.metrics() == [{"epoch": 1, "train/loss": 0.5}]
    run.add_metrics({"epoch": 2, "train/loss": 0.25})
    assert run.metrics() == [{"epoch": 1, "train/loss": 0.5}, {"epoch": 2, "train/loss": 0.25}]
    run.keep_metrics(1)
    assert run.metrics() == [{"epoch": 1, "train/loss": 0.5}]


TENSORS = {
    "a": torch.randn(3, 4),
    "b.c": torch.arange(5),
    "half": torch.randn(2, 2).bfloat16(),
    "scalar": torch.tensor(2.5),
    "empty": torch.zeros(0, 3),
    "flag": torch.tensor([True, False]),
}


def test_tensors_come_back_bit_for_bit_whatever_their_type(tmp_path):
    run = RunFolder.at(tmp_path)
    run.write_tensors("model.safetensors", {**TENSORS, "view": TENSORS["a"].T})
    back = run.read_tensors("model.safetensors")
    for name, tensor in TENSORS.items():
        assert torch.equal(back[name], tensor) and back[name].dtype == tensor.dtype
    assert torch.equal(back["view"], TENSORS["a"].T)


@pytest.mark.parametrize("damage", ["truncated", "flipped bit", "empty", "text", "missing"])
def test_damaged_weights_are_a_sentence_that_names_the_file(tmp_path, damage):
    run, path = RunFolder.at(tmp_path), tmp_path / "model.safetensors"
    run.write_tensors("model.safetensors", TENSORS)
    data = bytearray(path.read_bytes())
    if damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "flipped bit":
        data[-40] ^= 4
        path.write_bytes(data)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("not tensors at all, but long enough to be a header of some kind")
    else:
        path.unlink()
    with expect_error(UserError):
        run.read_tensors("model.safetensors")


def test_state_counts_once_it_is_whole_and_only_the_newest_is_kept(tmp_path):
    run = RunFolder.at(tmp_path)
    assert run.latest_state() is None
    for step in (5, 12):
        with run.writing_state(step) as state:
            state.write_tensors("optimizer.safetensors", {"m": torch.full((2,), float(step))})
            state.write_text("position.json", json.dumps({"step": step}))
    step, state = run.latest_state()
    assert step == 12 and float(state.read_tensors("optimizer.safetensors")["m"][0]) == 12
    with pytest.raises(KeyboardInterrupt), run.writing_state(20) as draft:
        draft.write_text("position.json", "{}")
        raise KeyboardInterrupt
    assert run.latest_state()[0] == 12
    with run.writing_state(21):
        pass
    assert [entry.name for entry in (tmp_path / "state").iterdir()] == ["000000021"]


def test_states_that_were_moved_to_a_larger_disk_leave_alone_what_else_is_there(tmp_path):
    big, run = tmp_path / "big", RunFolder.at(tmp_path / "run")
    for name in ("other/thesis.tex", "000000007/chapters/one.tex", "20240101/a.json", "notes"):
        (big / name).parent.mkdir(parents=True, exist_ok=True)
        (big / name).write_text("mine")
    (big / "000000008").mkdir()  # empty, and not ours to judge
    (big / "000000005").symlink_to(tmp_path / "big" / "other")
    (run.path / "state").symlink_to(big)
    before = set(big.rglob("*"))
    for step in (5, 6, 8):
        run.write_state(step, {"x": torch.tensor([float(step)])}, "text")
    assert before <= set(big.rglob("*")) and not list((big / "000000008").iterdir())
    step, state = run.latest_state()
    assert step == 8 and state.path == run.path / "state" / "000000008-1"
    files = {state.path / "state.json", state.path / "state.safetensors"}
    assert {
        run.path / "state" / path.relative_to(big) for path in set(big.rglob("*")) - before
    } == {
        state.path,
        *files,
    }


def test_a_state_folder_that_leads_nowhere_is_refused_and_a_file_too(tmp_path):
    run = RunFolder.at(tmp_path / "run")
    (run.path / "state").symlink_to(tmp_path / "gone")
    with expect_error(UserError):
        run.write_state(5, {"x": torch.zeros(1)}, "text")
    (run.path / "state").unlink()
    (run.path / "state").write_text("no folder")
    with expect_error(UserError):
        run.write_state(5, {"x": torch.zeros(1)}, "text")
    assert (run.path / "state").read_text() == "no folder"


@pytest.mark.skipif(os.name == "nt", reason="links are for administrators there")
@pytest.mark.parametrize("name", ["log.txt", "metrics.jsonl", ".lock"])
def test_what_is_written_in_place_is_never_written_through_a_link(tmp_path, name):
    run, outside = RunFolder.at(tmp_path / "run"), tmp_path / "outside"
    outside.write_text("mine\n")
    (run.path / name).symlink_to(outside)

    def write() -> None:
        run.add_log("words") if name == "log.txt" else run.add_metrics({"epoch": 1})

    with expect_error(UserError), run.locked():
        write()
    if name != ".lock":
        with expect_error(UserError):
            write()
    assert outside.read_text() == "mine\n"
    os.remove(run.path / name)
    os.mkfifo(run.path / name)  # to open one waits for whoever is at its other end
    with expect_error(UserError), run.locked():
        run.metrics() if name == "metrics.jsonl" else write()


def test_what_is_written_whole_takes_the_place_of_a_link_and_not_of_what_it_leads_to(tmp_path):
    run, outside = RunFolder.at(tmp_path / "run"), tmp_path / "outside"
    outside.write_text("mine")
    for name in ("report.html", "data.json", "curves.svg"):
        (run.path / name).symlink_to(outside)
    run.write_text("report.html", "<p>")
    run.write_facts("data", {})
    with run.drafting("curves.svg") as (draft,):
        draft.write_text("<svg/>")
    assert outside.read_text() == "mine"
    assert not any(path.is_symlink() for path in run.path.iterdir())


def test_a_second_writer_is_refused_and_a_dead_one_holds_nothing(tmp_path):
    run = RunFolder.at(tmp_path)
    script = (
        "import sys, time; from pathlib import Path; from regard.run_folder import RunFolder\n"
        "with RunFolder(Path(sys.argv[1])).locked(): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE) as held:
        assert held.stdout.readline().strip() == b"held"
        with expect_error(UserError), run.locked():
            pass
        held.send_signal(signal.SIGKILL)
    with run.locked(), pytest.raises(UserError), run.locked():
        pass


def test_a_writer_killed_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path):
    run = RunFolder.at(tmp_path)
    run.write_tensors("model.safetensors", {"x": torch.zeros(200_000)})
    script = (
        "import sys, torch; from pathlib import Path; from regard.run_folder import RunFolder\n"
        "run, n = RunFolder(Path(sys.argv[1])), 0\n"
        "print('go', flush=True)\n"
        "while True:\n"
        "    n += 1\n"
        "    run.write_tensors('model.safetensors', {'x': torch.full((200_000,), float(n))})\n"
        "    run.add_metrics({'n': n})\n"
    )
    for pause in (0.05, 0.2):
        with subprocess.Popen(
            [sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE
        ) as writer:
            writer.stdout.readline()
            time.sleep(pause)
            writer.kill()
        x = run.read_tensors("model.safetensors")["x"]
        assert (x == x[0]).all()
        assert all(set(line) == {"n"} for line in run.metrics())


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    run = RunFolder.at(tmp_path)
    run.write_text("report.html", "whole")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with expect_error(UserError):
        run.write_text("report.html", "another")
    assert (tmp_path / "report.html").read_text() == "whole"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html"]


def test_runs_are_read_without_torch():
    code = "import sys, regard.run_folder, regard.config; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
