"""What a run is asked about: a value is what it is, and what is none is told apart by its place."""

import csv
import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from golden import expect_error
from regard.errors import UserError
from regard.tasks.csv_file import csv_file, harmless
from regard.tasks.image_data import ImageMetadata
from regard.tasks.image_inputs import parse_images
from regard.tasks.inputs import (
    NoItem,
    OwnSplit,
    Rows,
    TextFile,
    Unreadable,
    few_enough,
    left_out,
    own_rows,
    readable,
)
from regard.tasks.text_files import Columns
from regard.tasks.text_inputs import LONGEST_TEXT, PLAIN, TextReader, parse_texts

GREY = ImageMetadata(
    data="x", digest="", size=6, channels=1, mean=(0.0,), deviation=(1.0,), images=(1, 0, 0)
)


@dataclass(frozen=True)
class Item:
    name: str
    text: str
    second: str | None = None


def item(name: str, text: str, second: str | None) -> Item:
    if "bad" in text:
        raise NoItem("is bad")
    return Item(name, text, second)


def open_split(split: str) -> OwnSplit[Item]:
    if split != "test":
        raise UserError(f"no split {split!r}")
    return OwnSplit("own", "texts", 3, lambda row: item(f"own test:{row}", f"row {row}", None))


def parsed(*inputs, pairs=False, columns=PLAIN):
    reader = TextReader(Item, item, open_split, pairs=pairs, columns=columns)
    return [*parse_texts(inputs, reader)]


def texts(*inputs, **options):
    return [each.text for each in readable(parsed(*inputs, **options))]


class Column:
    """As pandas has one: values in order, and no list."""

    def __init__(self, *values):
        self.values = values

    def __iter__(self):
        return iter(self.values)


class Table:
    """As pandas has one, which gives the names of its columns when it is iterated."""

    columns = ("a", "b")

    def __iter__(self):
        return iter(self.columns)

    def __getitem__(self, name):
        return Column(name)


# Texts


def called(value):
    """What a case is called: the same in every process, which the address of an object is not."""
    return value[:40] if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b"],
        ("a", "b"),
        (each for each in "ab"),
        {"a": 1, "b": 2}.keys(),
        np.array(["a", "b"]),
        np.array(["a", "b"], object),
        Column("a", "b"),
        [Item("x", "a"), "b"],
        io.StringIO("a\nb\n"),
        io.BytesIO(b"\xef\xbb\xbfa\r\nb"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_value_of_an_iterable_is_a_text(values):
    assert texts(values) == ["a", "b"]


def test_several_arguments_are_as_good_as_one_list():
    assert texts("a", "b") == texts(["a"], "b") == texts(["a", "b"]) == ["a", "b"]
    assert texts() == texts([]) == [] and texts("a\nb") == ["a\nb"]


@pytest.mark.parametrize("text", ["-", "test:0", "/etc/hostname", "x.csv", "", __file__])
def test_a_str_is_a_text_and_nothing_else(text):
    assert parsed(text) == [Item(text or "inputs[0]", text)]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "inputs[0] is None, and no text"),
        (42, "inputs[0] is 42 (int), and no text"),
        (["a", None], "inputs[1] is None, and no text"),
        (Column("a", float("nan")), "inputs[1] is nan (float), and no text"),
        (np.array([0.5]), "inputs[0] is np.float64(0.5) (float64), and no text"),
        ({"text": "a"}, "inputs[0] is a dict, which is not read: give its texts as a list"),
        ({"a", "b"}, "inputs[0] is a set, which has no order to tell answers apart by"),
        (Table(), "inputs[0] is a Table, which has several columns: give one of them"),
        ([["a", "b"]], "inputs[0] is a list within another: give one list of texts"),
        (b"a", "inputs[0] is bytes, and no text: decode them first"),
        ("a \ud800", "inputs[0] has half a character at 2, '\\ud800', which is no Unicode"),
        ("a" * (LONGEST_TEXT + 1), "inputs[0] has 1,000,001 characters, and at most 1,000,000 are"),
        (["a", "bad"], "inputs[1] is bad"),
        (Rows("test", (0, 3)), "index 3 of test is not there: test of own has the texts 0 to 2"),
        (Path("/nowhere.txt"), "/nowhere.txt cannot be read: No such file or directory"),
        (Path("/"), "/ is a folder: name the files in it"),
    ],
    ids=called,
)
def test_what_is_no_text_says_where_it_stands(value, words):
    (wrong,) = [each for each in parsed(value) if isinstance(each, Unreadable)]
    assert str(wrong).startswith(words)
    with pytest.raises(UserError) as raised:
        texts(value)
    assert str(raised.value) == str(wrong)


def test_a_tuple_of_two_is_a_pair_where_pairs_are_read():
    one, other = Item("a\tb", "a", "b"), Item("c\td", "c", "d")
    assert parsed(("a", "b"), pairs=True) == [one] == parsed([("a", "b")], pairs=True)
    assert parsed([("a", "b"), ["c", "d"]], pairs=True) == [one, other]
    assert texts(("a", "b")) == ["a", "b"]
    with expect_error(UserError):
        texts([("a", "b")])


