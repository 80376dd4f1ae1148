"""Our Muon moves as torch's does, matrices of one shape together, and its steps are level."""

import pytest
import torch
from torch import nn

from golden import expect_error
from regard.training.muon import Muon, orthogonal

SHAPES = [(24, 24), (24, 24), (24, 24), (60, 24), (24, 60), (7, 24), (24, 7)]


def matrices() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(shape) / shape[1] ** 0.5) for shape in SHAPES]


def push(parameters: list[nn.Parameter], seed: int) -> None:
    torch.manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_it_moves_as_torchs_muon_does_up_to_the_rounding_of_bfloat16(decay):
    start, ours, theirs = matrices(), matrices(), matrices()
    own = Muon(ours, 0.02, weight_decay=decay)
    other = torch.optim.Muon(theirs, lr=0.02, weight_decay=decay)
    for step in range(5):
        for parameters, optimiser in ((ours, own), (theirs, other)):
            push(parameters, step)
            optimiser.step()
    for first, a, b in zip(start, ours, theirs, strict=True):
        assert (a - b).norm() < 0.02 * (a - first).norm()  # theirs iterates in bfloat16


def test_the_singular_values_of_a_step_are_the_polynomials_and_lie_about_one():
    torch.manual_seed(0)
    spread = torch.logspace(0, 2, 16, dtype=torch.float64)
    want = spread / spread.norm()
    for _ in range(5):
        want = 3.4445 * want - 4.7750 * want**3 + 2.0315 * want**5
    assert want.min() > 0.6 and want.max() < 1.25
    for rows, columns in ((16, 16), (16, 40), (40, 16)):
        random = torch.randn(3, rows, columns, dtype=torch.float64)
        u, _, v = torch.linalg.svd(random, full_matrices=False)
        step = orthogonal((u * spread @ v).float()).double()
        torch.testing.assert_close(step, u * want @ v, atol=1e-4, rtol=0.0)


def test_together_is_as_each_alone():
    together, alone = matrices(), matrices()
    push(together, 1), push(alone, 1)
    Muon(together, 0.05).step()
    for parameter in alone:
        Muon([parameter], 0.05).step()
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a, b)


def test_a_rate_that_is_a_tensor_is_read_anew_and_a_matrix_without_gradient_stays():
    number, tensor = matrices(), matrices()
    rate = torch.tensor(0.5)
    first, second = Muon(number, 0.01, weight_decay=0.3), Muon(tensor, rate, weight_decay=0.3)
    push(number, 2), push(tensor, 2)
    number[0].grad = tensor[0].grad = None
    rate.fill_(0.01)
    first.step(), second.step()
    for a, b in zip(number, tensor, strict=True):
        torch.testing.assert_close(a, b)
    assert torch.equal(number[0], matrices()[0])


def test_a_gradient_of_nothing_moves_nothing():
    (matrix,) = one = [nn.Parameter(torch.eye(4))]
    matrix.grad = torch.zeros(4, 4)
    Muon(one, 0.1).step()
    assert torch.equal(matrix, torch.eye(4))


def test_what_is_no_matrix_is_refused():
    with expect_error(ValueError):
        Muon([nn.Parameter(torch.ones(3))])
