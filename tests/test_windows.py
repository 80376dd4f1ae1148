"""Windows on a grid: what they read, and that cutting the tokens up reads exactly the same."""

import jaxtyping
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import grad

from golden import expect_error
from regard.attention import (
    Mask,
    attend,
    attend_fused,
    blocks,
    causal,
    explain_kernel,
    sinks,
    window,
)
from regard.attention.call import Call
from regard.attention.kernels import choose as kernels
from regard.attention.kernels import tiles as sparse
from regard.attention.kernels import window as windowed
from regard.attention.masks import block_summary, grid_windows
from regard.attention.patterns import bigbird, longformer, sparse_transformer
from strategies import examples, masks

EXACT = {"rtol": 0.0, "atol": 1e-10}
GRIDS = st.tuples(st.integers(1, 5), st.integers(1, 5))


@st.composite
def any_windows(draw: st.DrawFn) -> Mask:
    size = draw(st.integers(1, 4))
    return grid_windows(size, draw(GRIDS), draw(st.integers(0, size - 1)))


@st.composite
def any_summary(draw: st.DrawFn) -> Mask:
    size = draw(st.integers(1, 6))
    return block_summary(size, draw(st.integers(1, size)))


NEW = st.one_of(
    any_windows(),
    any_summary(),
    st.builds(longformer, st.integers(1, 5), st.integers(0, 3)),
    st.builds(bigbird, st.integers(1, 3), st.integers(0, 2), st.integers(1, 3), st.integers(3, 14)),
    st.builds(sparse_transformer, st.integers(1, 6)),
)
COMPOSED = st.one_of(
    NEW,
    st.builds(lambda a, b: a & b, NEW, masks(2)),
    st.builds(lambda a, b: a | b, masks(2), NEW),
    st.builds(lambda a, b: ~a | b, NEW, masks(1)),
    st.builds(lambda a, b: a & ~b, NEW, NEW),
)


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def qkv(n: int, m: int, lead: tuple[int, ...] = (2, 4), groups: int = 2) -> list[Tensor]:
    fewer = (*lead[:-1], groups) if lead else ()
    shapes = [(*lead, n, 4), (*fewer, m, 4), (*fewer, m, 3)]
    return [randn(*shape).requires_grad_() for shape in shapes]


def agree(fast: Tensor, plain: Tensor, tensors: list[Tensor], **exact: float) -> None:
    """Outputs and gradients."""
    torch.testing.assert_close(fast, plain, **(exact or EXACT))
    towards = torch.randn_like(plain)
    wanted = grad((plain * towards).sum(), tensors, materialize_grads=True)
    got = grad((fast * towards).sum(), tensors, materialize_grads=True)
    assert all(g.isfinite().all() for g in got)
    torch.testing.assert_close(got, wanted, **(exact or EXACT))


# What is read


@pytest.mark.parametrize("q_pos, k_pos", [(range(22), range(22)), (range(5, 16), range(3, 24))])
@pytest.mark.parametrize("size, shift", [(1, 0), (2, 0), (2, 1), (3, 0), (3, 2), (9, 0), (9, 4)])
@pytest.mark.parametrize("grid", [(4, 4), (3, 5), (1, 7), (7, 1), (6, 3)], ids=str)
def test_windows_read_what_their_definition_says(size, shift, grid, q_pos, k_pos):
    height, width = grid
    # Each side is cut at shift, shift + size, …: which of these lie before a row names its window.
    cuts = range(shift, 99, size)

    def piece(side: int) -> int:
        return sum(at <= side for at in cuts)

    def reads(q: int, k: int) -> bool:
        if max(q, k) >= height * width:
            return True  # a class token
        (r, c), (i, j) = divmod(q, width), divmod(k, width)
        return piece(r) == piece(i) and piece(c) == piece(j)

    said = torch.tensor([[reads(q, k) for k in k_pos] for q in q_pos])
    mask = grid_windows(size, grid, shift)
    assert torch.equal(mask(q_pos, k_pos), said)
    assert torch.equal(mask(torch.tensor(q_pos), torch.tensor(k_pos)), said)
    assert Mask.parse(str(mask)) == mask and mask.grids() == {grid}
    assert mask.at((2, 9)) == grid_windows(size, (2, 9), shift)