def test_items_of_the_data_are_named_by_split_and_index():
    assert texts(*own_rows("test", [2, 0])) == ["row 2", "row 0"]
    assert texts(*own_rows("test", np.int64(1))) == ["row 1"] and own_rows(None, None) == ()
    assert texts("a", *own_rows("test", None)) == ["a", "row 0", "row 1", "row 2"]
    with expect_error(UserError):
        own_rows(None, [0])
    for wrong in ("0", [0.5], ["0"]):
        with expect_error(UserError):
            own_rows("test", wrong)
    assert isinstance(parsed(*own_rows("test", [True]))[0], Unreadable)
    assert isinstance(parsed(*own_rows("test", [-1]))[0], Unreadable)
    with pytest.raises(UserError, match="no split 'tset'"):
        parsed(*own_rows("tset", [0]))


def test_what_is_left_out_is_counted_and_a_look_holds_so_many():
    with pytest.warns(UserWarning, match=r"left out: 2, the first as inputs\[1\] is None"):
        assert [each.text for each in left_out(parsed("a", None, 3))] == ["a"]
    assert few_enough(range(256)) == [*range(256)]
    with expect_error(UserError):
        few_enough(range(257))


# Files of texts


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("a.txt", "one\n\ntwo", ""),
        ("a.txt.gz", "one\n\ntwo\n", ""),
        ("noend", "one\r\n\r\ntwo", ""),
        ("a.csv", "text,label\none,1\n,2\ntwo,3\n", ""),
        ("a.csv.gz", "body;n\none;1\n;2\ntwo;3\n", "Body"),
        ("a.tsv", "review\tn\none\t1\n\t2\ntwo\t3\n", ""),
        ("a.jsonl", '{"text": "one", "n": 1}\n\n{"text": "two"}\n', ""),
        ("a.jsonl.gz", '{"body": "one", "text": 3}\n{"body": ""}\n{"body": "two"}', "body"),
        ("b.jsonl", '"one"\n""\n"two"', ""),
    ],
)
def test_a_file_has_a_text_in_each_line_row_or_object(tmp_path, name, content, column):
    path = tmp_path / name
    data = content.encode()
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert texts(TextFile(path, column)) == ["one", "", "two"]
    assert parsed(TextFile(path, column))[0].name.startswith(f"{path}, line ")


def test_the_column_of_the_run_comes_before_the_usual_ones(tmp_path):
    for name, content in (
        ("a.csv", "text,mine\nx,one\n"),
        ("a.jsonl", '{"text":"x","mine":"one"}'),
    ):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        assert texts(path, columns=Columns("mine")) == ["one"]
        assert texts(TextFile(path, "text"), columns=Columns("mine")) == ["x"]
        ours = parsed(path, columns=Columns("text", "mine"), pairs=True)
        assert ours == [Item(ours[0].name, "x", "one")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.txt", b"a\nb\xff\nc", ["line 2 is not UTF-8: a byte 0xff there"]),
        ("a.txt", b"a\n\0\nc", ["line 2 has a NUL byte"]),
        ("a.txt", b"a\n" + b"x" * (1 << 23) + b"\nc", ["line 2 has more than 4,194,304 bytes"]),
        ("a.csv", b"text,n\na,1\nb\nc,3\n", ["line 3 has 1 column, but the first line has 2"]),
        (
            "a.jsonl",
            b'"a"\n{"id": 3}\n{"text": 3}\n[1]\n{\n' + b"[" * 9999 + b'\n"c"',
            [
                "has no 'text'; there are id",
                "has 3 under 'text'",
                "is no object",
                *["not JSON"] * 2,
            ],
        ),
    ],
)
def test_a_line_that_is_no_text_leaves_the_others_their_answers(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    first, *wrong, last = parsed(path)
    assert (first.text, last.text) == ("a", "c") and len(wrong) == len(words)
    for each, said in zip(wrong, words, strict=True):
        assert str(path) in str(each) and said in str(each), each


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("a.txt", "", ""),
        ("a.json", "[]", ""),
        ("a.txt", "a", "text"),
        ("a.csv", "text,body\na,b\n", "bodi"),
        ("a.jsonl", '{"text": "a"}', "txt"),
        ("a.csv", "a,b,c\n1,2,3\n", ""),
    ],
)
def test_a_file_without_texts_is_a_sentence(tmp_path, name, content, column):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with expect_error(UserError):
        texts(TextFile(path, column))


def test_a_file_is_read_as_its_texts_are_taken(tmp_path):
    path = tmp_path / "large.jsonl"
    path.write_text('{"text": "a"}\n' * 1000 + "not json\n", encoding="utf-8")
    reader = TextReader(Item, item, open_split)
    some = parse_texts([path], reader)
    assert next(some).text == "a"
    path.write_text("", encoding="utf-8")  # what is not read yet is not there any more
    assert len([*some]) < 1000


