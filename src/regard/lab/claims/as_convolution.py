"""Attention to a neighbourhood as a convolution: one head for each offset, or taps of one sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional as F

from regard.attention import MultiHeadAttention, relative_bias
from regard.data.synthetic.digits import load_digits
from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import images
from regard.lab.question import Question

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12
MARGIN = 0.1  # of a kernel: what misses more is another one
FINE = 40  # parts into which weights are cut where the best are sought
UNREAD = -1e4  # a score after which nothing is left of a weight
EDGE = (1.0, 0.0, -1.0)
BLUR = (0.25, 0.5, 0.25)
SOBEL = ((1.0, 0.0, -1.0), (2.0, 0.0, -2.0), (1.0, 0.0, -1.0))


def measure(tokens: int = 20, width: int = 4, side: int = 8, seed: int = 0) -> Evidence:
    """Layers made to be convolutions, beside torch's, on random tokens and on a picture.

    Args:
        tokens: tokens of the sequence, 4 or more.
        width: numbers in a token, 2 or more: channels.
        side: rows and columns of the grid, 4 or more.
        seed: where the random numbers start.
    """
    if width < 2:
        raise UserError(f"width={width}: taps of one channel are always in proportion; take 2")
    if tokens < 4 or side < 4:
        raise UserError(f"tokens={tokens}, side={side}: 4 at least, or all is border")
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, width, generator=draw, dtype=torch.float64)
    kernel = torch.randn(width, width, 3, generator=draw, dtype=torch.float64)
    grid = torch.randn(width, side, side, generator=draw, dtype=torch.float64)
    square = torch.randn(width, width, 3, 3, generator=draw, dtype=torch.float64)
    mix = torch.randn(width, width, generator=draw, dtype=torch.float64)

    with torch.no_grad():
        by_heads, by_conv = in_a_row(kernel, x), conv_in_a_row(kernel, x)
        swapped = in_a_row(kernel.flip(-1), x)
        blur = torch.tensor(BLUR, dtype=torch.float64)
        blurred = one_head(blur, mix, [1, 0, -1])(x)
        edge = torch.tensor(EDGE, dtype=torch.float64)
        edges = conv_in_a_row(edge * mix[..., None], x)
        shares, fitted, of_edge = best_alone(edge * mix[..., None])
        nearest = one_head(shares, fitted, [1, 0, -1])(x)
        *_, of_blur = best_alone(blur * mix[..., None])
        *_, of_any = best_alone(kernel)
        # The map that would make the taps, from what the convolution does with each token alone.
        alone = torch.eye(tokens, dtype=torch.float64)[:, None]
        sums = F.conv1d(alone, edge.view(1, 1, 3), padding=1)[:, 0].sum(0)[1:-1]

        inked = picture()
        sobel = torch.tensor(SOBEL, dtype=torch.float64)
        across = on_a_grid(sobel[None, None], inked[None])[0]
        of_conv = F.conv2d(inked[None, None], sobel[None, None], padding=1)[0, 0]
        of_one = alone_on_a_grid(sobel, inked)
        flat = inner(on_a_grid(square, grid) - F.conv2d(grid[None], square, padding=1)[0])
    missed = float((nearest - edges)[1:-1].norm() / edges[1:-1].norm())
    return Evidence(
        deciding=f"9 heads {largest(flat):.0e} off; one, 1, 0, −1: {missed:.2g}",
        inside=(
            at_most(
                "3 heads, one an offset: distance from Conv1d(3)",
                largest((by_heads - by_conv)[1:-1]),
                ROUNDING,
            ),
            at_most("9 heads: distance from Conv2d(3 × 3)", largest(flat), ROUNDING),
            at_most(
                "9 heads on a picture: distance from Conv2d with Sobel's taps",
                largest(inner(across - of_conv)),
                ROUNDING,
            ),
            at_most(
                "one head, taps ¼, ½, ¼ times a matrix: distance from Conv1d(3)",
                largest((blurred - conv_in_a_row(blur * mix[..., None], x))[1:-1]),
                ROUNDING,
            ),
            at_most("the best one head for taps ¼, ½, ¼: share of them missed", of_blur, 1e-6),
        ),
        outside=(
            at_most("the best one head for taps 1, 0, −1: share of them missed", of_edge, MARGIN),
            at_most("the same head on tokens: share of Conv1d(3) missed", missed, MARGIN),
            at_most("the best one head for random taps: share of them missed", of_any, MARGIN),
            at_least(
                "taps 1, 0, −1: sum of a row of the map that they need", sums.max(), 1 - ROUNDING
            ),
        ),
        controls=(
            at_most(
                "3 heads with the outer offsets swapped: distance from Conv1d(3)",
                largest((swapped - by_conv)[1:-1]),
                ROUNDING,
            ),
            at_most(
                "3 heads at the border, where a neighbour is missing: distance from Conv1d(3)",
                largest((by_heads - by_conv)[[0, -1]]),
                ROUNDING,
            ),
        ),
        series={
            "pictures": {
                "pixels": inner(inked).tolist(),
                "attention, 9 heads": inner(across).tolist(),
                "Conv2d": inner(of_conv).tolist(),
                "one head, the nearest": inner(of_one).tolist(),
            }
        },
    )


def heads(taps: torch.Tensor, offsets: Sequence[int]) -> MultiHeadAttention:
    """One head for each offset q − k: W_V copies the token, W_O holds the taps side by side."""
    width, _, count = taps.shape
    layer = MultiHeadAttention(
        width,
        count,
        head_width=width,
        bias=False,
        pos_embed=relative_bias(count, furthest(offsets)),
    ).double()
    for linear in (layer.to_q, layer.to_k):
        linear.weight.data.zero_()
    layer.to_v.weight.data = torch.eye(width, dtype=torch.float64).repeat(count, 1)
    layer.to_out.weight.data = torch.cat(list(taps.unbind(-1)), 1)
    scores = torch.full((count, 2 * furthest(offsets) + 1), UNREAD, dtype=torch.float64)
    for head, offset in enumerate(offsets):
        scores[head, furthest(offsets) + offset] = 0.0
    layer.pos_embed.table.data = scores
    return layer


def one_head(shares: torch.Tensor, mix: torch.Tensor, offsets: Sequence[int]) -> MultiHeadAttention:
    """One softmax head whose taps are `shares` times `mix`: the map sums to one, W_O scales."""
    total = shares.sum()
    layer = heads(total * mix[..., None], [0])
    place = relative_bias(1, furthest(offsets)).double()
    scores = torch.full_like(place.table, UNREAD)
    for share, offset in zip(shares, offsets, strict=True):
        if share > 0:
            scores[0, furthest(offsets) + offset] = (share / total).log()
    place.table.data = scores
    layer.pos_embed = place
    return layer


def best_alone(kernel: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Of all taps p·M that one head can have, those nearest to a kernel, and the share they miss.

    For given p the best M is that of least squares; p is tried all over 0 ≤ p, Σ p = 1.
    """
    steps = torch.arange(FINE + 1, dtype=torch.float64) / FINE
    shares = torch.cartesian_prod(steps, steps)
    shares = torch.cat([shares, 1 - shares.sum(-1, keepdim=True)], -1)
    shares = shares[shares[:, 2] > -ROUNDING].clamp(min=0)
    weights = shares / shares.square().sum(-1, keepdim=True)
    fitted = torch.einsum("oim,pm->poi", kernel, weights)
    taps = fitted[..., None] * shares[:, None, None]
    missed = (taps - kernel).flatten(1).norm(dim=-1) / kernel.norm()
    best = int(missed.argmin())
    return shares[best], fitted[best], float(missed[best])


