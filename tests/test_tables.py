"""Tables are read as streams, decided by their beginning; every fault has its line."""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import expect_error
from official import write_idx
from regard.data import packed, stored_texts, tables
from regard.data.check import check
from regard.data.cifar import read_cifar
from regard.data.label_files import read_labels, read_texts
from regard.data.labelled import Labelled, read_labelled
from regard.data.listing import in_order, list_images
from regard.data.registry import read_images
from regard.data.stored_texts import NumberWriter, StoredTexts, TextWriter, marks_of, sample
from regard.data.tables import Row, rows_of
from regard.data.text_check import TextReport, check_labels
from regard.errors import DataIssue, UserError

ROWS = [(f"Film {n}, seen; twice.", ("good", "bad")[n % 2]) for n in range(40)]


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def said(name, **options) -> str:
    with pytest.raises(UserError) as caught:
        read_labelled(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def everything(path: Path, **options) -> list[tuple[str, str]]:
    texts = read_labelled(path, **options)
    return sorted(
        (text, texts.classes[label])
        for part in texts.parts.values()
        for text, label in zip(part.texts, part.labels, strict=True)
    )


def as_json(rows, **more) -> str:
    return "".join(
        json.dumps({"text": text, "label": label, **more}) + "\n" for text, label in rows
    )


# Signs, names and line ends


@pytest.mark.parametrize("head", ["text|label\n", "Comment | stars\n", ""])
def test_a_table_may_have_bars_between_its_columns(tmp_path, head):
    rows = [(f"Film {n}" + ", seen" * (n % 3), label) for n, (_, label) in enumerate(ROWS)]
    text = head + "".join(f"{text} | {label}\n" for text, label in rows)
    options = {"label": "stars"} if "stars" in head else {}
    assert everything(write(tmp_path / "own.csv", text), **options) == sorted(rows)


@pytest.mark.parametrize("head", ["text,label\n", ""])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_labels_may_be_0_and_1_with_names_above_or_without(tmp_path, head, ending):
    rows = [("a fine film", "1"), ("a dull film", "0"), ("so so", "0"), ("fine", "1")]
    sign = "," if ending == "csv" else "\t"
    text = head + "".join(f"{text},{label}\n" for text, label in rows)
    path = write(tmp_path / f"own.{ending}", text.replace(",", sign))
    texts = read_labelled(path)
    assert texts.classes == ("0", "1") and everything(path) == sorted(rows)
    report = check(str(path))
    assert isinstance(report, TextReport) and report.facts == (
        "own." + ending + ": 4 texts, 2 classes (0 2, 1 2)",
    )


def test_a_first_row_that_names_nothing_is_told_what_to_do(tmp_path):
    path = write(tmp_path / "own.csv", "one,two,three\n" + "a,b,c\n" * 9)
    with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
        read_labelled(path)


@pytest.mark.parametrize("ends", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("name", ["own.csv", "own.tsv", "own.jsonl"])
def test_lines_end_in_three_ways(tmp_path, ends, name):
    sign = "\t" if name == "own.tsv" else "|"
    rows = "text,label\n".replace(",", sign) + "".join(f"{a}{sign}{b}\n" for a, b in ROWS)
    text = as_json(ROWS) if name == "own.jsonl" else rows
    path = write(tmp_path / name, "\ufeff" + text.replace("\n", ends))
    assert everything(path) == sorted(ROWS)
    assert [*read_labels(path).lines] == [*range(1, 41)] if "json" in name else [*range(2, 42)]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_a_return_in_the_first_line_is_no_traceback(tmp_path, ending):
    path = write(tmp_path / f"own.{ending}", "te\rxt,label\na,b\nc,d\n")
    with expect_error(DataIssue, kind="column", line=1):
        read_labelled(path)
    sign = "," if ending == "csv" else "\t"
    text = f"text{sign}label\ra{sign}x\rb{sign}x\rc{sign}y\nd{sign}y\n"
    if ending == "csv":  # in a tsv a line ends with a line feed, where there are any
        path = write(tmp_path / f"own.{ending}", text)
        assert everything(path) == [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")]


def test_a_bad_row_behind_the_first_megabyte_is_named_by_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "HEAD", 64)
    lines = ["text\tlabel", *("\t".join(row) for row in ROWS), '"open\tgood', "a\tb\tc"]
    path = write(tmp_path / "own.tsv", "\n".join(lines))
    with expect_error(DataIssue, kind="columns", line=43, file="own.tsv"):
        read_labelled(path)
    assert ('"open', "good") in everything(path, skip_bad=True)


@given(st.binary(max_size=200), st.sampled_from(["csv", "tsv", "jsonl", "csv.gz"]))
def test_whatever_bytes_a_table_has_there_are_rows_or_a_sentence(tmp_path_factory, data, ending):
    path = write(tmp_path_factory.mktemp("own") / f"own.{ending}", data)
    for read in (rows_of, read_texts):
        try:
            for row in read(path):
                assert row.line >= 1
        except UserError as trouble:
            assert str(path) in str(trouble)
    for skip_bad in (False, True):
        try:
            read_labelled(path, skip_bad=skip_bad)
        except UserError as trouble:
            assert str(path) in str(trouble)


# JSON lines


def test_json_lines_are_a_table_of_their_keys(tmp_path):
    rows = [(f"Film {n}\nand more", n % 2) for n in range(20)]
    path = write(tmp_path / "own.jsonl.gz", as_json(rows, id=7))
    assert everything(path) == sorted((text, str(label)) for text, label in rows)
    lines = [json.dumps({"words": text, "stars": label > 0}) for text, label in rows]
    path = write(tmp_path / "own.jsonl", "\n".join(lines))
    texts = read_labelled(path, text="words", label="Stars")
    assert texts.classes == ("false", "true")
    assert [row.text for row in read_texts(path, "words")] == [text for text, _ in rows]
    write(tmp_path / "both" / "train.jsonl", as_json(rows))
    write(tmp_path / "both" / "test.csv", "text,label\nmore,1\n")
    assert len(read_labelled(tmp_path / "both")["test"]) == 1


BAD = {
    '{"text": "a"': "json",
    "[1]": "type",
    '{"text": "a", "label": null}': "label",
    '{"label": "x"}': "empty",
    '{"text": ["a"], "label": "x"}': "type",
    '{"text": "\\ud800", "label": "x"}': "encoding",
    '{"text": "a", "label": NaN}': "label",
    '{"text": "a", "label": ' + "7" * 5_000 + "}": "label",
    "[" * 100_000: "json",
}


@pytest.mark.parametrize(("line", "kind"), BAD.items(), ids=[line[:30] for line in BAD])
def test_a_bad_object_is_named_by_its_line_or_left_out(tmp_path, line, kind):
    path = write(tmp_path / "own.jsonl", as_json(ROWS[:2]) + line + "\n" + as_json(ROWS[2:]))
    pythons = r"is no JSON \(.*\)"  # whose own words differ between versions
    with expect_error(DataIssue, kind=kind, line=3, file="own.jsonl", vary=pythons) as told:
        read_labelled(path)
    (fault,) = read_labelled(path, skip_bad=True).skipped
    assert (fault, fault.kind, fault.line) == (str(told.value), kind, 3)
    assert everything(path, skip_bad=True) == sorted(ROWS)


def test_rows_to_ask_about_come_one_by_one_with_their_faults(tmp_path):
    path = write(tmp_path / "own.csv", b"id,text\n1,a\n2\n3,\n4,d\xfcd\n5,e\n")
    rows = read_texts(path)
    assert next(rows) == (2, "a", "", "")
    assert [*rows] == [
        (3, "", "", "has 1 column, but the first line has 2"),
        (4, "", "", ""),
        (5, "", "", "is not UTF-8: a byte 0xfc there belongs to no character"),
        (6, "e", "", ""),
    ]
    with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
        next(read_texts(write(tmp_path / "own.csv", "words,more\na,b\n")))


# Which part a row belongs to


SPLITS = ("train", "Train", "validation", "VAL", "dev", "test", "")


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_column_says_which_part_a_row_belongs_to(tmp_path, ending):
    rows = [(f"text {n}", "xy"[n % 2], SPLITS[n % 7]) for n in range(70)]
    lines = ["text,label,Split", *map(",".join, rows)]
    objects = [json.dumps(dict(zip(("text", "label", "split"), row, strict=True))) for row in rows]
    path = write(tmp_path / f"own.{ending}", "\n".join(lines if ending == "csv" else objects))
    texts = read_labelled(path)
    assert {part: len(some) for part, some in texts.parts.items()} == {
        "train": 30,
        "validation": 30,
        "test": 10,
    }
    assert texts["test"].texts == tuple(text for text, _, split in rows if split == "test")
    assert check_labels(str(path)).facts[1] == (
        "as its column split says: 30 train, 30 validation, 10 test"
    )


def test_without_validation_in_the_column_it_is_held_out_of_training(tmp_path):
    rows = [f"text {n},{'xy'[n % 2]},{'test' if n < 10 else 'train'}" for n in range(50)]
    texts = read_labelled(write(tmp_path / "own.csv", "text,label,split\n" + "\n".join(rows)))
    assert [len(part) for part in texts.parts.values()] == [36, 4, 10]
    assert texts.counts("validation") == (2, 2)


def test_a_part_that_nobody_knows_or_no_training_is_refused(tmp_path):
    good = "".join(f"{text.replace(',', '')},{label},train\n" for text, label in ROWS)
    path = write(tmp_path / "own.csv", "text,label,split\n" + good + "a,good,held\n")
    with expect_error(DataIssue, kind="split", line=42, file="own.csv"):
        read_labelled(path)
    path = write(tmp_path / "own.csv", "text,label,split\n" + good.replace("train", "test"))
    with expect_error(DataIssue, kind="split", file="own.csv"):
        read_labelled(path)
    assert len(read_labelled(path, learning=False)["test"]) == 40


def test_a_column_must_not_contradict_the_name_of_its_file(tmp_path):
    head, rows = "text,label,split\n", [f"text {n},{'xy'[n % 2]}" for n in range(20)]
    folder = tmp_path / "own"
    path = write(folder / "train.csv", head + "".join(f"{row},train\n" for row in rows))
    write(folder / "test.csv", head + "a,x,test\n")
    assert len(read_labelled(folder)["test"]) == 1
    write(
        path,
        head + "".join(f"{row},{'test' if n == 7 else 'train'}\n" for n, row in enumerate(rows)),
    )
    with expect_error(DataIssue, kind="split", line=9, file="train.csv"):
        read_labelled(folder)


def test_a_column_of_that_name_may_hold_the_labels(tmp_path):
    path = write(tmp_path / "own.csv", "text,split\n" + "".join(f"{n},{n % 2}\n" for n in range(9)))
    assert read_labelled(path, label="split").classes == ("0", "1")


# Labels


@pytest.mark.parametrize("missing", ["nan", "NaN", "NULL", "<NA>", " "])
def test_what_stands_for_no_label_is_no_class(tmp_path, missing):
    rows = "".join(f"text {n},{'xy'[n % 2]}\n" for n in range(20))
    path = write(tmp_path / "own.csv", f"text,label\n{rows}a,{missing}\n")
    with expect_error(DataIssue, kind="label", line=22, file="own.csv"):
        read_labelled(path)
    assert read_labelled(path, skip_bad=True).classes == ("x", "y")
    (tmp_path / "a.png").write_bytes(b"")
    table = write(tmp_path / "images.csv", f"path,label\na.png,{missing}\n")
    assert list_images(table).problems[0] == f"{table}, line 2: no label"


def test_none_and_na_may_be_classes(tmp_path):
    rows = "".join(f"text {n},{('None', 'NA')[n % 2]}\n" for n in range(20))
    assert read_labelled(write(tmp_path / "own.csv", "text,label\n" + rows)).classes == (
        "NA",
        "None",
    )


def test_classes_of_thousands_of_digits_are_put_in_order_as_words():
    long = "7" * 5_000
    assert in_order({"10", "9", long}) == ("10", long, "9") and in_order({"10", "9"}) == ("9", "10")


# What is packed


def bomb(path: Path, unit: bytes, times: int) -> Path:
    with gzip.open(path, "wb", 9) as file:
        for _ in range(times):
            file.write(unit)
    return path


def test_what_unpacks_to_far_more_than_text_is_refused_on_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "FREE", 2**22)
    path = bomb(tmp_path / "own.csv.gz", b"a" * 2**20, 40)
    words = "MB from 12 kB, more than 100 times as much: if that is right, unpack it yourself"
    assert words in said(path) and "has unpacked to 5 " in said(path)
    with expect_error(DataIssue, kind="bomb", file="own.csv.gz"):
        next(read_texts(path))
    from regard.data.corpus import read_corpus
    from regard.data.pairs import read_pairs

    with expect_error(DataIssue, kind="bomb", file="own.txt.gz"):
        read_corpus(path.rename(tmp_path / "own.txt.gz"))
    with expect_error(DataIssue, kind="bomb", file="own.tsv.gz"):
        read_pairs(bomb(tmp_path / "own.tsv.gz", (b"a" * 1000 + b"\tb\n") * 1000, 40))


def test_images_that_unpack_to_far_more_are_refused_too(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "FREE", 2**18)
    folder = tmp_path / "mnist"
    write_idx(folder, packed=False)
    head = np.array([2051, 6_000, 28, 28], ">u4").tobytes()
    (folder / "train-images-idx3-ubyte").unlink()
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(head + bytes(6_000 * 784)))
    with expect_error(DataIssue, kind="bomb", file="train-images-idx3-ubyte.gz"):
        read_images(str(folder))
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("data_batch_1.bin")
        member.size = 2**23
        tar.addfile(member, io.BytesIO(bytes(2**23)))
    with expect_error(DataIssue, kind="bomb", file="cifar-10-binary.tar.gz"):
        read_cifar(tmp_path / "cifar-10-binary.tar.gz")


