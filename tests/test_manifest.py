"""What decides a run's answers is listed with digests: an edit is named, a killed run loads."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from golden import expect_error, golden
from regard.errors import UserError
from regard.run_folder import RunFolder, manifest
from regard.run_folder.manifest import DECIDING, Manifest

LINE = {"epoch": 1, "val/accuracy": 0.5}
NEXT = {"epoch": 2, "val/accuracy": 0.6}
WEIGHTS = [{"x": torch.full((4,), float(number))} for number in range(3)]


@dataclass(frozen=True)
class Recipe:
    heads: int = 2


@pytest.fixture
def run(tmp_path) -> RunFolder:
    folder = RunFolder.at(tmp_path / "run")
    folder.write_config(Recipe(), task="classify")
    folder.write_facts("data", {"classes": ["cat", "dog"]})
    folder.add_metrics(LINE, WEIGHTS[0])
    return folder


def digests(run: RunFolder) -> dict[str, object]:
    return json.loads((run.path / "manifest.json").read_text())


def anew(run: RunFolder, **options: bool) -> RunFolder:
    """The run as the next process finds it."""
    return RunFolder.open(run.path, **options)


def test_every_file_that_decides_is_listed_with_the_digest_that_anyone_can_compute(run):
    import hashlib

    assert set(digests(run)) == set(DECIDING)
    for name, digest in digests(run).items():
        assert digest == hashlib.sha256((run.path / name).read_bytes()).hexdigest()
    run.write_facts("evaluation-test", {"figures": {}})
    run.write_text("report.html", "<p>")
    assert set(digests(run)) == {*DECIDING, "evaluation-test.json"}


@pytest.mark.parametrize("name", DECIDING)
def test_an_edited_file_is_named_unless_the_edit_is_accepted(run, name, capsys):
    path = run.path / name
    path.write_bytes(path.read_bytes().replace(b"2", b"4").replace(b"c", b"k"))
    if name == "model.safetensors":
        path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with expect_error(UserError):
        anew(run).expect_unedited()
    with expect_error(UserError):  # also when only that file is read
        read = anew(run)
        read.metrics() if name == "metrics.jsonl" else None
        read.read_facts("data") if name == "data.json" else None
        read.about() if name == "config.toml" else None
        read.read_tensors(name) if name == "model.safetensors" else None
    assert capsys.readouterr().err == ""
    anew(run, accept_edits=True).expect_unedited()
    golden(capsys.readouterr().err)


def test_a_file_that_was_put_there_is_an_edit_and_one_that_is_gone_tells_itself(tmp_path):
    run = RunFolder.at(tmp_path / "run")
    run.write_config(Recipe())
    (run.path / "metrics.jsonl").write_text("")  # left by a process killed as it began to write
    anew(run).expect_unedited()
    (run.path / "data.json").write_text("{}")
    with expect_error(UserError):
        anew(run).expect_unedited()
    (run.path / "data.json").unlink()
    anew(run).expect_unedited()
    assert anew(run).read_facts("data") is None


@pytest.mark.parametrize("last", ["manifest.json", "model.safetensors", "metrics.jsonl", "settled"])
def test_killed_at_any_step_of_an_epoch_the_run_loads_and_goes_on(run, last, monkeypatch):
    """After each change on the disk the process ends, as at kill -9."""
    ended: list[str] = []

    class Killed(BaseException):
        pass

    def ends_after(name: str) -> None:
        ended.append(name)
        if ended.count(last) == 1 or (last == "settled" and ended.count("manifest.json") == 2):
            raise Killed

    rename, sync = os.replace, os.fsync

    def replace(draft: Path, path: Path) -> None:
        rename(draft, path)
        ends_after(Path(path).name)

    def fsync(descriptor: int) -> None:
        sync(descriptor)
        if os.path.samestat(os.fstat(descriptor), os.stat(run.path / "metrics.jsonl")):
            ends_after("metrics.jsonl")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(Killed):
            run.add_metrics(NEXT, WEIGHTS[1])
    anew(run).expect_unedited()
    weights = float(anew(run).read_tensors("model.safetensors")["x"][0])
    assert weights == (last != "manifest.json")
    assert len(anew(run).metrics()) == 1 + (last in ("metrics.jsonl", "settled"))
    with anew(run).locked():
        assert all(isinstance(digest, str) for digest in digests(run).values())
        anew(run).add_metrics(NEXT, WEIGHTS[2])
    anew(run).expect_unedited()


def test_after_a_broken_change_the_older_file_is_no_longer_admitted_once_one_is_settled(run):
    old = (run.path / "config.toml").read_bytes()
    with pytest.raises(KeyboardInterrupt), run.manifest.changing({"config.toml": "0" * 64}):
        raise KeyboardInterrupt
    assert len(digests(run)["config.toml"]) == 2
    with run.locked():
        pass
    assert isinstance(digests(run)["config.toml"], str)
    run.write_config(Recipe(4))
    (run.path / "config.toml").write_bytes(old)
    with expect_error(UserError):
        anew(run).expect_unedited()


def test_a_line_cut_short_is_not_counted_and_a_whole_one_that_was_added_is(run):
    path = run.path / "metrics.jsonl"
    run.add_metrics(NEXT)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"epoch": 2, "los')
    anew(run).expect_unedited()
    path.write_bytes(whole + b"{}\n")
    with expect_error(UserError):
        anew(run).expect_unedited()
    run.add_metrics(NEXT)  # a training that goes on meanwhile makes it no better
    with expect_error(UserError):
        anew(run).expect_unedited()
    path.write_bytes(whole[:-5])
    with expect_error(UserError):
        anew(run).expect_unedited()


def test_one_epoch_writes_the_manifest_twice_and_what_stays_the_same_writes_none(run, monkeypatch):
    written = []
    plain = manifest.write_whole
    monkeypatch.setattr(
        manifest, "write_whole", lambda path, data: (written.append(path.name), plain(path, data))
    )
    run.add_metrics(NEXT, WEIGHTS[1])
    assert written == ["manifest.json"] * 2
    run.keep_metrics(2)
    run.write_config(Recipe(), task="classify")
    assert len(written) == 2


def test_a_reader_is_not_misled_by_a_training_that_writes_meanwhile(run, monkeypatch):
    """It reads the manifest, the training puts other files there, and it reads those."""
    reader, plain = anew(run), Manifest.digest
    epochs = iter((1, 2))

    def digest(self: Manifest, name: str) -> str | None:
        if self is reader.manifest and next(epochs, None):
            run.add_metrics(NEXT, WEIGHTS[1])
            run.add_metrics(NEXT, WEIGHTS[2])
        return plain(self, name)

    monkeypatch.setattr(Manifest, "digest", digest)
    reader.expect_unedited()
    assert len(reader.metrics()) == 5


def test_two_that_write_one_run_lose_nothing_of_each_other(run):
    """A training and `regard evaluate` on its run."""
    with run.manifest.changing({"model.safetensors": "1" * 64}):
        anew(run).write_facts("evaluation-test", {"figures": {}})
        assert len(digests(run)["model.safetensors"]) == 2
    assert "evaluation-test.json" in digests(run)
    assert digests(run)["model.safetensors"] == "1" * 64


def test_weights_are_hashed_once_however_often_they_are_looked_at(run, monkeypatch):
    run.write_tensors("model.safetensors", {"x": torch.zeros(2**19)})
    hashed = []
    plain = manifest.hashlib.file_digest
    monkeypatch.setattr(
        manifest.hashlib, "file_digest", lambda *args: (hashed.append(args), plain(*args))[1]
    )
    monkeypatch.setattr(
        "regard.run_folder.tensor_files.checksum", lambda tensors: pytest.fail("a second time")
    )
    again = anew(run)
    again.expect_unedited()
    count = len(hashed)
    again.read_tensors("model.safetensors")
    again.manifest.digest("model.safetensors")
    assert len(hashed) == count
    with (run.path / "model.safetensors").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    with expect_error(UserError):
        again.read_tensors("model.safetensors")
