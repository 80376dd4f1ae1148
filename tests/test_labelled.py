"""Every labelled text is in one part with its own label, or a sentence says why it is in none."""

import csv
import gzip
import hashlib
import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight

from golden import expect_error
from regard.data import tables
from regard.data.held_texts import a_tenth, phrases, with_phrases
from regard.data.label_files import read_labels, read_texts
from regard.data.labelled import (
    LABELLED,
    Labelled,
    LabelledSet,
    find_labelled,
    read_labelled,
)
from regard.errors import DataIssue, UserError

ROWS = [(f"Film {n}, seen; twice.", ("good", "bad", "so-so")[n % 3]) for n in range(42)]


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def table(rows, *, head=("text", "label"), sign=",", ends="\n") -> str:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=sign, lineterminator=ends)
    writer.writerows([*([head] if head else []), *rows])
    return file.getvalue()


def rows_of(texts: LabelledSet, part: str) -> list[tuple[str, str]]:
    rows = texts[part]
    return [(text, texts.classes[n]) for text, n in zip(rows.texts, rows.labels, strict=True)]


def everything(texts: LabelledSet) -> list[tuple[str, str]]:
    return sorted(row for part in texts.parts for row in rows_of(texts, part))


# Tables of one's own


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        *(("a.csv", ","), ("a.csv", ";"), ("a.csv", "\t"), ("a.tsv", "\t")),
        *(("a.csv.gz", ","), ("a.tsv.gz", "\t"), ("A.CSV", ",")),
    ],
)
def test_a_table_has_a_text_and_a_label_in_each_row(tmp_path, name, sign):
    texts = read_labelled(write(tmp_path / name, table(ROWS, sign=sign)))
    assert everything(texts) == sorted(ROWS) and texts.classes == ("bad", "good", "so-so")
    assert [len(part) for part in texts.parts.values()] == [38, 4, 0]
    assert list(texts.parts) == ["train", "validation", "test"]
    assert texts.name == name and texts.origin == str(tmp_path / name)
    assert texts.licence == "your own" and not texts.skipped


@pytest.mark.parametrize("text", ["text", "Sentence", " review ", "CONTENT"])
@pytest.mark.parametrize("label", ["label", "Class", "sentiment", " target"])
def test_columns_are_found_by_their_usual_names(tmp_path, text, label):
    rows = [("7", label, text, "x") for text, label in ROWS]
    path = write(tmp_path / "own.csv", table(rows, head=("id", label, text, "more")))
    assert everything(read_labelled(path)) == sorted(ROWS)


def test_columns_of_other_names_are_asked_for(tmp_path):
    rows = [("7", label, "not this", text) for text, label in ROWS]
    head = ("id", "Stars", "text", "Comment")
    path = write(tmp_path / "own.csv", table(rows, head=head))
    assert everything(read_labelled(path, text="comment", label="Stars")) == sorted(ROWS)


@pytest.mark.parametrize("head", [("comment", "label"), ("text", "stars")])
def test_of_two_columns_one_name_is_enough(tmp_path, head):
    path = write(tmp_path / "own.csv", table(ROWS, head=head))
    assert everything(read_labelled(path)) == sorted(ROWS)
    turned = [(label, text) for text, label in ROWS]
    path = write(tmp_path / "own.csv", table(turned, head=head[::-1]))
    assert everything(read_labelled(path)) == sorted(ROWS)
    path = write(tmp_path / "own.csv", table(ROWS, head=("comment", "stars")))
    assert everything(read_labelled(path, label="stars")) == sorted(ROWS)
    assert everything(read_labelled(path, text="comment")) == sorted(ROWS)


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize(("name", "sign"), [("own.tsv", "\t"), ("own.csv", ",")])
def test_two_columns_need_no_names_if_labels_recur_and_texts_do_not(tmp_path, name, sign, turn):
    rows = [row[::turn] for row in ROWS]
    path = write(tmp_path / name, table(rows, head=None, sign=sign))
    assert everything(read_labelled(path)) == sorted(ROWS)


def test_names_of_columns_that_nobody_knows_are_no_row(tmp_path):
    path = write(tmp_path / "own.csv", table(ROWS, head=("comment", "stars")))
    with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
        read_labelled(path)
    # Nor is it plain which is which where both recur, or neither does.
    for rows in ([("a", "b")] * 9, [(f"a{n}", f"b{n}") for n in range(9)]):
        path = write(tmp_path / "own.csv", table(rows, head=None))
        with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
            read_labelled(path)


@pytest.mark.parametrize("held", ["val", "valid", "validation", "dev", "Dev"])
def test_a_folder_has_a_table_for_each_part(tmp_path, held):
    write(tmp_path / "own" / "train.csv", table(ROWS))
    write(tmp_path / "own" / f"{held}.tsv", table(ROWS[:3], sign="\t"))
    turned = [(label, text) for text, label in ROWS[5:7]]
    write(tmp_path / "own" / "test.csv.gz", table(turned, head=("class", "review")))
    for name in ("README.md", "test.txt", "train.csv.bak", "extra.csv"):
        write(tmp_path / "own" / name, "none of this\n")
    texts = read_labelled(tmp_path / "own")
    assert rows_of(texts, "train") == ROWS and rows_of(texts, "validation") == ROWS[:3]
    assert rows_of(texts, "test") == ROWS[5:7] and texts.name == "own"
    assert (texts.shared("validation"), texts.shared("test")) == (3, 2)


