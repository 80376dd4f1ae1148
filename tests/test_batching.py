"""Pairs in batches: each once an epoch, never above the size, with as little padding as can be."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.pair_batches import PairBatch, Picker, by_length, cut, in_tokens, padding
from regard.data.pairs import Pairs, PairSet
from regard.data.tokenizer import TokenizerConfig, fit_vocabulary
from regard.tasks.translate.config import TranslateConfig
from regard.tasks.translate.data import Metadata, PairBatches, TranslateData
from regard.training.config import TrainConfig
from strategies import examples

CPU = torch.device("cpu")
WORDS = fit_vocabulary(["abcdefghij"], TokenizerConfig(name="char", min_frequency=1))

sentences = st.text("abcdefghij", min_size=1, max_size=12)
several = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=40)
sizes_of_batches = st.integers(1, 120)


def made(pairs: list[tuple[str, str]], batch: int, *, seed: int = 0) -> PairBatches:
    source, target = zip(*pairs, strict=True)
    some = Pairs(tuple(source), tuple(target))
    found = PairSet("drawn", ("x", "y"), {"train": some, "validation": some, "test": Pairs()})
    facts = Metadata(
        data="drawn",
        digest="",
        languages=("x", "y"),
        vocabulary=WORDS.to_text(),
        pairs=(len(some), len(some), 0),
        longest=250,
    )
    config = TranslateConfig(batch_tokens=batch, train=TrainConfig(seed=seed))
    return PairBatches(config, TranslateData(found, facts, batch), CPU)


def told(batch: PairBatch) -> list[tuple[str, str]]:
    """The pairs that a batch holds, as its tensors spell them; and that the tensors agree."""
    b, m = batch.source.shape
    n = batch.words.shape[1]
    assert (batch.words[:, 0] == WORDS.start).all()
    if batch.positions is None:
        places = torch.arange(m).expand(b, m)
    else:
        places = batch.positions
        assert (places < 0).any()
        real = (places >= 0).sum(1)
        assert real.max() == m
        for row, count in zip(places, real.tolist(), strict=True):  # padding at the end alone
            assert row.tolist() == [*range(count), *[-1] * (m - count)]
    assert torch.equal(places < 0, batch.source == WORDS.padding)
    sources = [row[where >= 0] for row, where in zip(batch.source, places, strict=True)]
    assert all(row[-1] == WORDS.end for row in sources)

    rows, columns = batch.real // n, batch.real % n
    assert len(batch.real) == len(batch.targets) == len(set(batch.real.tolist()))
    assert int(columns.max()) == n - 1
    next_words = torch.full((b, n), WORDS.padding)
    next_words[rows, columns] = batch.targets
    for row in range(b):
        count = int((rows == row).sum())
        assert next_words[row, count - 1] == WORDS.end
        assert torch.equal(next_words[row, : count - 1], batch.words[row, 1:count])
        assert (batch.words[row, count:] == WORDS.padding).all()
    return [
        (WORDS.decode(source.tolist()), WORDS.decode(row.tolist()))
        for source, row in zip(sources, next_words, strict=True)
    ]


@given(several, sizes_of_batches, st.integers(0, 5))
@examples(60)
def test_every_pair_comes_once_an_epoch_and_no_batch_is_too_large(pairs, batch, seed):
    batches = made(pairs, batch, seed=seed)
    shapes = []
    for number in (0, 1, 7):
        shown = list(batches.epoch(number, 0))
        assert len(shown) == len(batches)
        assert sorted(pair for each in shown for pair in told(each)) == sorted(pairs)
        for each in shown:
            assert each.source.numel() + each.words.numel() <= batch or len(each.source) == 1
        shapes.append(
            sorted((*each.source.shape, each.words.shape[1], len(each.real)) for each in shown)
        )
    assert shapes[0] == shapes[1] == shapes[2]  # other pairs, the same shapes


@given(several, sizes_of_batches, st.integers(0, 40))
@examples(30)
def test_an_epoch_can_be_entered_anywhere_and_is_the_same_for_the_same_seed(pairs, batch, start):
    batches = made(pairs, batch, seed=3)
    start = min(start, len(batches))
    whole = list(batches.epoch(2, 0))[start:]
    again = list(made(pairs, batch, seed=3).epoch(2, start))
    for ours, right in zip(again, whole, strict=True):
        assert ours.seed == right.seed
        for name in ("source", "words", "real", "targets"):
            assert torch.equal(getattr(ours, name), getattr(right, name))
        assert (ours.positions is None) == (right.positions is None)


def test_neighbours_and_turns_change_from_epoch_to_epoch_and_from_seed_to_seed():
    draw = np.random.default_rng(0)
    letters = ["".join(draw.choice(list("abcdefghij"), 4)) for _ in range(300)]
    pairs = list(zip(letters[:150], letters[150:], strict=True))
    batches = made(pairs, 80)

    def groups(batches: PairBatches, number: int) -> list[frozenset]:
        return [frozenset(told(batch)) for batch in batches.epoch(number, 0)]

    first, second, other = (
        groups(batches, 0),
        groups(batches, 1),
        groups(made(pairs, 80, seed=1), 0),
    )
    assert groups(batches, 0) == first
    assert len(set(first) & set(second)) <= 1 and len(set(first) & set(other)) <= 1
    uneven = made([(text[: 1 + at % 4], text) for at, text in enumerate(letters)], 80)
    widths = [[batch.source.shape[1] for batch in uneven.epoch(at, 0)] for at in (0, 1)]
    assert widths[0] != widths[1] and widths[0] != sorted(widths[0])  # short ones not always first


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1), st.integers(1, 200))
@examples(100)
def test_the_share_of_padding_is_what_a_count_of_it_says(lengths, batch):
    sizes = np.array(lengths)
    for rows in (by_length(sizes), np.arange(len(sizes))):
        ordered = sizes[rows]
        starts = cut(ordered, batch).tolist()
        assert starts[0] == 0 and starts[-1] == len(sizes) and starts == sorted(set(starts))
        held = empty = 0
        for start, end in pairwise(starts):
            m, n = ordered[start:end].max(0)
            for source, target in ordered[start:end]:
                held, empty = held + m + n, empty + (m - source) + (n - target)
            assert (end - start) * (m + n) <= batch or end - start == 1
            if end < len(sizes):  # one more would not have had room
                m, n = ordered[start : end + 1].max(0)
                assert (end + 1 - start) * (m + n) > batch
        assert padding(ordered, np.array(starts)) == pytest.approx(empty / held)


def test_sorting_by_length_leaves_little_padding():
    draw = np.random.default_rng(1)
    source = draw.integers(5, 40, 5000)
    sizes = np.stack((source, source + draw.integers(-3, 4, 5000)), 1)
    ordered = sizes[by_length(sizes)]
    assert padding(ordered, cut(ordered, 4096)) < 0.07 < 0.3 < padding(sizes, cut(sizes, 4096))


def test_rows_on_the_host_make_the_same_batches():
    pairs = Pairs(("abc", "a", "ij"), ("b", "cdefg", "hh"))
    tokens = in_tokens(pairs, WORDS)
    assert tokens.sizes.tolist() == [[4, 2], [2, 6], [3, 3]] and tokens.longer.tolist() == [3, 5, 2]
    rows = np.array([2, 0])
    batch = Picker(tokens, WORDS.padding, CPU)(torch.from_numpy(rows), tokens.sizes[rows])
    assert told(batch) == [("ij", "hh"), ("abc", "b")]
    assert batch.positions is not None and batch.positions.tolist() == [[0, 1, 2, -1], [0, 1, 2, 3]]
    fewer = tokens.only(np.array([0, 2]))
    within = in_tokens(pairs, WORDS, 4)  # without the pair of which one side has five
    assert within.sizes.tolist() == fewer.sizes.tolist()
    assert within.source.numbers.tolist() == fewer.source.numbers.tolist()
    assert within.target.numbers.tolist() == fewer.target.numbers.tolist()
    alone = Picker(fewer, WORDS.padding, CPU)(torch.tensor([1]), fewer.sizes[[1]])
    assert told(alone) == [("ij", "hh")] and alone.positions is None
