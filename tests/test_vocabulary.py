"""A vocabulary gives back what it was given, and is the same on every machine."""

import json
import os
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from golden import expect_error
from regard.data import blocks as blocks_module
from regard.data.blocks import in_blocks
from regard.data.byte_pairs import BytePairVocabulary, join_neighbours, signs_of_bytes
from regard.data.entries import number_kind
from regard.data.letters import CharacterVocabulary, RawVocabulary
from regard.data.tokenizer import TokenizerConfig, Vocabulary, fit_vocabulary, from_text
from regard.data.word_pieces import WordPieceVocabulary, longest_pieces, read_wordpieces
from regard.data.words import WordVocabulary, normalised, words_of
from regard.errors import DataIssue, FieldError

TEXTS = (
    "A brown dog runs over the grass .",
    "A dog and a cat sleep on the sofa.",
    "The dog's owner throws a ball; the dog brings it back!",
    "Zwei Hunde spielen im Schnee — 犬が二匹、雪で遊ぶ 🐕‍🦺",
)
WORDS = TokenizerConfig(name="word", min_frequency=1)
BYTES = TokenizerConfig(name="bpe", min_frequency=1, vocab_size=330)
CHARACTERS = TokenizerConfig(name="char", min_frequency=1)
RAW = TokenizerConfig(name="byte")
KINDS = (WORDS, BYTES, CHARACTERS, RAW)
ALL = pytest.mark.parametrize("config", KINDS, ids=lambda config: config.name)

# Unicode as people and attackers write it: anything, and dense in what the rules turn on.
ANY_TEXT = st.text() | st.text("aÅΣİ１3.,'’-_ \n\t\u0301\u200d\u200c\ufe0f👩🏽🇩🇪ि=\u0338")


# Words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A man in a T-shirt .", "a|man|in|a|t-shirt|."),
        ("the man's dog, the man 's dog", "the|man|'s|dog|,|the|man|'s|dog"),
        ("isn’t it 5 o'clock?", "isn't|it|5|o'clock|?"),
        ("they're 'quoted' dogs'", "they|'re|'|quoted|'|dogs|'"),
        ("'same' 'stop", "'|same|'|'|stop"),
        ("3.5 km, 1,000 m. 7.", "3.5|km|,|1,000|m|.|7|."),
        ("rock--wall (steep)...", "rock|-|-|wall|(|steep|)|.|.|."),
        ("Cafe\u0301 CAFÉ", "café|café"),
        ("हिन्दी में लिखो।", "हिन्दी|में|लिखो|।"),
        ("می‌خواهم", "می‌خواهم"),
        ("שלום, עולם", "שלום|,|עולם"),
        ("👩🏽‍🚒🇩🇪🇫🇷 ❤️ 1️⃣", "👩🏽‍🚒|🇩🇪|🇫🇷|❤️|1️⃣"),
        (" \t\n", ""),
    ],
)
def test_words_are_cut_by_the_rule(text, words):
    assert words_of(text) == (words.split("|") if words else [])


@given(ANY_TEXT)
def test_a_normalised_text_stays_as_it_is_and_nothing_visible_is_lost(text):
    once = normalised(text)
    assert normalised(once) == once
    spelt = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())
    assert "".join(once.split()) == "".join(spelt.replace("’", "'").split())


@given(ANY_TEXT)
def test_words_that_are_known_come_back_as_the_normalised_text(text):
    assume(words_of(text))
    vocabulary = fit_vocabulary([text], WORDS)
    numbers = vocabulary.encode(text)
    assert vocabulary.decode(numbers) == normalised(text)
    assert min(numbers) >= len(vocabulary.specials)


def test_the_most_frequent_words_come_first_and_equals_by_letter():
    texts = ["b a c c", "c b a d"]
    assert fit_vocabulary(texts, WORDS).words == ("c", "a", "b", "d")
    assert fit_vocabulary(texts, TokenizerConfig(min_frequency=2)).words == ("c", "a", "b")
    assert fit_vocabulary(texts, TokenizerConfig(min_frequency=1, vocab_size=6)).words == ("c", "a")


