"""Patterns of attention beside one another: who may read whom, and how far word travels by that.

    pattern_figure({"a window": causal & window(8)}, Path("patterns.png"), n=64)

A row shows one mask, and then, layer by layer, the pairs of tokens between which word has passed.
A mask on a grid has a second line: the cells that one cell in the middle has heard of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.attention import Mask
from regard.attention.receptive_field import layers_to_cover, receptive_field
from regard.visualization.figures import DOTS, INK, MONO, MUTED, READ, STYLE, UNREAD, Page, broken

EARLIER = "#9dc3ea"  # heard of in a layer before: between the two others in lightness
SELF = "#b3420a"  # the cell that reads
EDGE, WORDS, GAP = 0.28, 2.35, 0.09  # inches: margin, the column of words, between pictures
HEAD, UNDER, BETWEEN = 1.3, 0.2, 0.26  # above all rows, under a picture, between rows
LINE, TEXT = 0.155, 8.2  # inches between lines of words, and their size in points
SMALL = 0.62  # inches across a picture of the grid


def pattern_figure(
    masks: Mapping[str, Mask],
    path: Path | Sequence[Path],
    *,
    n: int = 64,
    layers: int = 6,
    title: str = "Who may read whom, and how far word travels",
) -> Figure:
    """One row a mask: what it reads, what that costs, whom it reaches after 1 … `layers` layers.

    `masks` maps a name to a mask. Those on a grid need one of at most n cells. A picture that
    would show nothing new is left out.
    """
    if not masks or layers < 1:
        raise ValueError(f"{len(masks)} masks and {layers} layers: there is nothing to draw")
    for name, mask in masks.items():
        if any(height * width > n for height, width in mask.grids()):
            raise ValueError(f"{name}: {mask} is on a grid of more cells than {n} tokens")
    dots = max(1, round(0.9 * DOTS / n))  # a whole number for each cell, so that all look alike
    side = n * dots / DOTS
    left = EDGE + WORDS
    width = left + layers * (side + GAP) - GAP + EDGE
    heights = [_height(mask, side) for mask in masks.values()]
    with matplotlib.rc_context(STYLE):
        page = Page(HEAD + sum(heights) + BETWEEN * len(heights), max(width, 8.3))
        page.title(EDGE, title)
        page.words(
            EDGE,
            0.5,
            f"{n} tokens: a row is a query, a column a key. Under a picture is the share of all "
            "pairs (under a causal mask, of those with no later key)\n"
            "that word has passed between. Small squares are the grid, and what its middle cell "
            "has heard of. A picture with nothing new is left out.",
            fontsize=TEXT,
        )
        _key(page, EDGE, HEAD - 0.27)
        for layer in range(layers):
            middle = left + layer * (side + GAP) + side / 2
            words = "1 layer" if layer == 0 else f"{layer + 1} layers"
            page.words(middle, HEAD - 0.27, words, ha="center", color=INK, fontsize=TEXT)
        top = HEAD
        for (name, mask), height in zip(masks.items(), heights, strict=True):
            _row(page, top, name, mask, n, layers, side)
            top += height + BETWEEN
        return page.saved(path)


def cost(mask: Mask, n: int) -> str:
    """How much the mask reads and how soon all is reached, in words."""
    needed = layers_to_cover(mask, n)
    pairs = round(mask.density(n) * n * n)
    reads = f"reads {pairs:,} of {n * n:,} pairs, {mask.density(n):.0%}"
    reach = "never reaches all" if needed is None else f"reaches all in {needed} layer"
    return f"{reads}\n{reach}{'s' if needed is not None and needed != 1 else ''}"


def spread(mask: Mask, n: int, layers: int) -> Int[np.ndarray, "n n"]:
    """For every pair the layer in which word first passes, counted from 1; 0 if it never does."""
    first = np.zeros((n, n), dtype=int)
    for layer in range(layers, 0, -1):
        first[receptive_field(mask, n, layer).numpy()] = layer
    return first


def _row(page: Page, top: float, name: str, mask: Mask, n: int, layers: int, side: float) -> None:
    lines = broken(str(mask), 30).splitlines()
    page.words(EDGE, top - 0.02, name, color=INK, weight="bold", fontsize=9)
    page.words(EDGE, top + 0.19, "\n".join(lines), family=MONO, fontsize=7.2, color=INK)
    below = top + 0.19 + len(lines) * 0.145 + 0.07
    page.words(EDGE, below, cost(mask, n), fontsize=TEXT)

    first = spread(mask, n, layers)
    goal = np.tril(np.ones((n, n), dtype=bool)) if mask.implies_causal else np.ones((n, n), bool)
    news = [layer for layer in range(1, layers + 1) if layer == 1 or (first == layer).any()]
    for layer in news:
        x = EDGE + WORDS + (layer - 1) * (side + GAP)
        _draw(page.axes(x, top, side, side), first, layer)
        share = ((first > 0) & (first <= layer) & goal).sum() / goal.sum()
        page.words(x + side / 2, top + side + 0.04, _percent(share), ha="center", fontsize=7.5)
    for height, width in sorted(mask.grids())[:1]:
        middle = (height // 2) * width + width // 2
        cells = first[middle, : height * width].reshape(height, width)
        tall, wide = (SMALL * edge / max(height, width) for edge in (height, width))
        for layer in news:
            x = EDGE + WORDS + (layer - 1) * (side + GAP) + (side - wide) / 2
            axes = page.axes(x, top + side + UNDER + 0.04, wide, tall)
            _draw(axes, cells, layer, lines=True)
            axes.add_patch(Rectangle((width // 2, height // 2), 1, 1, facecolor=SELF, linewidth=0))


def _draw(axes: Axes, first: Int[np.ndarray, "y x"], layer: int, *, lines: bool = False) -> None:
    """What is new in this layer, what was reached before it, and the rest."""
    kinds = np.where(first == layer, 2, np.where((first > 0) & (first < layer), 1, 0))
    height, width = first.shape
    axes.pcolormesh(
        kinds,
        cmap=ListedColormap([UNREAD, EARLIER, READ]),
        vmin=0,
        vmax=2,
        edgecolors="white" if lines else "none",
        linewidth=0.4 if lines else 0.0,
        antialiased=lines,
    )
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.spines[:].set_visible(False)


def _height(mask: Mask, side: float) -> float:
    grids = sorted(mask.grids())
    small = SMALL * grids[0][0] / max(grids[0]) + 0.06 if grids else 0.0
    return side + UNDER + small


def _key(page: Page, x: float, y: float) -> None:
    for words, colour in {"new": READ, "before": EARLIER, "not yet": UNREAD}.items():
        box = (x / page.width, (page.height - y - 0.115) / page.height)
        page.figure.add_artist(
            Rectangle(
                box,
                0.115 / page.width,
                0.115 / page.height,
                color=colour,
                transform=page.figure.transFigure,
            )
        )
        page.words(x + 0.16, y + 0.105, words, fontsize=TEXT, color=MUTED, va="baseline")
        x += 0.34 + 0.07 * len(words)


def _percent(share: float) -> str:
    """Rounded, but all only where it is all."""
    return "all" if share == 1 else f"{min(share, 0.994):.0%}"