def test_without_names_the_other_parts_are_read_like_training(tmp_path):
    write(tmp_path / "own" / "train.tsv", table(ROWS, head=None, sign="\t"))
    write(tmp_path / "own" / "test.tsv", "The only one\tgood\n")
    texts = read_labelled(tmp_path / "own")
    assert rows_of(texts, "test") == [("The only one", "good")]


def test_a_part_without_names_may_go_with_one_that_has_them(tmp_path):
    turned = [(label, text) for text, label in ROWS]
    write(tmp_path / "own" / "train.csv", table(turned, head=("label", "text")))
    write(tmp_path / "own" / "test.csv", table(ROWS[:9], head=None))
    assert rows_of(read_labelled(tmp_path / "own"), "test") == ROWS[:9]


def test_a_name_is_looked_for_where_data_are(tmp_path):
    write(tmp_path / "data" / "mine" / "train.csv", table(ROWS))
    write(tmp_path / "data" / "mine.csv", table(ROWS))
    assert everything(read_labelled("mine")) == everything(read_labelled("mine.csv"))


def test_classes_stand_by_number_if_all_are_numbers(tmp_path):
    rows = [(f"text {n}", str(n % 11 + 1)) for n in range(40)]
    path = write(tmp_path / "own.csv", table(rows))
    assert read_labelled(path).classes == tuple(map(str, range(1, 12)))
    assert everything(read_labelled(path)) == sorted(rows)


# Pairs of texts


PAIRS = [(f"Premise {n // 3}", f"Hypothesis {n}", ("yes", "no", "open")[n % 3]) for n in range(90)]
NAMES = ("premise", "hypothesis", "label")


def test_pairs_have_two_texts_and_are_held_out_by_the_first(tmp_path):
    path = write(tmp_path / "own.csv", table(PAIRS, head=NAMES))
    texts = read_labelled(path, text="premise", pair=" Hypothesis")
    rows = [
        (*both, texts.classes[label])
        for part in texts.parts.values()
        for both, label in zip(part.whole(), part.labels, strict=True)
    ]
    assert sorted(rows) == sorted(PAIRS) and texts.classes == ("no", "open", "yes")
    assert [len(part.seconds) for part in texts.parts.values()] == [81, 9, 0]
    assert not {*texts["train"].texts} & {*texts["validation"].texts}
    assert {*texts["validation"].texts} == a_tenth(
        [p[0] for p in PAIRS], [n % 3 for n in range(90)]
    )
    alone = read_labelled(path, text="premise")
    assert not alone["train"].seconds and alone.digest != texts.digest


def test_a_folder_of_pairs_has_them_in_every_part(tmp_path):
    write(tmp_path / "own" / "train.tsv", table(PAIRS, head=NAMES, sign="\t"))
    turned = [row[::-1] for row in [*PAIRS[:2], ("Premise 0", "Hypothesis 5", "no")]]
    write(tmp_path / "own" / "test.csv", table(turned, head=NAMES[::-1]))
    texts = read_labelled(tmp_path / "own", text="premise", pair="hypothesis")
    assert texts["test"].whole() == [
        *(("Premise 0", "Hypothesis 0"), ("Premise 0", "Hypothesis 1")),
        ("Premise 0", "Hypothesis 5"),
    ]
    train = {both[0] for both in texts["train"].whole()}
    assert texts.shared("test") == (2 if "Premise 0" in train else 0)
    write(tmp_path / "own" / "dev.csv", table(PAIRS, head=NAMES))
    assert read_labelled(tmp_path / "own", text="premise", pair="hypothesis").shared("test") == 2
    write(tmp_path / "own" / "test.csv", table(ROWS))
    with expect_error(DataIssue, kind="column", line=1, file="test.csv"):
        read_labelled(tmp_path / "own", text="premise", pair="hypothesis")


def test_the_second_text_may_have_a_usual_name(tmp_path):
    path = write(tmp_path / "own.csv", table(PAIRS, head=("text", "sentence", "label")))
    assert read_labelled(path, pair="sentence")["train"].seconds[0].startswith("Hypothesis")
    with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
        read_labelled(path)


@pytest.mark.parametrize(
    ("head", "options"),
    [
        (NAMES, {"text": "premise", "pair": "hypo"}),
        (NAMES, {"pair": "hypothesis"}),
        (NAMES, {"text": "premise", "pair": "premise"}),
        (NAMES, {"text": "premise", "pair": "label", "label": "label"}),
        (("text", "two", "two"), {"pair": "two", "label": "two"}),
        (NAMES, {"text": "premise", "pair": "label"}),
    ],
)
def test_columns_of_pairs_in_doubt_are_a_sentence(tmp_path, head, options):
    path = write(tmp_path / "own.csv", table(PAIRS, head=head))
    with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
        read_labelled(path, **options)


