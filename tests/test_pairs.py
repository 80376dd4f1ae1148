"""Every pair of lines is in one part, with what belongs together kept together."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import expect_error
from regard.data import pairs as module
from regard.data.pairs import (
    PAIRS,
    Pairs,
    PairSet,
    find_pairs,
    held_out,
    lasting_pairs,
    read_pairs,
)
from regard.errors import DataIssue, UserError

pytestmark = pytest.mark.usefixtures("own_folders")
ENGLISH = [f"Dog {n} runs." for n in range(40)]
GERMAN = [f"Hündchen {n} läuft — 犬 🐕." for n in range(40)]


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def lines(texts) -> str:
    return "".join(f"{text}\n" for text in texts)


def table(*rows) -> str:
    return lines("\t".join(row) for row in rows)


def rows_of(part: Pairs) -> list[tuple[str, str]]:
    return list(zip(part.source, part.target, strict=True))


def everything(pairs: PairSet) -> list[tuple[str, str]]:
    return sorted(row for part in pairs.parts.values() for row in rows_of(part))


BOTH = sorted(zip(ENGLISH, GERMAN, strict=True))


# The three ways to give pairs of one's own


@pytest.mark.parametrize("name", ["own.tsv", "own.tsv.gz"])
def test_a_table_has_a_pair_in_each_line(tmp_path, name):
    pairs = read_pairs(write(tmp_path / name, table(*BOTH)))
    assert everything(pairs) == BOTH
    assert [len(part) for part in pairs.parts.values()] == [36, 4, 0]
    assert list(pairs.parts) == ["train", "validation", "test"]
    assert pairs.languages == ("source", "target") and pairs.name == name
    assert pairs.licence == "your own" and pairs.origin == str(tmp_path / name)
    assert not pairs.skipped and not pairs.exact


@pytest.mark.parametrize(
    ("names", "languages"),
    [
        (("own.en", "own.de"), ("en", "de")),
        (("own.de.gz", "own.en"), ("de", "en")),
        (("own.pt-BR", "own.zh_Hans"), ("pt-BR", "zh_Hans")),
        (("a.txt", "b.txt"), ("source", "target")),
        (("a", "b"), ("source", "target")),
        (("a.english", "b.de"), ("source", "target")),
    ],
)
def test_two_files_go_line_by_line(tmp_path, names, languages):
    one, other = (tmp_path / name for name in names)
    write(one, lines(ENGLISH))
    write(other, lines(GERMAN))
    pairs = read_pairs(f"{one}, {other}")
    assert everything(pairs) == BOTH and pairs.languages == languages
    assert pairs.origin == f"{one},{other}"


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("held", ["val", "valid", "validation", "dev"])
def test_a_folder_has_two_files_for_each_part(tmp_path, held, ending):
    for part in ("train", held, "test", "test_2018"):
        write(tmp_path / "own" / f"{part}.nl{ending}", lines(f"{part} nl {n}" for n in range(3)))
        write(tmp_path / "own" / f"{part}.af{ending}", lines(f"{part} af {n}" for n in range(3)))
    for name in ("README.md", "train.nl.bak", "test.lower.af", ".hidden", "Train"):
        write(tmp_path / "own" / name, "none of this\n")
    (tmp_path / "own" / "sub.af").mkdir()
    pairs = read_pairs(tmp_path / "own")
    assert pairs.languages == ("af", "nl") and pairs.name == "own"
    assert list(pairs.parts) == ["train", "validation", "test", "test_2018"]
    for part, stem in zip(pairs.parts, ("train", held, "test", "test_2018"), strict=True):
        assert rows_of(pairs[part]) == [(f"{stem} af {n}", f"{stem} nl {n}") for n in range(3)]


def test_a_folder_may_have_a_table_for_each_part(tmp_path):
    write(tmp_path / "own" / "train.tsv", table(*BOTH))
    write(tmp_path / "own" / "dev.tsv.gz", table(("a", "b")))
    write(tmp_path / "own" / "dev.en", "not looked at\n")
    pairs = read_pairs(tmp_path / "own")
    assert rows_of(pairs["train"]) == BOTH and rows_of(pairs["validation"]) == [("a", "b")]
    assert not len(pairs["test"])


def test_a_name_is_looked_for_where_data_are(tmp_path, monkeypatch):
    write(tmp_path / "data" / "mine" / "train.tsv", table(*BOTH))
    write(tmp_path / "data" / "own.en", lines(ENGLISH))
    write(tmp_path / "data" / "own.de", lines(GERMAN))
    assert everything(read_pairs("mine")) == everything(read_pairs("own.en,own.de")) == BOTH


def test_a_comma_in_the_name_of_a_file_is_no_comma_between_two(tmp_path):
    assert everything(read_pairs(write(tmp_path / "a,b.tsv", table(*BOTH)))) == BOTH


# Which language is read, and which is written


def folder_of(tmp_path: Path, *languages: str) -> Path:
    for language in languages:
        text = lines(f"{language} {n}" for n in range(20))
        write(tmp_path / "own" / f"train.{language}", text)
    return tmp_path / "own"


def way_of(pairs: PairSet) -> tuple[str, str]:
    """What the texts themselves begin with."""
    ours, theirs = (part[0].split()[0] for part in (pairs["train"].source, pairs["train"].target))
    return ours, theirs


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (("de", "en"), ("en", "de")),
        (("af", "nl"), ("af", "nl")),
        (("aa", "en-GB"), ("en-GB", "aa")),
        (("en", "en_US"), ("en", "en_US")),
    ],
)
def test_a_folder_is_read_from_english_or_in_the_order_of_letters(tmp_path, languages, expected):
    pairs = read_pairs(folder_of(tmp_path, *languages))
    assert pairs.languages == way_of(pairs) == expected
    assert pairs.files == tuple(f"train.{language}" for language in expected)


def test_a_direction_chooses_two_languages_by_their_endings(tmp_path):
    own = folder_of(tmp_path, "en", "de")
    for direction in ("de-en", "en-de", "DE-EN"):
        pairs = read_pairs(own, direction=direction)
        assert "-".join(way_of(pairs)) == pairs.direction == direction.lower()
    with expect_error(UserError):
        read_pairs(own, direction="en-fr")
    with expect_error(UserError):
        read_pairs(own, direction="ende")
    folder_of(tmp_path, "pt-BR")
    pairs = read_pairs(own, direction="pt-BR-de")
    assert way_of(pairs) == ("pt-BR", "de") and pairs.files == ("train.pt-BR", "train.de")
    with expect_error(DataIssue, kind="format", file="own"):
        read_pairs(own)


def test_two_files_are_read_in_the_order_given_or_in_a_direction(tmp_path):
    folder_of(tmp_path, "en", "de")
    files = ",".join(str(tmp_path / "own" / f"train.{language}") for language in ("de", "en"))
    pairs = read_pairs(files)
    assert pairs.direction == "de-en" and way_of(pairs) == ("de", "en")
    pairs = read_pairs(files, direction="en-de")
    assert way_of(pairs) == ("en", "de") and pairs.files == ("train.en", "train.de")
    with expect_error(UserError):
        read_pairs(files, direction="en-nl")


@pytest.mark.parametrize(
    ("first", "languages"),
    [
        ("en\tde", ("en", "de")),
        ("\ufeffpt-BR\tzh_Hans\r", ("pt-BR", "zh_Hans")),
        ("Source\tTarget", ("Source", "Target")),
        ("english\tgerman", ("english", "german")),
    ],
)
def test_a_table_may_name_its_languages_in_its_first_line(tmp_path, first, languages):
    path = write(tmp_path / "own.tsv", f"{first}\n{table(*BOTH)}")
    pairs = read_pairs(path)
    assert pairs.languages == languages and everything(pairs) == BOTH
    turned = read_pairs(path, direction="-".join(languages[::-1]))
    assert turned.languages == languages[::-1] and turned.files == ("column 2", "column 1")
    assert everything(turned) == sorted(row[::-1] for row in BOTH)


def test_a_first_line_of_words_is_a_pair(tmp_path):
    for first in (("dog", "Hund"), ("cat", "chat"), ("en", "en"), ("yes", "oui")):
        path = write(tmp_path / "own.tsv", table(first, *BOTH))
        pairs = read_pairs(path)
        assert pairs.languages == ("source", "target") and first in everything(pairs)
        pairs = read_pairs(path, direction="target-source")
        assert first[::-1] in everything(pairs) and pairs.direction == "target-source"


def test_the_texts_held_out_are_those_of_the_new_source(tmp_path):
    rows = [(f"text {n}", f"Text {n // 2}") for n in range(60)]
    turned = read_pairs(write(tmp_path / "own.tsv", table(*rows)), direction="target-source")
    assert not {*turned["train"].source} & {*turned["validation"].source}


def test_other_data_are_read_as_a_run_reads_its_own_if_their_names_say_how(tmp_path):
    own = folder_of(tmp_path, "de", "en", "fr")
    for like in (("de", "en"), ("fr", "de")):
        assert read_pairs(own, like=like).languages == like
    (own / "train.fr").unlink()
    assert read_pairs(own, like=("de", "en")).languages == ("de", "en")
    assert read_pairs(own, like=("source", "target")).languages == ("en", "de")
    files = f"{own / 'train.en'},{own / 'train.de'}"
    assert read_pairs(files, like=("de", "en")).languages == ("en", "de")  # an order of their own
    assert read_pairs("numerals", like=("en", "de")).direction == ""
    with expect_error(UserError):
        read_pairs("numerals", direction="en-de")


def test_a_set_with_a_name_goes_in_any_direction_that_lies_there(tmp_path):
    multi30k(tmp_path / "data" / "multi30k")
    pairs = read_pairs("multi30k", direction="cs-en")
    assert (pairs.languages, pairs.name) == (("cs", "en"), "multi30k")
    assert (pairs["test"].source[0], pairs["test"].target[0]) == (
        "test_2016_flickr cs",
        "test_2016_flickr en",
    )
    assert read_pairs("multi30k", like=("de", "en")).direction == "de-en"
    with expect_error(UserError):
        read_pairs("multi30k", direction="en-nl")


# What is forgiven


def test_marks_of_editors_and_systems_are_no_text(tmp_path):
    text = "\ufeffa\tb\r\n  c \t\u00a0d\u3000\r\ne\u2028e\x0be\x85e\tf"
    pairs = read_pairs(write(tmp_path / "own.tsv", text))
    assert everything(pairs) == [("a", "b"), ("c", "d"), ("e\u2028e\x0be\x85e", "f")]


SENTENCE = st.text(st.characters(exclude_characters="\n\t\0", codec="utf-8"), min_size=1).filter(
    lambda text: text.strip() == text and not text.startswith("\ufeff")
)


@given(st.lists(st.tuples(SENTENCE, SENTENCE), min_size=2, unique_by=lambda row: row[0]))
def test_any_text_comes_back_in_whatever_files_it_lies(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("own")
    one, other = zip(*rows, strict=True)
    by_table = read_pairs(write(folder / "own.tsv.gz", "\ufeff" + table(*rows)))
    ours, theirs = write(folder / "o.en", lines(one)), write(folder / "o.de", lines(other))
    by_two = read_pairs(f"{ours},{theirs}")
    assert everything(by_table) == sorted(rows) and by_table.digest == by_two.digest
    assert len(by_table["validation"]) == max(1, len(rows) // 10)


# What is held out


def test_the_tenth_held_out_depends_on_no_order_and_no_luck(tmp_path):
    first = read_pairs(write(tmp_path / "a.tsv", table(*BOTH)))
    again = read_pairs(write(tmp_path / "b.tsv", table(*reversed(BOTH))))
    assert sorted(rows_of(first["validation"])) == sorted(rows_of(again["validation"]))
    by_hash = sorted(BOTH, key=lambda row: hashlib.sha256(row[0].encode()).digest())
    assert sorted(rows_of(first["validation"])) == sorted(by_hash[:4])
    assert rows_of(first["train"]) == [row for row in BOTH if row not in by_hash[:4]]


@given(st.lists(st.sampled_from("abcdefghij"), min_size=2, max_size=200))
def test_what_occurs_several_times_is_on_one_side_only(sources):
    if len(set(sources)) == 1:
        return
    train, held = held_out(Pairs(tuple(sources), tuple(map(str, range(len(sources))))))
    assert not {*train.source} & {*held.source} and len(train) and len(held)
    assert sorted(train.target + held.target) == sorted(map(str, range(len(sources))))
    rarest = min(map(sources.count, sources))
    assert len(held) <= max(len(sources) // 10, rarest)


def test_no_more_than_a_thousand_are_held_out():
    texts = tuple(map(str, range(15_000)))
    train, held = held_out(Pairs(texts, texts))
    assert (len(train), len(held)) == (14_000, 1_000)


def test_what_is_tested_and_was_learnt_is_counted_but_stays(tmp_path):
    for part, rows in (("train", BOTH), ("val", [*BOTH[:3], ("x", "y")]), ("test", [BOTH[0]] * 2)):
        write(tmp_path / "own" / f"{part}.tsv", table(*rows))
    pairs = read_pairs(tmp_path / "own")
    assert (pairs.shared("validation"), pairs.shared("test")) == (3, 2)
    assert len(pairs["train"]) == 40 and len(pairs["validation"]) == 4


# By name


def multi30k(folder: Path, stems=("train", "val", "test_2016_flickr", "test_2017_flickr")) -> None:
    for stem in stems:
        for language in ("cs", "de", "en"):
            write(folder / f"{stem}.{language}.gz", f"{stem} {language}\nzwei {language}\n")


@pytest.mark.parametrize("place", PAIRS["multi30k"].places)
def test_multi30k_is_english_to_german_with_its_two_tests(tmp_path, place):
    multi30k(tmp_path / "data" / place)
    pairs = read_pairs("multi30k")
    assert find_pairs("multi30k") == tmp_path / "data" / place
    assert pairs.languages == ("en", "de") and pairs.name == "multi30k"
    assert pairs.origin == "https://github.com/multi30k/dataset" and "Elliott" in pairs.licence
    assert {part: rows.source[0] for part, rows in pairs.parts.items()} == {
        "train": "train en",
        "validation": "val en",
        "test": "test_2016_flickr en",
        "test2017": "test_2017_flickr en",
    }
    assert pairs["test"].target[0] == "test_2016_flickr de"


def test_by_its_path_multi30k_is_the_same_as_by_its_name(tmp_path):
    multi30k(tmp_path / "elsewhere" / "multi30k")
    multi30k(tmp_path / "data" / "Multi30k")
    one, other = read_pairs(tmp_path / "elsewhere" / "multi30k"), read_pairs("multi30k")
    assert (one.name, one.languages, one.digest) == ("multi30k", ("en", "de"), other.digest)


def test_a_set_that_is_not_there_says_where_it_should_be(tmp_path):
    with pytest.raises(UserError) as caught:
        read_pairs("multi30k")
    home = tmp_path / "data" / "multi30k"
    assert str(caught.value).startswith("multi30k is not on this machine: put train, val,")
    assert str(caught.value).endswith(f"https://github.com/multi30k/dataset into {home}")
    assert find_pairs("numerals") is None


@pytest.mark.data("multi30k")
def test_the_real_multi30k_has_its_published_sizes():
    pairs = read_pairs("multi30k")
    sizes = {part: len(rows) for part, rows in pairs.parts.items()}
    assert sizes == {"train": 29_000, "validation": 1_014, "test": 1_000, "test2017": 1_000}
    assert not any(pairs.shared(part) for part in ("validation", "test", "test2017"))


# What is refused


def said(name, **options) -> str:
    with pytest.raises(UserError) as caught:
        read_pairs(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


BAD = {
    "a\tb\nc\n": "columns",
    "a\tb\nc\td\te\n": "columns",
    "a\tb\n\nc\td\n": "columns",
    "a\tb\n \td\n": "empty",
    "a\tb\nc\t\u3000\n": "empty",
    b"a\tb\nc\td\xfcd\n": "encoding",
    b"a\tb\n\xed\xa0\x80\td\n": "encoding",
}


@pytest.mark.parametrize(("text", "kind"), BAD.items(), ids=map(ascii, BAD))
def test_a_bad_pair_is_named_by_its_line_or_left_out(tmp_path, text, kind):
    good = table(*BOTH).encode()
    data = text.encode() if isinstance(text, str) else text
    path = write(tmp_path / "own.tsv", data + good)
    with expect_error(DataIssue, kind=kind, line=2, file="own.tsv") as told:
        read_pairs(path)
    pairs = read_pairs(path, skip_bad=True)
    (fault,) = pairs.skipped
    assert (fault, fault.kind, fault.line) == (str(told.value), kind, 2)
    rest = data.count(b"\n") - 1
    assert len(everything(pairs)) == 40 + rest and set(BOTH) < set(everything(pairs))


def test_several_bad_pairs_are_counted(tmp_path):
    path = write(tmp_path / "own.tsv", "a\n" * 1_500 + table(*BOTH))
    with expect_error(DataIssue, kind="columns", line=1, file="own.tsv"):
        read_pairs(path)
    assert len(read_pairs(path, skip_bad=True).skipped) == 1_500
    path = write(tmp_path / "none.tsv", "a\n" * 1_500)
    with expect_error(DataIssue, kind="empty", file="none.tsv"):
        read_pairs(path, skip_bad=True)


def test_an_empty_line_on_one_side_is_named_by_its_file(tmp_path):
    one = write(tmp_path / "own.en", "a\nb\nc\n")
    other = write(tmp_path / "own.de", "A\n\nC\n")
    with expect_error(DataIssue, kind="empty", line=2, file="own.de"):
        read_pairs(f"{one},{other}")
    pairs = read_pairs(f"{one},{other}", skip_bad=True)
    assert everything(pairs) == [("a", "A"), ("c", "C")] and len(pairs.skipped) == 1


@pytest.mark.parametrize("skip_bad", [False, True])
def test_files_that_do_not_go_together_are_refused(tmp_path, skip_bad):
    one = write(tmp_path / "own.en", lines(ENGLISH * 30))
    other = write(tmp_path / "own.de", lines(GERMAN))
    with expect_error(DataIssue, kind="lengths", file="own.de"):
        read_pairs(f"{one},{other}", skip_bad=skip_bad)


@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_file_that_is_no_text_is_refused(tmp_path, skip_bad):
    path = write(tmp_path / "own.tsv", "a\tb\nc\td\n".encode("utf-16"))
    with expect_error(DataIssue, kind="encoding", line=1, file="own.tsv"):
        read_pairs(path, skip_bad=skip_bad)
    path = write(tmp_path / "own.tsv", b"a\tb\nc\td\0\n")
    with expect_error(DataIssue, kind="encoding", line=2, file="own.tsv"):
        read_pairs(path, skip_bad=skip_bad)
    for data in (b"", b"\xef\xbb\xbf"):
        path = write(tmp_path / "own.tsv", data)
        with expect_error(DataIssue, kind="empty", file="own.tsv"):
            read_pairs(path, skip_bad=skip_bad)
    path = tmp_path / "own.tsv.gz"
    path.write_bytes(gzip.compress(table(*BOTH).encode())[:-20])
    with expect_error(DataIssue, kind="damaged", file="own.tsv.gz"):
        read_pairs(path, skip_bad=skip_bad)


@pytest.mark.parametrize("text", ["a\tb\n", "a\tb\na\tc\n"])
def test_one_text_is_too_few(tmp_path, text):
    path = write(tmp_path / "own.tsv", text)
    with expect_error(DataIssue, kind="small", file="own.tsv"):
        read_pairs(path)


def test_what_is_not_there_is_said(tmp_path):
    there = write(tmp_path / "own.en", "a\n")
    with expect_error(DataIssue, kind="missing", file="own.tsv"):
        read_pairs(tmp_path / "own.tsv")
    with expect_error(DataIssue, kind="missing", file="own.de"):
        read_pairs(f"{there},{tmp_path / 'own.de'}")
    with expect_error(DataIssue, kind="missing"):
        read_pairs(f"{there},{tmp_path}")
    three = f"{there},{there},{there}"
    with expect_error(DataIssue, kind="several"):
        read_pairs(three)
    with expect_error(DataIssue, kind="missing", file="multi3k"):
        read_pairs("multi3k")
    with expect_error(DataIssue, kind="missing", file="zzz"):
        read_pairs("zzz")
    with expect_error(DataIssue, kind="unreadable"):
        read_pairs("x" * 5000)


def test_one_file_must_be_a_table(tmp_path):
    path = write(tmp_path / "own.txt", "a\tb\n")
    with expect_error(DataIssue, kind="format", file="own.txt"):
        read_pairs(path)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ([], "format"),
        (["train.en"], "format"),
        (["train.txt", "val.txt"], "format"),
        (["train.cs", "train.de", "train.en.gz"], "format"),
        (["train.en", "train.tsv"], "format"),
        (["train.de", "train.en", "train.en.gz"], "several"),
        (["train.de", "train.en", "val.en", "dev.en"], "several"),
        (["train.de", "train.en", "val.en"], "missing"),
    ],
)
def test_a_folder_in_doubt_is_a_sentence(tmp_path, names, kind):
    for name in names:
        write(tmp_path / "own" / name, "a\nb\n")
    (tmp_path / "own").mkdir(exist_ok=True)
    with expect_error(DataIssue, kind=kind, file="own"):
        read_pairs(tmp_path / "own")


def test_multi30k_without_its_training_texts_is_a_sentence(tmp_path):
    write(tmp_path / "data" / "multi30k" / "train.fr", "a\n")
    with expect_error(DataIssue, kind="missing", file="multi30k"):
        read_pairs("multi30k")


# The values themselves


def test_sides_are_equally_long_and_all_parts_are_there():
    with expect_error(ValueError):
        Pairs(("a", "b"), ("c",))
    with expect_error(ValueError):
        PairSet("mine", ("a", "b"), {"train": Pairs()})
    pairs = PairSet("mine", ("a", "b"), {part: Pairs() for part in ("train", "validation", "test")})
    with expect_error(ValueError):
        pairs["tset"]


def test_the_digest_tells_content_parts_and_direction_apart():
    def digest(**parts) -> str:
        empty = {"train": Pairs(), "validation": Pairs(), "test": Pairs()}
        return PairSet("any", ("a", "b"), {**empty, **parts}).digest

    some = Pairs(("a", "b"), ("c", "d"))
    different = [
        digest(),
        digest(train=some),
        digest(train=some.swapped()),
        digest(test=some),
        digest(train=Pairs(("a",), ("c",))),
        digest(train=Pairs(("b", "a"), ("d", "c"))),
        digest(train=some, test2017=some),
        digest(train=some, test2018=some),
    ]
    assert len(set(different)) == len(different)
    assert digest(train=some, b=some, a=Pairs()) == digest(a=Pairs(), b=some, train=some)


def test_what_is_asked_for_stays_true_in_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "own.en", "a\n")
    write(tmp_path / "own.de", "a\n")
    write(tmp_path / "numerals", "a folder or file of that name changes nothing\n")
    assert lasting_pairs("numerals") == "numerals"
    assert lasting_pairs("own.en") == str(tmp_path / "own.en")
    assert lasting_pairs("own.en, own.de") == f"{tmp_path / 'own.en'},{tmp_path / 'own.de'}"
    assert lasting_pairs("own.en,none.de") == "own.en,none.de"
    assert lasting_pairs("mine") == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_sentence(tmp_path):
    path = write(tmp_path / "own.tsv", table(*BOTH))
    path.chmod(0)
    with expect_error(UserError):
        read_pairs(path)


def test_every_name_is_read_or_says_how_to_get_it():
    assert set(PAIRS) == {"numerals", "multi30k"} and module.HELD == 1_000
    assert len(read_pairs("numerals")["test"])