@pytest.mark.parametrize("size, shift, side", [(2, 1, 6), (3, 1, 9), (4, 2, 8), (3, 2, 6)])
def test_shifted_windows_are_a_rolled_grid_whose_wrapped_parts_are_kept_apart(size, shift, side):
    cells = torch.arange(side * side).view(side, side)
    rolled = cells.roll((-shift, -shift), (0, 1))
    read = torch.zeros(side * side, side * side, dtype=torch.bool)
    for top in range(0, side, size):
        for left in range(0, side, size):
            inside = rolled[top : top + size, left : left + size].flatten().tolist()
            for q in inside:
                for k in inside:
                    (r, c), (i, j) = divmod(q, side), divmod(k, side)
                    # Cells that came around the border stay by themselves.
                    read[q, k] = (r < shift) == (i < shift) and (c < shift) == (j < shift)
    mask = grid_windows(size, (side, side), shift)
    assert torch.equal(mask(range(side**2), range(side**2)), read)


@pytest.mark.parametrize("size, c", [(1, 1), (4, 1), (4, 4), (5, 2)])
def test_a_summary_is_the_last_columns_of_every_block(size, c):
    said = torch.tensor([k % size in range(size - c, size) for k in range(30)]).expand(7, -1)
    assert torch.equal(block_summary(size, c)(range(3, 10), range(30)), said)


@given(COMPOSED, st.integers(0, 12), st.integers(0, 12), st.data())
@examples(150)
def test_tiles_and_spans_never_hide_what_is_read_nor_claim_what_is_not(mask, q_at, k_at, data):
    n, m, size = (data.draw(st.integers(1, most)) for most in (25, 25, 9))
    q_pos, k_pos = range(q_at, q_at + n), range(k_at, k_at + m)
    dense = mask(q_pos, k_pos)
    some, every = mask.tiles(q_pos, k_pos, size)
    for row, lines in enumerate(dense.split(size)):
        for column, tile in enumerate(lines.split(size, 1)):
            assert some[row, column] or not tile.any()
            assert tile.all() or not every[row, column]
    needed = mask.needs(torch.arange(30), q_at)
    assert not (mask(range(q_at, q_at + 60), range(30)).any(0) & ~needed).any()
    least, greatest = mask.offsets
    back = [q_at + q - k_at - k for q, k in dense.nonzero().tolist()]
    assert all(least <= by <= greatest for by in back)
    assert not mask.implies_causal or not mask(range(40), range(40)).triu(1).any()


@given(any_summary(), st.integers(0, 12), st.integers(1, 25), st.integers(1, 9))
@examples(60)
def test_tiles_of_a_summary_are_exact(mask, start, m, size):
    q_pos, k_pos = range(5), range(start, start + m)
    some, every = mask.tiles(q_pos, k_pos, size)
    tiles = mask(q_pos, k_pos).split(size, 1)
    assert some[0].tolist() == [bool(tile.any()) for tile in tiles]
    assert every[0].tolist() == [bool(tile.all()) for tile in tiles]


def test_windows_rule_out_tiles_of_other_rows():
    some = grid_windows(8, (64, 64)).tiles(range(4096), range(4096)).some
    assert some.double().mean() == 1 / 8  # eight rows of 64 against eight rows of 64


@given(COMPOSED)
@examples(80)
def test_every_composition_is_read_back_from_what_it_prints(mask):
    assert Mask.parse(str(mask)) == mask