def test_two_columns_are_no_pair_with_a_label(tmp_path):
    path = write(tmp_path / "own.csv", table(ROWS))
    with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
        read_labelled(path, pair="label")
    path = write(tmp_path / "own.csv", table(ROWS, head=("premise", "hypothesis")))
    with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
        read_labelled(path, text="premise", pair="hypothesis")


def test_an_empty_second_text_is_named_by_its_line_or_left_out(tmp_path):
    rows = [PAIRS[0], ("Premise", " ", "yes"), *PAIRS[1:]]
    path = write(tmp_path / "own.csv", table(rows, head=NAMES))
    options = {"text": "premise", "pair": "hypothesis"}
    with expect_error(DataIssue, kind="empty", line=3, file="own.csv"):
        read_labelled(path, **options)
    texts = read_labelled(path, skip_bad=True, **options)
    assert len(texts.skipped) == 1 and sum(map(len, texts.parts.values())) == 90
    assert all(len(part.seconds) == len(part) for part in texts.parts.values())


# What is forgiven


def test_marks_of_editors_and_systems_are_no_text(tmp_path):
    text = '\ufefftext,label\r\n" a, ""b""\r\nc ",x\r\n\r\n d , y \r\n,,\r\n'.replace(",,\r\n", "")
    texts = read_labelled(write(tmp_path / "own.csv", text + "e,x\r\nf,y"))
    assert everything(texts) == [('a, "b"\nc', "x"), ("d", "y"), ("e", "x"), ("f", "y")]


@pytest.mark.parametrize("head", [("", "text", "label"), ("text", "label", "")], ids=str)
def test_a_column_without_a_name_is_passed_by(tmp_path, head):
    at = head.index("text")
    rows = [[*("7" * (place < at) for place in range(at)), *row, ""][: len(head)] for row in ROWS]
    path = write(tmp_path / "own.csv", table(rows, head=head))
    read = read_labels(path)
    assert [*zip(read.texts, read.labels, strict=True)] == ROWS and not read.seconds
    assert [row.text for row in read_texts(path)] == [text for text, _ in ROWS]


@pytest.mark.parametrize("enclosed", [False, True])
def test_a_text_may_be_as_long_as_a_book(tmp_path, enclosed):
    book = ("word, " if enclosed else "word ") * 40_000
    path = write(tmp_path / "own.csv", table([*ROWS, (book, "good")]))
    assert read_labels(path).texts[-1] == book.strip()
    assert csv.field_size_limit() < len(book)  # other readers keep their own


def test_more_than_a_book_is_no_table(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "LONGEST_FIELD", 99)
    path = write(tmp_path / "own.csv", table([*ROWS, ("a," * 50, "good")]))
    with expect_error(DataIssue, kind="quotes", line=44, file="own.csv"):
        read_labels(path)


def test_lines_may_end_with_a_return_alone(tmp_path):
    path = write(tmp_path / "own.csv", table(ROWS, ends="\r"))
    assert read_labels(path).texts == tuple(text for text, _ in ROWS)


def test_marks_inside_a_tsv_belong_to_the_text_unless_they_enclose_it(tmp_path):
    rows = ['"Great" he said\t1', '"Great\t0', 'so\t"0"', '"a ""b"""\t1', 'bad"\t0', "i\t1"]
    path = write(tmp_path / "own.tsv", "\n".join(["text\tlabel", *rows]))
    read = read_labels(path)
    assert read.texts == ('"Great" he said', '"Great', "so", 'a "b"', 'bad"', "i")
    assert read.labels == ("1", "0", "0", "1", "0", "1")
    path = write(tmp_path / "own.tsv", 'text\tlabel\n"a\nb\tc"\t0\nd\t1\ne\t1\n')
    assert read_labels(path).texts == ("a\nb\tc", "d", "e")
    assert [*read_labels(path).lines] == [2, 4, 5]


# A tab with a line break may look like two rows of a .tsv, so there is none here.
CELL = st.text(st.characters(exclude_characters="\0\r\t", codec="utf-8"), min_size=1).filter(
    lambda text: text.strip() == text and not text.startswith("\ufeff")
)


@given(
    st.lists(st.tuples(CELL, st.sampled_from(["x", "y, z"])), min_size=4, unique_by=lambda r: r[0])
)
def test_any_text_comes_back_in_whatever_table_it_lies(tmp_path_factory, rows):
    rows += [("one", "x"), ("two", "x"), ("three", "y, z"), ("four", "y, z")]
    folder = tmp_path_factory.mktemp("own")
    by_csv = read_labelled(write(folder / "own.csv.gz", "\ufeff" + table(rows)))
    by_tsv = read_labelled(write(folder / "own.tsv", table(rows, sign="\t", ends="\r\n")))
    assert everything(by_csv) == sorted(rows) and by_csv.digest == by_tsv.digest