def test_text_that_repeats_itself_is_unpacked_as_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "FREE", 2**16)
    rows = "".join(f'"a film of the kind that we know, number {n}",good\n' for n in range(9_000))
    data = ("text,label\n" + rows + "another,bad\nand one more,bad\n").encode()
    path = write(tmp_path / "own.csv.gz", data)
    assert 5 < len(data) / path.stat().st_size < packed.RATIO
    assert sum(map(len, read_labelled(path).parts.values())) == 9_002


def test_a_packed_file_is_read_at_any_place(tmp_path):
    data = os.urandom(3_000_000)
    with write(tmp_path / "a.gz", data).open("rb") as plain:
        file = packed.unpacked(plain, tmp_path / "a.gz")
        assert file.seek(0, os.SEEK_END) == len(data)
        for at in (2_999_990, 17, 1_500_000):
            assert file.seek(at) == at and file.read(5) == data[at : at + 5]
        assert file.seek(-3, os.SEEK_CUR) and file.read(3) == data[at + 2 : at + 5]


# Many texts


def test_texts_in_a_file_are_those_in_memory(tmp_path, monkeypatch):
    texts = [f"text {n} " + "é" * (n % 97) for n in range(5_000)] + ["x" * 300_000, "", "end"]
    kept = TextWriter()
    for text in texts:
        kept.add(text)
    assert kept.done() == tuple(texts)
    monkeypatch.setattr(stored_texts, "IN_MEMORY", 1_000)
    kept = TextWriter()
    for text in texts:
        kept.add(text)
    stored = kept.done()
    assert isinstance(stored, StoredTexts) and len(stored) == len(texts)
    assert [*stored] == texts and [*stored[5:9]] == texts[5:9]
    rows = np.array([4_999, 0, 5_001, 77, 5_000])
    assert [*stored.only(rows)] == [texts[row] for row in rows] and stored[-1] == "end"
    assert (marks_of(stored, len(texts)) == marks_of(texts, len(texts))).all()
    assert not [*(tmp_path / "cache").rglob("*.*")]  # the file has no name
    few = sample(stored, 10_000)
    assert few is not None and sum(len(texts[row].encode()) for row in few) <= 10_000
    assert sample(texts, 10**7) is None