@pytest.mark.parametrize(
    "make",
    [
        lambda: grid_windows(0, (4, 4)),
        lambda: grid_windows(3, (4, 4), -1),
        lambda: grid_windows(3, (4, 4), 3),
        lambda: grid_windows(3, (4, 4), 8),
        lambda: grid_windows(3, (0, 4)),
        lambda: grid_windows(3, (4, 4, 4)),
        lambda: grid_windows(2.0, (4, 4)),
        lambda: block_summary(4, 5),
        lambda: block_summary(4, 0),
        lambda: Mask.parse("grid_windows(4)"),
        lambda: Mask.parse("grid_windows"),
        lambda: Mask.parse("grid_windws(2, 4)"),
        lambda: Mask.parse("grid_windows(0, (4, 4))"),
    ],
)
def test_bad_windows_are_refused_with_their_numbers(make, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # as users have it
    with expect_error((TypeError, ValueError)):
        make()


# Window by window

CUT = [
    (grid_windows(2, (4, 4)), 16),
    (grid_windows(3, (7, 8), 1), 56),
    (grid_windows(3, (7, 8)), 56),
    (grid_windows(4, (6, 5), 3), 30),
    (grid_windows(9, (6, 12), 8), 72),
    (grid_windows(1, (2, 3)), 6),
    (grid_windows(2, (1, 5), 1), 5),
    (blocks(4), 12),
    (blocks(4), 10),
    (blocks(1), 3),
    (causal & blocks(4), 10),
    (grid_windows(3, (4, 5), 1) & causal, 20),
]


@pytest.fixture
def nothing_dense(monkeypatch):
    """No mask may be written out, and no path that does so be taken."""

    def refuse(*args, **options):
        raise AssertionError("a mask was written out")

    monkeypatch.setattr(sparse, "written", refuse)
    monkeypatch.setattr(kernels, "dense", refuse)
    monkeypatch.setattr(kernels, "tiled", refuse)


@pytest.mark.parametrize("lead, groups", [((), 1), ((4,), 2), ((2, 4), 4), ((2, 3, 4), 1)])
@pytest.mark.parametrize("mask, n", CUT, ids=str)
def test_window_by_window_reads_what_the_dense_reference_reads(
    mask, n, lead, groups, nothing_dense
):
    tensors = qkv(n, n, lead, groups)
    assert explain_kernel(*tensors, mask=mask).startswith("SDPA window by window")
    for beta in (None, 1.7):
        plain = attend(*tensors, mask=mask, beta=beta).output
        agree(attend_fused(*tensors, mask=mask, beta=beta), plain, tensors)


@pytest.mark.parametrize("start, n", [(0, 11), (3, 11), (4, 8), (5, 2), (6, 13)])
@pytest.mark.parametrize("mask", [blocks(4), causal & blocks(4)], ids=str)
def test_blocks_are_cut_wherever_the_tokens_begin(mask, start, n):
    tensors, where = qkv(n, n), range(start, start + n)
    how = {"mask": mask, "q_pos": where, "k_pos": where}
    agree(attend_fused(*tensors, **how), attend(*tensors, **how).output, tensors)


@pytest.mark.parametrize("dtype, atol", [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)], ids=str)
@pytest.mark.parametrize("mask, n", CUT[:4], ids=str)
def test_window_by_window_in_every_precision(mask, n, dtype, atol):
    tensors = [torch.randn(2, 2, n, 8, dtype=dtype, requires_grad=True) for _ in "qkv"]
    plain = attend(*tensors, mask=mask).output
    agree(attend_fused(*tensors, mask=mask), plain, tensors, rtol=0.0, atol=atol)


def test_more_windows_than_a_kernel_counts_are_read_in_several_calls(monkeypatch):
    tensors, mask = qkv(35, 35), grid_windows(2, (5, 7), 1)
    plain = attend(*tensors, mask=mask).output
    monkeypatch.setattr(windowed, "MOST", 4)
    agree(attend_fused(*tensors, mask=mask), plain, tensors)


@pytest.mark.parametrize(
    "n, how",
    [
        (18, {}),  # two class tokens
        (15, {}),  # the grid is not full
        (16, {"q_pos": range(1, 17), "k_pos": range(16)}),
        (16, {"q_pos": torch.arange(16), "k_pos": range(16)}),
        (16, {"bias": torch.zeros(16, 16)}),
        (16, {"beta": 0}),
    ],
)
def test_everything_else_is_left_to_the_paths_there_were(n, how):
    tensors, mask = qkv(n, n), grid_windows(2, (4, 4))
    how = {"mask": mask, **how}
    if isinstance(how.get("bias"), Tensor):
        how["bias"] = how["bias"].double()
    assert "window by window" not in explain_kernel(*tensors, **how)
    agree(attend_fused(*tensors, **how), attend(*tensors, **how).output, tensors)
    for other in (mask | causal, mask & window(3), ~mask):
        assert "window by window" not in explain_kernel(*qkv(16, 16), mask=other)


def test_the_reason_is_given_in_words_without_looking_at_a_tensor():
    q = torch.empty(1, 2, 56 * 56, 8, device="meta")
    assert explain_kernel(q, q, q, mask=grid_windows(7, (56, 56))) == (
        "SDPA window by window: grid_windows(7, (56, 56), 0) puts 56 × 56 tokens in 64 windows "
        "of 7 × 7"
    )
    assert explain_kernel(q, q, q, mask=grid_windows(7, (56, 56), 3)).endswith(
        "81 windows of 7 × 7, 32 of them smaller"
    )
    assert explain_kernel(q, q, q, mask=causal & blocks(1000)).endswith(
        "3136 tokens in 4 windows of 1000, 1 of them smaller"
    )
    # One window that holds the whole grid is no mask at all.
    assert "window by window" not in explain_kernel(q, q, q, mask=grid_windows(56, (56, 56)))