# What is held out


def test_the_tenth_held_out_depends_on_no_order(tmp_path):
    first = read_labelled(write(tmp_path / "a.csv", table(ROWS)))
    again = read_labelled(write(tmp_path / "b.csv", table(reversed(ROWS))))
    by_hash = sorted(ROWS, key=lambda row: hashlib.sha256(row[0].encode()).digest())
    of_class = {name: [row for row in by_hash if row[1] == name] for name in first.classes}
    held = [*of_class["bad"][:2], *of_class["good"][:1], *of_class["so-so"][:1]]  # 4 of 42
    assert sorted(rows_of(first, "validation")) == sorted(held)
    assert sorted(rows_of(again, "validation")) == sorted(held)
    assert rows_of(first, "train") == [row for row in ROWS if row not in held]


@pytest.mark.parametrize("share", [30, 50, 12, 3, 2])
def test_each_class_is_held_out_as_it_occurs(tmp_path, share):
    rows = [(f"a text {n}", "yes" if n < share else "no") for n in range(60)]
    texts = read_labelled(write(tmp_path / "own.csv", table(rows)))
    no, yes = texts.counts("validation")
    assert yes == max(1, round(share / 10)) and no + yes in (6, 7)  # a class gives one at least
    shuffled = read_labelled(write(tmp_path / "again.csv", table(rows[::-1])))
    assert {*shuffled["validation"].texts} == {*texts["validation"].texts}


def test_at_most_a_thousand_are_held_out_of_however_many_classes():
    for classes in (900, 1_500):
        labels = [n % classes for n in range(6_000)]
        out = a_tenth([f"text {n}" for n in range(6_000)], labels)
        assert len(out) == min(classes, 1_000)


def test_a_class_whose_texts_all_recur_gives_its_rarest():
    rows = [("often", 1)] * 20 + [("seldom", 1)] * 7 + [(f"once {n}", 0) for n in range(13)]
    out = a_tenth([text for text, _ in rows], [label for _, label in rows])
    assert "seldom" in out and "often" not in out and len(out) == 2


@given(st.lists(st.tuples(st.sampled_from("abcdefghijkl"), st.integers(0, 3)), max_size=150))
def test_every_class_keeps_a_text_to_learn_from(rows):
    texts, labels = [text for text, _ in rows], [label for _, label in rows]
    out = a_tenth(texts, labels)
    kept = {label for text, label in rows if text not in out}
    assert kept == set(labels) and out <= set(texts)
    # None is held out only if each text is the last of a class.
    if not out:
        assert all(
            any({t for t, other in rows if other == label} == {text} for _, label in rows)
            for text in texts
        )
    # A class that has two texts, of which one is in no class that would lose its last, gives one.
    spare = {t for t in texts if all(len(of_label(rows, x)) > 1 for s, x in rows if s == t)}
    for label in set(labels):
        if len(of_label(rows, label) & spare) == len(of_label(rows, label)) > 2:
            assert of_label(rows, label) & out


def of_label(rows, label) -> set[str]:
    return {text for text, other in rows if other == label}


def test_the_last_text_of_a_class_is_never_held_out():
    texts = sorted(map(str, range(40)), key=lambda text: hashlib.sha256(text.encode()).digest())
    rare = set(texts[:4])  # all four would be held out, were they not a class
    out = a_tenth(texts, [int(text in rare) for text in texts])
    assert out == {texts[0], *texts[4:8]}  # one of the four, and of the others a tenth


def test_no_more_than_a_thousand_are_held_out():
    texts = list(map(str, range(15_000)))
    assert len(a_tenth(texts, [n % 2 for n in range(15_000)])) == 1_000
    assert len(a_tenth(texts[:8_000], [0] * 7_999 + [1])) == 800


def test_a_text_that_is_too_frequent_is_passed_over():
    texts = ["often"] * 30 + [f"once {n}" for n in range(10)]
    assert len(a_tenth(texts, [0, 1] * 20)) == 4 and "often" not in a_tenth(texts, [0, 1] * 20)
    assert a_tenth(["a"] * 3 + ["b"] * 2, [0] * 5) == {"b"}


def test_a_sentence_is_held_out_with_its_phrases_but_not_those_of_others():
    names = [f"name{n}" for n in range(60)]
    texts = [t for n in names for t in (f"a fine film by {n}", f"film by {n}", n, "a fine film")]
    out = with_phrases(texts, [0] * len(texts))
    sentences = sorted(text for text in out if text.startswith("a "))
    assert len(sentences) == 60 // 20 and "a fine film" not in out
    held = {sentence.split()[-1] for sentence in sentences}
    assert out == {t for n in held for t in (f"a fine film by {n}", f"film by {n}", n)}
    assert with_phrases(["a b", "a", "b"], [0, 1, 0]) == set()


