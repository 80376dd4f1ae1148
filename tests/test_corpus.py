"""A corpus has every character of its files once, in the part where it belongs."""

import gzip
import hashlib
import os
import sys
import sysconfig
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import expect_error
from regard.data import corpus as module
from regard.data import text as text_module
from regard.data.corpus import CORPORA, Corpus, find_corpus, read_corpus
from regard.data.images import SPLITS
from regard.data.synthetic import docstrings as python_text
from regard.data.text import Span, Text, last_break
from regard.data.tokenizer import TokenizerConfig, fit_vocabulary
from regard.errors import DataIssue, UserError

pytestmark = pytest.mark.usefixtures("own_folders")
LINES = "".join(f"{n}: ein Hündchen läuft, 犬が走る 🐕\n" for n in range(200))


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def whole(text: Text) -> str:
    return "".join(text)


def parts(corpus: Corpus) -> list[str]:
    return [whole(corpus[split]) for split in SPLITS]


# One file


@pytest.mark.parametrize("name", ["book.txt", "book.txt.gz", "book"])
@pytest.mark.parametrize("block", [7, 100, 2**20])
def test_the_last_tenth_of_the_characters_is_for_validation(tmp_path, monkeypatch, name, block):
    monkeypatch.setattr(text_module, "BLOCK", block)
    corpus = read_corpus(write(tmp_path / name, LINES))
    cut = len(LINES) * 9 // 10
    assert parts(corpus) == [LINES[:cut], LINES[cut:], ""]
    assert corpus.train.size == len(LINES[:cut].encode()) and corpus.test.size == 0
    assert corpus.name == name.removesuffix(".gz") and corpus.licence == "your own"


@pytest.mark.parametrize("text", ["ab", "é犬", "one\r\ntwo\r\n", "a" * 11, "\0 b"])
def test_a_short_file_is_divided_too_and_nothing_is_changed_in_it(tmp_path, text):
    train, validation, _ = parts(read_corpus(write(tmp_path / "a.txt", text)))
    assert train + validation == text and len(train) == len(text) * 9 // 10


def test_the_mark_that_editors_put_first_is_no_text(tmp_path):
    corpus = read_corpus(write(tmp_path / "a.txt", "\ufeff" + LINES))
    assert "".join(parts(corpus)) == LINES


@pytest.mark.parametrize("name", ["book.txt", "book.txt.gz"])
def test_a_large_file_is_divided_at_a_line_break(tmp_path, monkeypatch, name):
    monkeypatch.setattr(module, "EXACT", 100)
    train, validation, _ = parts(read_corpus(write(tmp_path / name, LINES)))
    assert train + validation == LINES and train.endswith("\n")
    size = len(LINES.encode())
    assert 0 <= len(train.encode()) - size * 9 // 10 < len(LINES.splitlines(True)[-1].encode())


@pytest.mark.parametrize(
    ("text", "validation"),
    [
        ("wort " * 100, "wort " * 10),
        ("犬" * 100, "犬" * 10),
        ("🐕" * 101, "🐕" * 11),
        ("x\n" + "a" * 100 + "\n", "a" * 10 + "\n"),  # the last line break has nothing after it
    ],
)
def test_without_lines_it_is_divided_at_a_word_or_a_character(
    tmp_path, monkeypatch, text, validation
):
    monkeypatch.setattr(module, "EXACT", 100)
    assert parts(read_corpus(write(tmp_path / "a.txt", text)))[1] == validation


def test_of_a_file_larger_than_memory_little_is_read(tmp_path):
    path = write(tmp_path / "large.txt", "To be\n")
    size = 2**36
    os.truncate(path, size)  # takes no room: what was never written is zeros
    corpus = read_corpus(path)
    assert corpus.train.size + corpus.validation.size == size
    assert abs(corpus.validation.size / size - 0.1) < 1e-6
    first, second, *_ = islice(corpus.train, 3)
    assert first + second[:2] == "To be\n\0" and len(second) <= 2 * text_module.BLOCK
    assert set(next(iter(corpus.validation))) == {"\0"}


# Folders


@pytest.mark.parametrize(
    "names",
    [
        ("train.txt", "valid.txt", "test.txt"),
        ("train.txt.gz", "validation.txt.gz", "test.txt.gz"),
        ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"),
        ("wiki.train.raw", "wiki.valid.raw", "wiki.test.raw"),
        ("ptb_Train.TXT", "ptb_Dev.TXT", "ptb_Test.TXT"),
    ],
)
def test_a_folder_with_a_file_for_each_part_has_these(tmp_path, names):
    for name, text in zip(names, ("learn\n", "choose\n", "test\n"), strict=True):
        write(tmp_path / "own" / name, text)
    write(tmp_path / "own" / "README.txt", "no part")
    corpus = read_corpus(tmp_path / "own")
    assert parts(corpus) == ["learn\n", "choose\n", "test\n"]
    assert (corpus.name, corpus.source) == ("own", str(tmp_path / "own"))


