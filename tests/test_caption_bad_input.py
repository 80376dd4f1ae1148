"""What is wrong with captions, or is asked of them in vain, is one sentence, and spoils no run.

What any task can be given, such as damaged runs and full disks, is in test_bad_input.py.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from golden import golden
from official import write_photos
from regard.cli import main
from regard.data import registry as catalogue
from regard.data.synthetic.scene_set import scene_set
from regard.run_folder import RunFolder
from regard.tasks.caption import data as reading

RECIPE = """
data = "scenes"
num_scenes = 24
batch_size = 8
[model]
width = 16
layers = 1
heads = 2
context_length = 12
encoder = { image_size = 16, patch_size = 8, width = 16, layers = 1, heads = 2 }
[train]
epochs = 1
"""
ON_SCENES = ["train", "caption", "--recipe", "tiny.toml", "--no-report", "--quiet"]
HEAD = "image,caption"
PLAIN = [f"{number}.png,a dog runs far" for number in range(12)]


@pytest.fixture(scope="module", autouse=True)
def _few_scenes_are_held_out() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "scene_set", partial(scene_set, held=8))
        yield


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    """No test reads or writes the user's data, or where the tests are started."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(catalogue, "DEBIAN", tmp_path / "debian")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(RECIPE)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, _few_scenes_are_held_out) -> Path:
    """A good run, which no test may change."""
    folder = tmp_path_factory.mktemp("runs")
    with contextlib.chdir(folder):
        (folder / "tiny.toml").write_text(RECIPE)
        assert main([*ON_SCENES, "--out", "good"]) == 0
    return folder / "good"


class Desk:
    """What a case has to work with: an empty current folder, and a good run to copy."""

    def __init__(self, folder: Path, trained: Path) -> None:
        self.folder, self.trained = folder, trained

    def photos(self, *lines: str, head: str = HEAD, name: str = "captions.csv") -> Path:
        """A dozen images, and captions of them of which the first lines are not plain."""
        text = "\n".join([head, *lines, *PLAIN[len(lines) :]])
        return self.images((text + "\n").encode(), name)

    def images(self, captions: bytes | None, name: str = "captions.csv") -> Path:
        write_photos(self.folder / "photos", {"": len(PLAIN)})
        if captions is not None:
            (self.folder / "photos" / name).write_bytes(captions)
        return self.folder / "photos"

    def damaged(self) -> Path:
        file = self.photos() / "3.png"
        file.write_bytes(file.read_bytes()[:100])
        return file.parent

    def recipe(self, text: str) -> list[str]:
        (self.folder / "mine.toml").write_text(text)
        return ["train", "caption", "--recipe", "mine.toml", "--out", "run"]

    def resume(self, *more: str) -> list[str]:
        shutil.copytree(self.trained, self.folder / "copy")
        return ["train", "caption", "--resume", "--out", "copy", "--no-report", *more]


def train(data: Path | str = "scenes", *more: str) -> list[str]:
    return [*ON_SCENES, "--data", str(data), "--out", "run", *more]


def coco(desk: Desk) -> Path:
    """A file in which an image has two entries."""
    images = [{"id": n, "file_name": f"{min(n, 10)}.png"} for n in range(12)]
    texts = [{"image_id": n, "caption": "a dog"} for n in range(12)]
    data = json.dumps({"images": images, "annotations": texts})
    return desk.images(data.encode(), "captions.json")


def karpathy(desk: Desk) -> Path:
    images = [
        {"filename": f"{n % 11}.png", "split": "train", "sentences": [{"raw": "a dog"}]}
        for n in range(12)
    ]
    return desk.images(json.dumps({"images": images}).encode(), "dataset.json")


def linked_outside(desk: Desk) -> Path:
    folder = desk.photos("link.png,a dog")
    write_photos(desk.folder / "elsewhere", {"": 1})
    (folder / "link.png").symlink_to(desk.folder / "elsewhere" / "0.png")
    return folder


