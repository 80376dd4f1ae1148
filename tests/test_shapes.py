"""Images choose their recipe by their shape, and keep their size: digits are not photographs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import regard as rg
from golden import expect_error
from official import idx_bytes, write_cifar_binary, write_idx, write_photos
from regard.config import change
from regard.data.peek import Peek, peek
from regard.data.registry import KNOWN, as_typed, read_images
from regard.errors import DataIssue
from regard.runs.recipe import MOST_EPOCHS, choose_recipe, recipes
from regard.runs.session import Session
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.classify.data import read
from regard.tasks.classify.task import CLASSIFY

pytestmark = pytest.mark.usefixtures("own_folders")


def write_grey(folder: Path, count: int, side: int = 28, mode: str = "L") -> Path:
    """Two classes of noise in grey, so many images of each."""
    random = np.random.default_rng(0)
    for name in ("3", "8"):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = random.integers(0, 256, (side, side), np.uint8)
            Image.fromarray(pixels).convert(mode).save(folder / name / f"{number}.png")
    return folder


def with_dots(folder: Path) -> Path:
    write_idx(folder, packed=False)
    for path in [*folder.iterdir()]:
        path.rename(folder / path.name.replace("-idx", ".idx"))
    return folder


def like_emnist(folder: Path) -> Path:
    write_idx(folder)
    for path in [*folder.iterdir()]:
        path.rename(folder / f"emnist-letters-{path.name.replace('t10k', 'test')}")
    return folder


def as_table(folder: Path) -> Path:
    write_grey(folder, 6)
    rows = [f"{name}/{n}.png,{int(name == '8')}\n" for name in "38" for n in range(6)]
    (folder / "list.csv").write_text("path,label\n" + "".join(rows))
    return folder / "list.csv"


def packed(folder: Path) -> Path:
    write_idx(folder)
    return folder


LIKE_MNIST = {
    "gzipped": packed,
    "with dots": with_dots,
    "EMNIST's names": like_emnist,
    "PNGs": lambda folder: write_grey(folder, 6),
    "grey in colour": lambda folder: write_grey(folder, 6, mode="RGB"),
    "a csv with 0 and 1": as_table,
}


@pytest.mark.parametrize("case", LIKE_MNIST)
def test_grey_images_of_28_by_28_are_neither_mirrored_nor_enlarged(tmp_path, case):
    path = LIKE_MNIST[case](tmp_path / "own")
    recipe = choose_recipe("classify", data=str(path))
    assert recipe.name == "mnist" and recipe.why == "as images are grey, 28 × 28"
    config = recipe.config(ClassifyConfig)
    assert (config.model.image_size, config.model.channels) == (28, 1)
    assert not config.augment.hflip and config.augment.crop_scale == 1
    data = read(change(config, {"data": str(path)}))
    assert data.images.train.images[0].shape == (1, 28, 28)
    assert "28 × 28 pixels" in data.words() and "enlarged" not in data.words()


def test_mnist_has_a_recipe_by_its_name():
    assert choose_recipe("classify", data="mnist").name == "mnist"
    assert choose_recipe("classify", data="fashion-mnist").name == "fashion-mnist"


@pytest.mark.parametrize(("side", "mode"), [(27, "L"), (32, "L")], ids=["27 pixels", "32 pixels"])
def test_images_of_another_shape_keep_the_recipe_for_photographs(tmp_path, side, mode):
    own = write_grey(tmp_path / "own", 3, side, mode)
    assert choose_recipe("classify", data=str(own)).name == "own"


def test_coloured_or_mixed_images_keep_the_recipe_for_photographs(tmp_path):
    write_photos(tmp_path / "photos", {"cat": 4, "dog": 4}, side=28)
    assert choose_recipe("classify", data=str(tmp_path / "photos")).name == "own"
    own = write_grey(tmp_path / "mixed", 4)
    Image.new("L", (28, 30)).save(own / "8" / "0.png")
    assert choose_recipe("classify", data=str(own)).name == "own"
    for what in ("nowhere/", "no-such-name"):
        assert choose_recipe("classify", data=what).name == "own"
    write_cifar_binary(tmp_path / "cifar", 2)
    assert peek(str(tmp_path / "cifar")) == Peek(3, 32, 32, 50_000)


def test_of_few_images_there_are_more_epochs(tmp_path):
    made = recipes("classify")["mnist"]
    count, epochs = made.about.images, made.values["train"]["epochs"]
    own = tmp_path / "own"
    write_idx(own, packed=False)
    file = own / "train-images-idx3-ubyte"
    for images, expected in ((40, MOST_EPOCHS), (count // 2, 2 * epochs), (2 * count, epochs)):
        head = idx_bytes(np.zeros((0, 28, 28), np.uint8))[:4] + images.to_bytes(4, "big")
        file.write_bytes(head + (28).to_bytes(4, "big") * 2)  # only what is looked at
        assert peek(str(own)) == Peek(1, 28, 28, images)
        assert choose_recipe("classify", data=str(own)).values["train"]["epochs"] == expected
    assert recipes("classify")["mnist"].values["train"]["epochs"] == epochs


def test_a_damaged_file_is_refused_by_its_reader_and_not_by_the_choice(tmp_path):
    own = tmp_path / "own"
    write_idx(own, packed=False)
    (own / "train-images-idx3-ubyte").write_bytes(b"no idx")
    assert peek(str(own)) is None and choose_recipe("classify", data=str(own)).name == "own"
    with expect_error(DataIssue, kind="format", file="train-images-idx3-ubyte"):
        read_images(own)


def announced(path: Path) -> str:
    """What a run of this data would say before it begins."""
    recipe = choose_recipe("classify", data=str(path))
    config = recipe.config(ClassifyConfig)
    tiny = {"model.width": 8, "model.layers": 1, "model.heads": 1, "data": str(path)}
    session = Session(CLASSIFY, change(config, tiny), recipe, quiet=True)
    data = CLASSIFY.load_data(session.config)
    session.config = CLASSIFY.resolve(session.config, data)
    session.announce(session.built(data), data, torch.device("cpu"))
    return "\n".join(session.unlogged)


def test_a_run_says_which_recipe_it_follows_and_that_images_are_enlarged(tmp_path):
    write_photos(tmp_path / "photos", {"cat": 8, "dog": 8})
    said = announced(tmp_path / "photos")
    assert "64 × 64 pixels (enlarged from 12 × 16)" in said
    assert "recipe own: a folder of your own images, read at 64 × 64" in said
    said = announced(packed(tmp_path / "own"))
    assert "recipe mnist, as images are grey, 28 × 28: " in said and "enlarged" not in said
    assert "to be expected" not in said


# What idx files are


def with_labels(folder: Path, labels: tuple[int, ...], test: tuple[int, ...] = (0, 1, 2)) -> Path:
    """Idx files whose training has these labels first, and then all of 0 to 9."""
    folder.mkdir(parents=True, exist_ok=True)
    learnt = np.array([*labels, *range(10)] * 2, np.uint8)
    for name, these in (("train", learnt), ("t10k", np.array(test, np.uint8))):
        pixels = np.zeros((len(these), 28, 28), np.uint8)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx_bytes(pixels))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx_bytes(these))
    return folder


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_known_sets_are_known_by_their_files_in_any_folder(tmp_path, name):
    images = read_images(with_labels(tmp_path / "anonymous", KNOWN[name].labels))
    assert images.name == name and images.licence == KNOWN[name].licence
    assert choose_recipe("classify", data=str(tmp_path / "anonymous")).name == "mnist"


def test_files_of_nobody_known_are_your_own_with_the_labels_they_have(tmp_path):
    images = read_images(with_labels(tmp_path / "kmnist", (46, 3, 11), (3, 46)))
    assert images.name == "kmnist" and images.licence == "your own"
    assert images.classes == tuple(map(str, [*range(10), 11, 46]))
    assert [images.classes[label] for label in images.test.labels] == ["3", "46"]
    with expect_error(DataIssue, kind="label", file="one"):
        read_images(with_one_class(tmp_path / "one", test=5))
    with expect_error(DataIssue, kind="one-class", file="two"):
        read_images(with_one_class(tmp_path / "two", test=1))


def with_one_class(folder: Path, test: int) -> Path:
    with_labels(folder, (1,))
    for name, label in (("train", 1), ("t10k", test)):
        size = 30 if name == "train" else 3
        pixels, labels = np.zeros((size, 28, 28), np.uint8), np.full(size, label, np.uint8)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx_bytes(pixels))
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    return folder


def test_two_sets_in_one_folder_are_refused(tmp_path):
    own = like_emnist(tmp_path / "own")
    file = own / "emnist-letters-train-images-idx3-ubyte.gz"
    (own / "emnist-digits-train-images-idx3-ubyte.gz").write_bytes(file.read_bytes())
    with expect_error(DataIssue, kind="several", file="own"):
        read_images(own)
    assert choose_recipe("classify", data=str(own)).name == "own"


# A name is a name, and a path has a separator


def test_a_folder_beside_a_name_is_not_taken_for_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "mnist", {"cat": 4, "dog": 4})
    with expect_error(DataIssue, kind="absent"):
        read_images("mnist")
    assert read_images("./mnist").classes == ("cat", "dog")
    write_idx(tmp_path / "data" / "mnist")
    assert len(read_images("mnist").classes) == 10
    assert read_images("./mnist").classes == ("cat", "dog")
    assert [as_typed(data) for data in ("mnist", Path("mnist"), Path("a/b"), Path("/a"))] == [
        *("mnist", os.path.join(".", "mnist"), os.path.join("a", "b"), os.sep + "a")
    ]


def test_a_path_with_a_separator_is_no_name_of_a_set_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "data" / "birds", {"cat": 4, "dog": 4})
    assert read_images("birds").name == "birds"
    with expect_error(DataIssue, kind="missing", file="birds"):
        read_images("./birds")


ADDRESSES = ("https://example.org/a.zip", "s3://bucket/set", "http:/example.org", "ftp://a/b")


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_said_to_be_one_with_all_its_slashes(address):
    for task in ("classify", "caption", "translate", "classify-text", "language", "pretrain-bert"):
        with expect_error(DataIssue, kind="address"):
            rg.train(task, data=address, quiet=True)