def test_a_word_that_is_not_there_is_unknown():
    vocabulary = fit_vocabulary(["a dog", "a cat"], TokenizerConfig(min_frequency=2))
    assert vocabulary.encode("A zebra!") == [4, 3, 3] and vocabulary.unknown == 3
    assert vocabulary.decode([1, 4, 3, 2, 0, 0]) == "a <unknown>"


def test_no_words_is_a_sentence():
    with expect_error(ValueError):
        fit_vocabulary(["a b", "a"], TokenizerConfig(min_frequency=3))
    with expect_error(ValueError):
        fit_vocabulary([], WORDS)


# Byte pairs


@given(st.text() | ANY_TEXT)
def test_byte_pairs_give_every_text_back_exactly(text):
    assert FITTED.decode(FITTED.encode(text)) == text


FITTED = fit_vocabulary(TEXTS, BYTES)


def cut(text: str) -> list[bytes]:
    """The words that byte pairs stay within, as the library cuts them."""
    back = {sign: byte for byte, sign in enumerate(signs_of_bytes())}
    cutter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return [bytes(back[s] for s in word) for word, _ in cutter.pre_tokenize_str(text)]


@given(ANY_TEXT | st.sampled_from(TEXTS))
def test_encoding_is_joining_neighbours_in_the_order_they_were_learnt(text):
    pieces = FITTED.pieces
    ranks = {(pieces[a], pieces[b]): rank for rank, (a, b) in enumerate(FITTED.merges)}
    plain = [piece for word in cut(text) for piece in join_neighbours(word, ranks)]
    assert [FITTED.pieces[number - 3] for number in FITTED.encode(text)] == plain
    assert b"".join(plain) == text.encode()


def learn_plainly(texts, floor: int, size: int) -> list[tuple[bytes, bytes]]:
    """The merges by counting all pairs again each time; equals by the number of the pieces."""
    numbers = {bytes([byte]): n for n, byte in enumerate(sorted(range(256), key=visible_order))}
    words = Counter(word for text in texts for word in cut(text))
    spelt = {word: [word[at : at + 1] for at in range(len(word))] for word in words}
    merges: list[tuple[bytes, bytes]] = []
    while len(numbers) < size:
        count: Counter[tuple[bytes, bytes]] = Counter()
        for word, n in words.items():
            for pair in pairwise(spelt[word]):
                count[pair] += n
        if not count:
            break
        best = min(count, key=lambda pair: (-count[pair], numbers[pair[0]], numbers[pair[1]]))
        if count[best] < floor:
            break
        merges.append(best)
        numbers.setdefault(b"".join(best), len(numbers))
        ranks = {pair: rank for rank, pair in enumerate(merges)}
        spelt = {word: join_neighbours(word, ranks) for word in words}
    return merges


def visible_order(byte: int) -> str:
    return signs_of_bytes()[byte]


@pytest.mark.parametrize(("floor", "size"), [(1, 300), (2, 290), (3, 900)])
def test_learning_is_joining_the_most_frequent_pair_again_and_again(floor, size):
    texts = [*TEXTS, "aaaa aaab abab " * 3]
    ours = fit_vocabulary(texts, TokenizerConfig(name="bpe", min_frequency=floor, vocab_size=size))
    pieces = ours.pieces
    assert [(pieces[a], pieces[b]) for a, b in ours.merges] == learn_plainly(texts, floor, size - 3)
    assert len(ours) <= size


def test_the_signs_of_bytes_are_those_of_the_library():
    assert sorted(signs_of_bytes()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    cutter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    text = "".join(map(chr, range(0x800)))
    (word, _), *_ = cutter.pre_tokenize_str(text)
    assert word == "".join(signs_of_bytes()[byte] for byte in text.encode())


PARTS = ("dog", " ", "    ", "\n", "\n\n", "'s", "3", "犬", "!", "\t", "é")
SPACED = fit_vocabulary(
    [*TEXTS, "if x:\n    y\n\n\n    z\n        dog's  \t\t!\n" * 3],
    TokenizerConfig(name="bpe", min_frequency=2, vocab_size=320),
)


@given(st.lists(st.sampled_from(PARTS)))
def test_a_long_text_in_blocks_gives_the_numbers_of_the_whole(parts):
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "BLOCK", 3)
        blocks, numbers = list(in_blocks(text)), SPACED.encode(text)
    assert "".join(blocks) == text and numbers == SPACED._tokenizer.encode(text).ids


