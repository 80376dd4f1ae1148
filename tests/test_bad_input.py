"""What is wrong with what a user typed, or has on disk, is one sentence, and nothing is spoilt."""

import contextlib
import errno
import gc
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import regard as rg
from golden import golden
from official import write_bomb, write_idx, write_photos
from regard.cli import main
from regard.data import registry as catalogue
from regard.run_folder import RunFolder
from regard.run_folder.manifest import DECIDING
from regard.runs.report import model_digests

RECIPE = """
data = "digits"
batch_size = 64
model = { image_size = 8, patch_size = 2, width = 16, layers = 1, heads = 2 }
train = { epochs = 1 }
"""
BRIEF = ["--recipe", "tiny.toml", "--no-report", "--quiet"]
ON_DIGITS = ["train", "classify", *BRIEF]
TEN = "abcdefghij"
EDITED = (
    "is not the file that training wrote: it was edited, or is damaged; put back what was there, or"
)
STATE = Path("state", "000000019")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    """No test reads or writes the user's data, or where the tests are started."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(catalogue, "DEBIAN", tmp_path / "debian")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(RECIPE)


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A good run, which no test may change."""
    folder = tmp_path_factory.mktemp("runs")
    with contextlib.chdir(folder):
        (folder / "tiny.toml").write_text(RECIPE)
        assert main([*ON_DIGITS, "--out", "good"]) == 0
    return folder / "good"


def strange_figures(run: Path) -> str:
    """An evaluation of the very model of a run, in which figures are missing."""
    return json.dumps({"of": model_digests(RunFolder(run)), "figures": {"accuracy": {"value": 1}}})