@given(st.lists(st.text("ab ", min_size=1).map(str.strip).filter(bool), max_size=30))
def test_what_is_learnt_is_no_longer_text_around_what_is_held_out(texts):
    out = with_phrases(texts, [0] * len(texts))
    kept = set(texts) - out
    for text in kept:
        assert not phrases(text) & out
    assert not texts or kept


def test_phrases_are_runs_of_words():
    assert phrases("a  b c") == {"a", "b", "c", "a  b", "b c", "a  b c"}


# By name


SST2 = [(f"phrase {n} of a film", str(n % 2)) for n in range(60)]
DEV = [("it 's a charming journey .", "1"), ("unflinchingly bleak", "0")]


def sst2(folder: Path, test: str = "index\tsentence\n0\ta film\n", gz: str = "") -> None:
    head = ("sentence", "label")
    write(folder / f"train.tsv{gz}", table(SST2, head=head, sign="\t"))
    write(folder / f"dev.tsv{gz}", table(DEV, head=head, sign="\t"))
    write(folder / f"test.tsv{gz}", test)


@pytest.mark.parametrize("place", LABELLED["sst2"].places)
@pytest.mark.parametrize("gz", ["", ".gz"])
def test_the_dev_part_of_sst2_is_the_test_and_its_own_test_has_no_labels(tmp_path, place, gz):
    sst2(tmp_path / "data" / place, gz=gz)
    texts = read_labelled("sst2")
    assert find_labelled("sst2") == tmp_path / "data" / place
    assert texts.name == "sst2" and texts.classes == ("negative", "positive")
    assert "Socher" in texts.licence and texts.origin == "https://gluebenchmark.com/tasks"
    assert {part: len(rows) for part, rows in texts.parts.items()} == {
        "train": 57,
        "validation": 3,
        "test": 2,
    }
    assert texts["test"].texts == tuple(text for text, _ in DEV) and texts["test"].labels == (1, 0)


def test_labels_of_the_test_of_sst2_make_a_further_part(tmp_path):
    sst2(tmp_path / "data" / "sst2", "label\tcontent\n1\tone more film\n0\tno more\n")
    texts = read_labelled("sst2")
    assert texts["test2013"].texts == ("one more film", "no more")
    assert texts["test2013"].labels == (1, 0) and len(texts["test"]) == 2
    sst2(tmp_path / "data" / "sst2", "label\tsentence\n-1\tone more film\n")  # -1 is "not told"
    assert "test2013" not in read_labelled("sst2").parts


def test_by_its_path_sst2_is_the_same_as_by_its_name(tmp_path):
    sst2(tmp_path / "elsewhere" / "SST-2")
    sst2(tmp_path / "data" / "sst2")
    one, other = read_labelled(tmp_path / "elsewhere" / "SST-2"), read_labelled("sst2")
    assert (one.name, one.digest) == ("sst2", other.digest)


def test_a_set_that_is_not_there_or_not_whole_is_a_sentence(tmp_path):
    home = tmp_path / "data" / "sst2"
    with expect_error(DataIssue, kind="absent"):
        read_labelled("sst2")
    assert find_labelled("reviews") is None
    sst2(home)
    (home / "dev.tsv").unlink()
    with expect_error(DataIssue, kind="missing", file="sst2"):
        read_labelled("sst2")
    sst2(home)
    write(home / "train.tsv", "sentence\tlabel\na\t0\nb\t2\n")
    with expect_error(DataIssue, kind="label", file="train.tsv"):
        read_labelled("sst2")


@pytest.mark.data("sst2")
def test_the_real_sst2_has_its_published_sizes(monkeypatch):
    monkeypatch.undo()
    texts = read_labelled("sst2")
    sizes = {part: len(rows) for part, rows in texts.parts.items()}
    assert sizes["train"] + sizes["validation"] == 67_349 and sizes["test"] == 872
    assert 2_000 < sizes["validation"] < 5_000 and not texts.shared("validation")
    assert texts.counts("test") == (428, 444) and not texts.skipped
    assert texts.shared("test") == 0
    longest = max(texts["validation"].texts, key=len)
    assert not any(
        longest in text or text in longest for text in texts["train"].texts if len(text) > 40
    )


SICK = [
    (str(n), f"A man {n} sings", f"A man {n // 2} acts", label, "4.5", part)
    for n, (label, part) in enumerate(
        (label, part)
        for part in ("TRAIN", "TRIAL", "TEST", "TRAIN")
        for label in ("NEUTRAL", "ENTAILMENT", "CONTRADICTION")
    )
]
SICK_HEAD = (
    *("pair_ID", "sentence_A", "sentence_B"),
    *("entailment_label", "relatedness_score", "SemEval_set"),
)


def sick(path: Path, rows=SICK, head=SICK_HEAD) -> Path:
    return write(path, table(rows, head=head, sign="\t"))


