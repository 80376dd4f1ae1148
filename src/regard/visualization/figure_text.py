"""A text on paper: which words looked at which, on the mean of all heads and by every head.

    maps = text_maps(model, words)[0].numpy()
    text_figure(tokens, None, maps, Path("look.png"), title="A tale")

Every row has its own scale. A text's first word can only look at itself, with all it has, and on
one scale that would leave the words of a long text white.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.visualization.figure_caption import shortened
from regard.visualization.figure_image import (
    DEPTHS,
    EDGE,
    chosen,
    fitted,
    left_out,
    percent,
    wrapped,
)
from regard.visualization.figures import INK, WIDTH, Page, drawing, inches

# In inches: a cell of the large map at the most and least, all of it, a word beside it.
CELL, FINEST, LARGE, LONGEST = 0.5, 0.135, 5.6, 1.1
NAMES, GAP, SMALL = 0.66, 0.1, 1.3  # names of layers, between small maps, one at the most
SHARES = 0.5  # for the number at the end of a row
# Words beside a map stand on one line each, so that a comma is not taken for an apostrophe.
FONT: Any = {"fontsize": 8, "linespacing": 1.0, "va": "baseline", "rotation_mode": "anchor"}
LOWER = 0.04  # inches from the middle of small letters to that line
CONTROLS = re.compile(r"\r\n|[\0-\x1f]")


def text_figure(
    queries: Sequence[str],
    read: Sequence[str] | None,
    maps: Float[np.ndarray, "layers heads n m"],
    path: Path | Sequence[Path],
    *,
    title: str = "",
    caption: str = "",
    most: int = 40,
    heads: bool = True,
) -> Figure:
    """The mean map, large, with its words; below it, with `heads`, a small map a head.

    `queries` are the words that look, in rows; `read` those looked at, in columns, or None where
    they are the same text. Of each at most the first `most` are shown, and of layers and heads at
    most 8, evenly chosen; the page says so. The mean is over all heads always. Saved by suffix.
    """
    words = queries if read is None else read
    check(queries, words, maps, most)
    layer_count, head_count = maps.shape[:2]
    layers, each = chosen("layers", None, layer_count), chosen("heads", None, head_count)
    several = heads and layer_count * head_count > 1
    cut = maps[..., :most, :most]
    mean = cut.mean((0, 1))

    with drawing(*queries[:most], *words[:most], title, caption):
        rows = [shortened(visible(word), LONGEST, **FONT) for word in queries[:most]]
        columns = [shortened(visible(word), LONGEST, **FONT) for word in words[:most]]
        cell = max(FINEST, min(CELL, LARGE / max(len(rows), len(columns))))
        beside = max(NAMES, *(inches(word, **FONT) + 0.08 for word in rows))
        above = max(inches(word, **FONT) for word in columns) + 0.08
        across, down = len(columns) * cell, len(rows) * cell
        width = max(WIDTH, EDGE + beside + across + SHARES + EDGE)
        room = width - 2 * EDGE

        heading = wrapped(title, room, fontsize=13, weight="bold")
        small = (len(layers), len(each)) if heads else None
        about = wrapped(explained(maps.shape, most, small, read is None), room)
        foot = wrapped(caption, room)
        below_heading = 0.2 + bool(heading) * 0.06 + 0.24 * len(heading)
        top = below_heading + 0.17 * len(about) + 0.34 + above
        size = small_size(len(rows) / len(columns), len(each), room - beside)
        second = top + down + 0.5  # where the small maps begin
        end = second + len(layers) * (size[1] + GAP) - GAP if several else top + down
        page = Page(end + 0.24 + 0.17 * len(foot) + 0.08 * bool(foot), width)
        page.words(EDGE, 0.2, "\n".join(heading), fontsize=13, weight="bold", color=INK)
        page.words(EDGE, below_heading, "\n".join(about))
        page.words(EDGE, end + 0.2, "\n".join(foot))

        left = EDGE + beside
        draw_map(page.axes(left, top, across, down), mean, lines=True)
        page.words(left - 0.08, top - 0.08, "looks ↓", va="baseline", ha="right")
        page.words(left, top - above - 0.12, "looked at →", va="baseline")
        page.words(left + across + 0.08, top - 0.08, "up to", va="baseline")
        for i, (word, row) in enumerate(zip(rows, mean, strict=True)):
            y, share = top + (i + 0.5) * cell + LOWER, percent(float(row.max()))
            page.words(left - 0.08, y, word, ha="right", color=INK, **FONT)
            page.words(left + across + 0.08, y, share, **FONT)
        for j, word in enumerate(columns):
            x = left + (j + 0.5) * cell + LOWER
            page.words(x, top - 0.08, word, rotation=90, color=INK, **FONT)

        if several:
            draw_heads(page, cut, layers, each, left, second, size)
        return page.saved(path)


def draw_heads(
    page: Page,
    maps: Float[np.ndarray, "layers heads n m"],
    layers: Sequence[int],
    heads: Sequence[int],
    left: float,
    top: float,
    size: tuple[float, float],
) -> None:
    """A row a layer, a column a head."""
    for column, head in enumerate(heads):
        middle = left + column * (size[0] + GAP) + size[0] / 2
        page.words(middle, top - 0.08, f"head {head + 1}", va="baseline", ha="center", fontsize=8)
    for row, layer in enumerate(layers):
        y = top + row * (size[1] + GAP)
        beside = {"va": "center", "ha": "right", "color": INK}
        page.words(left - 0.08, y + size[1] / 2, f"layer {layer + 1}", **beside)
        for column, head in enumerate(heads):
            axes = page.axes(left + column * (size[0] + GAP), y, *size)
            draw_map(axes, maps[layer, head])


def draw_map(axes: Axes, shares: Float[np.ndarray, "n m"], *, lines: bool = False) -> None:
    """Each row as dark as its share of the row's greatest; a row that looks nowhere is white."""
    n, m = shares.shape
    greatest = shares.max(1, keepdims=True)
    relative = np.divide(shares, greatest, out=np.zeros_like(shares), where=greatest > 0)
    axes.imshow(
        relative, cmap=DEPTHS, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    ).set_extent((0, m, n, 0))
    if lines:  # a hair between words leads the eye from a cell to its names
        axes.hlines(range(1, n), 0, m, color="#eef1f5", linewidth=0.4)
        axes.vlines(range(1, m), 0, n, color="#eef1f5", linewidth=0.4)
    axes.set(xlim=(0, m), ylim=(n, 0))


