"""`regard data` shows what there is, and finds what is wrong before any training does."""

import shutil

import pytest

from official import write_bomb, write_idx, write_photos
from regard import progress
from regard.cli import main
from regard.data import catalogue
from regard.data.check import check


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(catalogue, "DEBIAN", tmp_path / "debian")


def test_a_sound_folder_has_nothing_wrong(tmp_path, capsys):
    write_photos(tmp_path / "own", {"cat": 10, "dog": 10})
    assert main(["data", "check", str(tmp_path / "own")]) == 0
    out = capsys.readouterr().out
    assert out == "own: 20 images (14 train, 2 validation, 4 test), 2 classes\nnothing is wrong\n"


def test_everything_wrong_is_listed_at_once(tmp_path, capsys):
    own = tmp_path / "own"
    write_photos(own, {"cat": 4, "dog": 4, "cow": 1})
    (own / "empty").mkdir()
    (own / "cat" / "0.png").write_text("text")
    write_bomb(own / "cat" / "1.png")
    (own / "dog" / "notes.txt").write_text("hello")
    shutil.copy(own / "dog" / "2.png", own / "cat" / "2.png")
    assert main(["data", "check", str(own)]) == 2
    out, err = capsys.readouterr()
    for words in (
        "empty is a class without an image",
        "class 'cow' has one image",
        "0.png is no image but text",
        "1.png has 900000000 pixels",
        "are the same image, once called",
        "note: 1 files are no images by their names",
    ):
        assert words in out
    assert err == f"regard: {own}: 5 things are wrong\n"


def test_the_same_image_in_two_splits_is_found_whatever_it_is_called(tmp_path):
    for seed, split in enumerate(("train", "validation", "test")):
        write_photos(tmp_path / split, {"cat": 5, "dog": 5}, seed=seed)
    shutil.copy(tmp_path / "train/cat/0.png", tmp_path / "test/cat/other.png")
    shutil.copy(tmp_path / "train/dog/0.png", tmp_path / "train/dog/harmless.png")
    (problem,) = check(str(tmp_path)).problems
    assert "0.png" in problem and "other.png are the same image, in" in problem


def test_rows_of_a_csv_that_are_wrong_do_not_hide_those_that_are_not(tmp_path):
    write_photos(tmp_path, {"all": 6})
    rows = [f"all/{n}.png,{'ab'[n % 2]}" for n in range(6)]
    (tmp_path / "x.csv").write_text("\n".join(["path,label", "gone.png,a", *rows, "a,b,c"]))
    (tmp_path / "all" / "3.png").write_bytes(b"")
    report = check(str(tmp_path / "x.csv"))
    assert sum(report.images.values()) == 6
    wrong = [problem.partition(", ")[2] or problem for problem in report.problems]
    assert wrong[0] == "line 2: gone.png is not there"
    assert wrong[1] == "line 9: 3 columns, but the first line has 2"
    assert wrong[2].endswith("3.png is empty") and len(wrong) == 3


def test_twins_that_the_authors_published_are_a_note(tmp_path, capsys):
    folder = tmp_path / "data" / "mnist"
    pixels = write_idx(folder, packed=False)
    file = folder / "t10k-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:16] + pixels[:10].tobytes())
    assert main(["data", "check", "mnist"]) == 0
    assert "10 images are there twice, as published" in capsys.readouterr().out


def test_data_alone_lists_every_set_with_its_licence_and_place(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    write_idx(tmp_path / "data" / "mnist")
    assert main(["data"]) == 0
    out = capsys.readouterr().out
    assert main(["data", "list"]) == 0 and capsys.readouterr().out == out
    assert "embedded" in out and str(tmp_path / "data" / "mnist") in out
    assert "not here: regard data fetch cifar10" in out
    for known in (*catalogue.EMBEDDED.values(), *catalogue.KNOWN.values()):
        assert known.name in out and known.licence in out


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("check", "regard data check NAME|PATH"),
        ("fetch", "regard data fetch mnist|fashion-mnist|cifar10"),
        ("fetch imagenet", "no data set 'imagenet' to fetch"),
        ("clean imagenet", "no download 'imagenet'"),
    ],
)
def test_what_is_missing_or_unknown_is_said(capsys, typed, said):
    assert main(["data", *typed.split()]) == 2
    assert said in capsys.readouterr().err


def test_a_bar_is_shown_only_after_a_while(capsys, monkeypatch):
    def count():
        with progress.progress("counting", 3) as advance:
            for _ in range(3):
                advance(1)
        return capsys.readouterr()

    monkeypatch.setenv("FORCE_COLOR", "1")  # or rich would see that this is no terminal
    assert count() == ("", "")
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    out, err = count()
    assert out == "" and "counting" in err
