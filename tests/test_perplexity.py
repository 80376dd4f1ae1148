"""Every token is foretold once, from what the protocol says, and figures are their formulas."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from golden import expect_error
from regard.evaluation.perplexity import PerplexityMetrics, foretelling, summary, token_losses
from regard.models import GPT, GPTConfig
from strategies import examples

W = 7


def model() -> GPT:
    torch.manual_seed(0)
    return (
        GPT(GPTConfig(width=8, layers=1, heads=2, vocab_size=W, context_length=64)).double().eval()
    )


def by_hand(score, tokens: np.ndarray, length: int, stride: int) -> list[float]:
    """Each token alone: find the first window that holds it, and read nothing else."""
    found = []
    for at in range(1, len(tokens)):
        start = 0
        while start + length < at:
            start += stride
        if start + length + 1 > len(tokens):  # no whole window is left: the last lies further back
            start = max(0, len(tokens) - 1 - length)
        with torch.no_grad():
            scores = score(torch.tensor(tokens[start:at].astype(np.int64))[None])[0, -1]
        found.append(float(F.cross_entropy(scores.float()[None], torch.tensor([tokens[at]]))))
    return found


@given(st.integers(2, 45), st.integers(1, 9), st.data())
@examples(40)
def test_each_token_is_foretold_once_from_its_window(count, length, data):
    stride = data.draw(st.integers(1, length))
    tokens = np.random.default_rng(count).integers(0, W, count)
    score = model()
    found = token_losses(score, tokens, length, stride=stride, at_once=data.draw(st.integers(1, 5)))
    np.testing.assert_allclose(found, by_hand(score, tokens, length, stride), rtol=0, atol=1e-6)


def test_more_context_is_given_to_all_but_the_first_window():
    seen = []

    def score(words: Tensor) -> Tensor:
        seen.append(words.shape[1])
        return torch.zeros(*words.shape, W)

    told = []
    losses = token_losses(
        score, np.zeros(100, np.uint16), 10, stride=5, at_once=4, advance=told.append
    )
    assert len(losses) == 99 == sum(told) and set(seen) == {10}
    assert told[0] == 10 and set(told[1:]) <= {5, 4}


def test_what_knows_nothing_needs_the_bits_of_its_tokens():
    tokens = np.random.default_rng(0).integers(0, W, 500)
    losses = token_losses(lambda words: torch.zeros(*words.shape, W), tokens, 16)
    found = foretelling(losses, size=499, words=100, lines=25)
    assert found.loss.value == pytest.approx(math.log(W), abs=1e-6)
    assert found.perplexity.value == pytest.approx(W, rel=1e-6)
    assert found.bits_per_byte.value == pytest.approx(math.log2(W), rel=1e-6)
    assert found.word_perplexity.value == pytest.approx(W**4.99, rel=1e-5)
    assert found.word_perplexity_with_eos.value == pytest.approx(W**3.992, rel=1e-5)
    assert found.tokens == 499 and "perplexity per word" in summary(found)
    assert foretelling(losses, size=499, words=100).word_perplexity_with_eos is None
    assert PerplexityMetrics.from_values(found.to_values()) == found


def test_intervals_are_over_blocks_and_hold_the_mean():
    draw = np.random.default_rng(1)
    losses = np.repeat(draw.normal(2, 0.5, 40), 100)  # neighbours are alike
    alike, apart = (foretelling(losses, size=4000, block=block).loss for block in (100, 1))
    assert alike.low < losses.mean() < alike.high
    assert alike.high - alike.low > 5 * (apart.high - apart.low)
    uneven = foretelling(losses[:250], size=250, block=100).loss
    assert uneven.value == pytest.approx(losses[:250].mean())


@pytest.mark.parametrize(
    "call",
    [
        lambda: token_losses(model(), np.array([1]), 4),
        lambda: token_losses(model(), np.array([1, 2]), 4, stride=5),
        lambda: foretelling(np.array([]), size=3),
        lambda: foretelling(np.array([1.0]), size=0),
        lambda: PerplexityMetrics.from_values({"tokens": 1}),
    ],
)
def test_what_cannot_be_measured_is_said(call):
    with expect_error(ValueError):
        call()