def test_what_a_folder_has_not_for_validation_is_held_out(tmp_path):
    write(tmp_path / "own" / "train.txt", "0123456789")
    write(tmp_path / "own" / "test.txt", "test")
    assert parts(read_corpus(tmp_path / "own")) == ["012345678", "9", "test"]


def test_texts_in_a_folder_are_joined_by_name_and_the_last_tenth_is_held_out(tmp_path):
    for name in ("b.txt", "a.md", "c-train.txt.gz"):
        write(tmp_path / "own" / name, f"{name}\n" * 100)
    for name in ("SOURCE.txt", "Licence.md", ".hidden.txt", "picture.png", "sub/d.txt"):
        write(tmp_path / "own" / name, "none of this\n")
    train, validation, test = parts(read_corpus(tmp_path / "own"))
    text = "a.md\n" * 100 + "b.txt\n" * 100 + "c-train.txt.gz\n" * 100
    assert train + validation == text and train.endswith("\n") and test == ""
    assert 0 <= len(train) - len(text) * 9 // 10 < len("c-train.txt.gz\n")


def test_between_two_files_there_is_a_line_break(tmp_path):
    for number in range(4):
        write(tmp_path / "own" / f"{number}.txt", f"text {number}" + "\n" * (number == 1))
    write(tmp_path / "own" / "2a.txt", "")
    write(tmp_path / "own" / "3b.txt", "\ufeffone two three four")
    corpus = read_corpus(tmp_path / "own")
    assert parts(corpus) == ["text 0\ntext 1\ntext 2\ntext 3\none two three ", "four", ""]
    assert corpus.train.size == len(whole(corpus.train).encode())


