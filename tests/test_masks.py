"""Masks: what each reads, the laws of their algebra, and what they claim without being called."""

import math

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from golden import expect_error
from regard.attention import (
    MASKS,
    Mask,
    attend,
    attend_fused,
    axial,
    block_summary,
    blocks,
    causal,
    dilated,
    global_tokens,
    grid_windows,
    neighborhood,
    prefix,
    random_keys,
    sinks,
    strided,
    window,
)
from strategies import GRIDS, NAMED, causal_masks, examples, masks

SQUARE = (range(17), range(17))
SHIFTED = [(range(5, 16), range(3, 24)), (range(23), range(9)), (range(30, 34), range(2, 40))]


def dense(mask: Mask, q_pos: range = range(17), k_pos: range = range(17)) -> Tensor:
    return mask(q_pos, k_pos)


def same(a: Mask, b: Mask) -> bool:
    return torch.equal(dense(a), dense(b))


def cell(p: int, grid: tuple[int, int]) -> tuple[int, int] | None:
    return divmod(p, grid[1]) if p < grid[0] * grid[1] else None  # None: a class token


def near(q: int, k: int, r: int, grid: tuple[int, int]) -> bool:
    a, b = cell(q, grid), cell(k, grid)
    return not (a and b) or (abs(a[0] - b[0]) <= r and abs(a[1] - b[1]) <= r)


def crossed(q: int, k: int, grid: tuple[int, int]) -> bool:
    a, b = cell(q, grid), cell(k, grid)
    return not (a and b) or a[0] == b[0] or a[1] == b[1]


