"""Texts as rows and batches: nothing is lost, nothing too long, and little of it is padding."""

from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from golden import expect_error
from regard.data.batching import (
    Buckets,
    Mixed,
    RowPicker,
    Rows,
    in_rows,
    rounded_up,
    trimmed,
    windows,
)
from regard.data.lines import lined
from regard.data.tokenizer import TokenizerConfig, fit_vocabulary
from strategies import examples

CPU = torch.device("cpu")
WORDS = fit_vocabulary(["a b c d e f"], TokenizerConfig(min_frequency=1))
numbers = st.lists(st.integers(3, 9), max_size=12)


# Texts that are too long


@examples(200)
@given(st.integers(0, 300), st.integers(1, 40), st.data())
def test_windows_cover_a_text_evenly_and_share_the_overlap(n, longest, data):
    overlap = data.draw(st.integers(0, longest - 1))
    text = list(range(n))
    found = windows(text, longest, overlap)
    if n <= longest:
        assert found == [text]
        return
    assert found[0][0] == 0 and found[-1][-1] == n - 1
    assert all(piece == list(range(piece[0], piece[0] + longest)) for piece in found)
    shared = [one[-1] + 1 - two[0] for one, two in pairwise(found)]
    assert min(shared) >= overlap and max(shared) - min(shared) <= 1  # evenly, so no remainder
    fewer = longest + (len(found) - 2) * (longest - overlap)
    assert fewer < n  # one window less would not do


def test_windows_that_share_everything_are_refused():
    for overlap in (-1, 4, 5):
        with expect_error(ValueError):
            windows([1] * 9, 4, overlap)


def trimmed_plainly(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """One token at a time from the longer text; the second loses where both are of a length."""
    first, second = first[:], second[:]
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return first, second


@examples(300)
@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 40))
def test_a_pair_is_cut_from_the_end_of_the_longer_text(n, m, room):
    first, second = list(range(n)), list(range(100, 100 + m))
    assert trimmed(first, second, room) == trimmed_plainly(first, second, room)


# Rows


def read_plainly(rows: Rows, some: list[int], width: int) -> list[list[list[int]]]:
    """Words, segments and positions of some rows, put together by hand."""
    words, segments, positions = [], [], []
    for row in some:
        texts = [rows.numbers[at : at + n].tolist() for at, n in [rows.first[row]]]
        if rows.second is not None:
            texts += [rows.numbers[at : at + n].tolist() for at, n in [rows.second[row]]]
        line, kinds = [WORDS.start], [0]
        for kind, text in enumerate(texts):
            line += [*text, WORDS.end]
            kinds += [kind] * (len(text) + 1)
        left = width - len(line)
        assert left >= 0 and len(line) == rows.lengths[row]
        words.append(line + [WORDS.padding] * left)
        segments.append(kinds + [len(texts) - 1] * left)
        positions.append([*range(len(line)), *[-1] * left])
    return [words, segments, positions]


@examples(150)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6), st.booleans(), st.data())
def test_the_picker_makes_what_a_loop_makes(texts, paired, data):
    rows = in_rows(
        [first for first, _ in texts], [second for _, second in texts] if paired else None
    )
    assert len(rows) == len(texts)
    some = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=8))
    width = int(rows.lengths[some].max()) + data.draw(st.integers(0, 3))
    read = RowPicker(rows, WORDS, CPU)(torch.tensor(some), width)
    words, segments, positions = read_plainly(rows, some, width)
    assert read.words.tolist() == words and read.positions.tolist() == positions
    assert (read.segments is None) != paired
    if read.segments is not None:
        assert read.segments.tolist() == segments


def test_texts_may_be_any_slices_of_the_same_numbers():
    lines = lined([[3, 4, 5], [6], [7, 8]])
    slices = np.array([[0, 3], [1, 3], [0, 6], [6, 0]])
    rows = Rows(lines.numbers, slices)
    read = RowPicker(rows, WORDS, CPU)(torch.tensor([1, 3]), 5)
    assert read.words.tolist() == [[1, 4, 5, 6, 2], [1, 2, 0, 0, 0]]
    pick = RowPicker(rows, WORDS, CPU)
    pick.put(rows.only(np.array([2])))
    assert pick(torch.tensor([0]), 8).words.tolist() == [[1, 3, 4, 5, 6, 7, 8, 2]]
    pairs = Rows(lines.numbers, slices[:2], slices[2:])
    assert pairs.only(np.array([1])).lengths.tolist() == [6] == pairs.lengths[1:].tolist()


def test_texts_without_a_token_are_a_start_and_an_end():
    read = RowPicker(in_rows([[], []]), WORDS, CPU)(torch.tensor([0, 1]), 4)
    assert read.words.tolist() == [[1, 2, 0, 0]] * 2
    read = RowPicker(in_rows([[]], [[]]), WORDS, CPU)(torch.tensor([0]), 3)
    assert read.words.tolist() == [[1, 2, 2]] and read.segments.tolist() == [[0, 0, 1]]