def test_blocks_are_about_as_long_as_they_should_be():
    blocks = list(in_blocks("dog " * 100_000))
    assert len(blocks) == 25 and max(map(len, blocks)) < blocks_module.BLOCK + 5


def test_a_model_may_write_bytes_that_are_no_text():
    number = FITTED.encode("é")[0]
    assert FITTED.decode([1, 3 + 0xC3, 3 + ord("a"), 2, 0]) == "�a"
    assert FITTED.entry(3 + 0xC3) == "\\xc3" and FITTED.entry(1) == "<start>"
    assert FITTED.entry(number)


def test_two_merges_that_spell_the_same_share_an_entry():
    a, b, c = b"abc"
    vocabulary = BytePairVocabulary(
        ("padding", "start", "end"), ((a, b), (b, c), (256, c), (a, 257))
    )
    assert vocabulary.pieces[256:] == (b"ab", b"bc", b"abc") and len(vocabulary) == 262
    assert vocabulary.encode("abc") == [261]


def test_half_a_surrogate_pair_is_refused():
    for vocabulary in (fit_vocabulary(TEXTS, config) for config in (BYTES, CHARACTERS, RAW)):
        for encode in (vocabulary.encode, vocabulary.encode_array):
            with expect_error(ValueError):
                encode("ab\ud83d")
    for config in (BYTES, CHARACTERS):
        with expect_error(ValueError):
            fit_vocabulary(["ab\ud83d"], config)


# Byte pairs with digits apart, and in lower case


DIGITS = TokenizerConfig(name="bpe", min_frequency=1, vocab_size=330, split_digits=True)
LOWER = TokenizerConfig(name="bpe", min_frequency=1, vocab_size=330, lowercase=True)
NUMBERED = (*TEXTS, "Room 1212 or 1212 or 12 12 in 2012", "1212 and ROOM and Room and ROOM")
APART, LOWERED, BOTH = (
    fit_vocabulary(NUMBERED, config) for config in (DIGITS, LOWER, replace(DIGITS, lowercase=True))
)


@given(ANY_TEXT | st.text("a 1２½'\n") | st.sampled_from(NUMBERED))
def test_with_digits_apart_every_text_comes_back_and_no_piece_joins_a_digit(text):
    numbers = APART.encode(text)
    assert APART.decode(numbers) == text and APART.encode_array(text).tolist() == numbers
    for digit in "0123456789":
        assert numbers.count(APART.encode(digit)[0]) == text.count(digit)


def test_digits_are_apart_only_where_this_is_asked_for():
    def pieces(vocabulary):
        return [vocabulary.entry(number) for number in vocabulary.encode("12 2012")]

    assert pieces(APART) == pieces(BOTH) == [*"12 2012"]
    assert len(pieces(LOWERED)) < 7
    assert not any(set(piece) & set(b"0123456789") and len(piece) > 1 for piece in APART.pieces)


def test_spaces_before_a_digit_stay_together_as_they_were_learnt():
    vocabulary = fit_vocabulary(["a  1  2  3"] * 3, replace(DIGITS, vocab_size=261))
    assert [vocabulary.entry(number) for number in vocabulary.encode("a  1")] == ["a", "  ", "1"]


@given(ANY_TEXT | st.text("aÅΣİẞ\u0307 ") | st.sampled_from(NUMBERED))
def test_in_lower_case_every_text_comes_back_as_python_lowers_it(text):
    for vocabulary in (LOWERED, BOTH):
        numbers = vocabulary.encode(text)
        assert vocabulary.decode(numbers) == text.lower()
        assert vocabulary.encode(text.lower()) == numbers or text.lower().lower() != text.lower()
        assert vocabulary.encode_array(text).tolist() == numbers