def small_size(aspect: float, heads: int, room: float) -> tuple[float, float]:
    """Width and height of one head's map, as large as the page has room for."""
    across = (room - (heads - 1) * GAP) / heads
    width, height = fitted(aspect, min(SMALL, across))
    # Names stand above and beside it, however narrow or low the map of two texts is.
    return max(width, 0.5), max(height, 0.16)


def explained(shape: tuple[int, ...], most: int, small: tuple[int, int] | None, same: bool) -> str:
    """How to read the page; `small` is how many layers and heads have a map of their own."""
    layer_count, head_count, n, m = shape
    count = layer_count * head_count
    large, rest = ("Drawn", "") if small is None else ("Large", ", small is each")
    mean = f" {large} is the mean of {count} heads{rest}." if count > 1 else ""
    parts = [f"first {most} of {n} words"] if n > most else []
    if not same and m > most:
        parts.append(f"first {most} of {m} words looked at")
    cut = f" Shown are the {' and the '.join(parts)}." if parts else ""
    layers, heads = small or (layer_count, head_count)
    return (
        "The darker a cell, the more its row's word looked at its column's. Every row has its own "
        f"scale, up to the share at its end.{mean}{cut}"
        f"{left_out(layers, layer_count, heads, head_count)}"
    )


def check(queries: Sequence[str], read: Sequence[str], maps: np.ndarray, most: int) -> None:
    if not queries or not read:
        raise ValueError(f"{len(queries)} words that look at {len(read)} have nothing to show")
    if maps.ndim != 4 or maps.shape[2:] != (len(queries), len(read)) or 0 in maps.shape:
        raise ValueError(
            f"{len(queries)} words that look at {len(read)} have maps of shape {maps.shape}, "
            "not (layers, heads, words that look, words looked at)"
        )
    if most < 1:
        raise ValueError(f"most={most}: there must be at least 1 word to show")
    wrong = int((~(np.isfinite(maps) & (maps >= 0))).sum())
    if wrong:
        raise ValueError(f"{wrong} shares of the maps are negative or not finite")


def visible(word: str) -> str:
    """A word without the space before it; what else cannot be seen has a sign.

    The page's view has the same (page/views/reading.js).
    """

    def sign(found: re.Match[str]) -> str:
        letter = found[0][-1]
        return {"\n": "↵", "\t": "⇥"}.get(letter, chr(0x2400 + ord(letter)))

    if not word:
        return "∅"
    shown = CONTROLS.sub(sign, word)
    return shown.strip() or "␣" * len(shown)