def test_windows_may_be_compiled(in_a_plain_process):
    in_a_plain_process(
        """
import torch
from regard import attend_fused, blocks, causal
from regard.attention.masks import grid_windows

for mask, sizes in ((grid_windows(3, (4, 5), 1), (20, 20, 22)), (causal & blocks(4), (8, 10, 13))):
    call = lambda q: attend_fused(q, q, q, mask=mask)
    compiled = torch.compile(call, dynamic=True, backend="eager", fullgraph=True)
    for n in sizes:
        q = torch.randn(1, 2, n, 8)
        torch.testing.assert_close(compiled(q), call(q))
"""
    )


@given(any_windows(), st.booleans(), st.integers(0, 2))
@examples(60)
def test_any_windows_agree_with_the_reference_with_and_without_class_tokens(mask, ahead, extra):
    height, width = mask.grid
    mask, n = mask if ahead else causal & mask, height * width + extra
    tensors = qkv(n, n)
    agree(attend_fused(*tensors, mask=mask), attend(*tensors, mask=mask).output, tensors)


# Strips that are read together


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of four tokens, so that short sequences have many of them."""
    monkeypatch.setattr(sparse, "TILE", 4)
    sparse._strips.cache_clear()
    yield
    sparse._strips.cache_clear()


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("lead, groups", [((), 1), ((4,), 2), ((2, 4), 4), ((2, 3, 4), 1)])
def test_the_tiled_path_agrees_with_the_plain_one_for_any_composition(lead, groups):
    ends = [st.integers(1, 40), st.integers(1, 40), st.integers(0, 9), st.integers(0, 5)]

    @given(COMPOSED, *ends)
    @examples(40)
    def agrees(mask: Mask, n: int, m: int, q_start: int, k_start: int) -> None:
        tensors = qkv(n, m, lead, groups)
        where = range(q_start, q_start + n), range(k_start, k_start + m)
        plain = attend(*tensors, mask=mask, q_pos=where[0], k_pos=where[1]).output
        agree(sparse.tiled(Call.check(*tensors, mask, *where)), plain, tensors)

    agrees()


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("n, m", [(8, 8), (12, 12), (20, 12), (16, 24), (9, 11)])
@pytest.mark.parametrize("mask", [window(3), window(6), ~window(2)], ids=str)
def test_strips_as_wide_as_one_another_at_the_two_ends_keep_their_own_masks(mask, n, m):
    tensors, where = qkv(n, m), (range(n), range(m))
    plain = attend(*tensors, mask=mask, q_pos=where[0], k_pos=where[1]).output
    agree(sparse.tiled(Call.check(*tensors, mask, *where)), plain, tensors)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("upto", [1 << 22, 200], ids=["one bundle", "several"])
@pytest.mark.parametrize(
    "written",
    ["causal & window(7)", "window(5)", "causal & (window(6) | sinks(2))", "blocks(8) | sinks(1)"],
)
def test_strips_alike_are_read_in_few_calls(written, upto, monkeypatch):
    mask, tensors, sizes = Mask.parse(written), qkv(67, 67), []
    monkeypatch.setattr(sparse, "DENSE_UPTO", upto)
    sparse._bundles.cache_clear()
    plain, dense = attend(*tensors, mask=mask).output, sparse.dense

    def spy(call: Call) -> Tensor:
        sizes.append(call.mask.numel())
        assert call.mask.ndim in (2, 4)  # with three torch leaves its fast kernel
        return dense(call)

    monkeypatch.setattr(sparse, "dense", spy)
    agree(sparse.tiled(Call.check(*tensors, mask)), plain, tensors)
    sparse._bundles.cache_clear()
    assert max(sizes) <= max(upto, 4 * 4 * 4)
    if upto > 200 or mask.relative:
        assert len(sizes) <= 6 < 17  # strips


def test_a_long_sliding_window_is_a_handful_of_calls():
    mask = causal & window(256)
    bundles = sparse._bundles(mask, range(8192), range(8192), sparse.TILE)
    assert [len(bundle.rows) for bundle in bundles] == [1, 1, 62]
    with_sinks = causal & (window(256) | sinks(4))
    assert len(sparse._bundles(with_sinks, range(8192), range(8192), sparse.TILE)) <= 5