def test_in_lower_case_the_pieces_are_those_of_the_lowered_texts():
    plain = fit_vocabulary([text.lower() for text in NUMBERED], replace(LOWER, lowercase=False))
    assert LOWERED.merges == plain.merges and plain != LOWERED
    assert LOWERED.encode("ROOM") == plain.encode("room") != plain.encode("ROOM")


@given(st.lists(st.sampled_from((*PARTS, "12", "DOG", " 3"))))
def test_in_blocks_digits_and_lower_case_give_the_numbers_of_the_whole(parts):
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "BLOCK", 3)
        numbers = BOTH.encode(text)
    assert numbers == BOTH._tokenizer.encode(text.lower()).ids


@pytest.mark.parametrize("vocabulary", [APART, LOWERED, BOTH])
def test_digits_and_lower_case_are_kept_with_the_vocabulary(vocabulary):
    again = from_text(vocabulary.to_text())
    assert again == vocabulary and hash(again) == hash(vocabulary)
    assert (again.digits, again.lower) == (vocabulary.digits, vocabulary.lower)
    assert again.encode("ROOM 1212") == vocabulary.encode("ROOM 1212")


def test_a_vocabulary_from_before_there_were_digits_and_lower_case_is_the_same():
    text = FITTED.to_text()
    assert set(json.loads(text)) == {"kind", "specials", "merges"}
    old = from_text(text)
    assert not old.digits and not old.lower and old == FITTED


def test_half_a_surrogate_pair_is_found_where_it_stands_in_the_text_that_was_given():
    with expect_error(ValueError):
        LOWERED.encode("İ\ud83d")  # İ has two signs in lower case


# Word pieces

PUBLISHED = ("padding", "start", "end", "unknown", "mask")
PIECES = [
    *("[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("a", "b", "c", "ab", "abc", "dog", "run", "over", "the", "Dog", "é", "e", "ß", "σ", "ς"),
    *("##a", "##b", "##c", "##bc", "##s", "##ning", "١", "犬", *".,'-_![]<>#"),
    *("sep", "cls", "mask", "start", "end"),
]
UNCASED = WordPieceVocabulary(PUBLISHED, tuple(PIECES))
CAPITALS = replace(UNCASED, lower=False)
EITHER = pytest.mark.parametrize("vocabulary", [UNCASED, CAPITALS], ids="lower={0.lower}".format)
KNOWN_TEXT = st.text("abc .", max_size=20) | st.lists(st.sampled_from(PIECES)).map("".join)
PIECE_TEXT = (
    ANY_TEXT | KNOWN_TEXT | st.text("abcsdogDOGÉéße\u0301ΣΣσς犬.[]#< \n\t\u00a0\u0000", max_size=40)
)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("The dogs, RUNNING over", "the|dog|##s|,|run|##ning|over"),
        ("abcbc abca acb", "abc|##bc|abc|##a|a|##c|##b"),  # the longest first, not the best cut
        ("abd", "[UNK]"),  # no part of a word is kept when another is unknown
        ("abd.ab", "[UNK]|.|ab"),
        ("É\u0301e ΣΣ", "[UNK]|[UNK]"),
        ("é É", "e|e"),
        ("a犬b", "a|犬|b"),
        ("##s", "#|#|[UNK]"),
        ("a\u0000b\u00a0c\td", "ab|c|[UNK]"),
        ("a" * 100, "|".join(["a"] + ["##a"] * 99)),
        ("a" * 101, "[UNK]"),
        (" \n ", ""),
    ],
)
def test_words_are_cut_into_the_longest_pieces(text, pieces):
    assert "|".join(PIECES[n] for n in UNCASED.encode(text)) == pieces


def test_longest_pieces_are_longest_first_and_unknown_as_a_whole():
    assert longest_pieces("abcbc", PIECES) == ["abc", "##bc"]
    assert longest_pieces("acb", PIECES) == ["a", "##c", "##b"]
    assert longest_pieces("abd", PIECES) == ["[UNK]"] == longest_pieces("a" * 101, PIECES)
    assert longest_pieces("", PIECES) == []


