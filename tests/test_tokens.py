"""A text is encoded once, block by block, and what is kept is checked before use."""

import json
import os
import shutil
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from golden import expect_error
from regard.data import corpus as corpus_module
from regard.data import tokens as module
from regard.data.corpus import read_corpus
from regard.data.letters import CharacterVocabulary
from regard.data.text import Span, Text
from regard.data.tokenizer import TokenizerConfig, fit_vocabulary
from regard.data.tokens import tokenised, tokens_folder, tokens_in_memory, tokens_of
from regard.errors import DataIssue

LINES = "".join(f"Line {n}: a dog's life, 犬 🐕!\n" for n in range(300))
KINDS = {
    "word": TokenizerConfig(name="word", min_frequency=2),
    "bpe": TokenizerConfig(name="bpe", vocab_size=300),
    "char": TokenizerConfig(name="char"),
    "byte": TokenizerConfig(name="byte"),
}


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(corpus_module, "BLOCK", 1000)


@pytest.fixture
def text(tmp_path) -> Text:
    path = tmp_path / "book.txt"
    path.write_text(LINES, encoding="utf-8", newline="")
    return Text((Span(path, 0, path.stat().st_size),))


def encodings(monkeypatch) -> list[int]:
    """Has a number for each text that is encoded from now on."""
    seen: list[int] = []
    plain = module.encoded

    def counted(text, vocabulary):
        seen.append(text.size)
        return plain(text, vocabulary)

    monkeypatch.setattr(module, "encoded", counted)
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_kept_are_the_numbers_of_the_whole(text, kind):
    vocabulary = fit_vocabulary(text, KINDS[kind])
    plain = vocabulary.encode(LINES)
    for _ in range(2):  # encoded, then kept
        tokens = tokens_of(text, vocabulary)
        assert isinstance(tokens.numbers, np.memmap) and not tokens.numbers.flags.writeable
        assert tokens.numbers.dtype == np.uint16 and tokens.numbers.tolist() == plain
        assert tokens.bytes == len(LINES.encode()) and len(tokens) == len(plain)
        assert tokenised(text, vocabulary).tolist() == plain
    assert tokens.unknown == (plain.count(3) if kind in ("word", "char") else 0)
    memory = tokens_in_memory(text, vocabulary)
    np.testing.assert_array_equal(memory.numbers, tokens.numbers)
    assert (memory.bytes, memory.unknown) == (tokens.bytes, tokens.unknown)


def test_what_the_vocabulary_does_not_have_is_counted(text):
    vocabulary = fit_vocabulary(["Line a dog's life"], KINDS["char"])
    known = sum(sign in vocabulary.characters for sign in LINES)
    tokens = tokens_of(text, vocabulary)
    assert 0 < known < len(LINES) and tokens.unknown == len(LINES) - known
    assert tokens_of(text, vocabulary).unknown == tokens.unknown


def test_a_large_vocabulary_takes_32_bits():
    signs = "".join(map(chr, range(0x10000, 0x10000 + 2**16)))
    vocabulary = CharacterVocabulary(("padding", "start", "end", "unknown"), signs)
    tokens = tokens_of(Text((signs,)), vocabulary)
    assert tokens.numbers.dtype == np.uint32 and isinstance(tokens.numbers, np.memmap)
    np.testing.assert_array_equal(tokens.numbers, np.arange(4, 4 + 2**16))


def test_an_empty_text_has_no_numbers(monkeypatch):
    vocabulary = fit_vocabulary([], KINDS["byte"])
    seen = encodings(monkeypatch)
    for tokens in (tokens_of(Text(), vocabulary), tokens_of(Text(), vocabulary)):
        assert len(tokens) == tokens.bytes == tokens.unknown == 0
    assert len(seen) == 1 and len(tokens_in_memory(Text(), vocabulary)) == 0


def test_a_second_time_nothing_is_encoded_unless_text_or_vocabulary_changed(text, monkeypatch):
    seen = encodings(monkeypatch)
    raw, more = fit_vocabulary([], KINDS["byte"]), fit_vocabulary([], KINDS["byte"], extra=["mask"])
    for _ in range(2):
        assert tokens_of(text, raw).numbers[0] + 1 == tokens_of(text, more).numbers[0]
    assert len(seen) == 2
    one, other = (fit_vocabulary([signs * 2], KINDS["char"]) for signs in ("dog", "cat"))
    assert tokens_of(text, one).unknown != tokens_of(text, other).unknown
    del seen[2:]
    tokens_of(Text((LINES,)), raw)  # the same text, in memory
    assert len(seen) == 2
    tokens_of(Text((LINES + "!",)), raw)
    assert len(seen) == 3
    monkeypatch.setattr(module, "RULE", 0)
    tokens_of(text, raw)
    assert len(seen) == 4