@pytest.mark.parametrize("place", LABELLED["sick"].places)
@pytest.mark.parametrize("name", ["SICK.txt", "SICK.tsv", "SICK.txt.gz"])
def test_sick_has_pairs_in_three_parts(tmp_path, place, name):
    path = sick(tmp_path / "data" / place / name)
    texts = read_labelled("sick")
    assert find_labelled("sick") == path.parent and texts.name == "sick"
    assert texts.classes == ("contradiction", "entailment", "neutral")
    assert texts.licence == "CC BY-NC-SA 3.0" and "marcobaroni.org" in texts.origin
    assert {part: rows.labels for part, rows in texts.parts.items()} == {
        "train": (2, 1, 0, 2, 1, 0),
        "validation": (2, 1, 0),
        "test": (2, 1, 0),
    }
    assert texts["validation"].whole() == [row[1:3] for row in SICK[3:6]]
    assert texts["train"].seconds == tuple(row[2] for row in SICK[:3] + SICK[9:])
    for there in (path, path.parent):  # the same by its path
        assert read_labelled(there).digest == texts.digest
        assert read_labelled(there).name == "sick"


def test_the_official_file_of_sick_has_more_columns_in_another_order(tmp_path):
    rows = [(row[5], *row[:5], "A_entails_B", "FLICKR") for row in SICK]
    head = (SICK_HEAD[5], *SICK_HEAD[:5], "entailment_AB", "sentence_A_dataset")
    one = read_labelled(sick(tmp_path / "SICK.txt", rows, head))
    assert one.digest == read_labelled(sick(tmp_path / "SICK.tsv")).digest


def test_the_table_of_sick_may_be_read_as_ones_own(tmp_path):
    path = sick(tmp_path / "SICK.tsv")
    options = {"text": "sentence_A", "label": "entailment_label", "pair": "sentence_B"}
    texts = read_labelled(path, **options)
    assert texts.classes == ("CONTRADICTION", "ENTAILMENT", "NEUTRAL")
    assert (texts.name, texts.licence, len(texts["test"])) == ("SICK.tsv", "your own", 0)


def test_what_is_not_sick_is_a_sentence(tmp_path):
    home = tmp_path / "data" / "sick"
    with expect_error(DataIssue, kind="absent"):
        read_labelled("sick")
    path = sick(home / "SICK.txt", head=(*SICK_HEAD[:5], "part"))
    with expect_error(DataIssue, kind="column", line=1, file="SICK.txt"):
        read_labelled("sick")
    sick(path, [*SICK, ("9", "a", "b", "NEUTRAL", "1", "DEV")])
    with expect_error(DataIssue, kind="split", line=14, file="SICK.txt"):
        read_labelled("sick")
    sick(path, SICK[:3] + SICK[6:])
    with expect_error(DataIssue, kind="split", file="SICK.txt"):
        read_labelled("sick")
    sick(path, [row for row in SICK if row[3] != "NEUTRAL" or row[5] != "TRAIN"])
    with expect_error(DataIssue, kind="label", file="SICK.txt"):
        read_labelled("sick")
    sick(path, [*SICK, ("9", "a", "", "NEUTRAL", "1", "TEST")])
    with expect_error(DataIssue, kind="empty", line=14, file="SICK.txt"):
        read_labelled("sick")
    (home / "SICK.txt").rename(home / "SICK.tst")
    with expect_error(DataIssue, kind="missing", file="sick"):
        read_labelled("sick")


@pytest.mark.data("sick")
def test_the_real_sick_has_its_published_sizes(monkeypatch):
    monkeypatch.undo()
    texts = read_labelled("sick")
    assert [len(texts[part]) for part in texts.parts] == [4_439, 495, 4_906]
    assert texts.counts() == (641, 1_274, 2_524) and texts.counts("test") == (712, 1_404, 2_790)
    assert not texts.skipped and texts.shared("test") == texts.shared("validation") == 0


def test_named_sets_have_their_own_columns():
    with expect_error(UserError):
        read_labelled("reviews", text="t")
    with expect_error(UserError):
        read_labelled("sst2", label="y")
    with expect_error(UserError):
        read_labelled("sick", pair="z")


# What is refused