def test_with_capitals_kept_a_text_is_read_as_it_is():
    assert [PIECES[n] for n in CAPITALS.encode("Dog dog DOG é")] == ["Dog", "dog", "[UNK]", "é"]


@EITHER
@given(text=PIECE_TEXT)
def test_encoding_is_cutting_each_word_into_longest_pieces(vocabulary, text):
    clean = normalizers.BertNormalizer(lowercase=vocabulary.lower).normalize_str(text)
    words = [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(clean)]
    pieces = [piece for word in words for piece in longest_pieces(word, PIECES)]
    assert [PIECES[n] for n in vocabulary.encode(text)] == pieces
    array = vocabulary.encode_array(text)
    assert array.dtype == np.uint16 and array.tolist() == vocabulary.encode(text)


@EITHER
@given(parts=st.lists(PIECE_TEXT, max_size=9))
def test_in_blocks_word_pieces_are_those_of_the_whole(vocabulary, parts):
    text = " ".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "BLOCK", 7)
        cut, array = vocabulary.encode(text), vocabulary.encode_array(text)
    assert cut == array.tolist() == vocabulary._tokenizer.encode(text).ids


@given(st.lists(st.sampled_from(["dog", "dogs", "running", "abc", "over", ".", "'"])))
def test_words_made_of_known_pieces_come_back_with_a_space_between(words):
    text = " ".join(words)
    assert UNCASED.decode(UNCASED.encode(text)) == text


def test_word_pieces_keep_the_protocol_under_the_numbers_of_their_file():
    assert isinstance(UNCASED, Vocabulary) and len(UNCASED) == len(PIECES)
    assert (UNCASED.padding, UNCASED.unknown, UNCASED.start, UNCASED.end) == (0, 2, 3, 4)
    assert UNCASED.special("mask") == 5 and UNCASED.entry(5) == "<mask>"
    assert UNCASED.decode([3, PIECES.index("dog"), PIECES.index("##s"), 2, 5, 4, 0]) == (
        "dogs <unknown>"
    )
    assert UNCASED.decode([PIECES.index("##s"), 3, PIECES.index("##s")]) == "ss"
    assert UNCASED.encode("") == [] and UNCASED.encode_array("").size == 0
    assert UNCASED.entry(1) == "[unused0]" and UNCASED.entry(PIECES.index("##s")) == "##s"
    for number in (-1, len(PIECES)):
        for call in (UNCASED.entry, lambda n: UNCASED.decode([n])):
            with expect_error(ValueError):
                call(number)
    with expect_error(ValueError):
        UNCASED.special("msk")
    with expect_error(ValueError):
        UNCASED.encode("ab\ud800")


@EITHER
@given(text=st.lists(st.sampled_from([*PIECES[:6], " ", "<start>", "x"])).map("".join))
def test_no_text_spells_a_special_piece(vocabulary, text):
    named = {vocabulary.special(name) for name in PUBLISHED} - {vocabulary.unknown}
    assert not named & {*vocabulary.encode(text)}


def test_word_pieces_are_kept_as_text_and_equal_by_content():
    for one in (UNCASED, CAPITALS):
        again = from_text(one.to_text())
        assert again == one and hash(again) == hash(one) and again.to_text() == one.to_text()
        assert again.encode(TEXTS[0]) == one.encode(TEXTS[0])
    assert UNCASED != CAPITALS and replace(UNCASED, pieces=(*UNCASED.pieces, "x")) != UNCASED