def test_numbers_in_a_file_are_those_in_memory(monkeypatch):
    given = [list(range(n, n + n % 50)) for n in range(2_000)]
    flat = [number for some in given for number in some]
    for limit in (2**25, 64):
        monkeypatch.setattr(stored_texts, "IN_MEMORY", limit)
        kept = NumberWriter()
        for some in given:
            kept.add(some)
        assert kept.done().tolist() == flat and kept.count == len(flat)


def test_a_set_is_the_same_from_a_file_as_from_memory(tmp_path, monkeypatch):
    rows = [(f"premise {n // 3}", f"text {n % 90}", "xyz"[n % 3]) for n in range(300)]
    text = "text,two,label\n" + "".join(",".join(row) + "\n" for row in rows)
    path = write(tmp_path / "own.csv", text)
    for pair in ("", "two"):
        monkeypatch.setattr(stored_texts, "IN_MEMORY", 2**25)
        one, report = read_labelled(path, pair=pair), check_labels(str(path), pair=pair)
        monkeypatch.setattr(stored_texts, "IN_MEMORY", 500)
        other = read_labelled(path, pair=pair)
        assert isinstance(other["train"].texts, StoredTexts) and one.digest == other.digest
        assert one["validation"].whole() == other["validation"].whole()
        assert one.shared("validation") == other.shared("validation")
        assert check_labels(str(path), pair=pair) == report


