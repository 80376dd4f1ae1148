"""The loss in chunks is torch's loss of all scores at once, gradients included."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from golden import expect_error
from regard.training.losses import vocabulary_loss

SIZES = [(7, 11, 5, 3), (8, 11, 5, 4), (1, 2, 1, 1), (5, 3, 4, 100), (0, 4, 3, 2), (13, 1, 2, 5)]


def drawn(n: int, words: int, c: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    x = torch.randn(n, c, dtype=dtype, requires_grad=True)
    weight = torch.randn(words, c, dtype=dtype, requires_grad=True)
    return x, weight, torch.randint(words, (n,))


def plain(x: Tensor, weight: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """The twin: every score at once."""
    scores = F.linear(x, weight)
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    return F.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
@pytest.mark.parametrize(("n", "words", "c", "rows"), SIZES)
def test_loss_and_gradients_are_those_of_all_scores_at_once(n, words, c, rows, smoothing):
    x, weight, targets = drawn(n, words, c)
    ours = vocabulary_loss(x, weight, targets, smoothing=smoothing, rows=rows)
    right = plain(x, weight, targets, smoothing)
    torch.testing.assert_close(ours, right)
    # By a factor of the loss, as a mean or a sum of two losses would have it.
    found = torch.autograd.grad(3 * ours, (x, weight))
    torch.testing.assert_close(found, torch.autograd.grad(3 * right, (x, weight)))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradients_are_those_of_finite_differences(smoothing):
    x, weight, targets = drawn(5, 4, 3)

    def of(x: Tensor, weight: Tensor) -> Tensor:
        return vocabulary_loss(x, weight, targets, smoothing=smoothing, rows=2)

    assert torch.autograd.gradcheck(of, (x, weight))


@pytest.mark.parametrize("rows", [1, 3, 50, None])
def test_it_is_the_same_however_many_rows_are_taken_at_a_time(rows):
    x, weight, targets = drawn(50, 9, 4)
    whole = vocabulary_loss(x, weight, targets, rows=1000)
    torch.testing.assert_close(vocabulary_loss(x, weight, targets, rows=rows), whole)


def test_under_autocast_only_the_products_are_short():
    x, weight, targets = drawn(300, 500, 64, torch.float32)
    exact = plain(x, weight, targets, 0.1)
    exact_gradients = torch.autograd.grad(exact, (x, weight))
    with torch.autocast("cpu", torch.bfloat16):
        ours = vocabulary_loss(x, weight, targets, smoothing=0.1, rows=64)
        theirs = plain(x, weight, targets, 0.1)
        for row in range(20):  # each by itself, as errors of many would cancel in their sum
            one = x[row : row + 1], weight, targets[row : row + 1]
            torch.testing.assert_close(vocabulary_loss(*one), plain(*one), rtol=1e-5, atol=1e-5)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)
    found = torch.autograd.grad(ours, (x, weight))
    for one, right, plain_one in zip(
        found, exact_gradients, torch.autograd.grad(theirs, (x, weight)), strict=True
    ):
        assert one.dtype == torch.float32  # as the parameters are
        off, plainly = ((each - right).norm() / right.norm() for each in (one, plain_one))
        assert off < 0.02 and off < 1.2 * plainly


@pytest.mark.parametrize("frozen", [0, 1, 2], ids=["x", "weight", "both"])
def test_no_gradient_is_made_that_is_not_wanted(frozen):
    x, weight, targets = drawn(6, 5, 4)
    for tensor in (x, weight)[frozen : frozen + 1] if frozen < 2 else (x, weight):
        tensor.requires_grad_(False)
    ours, right = vocabulary_loss(x, weight, targets, rows=4), plain(x, weight, targets)
    torch.testing.assert_close(ours, right)
    assert ours.requires_grad == (frozen < 2)
    if frozen < 2:
        learns = (weight, x)[frozen]
        found, wanted = (torch.autograd.grad(each, learns)[0] for each in (ours, right))
        torch.testing.assert_close(found, wanted)
    x, weight, targets = drawn(6, 5, 4)
    with torch.no_grad():
        assert not vocabulary_loss(x, weight, targets).requires_grad


def test_scores_that_are_huge_do_not_overflow():
    x, weight, targets = drawn(4, 6, 3, torch.float32)
    with torch.no_grad():
        x *= 1e4
    loss = vocabulary_loss(x, weight, targets, smoothing=0.1)
    torch.testing.assert_close(loss, plain(x, weight, targets, 0.1))
    assert all(each.isfinite().all() for each in torch.autograd.grad(loss, (x, weight)))


def test_it_goes_back_twice_over():
    x, weight, targets = drawn(4, 6, 3)
    loss = vocabulary_loss(x, weight, targets)
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    (again,) = torch.autograd.grad(2 * loss, x, retain_graph=True)
    torch.testing.assert_close(again, 2 * first)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_gradients_of_gradients_are_those_of_all_scores_at_once(smoothing):
    x, weight, targets = drawn(7, 6, 3)

    def second(loss: Tensor, *of: Tensor) -> tuple[Tensor, ...]:
        first = torch.autograd.grad(loss.square(), of, create_graph=True)
        along = sum(one.square().sum() for one in first)
        return torch.autograd.grad(along, (x, weight))

    for of in ((x, weight), (x,), (weight,)):
        ours = vocabulary_loss(x, weight, targets, smoothing=smoothing, rows=3)
        right = plain(x, weight, targets, smoothing)
        torch.testing.assert_close(second(ours, *of), second(right, *of))


def test_transforms_of_functions_go_through_it():
    x, weight, targets = (one.detach() for one in drawn(7, 6, 3))
    push = torch.randn(2, 7, 3, dtype=torch.float64)

    def ours(x: Tensor) -> Tensor:
        return vocabulary_loss(x, weight, targets, smoothing=0.1, rows=3)

    def right(x: Tensor) -> Tensor:
        return plain(x, weight, targets, 0.1)

    for transform in (
        lambda f: torch.func.grad(f)(x),
        lambda f: torch.func.vmap(torch.func.grad(f))(push),
        lambda f: torch.func.jvp(f, (x,), (push[0],)),
        lambda f: torch.func.hessian(f)(x),
    ):
        torch.testing.assert_close(transform(ours), transform(right))


@pytest.mark.parametrize(
    "options",
    [{"smoothing": 1.0}, {"rows": 0}],
)
def test_what_makes_no_sense_is_refused(options):
    with expect_error(ValueError):
        vocabulary_loss(*drawn(2, 3, 4), **options)