@given(st.lists(st.text("aé犬🐕 \n", min_size=1), min_size=2, max_size=5))
def test_every_character_of_a_folder_is_in_one_part(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("own")
    for number, text in enumerate(texts):
        write(folder / f"{number}.txt", text)
    try:
        train, validation, _ = parts(read_corpus(folder))
    except UserError as sentence:
        assert "nothing but spaces" in str(sentence) or "too few" in str(sentence)
        return
    lines = "".join(text if text.endswith("\n") else f"{text}\n" for text in texts[:-1])
    # Where the parts meet between two files, nothing has to come between them.
    assert lines + texts[-1] in (train + validation, f"{train}\n{validation}")
    assert train and validation


def test_a_folder_with_one_text_is_that_text(tmp_path):
    write(tmp_path / "own" / "book.txt", LINES)
    write(tmp_path / "own" / "SOURCE.txt", "somewhere")
    folder, file = read_corpus(tmp_path / "own"), read_corpus(tmp_path / "own" / "book.txt")
    assert folder.digest == file.digest and (folder.name, file.name) == ("own", "book.txt")


# Names


def test_a_name_is_looked_for_where_data_are(tmp_path, monkeypatch):
    write(tmp_path / "data" / "tinyshakespeare" / "input.txt.gz", LINES)
    write(tmp_path / "data" / "mine.txt", LINES)
    corpus = read_corpus("tiny_shakespeare")
    assert corpus.name == "tiny_shakespeare" and corpus.licence == "public domain"
    assert read_corpus(tmp_path / "data" / "tinyshakespeare") == corpus
    assert find_corpus("tiny_shakespeare") == tmp_path / "data" / "tinyshakespeare"
    assert read_corpus("mine.txt").digest == corpus.digest
    assert find_corpus("wikitext-2") is None is find_corpus("stdlib")
    where = str(tmp_path / "data" / "wikitext-2")
    with expect_error(DataIssue, kind="absent") as told:
        read_corpus("wikitext-2")
    assert str(told.value).endswith(where)


@pytest.mark.data("tiny_shakespeare")
def test_tiny_shakespeare_is_divided_as_everybody_divides_it():
    corpus = read_corpus("tiny_shakespeare")
    train, validation, test = parts(corpus)
    assert (len(train), len(validation), test) == (1_003_854, 111_540, "")
    together = hashlib.sha256((train + validation).encode()).hexdigest()
    assert together == "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
    vocabulary = fit_vocabulary(corpus.train, TokenizerConfig(name="char", min_frequency=1))
    assert len(vocabulary.characters) == 65


@pytest.mark.data("wikitext-2")
def test_wikitext_2_has_the_words_it_is_known_for():
    corpus = read_corpus("wikitext-2")
    for split, lines, words in (
        ("train", 36_718, 2_051_910),
        ("validation", 3_760, 213_886),
        ("test", 4_358, 241_211),
    ):
        text = whole(corpus[split])
        assert (text.count("\n"), len(text.split())) == (lines, words)
    assert corpus.licence.startswith("CC BY-SA")


# What can be wrong


def cut_short(path: Path) -> Path:
    write(path, os.urandom(50_000).hex())
    path.write_bytes(path.read_bytes()[:-1000])
    return path


def damaged(path: Path) -> Path:
    write(path, os.urandom(50_000).hex())
    packed = bytearray(path.read_bytes())
    packed[1000:1100] = bytes(100)
    path.write_bytes(packed)
    return path


def folder_of(path: Path, **files: str) -> Path:
    path.mkdir()
    for name, text in files.items():
        write(path / f"{name}.txt", text)
    return path


FAULTS = {
    "missing": (lambda here: here / "no.txt", "missing"),
    "empty": (lambda here: write(here / "a.txt", ""), "empty"),
    "only a mark": (lambda here: write(here / "a.txt", "\ufeff"), "empty"),
    "empty and packed": (lambda here: write(here / "a.gz", ""), "empty"),
    "white": (lambda here: write(here / "a.txt", " \n\t" * 9), "empty"),
    "one letter": (lambda here: write(here / "a.txt", "a"), "small"),
    "latin": (lambda here: write(here / "a.txt", "Hünd".encode("latin-1")), "encoding"),
    "utf-16": (lambda here: write(here / "a.txt", "Hund".encode("utf-16")), "encoding"),
    "half a letter": (lambda here: write(here / "a.txt", "Hundeé".encode()[:-1]), "encoding"),
    "cut short": (lambda here: cut_short(here / "a.gz"), "damaged"),
    "damaged": (lambda here: damaged(here / "a.gz"), "damaged"),
    "no text": (lambda here: folder_of(here / "own"), "format"),
    "empty texts": (lambda here: folder_of(here / "own", a="", b=""), "empty"),
    "two for training": (
        lambda here: folder_of(here / "own", **{"train": "a", "train-2": "b", "test": "c"}),
        "several",
    ),
    "an empty part": (lambda here: folder_of(here / "own", train="a", valid="b", test=""), "empty"),
    "a part that is no text": (
        lambda here: write(folder_of(here / "own", train="a") / "test.txt", b"\xff").parent,
        "encoding",
    ),
    "too long": (lambda here: here / ("a" * 5000), "unreadable"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_one_sentence(tmp_path, fault):
    make, kind = FAULTS[fault]
    with expect_error(DataIssue, kind=kind) as told:
        read_corpus(make(tmp_path))
    assert "\n" not in str(told.value)


def test_a_name_that_nobody_has_gets_the_nearest():
    with expect_error(DataIssue, kind="missing", file="docstring"):
        read_corpus("docstring")
    with expect_error(DataIssue, kind="missing", file="xyz"):
        read_corpus("xyz")


@given(st.text("aé犬🐕 \n", min_size=40, max_size=80), st.data())
def test_the_first_byte_that_is_no_utf_8_is_named(tmp_path_factory, text, data):
    at = data.draw(st.integers(0, len(text)))
    bad = len(text[:at].encode())
    path = tmp_path_factory.mktemp("own") / "a.txt"
    path.write_bytes(text[:at].encode() + b"\xff" + text[at:].encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "BLOCK", data.draw(st.integers(1, 20)))
        with pytest.raises(UserError, match=f"not UTF-8: byte {bad}, 0xff"):
            read_corpus(path)


def test_a_fault_deep_in_a_large_file_is_told_when_it_is_met(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "EXACT", 100)
    monkeypatch.setattr(text_module, "BLOCK", 50)
    corpus = read_corpus(write(tmp_path / "a.txt", b"a b\n" * 100 + b"\xff" + b"a b\n" * 100))
    with expect_error(DataIssue, kind="encoding", file="a.txt"):
        whole(corpus.train)


def test_a_file_that_shrinks_meanwhile_is_told(tmp_path):
    path = write(tmp_path / "a.txt", LINES)
    corpus = read_corpus(path)
    os.truncate(path, 100)
    for read in (whole, Text.digest):
        with expect_error(DataIssue, kind="changed", file="a.txt"):
            read(corpus.train)
    path.unlink()
    with expect_error(DataIssue, kind="unreadable", file="a.txt"):
        whole(corpus.train)


# Blocks


@given(st.text("ab.é犬🐕 \r\n\t\u0301'"), st.integers(1, 30))
def test_blocks_are_the_text_and_no_longer_than_they_should_be(text, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "BLOCK", block)
        blocks = list(Text((text,)))
    assert "".join(blocks) == text and all(blocks)
    assert all(len(some) < 2 * block for some in blocks)


def test_a_block_ends_before_a_line_or_else_before_a_word():
    assert last_break("one two\nthree four") == len("one two")
    assert last_break("one two") == len("one") and last_break("one\r\ntwo") == len("one")
    assert last_break("one  \n\n two") == len("one") and last_break("\n") == last_break("one") == 0


def test_blocks_are_about_a_megabyte(tmp_path):
    path = write(tmp_path / "a.txt", "Now is the winter of our discontent.\n" * 100_000)
    blocks = list(Text((Span(path, 0, path.stat().st_size),)))
    assert len(blocks) == 4 and all(some[0] == "\n" for some in blocks[1:])
    assert all(abs(len(some) - text_module.BLOCK) < 100 for some in blocks[:-1])


PARTS = (
    "dog",
    "Σ",
    " ",
    "    ",
    "\n",
    "\r\n",
    "\n\n",
    "'s",
    "3",
    "3.5",
    "犬",
    "!",
    "\t",
    "é\u0301",
)
FITTED = [
    fit_vocabulary(["dog's dogs\n\n    3.5 !!  \n\n\n", *PARTS], TokenizerConfig(**fields))
    for fields in (
        {"name": "word", "min_frequency": 1},
        {"name": "bpe", "min_frequency": 1, "vocab_size": 290},
        {"name": "char", "min_frequency": 1},
        {"name": "byte"},
    )
]


@given(st.lists(st.sampled_from(PARTS)), st.integers(12, 30), st.sampled_from(FITTED))
def test_blocks_have_the_numbers_of_the_whole(some, block, vocabulary):
    # No run of letters may fill a block: one that does is cut, as nobody could do otherwise.
    text = "".join(part + (" " if n % 3 == 2 else "") for n, part in enumerate(some))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "BLOCK", block)
        blocks = list(Text((text,)))
    numbers = [number for part in blocks for number in vocabulary.encode(part)]
    assert numbers == vocabulary.encode(text)


def test_a_digest_is_of_the_bytes_wherever_they_are(tmp_path):
    plain, packed = (write(tmp_path / name, LINES) for name in ("a.txt", "a.gz"))
    size = len(LINES.encode())
    ways = (
        Text((LINES,)),
        Text((LINES[:500], LINES[500:])),
        Text((Span(plain, 0, size),)),
        Text((Span(packed, 0, 1000), Span(plain, 1000, size))),
    )
    assert {way.digest() for way in ways} == {hashlib.sha256(LINES.encode()).hexdigest()}
    assert {way.size for way in ways} == {size}
    assert Text().digest() == hashlib.sha256(b"").hexdigest() and list(Text()) == []


def test_a_corpus_is_told_apart_by_what_is_in_which_part(tmp_path):
    def corpus(train: str, validation: str) -> Corpus:
        return Corpus("own", Text((train,)), Text((validation,)), Text())

    assert corpus("ab", "c").digest == corpus("ab", "c").digest != corpus("a", "bc").digest
    with expect_error(ValueError):
        corpus("ab", "c")["dev"]


def test_half_a_surrogate_pair_is_refused():
    with expect_error(ValueError):
        Text(("ab\ud83d",))


# What every Python brings along


SOURCE = '''"""Say hello.

    Twice."""
def hello():
    "Say it once."
    def inner():
        """Say hello.

        Twice."""
    class Inside:
        """Be inside: é.

        >>> 1 + 1
        2

          >>> for n in 3:
          ...     pass

          Be last.
        """
async def wait(): """Wait."""
x = """No docstring."""
bad = lambda: "\\ud800"
def half(): "Half \\ud800."
'''


@pytest.fixture
def library(tmp_path, monkeypatch) -> Path:
    """A standard library of five modules, with what must not be taken for more of it."""
    folder = tmp_path / "python"
    files = {
        "re.py": "def f(): '>>> 2 + 2'",
        "os.py": SOURCE,
        "json/__init__.py": '"""Wait."""\n"""Two."""\ndef f(): "Read JSON."',
        "json/tool.py": "# -*- coding: latin-1 -*-\n'''F\xfcr alle.'''\r\n".encode("latin-1"),
        "ast.py": "def broken(:",
        "json/tests/test_it.py": "'''A test.'''",
        "idlelib/idle_test/a.py": "'''A test.'''",
        "site-packages/numpy.py": "'''Installed.'''",
        "encodings/cp1250.py": "'''A table.'''",
        "sitecustomize.py": "'''Somebody's own.'''",
        "_sysconfigdata_linux.py": "'''Of this machine.'''",
    }
    for name, text in files.items():
        write(folder / name, text)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(folder))
    monkeypatch.setattr(python_text, "FEWEST", 5)
    return folder


def test_docstrings_are_taken_once_in_the_order_of_modules_and_lines(library, monkeypatch):
    monkeypatch.setattr(python_text, "part_of", lambda name: "train")
    corpus = read_corpus("docstrings")
    said = ["Wait.", "Read JSON.", "Für alle.", "Say hello.\n\nTwice.", "Say it once."]
    assert whole(corpus.train) == "".join(
        f"{text}\n\n" for text in [*said, "Be inside: é.\n\n  Be last."]
    )
    version = ".".join(map(str, sys.version_info[:3]))
    assert corpus.name.startswith(f"docstrings (Python {version}")
    assert corpus.licence == CORPORA["docstrings"].licence == "PSF-2.0"


def test_source_is_taken_module_after_module(library, monkeypatch):
    monkeypatch.setattr(python_text, "part_of", lambda name: "test")
    text = whole(read_corpus("stdlib").test)
    at = [text.index(words) for words in ("def broken", "Read JSON", "Für alle", "Say hello")]
    assert at == sorted(at) and "\r" not in text
    assert not any(
        words in text for words in ("A test", "A table", "Installed", "Somebody", "Of this")
    )


def test_a_part_is_told_by_the_name_of_the_module_alone():
    named = {"os": "train", "json.tool": "train", "bz2": "validation", "ast": "test"}
    assert {name: python_text.part_of(name) for name in named} == named
    names = [f"module{n}" for n in range(3000)]
    shares = [sum(python_text.part_of(name) == split for name in names) for split in SPLITS]
    assert abs(shares[0] - 2400) < 100 and abs(shares[1] - 300) < 60 and abs(shares[2] - 300) < 60


def test_a_library_is_read_once_and_again_when_it_or_the_cache_changes(library, monkeypatch):
    seen = []
    plain = python_text.gathered
    monkeypatch.setattr(python_text, "gathered", lambda *given: seen.append(1) or plain(*given))
    first = read_corpus("docstrings")
    assert read_corpus("docstrings") == first and len(seen) == 1
    (kept,) = (module.Path(os.environ["XDG_CACHE_HOME"]) / "regard" / "texts").iterdir()
    for damage in (b"", kept.read_bytes()[:-5], b"[]", b'{"train": ""}', b"\xff"):
        kept.write_bytes(damage)
        assert read_corpus("docstrings") == first
    assert len(seen) == 6
    write(library / "os.py", '"""Something else."""')
    assert read_corpus("docstrings") != first and len(seen) == 7


def test_without_a_place_to_keep_it_a_library_is_still_read(library, tmp_path, monkeypatch):
    first = read_corpus("docstrings")
    monkeypatch.setenv("XDG_CACHE_HOME", str(write(tmp_path / "file", "")))
    assert read_corpus("docstrings") == first


def test_a_python_without_sources_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "python311.zip"))
    with expect_error(UserError):
        read_corpus("stdlib")


def test_this_python_has_enough_to_learn_from():
    corpus = read_corpus("docstrings")
    sizes = [corpus[split].size for split in SPLITS]
    assert sum(sizes) > 10**6 and all(size > sum(sizes) / 50 for size in sizes)
    assert "Return" in whole(corpus.train)
    said = [set(text.split("\n\n")) for text in parts(corpus)]
    assert len(said[0]) > 5000
    source = read_corpus("stdlib")
    assert source.train.size > 3 * corpus.train.size and source.digest != corpus.digest


def test_files_of_a_program_are_no_parts(tmp_path):
    for name in ("train.py", "test.py", "util.py"):
        write(tmp_path / "code" / name, f"# {name}\n" * 40)
    texts = parts(read_corpus(tmp_path / "code"))
    assert all(f"# {name}" in "".join(texts) for name in ("train.py", "test.py", "util.py"))
    assert texts[2] == ""
