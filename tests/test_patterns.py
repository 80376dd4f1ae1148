"""Patterns of the literature against their papers' definitions, and how far word travels."""

from collections import deque

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from golden import expect_error
from regard.attention import Mask, attend, attend_fused, causal, random_keys, sinks, window
from regard.attention.masks import grid_windows
from regard.attention.patterns import (
    PATTERNS,
    bigbird,
    longformer,
    sparse_transformer,
    sparse_transformer_fixed,
)
from regard.attention.receptive_field import layers_to_cover, receptive_field
from strategies import examples, masks

N = 23


def said(reads) -> torch.Tensor:
    return torch.tensor([[bool(reads(q, k)) for k in range(N)] for q in range(N)])


@pytest.mark.parametrize("length", [1, 2, 5, 7, 30])
def test_the_strided_sparse_transformer_reads_the_papers_two_sets(length):
    def reads(i: int, j: int) -> bool:
        recent = max(0, i - length) <= j <= i
        column = j <= i and (i - j) % length == 0
        return recent or column

    assert torch.equal(sparse_transformer(length)(range(N), range(N)), said(reads))


@pytest.mark.parametrize("length, c", [(1, 1), (4, 1), (5, 2), (6, 6), (30, 3)])
def test_the_fixed_sparse_transformer_reads_the_papers_two_sets(length, c):
    def reads(i: int, j: int) -> bool:
        block = j // length == i // length
        columns = j % length in range(length - c, length)
        return j <= i and (block or columns)

    assert torch.equal(sparse_transformer_fixed(length, c)(range(N), range(N)), said(reads))


def test_longformer_and_bigbird_are_windows_global_tokens_and_draws():
    drawn = random_keys(2, N, 5)(range(N), range(N))
    near = said(lambda q, k: abs(q - k) <= 2 or q == 0 or k == 0)
    assert torch.equal(longformer(3, 1)(range(N), range(N)), near)
    assert torch.equal(bigbird(3, 1, 2, N, 5)(range(N), range(N)), near | drawn)


@pytest.mark.parametrize(
    "written, expansion",
    [
        ("longformer(64, 1)", "window(64) | global_tokens(1)"),
        ("bigbird(3, 2, 4, 99)", "window(3) | global_tokens(2) | random_keys(4, 99, 0)"),
        ("bigbird(3, 2, 4, 99, seed=7)", "window(3) | global_tokens(2) | random_keys(4, 99, 7)"),
        ("sparse_transformer(8)", "causal & (window(8) | strided(8))"),
        ("sparse_transformer_fixed(8)", "causal & (blocks(8) | block_summary(8, 1))"),
        ("causal & longformer(4, 1)", "causal & (window(4) | global_tokens(1))"),
        ("~longformer(4, 1)", "~(window(4) | global_tokens(1))"),
    ],
)
def test_a_pattern_is_read_as_the_expression_it_prints(written, expansion):
    mask = Mask.parse(written)
    assert str(mask) == expansion and Mask.parse(expansion) == mask


@pytest.mark.parametrize(
    "wrong",
    [
        "longformer",
        "longformer(4)",
        "longformer(4, causal)",
        "longformer(0, 1)",
        "bigbird(3, 1, 9, 4)",
        "sparse_transformer_fixed(4, 5)",
        "longfomer(4, 1)",
        "longformer & causal",
    ],
)
def test_a_pattern_that_cannot_be_is_refused_in_a_sentence(wrong):
    with expect_error(ValueError):
        Mask.parse(wrong)


def test_every_pattern_names_its_paper():
    for name, make in PATTERNS.items():
        assert make.__name__ == name and "arXiv" in make.__doc__ and "Simplified" in make.__doc__


PARSED = [
    "longformer(20, 2)",
    "bigbird(10, 1, 2, 700)",
    "sparse_transformer(26)",
    "sparse_transformer_fixed(26, 2)",
    "causal & longformer(20, 2)",
]


@pytest.mark.parametrize("written", PARSED)
def test_patterns_read_the_same_by_the_fast_path_at_length(written):
    mask = Mask.parse(written)
    q, k, v = (torch.randn(1, 2, 700, 8, dtype=torch.float64).requires_grad_() for _ in "qkv")
    plain, fast = attend(q, k, v, mask=mask).output, attend_fused(q, k, v, mask=mask)
    torch.testing.assert_close(fast, plain, rtol=0, atol=1e-10)
    up = torch.randn_like(plain)
    wanted, got = (torch.autograd.grad(read, (q, k, v), up) for read in (plain, fast))
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-10)


# How far word travels


def distances(mask: Mask, n: int) -> list[list[int | None]]:
    """For each query the number of layers after which it has heard of each token."""
    reads = [row.nonzero().flatten().tolist() for row in mask(range(n), range(n))]
    found = []
    for start in range(n):
        away: list[int | None] = [None] * n
        away[start], queue = 0, deque([start])
        while queue:
            at = queue.popleft()
            for k in reads[at]:
                if away[k] is None:
                    away[k] = away[at] + 1
                    queue.append(k)
        found.append(away)
    return found


@given(masks(2), st.integers(1, 20), st.integers(0, 6))
@examples(100)
def test_reach_is_what_a_search_through_the_graph_finds(mask, n, layers):
    away = distances(mask, n)
    heard = [[steps is not None and steps <= layers for steps in row] for row in away]
    assert receptive_field(mask, n, layers).tolist() == heard
    asked = [
        steps
        for q, row in enumerate(away)
        for k, steps in enumerate(row)
        if k <= q or not mask.implies_causal
    ]
    wanted = None if None in asked else max(asked)
    assert layers_to_cover(mask, n) == wanted


@pytest.mark.parametrize(
    "mask, n, layers",
    [
        (window(64), 190, 3),
        (window(64), 191, 4),
        (causal, 50, 1),
        (causal & window(2), 30, 29),
        (longformer(2, 1), 99, 2),
        (sparse_transformer(8), 64, 2),
        (sparse_transformer_fixed(8), 64, 2),
        (causal & sinks(1), 9, None),
        (grid_windows(2, (4, 4)), 16, None),
        (grid_windows(2, (4, 4)) | grid_windows(2, (4, 4), 1), 16, 3),
        (window(1), 1, 0),
    ],
    ids=str,
)
def test_layers_to_reach_is_right_for_the_obvious_ones(mask, n, layers):
    assert layers_to_cover(mask, n) == layers
    if layers:
        goal = torch.ones(n, n, dtype=torch.bool)
        goal = goal.tril() if mask.implies_causal else goal
        assert torch.equal(receptive_field(mask, n, layers), goal)
        assert not torch.equal(receptive_field(mask, n, layers - 1), goal)


@pytest.mark.parametrize("n", [0, -1, 4097])
def test_reach_refuses_what_it_cannot_hold(n):
    with expect_error(ValueError):
        receptive_field(causal, n, 2)
    with expect_error(ValueError):
        layers_to_cover(causal, n)
    with expect_error(ValueError):
        receptive_field(causal, 4, -1)
