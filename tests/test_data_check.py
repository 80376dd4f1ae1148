"""`regard data` shows what there is, and finds what is wrong before any training does."""

import os
import shutil
from pathlib import Path

import pytest

from golden import expect_error, golden
from official import write_bomb, write_idx, write_photos
from regard import progress
from regard.cli import main
from regard.data import check as checking
from regard.data import registry as catalogue
from regard.data.caption_check import CaptionReport
from regard.data.captions import read_captions
from regard.data.check import Report, check
from regard.data.grouped import grouped
from regard.data.images import SPLITS
from regard.data.synthetic.scene_set import scene_set
from regard.errors import DataIssue


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


def test_a_class_that_may_not_be_read_is_not_called_empty(tmp_path, monkeypatch):
    own = tmp_path / "own"
    write_photos(own, {"cat": 4, "dog": 4, "cow": 4})
    scan = os.scandir

    def closed(place):  # not by chmod, for root may read everything
        if Path(place).name == "cow":
            raise PermissionError(13, "Permission denied", str(place))
        return scan(place)

    monkeypatch.setattr(os, "scandir", closed)
    assert check(str(own)).problems == (f"{own / 'cow'} cannot be read: Permission denied",)


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
    assert "built in" in out and str(tmp_path / "data" / "mnist") in out
    assert "not here: regard data fetch cifar10" in out
    for known in (*catalogue.EMBEDDED.values(), *catalogue.KNOWN.values()):
        assert known.name in out and known.licence in out


# Captions


def write_captions(folder: Path, text: str, count: int = 10, name: str = "captions.csv") -> Path:
    write_photos(folder, {"": count})
    (folder / name).write_text(text, encoding="utf-8")
    return folder


DOGS = "image,caption\n" + "".join(f"{n}.png,a dog runs {'far ' * n}\n" for n in range(10))