def furthest(offsets: Sequence[int]) -> int:
    # One further than any that is read: all offsets beyond share the last score.
    return max(map(abs, offsets)) + 1


def in_a_row(kernel: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A kernel of 3 by attention; tap o reads the token at q + o − 1."""
    read: torch.Tensor = heads(kernel, [1, 0, -1])(x)
    return read


def conv_in_a_row(kernel: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return F.conv1d(x.mT[None], kernel, padding=1)[0].mT


def on_a_grid(kernel: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    """A kernel of 3 × 3 by attention, the pixels row by row."""
    layer = heads(kernel.flatten(-2), square_offsets(image.shape[-1]))
    return layer(image.flatten(1).mT).mT.view_as(image)


def alone_on_a_grid(kernel: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    """What one head can do of it: the taps above zero."""
    one = kernel.new_ones(1, 1)
    layer = one_head(kernel.clamp(min=0).flatten(), one, square_offsets(image.shape[-1]))
    return layer(image.reshape(-1, 1)).view_as(image)


def square_offsets(columns: int) -> list[int]:
    """q − k of the 3 × 3 pixels around, where a row is so many long."""
    return [-(y * columns + x) for y in (-1, 0, 1) for x in (-1, 0, 1)]


def inner(image: torch.Tensor) -> torch.Tensor:
    """Without the border, beyond which a convolution sees zeros and attention nothing."""
    return image[..., 1:-1, 1:-1]


def picture() -> torch.Tensor:
    """A handwritten digit, drawn finer and with paper around it."""
    digit = torch.from_numpy(load_digits(4).images[3:]).double()
    finer = F.interpolate(F.pad(digit, (1, 1, 1, 1)), size=(24, 24), mode="bicubic")
    return finer[0, 0].clamp(0, 1)


def largest(x: torch.Tensor) -> float:
    return float(x.abs().max())


def plot(evidence: Evidence) -> Figure:
    return images(
        evidence.series["pictures"],
        title="Sobel's vertical edges by attention",
        about="Nine heads, one an offset, do what Conv2d does. One head has no negative weights: "
        "it blurs.",
    )


def ask(numbers: np.random.Generator) -> Question:
    if numbers.random() < 0.5:
        kernel = int(numbers.choice([3, 5, 7]))
        width = int(numbers.choice([8, 16, 32]))
        return Question(
            f"A self-attention is to be a convolution of ${kernel} \\times {kernel}$ over "
            f"${width}$ channels, one head an offset, each of which copies the whole token. How "
            "many heads are needed, and how many weights has $W_O$? (two numbers, in this order)",
            (float(kernel**2), float(kernel**2 * width**2)),
            tolerance=0.0,
            why=f"${kernel}^2$ heads, and a matrix of ${width}$ by ${kernel}^2 \\cdot {width}$",
        )
    shares = numbers.choice([(0.2, 0.5, 0.3), (0.1, 0.6, 0.3), (0.25, 0.25, 0.5)])
    scale = int(numbers.choice([-4, -2, 2, 4]))
    weights = ", ".join(f"{share:g}" for share in shares)
    return Question(
        "One head reads the tokens before, at and after each position with the weights "
        f"$({weights})$, and $W_O W_V = {scale}$. Which taps has the convolution that "
        "it is? (three numbers)",
        tuple(float(share) * scale for share in shares),
        why=f"each weight times ${scale}$: all taps have one sign",
    )


CLAIM = Claim(
    id="as-convolution",
    source="B 1.3e",
    statement="Self-attention that attends to a neighbourhood is a convolution with a larger "
    "kernel.",
    verdict="depends",
    truth="One head gives taps $p_o M$ with $p_o \\ge 0$ and $\\sum_o p_o = 1$: of one sign and in "
    "proportion, never $(1, 0, -1)$. With one head for each offset, where $W_V$ copies the token "
    "and $W_O$ holds the taps side by side, it is any convolution, away from the border.",
    measure=measure,
    plot=plot,
    ask=ask,
)