# What is wrong → how it comes about and is typed. What is said: golden/caption_bad_input.txt.
CASES: dict[str, Callable[[Desk], list[str]]] = {
    # Files
    "folder missing": lambda _: train("nowhere"),
    "name too long": lambda _: train("x" * 300),
    "flickr8k missing": lambda _: train("flickr8k"),
    "no captions": lambda d: train(d.images(None)),
    "no file of captions": lambda d: train(d.images(b"hello", "notes.md") / "notes.md"),
    "two files of captions": lambda d: train(
        shutil.copy(d.photos() / "captions.csv", "photos/captions.txt") and "photos"
    ),
    "file empty": lambda d: train(d.images(b"")),
    "file of white space": lambda d: train(d.images(b" \n\n ", "captions.jsonl")),
    "only a head": lambda d: train(d.images(b"image,caption\n")),
    "other columns": lambda d: train(d.photos(head="picture,words")),
    "not UTF-8": lambda d: train(d.images(b"image,caption\n0.png,ein B\xe4r\n")),
    "not json": lambda d: train(d.images(b"{", "captions.json")),
    "comma without quotation marks": lambda d: train(d.photos("0.png,a dog, running")),
    # Images
    "outside": lambda d: train(d.photos("../tiny.toml,a dog")),
    "outside, by a long way round": lambda d: train(d.photos("x/../../tiny.toml,a dog")),
    "outside, from the root": lambda d: train(d.photos("/etc/passwd,a dog")),
    "outside, by a link": lambda d: train(linked_outside(d)),
    "image missing": lambda d: train(d.photos("0.png,a dog", "99.png,a dog")),
    "image twice, in two splits": lambda d: train(
        d.images(b"image,caption,split\n0.png,a dog,train\n0.png,a dog,test\n1.png,a,val\n")
    ),
    "image twice in COCO's json": lambda d: train(coco(d)),
    "image twice in Karpathy's json": lambda d: train(karpathy(d)),
    "image damaged": lambda d: train(d.damaged()),
    "nothing to choose by": lambda d: train(d.images(b"image,caption\n0.png,a dog\n")),
    # Captions
    "caption empty": lambda d: train(d.photos("0.png,")),
    "caption of punctuation": lambda d: train(d.photos("0.png,a dog", "1.png,?! …")),
    "no word often enough": lambda d: train(d.photos(), "--tokenizer.min-frequency", "500"),
    # What is asked for
    "recipe: unknown key": lambda d: d.recipe("[generation]\nbeam = 3\n"),
    "recipe of another task": lambda d: d.recipe('[recipe]\ntask = "classify"\n'),
    "mixup": lambda _: train("scenes", "--augment.mixup-alpha", "0.4"),
    "kept features cropped": lambda _: train(
        "scenes", "--encoder", "imagenet", "--augment.crop-padding", "2"
    ),
    "frozen": lambda _: train("scenes", "--freeze", "12"),
    "no room for a word": lambda _: train("scenes", "--model.context-length", "2"),
    "other words than the data": lambda _: train("scenes", "--model.vocab-size", "7"),
    "features that nobody computes": lambda _: train("scenes", "--model.encoder-width", "320"),
    "encoder missing": lambda _: train("scenes", "--encoder", "runs/nowhere"),
    "encoder is no run": lambda d: train("scenes", "--encoder", str(d.photos())),
    "encoder is a run of another kind": lambda d: train("scenes", "--encoder", str(d.trained)),
    # Going on
    "resume with rarer words": lambda d: d.resume("--tokenizer.min-frequency", "9"),
    "resume with the same words by another rule": lambda d: d.resume(
        "--tokenizer.vocab-size", "999"
    ),
    "resume with byte pairs": lambda d: d.resume("--tokenizer.name", "bpe"),
    "resume with other data": lambda d: d.resume("--data", str(d.photos())),
    "resume with more scenes": lambda d: d.resume("--num-scenes", "99"),
    # Asking
    "no such row": lambda d: ["predict", str(d.trained), "--split", "test", "--index", "8"],
    "no such file": lambda d: ["predict", str(d.trained), "photo.png"],
    "no such split": lambda d: ["evaluate", str(d.trained), "--split", "tset"],
    "two images in one picture": lambda d: [
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
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_sentence_and_leaves_everything_as_it_was(case, tmp_path, trained, capsys):
    args = CASES[case](Desk(tmp_path, trained))
    before = contents(tmp_path) | contents(trained)
    assert main(args) == (1 if case in ("no such row", "no such file") else 2)
    said = capsys.readouterr().err
    assert said.startswith("regard: ") and said.count("\n") == 1, said
    golden(said)
    assert contents(tmp_path) | contents(trained) == before


def contents(folder: Path) -> dict[Path, str]:
    """Every file with a digest, and every folder, except the cache and what only logs a visit."""
    passing = {"log.txt", ".lock"}
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in folder.rglob("*")
        if path.name not in passing and "cache" not in path.relative_to(folder).parts[:1]
    }


# What is unusual and yet right


def test_a_caption_of_a_thousand_words_is_cut_and_that_is_said(tmp_path, trained, capsys):
    desk = Desk(tmp_path, trained)
    long = [f"{number}.png," + "far " * 1000 for number in range(12)]
    assert main([word for word in train(desk.photos(*long)) if word != "--quiet"]) == 0
    assert "9 captions (9 cut to their first 10 words)" in capsys.readouterr().out
    assert main(["predict", "run", "--split", "test", "--index", "0"]) == 0
    assert main(["data", "check", "photos"]) == 0
    assert "a caption of 1000 words; kept" in capsys.readouterr().out


def test_bad_images_and_captions_can_be_left_out_and_are_listed(tmp_path, trained, capsys):
    desk = Desk(tmp_path, trained)
    file = desk.photos("0.png,", "1.png,?!", "../tiny.toml,a dog", "99.png,a dog") / "5.png"
    file.write_bytes(file.read_bytes()[:100])
    args = train("photos", "--skip-invalid")
    assert main([word for word in args if word != "--quiet"]) == 0
    said = capsys.readouterr().out
    assert ", 5 left out" in said
    for words in (
        "line 2: the caption of 0.png is empty",
        "line 3: the caption of 1.png has no word in it",
        "line 4: ../tiny.toml lies outside",
        "line 5: 99.png is not there",
        "5.png is damaged or cut short",
    ):
        assert words in said, words
    assert len(json.loads((tmp_path / "run" / "data.json").read_text())["skipped"]) == 5
    assert sum(json.loads((tmp_path / "run" / "data.json").read_text())["images"]) == 7


@pytest.mark.parametrize("name", ["word", "bpe"])
def test_any_writing_is_trained_on_asked_about_and_looked_at(name, tmp_path, trained, capsys):
    texts = [
        "👩🏽‍🚒",
        "🐕 a dog",
        "כלב רץ בשלג",
        "كلب يجري",
        "一只狗在雪地里",
        "a\u0301 dog \u202eruns",
    ]
    lines = [f"{number}.png,{texts[number % 6]}" for number in range(12)]
    desk = Desk(tmp_path, trained)
    more = (
        "--tokenizer.name",
        name,
        "--tokenizer.min-frequency",
        "1",
        "--model.context-length",
        "24",
    )
    assert main(train(desk.photos(*lines), *more)) == 0
    assert main(["predict", "run", "photos/2.png", "--split", "test", "--index", "0"]) == 0
    _, own = capsys.readouterr().out.splitlines()
    assert any(text in own for text in texts)  # what was said of it, letter by letter
    assert main(["predict", "run", "--split", "test", "--index", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["truth"] in texts
    for page in ("look.html", "look.png"):
        assert main(["look", "run", "photos/2.png", "--out", page]) == 0
    assert main(["evaluate", "run"]) == 0
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_run_goes_on_with_its_own_vocabulary(tmp_path, trained):
    args = Desk(tmp_path, trained).resume("--epochs", "2", "--quiet")
    assert main(args) == 0
    assert [line["epoch"] for line in RunFolder(tmp_path / "copy").metrics()] == [1, 2]
