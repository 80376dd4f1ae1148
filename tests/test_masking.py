"""Which words are asked for, what stands in their places, and that nothing else is touched."""

import numpy as np
import pytest
import torch

from regard.data.augment import seeded
from regard.data.masking import SPARE, Masked, Masking, edges_of
from regard.data.tokenizer import TokenizerConfig, Vocabulary, fit_vocabulary
from regard.data.word_pieces import WordPieceVocabulary

CPU = torch.device("cpu")
TEXT = "the naïve reader (of 12 unreadable books) re-reads: un_read, isn't it? Crème brûlée!"


def vocabulary(kind: str = "byte", text: str = TEXT, **options) -> Vocabulary:
    config = TokenizerConfig(name=kind, min_frequency=1, **options)
    return fit_vocabulary([text], config, extra=("mask",))


def word_pieces() -> WordPieceVocabulary:
    pieces = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]", "un", "##read", "##able", "book", "a")
    return WordPieceVocabulary(("padding", "start", "end", "unknown", "mask"), pieces)


def hide(words: Vocabulary, rows: torch.Tensor, seed: int = 0, **options) -> Masked:
    return Masking(words, **options)(rows, seeded(seed, CPU))


def rows_of(words: Vocabulary, b: int, n: int, real: int) -> torch.Tensor:
    """Rows as a reader gets them: start, ordinary words, end, padding."""
    draw = torch.Generator().manual_seed(1)
    first = len(words.specials)
    rows = torch.randint(first, len(words), (b, n), generator=draw)
    rows[:, 0], rows[:, real - 1], rows[:, real:] = words.start, words.end, words.padding
    return rows


def asked(masked: Masked) -> torch.Tensor:
    """True where a word is asked for."""
    found = torch.zeros(masked.words.shape, dtype=torch.bool)
    return found.scatter(1, masked.places, masked.real)


def within(count: int, total: int, share: float) -> bool:
    """Whether chance explains a count: within four standard deviations."""
    return abs(count - share * total) <= 4 * np.sqrt(total * share * (1 - share))


@pytest.mark.parametrize("share", [0.15, 0.4])
@pytest.mark.parametrize(("hidden", "swapped"), [(0.8, 0.1), (1.0, 0.0), (0.2, 0.7)])
def test_shares_are_those_asked_for(share, hidden, swapped):
    words = vocabulary()
    rows = rows_of(words, 400, 128, 120)
    masked = hide(words, rows, share=share, hidden=hidden, swapped=swapped)
    chosen = asked(masked)
    count, total = int(chosen.sum()), 400 * 118
    assert within(count, total, share)
    gone = chosen & (masked.words == words.special("mask"))
    kept = chosen & (masked.words == rows)
    other = chosen & ~gone & ~kept
    assert within(int(gone.sum()), count, hidden)
    # One in 256 swapped words is exchanged for itself.
    assert within(int(other.sum()), count, swapped * 255 / 256)
    assert bool(other.any()) == (swapped > 0) and bool(kept.any()) == (hidden + swapped < 1)
    swaps = masked.words[other]
    assert not swaps.numel() or (swaps >= len(words.specials)).all()
    assert len(swaps.unique()) > 200 or not swapped, "drawn from all ordinary words"


def test_other_words_and_specials_are_never_touched():
    words = vocabulary()
    rows = rows_of(words, 50, 64, 40)
    masked = hide(words, rows)
    chosen = asked(masked)
    assert torch.equal(masked.words[~chosen], rows[~chosen])
    assert not chosen[:, 0].any() and not chosen[:, 39:].any()


def test_targets_are_the_true_words_at_their_places_and_come_in_order():
    words = vocabulary()
    rows = rows_of(words, 50, 64, 40)
    masked = hide(words, rows)
    assert torch.equal(masked.targets, rows.gather(1, masked.places))
    for places, real in zip(masked.places, masked.real, strict=True):
        assert (places[real].diff() > 0).all(), "from left to right"
        assert not real.long().diff().gt(0).any(), "the real ones first"
        assert len(places.unique()) == len(places)
    assert masked.places.shape == (50, int(np.ceil(SPARE * 0.15 * 64)) + 2)


def test_every_row_is_asked_for_a_word_but_one_of_specials_only():
    words = vocabulary()
    rows = rows_of(words, 300, 16, 4)  # two words a row: 15% of these are mostly none
    masked = hide(words, rows)
    assert (masked.real.sum(1) >= 1).all() and masked.real.sum() < 1.35 * 300
    empty = rows_of(words, 3, 6, 2)
    masked = hide(words, empty)
    assert torch.equal(masked.words, empty) and not masked.real.any()
    assert not hide(words, torch.full((2, 1), words.padding)).real.any()