def together(q: int, k: int, size: int, grid: tuple[int, int], shift: int) -> bool:
    a, b = cell(q, grid), cell(k, grid)
    if a is None or b is None:
        return True
    return [(side - shift) // size for side in a] == [(side - shift) // size for side in b]


# The table of the contract once more, in Python's own integers.
TABLE = [
    (causal, lambda q, k: k <= q),
    *((window(w), lambda q, k, w=w: abs(q - k) < w) for w in (1, 2, 5, 40)),
    *(
        (dilated(w, s), lambda q, k, w=w, s=s: abs(q - k) < w * s and (q - k) % s == 0)
        for w, s in [(1, 1), (1, 3), (3, 1), (3, 2), (2, 5)]
    ),
    *((strided(s), lambda q, k, s=s: (q - k) % s == 0) for s in (1, 2, 5, 30)),
    *((blocks(s), lambda q, k, s=s: q // s == k // s) for s in (1, 2, 5, 30)),
    *((sinks(c), lambda q, k, c=c: k < c) for c in (0, 1, 4, 50)),
    *((prefix(c), lambda q, k, c=c: q < c and k < c) for c in (0, 1, 7, 50)),
    *((global_tokens(c), lambda q, k, c=c: q < c or k < c) for c in (0, 1, 7, 50)),
    *(
        (neighborhood(r, g), lambda q, k, r=r, g=g: near(q, k, r, g))
        for r, g in [(0, (3, 5)), (1, (3, 5)), (2, (4, 4)), (1, (17, 1)), (1, (1, 9))]
    ),
    *((axial(g), lambda q, k, g=g: crossed(q, k, g)) for g in [(3, 5), (4, 4), (1, 6), (7, 1)]),
    *(
        (grid_windows(w, g, s), lambda q, k, w=w, g=g, s=s: together(q, k, w, g, s))
        for w, g, s in [
            (1, (3, 5), 0),
            (2, (3, 5), 0),
            (2, (4, 4), 1),
            (3, (5, 4), 2),
            (9, (4, 3), 0),
        ]
    ),
    *(
        (block_summary(s, c), lambda q, k, s=s, c=c: k % s >= s - c)
        for s, c in [(1, 1), (4, 1), (5, 2), (6, 6), (40, 3)]
    ),
]


@pytest.mark.parametrize("q_pos, k_pos", [SQUARE, *SHIFTED], ids=str)
@pytest.mark.parametrize("mask, predicate", TABLE, ids=[str(mask) for mask, _ in TABLE])
def test_a_named_mask_reads_what_the_table_says(mask, predicate, q_pos, k_pos):
    said = torch.tensor([[predicate(q, k) for k in k_pos] for q in q_pos])
    assert torch.equal(mask(q_pos, k_pos), said)
    # The same from tensors, in any order, one row of positions for each sequence.
    order = torch.randperm(len(k_pos))
    q, k = torch.tensor(q_pos), torch.tensor(k_pos)[order]
    assert torch.equal(mask(q, k), said[:, order])
    batched = mask(q.expand(2, -1), torch.stack([k, k.flip(0)]))
    assert torch.equal(batched, torch.stack([said[:, order], said[:, order.flip(0)]]))


def test_every_mask_of_the_table_is_drawn_and_checked_here():
    assert set(NAMED) == set(MASKS)
    assert {str(m).split("(")[0] for m, _ in TABLE} | {"random_keys"} == set(MASKS)


@given(masks(2), masks(2), masks(2))
@examples(60)
def test_the_algebra_obeys_its_laws(a, b, c):
    assert same(a & b, b & a) and same(a | b, b | a)
    assert same((a & b) & c, a & (b & c)) and same((a | b) | c, a | (b | c))
    assert same(a & (b | c), (a & b) | (a & c)) and same(a | (b & c), (a | b) & (a | c))
    assert same(~(a & b), ~a | ~b) and same(~(a | b), ~a & ~b)
    assert same(a & (a | b), a) and same(a | (a & b), a)
    assert same(~~a, a) and ~~a == a
    assert torch.equal(dense(a & b), dense(a) & dense(b))
    assert torch.equal(dense(a | b), dense(a) | dense(b))
    assert torch.equal(dense(~a), ~dense(a))
    assert dense(a | ~a).all() and not dense(a & ~a).any()


@given(masks(), st.lists(st.integers(-1, 20), min_size=1, max_size=12), st.data())
@examples(80)
def test_nowhere_is_never_read_and_reads_nothing(mask, k_pos, data):
    q_pos = data.draw(st.lists(st.integers(-1, 20), min_size=1, max_size=12))
    q, k = torch.tensor(q_pos), torch.tensor(k_pos)
    for m in (mask, ~mask):
        read = m(q, k)
        assert read.shape == (len(q), len(k))
        assert not read[:, k < 0].any() and not read[q < 0].any()
    assert torch.equal(mask(q, k) | (~mask)(q, k), (q >= 0)[:, None] & (k >= 0))
    here = k >= 0
    assert torch.equal(mask(range(21), k)[:, here], dense(mask, range(21), range(21))[:, k[here]])


@given(masks(), masks())
@examples(150)
def test_a_mask_parses_back_from_what_it_prints(a, b):
    again = Mask.parse(str(a))
    assert again == a and hash(again) == hash(a) and str(again) == str(a) == repr(a)
    assert (a == b) == (str(a) == str(b))
    assert len({a, again, b}) == 1 + (a != b)
    assert a != str(a)


@pytest.mark.parametrize(
    "written",
    [
        "causal",
        "causal & window(64)",
        "causal & (window(64) | sinks(4))",
        "causal & window(64) | sinks(4)",
        "causal & window(2) & sinks(1)",
        "causal & (window(2) & sinks(1))",
        "causal | window(2) | sinks(1)",
        "causal | (window(2) | sinks(1))",
        "~causal & ~window(2)",
        "~(causal & window(2))",
        "~(causal | window(2))",
        "dilated(2, 3)",
        "random_keys(2, 10, 7)",
        "neighborhood(1, (3, 5)) | axial((3, 5))",
    ],
)
def test_printing_adds_no_brackets_and_loses_none(written):
    assert str(Mask.parse(written)) == written
    assert str(Mask.parse(f"  (({written})) ")) == written


@pytest.mark.parametrize(
    "loose, strict",
    [
        ("~~causal", "causal"),
        ("~" * 40 + "causal", "causal"),
        ("window(w=3)", "window(3)"),
        ("dilated(2, step=3)", "dilated(2, 3)"),
        ("random_keys(2, 10)", "random_keys(2, 10, 0)"),
        ("(causal) & (window(3))", "causal & window(3)"),
        ("(causal & window(3)) | sinks(1)", "causal & window(3) | sinks(1)"),
    ],
)
def test_other_spellings_of_a_mask_are_read_too(loose, strict):
    assert str(Mask.parse(loose)) == strict


@pytest.mark.parametrize(
    "nonsense",
    [
        "",
        "   ",
        "3",
        "(2, 3)",
        "True",
        "None",
        "...",
        "'causal'",
        "b'causal'",
        "f'{causal}'",
        "causal.reads",
        "causal.__class__",
        "window(3).w",
        "().__class__.__base__.__subclasses__()",
        "__import__('os').system('true')",
        "eval('causal')",
        "lambda: causal",
        "[causal]",
        "{causal}",
        "[causal for _ in ()]",
        "causal if causal else causal",
        "(causal := causal)",
        "causal and causal",
        "not causal",
        "causal + window(3)",
        "causal ^ window(3)",
        "causal - 1",
        "-causal",
        "causal == causal",
        "causal & 3",
        "3 | causal",
        "~3",
        "causal()",
        "causal(3)",
        "window",
        "window()",
        "window(3, 4)",
        "window(3)(4)",
        "window(causal)",
        "window('3')",
        "window(3.0)",
        "window(True)",
        "window(0)",
        "window(-1)",
        "window(1e3)",
        "window(2147483648)",
        f"window({'9' * 900})",
        "window(v=3)",
        "window(3, w=3)",
        "window(*3)",
        "window(**3)",
        "window(w=3, w=3)",
        "window(w=causal)",
        "random_keys(5, 3)",
        "axial((0, 3))",
        "axial((True, 3))",
        "axial((1, 2, 3))",
        "axial((2.0, 3))",
        "axial(((1, 2), 3))",
        "causal causal",
        "causal; causal",
        "causal =",
        "causal\x00",
        "\ud800",
        "import os",
        "(" * 10_000 + "causal" + ")" * 10_000,
        "(" * 490 + "causal" + ")" * 490,
        "~(" * 320 + "causal" + ")" * 320,
        "~" * 990 + "causal",
        "window(" * 130 + "3" + ")" * 130,
        "causal & " * 1000 + "causal",
    ],
    ids=lambda text: ascii(text[:24]),
)
def test_parse_refuses_everything_else_in_a_sentence(nonsense):
    with expect_error(ValueError):
        Mask.parse(nonsense)


@pytest.mark.parametrize(
    "wrong",
    [
        "casual",
        "causal & windw(3)",
        "sink(4)",
        "random_key(1, 2)",
        "neighbourhood(1, 4)",
        "block(3)",
    ],
)
def test_parse_suggests_the_nearest_name(wrong):
    with expect_error(ValueError):
        Mask.parse(wrong)


def test_parse_lists_the_masks_when_no_name_is_near():
    with expect_error(ValueError):
        Mask.parse("xyzzy")


def test_masks_refuse_pythons_own_and_or_not_and_other_operands():
    for wrong in (lambda: causal and window(3), lambda: not causal, lambda: bool(causal)):
        with expect_error(TypeError):
            wrong()
    for wrong in (lambda: causal & 3, lambda: causal | "window(3)", lambda: 3 & causal):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize(
    "make",
    [
        lambda: window(0),
        lambda: window(-3),
        lambda: window(2.0),
        lambda: window(True),
        lambda: window("3"),
        lambda: window(1 << 31),
        lambda: dilated(0, 2),
        lambda: dilated(2, 0),
        lambda: strided(0),
        lambda: blocks(0),
        lambda: sinks(-1),
        lambda: prefix(-1),
        lambda: global_tokens(-2),
        lambda: random_keys(0, 3),
        lambda: random_keys(4, 3),
        lambda: random_keys(1, 3, -1),
        lambda: neighborhood(-1, (3, 3)),
        lambda: neighborhood(1, (0, 3)),
        lambda: axial((3, -1)),
        lambda: axial(0),
        lambda: axial((2.0, 3)),
        lambda: axial(2.5),
        lambda: axial(True),
        lambda: axial((True, 3)),
        lambda: axial((1, 2, 3)),
    ],
)
def test_bad_arguments_are_refused_with_their_numbers(make, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    with expect_error((TypeError, ValueError)):
        make()


@given(masks(), causal_masks())
@examples(150)
def test_a_mask_that_claims_to_be_causal_never_reads_ahead(mask, within):
    # Of all expressions few are causal; those that nearly are put the claim to the test.
    for m in (mask, ~mask, within | mask, within & mask, ~(within | mask), ~(~within | mask)):
        assert not m.implies_causal or not dense(m, range(40), range(40)).triu(1).any()


@given(causal_masks())
@examples(60)
def test_masks_cut_by_causal_are_known_to_be_causal(mask):
    assert mask.implies_causal
    assert not dense(mask, range(40), range(40)).triu(1).any()


@pytest.mark.parametrize(
    "written, implies",
    [
        ("causal", True),
        ("causal & window(3)", True),
        ("window(3) & causal", True),
        ("causal & (window(3) | global_tokens(2))", True),
        ("causal & window(3) | causal & sinks(2)", True),
        ("~(~causal | window(3))", True),
        ("window(1)", True),
        ("sinks(1)", True),
        ("prefix(0)", True),
        ("causal & ~causal", True),
        ("window(2)", False),
        ("sinks(2)", False),
        ("causal | sinks(2)", False),
        ("causal | window(2)", False),
        ("~causal", False),
        ("strided(2)", False),
        ("global_tokens(1)", False),
        ("random_keys(1, 9)", False),
        ("axial((3, 3))", False),
    ],
)
def test_implies_causal_is_right_for_the_obvious_ones(written, implies):
    mask = Mask.parse(written)
    assert mask.implies_causal is implies
    assert bool(dense(mask, range(40), range(40)).triu(1).any()) is not implies


@given(masks())
@examples(100)
def test_reach_bounds_how_far_back_a_mask_reads(mask):
    read = dense(mask, range(40), range(40)).nonzero()
    back = int((read[:, 0] - read[:, 1]).max()) if len(read) else 0
    assert mask.reach >= max(back, 0)
    least, greatest = mask.offsets
    assert all(least <= q - k <= greatest for q, k in read.tolist())


@given(masks(), st.integers(1, 20))
@examples(80)
def test_a_relative_mask_does_not_notice_when_all_positions_move(mask, by):
    moved = dense(mask, range(by, by + 17), range(by, by + 17))
    assert not mask.relative or torch.equal(moved, dense(mask))


def test_reach_is_the_window_and_infinite_without_one():
    assert (causal & window(5)).reach == 4 and blocks(8).reach == 7
    assert (causal & (window(3) | dilated(3, 4))).reach == 8
    assert causal.reach == sinks(2).reach == math.inf
    assert (~causal).reach == 0
    assert (causal & ~dilated(2, 3) | strided(2)).relative and not (causal & blocks(3)).relative


@given(masks(), st.integers(0, 30), st.integers(0, 30))
@examples(80)
def test_density_is_the_share_of_the_map_that_is_read(mask, n, m):
    read = mask(range(n), range(m))
    assert mask.density(n, m) == pytest.approx(float(read.double().mean()) if n * m else 0.0)
    assert mask.density(n) == mask.density(n, n)


def test_density_counts_in_pieces_without_holding_the_map():
    assert causal.density(3000) == 3001 / 6000  # nine million entries, four million at a time


@given(masks(), st.integers(1, 9), st.integers(1, 9))
@examples(30)
def test_a_picture_is_the_map_in_two_characters(mask, n, m):
    lines = mask.picture(n, m).split("\n")
    assert [[c == "█" for c in line] for line in lines] == mask(range(n), range(m)).tolist()
    assert set("".join(lines)) <= set("█·")


def test_a_picture_is_square_unless_told_otherwise():
    assert (causal & window(2)).picture(3) == "█··\n██·\n·██"


def tiles_of(mask: Mask, q_pos: range, k_pos: range, size: int) -> tuple[Tensor, Tensor]:
    """Some and every of each tile, off the dense matrix."""
    rows = dense(mask, q_pos, k_pos).split(size)
    tiles = [row.split(size, 1) for row in rows]
    some = [[bool(tile.any()) for tile in row] for row in tiles]
    every = [[bool(tile.all()) for tile in row] for row in tiles]
    return torch.tensor(some), torch.tensor(every)


@st.composite
def maps(draw: st.DrawFn) -> tuple[range, range, int]:
    """Two ranges with offsets, and a tile that need not divide them."""
    ranges = [
        range(start, start + draw(st.integers(1, 25)))
        for start in (draw(st.integers(0, 12)), draw(st.integers(0, 12)))
    ]
    return *ranges, draw(st.integers(1, 9))


@given(masks(), maps())
@examples(200)
def test_tiles_never_hide_what_is_read_nor_claim_what_is_not(mask, where):
    some, every = mask.tiles(*where)
    truly_some, truly_every = tiles_of(mask, *where)
    assert some.shape == truly_some.shape == every.shape and some.dtype == every.dtype == torch.bool
    assert not (truly_some & ~some).any()
    assert not (every & ~truly_every).any()
    # The flags of one span are those of one tile as large as the map.
    said = mask.on(where[0], where[1])
    if said is True:
        assert dense(mask, *where[:2]).all()
    elif said is False:
        assert not dense(mask, *where[:2]).any()


EXACT = ("causal", "window", "dilated", "strided", "blocks", "sinks", "prefix", "global_tokens")


@pytest.mark.parametrize("name", EXACT)
@given(data=st.data(), where=maps())
@examples(40)
def test_tiles_of_a_named_mask_are_exact(name, data, where):
    mask = data.draw(NAMED[name])
    for said, true in zip(mask.tiles(*where), tiles_of(mask, *where), strict=True):
        assert torch.equal(said, true)
    for said, true in zip((~mask).tiles(*where), tiles_of(~mask, *where), strict=True):
        assert torch.equal(said, true)


@given(NAMED["random_keys"], maps())
@examples(40)
def test_tiles_with_something_in_them_are_exact_for_random_keys(mask, where):
    assert torch.equal(mask.tiles(*where).some, tiles_of(mask, *where)[0])


def test_random_keys_that_are_all_keys_fill_their_tiles():
    some, every = random_keys(8, 8).tiles(range(6), range(12), 4)
    assert torch.equal(every, torch.tensor([[True, True, False]] * 2)) and torch.equal(some, every)


@given(masks(), maps())
@examples(120)
def test_a_mask_simplified_for_two_ranges_reads_the_same(mask, where):
    q_pos, k_pos, _ = where
    simple = mask.on(q_pos, k_pos)
    if isinstance(simple, bool):
        simple = global_tokens((1 << 31) - 1) if simple else prefix(0)
    assert torch.equal(simple(q_pos, k_pos), mask(q_pos, k_pos))


def test_a_mask_simplifies_where_a_part_of_it_says_nothing():
    chunk, seen = range(8, 12), range(12)
    assert (causal & window(20)).on(chunk, seen) == causal
    assert (causal | window(20)).on(chunk, seen) is True
    assert (causal & window(2)).on(range(40, 44), seen) is False
    assert (window(2) | causal).on(range(4), range(2, 9)) == window(2) | causal
    assert (causal & sinks(4)).on(chunk, range(4)) is True
    assert (~causal & window(3)).on(range(4), range(6, 9)) is False
    assert (~causal | blocks(2)).on(range(8, 12), range(4)) is False
    assert causal.on(range(0), range(4)) is True


@given(masks(), st.lists(st.integers(-1, 40), min_size=1, max_size=15), st.integers(0, 40))
@examples(150)
def test_needs_never_denies_a_key_that_a_later_query_reads(mask, k_pos, since):
    k = torch.tensor(k_pos)
    needed = mask.needs(k, since)
    read = mask(range(since, since + 60), k).any(0)
    assert not (read & ~needed).any()
    assert not needed[k < 0].any()
    # One `since` for each sequence: a row for each, or one that serves all where none depends.
    later = torch.tensor([[since], [since + 3]])
    rows = torch.stack([needed, mask.needs(k, since + 3)])
    assert torch.equal(mask.needs(k.expand(2, -1), later), rows)
    assert torch.equal(mask.needs(k, later).expand_as(rows), rows)


@given(st.integers(1, 9), st.integers(0, 30), st.integers(0, 4), st.integers(1, 6))
@examples(50)
def test_needs_of_a_window_denies_exactly_the_old_keys(w, since, c, size):
    k = torch.arange(45)
    # A key ahead of `since` is read by the query at its own position.
    assert torch.equal((causal & window(w)).needs(k, since), k > since - w)
    assert torch.equal((causal & window(w)).needs(range(45), since), k > since - w)
    assert torch.equal((causal & (window(w) | sinks(c))).needs(k, since), (k > since - w) | (k < c))
    assert torch.equal((causal & blocks(size)).needs(k, since), k // size >= since // size)
    assert causal.needs(k, since).all() and strided(size).needs(k, since).all()
    assert torch.equal((~causal).needs(k, since), k > since)


@given(NAMED["random_keys"], st.lists(st.integers(0, 200), min_size=1, max_size=10))
@examples(60)
def test_random_keys_are_distinct_and_the_same_at_every_call(mask, rows):
    q = torch.tensor(rows)
    read = mask(q, range(60))
    assert (read.sum(-1) == mask.count).all() and not read[:, mask.among :].any()
    assert torch.equal(read, mask(q, range(60)))
    assert torch.equal(read, mask(range(201), range(60))[q])
    assert torch.equal(mask(q, torch.arange(60).flip(0)), read.flip(1))
    assert all(len(set(keys)) == mask.count for keys in mask.drawn(q).tolist())


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("count, among", [(1, 10), (3, 20), (19, 20)])
def test_random_keys_are_drawn_evenly(count, among, seed):
    rows = 4000
    read = random_keys(count, among, seed)(range(rows), range(among)).double()
    expected = rows * count / among
    # Drawing without repeats shrinks the variance of a cell by (among − count) / (among − 1).
    shrink = (among - count) / (among - 1)
    chi_square = float(((read.sum(0) - expected) ** 2 / expected).sum()) / shrink
    degrees = among - 1
    assert abs(chi_square - degrees) < 4 * math.sqrt(2 * degrees)
    # Neighbouring rows are unrelated: they share count² / among keys on average.
    shared = (read[1:] * read[:-1]).sum(-1)
    assert float(shared.mean()) == pytest.approx(count**2 / among, abs=0.1)


def test_seeds_draw_different_keys():
    maps = [random_keys(3, 30, seed)(range(50), range(30)) for seed in range(4)]
    for i, a in enumerate(maps):
        for b in maps[:i]:
            assert float((a & b).sum(-1).double().mean()) < 1  # 0.3 are shared by chance


@given(masks(), GRIDS)
@examples(60)
def test_masks_on_a_grid_move_to_another_and_the_rest_stay(mask, grid):
    moved = mask.at(grid)
    assert moved.at(grid) == moved
    if not any(name in str(mask) for name in ("neighborhood", "axial", "grid_windows")):
        assert moved == mask


def test_a_mask_on_a_grid_of_another_size_is_the_mask_written_there():
    there = "causal & ~neighborhood(1, {0}) | axial({0}) & window(3)"
    assert Mask.parse(there.format("(3, 5)")).at((2, 7)) == Mask.parse(there.format("(2, 7)"))


def test_a_square_grid_may_be_said_by_its_side(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which wants the pair
    assert neighborhood(2, 4) == neighborhood(2, (4, 4)) == Mask.parse("neighborhood(2, 4)")


def test_class_tokens_read_and_are_read_freely():
    for mask in (neighborhood(0, (2, 3)), axial((2, 3)), grid_windows(1, (2, 3))):
        read = dense(mask, range(8), range(8))
        assert read[6:].all() and read[:, 6:].all() and not read[:6, :6].all()


def test_a_plain_class_of_masks_is_equal_to_itself_alone_and_prints():
    class Every(Mask):
        def __init__(self, period):
            self.period = period

        def reads(self, q, k):
            return (q + k) % self.period == 0

    two, three = Every(2), Every(3)
    assert two == two and two != three and len({two, three}) == 2
    q = torch.randn(1, 1, 6, 4)
    for mask in (two, three):
        weights = attend(q, q, q, mask=mask).weights[0, 0]
        assert torch.equal(weights > 0, mask(range(6), range(6)))
        torch.testing.assert_close(
            attend_fused(q, q, q, mask=mask), attend(q, q, q, mask=mask).output
        )
    assert str(two & causal) == "Every(…) & causal"


@pytest.mark.parametrize("wrong", [range(0, 6, 2), range(3, 0, -1), range(-2, 2)], ids=str)
def test_a_range_with_steps_or_from_before_the_start_is_refused(wrong):
    with expect_error(ValueError):
        causal(wrong, range(4))
    assert causal(range(5, 3), range(4)).shape == (0, 4)


@given(masks(), st.integers(0, 3000))
@examples(40)
def test_positions_of_32_bits_are_read_as_those_of_64(mask: Mask, first: int) -> None:
    """Kernels on a GPU count in 32 bits."""
    q, k = torch.arange(first, first + 40)[:, None], torch.arange(3040)
    assert torch.equal(mask.reads(q.int(), k.int()), mask.reads(q, k))