def test_a_file_of_word_pieces_has_an_entry_a_line(tmp_path):
    path = tmp_path / "vocab.txt"
    odd = [*PIECES, "\u2028", "\x85", "\u00a0", "x"]  # at the first two, Python would break a line
    for ending in ("", "\n"):
        path.write_text("\n".join(odd) + ending, "utf-8", newline="")
        assert read_wordpieces(path).pieces == tuple(odd)
    path.write_text("\r\n".join(odd), "utf-8", newline="")
    assert read_wordpieces(str(path), lower=False) == replace(CAPITALS, pieces=tuple(odd))
    path.write_text("\n".join(piece for piece in PIECES if piece != "[MASK]"), "utf-8")
    assert read_wordpieces(path).specials == PUBLISHED[:4]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (None, "unreadable"),
        (b"[PAD]\n\xff", "encoding"),
        (b"", "format"),
        (b"[PAD]\n[CLS]\n[SEP]\na", "format"),
        (b"[PAD]\n[CLS]\n[SEP]\n[UNK]\na\nb\na", "format"),
        (b"[PAD]\n[CLS]\n[SEP]\n[UNK]\n\nb", "format"),
    ],
)
def test_a_file_that_is_no_vocabulary_of_word_pieces_is_a_sentence(data, tmp_path, kind):
    path = tmp_path / "vocab.txt"
    if data is not None:
        path.write_bytes(data)
    with expect_error(DataIssue, kind=kind, file="vocab.txt"):
        read_wordpieces(path)


# Characters and bytes


@given(ANY_TEXT)
def test_characters_that_are_known_come_back_exactly(text):
    assume(text)
    vocabulary = fit_vocabulary([text], CHARACTERS)
    numbers = vocabulary.encode(text)
    assert vocabulary.decode(numbers) == text
    assert len(numbers) == len(text) and min(numbers) >= len(vocabulary.specials)
    assert "".join(map(vocabulary.entry, numbers)) == text


def test_characters_stand_in_order_and_the_most_frequent_are_kept():
    texts = ["b a\nC", "bbc"]
    assert fit_vocabulary(texts, CHARACTERS).characters == "\n Cabc"
    assert fit_vocabulary(texts, TokenizerConfig(name="char")).characters == "b"
    # Of equals, those with the lower code point.
    small = TokenizerConfig(name="char", min_frequency=1, vocab_size=7)
    assert fit_vocabulary(texts, small).characters == "\n b"


def test_a_character_that_is_not_there_is_unknown():
    vocabulary = fit_vocabulary(["abc\n"], CHARACTERS)
    # The fifth is as far behind the last known one, c, as a is behind none.
    for text in ("az\nb", "a\0\nb", "a\U0010ffff\nb", "aA\nb", f"a{chr(101 + ord('a'))}\nb"):
        assert vocabulary.encode(text) == [5, 3, 4, 6] == vocabulary.encode_array(text).tolist()
    assert vocabulary.decode([1, 5, 3, 4, 2, 0]) == "a�\n"
    assert vocabulary.entry(vocabulary.unknown) == "<unknown>"


def test_no_characters_is_a_sentence():
    with expect_error(ValueError):
        fit_vocabulary(["ab", "a"], TokenizerConfig(name="char", min_frequency=3))
    with expect_error(ValueError):
        fit_vocabulary(["", ""], CHARACTERS)


@given(ANY_TEXT)
def test_bytes_give_every_text_back_and_are_those_of_utf_8(text):
    vocabulary = RawVocabulary(("padding", "start", "end", "mask"))
    numbers = vocabulary.encode(text)
    assert bytes(number - 4 for number in numbers) == text.encode()
    assert vocabulary.decode(numbers) == text


def test_bytes_that_are_no_text_are_marked():
    vocabulary = fit_vocabulary([], RAW)
    assert len(vocabulary) == 259
    assert vocabulary.decode([1, 3 + 0xC3, 3 + ord("a"), 2, 0]) == "�a"
    assert vocabulary.entry(3 + 0xC3) == "\\xc3" and vocabulary.entry(3 + ord("\n")) == "\n"


@pytest.mark.parametrize("size", [2**16, 2**16 + 1])
def test_numbers_have_16_bits_as_long_as_they_fit(size):
    signs = "".join(map(chr, range(0x20000, 0x20000 + size - 4)))
    vocabulary = CharacterVocabulary(("padding", "start", "end", "unknown"), signs)
    assert len(vocabulary) == size
    last = vocabulary.encode_array(signs[-1])
    assert last.tolist() == [size - 1] == vocabulary.encode(signs[-1])
    assert last.dtype == number_kind(size) == (np.uint16 if size == 2**16 else np.uint32)


