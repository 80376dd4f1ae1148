"""Sentences are cut where the Java tokeniser of the published scores cuts them."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from record_caption_fixtures import FIXTURES, java_words
from regard.evaluation.ptb import all_words, scanned_words, words

RECORDED = json.loads(FIXTURES.read_text("utf-8"))["words"]


@pytest.mark.parametrize("text, cut", RECORDED, ids=[text[:30] for text, _ in RECORDED])
def test_words_are_those_that_java_said(text, cut):
    assert words(text) == cut


PIECES = ["A", "dog", "cannot", "Gonna", "it", "st", ".", "..", ",", "'", "'s", "", "é"]


@given(st.lists(st.sampled_from(PIECES), max_size=8))
def test_the_easy_way_and_the_full_rules_agree(parts):
    text = " ".join(parts)
    assert words(text) == scanned_words(text)


@given(st.text())
def test_any_text_gives_words_without_spaces_and_never_fails(text):
    found = words(text)
    assert all(word and word == "".join(word.split()) for word in found)


@given(st.text(alphabet="abcdefgXYZ '.,!?-/0123$&", max_size=40))
def test_a_thing_that_is_no_word_separates_nothing_else(text):
    assert words(f"  {text}\n") == words(text)


@pytest.mark.parametrize(
    "text, cut",
    [
        ("", []),
        (" \n\t ", []),
        (".,;:-'\"`…", []),
        ("😀 👍🏽", []),
        ("a😀b", ["a", "b"]),
        ("line\nbreak", ["line", "break"]),
        ("שלום עולם!", ["שלום", "עולם"]),
        ("soft\xadhyphen", ["softhyphen"]),
        ("(yes)", ["-lrb-", "yes", "-rrb-"]),
        ("no!!", ["no", "!!"]),
    ],
    ids=repr,
)
def test_what_is_hardly_a_sentence(text, cut):
    assert words(text) == cut


def test_a_thousand_words_and_a_very_long_one():
    assert words("word " * 1000) == ["word"] * 1000
    assert words("x" * 100_000) == ["x" * 100_000]
    assert len(words("don't." * 5000)) == 10_000
    assert len(words("a-" * 20_000)) > 0


@pytest.mark.parametrize(
    "piece", ["a+", "a--", "<!--", "a.", "a@", "http://.", "x'", "1,", "<a ", "a/", ". ", "a_"]
)
def test_long_nonsense_takes_no_longer_than_its_length(piece):
    start = time.process_time()
    words(piece * 20_000)
    assert time.process_time() - start < 5


def test_several_sentences_keep_their_order():
    assert all_words(["A dog.", "", "A cat."]) == [["a", "dog"], [], ["a", "cat"]]


@pytest.mark.java
def test_words_are_still_what_java_says():
    pytest.importorskip("pycocoevalcap")
    texts = [text for text, _ in RECORDED]
    assert java_words(texts) == [cut for _, cut in RECORDED]


@pytest.mark.java
@pytest.mark.data("flickr8k")
def test_captions_of_flickr8k_are_cut_as_java_cuts_them():
    pytest.importorskip("pycocoevalcap")
    file = Path(os.environ["REGARD_DATA"]) / "flickr8k/Flickr8k_text/Flickr8k.token.txt"
    texts = [line.split("\t")[1] for line in file.read_text("utf-8").splitlines()]
    # Glued as people type, too: the captions as they are have a space before each full stop.
    for version in (texts, [text.replace(" .", ".").replace(" ,", ",") for text in texts]):
        same = sum(
            ours == theirs
            for ours, theirs in zip(all_words(version), java_words(version), strict=True)
        )
        assert same >= 0.999 * len(texts), f"{same:,} of {len(texts):,}"