def spoil_by_cutting(entry: Path) -> None:
    os.truncate(entry / "numbers", 1000)


def spoil_by_adding(entry: Path) -> None:
    with (entry / "numbers").open("ab") as file:
        file.write(b"more")


def spoil_facts(entry: Path) -> None:
    (entry / "facts.json").write_text('{"count": 14, "by')


def spoil_count(entry: Path) -> None:
    facts = json.loads((entry / "facts.json").read_text())
    (entry / "facts.json").write_text(json.dumps({**facts, "count": 1}))


def spoil_by_losing(entry: Path) -> None:
    (entry / "numbers").unlink()


def spoil_by_a_file(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.mkdir()


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_by_cutting,
        spoil_by_adding,
        spoil_facts,
        spoil_count,
        spoil_by_losing,
        spoil_by_a_file,
    ],
)
def test_a_damaged_entry_is_made_again(text, monkeypatch, spoil):
    vocabulary = fit_vocabulary(text, KINDS["char"])
    expected = tokens_of(text, vocabulary).numbers.tolist()
    (entry,) = tokens_folder().iterdir()
    spoil(entry)
    seen = encodings(monkeypatch)
    assert tokens_of(text, vocabulary).numbers.tolist() == expected
    assert len(seen) == 1
    assert sorted(file.name for file in tokens_folder().glob("*/*")) == ["facts.json", "numbers"]


def test_nothing_half_written_is_ever_in_place(text, monkeypatch):
    def stopped(text, vocabulary):
        yield vocabulary.encode_array("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "encoded", stopped)
    with pytest.raises(KeyboardInterrupt):
        tokens_of(text, fit_vocabulary([], KINDS["byte"]))
    assert list(tokens_folder().iterdir()) == []


def test_a_fault_in_the_text_is_told_and_nothing_is_kept(text):
    (span,) = text.pieces
    span.path.write_bytes(LINES.encode()[:-1] + b"\xff")
    with expect_error(DataIssue, kind="encoding", file="book.txt"):
        tokens_of(text, fit_vocabulary([], KINDS["byte"]))
    assert list(tokens_folder().iterdir()) == []


def test_a_text_that_changes_meanwhile_is_not_kept_under_the_wrong_name(text):
    text.digest()
    (span,) = text.pieces
    span.path.write_text(LINES.replace("dog", "cat"), encoding="utf-8", newline="")
    with expect_error(DataIssue, kind="changed"):
        tokens_of(text, fit_vocabulary([], KINDS["byte"]))
    assert list(tokens_folder().iterdir()) == []


def unwritable(monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))


def full(monkeypatch, tmp_path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    plain = module.draft_folder

    @contextmanager
    def with_no_room(path):
        with plain(path) as folder:
            (folder / "numbers").symlink_to("/dev/full")
            yield folder

    monkeypatch.setattr(module, "draft_folder", with_no_room)


@pytest.mark.parametrize("trouble", [unwritable, full])
def test_without_a_place_to_keep_them_numbers_are_still_given(text, tmp_path, monkeypatch, trouble):
    vocabulary = fit_vocabulary(text, KINDS["char"])
    expected = tokens_of(text, vocabulary)
    shutil.rmtree(tokens_folder())
    trouble(monkeypatch, tmp_path)
    found = tokens_of(text, vocabulary)
    assert not isinstance(found.numbers, np.memmap)
    np.testing.assert_array_equal(found.numbers, expected.numbers)
    assert (found.bytes, found.unknown) == (expected.bytes, expected.unknown)
    assert not tokens_folder().is_dir() or list(tokens_folder().iterdir()) == []


def test_a_large_file_takes_little_memory(tmp_path, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    line = "Now is the winter of our discontent — made glorious.\n"
    path = tmp_path / "large.txt"
    with path.open("wb") as file:
        for _ in range(50):
            file.write(line.encode() * 19_000)
    assert path.stat().st_size > 50 * 10**6
    vocabulary = fit_vocabulary([line * 2], KINDS["char"])
    tracemalloc.start()
    try:
        corpus = read_corpus(path)
        tokens = tokens_of(corpus.train, vocabulary)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 40 * 2**20
    assert len(tokens) == 50 * 19_000 * len(line) * 9 // 10
    assert isinstance(tokens.numbers, np.memmap) and tokens.unknown == 0
    assert vocabulary.decode(tokens.numbers[-len(line) :].tolist()) in line * 2
