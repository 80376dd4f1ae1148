"""Captions are read from every usual layout alike, and each thing wrong with them is a sentence."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from golden import expect_error
from official import write_photos
from regard.data.caption_check import EXAMPLES, check_captions
from regard.data.captions import (
    CaptionSet,
    CaptionSplit,
    captions_at_size,
    read_captions,
)
from regard.data.images import SPLITS, ArrayImages
from regard.errors import DataIssue, UserError

pytestmark = pytest.mark.usefixtures("own_folders")

# By image: its split and its captions, in any writing.
SAID = {
    "0.png": ("train", ["A dog runs .", "A brown dog, running"]),
    "1.png": ("train", ['A sign that says "STOP"', "Ein Schild: „Halt“"]),
    "2.png": ("train", ["👩🏽‍🚒", "גבר רוכב על אופניים"]),
    "3.png": ("validation", ["一只狗在雪地里奔跑", "A dog in the snow"]),
    "4.png": ("test", ["A cat", "a\u0301 cat \u202eon a mat"]),
    "5.png": ("test", ["Two cats"]),
}


def rows() -> list[tuple[str, str, str]]:
    return [(image, text, split) for image, (split, texts) in SAID.items() for text in texts]


def write_table(file: Path, delimiter: str) -> None:
    quoted = [[f'"{cell.replace(chr(34), 2 * chr(34))}"' for cell in row] for row in rows()]
    lines = [["Image", "Caption", "split"], *quoted]
    text = "\r\n".join(delimiter.join(line) for line in lines) + "\r\n\r\n"
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())


def as_csv(folder: Path) -> Path:
    write_photos(folder, {"": len(SAID)})
    write_table(folder / "captions.csv", ",")
    return folder


def as_tsv_beside_images(folder: Path) -> Path:
    write_photos(folder, {"images": len(SAID)})
    write_table(folder / "captions.tsv", "\t")
    return folder


def as_named_file(folder: Path) -> Path:
    write_photos(folder, {"Images": len(SAID)})
    write_table(folder / "said.txt", ";")
    return folder / "said.txt"


def as_json_lines(folder: Path) -> Path:
    write_photos(folder, {"": len(SAID)})
    lines = [json.dumps({"file_name": i, "text": t, "split": s}) for i, t, s in rows()]
    (folder / "metadata.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def as_lists_in_json_lines(folder: Path) -> Path:
    write_photos(folder, {"": len(SAID)})
    lines = [
        json.dumps({"image": image, "captions": texts, "split": split}, ensure_ascii=False)
        for image, (split, texts) in SAID.items()
    ]
    (folder / "captions.jsonl").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return folder


def karpathy() -> dict:
    images = [
        {
            "filename": image,
            "split": {"validation": "val"}.get(split, "restval" if image == "2.png" else split),
            "sentences": [{"raw": text, "tokens": text.split()} for text in texts],
        }
        for image, (split, texts) in SAID.items()
    ]
    return {"dataset": "ours", "images": images}


def as_karpathy(folder: Path) -> Path:
    write_photos(folder, {"Flicker8k_Dataset": len(SAID)})
    (folder / "dataset_flickr8k.json").write_text(json.dumps(karpathy()), encoding="utf-8")
    return folder


def as_karpathy_with_folders(folder: Path) -> Path:
    write_photos(folder, {"val2014": len(SAID)})
    data = karpathy()
    for image in data["images"]:
        image["filepath"] = "val2014"
    (folder / "dataset.json").write_text(json.dumps(data), encoding="utf-8")
    return folder


FLICKR_LISTS = {"train": "train", "validation": "dev", "test": "test"}


def as_flickr8k(folder: Path) -> Path:
    write_photos(folder, {"Flicker8k_Dataset": len(SAID)})
    text = folder / "Flickr8k_text"
    text.mkdir()
    for split, word in FLICKR_LISTS.items():
        names = [image for image, (its, _) in SAID.items() if its == split]
        (text / f"Flickr_8k.{word}Images.txt").write_text("\n".join(names) + "\n")
    lines = [f"{i}#{n}\t{t}" for i, (_, ts) in SAID.items() for n, t in enumerate(ts)]
    (text / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def as_flickr8k_unpacked_elsewhere(folder: Path) -> Path:
    """Both official archives in one folder: the texts lie loose, the images one level down."""
    as_flickr8k(folder)
    for file in (folder / "Flickr8k_text").iterdir():
        file.rename(folder / file.name)
    (folder / "Flickr8k_Dataset").mkdir()
    (folder / "Flicker8k_Dataset").rename(folder / "Flickr8k_Dataset" / "Flicker8k_Dataset")
    return folder


def coco(images: list[str]) -> dict:
    texts = [(number, text) for number, image in enumerate(images) for text in SAID[image][1]]
    return {
        "info": {},
        "images": [{"id": 7 + n, "file_name": image} for n, image in enumerate(images)],
        "annotations": [
            {"id": n, "image_id": 7 + number, "caption": text}
            for n, (number, text) in enumerate(texts)
        ],
    }


def as_coco(folder: Path) -> Path:
    """Its two official files, which have no test split."""
    (folder / "annotations").mkdir(parents=True)
    for word, split in (("train2017", "train"), ("val2017", "validation")):
        images = [image for image, (its, _) in SAID.items() if its == split]
        file = folder / "annotations" / f"captions_{word}.json"
        file.write_text(json.dumps(coco(images)), encoding="utf-8")
        write_photos(folder, {word: len(SAID)})
    return folder


WHOLE = [
    as_csv,
    as_tsv_beside_images,
    as_named_file,
    as_json_lines,
    as_lists_in_json_lines,
    as_karpathy,
    as_karpathy_with_folders,
    as_flickr8k,
    as_flickr8k_unpacked_elsewhere,
]


@pytest.mark.parametrize("layout", WHOLE, ids=lambda layout: layout.__name__)
def test_every_layout_gives_the_same_set(tmp_path, layout):
    captions = read_captions(layout(tmp_path / "a"))
    for split in SPLITS:
        mine = {image: tuple(texts) for image, (its, texts) in SAID.items() if its == split}
        assert [path.name for path in captions[split].images.paths] == list(mine)
        assert captions[split].captions == tuple(mine.values())
    assert captions.digest == read_captions(as_csv(tmp_path / "b")).digest
    assert captions.skipped == () and captions.train.images[0].shape == (3, 12, 16)
    assert list(captions.test.texts())[-1] == "Two cats"


def test_cocos_two_files_are_for_training_and_validation(tmp_path):
    captions = read_captions(as_coco(tmp_path))
    assert [len(captions[split]) for split in SPLITS] == [2, 1, 1]  # one held out for test
    assert captions.validation.captions == (tuple(SAID["3.png"][1]),)
    assert captions.validation.images.paths == (tmp_path / "val2017" / "3.png",)
    one = read_captions(tmp_path / "annotations" / "captions_train2017.json")
    assert sum(len(one[split]) for split in SPLITS) == 3
    (tmp_path / "annotations" / "captions_train2014.json").write_text("{}")
    with expect_error(DataIssue, kind="several"):
        read_captions(tmp_path)


def photos(folder: Path, text: str, count: int = 20, name: str = "captions.csv") -> Path:
    write_photos(folder, {"": count})
    (folder / name).write_bytes(text.encode())
    return folder


def test_missing_splits_are_held_out_by_name_wherever_the_images_lie(tmp_path):
    text = "image,caption\n" + "".join(f"{n}.png,dog {n}\n" for n in range(20))
    turned = "image,caption\n" + "".join(f"{n}.png,dog {n}\n" for n in reversed(range(20)))
    one = read_captions(photos(tmp_path / "a", text))
    other = read_captions(photos(tmp_path / "b", turned))
    assert [len(one[split]) for split in SPLITS] == [14, 2, 4]
    for split in SPLITS:
        assert set(one[split].captions) == set(other[split].captions)


def test_rows_of_an_image_are_gathered_wherever_they_stand(tmp_path):
    text = "image,caption,split\n0.png,one,\n1.png,two,train\n./0.png, three  words ,train\n"
    captions = read_captions(photos(tmp_path, text, 2))
    found = {texts for split in SPLITS for texts in captions[split].captions}
    assert found == {("one", "three words"), ("two",)}


def test_a_folder_of_images_may_be_a_link_but_no_image_leads_out(tmp_path):
    write_photos(tmp_path / "disk", {"": 3})
    folder = photos(tmp_path / "set", "image,caption\n0.png,a dog\n", 0)
    (folder / "images").symlink_to(tmp_path / "disk")
    assert len(read_captions(folder).train) == 1
    (folder / "images").unlink()
    (folder / "0.png").symlink_to(tmp_path / "disk" / "0.png")
    with expect_error(DataIssue, kind="path", line=2, file="captions.csv"):
        read_captions(folder)


def test_the_digest_follows_what_can_be_learnt(tmp_path):
    as_csv(tmp_path)
    file = tmp_path / "captions.csv"
    before, text = read_captions(tmp_path).digest, file.read_text(encoding="utf-8")
    changes = [("Two cats", "Two Cats"), ('"5.png"', '"4.png"'), ('cats","test', 'cats","train')]
    digests = {before}
    for old, new in changes:
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")
        digests.add(read_captions(tmp_path).digest)
    assert len(digests) == 4


# Bad input: a sentence from the reader, in the list of the check, and left out where asked


Write = Callable[[Path], Path]


def table(*lines: str) -> Write:
    text = "image,caption,split\n9.png,a good row,\n8.png,and another,\n" + "\n".join(lines) + "\n"
    return lambda folder: photos(folder, text, 10)


def json_lines(line: str) -> Write:
    text = '{"image": "9.png", "caption": ["a good row"]}\n' + line
    return lambda folder: photos(folder, text, 10, "captions.jsonl")


def karpathy_with(change: Callable[[list], object]) -> Write:
    def write(folder: Path) -> Path:
        data = karpathy()
        change(data["images"])
        as_karpathy(folder)
        (folder / "dataset_flickr8k.json").write_text(json.dumps(data))
        return folder

    return write


def coco_with(change: Callable[[dict], object]) -> Write:
    def write(folder: Path) -> Path:
        data = coco(list(SAID))
        change(data)
        return photos(folder, json.dumps(data), 9, "captions.json")

    return write


def flickr8k_with(file: str, text: str | bytes, *, more: bool = True) -> Write:
    def write(folder: Path) -> Path:
        path = as_flickr8k(folder) / "Flickr8k_text" / file
        whole = path.read_bytes() if more else b""
        path.write_bytes(whole + (text if isinstance(text, bytes) else text.encode()))
        return folder

    return write


def damaged_image(folder: Path) -> Path:
    table()(folder)
    (folder / "9.png").write_bytes(b"no image")
    return folder


# Each leaves out a row or an image.
FAULTS: dict[str, tuple[Write, str, int | None]] = {
    "an image that is missing": (table("77.png,a dog,"), "path", 4),
    "a caption that is empty": (table("0.png, ,"), "empty", 4),
    "punctuation only": (table('0.png,"?! ... —",'), "empty", 4),
    "direction marks only": (table("0.png,\u200f\u202e,"), "empty", 4),
    "no image named": (table(",a dog,"), "image", 4),
    "a ragged row": (
        table("0.png,a dog, running,train"),
        "columns",
        4,
    ),
    "a way out": (table("../../../etc/passwd,a dog,"), "path", 4),
    "a hidden way out": (table("a/../../x.png,a dog,"), "path", 4),
    "an absolute path": (table("/etc/passwd,a dog,"), "path", 4),
    "a very long name": (table("x" * 5000 + ",a dog,"), "path", 4),
    "a name with a zero": (table("a\0.png,a dog,"), "path", 4),
    "a name of two lines": (table('"a', 'b.png",a dog,'), "path", 4),
    "a folder as image": (table(".,a dog,"), "path", 4),
    "no such split": (table("0.png,a dog,tset"), "split", 4),
    "two splits": (
        table("0.png,a dog,train", "0.png,a dog,test"),
        "split",
        5,
    ),
    "a line that is no json": (json_lines("{image"), "json", 2),
    "deep json": (json_lines("[" * 100_000), "json", 2),
    "a line without an image": (json_lines('{"caption": "x"}'), "key", 2),
    "a list as a line": (json_lines("[1, 2]"), "type", 2),
    "numbers as captions": (
        json_lines('{"image": "0.png", "caption": [1]}'),
        "key",
        2,
    ),
    "an image without a caption": (
        json_lines('{"image": "0.png", "caption": []}'),
        "empty",
        2,
    ),
    "half a sign": (
        json_lines('{"image": "0.png", "caption": "a \\ud83d"}'),
        "encoding",
        2,
    ),
    "half a sign in a name": (
        json_lines('{"image": "\\ud83d", "caption": "a"}'),
        "encoding",
        2,
    ),
    "Karpathy without a caption": (
        karpathy_with(lambda images: images[3].update(sentences=[])),
        "empty",
        None,
    ),
    "Karpathy with another kind of sentence": (
        karpathy_with(lambda images: images[3].update(sentences=5)),
        "empty",
        None,
    ),
    "Karpathy without raw text": (
        karpathy_with(lambda images: images[3].update(sentences=[{"tokens": ["a"]}])),
        "type",
        None,
    ),
    "Karpathy with an image twice": (
        karpathy_with(lambda images: images.append(images[0])),
        "twice",
        None,
    ),
    "Karpathy without a split": (
        karpathy_with(lambda images: images[5].pop("split")),
        "key",
        None,
    ),
    "Karpathy with a number for an image": (
        karpathy_with(lambda images: images.append(5)),
        "type",
        None,
    ),
    "COCO with an image that has no caption": (
        coco_with(lambda data: data["images"].append({"id": 1, "file_name": "8.png"})),
        "empty",
        None,
    ),
    "COCO with an image twice": (
        coco_with(lambda data: data["images"].append({"id": 1, "file_name": "0.png"})),
        "twice",
        None,
    ),
    "COCO with a caption of no image": (
        coco_with(lambda data: data["annotations"].append({"image_id": 99, "caption": "a"})),
        "key",
        None,
    ),
    "COCO without ids": (
        coco_with(lambda data: data["annotations"].append({"image_id": [], "caption": "a"})),
        "key",
        None,
    ),
    "Flickr8k with an image in two lists": (
        flickr8k_with("Flickr_8k.testImages.txt", "0.png\n"),
        "twice",
        3,
    ),
    "Flickr8k with an image that has no caption": (
        flickr8k_with("Flickr_8k.testImages.txt", "6.png\n"),
        "empty",
        3,
    ),
    "Flickr8k without a tab": (
        flickr8k_with("Flickr8k.token.txt", "0.png#5 A dog .\n"),
        "format",
        12,
    ),
}

# With these nothing can be trusted.
PROBLEMS: dict[str, tuple[Write, str, int | None]] = {
    "no such folder": (lambda folder: folder / "nowhere", "missing", None),
    "a very long path": (lambda folder: folder / ("x" * 5000), "unreadable", None),
    "no file of captions": (lambda f: photos(f, "", 1, "notes.md"), "format", None),
    "another kind of file": (
        lambda folder: photos(folder, "", 1, "notes.md") / "notes.md",
        "format",
        None,
    ),
    "two files of captions": (
        lambda folder: photos(photos(folder, "", 1), "", 1, "captions.jsonl"),
        "several",
        None,
    ),
    "an empty table": (lambda f: photos(f, ""), "column", 1),
    "other columns": (lambda f: photos(f, "id,words\n"), "column", 1),
    "only a first line": (lambda f: photos(f, "image,caption\n"), "empty", None),
    "Latin-1": (
        lambda folder: photos(folder, "image,caption\n0.png,a dog\n1.png,").joinpath(
            write_bytes(folder / "captions.csv", b"image,caption\n0.png,dog\n1.png,caf\xe9\n")
        ),
        "encoding",
        3,
    ),
    "Latin-1 in json lines": (
        lambda folder: photos(folder, "", 1, "captions.jsonl").joinpath(
            write_bytes(folder / "captions.jsonl", b'{"image": "0.png", "caption": "\xe9"}')
        ),
        "encoding",
        1,
    ),
    "Latin-1 in Flickr8k": (
        flickr8k_with("Flickr8k.token.txt", b"0.png#5\tcaf\xe9\n"),
        "encoding",
        12,
    ),
    "a json cut short": (lambda f: photos(f, '{"images": [', 1, "captions.json"), "json", None),
    "a deep json": (lambda f: photos(f, "[" * 100_000, 1, "captions.json"), "json", None),
    "an empty json": (lambda f: photos(f, "", 1, "captions.json"), "empty", None),
    "some other json": (
        lambda folder: photos(folder, '{"a": 1}', 1, "captions.json"),
        "format",
        None,
    ),
    "COCO without images": (
        coco_with(lambda data: data.pop("images")),
        "json",
        None,
    ),
    "an empty list of Flickr8k": (
        flickr8k_with("Flickr_8k.devImages.txt", "", more=False),
        "empty",
        None,
    ),
    "only test": (
        lambda folder: photos(folder, "image,caption,split\n0.png,a dog,test\n"),
        "split",
        None,
    ),
}


def write_bytes(file: Path, data: bytes) -> str:
    file.write_bytes(data)
    return "."


PYTHONS = r"no json \(.*?\)"  # its own words, which differ between versions


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_a_sentence_with_its_place_and_can_be_left_out(tmp_path, name):
    write, kind, line = FAULTS[name]
    path = write(tmp_path / "set")
    with expect_error(DataIssue, kind=kind, line=line, vary=PYTHONS) as told:
        read_captions(path)
    assert str(told.value).isprintable()
    captions = read_captions(path, skip_bad=True)
    assert captions.skipped == (str(told.value),)
    assert (captions.skipped[0].kind, captions.skipped[0].line) == (kind, line)
    assert len(captions.train)
    report = check_captions(str(path), workers=1)
    assert report.problems == captions.skipped


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_stops_the_reader_also_where_faults_are_left_out(tmp_path, name):
    write, kind, line = PROBLEMS[name]
    path = write(tmp_path / "set")
    for skip_bad in (False, True):
        with expect_error(DataIssue, kind=kind, line=line, vary=PYTHONS):
            read_captions(path, skip_bad=skip_bad)
    try:
        found = check_captions(str(path), workers=1).problems
    except DataIssue as stopped:  # there is nothing to look through
        found = (stopped.located,)
    assert (kind, line) in [(fault.kind, fault.line) for fault in found]
    assert all(sentence.isprintable() for sentence in found)


def test_the_first_of_many_faults_says_how_many_more_there_are(tmp_path):
    path = table("0.png,,", "1.png,,", "2.png,,")(tmp_path)
    with expect_error(DataIssue, kind="empty", line=4, file="captions.csv"):
        read_captions(path)


def test_a_missing_image_is_told_once_however_many_captions_it_has(tmp_path):
    path = table("77.png,one,", "77.png,two,", "77.png,three,")(tmp_path)
    assert len(read_captions(path, skip_bad=True).skipped) == 1


def test_damage_anywhere_is_a_sentence_or_harmless(tmp_path):
    random = np.random.default_rng(0)
    for layout in (as_csv, as_lists_in_json_lines, as_karpathy, as_flickr8k):
        folder = layout(tmp_path / layout.__name__)
        files = [file for file in sorted(folder.rglob("*")) if file.suffix not in (".png", "")]
        for _ in range(60):
            file = files[random.integers(len(files))]
            whole = file.read_bytes()
            spoilt = bytearray(whole[: random.choice([len(whole), len(whole) // 2])])
            for place in random.integers(len(spoilt), size=3):
                spoilt[place] = random.choice([random.integers(256), *b'"\\\n,{[#\t\0'])
            file.write_bytes(spoilt)
            try:
                read_captions(folder, skip_bad=True)
            except UserError as told:
                assert "\n" not in str(told)
            file.write_bytes(whole)


def test_flickr8k_that_is_not_here_says_what_to_put_where(tmp_path):
    with pytest.raises(UserError) as told:
        read_captions("flickr8k")
    where = tmp_path / "data" / "flickr8k"
    assert f"Flicker8k_Dataset and Flickr8k_text into {where}" in str(told.value)


def test_a_set_is_found_by_name(tmp_path):
    as_csv(tmp_path / "data" / "mine")
    assert read_captions("mine").name == "mine"


# What is kept, and what the check says beside faults


def test_long_doubled_and_broken_captions_are_kept_and_noted(tmp_path):
    path = table(
        "0.png," + "dog " * 1000 + ",", "1.png,a dog,", "1.png,a  dog,", '2.png,"a cat', 'sits",'
    )(tmp_path)
    captions = read_captions(path)
    texts = [text for split in SPLITS for text in captions[split].texts()]
    assert max(len(text.split()) for text in texts) == 1000
    assert texts.count("a dog") == 2 and "a cat sits" in texts
    report = check_captions(str(path), workers=1)
    assert report.problems == ()
    assert [note.partition(", ")[2] for note in report.notes[:3]] == [
        "line 4: a caption of 1000 words; kept",
        "line 6: 1.png has this caption already",
        "line 7: a caption over 2 lines; is a quotation mark without its partner?",
    ]
    assert "5 images have no caption, such as " in report.notes[3]


def test_many_notes_are_shortened(tmp_path):
    path = table(*["0.png,a dog,"] * 30)(tmp_path)
    notes = check_captions(str(path), workers=1).notes
    assert notes[EXAMPLES] == "and 9 more such notes"


def test_images_of_flickr8k_in_no_list_are_passed_over(tmp_path):
    path = flickr8k_with("Flickr8k.token.txt", "gone.jpg.1#0\tA dog .\n")(tmp_path)
    assert sum(len(read_captions(path)[split]) for split in SPLITS) == len(SAID)
    (note,) = check_captions(str(path), workers=1).notes
    assert "1 images are in none of the three lists, such as gone.jpg.1; not read" in note


def test_the_check_finds_the_same_image_in_two_splits_and_files_that_are_no_images(tmp_path):
    path = as_csv(tmp_path)
    (path / "5.png").write_bytes((path / "0.png").read_bytes())
    (path / "4.png").write_bytes((path / "5.png").read_bytes())
    (path / "1.png").write_bytes(b"hello " * 9)
    problems = check_captions(str(path), workers=1).problems
    assert len(problems) == 3
    assert "1.png is no image but text" in problems[0]
    assert problems[1].endswith("4.png are the same image, in train and in test")
    assert problems[2].endswith("5.png are the same image, in train and in test")


def test_the_statistics_by_hand(tmp_path):
    text = "image,caption,split\n" + "".join(
        f"{row}\n"
        for row in (
            "0.png,a dog runs,train",
            "0.png,A dog!,train",
            "1.png,a a a cat,train",
            "2.png,a zebra,validation",
            "3.png,dog dog,test",
        )
    )
    report = check_captions(str(photos(tmp_path / "s", text, 4)), workers=1)
    s = report.statistics
    assert (s.fewest, s.most) == (1, 2)
    assert (s.shortest, s.median, s.nearly_all, s.longest) == (3, 3, 4, 4)
    assert (s.words, s.distinct, s.frequent) == (10, 5, 1)
    assert s.covered == 5 / 10 and s.unseen == 1 / 4
    assert report.images == {"train": 2, "validation": 1, "test": 1}
    assert report.captions == {"train": 3, "validation": 1, "test": 1}
    assert list(report.sentences()) == [
        "s: 4 images with 5 captions (2 train, 1 validation, 1 test)",
        "to train on: 1 to 2 captions an image; 3 to 4 words a caption, half have at most 3, "
        "95 % at most 4",
        "10 words, 5 different; the 1 that occur 5 times or more make up 50.0%",
        "25.0% of the words held out do not occur in training",
    ]


# At one size


def test_images_are_decoded_at_one_size_and_bad_ones_left_out_with_their_captions(tmp_path):
    captions = read_captions(as_csv(tmp_path))
    (tmp_path / "0.png").write_bytes(b"no image")
    with expect_error(DataIssue, kind="image", file="0.png"):
        captions_at_size(captions, 8)
    for _ in ("made", "from the cache"):
        ready = captions_at_size(captions, 8, skip_bad=True)
        assert ready.train.images.take([0, 1]).shape == (2, 3, 8, 8)
        assert ready.train.captions == (tuple(SAID["1.png"][1]), tuple(SAID["2.png"][1]))
        assert len(ready.skipped) == 1 and len(ready.test) == 2
    again = captions_at_size(ready, 6, 1)
    assert again.test.images.take([1]).shape == (1, 1, 6, 6)
    assert again.digest == ready.digest != captions.digest
    for name in ("1.png", "2.png"):
        (tmp_path / name).write_bytes(b"no image either")
    with expect_error(DataIssue, kind="empty"):
        captions_at_size(captions, 8, skip_bad=True)


def test_captions_and_images_must_agree():
    images = ArrayImages(np.zeros((2, 1, 4, 4), np.uint8))
    with expect_error(ValueError):
        CaptionSplit(images, (("a",),))
    with expect_error(ValueError):
        CaptionSplit(images, (("a",), ()))
    split = CaptionSplit(images, (("a",), ("b",)))
    assert split.only(np.array([1])).captions == (("b",),)
    with expect_error(ValueError):
        CaptionSet("x", split, split, split)["tset"]


def test_reading_captions_needs_no_torch(tmp_path):
    as_csv(tmp_path)
    code = (
        "import sys; from regard.data.captions import read_captions;"
        "import regard.data.caption_check; read_captions(sys.argv[1]).digest;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run((sys.executable, "-c", code, tmp_path)).returncode == 0


@pytest.mark.data("flickr8k")
def test_the_real_flickr8k():
    captions = read_captions("flickr8k")
    assert captions.name == "flickr8k" and captions.skipped == ()
    assert [len(captions[split]) for split in SPLITS] == [6000, 1000, 1000]
    assert {len(texts) for split in SPLITS for texts in captions[split].captions} == {5}
    assert captions.train.captions[0][1] == "A girl going into a wooden building ."
    few = CaptionSet(
        "few", *(captions[split].only(np.arange(3)) for split in SPLITS), source=captions.source
    )
    assert captions_at_size(few, 32).train.images.take([0, 2]).shape == (2, 3, 32, 32)
    assert os.path.commonpath(captions.train.images.paths).endswith("Flicker8k_Dataset")