@pytest.mark.parametrize("config", [CHARACTERS, RAW], ids=lambda config: config.name)
def test_a_megabyte_takes_far_less_than_a_second(config):
    text = "Now is the winter of our discontent — \n" * 26_000
    vocabulary = fit_vocabulary([text], config)
    start = time.perf_counter()
    numbers = vocabulary.encode_array(text)
    assert time.perf_counter() - start < 0.5  # 0.01, if nobody else is at work
    assert len(numbers) >= 10**6 and numbers.tolist() == vocabulary.encode(text)


# All


FITTED_TO_ALL = [fit_vocabulary(TEXTS, config) for config in KINDS]


@given(ANY_TEXT | st.sampled_from(TEXTS), st.sampled_from(FITTED_TO_ALL))
def test_an_array_holds_the_numbers_that_the_plain_way_gives(text, vocabulary):
    numbers = vocabulary.encode_array(text)
    assert numbers.dtype == np.uint16 and numbers.tolist() == vocabulary.encode(text)


@ALL
def test_a_vocabulary_keeps_the_protocol(config):
    vocabulary: Vocabulary = fit_vocabulary(TEXTS, config)
    assert isinstance(vocabulary, Vocabulary)
    assert (vocabulary.padding, vocabulary.start, vocabulary.end) == (0, 1, 2)
    assert max(vocabulary.encode(TEXTS[0])) < len(vocabulary)
    assert vocabulary.encode("") == [] and vocabulary.decode([]) == ""
    assert vocabulary.decode([0, 1, 2]) == ""
    for number in (-1, len(vocabulary)):
        for call in (vocabulary.entry, lambda n: vocabulary.decode([n])):
            with expect_error(ValueError):
                call(number)


@ALL
def test_no_text_spells_a_special_entry(config):
    texts = ["<padding> <start> <end> <unknown> padding start end <mask>"] * 3
    vocabulary = fit_vocabulary(texts, config, extra=("mask",))
    assert min(vocabulary.encode(texts[0])) >= len(vocabulary.specials)
    assert vocabulary.entry(vocabulary.special("mask")) == "<mask>"
    assert vocabulary.decode([vocabulary.special("mask")]) == ""
    with expect_error(ValueError):
        vocabulary.special("msk")


@ALL
def test_a_vocabulary_is_kept_as_text_and_equal_by_content(config):
    one, other = fit_vocabulary(TEXTS, config), fit_vocabulary(TEXTS[:3], config)
    again = from_text(one.to_text())
    assert again == one and hash(again) == hash(one)
    assert (one == other) == (config is RAW)  # bytes are the same whatever they were fitted to
    assert again.to_text() == one.to_text()
    assert again.encode(TEXTS[3]) == one.encode(TEXTS[3])
    assert fit_vocabulary(TEXTS, config, extra=("mask",)) != one


@ALL
def test_texts_are_read_once_and_one_at_a_time(config):
    alive = []

    def texts():
        for text in TEXTS:
            alive.append(text)
            yield text

    assert fit_vocabulary(texts(), config) == fit_vocabulary(TEXTS, config)
    assert len(alive) == (0 if config is RAW else len(TEXTS))
    with expect_error(ValueError):
        fit_vocabulary("one text", config)