@examples(50)
@given(st.lists(numbers, max_size=8), st.data())
def test_lines_are_as_they_were_and_some_of_them_too(texts, data):
    lines = lined(texts)
    assert len(lines) == len(texts) and lines.lengths.tolist() == [*map(len, texts)]

    def back(some):
        return [some.numbers[a:b].tolist() for a, b in pairwise(some.starts.tolist())]

    assert back(lines) == texts
    if texts:
        kept = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=8))
        assert back(lines.only(np.array(kept, np.int64))) == [texts[row] for row in kept]


# Batches


@examples(100)
@given(
    st.lists(st.integers(2, 70), min_size=1, max_size=80), st.integers(1, 400), st.integers(0, 9)
)
def test_every_row_comes_once_and_no_batch_has_too_many_tokens(lengths, batch, seed):
    sizes = np.array(lengths, np.int64)
    buckets = Buckets(sizes, batch)
    for draw in (None, np.random.default_rng(seed)):
        batches = list(buckets.epoch(draw))
        assert len(batches) == len(buckets)
        rows = np.concatenate([some for _, some in batches])
        assert sorted(rows.tolist()) == list(range(len(lengths)))
        for width, some in batches:
            assert width * len(some) <= batch or len(some) == 1
            assert sizes[some].max() <= width < max(5, 1.25 * sizes[some].min() + 1)
        assert len({(width, len(some)) for width, some in batches}) == buckets.shapes
    # Of each width, all batches are full but one.
    assert buckets.shapes <= 2 * len(buckets.rows)


@examples(100)
@given(
    st.lists(st.integers(2, 70), min_size=1, max_size=80),
    st.integers(1, 400),
    st.integers(1, 5),
    st.integers(0, 9),
)
def test_mixed_batches_have_every_row_once_and_equally_many_each(lengths, batch, together, seed):
    sizes = np.array(lengths, np.int64)
    mixed = Mixed(sizes, batch, together)
    for draw in (None, np.random.default_rng(seed)):
        batches = list(mixed.epoch(draw))
        assert len(batches) == len(mixed)
        rows = np.concatenate([some for _, some in batches])
        assert sorted(rows.tolist()) == list(range(len(lengths)))
        *full, last = [len(some) for _, some in batches]
        assert set(full) <= {mixed.at_once} and last <= mixed.at_once
        for width, some in batches:
            assert width * len(some) <= batch or len(some) == 1
            assert width == rounded_up(sizes[some]).max()
        assert len({(width, len(some)) for width, some in batches}) <= mixed.shapes


def test_mixed_batches_are_of_all_lengths_and_other_ones_each_epoch():
    lengths = np.repeat([4, 16, 64], 100)
    mixed = Mixed(lengths, 64 * 20)
    order = [some.tolist() for _, some in mixed.epoch(np.random.default_rng(3))]
    assert order == [some.tolist() for _, some in mixed.epoch(np.random.default_rng(3))]
    assert order != [some.tolist() for _, some in mixed.epoch(np.random.default_rng(4))]
    assert all(len(some) == 20 and set(lengths[some]) == {4, 16, 64} for some in order)
    assert len(Mixed(np.zeros(0, np.int64), 64)) == 0


def test_what_is_drawn_for_a_step_is_cut_by_length_and_little_of_it_is_padding():
    lengths = np.random.default_rng(0).choice([4, 8, 16, 64], 640)
    alone, cut = (Mixed(lengths, 64 * n, 64 // n) for n in (64, 8))

    def steps(mixed):
        batches = list(mixed.epoch(np.random.default_rng(1)))
        return [batches[at : at + mixed.together] for at in range(0, len(batches), mixed.together)]

    for whole, parts in zip(steps(alone), steps(cut), strict=True):
        (rows,) = (some for _, some in whole)
        assert sorted(rows) == sorted(row for _, some in parts for row in some)  # the same step
        widths = [width for width, _ in parts]
        assert widths == sorted(widths) and widths[0] < 64
    tokens = [sum(width * len(some) for width, some in mixed.epoch()) for mixed in (alone, cut)]
    assert tokens[1] < 0.6 * tokens[0]


def test_widths_are_few_and_near():
    lengths = np.arange(1, 4000)
    wide = rounded_up(lengths)
    assert np.unique(wide).tolist()[:14] == [4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40]
    assert len(np.unique(wide)) == 41 and np.unique(wide)[-1] == 4096
    assert (wide >= lengths).all() and (wide[3:] < 1.25 * lengths[3:]).all()
    assert set(np.unique(wide)) == set(rounded_up(np.unique(wide)))  # as it is, is near enough


def test_the_seed_decides_the_order_and_short_texts_come_first_without_one():
    lengths = np.random.default_rng(0).integers(2, 60, 300)
    buckets = Buckets(lengths, 200)

    def order(seed):
        return [some.tolist() for _, some in buckets.epoch(np.random.default_rng(seed))]

    assert order(3) == order(3) != order(4)
    assert sorted(map(sorted, order(3))) != sorted(map(sorted, order(4)))  # other neighbours too
    widths = [width for width, _ in buckets.epoch()]
    assert widths == sorted(widths)
    shuffled = [width for width, _ in buckets.epoch(np.random.default_rng(3))]
    assert shuffled != widths and sorted(shuffled) == widths
