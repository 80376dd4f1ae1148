"""Runs of sentences: each of one document, none too long, and as many that follow as do not."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.documents import FAR, Documents, in_documents, next_rows, runs, single_rows
from regard.data.letters import fit_raw
from regard.data.lines import lined
from regard.data.words import fit_words
from strategies import examples


def made(*documents: list[int]) -> Documents:
    """Documents of sentences of these lengths; a token's number says which sentence it is of."""
    lengths = [length for document in documents for length in document]
    owner = [number for number, document in enumerate(documents) for _ in document]
    return Documents(lined([[n] * length for n, length in enumerate(lengths)]), np.array(owner))


def many(documents: int, sentences: int, seed: int = 0) -> Documents:
    """Documents of so many sentences of 3 to 30 tokens."""
    draw = np.random.default_rng(seed)
    return made(*(draw.integers(3, 30, sentences).tolist() for _ in range(documents)))


def drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def sentences(documents: Documents, slices: np.ndarray) -> list[list[int]]:
    """The sentences of which each text has a token."""
    numbers = documents.lines.numbers
    return [list(dict.fromkeys(numbers[a : a + n].tolist())) for a, n in slices.tolist()]


texts = st.lists(st.lists(st.integers(1, 25), min_size=1, max_size=12), min_size=1, max_size=6)


def test_sentences_without_tokens_and_documents_without_sentences_are_left_out():
    words = fit_raw(["a"], size=300)
    found = in_documents([["ab", "c"], [], ["d"]], words)
    assert found.owner.tolist() == [0, 0, 1] and found.count == 2 and found.tokens == 7
    assert words.decode(found.lines.numbers.tolist()) == " ab c d", "each has a space before it"
    assert found.ends.tolist() == [2, 2, 3]
    blank = in_documents([["red", " "], [""], ["red"]], fit_words(["red"], floor=1, size=9))
    assert blank.owner.tolist() == [0, 1] and blank.lines.lengths.tolist() == [1, 1]
    none = in_documents([], words)
    assert none.count == none.tokens == 0 and not len(single_rows(none, 9, drawn()))
    assert not len(next_rows(none, 9, drawn())[0])


@examples(60)
@given(texts, st.integers(4, 40), st.integers(0, 9))
def test_runs_are_of_one_document_and_have_every_sentence_once(lengths, room, seed):
    documents = made(*lengths)
    found = list(runs(documents, room, drawn(seed)))
    assert [at for run in found for at in run] == list(range(len(documents.owner)))
    held = documents.lines.lengths
    for run in found:
        assert len({*documents.owner[run].tolist()}) == 1
        assert len(run) == 1 or held[run].sum() <= room
    # A run ends where its document does, or where the next sentence would not have fitted.
    for run, after in pairwise(found):
        first = run.start == 0 or documents.owner[run.start - 1] != documents.owner[run.start]
        ends = documents.owner[run.start] != documents.owner[after.start]
        assert first or ends or held[[*run, after.start]].sum() > room


@examples(60)
@given(texts, st.integers(4, 40), st.integers(0, 9))
def test_single_texts_are_runs_cut_to_the_room(lengths, room, seed):
    documents = made(*lengths)
    rows = single_rows(documents, room, drawn(seed))
    assert (rows.first[:, 1] <= room).all() and (rows.first[:, 1] > 0).all()
    expected = list(runs(documents, room, drawn(seed)))
    assert len(rows) == len(expected) and rows.second is None
    for run, (begin, count) in zip(expected, rows.first.tolist(), strict=True):
        assert begin == documents.lines.starts[run.start]
        assert count == min(room, documents.lines.lengths[run].sum())