@ALL
def test_fitting_gives_the_same_on_every_machine(config):
    code = (
        "import sys; sys.stdin.reconfigure(encoding='utf-8');"
        "from regard.data.tokenizer import TokenizerConfig, fit_vocabulary;"
        f"print(fit_vocabulary(sys.stdin, {config!r}).to_text())"
    )
    lines = [text + "\n" for text in TEXTS]
    said = set()
    for seed in ("1", "2", "3"):
        own = {**os.environ, "PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": seed}
        done = subprocess.run(
            (sys.executable, "-c", code),
            input="".join(lines).encode(),
            env=own,
            capture_output=True,
            check=True,
        )
        said.add(done.stdout.decode().strip())
    assert said == {fit_vocabulary(lines, config).to_text()}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "[" * 100_000,
        {"kind": "signs", "specials": []},
        {"kind": "word", "specials": ["padding"], "words": []},
        {"kind": "word", "specials": ["padding", "start", "end", "unknown"], "words": [1]},
        {
            "kind": "word",
            "specials": ["padding", "start", "end", "unknown"],
            "words": ["a"] * 2,
        },
        {"kind": "bpe", "specials": ["padding", "start", "end", "end"], "merges": []},
        {"kind": "bpe", "specials": ["padding", "start", "end"], "merges": [[1, 256]]},
        {"kind": "bpe", "specials": ["padding", "start", "end"], "merges": [[1, 2, 3]]},
        {"kind": "bpe", "specials": ["padding", "start", "end"], "merges": [[1, 2.0]]},
        {"kind": "bpe", "specials": ["padding", "start", "end"], "merges": [[1, 2]] * 2},
        {"kind": "bpe", "specials": ["padding", "start", "end"], "merges": [], "lower": 1},
        {"kind": "char", "specials": ["padding", "start", "end"], "characters": "a"},
        {
            "kind": "char",
            "specials": ["padding", "start", "end", "unknown"],
            "characters": ["a"],
        },
        {
            "kind": "char",
            "specials": ["padding", "start", "end", "unknown"],
            "characters": "aba",
        },
        {"kind": "byte", "specials": ["start"]},
        {"kind": "wordpiece", "specials": PUBLISHED[:4], "pieces": ["a"], "lower": True},
        {"kind": "wordpiece", "specials": [*PUBLISHED, "x"], "pieces": PIECES, "lower": True},
        {"kind": "wordpiece", "specials": PUBLISHED, "pieces": PIECES, "lower": 1},
        {"kind": "wordpiece", "specials": PUBLISHED, "pieces": [*PIECES, 7], "lower": True},
    ],
)
def test_a_damaged_vocabulary_is_a_sentence(text):
    with expect_error(ValueError):
        from_text(text if isinstance(text, str) else json.dumps(text))


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"min_frequency": 0}, "min_frequency"),
        ({"vocab_size": 4}, "vocab_size"),
        ({"name": "bpe", "vocab_size": 258}, "vocab_size"),
        ({"name": "byte", "vocab_size": 258}, "vocab_size"),
        ({"name": "char", "vocab_size": 4}, "vocab_size"),
        ({"split_digits": True}, "split_digits"),
        ({"lowercase": True}, "lowercase"),
        ({"name": "char", "lowercase": True}, "lowercase"),
        ({"name": "byte", "split_digits": True}, "split_digits"),
    ],
)
def test_contradictions_are_refused_by_the_names_of_their_fields(fields, name):
    with expect_error(FieldError, field=name):
        TokenizerConfig(**fields)


def test_extra_entries_must_leave_room():
    names = [f"x{n}" for n in range(5)]
    for kind in ("word", "char"):
        with expect_error(ValueError):
            fit_vocabulary(
                TEXTS, TokenizerConfig(name=kind, vocab_size=6, min_frequency=1), extra=names
            )
    for kind in ("bpe", "byte"):
        with expect_error(ValueError):
            fit_vocabulary(TEXTS, TokenizerConfig(name=kind, vocab_size=260), extra=names)
    with expect_error(ValueError):
        fit_vocabulary(TEXTS, WORDS, extra=["end"])


def test_the_configuration_needs_no_large_library():
    code = (
        "import sys, regard.data.tokenizer as _;"
        "print({'torch', 'tokenizers', 'numpy'} & {*sys.modules})"
    )
    assert subprocess.check_output((sys.executable, "-c", code)).strip() == b"set()"


def test_two_kinds_are_never_equal():
    specials = ("padding", "start", "end", "unknown")
    empty = (
        WordVocabulary(specials, ()),
        BytePairVocabulary(specials, ()),
        CharacterVocabulary(specials, ""),
        RawVocabulary(specials),
        WordPieceVocabulary(specials, ("[PAD]", "[CLS]", "[SEP]", "[UNK]")),
    )
    assert all((one == other) == (one is other) for one in empty for other in empty)