class Desk:
    """What a case has to work with: an empty current folder, and a good run to copy."""

    def __init__(self, folder: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.trained, self.monkeypatch = folder, trained, monkeypatch

    def photos(self, **counts: int) -> Path:
        write_photos(self.folder / "photos", counts or {"cat": 8, "dog": 8})
        return self.folder / "photos"

    def photo(self, change: Callable[[bytes], bytes]) -> Path:
        """A folder of photos in which one is not as it was."""
        file = self.photos() / "cat" / "1.png"
        file.write_bytes(change(file.read_bytes()))
        return file.parents[1]

    def table(self, text: str) -> Path:
        self.photos()
        path = self.folder / "photos" / "table.csv"
        path.write_text(text)
        return path

    def recipe(self, text: str) -> list[str]:
        (self.folder / "mine.toml").write_text(text)
        return ["train", "classify", "--recipe", "mine.toml", "--out", "run"]

    def run(self) -> Path:
        return Path(shutil.copytree(self.trained, self.folder / "copy"))

    def broken(self, name: str | Path, change: Callable[[bytes], bytes] | None = None) -> Path:
        """A copy of the good run, one file of which is changed or gone."""
        file = self.run() / name
        if change is None:
            file.unlink()
        else:
            file.write_bytes(change(file.read_bytes()))
        return self.folder / "copy"

    def figures(self, text: str) -> Path:
        """A copy of the good run with such figures on test."""
        RunFolder(self.run()).write_text("evaluation-test.json", text)
        return self.folder / "copy"

    def config(self, before: str, after: str) -> Path:
        """A copy of the good run that was made with another configuration."""
        run = RunFolder(self.run())
        text = swapped((run.path / "config.toml").read_bytes(), before, after)
        run.write_bytes("config.toml", text)
        return run.path

    def edited(self, name: str, before: str, after: str) -> Path:
        """A copy of the good run in which somebody changed a file."""
        return self.broken(name, lambda text: swapped(text, before, after))

    def written(self, name: str, change: Callable[[bytes], bytes]) -> Path:
        """A copy of the good run of which one file came out otherwise."""
        run = RunFolder(self.run())
        run.write_bytes(name, change((run.path / name).read_bytes()))
        return run.path

    def linked(self, name: str) -> Path:
        """A copy of the good run in which a file is a link to one that lies outside."""
        file, outside = self.run() / name, self.folder / "outside"
        outside.write_bytes(file.read_bytes())
        file.unlink()
        file.symlink_to(outside)
        return file.parent

    def weights(self, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
        """A copy of the good run with other weights, well written."""
        run = RunFolder(self.run())
        tensors = run.read_tensors("model.safetensors")
        change(tensors)
        run.write_tensors("model.safetensors", tensors)
        return run.path


def reversed_classes(text: bytes) -> bytes:
    values = json.loads(text)
    return json.dumps(values | {"classes": values["classes"][::-1]}).encode()


def better_on_test(desk: Desk) -> Path:
    copy = desk.figures(strange_figures(desk.trained))
    file = copy / "evaluation-test.json"
    file.write_bytes(swapped(file.read_bytes(), '"value": 1', '"value": 2'))
    return copy


def tensorboard_elsewhere(desk: Desk) -> list[str]:
    (desk.folder / "elsewhere").mkdir()
    (desk.run() / "tensorboard").symlink_to(desk.folder / "elsewhere")
    desk.monkeypatch.setattr("regard.runs.session.writer_class", lambda: None)
    return resume(desk.folder / "copy", "--tensorboard", "--epochs", "2")


def swapped(text: bytes, before: str, after: str) -> bytes:
    assert before.encode() in text
    return text.replace(before.encode(), after.encode())


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    """One bit of it the other way round, in the middle of what matters."""
    at = len(data) * 2 // 3
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


def not_a_number(tensors: dict[str, torch.Tensor]) -> None:
    tensors["head.weight"][0, 0] = torch.nan


def train(data: Path | str, *more: str) -> list[str]:
    return [*ON_DIGITS, "--data", str(data), "--out", "run", *more]


def resume(run: Path, *more: str) -> list[str]:
    return ["train", "classify", "--resume", "--out", str(run), "--no-report", *more]


def ask(run: Path) -> list[str]:
    return ["predict", str(run), "--split", "test", "--index", "0"]


def idx_with_a_wrong_label(desk: Desk) -> list[str]:
    folder = desk.folder / "mnist"
    write_idx(folder, packed=False, side=8)
    file = folder / "train-labels-idx1-ubyte"
    file.write_bytes(file.read_bytes()[:-1] + b"\x0a")
    return train(folder)


def bomb(desk: Desk) -> Path:
    write_bomb(desk.folder / "bomb.png")
    return desk.folder / "bomb.png"


def bombed(desk: Desk) -> list[str]:
    folder = desk.photos()
    write_bomb(folder / "cat" / "1.png")
    return train(folder)


def empty_class(desk: Desk) -> list[str]:
    (desk.photos() / "fox").mkdir()
    return train("photos")


def folder_without_images(desk: Desk) -> list[str]:
    (desk.folder / "texts").mkdir()
    (desk.folder / "texts" / "a.txt").write_text("a")
    return ["predict", str(desk.trained), "texts"]


def no_cuda(desk: Desk) -> list[str]:
    desk.monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return [*ON_DIGITS, "--device", "cuda", "--out", "run"]


def full_disk(desk: Desk) -> list[str]:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    desk.monkeypatch.setattr(os, "fsync", full)
    return [*ON_DIGITS, "--out", "run"]


def without_tensorboard(desk: Desk) -> list[str]:
    desk.monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    return [*ON_DIGITS, "--out", "run", "--tensorboard"]


# What is wrong → how it comes about and is typed. What is said stands in golden/bad_input.txt.
CASES: dict[str, Callable[[Desk], list[str]]] = {
    # Data
    "folder missing": lambda _: train("nowhere"),
    "data mistyped": lambda _: train("digitz"),
    "class empty": empty_class,
    "one class only": lambda d: train(d.photos(cat=8)),
    "too few to choose by": lambda d: train(d.photos(cat=1, dog=1)),
    "image cut short": lambda d: train(d.photo(half)),
    "image corrupt": lambda d: train(d.photo(flipped)),
    "text called .png": lambda d: train(d.photo(lambda _: b"hello")),
    "bomb": bombed,
    "name too long for data": lambda _: train("x" * 300),
    "csv: file missing": lambda d: train(d.table("path,label\ncat/0.png,cat\ncat/99.png,cat\n")),
    "csv: no label": lambda d: train(d.table("path,label\ncat/0.png,\ndog/0.png,dog\n")),
    "csv: split mistyped": lambda d: train(
        d.table("path,label,split\ncat/0.png,cat,train\ndog/0.png,dog,trian\n")
    ),
    "idx: label out of range": idx_with_a_wrong_label,
    "data not fetched": lambda _: train("mnist"),
    # What is asked for
    "task mistyped": lambda _: ["train", "clasify"],
    "no task": lambda _: ["train"],
    "flag before any task": lambda _: ["train", "--epochs", "3"],
    "recipe mistyped": lambda _: ["train", "classify", "--recipe", "digit"],
    "recipe missing": lambda _: ["train", "classify", "--recipe", "mine.toml"],
    "recipe with too long a name": lambda _: ["train", "classify", "--recipe", "x" * 300],
    "recipe: unknown key": lambda d: d.recipe("[model]\nwidht = 3\n"),
    "recipe: wrong kind": lambda d: d.recipe("[model]\nwidth = 'wide'\n"),
    "recipe: number for a table": lambda d: d.recipe("model = 3\n"),
    "recipe: head is no table": lambda d: d.recipe("recipe = 3\n"),
    "recipe: run is no table": lambda d: d.recipe("run = 3\n"),
    "recipe: not TOML": lambda d: d.recipe("[model\n"),
    "batch of none": lambda _: [*ON_DIGITS, "--batch-size", "0", "--out", "run"],
    "no epochs": lambda _: ["train", "classify", "--epochs", "0"],
    "patch does not divide": lambda _: [*ON_DIGITS, "--model.patch-size", "3", "--out", "run"],
    "width does not divide": lambda _: [*ON_DIGITS, "--model.width", "15", "--out", "run"],
    "other classes than the data": lambda _: [
        *ON_DIGITS,
        "--model.num-classes",
        "7",
        "--out",
        "run",
    ],
    "mask mistyped": lambda _: [*ON_DIGITS, "--model.mask", "windoww(3)", "--out", "run"],
    "flag mistyped": lambda _: [*ON_DIGITS, "--model.widht", "3", "--out", "run"],
    "flag unknown": lambda d: ["evaluate", str(d.trained), "--jsn"],
    "wrong kind": lambda _: [*ON_DIGITS, "--batch-size", "many", "--out", "run"],
    "no such choice": lambda _: [*ON_DIGITS, "--train.optimizer.name", "sgd", "--out", "run"],
    "no such device": no_cuda,
    "no TensorBoard": without_tensorboard,
    # Where it is to go
    "out below a file": lambda d: [*ON_DIGITS, "--out", str(d.run() / "config.toml" / "run")],
    "out is a file": lambda d: [*ON_DIGITS, "--out", str(d.run() / "config.toml")],
    "out holds a run": lambda d: [*ON_DIGITS, "--out", str(d.trained)],
    "out too long": lambda _: [*ON_DIGITS, "--out", "y" * 300],
    "disk full": full_disk,
    # Going on
    "resume what": lambda _: ["train", "classify", "--resume"],
    "resume nothing": lambda _: resume(Path("nowhere")),
    "resume too long a name": lambda _: resume(Path("y" * 300)),
    "resume no run": lambda d: resume(d.photos()),
    "resume with another width": lambda d: resume(d.run(), "--model.width", "32"),
    "resume with other data": lambda d: resume(d.run(), "--data", str(d.photos())),
    "resume another task": lambda d: resume(d.config('task = "classify"', 'task = "translate"')),
    "state cut short": lambda d: resume(d.broken(STATE / "state.safetensors", half)),
    "state with a flipped bit": lambda d: resume(d.broken(STATE / "state.safetensors", flipped)),
    "text of the state cut short": lambda d: resume(d.broken(STATE / "state.json", half)),
    "text of the state with a flipped bit": lambda d: resume(
        d.broken(STATE / "state.json", flipped)
    ),
    "text of the state gone": lambda d: resume(d.broken(STATE / "state.json")),
    "state of another width": lambda d: resume(d.config("width = 16", "width = 32")),
    # A run that is not whole
    "run missing": lambda _: ask(Path("nowhere")),
    "run with too long a name": lambda _: ask(Path("y" * 300)),
    "weights cut short": lambda d: ask(d.broken("model.safetensors", half)),
    "weights with a flipped bit": lambda d: ask(d.broken("model.safetensors", flipped)),
    "weights no tensors": lambda d: ask(d.written("model.safetensors", half)),
    "weights gone": lambda d: ask(d.broken("model.safetensors")),
    "weights that are not numbers": lambda d: ask(d.weights(not_a_number)),
    "weights of another width": lambda d: ask(d.config("width = 16", "width = 32")),
    "weights of another depth": lambda d: ask(d.config("layers = 1", "layers = 2")),
    "weights with one too many": lambda d: ask(
        d.weights(lambda tensors: tensors.update(tail=torch.zeros(1)))
    ),
    "configuration of a newer format": lambda d: ask(d.config("format = 2", "format = 3")),
    "configuration of an earlier format": lambda d: ask(d.config("format = 2", "format = 1")),
    "configuration without a format": lambda d: ask(d.config("format = 2\n", "")),
    "configuration not TOML": lambda d: ask(d.config("[run]", "[run")),
    "configuration gone": lambda d: ask(d.broken("config.toml")),
    "configuration without a task": lambda d: ask(d.config('task = "classify"\n', "")),
    "configuration with an unknown key": lambda d: ask(d.config("width = 16", "widht = 16")),
    "facts damaged": lambda d: ask(d.written("data.json", half)),
    # A run in which somebody changed a file
    "other heads": lambda d: ask(d.edited("config.toml", "heads = 2", "heads = 4")),
    "classes the other way round": lambda d: ask(d.broken("data.json", reversed_classes)),
    "better metrics": lambda d: [
        "compare",
        str(d.edited("metrics.jsonl", '"epoch": 1', '"epoch": 9')),
    ],
    "a line of metrics more": lambda d: [
        "look",
        str(d.broken("metrics.jsonl", lambda text: text * 2)),
        "--split",
        "test",
        "--index",
        "0",
    ],
    "a better evaluation": lambda d: ["compare", str(better_on_test(d))],
    "edited and averaged": lambda d: [
        "average",
        str(d.trained),
        str(d.edited("config.toml", "heads = 2", "heads = 4")),
    ],
    "edited and measured": lambda d: [
        "evaluate",
        str(d.edited("config.toml", "heads = 2", "heads = 4")),
    ],
    "edited and gone on with": lambda d: resume(d.edited("config.toml", "heads = 2", "heads = 4")),
    "weights edited and gone on with": lambda d: resume(d.broken("model.safetensors", flipped)),
    "manifest gone": lambda d: ask(d.broken("manifest.json")),
    "manifest cut short": lambda d: ask(d.broken("manifest.json", half)),
    "manifest that names a file elsewhere": lambda d: ask(
        d.edited("manifest.json", "config.toml", "../good/config.toml")
    ),
    "manifest with a word for a digest": lambda d: ask(
        d.broken("manifest.json", lambda _: b'{"config.toml": "any"}')
    ),
    "log that leads out": lambda d: resume(d.linked("log.txt")),
    "metrics that lead out": lambda d: resume(d.linked("metrics.jsonl"), "--epochs", "2"),
    "lock that leads out": lambda d: resume(d.linked(".lock")),
    "figures that lead out": tensorboard_elsewhere,
    # Asking, looking, measuring, comparing
    "predict what": lambda d: ["predict", str(d.trained)],
    "predict a file that is missing": lambda d: ["predict", str(d.trained), "cat.png"],
    "predict too long a name": lambda d: ["predict", str(d.trained), "x" * 300],
    "predict a folder without images": folder_without_images,
    "predict a row too far": lambda d: [
        "predict",
        str(d.trained),
        "--split",
        "test",
        "--index",
        "999999",
    ],
    "predict a bomb": lambda d: ["predict", str(d.trained), str(bomb(d))],
    "predict and check a cache that is none": lambda d: [
        "predict",
        str(d.trained),
        "--split",
        "test",
        "--index",
        "0",
        "--check-cache",
    ],
    "look at what": lambda d: ["look", str(d.trained)],
    "look written as what": lambda d: [
        "look",
        str(d.trained),
        "--split",
        "test",
        "--index",
        "0",
        "--out",
        "look.xyz",
    ],
    "look at several in one picture": lambda d: [
        "look",
        str(d.trained),
        "--split",
        "test",
        "--index",
        "0",
        "1",
        "--out",
        "look.png",
    ],
    "look into a folder that is missing": lambda d: [
        "look",
        str(d.trained),
        "--split",
        "test",
        "--index",
        "0",
        "--out",
        "nowhere/look.html",
    ],
    "evaluate a split that is none": lambda d: ["evaluate", str(d.trained), "--split", "tset"],
    "evaluate on other classes": lambda d: ["evaluate", str(d.trained), "--data", str(d.photos())],
    "evaluate on as many other classes": lambda d: [
        "evaluate",
        str(d.trained),
        "--data",
        str(d.photos(**dict.fromkeys(TEN, 3))),
    ],
    "compare what": lambda _: ["compare"],
    "compare a run without metrics": lambda d: [
        "compare",
        str(d.trained),
        str(d.broken("metrics.jsonl")),
    ],
    "compare a run with damaged figures": lambda d: ["compare", str(d.figures("{"))],
    "compare a run with figures of another kind": lambda d: [
        "compare",
        "--test",
        str(d.figures(strange_figures(d.trained))),
    ],
    "compare drawn as what": lambda d: ["compare", str(d.trained), "--out", "compare.xyz"],
    "compare without a task": lambda d: ["compare", str(d.trained), "--epochs", "3"],
}
# These never reach us: the parser of the command line answers, in a frame and several lines.
FRAMED = {"patch does not divide", "width does not divide", "flag mistyped", "flag unknown"}
FRAMED |= {"wrong kind", "no such choice"}
# What is asked about is no mistake in the command: the rest of it would be answered.
UNREADABLE = {"predict a file that is missing", "predict too long a name", "predict a bomb"}
UNREADABLE |= {"predict a folder without images", "predict a row too far"}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_sentence_and_leaves_everything_as_it_was(
    case, tmp_path, trained, monkeypatch, capsys
):
    desk = Desk(tmp_path, trained, monkeypatch)
    args = CASES[case](desk)
    before = contents(tmp_path) | contents(trained)
    code = typed(args)
    said = capsys.readouterr().err
    assert code == (1 if case in UNREADABLE else 2)
    assert "Traceback" not in said
    if case not in FRAMED:
        assert said.startswith("regard: ") and said.count("\n") == 1, said
    golden(said)
    assert contents(tmp_path) | contents(trained) == before


def typed(args: list[str]) -> int | str | None:
    """The exit code of a command line; the parser leaves by itself."""
    try:
        return main(args)
    except SystemExit as leaving:
        return leaving.code


def contents(folder: Path) -> dict[Path, str]:
    """Every file with a digest, and every folder, except the cache and what only logs a visit."""
    passing = {"log.txt", ".lock"}
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in folder.rglob("*")
        if path.name not in passing and "cache" not in path.relative_to(folder).parts[:1]
    }


# What is unusual and yet right


@pytest.mark.parametrize(
    "name", ["Fotos äöß 猫 🐈", "/".join(["x" * 200] * 5)], ids=["letters", "long"]
)
def test_paths_with_any_letters_and_of_any_length_work(name, tmp_path, capsys):
    write_photos(tmp_path / name, {"chat noir": 8, "猫": 8})
    run = tmp_path / "Läufe" / name
    assert main([*ON_DIGITS, "--data", name, "--out", str(run)]) == 0
    photo = str(tmp_path / name / "猫" / "0.png")
    assert main(["predict", str(run), photo, "--split", "test", "--index", "0"]) == 0
    assert "(it is " in capsys.readouterr().out
    assert main(["train", "classify", "--resume", "--out", str(run), "--no-report"]) == 0


def test_bad_images_can_be_left_out_and_are_listed(tmp_path, trained, monkeypatch, capsys):
    desk = Desk(tmp_path, trained, monkeypatch)
    file = desk.photo(half) / "cat" / "1.png"
    args = [word for word in train("photos", "--skip-invalid") if word != "--quiet"]
    assert main(args) == 0
    sentence = f"{file.relative_to(tmp_path)} is damaged or cut short (image file is truncated)"
    said = capsys.readouterr().out
    assert f"left out: {sentence}" in said and "1 unreadable left out" in said
    assert sentence in (tmp_path / "run" / "log.txt").read_text()
    assert json.loads((tmp_path / "run" / "data.json").read_text())["skipped"] == [sentence]


def test_files_in_colour_are_grey_to_a_run_that_knows_grey(tmp_path, trained, capsys):
    write_photos(tmp_path / "own", dict.fromkeys("0123456789", 4))
    assert main(["evaluate", str(trained), "--data", "own", "--split", "train"]) == 0
    assert "accuracy" in capsys.readouterr().out


def test_a_finished_run_says_so_and_how_to_go_further(tmp_path, trained, capsys):
    """Exit code 0: a script that resumes until all is done needs no exception for the last time."""
    run = Path(shutil.copytree(trained, tmp_path / "my run"))
    weights = (run / "model.safetensors").read_bytes()
    assert main(resume(run)) == 0
    said = capsys.readouterr().out
    further = f"regard train classify --out '{run}' --resume --epochs 2"
    assert f"nothing is left to do: 1 of 1 epochs are done. Go further: {further}" in said
    assert (run / "model.safetensors").read_bytes() == weights
    assert main([*shlex.split(further)[1:], "--no-report"]) == 0
    assert [line["epoch"] for line in RunFolder(run).metrics()] == [1, 2]


@pytest.mark.parametrize(
    "typed",
    [
        "predict copy --split test --index 0",
        "look copy --split test --index 0 --out look.svg",
        "evaluate copy",
        "compare copy good",
    ],
)
def test_an_edit_that_is_accepted_is_said_and_the_run_is_used(
    typed, tmp_path, trained, monkeypatch, capsys
):
    desk = Desk(tmp_path, trained, monkeypatch)
    shutil.copytree(trained, tmp_path / "good")
    desk.broken("data.json", reversed_classes)
    before = contents(tmp_path)
    assert main([*typed.split(), "--accept-edits"]) == 0
    said = capsys.readouterr().err
    words = "copy/data.json is not the file that training wrote: it was edited, or is damaged"
    assert said.splitlines()[0] == f"regard: {words}; loaded all the same"
    assert said.count("loaded all the same") == 1
    kept = contents(tmp_path)
    assert all(kept[path] == before[path] for path in before if path.name in DECIDING)
    assert main(typed.split()) == 2  # accepted once is not accepted for ever
    if typed.startswith("evaluate"):  # these are not the figures of the run as it was
        shutil.copy(trained / "data.json", "copy")
        assert rg.load("copy").evaluated("test") is None


# Numbers that grow out of bounds


def test_a_loss_that_is_no_number_says_where_and_the_run_goes_on_with_a_lower_rate(
    tmp_path, trained, capsys
):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    assert main(resume(run, "--epochs", "2", "--train.optimizer.lr", "1e30")) == 2
    said = capsys.readouterr().err
    assert said.startswith("regard: the loss became nan at step 21 (epoch 2, batch 2); the state")
    assert "the state after step 19 is kept. Try a lower learning rate" in said
    state = RunFolder(run).read_state()
    assert state is not None and all(weight.isfinite().all() for weight in state[1].values())
    assert said.rstrip().endswith(f"--out {run} --resume --train.optimizer.lr 2.5e+29")
    assert main(ask(run)) == 0  # the best weights so far are as good as they were
    assert main(resume(run, "--train.optimizer.lr", "0.001")) == 0
    assert len(RunFolder(run).metrics()) == 2
    assert "from here on train.optimizer.lr is 0.001, not 1e+30" in (run / "log.txt").read_text()


def test_weights_that_overflow_are_never_kept(tmp_path, capsys):
    wild = ["--train.optimizer.lr", "1e39", "--train.checkpoint-seconds", "0", "--out", "run"]
    assert main([*ON_DIGITS, *wild]) == 2
    said = capsys.readouterr().err
    assert "became larger than any number at step 1 (epoch 1, batch 1); the state after" in said
    assert RunFolder(Path("run")).latest_state()[0] == 0  # that of the beginning
    assert main(resume(Path("run"), "--train.optimizer.lr", "0.001")) == 0


# Disks


@pytest.fixture
def disk(tmp_path) -> Iterator[Callable[[str], Path]]:
    """A small disk in memory, mounted with such options, and mounted anew when they change."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options: str) -> Path:
        again = "remount," if os.path.ismount(place) else ""
        command = ["mount", "-t", "tmpfs", "-o", again + options, "tmpfs", str(place)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("a disk can only be mounted here by root, on Linux")
        return place

    yield mount
    gc.collect()  # what an error still holds may be mapped from that disk
    if os.path.ismount(place):
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_disk_that_fills_up_costs_no_more_than_the_time(disk, trained, capsys):
    more = ["--epochs", "2", "--train.checkpoint-seconds", "0", "--model.width", "24"]
    run = disk("size=300k") / "run"
    assert main([*ON_DIGITS, *more, "--out", str(run)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "No space left on device" in said
    assert (run / "config.toml").is_file()
    assert not list((run / "state").glob("*.draft"))
    disk("size=30m")
    assert main(resume(run)) == 0
    lines = RunFolder(run).metrics()
    whole = run.with_name("whole")
    assert main([*ON_DIGITS, *more, "--out", str(whole)]) == 0
    assert [line["train/loss"] for line in lines] == [
        line["train/loss"] for line in RunFolder(whole).metrics()
    ]
    assert all((p / "model.safetensors").is_file() for p in (run, whole))
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_a_disk_that_is_read_only_is_named_and_a_run_on_it_can_be_asked(disk, trained, capsys):
    run = Path(shutil.copytree(trained, disk("size=10m") / "run"))
    disk("ro")
    assert main([*ON_DIGITS, "--out", str(run.with_name("other"))]) == 2
    assert "other: Read-only file system" in capsys.readouterr().err
    assert main(resume(run)) == 2
    assert "Read-only file system" in capsys.readouterr().err
    assert main(["evaluate", str(run)]) == 2
    assert "Read-only file system" in capsys.readouterr().err
    assert main(ask(run)) == 0