@examples(60)
@given(texts, st.integers(4, 60), st.integers(0, 9))
def test_pairs_are_balanced_fit_and_are_what_they_say(lengths, room, seed):
    documents = made(*lengths)
    rows, follows = next_rows(documents, room, drawn(seed))
    assert follows.tolist() == [True, False] * (len(rows) // 2)
    assert (rows.first[:, 1] + rows.second[:, 1] <= room).all()
    assert (rows.first[:, 1] > 0).all() and (rows.second[:, 1] > 0).all()
    held = documents.lines.lengths
    pairs = zip(*(sentences(documents, part) for part in (rows.first, rows.second)), strict=True)
    for (a, b), yes in zip(pairs, follows, strict=True):
        for side in (a, b):
            assert side == list(range(side[0], side[-1] + 1))
            assert len({*documents.owner[side].tolist()}) == 1
        if yes:
            assert b[0] == a[-1] + 1 and documents.owner[a[0]] == documents.owner[b[0]]
        elif documents.count > 1:
            assert documents.owner[a[0]] != documents.owner[b[0]]
        else:
            assert b[0] > a[-1] + 1 or b[-1] < a[0]
    whole = [
        held[side].sum()
        for part in (rows.first, rows.second)
        for side in sentences(documents, part)
    ]
    assert whole == [*rows.first[:, 1], *rows.second[:, 1]], "of whole sentences"


@pytest.mark.parametrize("count", [1, 20], ids="documents={}".format)
def test_the_length_of_a_pair_does_not_tell_its_answer(count):
    rows, follows = next_rows(many(count, 8_000 // count), 61, drawn())
    assert len(rows) > 1_500
    for lengths in (rows.second[:, 1], rows.lengths):
        yes, no = lengths[follows], lengths[~follows]
        assert abs(yes.mean() - no.mean()) < 0.5
        longer = (yes[:, None] > no).mean() + (yes[:, None] == no).mean() / 2
        assert 0.47 < longer < 0.53


def test_in_a_single_document_what_does_not_follow_is_far_away():
    documents = many(1, 1_000)
    rows, follows = next_rows(documents, 61, drawn())
    firsts, seconds = (sentences(documents, part) for part in (rows.first, rows.second))
    assert len(rows) > 100
    for a, b, yes in zip(firsts, seconds, follows, strict=True):
        assert yes or b[0] - a[-1] > FAR or a[0] - b[-1] > FAR
    short = many(1, 24)
    rows, follows = next_rows(short, 61, drawn())
    assert len(rows) and not follows.all(), "and in a short one as far as can be"


def test_a_sentence_longer_than_the_room_stands_alone_and_is_cut():
    documents = made([3, 40, 3, 3], [3, 3, 3])
    rows = single_rows(documents, 20, drawn())
    alone = [(begin, n) for begin, n in rows.first.tolist() if n == 20]
    assert alone == [(3, 20)], "from its beginning"
    pairs, _ = next_rows(documents, 20, drawn())
    shown = {
        n for part in (pairs.first, pairs.second) for s in sentences(documents, part) for n in s
    }
    assert len(pairs) and 1 not in shown, "and is in no pair"


def seen_of(documents: Documents, parts: list[np.ndarray]) -> np.ndarray:
    """Which tokens some texts have."""
    seen = np.zeros(documents.tokens, bool)
    for begin, count in np.concatenate(parts).tolist():
        seen[begin : begin + count] = True
    return seen


@examples(60)
@given(texts, st.integers(4, 20), st.integers(1, 2), st.integers(0, 9))
def test_long_sentences_lie_in_pieces_and_every_token_is_read(lengths, room, together, seed):
    words = fit_raw(["a"], size=300)
    told = [["abcdefghij"[: n % 10] + "k" * (n - n % 10) for n in some] for some in lengths]
    whole, documents = in_documents(told, words), in_documents(told, words, room, together)
    assert documents.lines.numbers.tolist() == whole.lines.numbers.tolist()
    assert documents.sentences == whole.sentences == len(whole.lines)
    assert {*whole.lines.starts.tolist()} <= {*documents.lines.starts.tolist()}
    long = whole.lines.lengths[whole.lines.lengths > room]
    assert documents.cut == len(long)
    assert documents.pieces == sum(-(-n // (room // together)) for n in long.tolist())
    assert documents.lines.lengths.max() <= room
    assert documents.count == whole.count
    assert seen_of(documents, [single_rows(documents, room, drawn(seed)).first]).all()


def test_a_text_without_stops_is_read_to_its_end_where_something_follows():
    told = [["abcdefg" * 300], ["hijklmn" * 300]]
    documents = in_documents(told, fit_raw(["a"], size=300), 61, 2)
    assert documents.sentences == 2 and documents.cut == 2 and documents.alone(61) == 0
    rows = [next_rows(documents, 61, drawn(seed))[0] for seed in range(9)]
    assert seen_of(documents, [rows[0].first, rows[0].second]).mean() > 0.6
    read = seen_of(documents, [part for one in rows for part in (one.first, one.second)])
    assert read.mean() > 0.99, "over several epochs"


@examples(60)
@given(texts, st.integers(4, 40))
def test_what_fits_with_no_neighbour_is_alone(lengths, room):
    documents = made(*lengths)
    alone = sum(
        n
        for some in lengths
        for at, n in enumerate(some)
        if all(n + other > room for other in (*some[max(0, at - 1) : at], *some[at + 1 : at + 2]))
    )
    assert documents.alone(room) == pytest.approx(alone / documents.tokens)
    assert in_documents([], fit_raw(["a"], size=300)).alone(room) == 0


def test_nothing_follows_where_there_is_no_second_text():
    assert not len(next_rows(made([5]), 20, drawn())[0])
    assert not len(next_rows(made([5], [5]), 20, drawn())[0])
    assert not len(next_rows(made([5, 5]), 20, drawn())[0]), "nowhere is another"
    assert next_rows(made([5, 5], [5, 5]), 20, drawn())[1].tolist() == [True, False]


def test_an_epoch_has_its_own_runs_and_the_same_seed_the_same():
    documents = many(5, 100)
    for make in (single_rows, lambda *some: next_rows(*some)[0]):
        one, again, other = (make(documents, 61, drawn(seed)) for seed in (0, 0, 1))
        assert np.array_equal(one.first, again.first)
        assert {*map(tuple, one.first.tolist())} != {*map(tuple, other.first.tolist())}