def test_texts_are_known_again_by_their_hashes():
    train = Labelled(("a", "b", "c"), (0, 1, 0))
    assert train.marks.tolist() == sorted(train.marks, key=[*train.marks].index)
    assert np.isin(Labelled(("c", "d"), (0, 0)).marks, train.marks).tolist() == [True, False]
    pairs = Labelled(("a", "ab"), (0, 0), ("bc", "c"))
    assert pairs.marks[0] != pairs.marks[1]


MEASURED = """
import resource, sys
from regard.data.check import check
from regard.tasks.classify_text.config import ClassifyTextConfig
from regard.tasks.classify_text.data import read
if sys.argv[1] == "check":
    assert not check(sys.argv[2]).problems
else:
    data = read(ClassifyTextConfig(data=sys.argv[2]))
    assert len(data.train.labels) + len(data.validation.labels) > 5
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux tells it")
def test_a_large_table_takes_little_more_memory_than_a_small_one(tmp_path):
    def peak(what: str, rows: int) -> int:
        body = "word " * 2_000
        text = (f"{n} {body},{'xy'[n % 2]}\n" for n in range(rows))
        path = tmp_path / f"{rows}.csv"
        path.write_text("text,label\n" + "".join(text))
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, what, str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
        return int(done.stdout.split()[-1])

    # Before, 40 MB of texts took 180 MB more than 20 rows.
    assert peak("check", 4_000) - peak("check", 20) < 40


def test_a_row_is_a_line_its_cells_and_perhaps_a_fault():
    assert Row(3, ["a", "b"]).fault == ""


def test_an_error_about_what_cannot_be_printed_can_be():
    assert str(UserError("no '\ud800' here")) == "no '\\ud800' here"
    str(UserError("é \ud83d")).encode()


@given(
    st.lists(st.binary(max_size=9).map(lambda some: some.replace(b"\0", b"a")), max_size=9),
    st.integers(1, 7),
)
def test_lines_are_those_of_split_wherever_blocks_end(pieces, size):
    data = b"\n".join(pieces)
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    found = [*tables.byte_lines(blocks, Path("own.csv"), b"\n")]
    whole = data.removesuffix(b"\n").split(b"\n") if data else []
    assert found == [(n, line.removesuffix(b"\r")) for n, line in enumerate(whole, start=1)]
