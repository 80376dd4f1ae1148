"""Masks whose keys lie scattered: parts in orders of their own, merged into what `attend` reads."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import grad

from regard.attention import (
    Mask,
    attend,
    attend_fused,
    axial,
    causal,
    explain_kernel,
    neighborhood,
    sparse_transformer,
    sparse_transformer_fixed,
    window,
)
from regard.attention.call import Call
from regard.attention.kernels import choose as kernels
from regard.attention.kernels import merged
from regard.attention.kernels import scattered as arrangement
from regard.attention.kernels.scattered import arrange
from strategies import examples, masks

EXACT = {"rtol": 0.0, "atol": 1e-10}
SCATTERED = [
    "strided(5)",
    "dilated(3, 4)",
    "block_summary(6, 2)",
    "random_keys(3, 29, 1)",
    "causal & (window(5) | strided(5))",
    "causal & (blocks(6) | block_summary(6, 2))",
    "window(2) | global_tokens(1) | random_keys(2, 29, 0)",
    "axial((5, 6))",
    "causal & axial((6, 5))",
    "strided(4) & ~window(9)",
    "strided(3) & dilated(2, 2) | block_summary(7, 7)",
    "~causal & strided(2)",
    "strided(40)",
    "neighborhood(1, (6, 5))",
    "neighborhood(2, (7, 9)) & causal",
    "neighborhood(1, (3, 19)) | strided(7)",
    "axial((6, 5)) | neighborhood(1, (6, 5))",
]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """So that a few tokens fall into many tiles."""
    monkeypatch.setattr(arrangement, "TILE", 4)
    monkeypatch.setattr(arrangement, "SIDE", 2)
    arrange.cache_clear()
    yield
    arrange.cache_clear()


def drawn(n, m, *, heads=2, groups=2, dtype=torch.float64):
    shapes = ((heads, n), (groups, m), (groups, m))
    return tuple(torch.randn(2, *s, 4, dtype=dtype, requires_grad=True) for s in shapes)


def assert_merges(mask, tensors, where, tolerance=EXACT):
    """The read and all gradients are those of the dense map."""
    arrangement = arrange(mask, *where)
    assert arrangement is not None
    fast = merged.merged(Call.check(*tensors, mask, *where), arrangement)
    plain = attend(*tensors, mask=mask, q_pos=where[0], k_pos=where[1]).output
    push = torch.randn_like(fast)
    for ours, theirs in zip(
        (fast, *grad(fast, tensors, push)), (plain, *grad(plain, tensors, push)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, **tolerance)


@pytest.mark.parametrize(
    "where", [(range(29), range(29)), (range(9, 29), range(3, 29)), (range(3), range(20))], ids=str
)
@pytest.mark.parametrize("text", SCATTERED)
def test_parts_merge_into_what_the_dense_map_reads(text, where):
    mask = Mask.parse(text)
    assert_merges(mask, drawn(len(where[0]), len(where[1])), where)


@given(masks(2), st.integers(1, 22), st.integers(0, 9), st.integers(1, 22), st.integers(0, 9))
@examples(60)
def test_any_mask_that_has_scattered_parts_merges(mask, n, q_start, m, k_start):
    where = range(q_start, q_start + n), range(k_start, k_start + m)
    if arrange(mask, *where) is not None:
        assert_merges(mask, drawn(n, m), where)


@pytest.mark.parametrize("text", SCATTERED)
def test_gradients_of_gradients_are_those_of_the_dense_map(text):
    mask, where = Mask.parse(text), (range(9, 29), range(3, 29))
    tensors, parts = drawn(len(where[0]), len(where[1])), arrange(mask, *where)
    fast = merged.merged(Call.check(*tensors, mask, *where), parts)
    plain = attend(*tensors, mask=mask, q_pos=where[0], k_pos=where[1]).output
    found = []
    for read in (fast, plain):
        firsts = grad(read.sin().sum(), tensors, create_graph=True)
        found.append(grad(sum(first.square().sum() for first in firsts), tensors))
    torch.testing.assert_close(*found, **EXACT)


@pytest.mark.parametrize("text", SCATTERED)
def test_every_pair_that_may_be_read_is_read_once(text):
    mask, where = Mask.parse(text), (range(3, 29), range(2, 27))
    times = torch.zeros(26, 25, dtype=torch.int64)
    for batch in arrange(mask, *where).batches:
        allowed = batch.allowed.expand(len(batch.q_rows), -1, -1)
        for rows, columns, may in zip(batch.q_rows, batch.k_rows, allowed, strict=True):
            assert len(set(rows.tolist())) == len(rows)
            i, j = may.nonzero(as_tuple=True)
            times.index_put_((rows[i], columns[j]), torch.ones_like(i), accumulate=True)
    assert torch.equal(times, mask(*where).long())


@pytest.mark.parametrize("grid", [(6, 5), (4, 4), (1, 9), (7, 1), (2, 11)], ids=str)
@pytest.mark.parametrize("r", [0, 1, 3])
def test_neighbourhoods_on_whole_grids(r, grid):
    n = grid[0] * grid[1]
    assert_merges(neighborhood(r, grid), drawn(n, n), (range(n), range(n)))


def test_heads_may_share_keys_and_axes_may_be_few():
    mask, where = sparse_transformer(4), (range(21), range(21))
    assert_merges(mask, drawn(21, 21, heads=4, groups=2), where)
    assert_merges(mask, tuple(x[0, 0].detach().requires_grad_() for x in drawn(21, 21)), where)


@pytest.mark.parametrize(
    "dtype, tolerance",
    [(torch.float32, {"rtol": 0, "atol": 2e-5}), (torch.bfloat16, {"rtol": 0, "atol": 6e-2})],
)
def test_other_types(dtype, tolerance):
    assert_merges(axial((5, 5)), drawn(25, 25, dtype=dtype), (range(25), range(25)), tolerance)


@pytest.mark.cuda
@pytest.mark.parametrize("where", [(range(29), range(29)), (range(9, 29), range(3, 29))], ids=str)
@pytest.mark.parametrize("text", SCATTERED)
def test_a_gpu_merges_them_too(text, where):
    shapes = [(2, 2, len(positions), 8) for positions in (where[0], where[1], where[1])]
    tensors = tuple(torch.randn(shape, device="cuda", requires_grad=True) for shape in shapes)
    assert_merges(Mask.parse(text), tensors, where, {"rtol": 0, "atol": 2e-5})


def test_queries_that_may_read_nothing_read_zeros():
    mask, tensors = Mask.parse("~causal & strided(3)"), drawn(10, 10)
    arrangement = arrange(mask, range(10), range(10))
    read = merged.merged(Call.check(*tensors, mask), arrangement)
    assert not read[..., -3:, :].any() and read[..., :7, :].all()
    assert all(g.isfinite().all() for g in grad(read.sum(), tensors))


def test_nothing_scattered_is_left_to_tiles():
    for mask in (causal & window(3), Mask.parse("blocks(4) | global_tokens(1)"), ~axial((3, 4))):
        assert arrange(mask, range(12), range(12)) is None
    # A class token reads all, so rows and columns are not all that is read.
    assert arrange(axial((3, 4)), range(13), range(13)) is None
    many = Mask.parse(" | ".join(f"strided({step})" for step in range(2, 12)))
    assert arrange(many, range(12), range(12)) is None


class TestChoice:
    @pytest.fixture(autouse=True)
    def whole_tiles(self, small_tiles, monkeypatch):
        monkeypatch.setattr(arrangement, "TILE", 128)
        monkeypatch.setattr(arrangement, "SIDE", 8)

    @pytest.mark.parametrize(
        "mask",
        [
            sparse_transformer(32),
            sparse_transformer_fixed(64),
            axial((32, 32)),
            neighborhood(2, (32, 32)),
        ],
        ids=str,
    )
    def test_it_is_taken_where_it_reads_less(self, mask, monkeypatch):
        tensors = tuple(torch.randn(1, 2, 1024, 16, requires_grad=True) for _ in "qkv")
        assert explain_kernel(*tensors, mask=mask).startswith("SDPA part by part, merged")
        monkeypatch.setattr(kernels, "tiled", None)
        fast, plain = attend_fused(*tensors, mask=mask), attend(*tensors, mask=mask).output
        torch.testing.assert_close(fast, plain, rtol=0, atol=2e-5)
        entries = arrange(mask, range(1024), range(1024)).entries
        assert entries < 0.35 * 1024**2

    def test_it_is_not_where_tiles_read_less_or_the_kernel_cannot(self):
        q, k, v = (torch.randn(1, 1, 1024, 16) for _ in "qkv")
        near = Mask.parse("dilated(8, 2)")
        assert explain_kernel(q, k, v, mask=near).startswith("SDPA tile by tile")
        wide = torch.randn(1, 1, 1024, 24)
        assert "merged" not in explain_kernel(q, k, wide, mask=sparse_transformer(32))

    def test_many_drawn_keys_are_left_to_the_map(self):
        q = torch.empty(1, 1, 2048, 64)
        for count, way in ((3, "part by part, merged"), (64, "with a mask")):
            assert way in explain_kernel(q, q, q, mask=Mask.parse(f"bigbird(64, 2, {count}, 2048)"))


@pytest.mark.parametrize("words", ["random_keys(3, 29, 1)", "causal & (window(5) | strided(5))"])
def test_keys_that_are_copied_take_so_much_room_and_no_more(words, monkeypatch):
    monkeypatch.setattr(merged, "COPIED", {"cpu": 100, "cuda": 100})
    tensors, mask = drawn(29, 29), Mask.parse(words)
    arrangement = arrange(mask, range(29), range(29))
    pieces = list(merged.in_pieces(arrangement.batches, tensors[1].flatten(0, 1)))
    assert len(pieces) > len(arrangement.batches)
    assert sum(piece.entries for piece in pieces) == arrangement.entries
    assert_merges(mask, tensors, (range(29), range(29)))


def test_sums_are_not_narrowed_where_everything_else_is():
    mask = Mask.parse("causal & (window(5) | random_keys(5, 29, 1))")
    with torch.no_grad():
        tensors = tuple(x.bfloat16() for x in drawn(29, 29))
        call = Call.check(*tensors, mask, range(29), range(29))
        parts = arrange(mask, range(29), range(29))
        apart = merged.merged(call, parts)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(merged.merged(call, parts), apart)