def test_unknown_words_are_not_asked_for():
    words = vocabulary("word", "red blue green", vocab_size=6)
    rows = torch.full((20, 40), words.special("unknown"))
    rows[:, 20:] = 5
    chosen = asked(hide(words, rows))
    assert chosen.any() and not chosen[:, :20].any()


def test_words_too_many_for_their_places_are_hidden_and_not_asked_for():
    words = vocabulary()
    rows = rows_of(words, 2_000, 32, 32)
    masked = hide(words, rows, hidden=1.0, swapped=0.0)
    gone = masked.words != rows
    room = masked.places.shape[1]
    full = gone.sum(1) > room
    assert full.any() and masked.real[full].all()
    for row in full.nonzero()[:, 0]:
        assert torch.equal(masked.places[row], gone[row].nonzero()[:room, 0]), "the last wait"


def test_the_same_seed_hides_the_same_and_another_other_words():
    words = vocabulary()
    rows = rows_of(words, 20, 64, 40)
    one, again, other = (hide(words, rows, seed) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not torch.equal(asked(one), asked(other))
    kept = rows.clone()
    hide(words, rows)
    assert torch.equal(rows, kept), "the rows themselves stay"


# Whole words


def words_by_hand(words: Vocabulary, rows: list[int]) -> list[list[int]]:
    """Places by word, for byte pairs: letters and digits that touch are one word."""
    text = "".join(f"\0{words.decode([n])}" for n in rows)
    found: list[list[int]] = []
    before = " "
    for at, piece in enumerate(text.split("\0")[1:]):
        inside = (piece[:1].isalnum() or piece[:1] == "\ufffd") and (
            before.isalnum() or before == "\ufffd"
        )
        if inside:
            found[-1].append(at)
        else:
            found.append([at])
        before = piece[-1:]
    return found


@pytest.mark.parametrize("kind", ["byte", "char", "bpe"])
def test_all_pieces_of_a_word_are_asked_for_together(kind):
    words = vocabulary(kind, vocab_size=300)
    tokens = words.encode(f" {TEXT}")
    groups = words_by_hand(words, tokens)
    spelt = ["".join(words.decode([tokens[at] for at in group])) for group in groups]
    assert {"un", "read", "12", "(", "isn"} <= {word.strip() for word in spelt}
    assert {"naïve", "brûlée"} <= {word.strip() for word in spelt}, "letters of several bytes"
    rows = torch.tensor([[words.start, *tokens, words.end]]).expand(300, -1)
    chosen = asked(hide(words, rows, share=0.4, whole_words=True))[:, 1:-1]
    room = int(SPARE * 0.4 * rows.shape[1])
    chosen = chosen[chosen.sum(1) < room]  # where no place was lacking
    for group in groups:
        together = chosen[:, group]
        assert (together.all(1) == together.any(1)).all(), group
        assert within(int(together[:, 0].sum()), len(chosen), 0.4)
    apart = asked(hide(words, rows, share=0.4))[:, 1:-1]
    assert any((apart[:, group].all(1) != apart[:, group].any(1)).any() for group in groups)


def test_all_word_pieces_of_a_word_are_asked_for_together():
    words = word_pieces()
    one = [words.special("start"), *words.encode("unreadable book a unread"), words.end]
    rows = torch.tensor([one]).expand(200, -1)
    chosen = asked(hide(words, rows, share=0.3, whole_words=True))
    for group in ([1, 2, 3], [6, 7]):
        assert (chosen[:, group].all(1) == chosen[:, group].any(1)).all()
        assert 0 < chosen[:, group[0]].sum() < 200
    assert (chosen[:, 1] != chosen[:, 4]).any() and (chosen[:, 4] != chosen[:, 5]).any()


def test_a_text_that_begins_within_a_word_is_a_word_of_its_own():
    words = word_pieces()
    rows = torch.tensor([[6, 7, 8, 2, 6, 7]]).expand(200, -1)  # ##read ##able book end ##read …
    chosen = asked(hide(words, rows, share=0.3, whole_words=True))
    assert (chosen[:, 0] == chosen[:, 1]).all() and (chosen[:, 4] == chosen[:, 5]).all()
    assert (chosen[:, 1] != chosen[:, 2]).any() and (chosen[:, 0] != chosen[:, 4]).any()


def test_whole_words_of_a_vocabulary_of_words_are_its_entries():
    words = vocabulary("word", "red blue red")
    assert edges_of(words, len(words) - 1) == (False, False)
    rows = torch.full((50, 30), len(words) - 1)
    one, other = (hide(words, rows, whole_words=whole) for whole in (True, False))
    assert torch.equal(one.words, other.words)