def said(name, **options) -> str:
    with pytest.raises(UserError) as caught:
        read_labelled(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


BAD = {
    "c,x,y\n": "columns",
    "c\n": "columns",
    " ,good\n": "empty",
    '"\u3000\n",good\n': "empty",
    "c, \n": "label",
    b"d\xfcd,good\n": "encoding",
    b"d\xed\xa0\x80,good\n": "encoding",
    'a"b,good\n': None,
    '"a"b,good\n': "quotes",
}


@pytest.mark.parametrize(("text", "kind"), BAD.items(), ids=map(ascii, BAD))
def test_a_bad_row_is_named_by_its_line_or_left_out(tmp_path, text, kind):
    data = text.encode() if isinstance(text, str) else text
    good = table(ROWS, head=None).encode()
    path = write(tmp_path / "own.csv", b'text,label\n"two\nlines",good\n' + data + good)
    if kind is None:
        assert len(everything(read_labelled(path))) == 44
        return
    with expect_error(DataIssue, kind=kind, line=4, file="own.csv") as told:
        read_labelled(path)
    texts = read_labelled(path, skip_bad=True)
    (fault,) = texts.skipped
    assert (fault, fault.kind, fault.line) == (str(told.value), kind, 4)
    assert everything(texts) == sorted([*ROWS, ("two\nlines", "good")])


def test_several_bad_rows_are_counted(tmp_path):
    path = write(tmp_path / "own.csv", "text,label\n" + ",x\n" * 1_500 + table(ROWS, head=None))
    with expect_error(DataIssue, kind="empty", line=2, file="own.csv"):
        read_labelled(path)
    assert len(read_labelled(path, skip_bad=True).skipped) == 1_500
    path = write(tmp_path / "own.csv", "text,label\n" + ",x\n" * 1_500)
    with expect_error(DataIssue, kind="empty", file="own.csv"):
        read_labelled(path, skip_bad=True)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_one_label_is_nothing_to_tell_apart(tmp_path, skip_bad):
    for head in (("text", "label"), None):
        path = write(tmp_path / "own.csv", table([(t, "good") for t, _ in ROWS], head=head))
        with expect_error(DataIssue, kind="one-class", file="own.csv"):
            read_labelled(path, skip_bad=skip_bad)


def test_a_label_that_training_lacks_is_refused_or_left_out(tmp_path):
    write(tmp_path / "own" / "train.csv", table(ROWS))
    rows = [("a", "good"), ("b", "fair"), ("c", "awful")]
    path = write(tmp_path / "own" / "test.csv", table(rows))
    with expect_error(DataIssue, kind="label", line=3, file="test.csv"):
        read_labelled(tmp_path / "own")
    texts = read_labelled(tmp_path / "own", skip_bad=True)
    assert rows_of(texts, "test") == rows[:1] and len(texts.skipped) == 2
    write(path, table(rows[1:]))
    with expect_error(DataIssue, kind="empty", file="test.csv"):
        read_labelled(tmp_path / "own", skip_bad=True)


def test_many_labels_are_not_all_listed(tmp_path):
    write(tmp_path / "own" / "train.csv", table([(f"t{n}", str(n % 14)) for n in range(60)]))
    write(tmp_path / "own" / "test.csv", table([("t", "x")]))
    with expect_error(DataIssue, kind="label", line=2, file="test.csv"):
        read_labelled(tmp_path / "own")


HEADS = [
    (("text", "stars", "id"), {}),
    (("words", "label", "id"), {}),
    (("text", "stars", "id"), {"label": "star"}),
    (("text", "label", "id"), {"label": "zzz"}),
    (("text", "label", "id"), {"text": "Txt"}),
    (("text", "review", "label"), {}),
    (("text", "class", "label"), {}),
    (("t", "t", "label"), {"text": "t"}),
    (("a", "b", "c"), {}),
]


@pytest.mark.parametrize(("head", "options"), HEADS, ids=str)
def test_columns_in_doubt_are_a_sentence(tmp_path, head, options):
    path = write(tmp_path / "own.csv", table([(*row, "7") for row in ROWS], head=head))
    with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
        read_labelled(path, **options)


def test_a_column_cannot_be_both(tmp_path):
    path = write(tmp_path / "own.csv", table(ROWS))
    with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
        read_labelled(path, text="text", label="text")
    path = write(tmp_path / "own.csv", "text\na\nb\n")
    with expect_error(DataIssue, kind="column", line=1, file="own.csv"):
        read_labelled(path)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_file_that_is_no_table_is_refused(tmp_path, skip_bad):
    def refused(data: bytes, name: str = "own.csv") -> str:
        path = tmp_path / name
        path.write_bytes(data)
        return said(path, skip_bad=skip_bad).removeprefix(str(path))

    good = table(ROWS).encode()
    assert refused(b"") == refused(b"\xef\xbb\xbf") == refused(b"\n \n\r\n") == " is empty"
    assert refused(b"text,label\n") == " has names of columns, but no row below them"
    assert refused(good + b"a\0,good\n").startswith(", line 44 has a NUL byte: this is no text")
    assert refused(good.decode().encode("utf-16")).startswith(", line 1 has a NUL byte")
    assert refused(gzip.compress(good)[:-20], "own.csv.gz").startswith(" is damaged or cut short")
    assert refused(b"t\xe9xt,label\na,b\n") == ", line 1 is not UTF-8: save the file as UTF-8 first"
    stray = good.replace(b'"Film 7,', b'"Film" 7,').replace(b'"Film 5, seen; twice."', b'"Film 5')
    assert refused(stray).startswith(
        ", line 7 opens a quotation mark that nothing closes, not even"
    )
    assert refused(good + b'"a,good\nb,bad\n') == (
        ", line 44 opens a quotation mark that nothing closes, not even line 45"
    )


@pytest.mark.parametrize("rows", [[("a", "x"), ("b", "y")], [("a", "x"), ("a", "x"), ("b", "y")]])
def test_too_few_texts_to_hold_one_out_are_refused(tmp_path, rows):
    path = write(tmp_path / "own.csv", table(rows))
    with expect_error(DataIssue, kind="small", file="own.csv"):
        read_labelled(path)


def test_what_is_not_there_or_no_table_is_said(tmp_path):
    with expect_error(DataIssue, kind="missing", file="own.csv"):
        read_labelled(tmp_path / "own.csv")
    with expect_error(DataIssue, kind="missing", file="revews"):
        read_labelled("revews")
    with expect_error(DataIssue, kind="missing", file="zzz"):
        read_labelled("zzz")
    with expect_error(DataIssue, kind="unreadable"):
        read_labelled("x" * 5000)
    path = write(tmp_path / "own.txt", table(ROWS))
    with expect_error(DataIssue, kind="format", file="own.txt"):
        read_labelled(path)
    folder = tmp_path / "own"
    write(folder / "test.csv", table(ROWS))
    with expect_error(DataIssue, kind="missing", file="own"):
        read_labelled(folder)
    write(folder / "train.csv", table(ROWS))
    write(folder / "train.tsv.gz", table(ROWS))
    with expect_error(DataIssue, kind="several", file="own"):
        read_labelled(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_sentence(tmp_path):
    path = write(tmp_path / "own.csv", table(ROWS))
    path.chmod(0)
    with expect_error(UserError):
        read_labelled(path)


# The values themselves


def some(**parts: Labelled) -> LabelledSet:
    empty = {"train": Labelled(), "validation": Labelled(), "test": Labelled()}
    return LabelledSet("mine", ("bad", "good", "so-so"), {**empty, **parts})


def test_values_that_cannot_be_are_refused():
    with expect_error(ValueError):
        Labelled(("a", "b"), (0,))
    with expect_error(ValueError):
        Labelled(("a", "b"), (0, 1), ("c",))
    with expect_error(ValueError):
        some(train=Labelled(("a",), (0,), ("b",)), test=Labelled(("a",), (0,)))
    with expect_error(ValueError):
        LabelledSet("mine", ("a", "b"), {"train": Labelled()})
    with expect_error(ValueError):
        some()["tset"]
    with expect_error(ValueError):
        some(test=Labelled(("a",), (3,)))


@given(st.lists(st.integers(0, 2), min_size=1).map(lambda labels: [0, 1, 2, *labels]))
def test_weights_are_inverse_to_frequency_and_1_on_average(labels):
    texts = some(train=Labelled(tuple(map(str, labels)), tuple(labels)))
    assert texts.counts() == tuple(map(labels.count, range(3)))
    weights = texts.weights()
    assert np.mean([weights[label] for label in labels]) == pytest.approx(1)
    theirs = compute_class_weight("balanced", classes=np.arange(3), y=np.array(labels))
    assert weights == pytest.approx(theirs)


def test_a_class_without_texts_has_a_count_but_no_weight():
    texts = some(train=Labelled(("a", "b"), (0, 2)))
    assert texts.counts() == (1, 0, 1) and texts.counts("test") == (0, 0, 0)
    with expect_error(ValueError):
        texts.weights()


def test_the_digest_tells_content_classes_and_parts_apart():
    one = Labelled(("a", "b"), (0, 1))
    sets = [
        some(),
        some(train=one),
        some(test=one),
        some(train=Labelled(("b", "a"), (1, 0))),
        some(train=Labelled(("a", "b"), (1, 0))),
        some(train=one, test2013=one),
        some(train=replace(one, seconds=("b", "c"))),
        some(train=replace(one, seconds=("c", "b"))),
        LabelledSet("mine", ("bad", "good", "fair"), dict(some(train=one).parts)),
    ]
    assert len({texts.digest for texts in sets}) == len(sets)
    assert some(train=one, test=one).digest == some(test=one, train=one).digest
    # Runs keep the digests of single texts, so this one is for ever.
    assert some(train=one).digest.startswith("277481ea8ddf7c88")


def test_some_of_several_pairs_keep_their_second_texts():
    pairs = Labelled(("a", "b", "c"), (0, 1, 2), ("d", "e", "f"))
    assert pairs.only([2, 0]).whole() == [("c", "f"), ("a", "d")]
    assert pairs.only(()).seconds == () and Labelled(("a",), (0,)).only([0]).whole() == [("a",)]


def test_a_known_set_is_read_again_only_when_it_was_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "SST-2"
    folder.mkdir()
    rows = "".join(f"a text of {number} words\t{number % 2}\n" for number in range(60))
    for name in ("train.tsv", "dev.tsv"):
        (folder / name).write_text("sentence\tlabel\n" + rows)
    first = read_labelled(folder)
    assert read_labelled(folder) is first
    (folder / "dev.tsv").write_text("sentence\tlabel\nanother text\t1\n")
    again = read_labelled(folder)
    assert again["test"].texts == ("another text",) and first["test"].texts != again["test"].texts
