"""Images are read from every official layout and from your own files, always the same way."""

import contextlib
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from golden import expect_error
from official import (
    cifar_batches,
    idx_bytes,
    pickled,
    write_archive,
    write_bomb,
    write_cifar_binary,
    write_cifar_pickled,
    write_idx,
    write_photos,
)
from regard.cli import main
from regard.data import cifar
from regard.data import registry as catalogue
from regard.data.cache import at_size
from regard.data.decode import decode
from regard.data.images import SPLITS, ArrayImages, FileImages, ImageSet, Split
from regard.data.registry import read_images
from regard.data.splits import divide
from regard.errors import DataIssue, UserError


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch, request):
    """No test reads or writes the user's data, except those that ask for it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(catalogue, "DEBIAN", tmp_path / "debian")
    monkeypatch.setattr(cifar, "ROWS", 20)
    if not request.node.get_closest_marker("data"):
        monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))


# How images are divided


def test_a_division_covers_every_image_once_and_holds_out_a_share_of_each_class():
    labels = np.repeat(np.arange(3), (50, 100, 10)).astype(np.int64)
    parts = divide(labels)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(160))
    assert [np.bincount(labels[part]).tolist() for part in parts] == [
        [35, 70, 7],
        [5, 10, 1],
        [10, 20, 2],
    ]


def test_a_division_goes_by_key_and_not_by_order():
    labels, keys = np.zeros(30, np.int64), [f"{n}.png" for n in range(30)]
    held = {keys[row] for row in divide(labels, keys).test}
    assert {keys[::-1][row] for row in divide(labels, keys[::-1]).test} == held
    # Written down, because trained models depend on it.
    assert sorted(held) == ["0.png", "14.png", "18.png", "6.png", "7.png", "8.png"]


@pytest.mark.parametrize(("count", "sizes"), [(1, [1, 0, 0]), (2, [1, 0, 1]), (3, [1, 1, 1])])
def test_a_small_class_is_learnt_from_first(count, sizes):
    assert [len(part) for part in divide(np.zeros(count, np.int64))] == sizes


def test_labels_and_images_must_agree():
    pixels = ArrayImages(np.zeros((2, 1, 4, 4), np.uint8))
    with expect_error(ValueError):
        Split(pixels, np.zeros(3, np.int64))
    good, bad = Split(pixels, np.array([0, 1])), Split(pixels, np.array([0, 2]))
    with expect_error(ValueError):
        ImageSet("x", ("a", "b"), good, good, bad)
    with expect_error(ValueError):
        ImageSet("x", ("a", "b"), good, good, good)["tset"]


# How one file is decoded


def save(path: Path, array: np.ndarray, **options) -> Path:
    Image.fromarray(array).save(path, **options)
    return path


def test_colour_grey_and_black_and_white_are_read_as_they_are(tmp_path):
    rgb = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    np.testing.assert_array_equal(
        decode(save(tmp_path / "a.png", rgb)).pixels, rgb.transpose(2, 0, 1)
    )
    grey = decode(save(tmp_path / "b.png", rgb[..., 0]), channels=1).pixels
    np.testing.assert_array_equal(grey, rgb[None, ..., 0])
    as_colour = decode(tmp_path / "b.png").pixels
    np.testing.assert_array_equal(as_colour, np.repeat(grey, 3, axis=0))
    black = decode(save(tmp_path / "c.png", np.eye(4, dtype=bool)), channels=1).pixels
    np.testing.assert_array_equal(black[0], 255 * np.eye(4))


def test_sixteen_bits_are_scaled_to_eight(tmp_path):
    deep = np.array([[0, 257, 32896, 65535]], np.uint16)
    for name in ("a.png", "a.tif"):
        pixels = decode(save(tmp_path / name, deep), channels=1).pixels
        assert pixels.tolist() == [[[0, 1, 128, 255]]]


def test_transparency_lies_on_white_and_a_palette_gives_its_colours(tmp_path):
    rgba = np.zeros((1, 2, 4), np.uint8)
    rgba[0, 0] = (255, 0, 0, 255)
    assert decode(save(tmp_path / "a.png", rgba)).pixels[:, 0].T.tolist() == [
        [255, 0, 0],
        [255, 255, 255],
    ]
    painted = Image.new("P", (2, 1), 0)
    painted.putpalette([10, 20, 30, 40, 50, 60])
    painted.putpixel((1, 0), 1)
    painted.save(tmp_path / "b.png")
    assert decode(tmp_path / "b.png").pixels[:, 0].T.tolist() == [[10, 20, 30], [40, 50, 60]]
    painted.save(tmp_path / "c.gif", transparency=1)
    assert decode(tmp_path / "c.gif").pixels[:, 0, 1].tolist() == [255, 255, 255]


@pytest.mark.parametrize("name", ["CMYK a.jpg", "YCbCr a.jpg", "LA a.png", "LAB a.tif", "1 a.bmp"])
def test_other_kinds_of_colour_become_rgb(tmp_path, name):
    mode, _, file = name.partition(" ")
    Image.new(mode, (6, 4)).save(tmp_path / file)
    assert decode(tmp_path / file, 4).pixels.shape == (3, 4, 4)
    assert decode(tmp_path / file, 4, 1).pixels.shape == (1, 4, 4)


def test_a_photograph_is_turned_upright(tmp_path):
    array = np.array([[0, 255, 0]], np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # the top of the picture is at the right of what is stored
    upright = decode(save(tmp_path / "a.png", array, exif=exif), channels=1).pixels
    assert upright.shape == (1, 3, 1)


def test_a_mark_that_cannot_be_read_turns_nothing(tmp_path):
    array = np.zeros((2, 3), np.uint8)
    save(tmp_path / "a.jpg", array, exif=b"Exif\0\0MM\0*\0\0\0\x08\xff\xff garbage")
    assert decode(tmp_path / "a.jpg", channels=1).pixels.shape == (1, 2, 3)


def test_the_shorter_side_is_resized_and_the_centre_kept(tmp_path):
    wide = np.random.default_rng(0).integers(0, 256, (40, 80, 3), np.uint8)
    small = Image.fromarray(wide).resize((20, 10), Image.Resampling.BICUBIC)
    expected = np.asarray(small.crop((5, 0, 15, 10))).transpose(2, 0, 1)
    pixels = decode(save(tmp_path / "a.png", wide), 10).pixels
    # At the sides the one sees past the cut, and the other does not.
    difference = np.abs(pixels.astype(int) - expected)
    assert difference[..., 1:-1].max() <= 1 and difference.max() < 60


def test_a_damaged_image_is_a_sentence_whatever_the_damage(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (24, 20, 3), np.uint8)
    random = np.random.default_rng(1)
    for kind in ("png", "jpg", "gif", "tif", "webp", "bmp", "ppm"):
        whole = save(tmp_path / f"a.{kind}", pixels).read_bytes()
        for _ in range(40):
            spoilt = bytearray(whole[: random.choice([len(whole), len(whole) // 2])])
            spoilt[random.integers(min(200, len(spoilt)))] = random.integers(256)
            (tmp_path / "b.png").write_bytes(spoilt)
            try:
                decode(tmp_path / "b.png", 8)
            except UserError as told:
                assert str(told).startswith(str(tmp_path / "b.png")) and "\n" not in str(told)


def test_a_long_thin_image_costs_no_memory(tmp_path):
    pixels = decode(save(tmp_path / "a.png", np.zeros((2, 60_000), np.uint8)), 224, 1).pixels
    assert pixels.shape == (1, 224, 224)


# Sets by name


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["data/mnist", "cache/regard/data/mnist", "data/MNIST/raw"])
def test_mnist_is_found_in_the_folders_that_are_searched(tmp_path, packed, place):
    pixels = write_idx(tmp_path / place, packed=packed)
    images = read_images("mnist")
    assert [len(images[split]) for split in SPLITS] == [30, 10, 10]
    assert np.bincount(images.validation.labels).tolist() == [1] * 10
    np.testing.assert_array_equal(images.test.images.take(range(10))[:, 0], pixels[40:])
    assert images.classes == tuple("0123456789") and images.train.images[0].shape == (1, 28, 28)


def test_debian_has_fashion_mnist_too(tmp_path):
    write_idx(tmp_path / "debian" / "fashion-mnist")
    assert read_images("fashion-mnist").classes[9] == "Ankle boot"
    assert read_images(tmp_path / "debian" / "fashion-mnist").name == "fashion-mnist"


def test_the_users_folder_comes_before_the_cache(tmp_path):
    write_idx(tmp_path / "cache" / "regard" / "data" / "mnist")
    write_idx(tmp_path / "data" / "mnist", count=50)
    assert len(read_images("mnist").train) == 40


def cifar_in(folder: Path, layout: str) -> Path:
    kind, _, form = layout.partition(" ")
    inside = folder / f"cifar-10-batches-{'bin' if kind == 'binary' else 'py'}"
    (write_cifar_binary if kind == "binary" else write_cifar_pickled)(inside)
    if form == "archive":
        write_archive(inside, folder / f"cifar-10-{kind}.tar.gz")
        for file in inside.iterdir():
            file.unlink()
        inside.rmdir()
        return folder / f"cifar-10-{kind}.tar.gz"
    return inside


@pytest.mark.parametrize("layout", ["binary", "python", "binary archive", "python archive"])
def test_every_layout_of_cifar10_gives_the_same_images(tmp_path, layout):
    path = cifar_in(tmp_path / "data", layout)
    images = read_images("cifar10")
    assert [len(images[split]) for split in SPLITS] == [90, 10, 20]
    labels, pixels = cifar_batches()["test_batch"]
    np.testing.assert_array_equal(images.test.images.take(range(20)), pixels.reshape(-1, 3, 32, 32))
    np.testing.assert_array_equal(images.test.labels, labels)
    assert read_images(path).digest == images.digest == known_digest(tmp_path / "other")


def known_digest(folder: Path) -> str:
    write_cifar_binary(folder)
    return read_images(folder).digest


def test_batches_pickled_again_by_python_3_are_read_too(tmp_path):
    labels, pixels = cifar_batches()["test_batch"]
    batch = {"labels": labels.tolist(), "data": pixels}
    for protocol in (2, 4):
        again = cifar.parse_pickled(pickle.dumps(batch, protocol), "x")
        np.testing.assert_array_equal(again.pixels.reshape(20, -1), pixels)


def test_a_pickle_runs_nothing(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    _, pixels = cifar_batches()["test_batch"]
    for trap in (Trap(), {"labels": [1], "data": Trap()}, {"data": pixels, "labels": [Trap()]}):
        with expect_error(DataIssue, kind="inert", file="x"):
            cifar.parse_pickled(pickle.dumps(trap), "x")
    assert not (tmp_path / "sprung").exists()


def test_a_damaged_pickle_is_a_sentence_whatever_the_damage(tmp_path):
    whole = pickled(*(part[:2] for part in cifar_batches()["test_batch"]))
    start = whole.index(b"data") - 100
    places = [*range(start, start + 260), *range(len(whole) - 80, len(whole))]
    random = np.random.default_rng(0)
    for _ in range(1000):
        spoilt = bytearray(whole)
        for place in random.choice(places, 2):
            spoilt[place] = random.integers(256)
        with contextlib.suppress(UserError):
            cifar.parse_pickled(bytes(spoilt), "x")


@pytest.mark.parametrize(
    ("opcodes", "kind"),
    [
        (b"}r\xff\xff\xff\x7f.", "format"),  # a memo of 2³¹ places
        (b"\x96" + b"\xff" * 7 + b"\x7f.", "damaged"),  # 2⁶³ bytes
        (b"\x8b\x01\0\0\0\1.", "inert"),
        (b"cos\nsystem\nU\x02ls\x85R.", "inert"),
        (b"\x8c\x02os\x8c\x06system\x93.", "inert"),
        (b"(U\x02lsios\nsystem\n.", "inert"),
        (b"Pbank\n.", "inert"),
        (b"]}b.", "inert"),
        (b"])R.", "inert"),
        (b"}(U\x01ae.", "damaged"),
        (b"}", "damaged"),
        (b")" * 1_000_001, "inert"),
    ],
)
def test_a_hostile_pickle_costs_nothing(opcodes, kind):
    with expect_error(DataIssue, kind=kind, file="x"):
        cifar.parse_pickled(opcodes, "x")


def test_a_set_that_is_not_here_says_what_to_put_where(tmp_path):
    with expect_error(DataIssue, kind="absent"):
        read_images("cifar10")


# Your own


def test_a_folder_of_classes_is_divided_the_same_way_wherever_it_lies(tmp_path):
    for name in ("a", "b"):
        write_photos(tmp_path / name, {"cat": 10, "dog": 20})
    one, other = read_images(tmp_path / "a"), read_images(str(tmp_path / "b"))
    assert one.classes == ("cat", "dog") and one.name == "a"
    assert [np.bincount(one[split].labels).tolist() for split in SPLITS] == [
        [7, 14],
        [1, 2],
        [2, 4],
    ]
    assert one.digest == other.digest
    (tmp_path / "b" / "cat" / "0.png").write_bytes((tmp_path / "b/cat/1.png").read_bytes())
    assert read_images(tmp_path / "b").digest != one.digest


def test_given_splits_are_kept_and_missing_ones_come_out_of_train(tmp_path):
    for split, count in {"Train": 10, "val": 3}.items():
        write_photos(tmp_path / split, {"cat": count, "dog": count}, seed=count)
    images = read_images(tmp_path)
    assert [len(images[split]) for split in SPLITS] == [16, 6, 4]
    assert {path.parts[-3] for path in images.validation.images.paths} == {"val"}
    assert {path.parts[-3] for path in images.test.images.paths} == {"Train"}


def test_your_own_set_is_found_by_name_too(tmp_path):
    write_photos(tmp_path / "data" / "photos", {"cat": 3, "dog": 3})
    assert read_images("photos").digest == read_images(tmp_path / "data" / "photos").digest


def test_numbers_as_class_names_stand_in_their_order(tmp_path):
    write_photos(tmp_path, {str(n): 2 for n in (10, 9, 1)})
    assert read_images(tmp_path).classes == ("1", "9", "10")


def test_non_ascii_hidden_and_nested_files(tmp_path):
    write_photos(tmp_path, {"κατ/2024": 4, "été": 4})
    (tmp_path / "κατ" / ".DS_Store").write_bytes(b"\0")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "κατ" / "Thumbs.db").write_bytes(b"\0")
    (tmp_path / "κατ" / "notes.txt").write_text("not an image")
    images = read_images(tmp_path)
    assert images.classes == ("été", "κατ") or images.classes == ("κατ", "été")
    assert sum(len(images[split]) for split in SPLITS) == 8


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_csv_names_files_classes_and_splits(tmp_path, delimiter):
    write_photos(tmp_path, {"all": 8})
    rows = [("Filename", "Class", "split")]
    rows += [(f"all/{n}.png", "ab"[n % 2], "test" if n < 4 else "") for n in range(8)]
    text = "\n".join(delimiter.join(row) for row in rows) + "\n\n"
    (tmp_path / "list.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    images = read_images(tmp_path / "list.csv")
    assert images.classes == ("a", "b")
    assert [len(images[split]) for split in SPLITS] == [2, 2, 4]
    assert [path.name for path in images.test.images.paths] == [f"{n}.png" for n in range(4)]


def test_files_make_a_batch_only_at_one_size(tmp_path):
    write_photos(tmp_path, {"a": 2, "b": 2})
    paths = read_images(tmp_path).train.images.paths
    with expect_error(ValueError):
        FileImages(paths).take([0])
    assert FileImages(paths, 8).take([0, 1]).shape == (2, 3, 8, 8)
    assert FileImages(paths, 8, 1).take([]).shape == (0, 1, 8, 8)
    assert FileImages(paths)[0].shape == (3, 12, 16)


def test_reading_images_needs_no_torch():
    code = (
        "import sys; from regard.data.registry import read_images; read_images('digits').digest; "
        "import regard.data.cache, regard.data.check, regard.data.fetch; "
    )
    done = subprocess.run((sys.executable, "-c", code + "sys.exit('torch' in sys.modules)"))
    assert done.returncode == 0


# Bad input: a sentence from the reader, and a code from `regard data check`


def photos(folder: Path) -> Path:
    write_photos(folder, {"cat": 3, "dog": 3})
    return folder / "cat" / "1.png"


def jpeg() -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, "JPEG")
    return buffer.getvalue()


def with_csv(text: str | bytes):
    def write(folder: Path) -> Path:
        photos(folder)
        (folder / "list.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
        return folder / "list.csv"

    return write


def with_file(data: bytes):
    """Two classes, one of whose images is something else."""

    def write(folder: Path) -> Path:
        photos(folder).write_bytes(data)
        return folder

    return write


def with_picture(write_picture):
    def write(folder: Path) -> Path:
        write_picture(photos(folder))
        return folder

    return write


def with_idx(name: str, data: bytes | None):
    def write(folder: Path) -> Path:
        write_idx(folder, packed=False)
        (folder / name).unlink()
        if data is not None:
            (folder / name).write_bytes(data)
        return folder

    return write


def cut_gzip(folder: Path) -> Path:
    write_idx(folder)
    file = folder / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-1000])
    return folder


def with_batch(name: str, data: bytes | None):
    def write(folder: Path) -> Path:
        (write_cifar_binary if name.endswith(".bin") else write_cifar_pickled)(folder)
        (folder / name).unlink()
        if data is not None:
            (folder / name).write_bytes(data)
        return folder

    return write


def cut_archive(folder: Path) -> Path:
    archive = cifar_in(folder, "binary archive")
    archive.write_bytes(archive.read_bytes()[:-5000])
    return archive


def floating(path: Path) -> None:
    Image.new("F", (4, 4), 0.5).save(path, "TIFF")


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere.png")


def only(**counts: int):
    def write(folder: Path) -> Path:
        write_photos(folder, counts)
        for name, count in counts.items():
            if not count:
                (folder / name).mkdir(exist_ok=True)
        return folder

    return write


def stray_folder(folder: Path) -> Path:
    write_photos(folder / "train", {"a": 3, "b": 3})
    write_photos(folder / "more", {"a": 3})
    return folder


def untrained_class(folder: Path) -> Path:
    write_photos(folder / "train", {"a": 3, "b": 3})
    write_photos(folder / "test", {"a": 3, "c": 3}, seed=1)
    return folder


LABELS, ROWS = cifar_batches()["test_batch"]

BAD = {
    "no such folder": (lambda folder: folder / "nowhere", "missing"),
    "a very long name": (lambda folder: folder / ("x" * 5000), "unreadable"),
    "no folders inside": (only(), "format"),
    "a file that is neither": (
        lambda folder: photos(folder),
        "format",
    ),
    "an empty class": (only(cat=3, dog=0, cow=3), "empty"),
    "one class only": (only(cat=3), "one-class"),
    "a folder beside train": (stray_folder, "split"),
    "a class only in test": (untrained_class, "split"),
    "an empty file": (with_file(b""), "image"),
    "text named png": (with_file(b"hello\n" * 9), "image"),
    "a page named png": (with_file(b"<!doctype html>"), "image"),
    "garbage named png": (with_file(bytes(range(99))), "image"),
    "a damaged png": (with_file(b"\x89PNG\r\n\x1a\n" + b"\0" * 80), "image"),
    "a photograph cut short": (with_file(jpeg()[:-900]), "image"),
    "a bomb": (with_picture(write_bomb), "image"),
    "a smaller bomb": (
        with_picture(lambda path: write_bomb(path, 12_000)),
        "image",
    ),
    "fractions as pixels": (with_picture(floating), "image"),
    "a link to nowhere": (with_picture(dangling), "unreadable"),
    "a csv without labels": (with_csv("path,size\ncat/0.png,3\n"), "column"),
    "an empty csv": (with_csv(""), "empty"),
    "a ragged row": (
        with_csv("path,label\ncat/0.png,a\ncat/1.png,b,c\n"),
        "columns",
    ),
    "a row without a label": (with_csv("path,label\ncat/0.png,\n"), "label"),
    "a row without its file": (with_csv("path,label\ncat/9.png,a\n"), "path"),
    "a row that leaves the folder": (
        with_csv("path,label\n../../../etc/passwd,a\n"),
        "path",
    ),
    "a row with a strange path": (with_csv(f"path,label\n{'y' * 5000},a\n"), "path"),
    "a row with a strange split": (
        with_csv("path,label,split\ncat/0.png,a,tset\n"),
        "split",
    ),
    "a file in two rows": (
        with_csv("path,label\ncat/0.png,a\ncat/0.png,b\n"),
        "twice",
    ),
    "another encoding": (
        with_csv("path,label\ncat/0.png,a\ncat/1.png,café\n".encode("latin-1")),
        "encoding",
    ),
    "idx without labels": (with_idx("train-labels-idx1-ubyte", None), "missing"),
    "idx with another number": (
        with_idx("train-images-idx3-ubyte", b"\0\0\x0d\x03" + b"\0" * 12),
        "format",
    ),
    "idx cut short": (
        with_idx("train-images-idx3-ubyte", idx_bytes(np.zeros((40, 28, 28), np.uint8))[:-9]),
        "size",
    ),
    "idx that goes on": (
        with_idx("t10k-labels-idx1-ubyte", idx_bytes(np.zeros(10, np.uint8)) + b"\0"),
        "size",
    ),
    "idx that claims the world": (
        with_idx("train-images-idx3-ubyte", b"\0\0\x08\x03" + b"\xff" * 12),
        "size",
    ),
    "idx of two sets": (
        with_idx("train-labels-idx1-ubyte", idx_bytes(np.zeros(39, np.uint8))),
        "size",
    ),
    "idx with a label in test alone": (
        with_idx("t10k-labels-idx1-ubyte", idx_bytes(np.arange(1, 11, dtype=np.uint8))),
        "label",
    ),
    "gzip cut short": (cut_gzip, "damaged"),
    "a batch cut short": (
        with_batch("data_batch_3.bin", bytes(3073 * 20 - 5)),
        "size",
    ),
    "a batch with fewer images": (
        with_batch("data_batch_3.bin", bytes(3073 * 19)),
        "size",
    ),
    "a batch with label 255": (
        with_batch("data_batch_2.bin", bytes([255]) * 3073 * 20),
        "label",
    ),
    "a missing batch": (with_batch("test_batch.bin", None), "missing"),
    "a pickle cut short": (
        with_batch("test_batch", pickled(LABELS, ROWS)[:-700]),
        "damaged",
    ),
    "a pickle of something else": (
        with_batch("test_batch", pickle.dumps([1, 2])),
        "format",
    ),
    "a pickle of other numbers": (
        with_batch("test_batch", pickled(LABELS, ROWS, b"f8")),
        "size",
    ),
    "a pickle with words for labels": (
        with_batch("test_batch", pickle.dumps({"data": ROWS, "labels": ["cat"] * 20}, 2)),
        "label",
    ),
    "an archive cut short": (cut_archive, "damaged"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence_and_a_code(tmp_path, capsys, case):
    write, kind = BAD[case]
    (tmp_path / "own").mkdir()
    path = write(tmp_path / "own")
    with expect_error(DataIssue, kind=kind) as told:
        at_size(read_images(path), 8)
    assert main(["data", "check", str(path)]) == 2
    shown = capsys.readouterr()
    assert str(told.value).partition(" (and ")[0] in shown.out + shown.err


def test_a_mistyped_name_gets_the_nearest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with expect_error(DataIssue, kind="missing", file="fasion-mnist"):
        read_images("fasion-mnist")
    with expect_error(DataIssue, kind="missing", file="xyzzy"):
        read_images("xyzzy")


# The real ones


@pytest.mark.data("fashion-mnist")
def test_the_real_fashion_mnist():
    images = read_images("fashion-mnist")
    assert [len(images[split]) for split in SPLITS] == [54000, 6000, 10000]
    assert np.bincount(images.validation.labels).tolist() == [600] * 10
    assert images.digest.startswith("7c5e709d39162a94")


@pytest.mark.data("cifar-10-batches-bin")
def test_the_real_cifar10(monkeypatch):
    monkeypatch.setattr(cifar, "ROWS", 10_000)
    images = read_images("cifar10")
    assert [len(images[split]) for split in SPLITS] == [45000, 5000, 10000]
    assert np.bincount(images.test.labels).tolist() == [1000] * 10
    assert images.digest.startswith("ff4ed2c220eb6118")


def test_a_clear_value_of_sixteen_bit_grey_is_seen_on_white(tmp_path):
    deep = np.full((4, 4), 30000, np.uint16)
    deep[0, 0] = 5
    Image.fromarray(deep).save(tmp_path / "deep.png", transparency=5)
    pixels = decode(tmp_path / "deep.png", None, 1).pixels
    assert pixels[0, 0, 0] == 255 and pixels[0, 1, 1] == 117  # 30000 / 257