# Images


def images(*inputs, facts=GREY, classes=()):
    return [*parse_images(inputs, facts, open_split, classes)]


def pixels_of(*inputs):
    return np.stack([each.pixels for each in readable(images(*inputs))])


def test_a_batch_in_any_shape_is_its_images(tmp_path):
    grey = np.random.default_rng(0).integers(0, 256, (5, 6, 6), np.uint8)
    right = grey[:, None]
    Image.fromarray(grey[0]).save(tmp_path / "0.png")
    data = (tmp_path / "0.png").read_bytes()
    for batch in (
        *(grey, right, grey[..., None], right / 255.0, torch.from_numpy(right) / 255),
        *([*grey], [*right], (each for each in grey), [Image.fromarray(each) for each in grey]),
    ):
        np.testing.assert_array_equal(pixels_of(batch), right)
    with (tmp_path / "0.png").open("rb") as file:
        one = (data, bytearray(data), io.BytesIO(data), file, str(tmp_path / "0.png"), tmp_path)
        np.testing.assert_array_equal(pixels_of(*one), np.repeat(right[:1], 6, 0))
    half = torch.from_numpy(right[:1]).bfloat16() / 255
    assert np.abs(pixels_of(half).astype(int) - right[:1]).max() <= 1
    np.testing.assert_array_equal(pixels_of(grey[:4]), right[:4])  # four grey ones
    assert len(pixels_of(grey[:3])) == len(pixels_of(np.moveaxis(grey[:3], 0, -1))) == 1  # colours
    white = np.full((2, 4, 6, 6), 255, np.uint8)
    assert len(images(white)) == 1 and len(pixels_of(white.transpose(0, 2, 3, 1))) == 2


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "inputs[0] is None, and no image"),
        ([np.zeros((2, 2), np.uint8), 3], "inputs[1] is 3 (int), and no image"),
        ([[np.zeros((2, 2), np.uint8)]], "inputs[0] is a list within another"),
        (np.zeros(3), "inputs[0] has the shape (3,), which is no image"),
        (
            np.zeros((2, 2), np.int64),
            "inputs[0] holds int64: an image is uint8, or floats in 0 … 1",
        ),
        (np.stack([np.zeros((2, 2)), np.full((2, 2), 9)]), "inputs[0][1] has floats outside 0 … 1"),
        (b"", "inputs[0] is empty"),
        (b"<svg>", "inputs[0] is no image but a page or drawing in text"),
        (io.StringIO("a"), "inputs[0] was opened as text"),
        (
            "test:3",
            "test:3 cannot be read: No such file or directory; an image of the data is --spl",
        ),
        ("-", "- cannot be read: No such file"),
        (Path("/nowhere/x.png"), "/nowhere/x.png cannot be read"),
    ],
    ids=called,
)
def test_what_is_no_image_says_where_it_stands(value, words):
    (wrong,) = [each for each in images(value) if isinstance(each, Unreadable)]
    assert str(wrong).startswith(words)


def test_a_folder_with_sub_folders_is_read_as_training_reads_it(tmp_path):
    for name in ("cat/deep/1.png", "dog/2.png", "junk/3.png", "0.png", ".hidden/4.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (6, 6)).save(tmp_path / name)
    (tmp_path / "dog" / "bad.png").write_text("no image", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no image", encoding="utf-8")
    found = images(tmp_path, classes=("cat", "dog"))
    told = [
        (Path(each.name).name, each.truth) for each in found if not isinstance(each, Unreadable)
    ]
    assert told == [("0.png", None), ("1.png", "cat"), ("2.png", "dog"), ("3.png", None)]
    (wrong,) = [each for each in found if isinstance(each, Unreadable)]
    assert wrong.place == str(tmp_path / "dog" / "bad.png")
    (tmp_path / "empty").mkdir()
    with expect_error(UserError):
        pixels_of(tmp_path / "empty")


# Tables of answers


def test_a_table_of_answers_is_whole_or_not_there(tmp_path):
    path = tmp_path / "answers.csv"
    with csv_file(path) as add:
        add({"input": "a", "answer": "=SUM(A1)", "score": -1.5})
        add({"input": "b", "error": "is bad"})
        add({"input": 'c, "d"\ne', "answer": "fine", "truth": "+1"})
        assert not path.exists()
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [*rows[0]] == ["input", "answer", "score", "truth", "error"]
    assert rows[0]["answer"] == "'=SUM(A1)" and rows[0]["score"] == "-1.5"
    assert rows[1]["error"] == "is bad" and rows[2]["input"] == 'c, "d"\ne'
    assert rows[2]["truth"] == "'+1" and harmless("fine") == "fine" and harmless(-1) == -1
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="stop"), csv_file(path) as add:
        add(json.loads('{"input": "x"}'))
        raise RuntimeError("stop")
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]
    with (
        expect_error(UserError),
        csv_file(tmp_path / "nowhere" / "a"),
    ):
        pass