def test_a_folder_of_captions_is_told_with_its_lengths_and_words(tmp_path, capsys):
    own = write_captions(tmp_path / "own", DOGS)
    assert main(["data", "check", str(own)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "own: 10 images with 10 captions (7 train, 1 validation, 2 test)"
    assert lines[1].startswith("to train on: 1 captions an image; 4 to 12 words a caption, half")
    assert "4 different; the 4 that occur 5 times or more make up 100.0%" in lines[2]
    assert lines[3:] == [
        *("0.0% of the words held out do not occur in training", "nothing is wrong")
    ]
    assert main(["data", "check", str(own / "captions.csv")]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("captions.csv: 10 images with 10")


def test_everything_wrong_with_captions_is_listed_at_once(tmp_path, capsys):
    rows = [
        *("0.png,a dog,train", "1.png,a cat,validation", "2.png,,train", "3.png,?!,train"),
        *(
            "gone.png,a dog,train",
            "../out.png,a dog,train",
            "4.png,a cow,train",
            "6.png,a fox,test",
        ),
    ]
    own = write_captions(tmp_path / "own", "\n".join(["image,caption,split", *rows]), 7)
    file = own / "captions.csv"
    file.write_bytes(file.read_bytes() + b"\n5.png,\xff,")
    shutil.copy(own / "0.png", own / "1.png")
    (own / "4.png").write_text("text")
    assert main(["data", "check", str(own)]) == 2
    out, err = capsys.readouterr()
    for words in (
        "captions.csv, line 10: not UTF-8",
        "line 4: the caption of 2.png is empty",
        "line 5: the caption of 3.png has no word in it: '?!'",
        "line 6: gone.png is not there",
        "line 7: ../out.png lies outside",
        "4.png is no image but text",
        "1.png are the same image, in train and in validation",
        "note: 2 images have no caption, such as ",
    ):
        assert words in out, words
    assert err == f"regard: {own}: 7 things are wrong\n"


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("captions.csv", "image,caption\n", CaptionReport),
        ("captions.tsv", "file\ttext\n", CaptionReport),
        ("captions.csv", "", CaptionReport),
        ("metadata.csv", "file_name,text\n0.png,a dog\n", CaptionReport),
        ("metadata.csv", "file_name,label\n0.png,dog\n", Report),
        ("captions.jsonl", '{"image": "0.png", "caption": "a dog"}', CaptionReport),
        ("Flickr8k.token.txt", "0.png#0\ta dog\n", CaptionReport),
        ("notes.txt", "image,caption\n0.png,a dog\n", Report),
        ("table.csv", "path,label\n0.png,dog\n", Report),
    ],
)
def test_captions_are_told_from_classes_by_the_files_that_lie_there(tmp_path, name, text, kind):
    for folder in ("cat", "dog"):
        write_photos(tmp_path, {folder: 4})
    write_captions(tmp_path, text, 1, name)
    assert isinstance(check(str(tmp_path), workers=1), kind)


def test_a_file_is_told_by_its_first_line(tmp_path):
    write_captions(tmp_path, DOGS, name="said.csv")
    (tmp_path / "table.csv").write_text("path,label\n0.png,a\n1.png,b\n")
    assert isinstance(check(str(tmp_path / "said.csv"), workers=1), CaptionReport)
    assert isinstance(check(str(tmp_path / "table.csv"), workers=1), Report)


def test_a_table_of_texts_is_told_by_its_classes_and_what_is_wrong(tmp_path, capsys):
    path = tmp_path / "own.csv"
    rows = ["text,label", "a fine film,good", "a dull film,bad", "dull,bad", "so,good"]
    path.write_text("\n".join(rows))
    assert main(["data", "check", str(path)]) == 0
    assert capsys.readouterr().out == (
        "own.csv: 4 texts, 2 classes (good 2, bad 2)\nnothing is wrong\n"
    )
    path.write_text("\n".join([*rows, ",bad", "so,bad", "dull,bad"]))
    assert main(["data", "check", str(path)]) == 2
    assert capsys.readouterr().out.splitlines() == [
        f"wrong: {path}, line 6 has an empty text",
        "note: texts with more than one label: 1, such as 'so', which is called bad and good",
        "note: texts that occur more than once: 2",
        "own.csv: 6 texts, 2 classes (bad 4, good 2)",
    ]
    path.write_bytes(b"text,label\n\xe9,good\n\xe9,bad\n")
    assert "line 2 is not UTF-8" in check(str(path)).problems[0]
    path.write_text("a,b,c\n1,2,3\n")
    (wrong,) = check(str(path)).problems
    assert (
        "say with --text-column and --label-column which they are; above rows alone put a" in wrong
    )


def test_the_columns_of_a_table_may_be_said(tmp_path, capsys):
    path = tmp_path / "own.csv"
    path.write_text("said,of,stars\na film,a play,5\na soup,a stew,1\na tale,a song,5\n")
    flags = ["--text-column", "said", "--label-column", "stars"]
    assert main(["data", "check", str(path), *flags]) == 0
    assert capsys.readouterr().out == ("own.csv: 3 texts, 2 classes (5 2, 1 1)\nnothing is wrong\n")
    assert main(["data", "check", str(path), *flags, "--text-pair-column", "of"]) == 0
    assert "own.csv: 3 pairs of texts, 2 classes" in capsys.readouterr().out
    assert main(["data", "check", str(path), *flags, "--text-pair-column", "with"]) == 2
    assert "line 1 has no column 'with'" in capsys.readouterr().out
    assert main(["data", "check", "reviews", "--text-column", "said"]) == 2
    assert (
        "--text-column said is for files of your own; reviews needs none" in capsys.readouterr().out
    )


def test_classes_that_differ_only_in_capitals_are_noted(tmp_path):
    path = tmp_path / "own.csv"
    labels = ["Positive", "positive", "Negative", "negative"] * 3
    path.write_text("text,label\n" + "".join(f"film {n},{x}\n" for n, x in enumerate(labels)))
    report = check(str(path))
    assert report.notes == (
        "classes that differ only in capitals: 'Negative' and 'negative'",
        "classes that differ only in capitals: 'Positive' and 'positive'",
    )
    write_photos(tmp_path / "photos", {"cats": 5, "Dogs": 5})
    (tmp_path / "photos" / "own.csv").write_text(
        "path,label\n" + "".join(f"cats/{n}.png,{'Cc'[n % 2]}at\n" for n in range(5))
    )
    report = check(str(tmp_path / "photos" / "own.csv"), workers=1)
    assert "classes that differ only in capitals: 'Cat' and 'cat'" in report.notes


def test_a_folder_of_tables_is_told_like_one_and_what_is_in_two_parts_is_noted(tmp_path, capsys):
    own = tmp_path / "own"
    own.mkdir()
    (own / "train.csv").write_text("text,label\na fine film,good\na dull film,bad\nfine,good\n")
    (own / "test.tsv").write_text("text\tlabel\nfine\tgood\nnew\tbad\n")
    (own / "notes.md").write_text("collected by hand")
    assert main(["data", "check", str(own)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "note: texts that occur more than once: 1",
        "note: texts of test that are learnt from too: 1",
        "own: 5 texts, 2 classes (good 3, bad 2)",
        "nothing is wrong",
    ]
    (own / "test.tsv").write_text("text\tlabel\nnew\tugly\n")
    assert main(["data", "check", str(own)]) == 2
    assert "label 'ugly', which no text to learn from has" in capsys.readouterr().out
    (own / "train.csv").write_text("path,label\n0.png,a\n1.png,b\n")  # these are images
    write_photos(own, {".": 2})
    assert isinstance(check(str(own), workers=1), Report)


def test_a_plain_text_is_read_to_its_end(tmp_path, capsys):
    path = tmp_path / "book.txt"
    path.write_text("A fox slept.\n" * 100)
    assert main(["data", "check", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "note: lines to train on that repeat an earlier one: 89, such as 'A fox slept.'",
        "note: lines of validation that are learnt from too: 10, such as 'A fox slept.'",
        "book.txt: 1,300 characters (1,170 train, 130 validation, 0 test)",
        "100 lines, 0 of them empty",
        "nothing is wrong",
    ]
    path.write_text("".join(f"Fox {n} slept.\n\n" for n in range(9)) + "z" * 20_000)
    report = check(str(path))
    assert report.notes == (
        "lines of over 10,000 characters: 1, such as line 19 of train, of 17,987",
    )
    assert report.facts[1] == "20 lines, 9 of them empty"  # the last one is cut in two


def test_what_is_no_utf8_in_a_text_is_found_with_its_line(tmp_path, capsys):
    path = tmp_path / "book.txt"
    path.write_bytes(b"A fox slept.\n" * 100 + b"\xe9t\xe9\nA fox.\nl\xe0\n")
    assert main(["data", "check", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"wrong: {path}, line {line} is not UTF-8: its byte {at}, 0x{byte}, belongs to no "
        "character; save it as UTF-8 first"
        for line, at, byte in ((101, 1, "e9"), (103, 2, "e0"))
    ]
    assert err == f"regard: {path}: 2 things are wrong\n"
    path.write_bytes(b"\xe9t\xe9\n" * 50)
    assert len(check(str(path)).problems) == 21
    assert check(str(path)).problems[-1] == "and 30 more like these"


@pytest.mark.parametrize("name", ["own.txt", "own.csv", "own.tsv", "own", "captions.csv"])
@pytest.mark.parametrize("content", ["", " \n\n"], ids=["empty", "blank"])
def test_a_blank_file_is_said_to_be_one_and_no_images_are_counted(tmp_path, capsys, name, content):
    path = tmp_path / name
    path.write_text(content)
    assert main(["data", "check", str(path)]) == 2
    assert capsys.readouterr().out == (
        f"wrong: {path} is empty, or has nothing but spaces and line breaks\n"
    )


def test_a_file_without_a_caption_counts_no_images(tmp_path, capsys):
    (tmp_path / "own.json").write_text('{"a": 1}')
    assert main(["data", "check", str(tmp_path / "own.json")]) == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert "own.json is neither COCO's json" in line


def test_a_folder_without_anything_counts_no_images(tmp_path, capsys):
    assert main(["data", "check", str(tmp_path)]) == 2
    assert capsys.readouterr().out == (
        f"wrong: {tmp_path} has no sub-folders; put the images of each class into one\n"
    )


def test_a_folder_of_texts_is_read_as_training_reads_it(tmp_path, capsys):
    own = tmp_path / "own"
    own.mkdir()
    for part, count in (("train", 30), ("valid", 5), ("test", 5)):
        (own / f"{part}.txt").write_text("".join(f"A {part} fox {n}.\n" for n in range(count)))
    assert main(["data", "check", str(own)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "own: 615 characters (470 train, 75 validation, 70 test)",
        "40 lines, 0 of them empty",
        "nothing is wrong",
    ]
    (own / "test.txt").write_bytes(b"A fox.\n\xff\n")
    (problem,) = check(str(own)).problems
    assert problem.startswith(f"{own / 'test.txt'}, line 2 is not UTF-8: its byte 1, 0xff")
    write_photos(own, {"cat": 4, "dog": 4})  # beside which texts are only notes
    assert isinstance(check(str(own), workers=1), Report)


def test_a_file_with_any_name_may_be_a_text_but_an_image_is_none(tmp_path, capsys):
    (tmp_path / "book").write_text("A fox slept.\n\n" * 10)
    assert check(str(tmp_path / "book")).facts[1] == "20 lines, 10 of them empty"
    write_photos(tmp_path, {"cat": 1})
    assert main(["data", "check", str(tmp_path / "cat" / "0.png")]) == 2
    golden(capsys.readouterr().err)


# Translations


def write_pairs(folder: Path, count: int = 20) -> Path:
    """Numbers of cats, in two languages and two files."""
    folder.mkdir(parents=True, exist_ok=True)
    for language, cats in (("en", "cats"), ("de", "Katzen")):
        lines = "".join(f"{n} {cats}\n" for n in range(count))
        (folder / f"own.{language}").write_text(lines)
    return folder


def test_two_files_of_translations_are_checked_line_by_line(tmp_path, capsys):
    own = write_pairs(tmp_path)
    data = f"{own / 'own.en'},{own / 'own.de'}"
    assert main(["data", "check", data]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "own.en,own.de: 20 pairs, en and de (18 train, 2 validation, 0 test)",
        "nothing is wrong",
    ]
    (own / "own.de").write_bytes(b"0 Katzen\n\n\xff\n" + b"K\n" * 17)
    assert main(["data", "check", data]) == 2
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == [
        f"wrong: {own / 'own.de'}, line 2 has an empty side: each text needs a translation",
        f"wrong: {own / 'own.de'}, line 3 is not UTF-8: its byte 1, 0xff, belongs to no character",
    ]
    assert "own.en,own.de: 18 pairs" in out[-1]
    (own / "own.de").write_text("Katzen\n" * 3)
    assert "own.en has 20 lines and" in check(data).problems[0]
    assert check(f"{own / 'own.en'},{own / 'own.fr'}").problems == (
        f"{own / 'own.fr'} is not there",
    )


def test_a_table_of_translations_is_told_from_one_of_labels(tmp_path):
    path = tmp_path / "own.tsv"
    rows = [f"{n} cats\t{n} Katzen" for n in range(20)]
    path.write_text(
        "\n".join([*rows, "3 cats\t3 Katzen", "3 cats\tdrei", "Tom\tTom", "z" * 2000 + "\tZ"])
    )
    report = check(str(path))
    assert report.problems == () and report.notes == (
        "pairs that occur more than once: 1",
        "texts with more than one translation: 1, such as '3 cats'",
        "texts whose translation is the text itself: 1, such as 'Tom'",
        f"texts of over 1,000 characters: 1, such as {'z' * 60!r}",
    )
    assert report.facts[0].startswith("own.tsv: 24 pairs, source and target (")
    path.write_text("\n".join(["one", *rows]))
    assert check(str(path)).problems == (
        f"{path}, line 1 has 1 column: there must be two, the text and its translation, with a tab "
        "between",
    )
    (tmp_path / "folder").mkdir()
    shutil.copy(path, tmp_path / "folder" / "train.tsv")
    assert "folder: 20 pairs" in check(str(tmp_path / "folder")).facts[0]
    for labelled in ("said\tstars\n", ""):
        path.write_text(labelled + "".join(f"film {n}\t{n % 2}\n" for n in range(20)))
        said = check(str(path))
        assert (
            "--text-column and --label-column" in said.problems[0]
            if labelled
            else "classes" in said.facts[0]
        )


def test_a_folder_of_two_languages_is_one_of_translations(tmp_path):
    own = write_pairs(tmp_path)
    for language in ("en", "de"):
        shutil.copy(own / f"own.{language}", own / f"test.{language}")
        (own / f"own.{language}").rename(own / f"train.{language}")
    report = check(str(own))
    assert report.problems == () and "20 test)" in report.facts[0]
    assert report.notes[-1] == "pairs of test that are learnt from too: 18"


# What has a name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("reviews", "reviews: 27,000 texts, 2 classes (positive 13,500, negative 13,500)"),
        ("numerals", "numerals: 45,800 pairs, digits or words and words or digits ("),
        ("docstrings", "docstrings (Python "),
    ],
)
def test_embedded_texts_are_checked_by_their_names(capsys, name, said):
    assert main(["data", "check", name]) == 0
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("name", ["sick", "sst2", "wikitext-2", "tiny_shakespeare", "multi30k"])
def test_a_named_text_that_is_not_here_is_no_fault_of_the_data(capsys, name):
    assert main(["data", "check", name]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"regard: {name} is not on this machine: put ")


def test_a_named_text_is_checked_where_it_is(tmp_path, capsys):
    home = tmp_path / "data" / "tiny_shakespeare"
    home.mkdir(parents=True)
    (home / "input.txt").write_text("First Citizen:\nSpeak, speak.\n\n" * 10)
    for name in ("tiny_shakespeare", str(home)):
        assert main(["data", "check", name]) == 0
        assert "tiny_shakespeare: 300 characters (270 train" in capsys.readouterr().out
    (home / "input.txt").write_bytes(b"First\n\xff\n")
    assert "input.txt, line 2 is not UTF-8" in check("tiny_shakespeare").problems[0]


def test_a_name_that_nobody_has_is_told_with_the_nearest(capsys):
    assert main(["data", "check", "wikitxt"]) == 2
    golden(capsys.readouterr().err)


def test_scenes_are_checked_against_what_they_show(monkeypatch, capsys):
    monkeypatch.setattr(checking, "scene_set", lambda count: scene_set(20, held=20))
    assert main(["data", "check", "scenes"]) == 0
    said = capsys.readouterr().out
    assert "scenes: 60 images with 300 captions (20 train, 20 validation, 20 test)" in said
    monkeypatch.setattr(checking, "scene", lambda row, split: scene_of(row + 1, split))
    assert len(check("scenes").problems) > 100


def scene_of(row: int, split: str):
    from regard.data.synthetic.scenes import scene

    return scene(row, split)


def test_flickr8k_is_checked_where_it_is_and_asked_for_where_it_is_not(tmp_path, capsys):
    for typed in (["check", "flickr8k"], ["fetch", "flickr8k"]):
        assert main(["data", *typed]) == 2
        golden(capsys.readouterr().err)
    assert main(["data", "fetch", "scenes"]) == 0
    assert "comes with regard" in capsys.readouterr().out
    home = tmp_path / "data" / "flickr8k"
    write_photos(home, {"Flicker8k_Dataset": 3})
    (home / "Flickr8k_text").mkdir()
    for n, word in enumerate(("train", "dev", "test")):
        (home / "Flickr8k_text" / f"Flickr_8k.{word}Images.txt").write_text(f"{n}.png\n")
    tokens = "".join(f"{n}.png#0\tA dog .\n" for n in range(3))
    (home / "Flickr8k_text" / "Flickr8k.token.txt").write_text(tokens)
    assert main(["data", "check", "flickr8k"]) == 0
    assert "flickr8k: 3 images with 3 captions" in capsys.readouterr().out
    assert checking.holds_captions(home)


def test_sets_of_captions_are_listed_with_their_place(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["data", "list"]) == 0
    rows = {line.split()[1]: line for line in capsys.readouterr().out.splitlines() if "│" in line}
    assert "built in" in rows["scenes"] and "Apache-2.0" in rows["scenes"]
    assert "not here: regard data fetch flickr8k says how" in rows["flickr8k"]
    (tmp_path / "data" / "flickr8k").mkdir(parents=True)
    assert main(["data", "list"]) == 0
    assert str(tmp_path / "data" / "flickr8k") in capsys.readouterr().out


def test_clean_frees_the_features_that_were_kept(tmp_path, capsys):
    kept = tmp_path / "cache" / "regard" / "features" / f"{'0123' * 8}.npy"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(bytes(2**20))
    assert main(["data", "clean", "--dry-run"]) == 0
    assert f"1.0 MiB  {kept}" in capsys.readouterr().out and kept.exists()
    assert main(["data", "clean"]) == 0
    assert not kept.exists()


@pytest.mark.parametrize(
    "typed",
    [
        "check",
        "fetch",
        "fetch imagenet",
        "clean imagenet",
    ],
)
def test_what_is_missing_or_unknown_is_said(capsys, typed):
    assert main(["data", *typed.split()]) == 2
    golden(capsys.readouterr().err)


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


def test_parallel_texts_are_listed_and_told_how_to_get(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    assert main(["data", "list"]) == 0
    rows = {line.split()[1]: line for line in capsys.readouterr().out.splitlines() if "│" in line}
    assert "built in" in rows["numerals"]
    assert "not here: regard data fetch multi30k says how" in rows["multi30k"]
    assert main(["data", "fetch", "multi30k"]) == 2
    golden(capsys.readouterr().err)
    assert main(["data", "fetch", "numerals"]) == 0
    assert "numerals comes with regard" in capsys.readouterr().out
    home = tmp_path / "data" / "multi30k"
    home.mkdir(parents=True)
    for part in ("train", "val", "test_2016_flickr", "test_2017_flickr"):
        for language in ("en", "de"):
            (home / f"{part}.{language}").write_text(f"a {part}\n")
    assert main(["data", "fetch", "multi30k"]) == 0
    assert f"multi30k is here already, in {home}" in capsys.readouterr().out


# In a screenful


def test_many_faults_of_a_kind_are_a_few_and_how_many_more(tmp_path, capsys):
    write_photos(tmp_path, {"": 2})
    path = tmp_path / "rows.jsonl"
    good = '{"image": "0.png", "caption": "a dog"}\n{"image": "1.png", "caption": "a cat"}\n'
    path.write_text(good + '{"image": 3, "caption": "a dog"}\n' * 800 + '{"image": "x.png"}\n')
    assert main(["data", "check", str(path)]) == 2
    out, err = capsys.readouterr()
    wrong = [line for line in out.splitlines() if line.startswith("wrong: ")]
    assert wrong == [
        *(
            f"wrong: {path}, line {n}: needs image and caption as texts; it has image, caption"
            for n in (3, 4, 5)
        ),
        "wrong: and 797 more like this",
        f"wrong: {path}, line 803: needs image and caption as texts; it has image",
    ]
    assert f"regard data check {path} --all lists every one" in out and len(out.splitlines()) < 40
    assert err == f"regard: {path}: 801 things are wrong\n"
    assert main(["data", "check", str(path), "--all"]) == 2
    out = capsys.readouterr().out
    assert sum(line.startswith("wrong: ") for line in out.splitlines()) == 801
    assert "more like this" not in out and "--all" not in out


def test_what_is_grouped_is_counted_and_no_longer_than_asked_for():
    words = ["one", "two", "six", "ten", "red", "big"]
    sentences = [f"own.csv, line {n}: {word}" for word in words for n in range(5)]
    lines = grouped(sentences, 10)
    assert len(lines) <= 10 and lines[:4] == [*sentences[:3], "and 2 more like this"]
    more = [int(line.split()[1]) for line in lines if line.startswith("and ")]
    assert sum(more) + sum(not line.startswith("and ") for line in lines) == len(sentences)
    assert grouped(sentences[:4], 10) == sentences[:4]  # one more is no longer than its count
    assert grouped([], 10) == []
    assert grouped([f"{word} is wrong" for word in words], 4)[-1] == "and 3 more"


def test_texts_with_labels_in_json_lines_are_not_taken_for_captions(tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a fine film", "label": "good"}\n' * 800)
    main(["data", "check", str(path)])
    out, err = capsys.readouterr()
    assert "needs image and caption" not in out + err
    assert len((out + err).splitlines()) < 40


def test_a_name_is_checked_and_no_folder_beside_it(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mnist", "flickr8k", "multi30k", "sst2", "wikitext-2"):
        write_photos(tmp_path / name, {"cat": 10, "dog": 10})
        assert main(["data", "check", name]) == 2
        out, err = capsys.readouterr()
        assert not out and err.startswith(f"regard: {name} is not on this machine: ")
        assert err.endswith(f"for the folder of that name here, write ./{name}\n")
        assert main(["data", "check", f"./{name}"]) == 0
        assert capsys.readouterr().out.startswith(f"{name}: 20 images")


def test_an_address_is_not_checked_as_a_path(capsys):
    assert main(["data", "check", "https://example.org/own.csv"]) == 2
    golden(capsys.readouterr().err)


# Captions as Flickr8k and Flickr30k have them

TOKENS = "".join(f"{n}.png#{k}\ta dog runs {'far ' * k}.\n" for n in range(10) for k in range(2))


@pytest.mark.parametrize(
    "name", ["captions.txt", "results.token", "mine.token.txt", "Flickr8k.token.txt"]
)
def test_flickr8ks_format_is_read_under_any_name_and_without_lists(tmp_path, capsys, name):
    own = write_captions(tmp_path / "own", TOKENS, name=name)
    for path in (own, own / name):
        assert main(["data", "check", str(path)]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert first == f"{path.name}: 10 images with 20 captions (7 train, 1 validation, 2 test)"
    assert read_captions(own).licence == "your own"


def test_lists_beside_such_a_file_say_which_images_are_for_which_split(tmp_path):
    own = write_captions(tmp_path / "own", TOKENS, name="all.token")
    for split, rows in (("train", range(5)), ("dev", range(5, 7)), ("test", range(7, 9))):
        names = "".join(f"{n}.png\n" for n in rows)
        (own / f"Flickr_8k.{split}Images.txt").write_text(names)
    captions = read_captions(own)
    assert [len(captions[split]) for split in SPLITS] == [5, 2, 2] and captions.name == "own"
    assert "1 images are in none of the three lists" in check(str(own), workers=1).notes[0]
    (own / "Flickr_8k.trainImages.txt").write_text("0.png\nnone.png\n")
    with expect_error(DataIssue, kind="empty", line=2, file="Flickr_8k.trainImages.txt"):
        read_captions(own)


PIPES = "image_name| comment_number| comment\n" + "".join(
    f'{n}.png| {k}| A dog , "far" away | runs {"on " * k}.\n' for n in range(10) for k in range(2)
)


@pytest.mark.parametrize("name", ["results.csv", "captions.csv"])
def test_flickr30ks_table_with_pipes_is_read(tmp_path, capsys, name):
    own = write_captions(tmp_path / "own", PIPES, name=name)
    assert main(["data", "check", str(own)]) == 0
    assert capsys.readouterr().out.startswith("own: 10 images with 20 captions (7 train, ")
    assert main(["data", "check", str(own / name)]) == 0
    capsys.readouterr()
    assert 'A dog , "far" away | runs .' in {*read_captions(own).train.texts()}
    file = own / name
    file.write_text(PIPES + "1.png| 4   A dog runs .\n")  # such a row is in theirs
    (problem,) = check(str(file), workers=1).problems
    assert problem.startswith(f"{file}, line 22: 2 columns, but the first line has 3")


def test_results_of_something_else_are_no_captions(tmp_path):
    write_photos(tmp_path, {"cat": 4, "dog": 4})
    (tmp_path / "results.csv").write_text("epoch,accuracy\n1,0.5\n")
    assert isinstance(check(str(tmp_path), workers=1), Report)


def test_labels_of_images_may_be_0_and_1(tmp_path, capsys):
    write_photos(tmp_path, {"all": 20})
    rows = "".join(f"all/{n}.png,{n % 2}\n" for n in range(20))
    (tmp_path / "list.csv").write_text("image,label\n" + rows)
    assert main(["data", "check", str(tmp_path / "list.csv")]) == 0
    assert "20 images (14 train, 2 validation, 4 test), 2 classes" in capsys.readouterr().out
