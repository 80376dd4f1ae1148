"""Draw every picture of the docs again: `python docs/pictures/make.py`, about a minute.

Nothing here is drawn by hand: each cell and each curve comes from a call of regard.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import regard as rg
from regard.cli import demo
from regard.tasks.classify import demo as classify_demo
from regard.visualization.figures import (
    INK,
    MONO,
    MUTED,
    READ,
    STYLE,
    UNREAD,
    WIDTH,
    Page,
    broken,
    mask_gallery,
)

HERE = Path(__file__).parent
EPOCHS: int | None = None  # of training, for the picture that needs some; those of the recipe
LEFT = 0.28  # inches of margin
WRONG = "#b3420a"  # apart from the blue with every kind of colour vision, and darker than the page
PARTLY = "#9dc3ea"


def masks(path: Path) -> Figure:
    """Every named mask and some compositions: the gallery of `regard demo`."""
    named = {words: rg.Mask.parse(expression) for words, expression in demo.MASKS.items()}
    return mask_gallery(named, path, n=demo.TOKENS, caption=demo.ABOUT_GRIDS)


def attention(path: Path) -> Figure:
    """Where a small ViT looked at digits it had never seen: the picture of `regard demo`."""
    with tempfile.TemporaryDirectory() as folder:
        run = rg.train(
            "classify", data="digits", epochs=EPOCHS, root=folder, quiet=True, report=False
        )
        return classify_demo.draw(run, classify_demo.one_of_each(run), path)


def seam(path: Path) -> Figure:
    """A chunk behind a cache: causal by position, beside causal by row and column number."""
    q_pos, k_pos = range(5, 8), range(8)
    right = rg.causal(q_pos, k_pos)
    wrong = rg.causal(range(len(q_pos)), range(len(k_pos)))  # positions inferred from lengths
    cell, gap, head = 0.4, 0.74, 1.34  # inches
    height = head + len(q_pos) * cell + 0.78
    with matplotlib.rc_context(STYLE):
        page = Page(height)
        page.title(LEFT, "Three new queries read eight keys, five of them cached")
        page.words(
            LEFT, 0.5, "A row is a query, a column a key; both are named by their positions."
        )
        halves = (
            ("right: k ≤ q on positions", right),
            ("wrong: the same triangle from the top left", wrong),
        )
        for half, (words, read) in enumerate(halves):
            x = LEFT + 0.34 + half * (len(k_pos) * cell + gap)
            page.words(x, head - 0.5, words, color=INK, weight="bold")
            axes = page.axes(x, head, len(k_pos) * cell, len(q_pos) * cell)
            grid(axes, len(q_pos), len(k_pos))
            for row, q in enumerate(q_pos):
                axes.text(-0.2, row + 0.5, f"q {q}", ha="right", va="center")
                for column in range(len(k_pos)):
                    lost = bool(right[row, column] & ~read[row, column])
                    paint(axes, row, column, READ if read[row, column] else UNREAD)
                    if lost:
                        cross(axes, row, column)
            for column, k in enumerate(k_pos):
                axes.text(column + 0.5, -0.14, f"k {k}", ha="center", va="bottom", fontsize=8)
        lost = int((right & ~wrong).sum())
        foot = head + len(q_pos) * cell + 0.16
        swatches(page, foot, (("may read", READ, ""), ("may not", UNREAD, ""), ("lost", "x", "")))
        page.words(
            LEFT,
            foot + 0.28,
            f"From the top left, query 5 is taken for query 0: {lost} of {int(right.sum())} reads "
            "are lost, and no error is raised.",
        )
        return page.saved(path)


def cache(path: Path) -> Figure:
    """The slots of an evicting cache of fixed size, step by step, read off a real one."""
    mask = rg.causal & (rg.window(3) | rg.sinks(1))
    steps = [range(0, 3), *(range(t, t + 1) for t in (3, 4, 5)), range(6, 8), range(8, 9)]
    size, wide, tall, row_gap, head = 5, 0.8, 0.46, 0.14, 1.3
    kept, x = rg.KVCache(size=size, keep=mask), LEFT + 1.0
    height = head + len(steps) * (tall + row_gap) + 0.5
    with matplotlib.rc_context(STYLE):
        page = Page(height)
        page.title(LEFT, "Positions travel with the keys, slots mean nothing")
        page.words(LEFT, 0.5, f"KVCache(size={size}, keep_weights={mask})", family=MONO, color=INK)
        page.words(LEFT, head - 0.2, "appended", color=INK, va="baseline")
        page.words(x + size * wide + 0.4, head - 0.2, "who reads what", color=INK, va="baseline")
        for slot in range(size):
            middle = x + (slot + 0.5) * wide
            page.words(middle, head - 0.2, f"slot {slot}", ha="center", va="baseline")
        before = [-1] * size
        for step, chunk in enumerate(steps):
            new = torch.randn(1, 1, len(chunk), 2)
            q_pos = torch.tensor(chunk)
            positions = kept.append(new, new, q_pos).positions
            assert isinstance(positions, torch.Tensor)
            after = positions.tolist()
            top = head + step * (tall + row_gap)
            page.words(LEFT, top + tall / 2, spelled(chunk), va="center", family=MONO, color=INK)
            axes = page.axes(x, top, size * wide, tall)
            grid(axes, 1, size)
            for slot, (old, now) in enumerate(zip(before, after, strict=True)):
                gone = old if old not in (now, -1) else None
                draw_slot(axes, slot, now, fresh=now in chunk, gone=gone)
            reads = [
                f"{q} reads " + " ".join(str(k) for k in sorted(positions[row].tolist()))
                for q, row in zip(chunk, mask(q_pos, positions), strict=True)
            ]
            page.words(
                x + size * wide + 0.4,
                top + tall / 2,
                "\n".join(reads),
                va="center",
                family=MONO,
                fontsize=8,
                linespacing=1.25,
            )
            before = after
        foot = head + len(steps) * (tall + row_gap) + 0.1
        swatches(
            page,
            foot,
            (
                ("new", READ, ""),
                ("kept", PARTLY, ""),
                ("free, at −1", "dashed", "−1"),
                ("was 1: evicted, as no later query may read it", "", ""),
            ),
        )
        return page.saved(path)


def tiles(path: Path) -> Figure:
    """The block structure of eight masks, as a fast kernel is told it."""
    n, size, columns = 1024, 128, 4
    expressions = (
        "causal",
        "causal & window(256)",
        "causal & (window(128) | sinks(4))",
        "causal | prefix(300)",
        "blocks(256)",
        "window(100) | global_tokens(1)",
        "neighborhood(3, (32, 32))",
        "random_keys(2, 1024, 0)",
    )
    side, gap, line, under, head = 1.7, 0.24, 0.135, 0.6, 0.86
    rows = [expressions[start : start + columns] for start in range(0, len(expressions), columns)]
    lines = [max(broken(text).count("\n") + 1 for text in row) for row in rows]
    height = head + sum(lines) * line + len(rows) * (side + under) + 0.32
    left = (WIDTH - columns * side - (columns - 1) * gap) / 2
    with matplotlib.rc_context(STYLE):
        page = Page(height)
        page.title(left, f"What a kernel may skip, at {n:,} tokens in tiles of {size}")
        page.words(
            left,
            0.5,
            f"A row is {size} queries, a column {size} keys. The mask itself says, not a map.",
        )
        top = head
        for row, count in zip(rows, lines, strict=True):
            top += count * line
            for column, expression in enumerate(row):
                mask = rg.Mask.parse(expression)
                some, every = mask.tiles(range(n), range(n), size)
                axes = page.axes(left + column * (side + gap), top, side, side)
                grid(axes, *some.shape)
                for y, x in np.ndindex(*some.shape):
                    whole, partly = bool(every[y, x]), bool(some[y, x] & ~every[y, x])
                    paint(axes, y, x, READ if whole else PARTLY if partly else UNREAD)
                    if partly:
                        dot(axes, y, x)
                axes.set_title(broken(expression), family=MONO, fontsize=8, pad=4, linespacing=1.15)
                skipped = int((~some).sum())
                axes.set_xlabel(
                    f"{mask.density(n):.1%} may be read,\n"
                    f"{skipped} of {some.numel()} tiles are skipped",
                    fontsize=8,
                    labelpad=4,
                )
            top += side + under
        swatches(
            page,
            height - 0.34,
            (
                ("nothing read: skipped", UNREAD, ""),
                ("partly: the mask is asked", PARTLY, "dot"),
                ("wholly: no mask needed", READ, ""),
            ),
            x=left,
        )
        return page.saved(path)


def beta(path: Path) -> Figure:
    """One query's weights over its keys, from the mean to the best key."""
    scores = [3.0, 3.0, 2.0, 1.0, 0.0, -2.0]
    q, k = torch.zeros(1, 4), torch.zeros(len(scores), 4)
    q[0, 0], k[:, 0] = 1.0, torch.tensor(scores)
    share = torch.linspace(0, 1, 201)  # β / (1 + β) maps 0 … ∞ onto 0 … 1
    betas = [x / (1 - x) if x < 1 else math.inf for x in share.tolist()]
    weights = torch.cat([rg.attend(q, k, k, beta=b).weights for b in betas])
    height, head, right = 3.7, 0.98, 1.55
    with matplotlib.rc_context(STYLE):
        page = Page(height)
        page.title(LEFT, "β turns the mean into the best key")
        page.words(
            LEFT,
            0.5,
            f"One query, {len(scores)} keys. The number on a curve is q·k; two keys have 3.",
        )
        axes = page.axes(LEFT + 0.5, head, WIDTH - LEFT - 0.5 - right, height - head - 0.6)
        axes.spines[["top", "right"]].set_visible(False)
        marks = (0, 0.25, 0.5, 1, 2, 4, 10, math.inf)
        at = [b / (1 + b) if b < math.inf else 1.0 for b in marks]
        names = ["0\nthe mean", "0.25", "0.5", "1", "2", "4", "10", "∞\nthe best"]
        axes.set_xticks(at, names, color=MUTED)
        axes.set_yticks([0, 1 / 6, 0.5], ["0", "1/6", "1/2"], color=MUTED)
        axes.tick_params(length=2.5, color="#c3ccd6")
        axes.set_xlabel("β", color=INK, labelpad=-8)
        axes.set_ylabel("weight", color=INK)
        axes.set(xlim=(0, 1), ylim=(-0.012, 0.56))
        axes.axvline(1 / 3, color="#c3ccd6", linewidth=0.8, zorder=0)
        axes.text(0.345, 0.535, "β = 1/√d, the default at d = 4", color=MUTED, fontsize=8, va="top")
        shades = ["#123c6b", "#1f5fa8", "#2f7fd1", "#5d9fdd", "#86b8e8"]
        dashes: Sequence[object] = ("-", (0, (6, 1.5)), (0, (3, 1.5)), (0, (1.5, 1.5)), (0, (1, 3)))
        for line, score in enumerate(dict.fromkeys(scores)):
            curve = weights[:, scores.index(score)]
            axes.plot(share, curve, color=shades[line], linestyle=dashes[line], linewidth=1.8)
            axes.text(
                0.25,
                float(curve[50]),
                f"{score:g}".replace("-", "−"),
                ha="center",
                va="center",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
            )
        axes.text(1.02, 0.5, "two keys tie at 3,\nso half each", va="center", linespacing=1.4)
        axes.text(1.02, 0.0, "nothing for the rest", va="center")
        return page.saved(path)


PICTURES: dict[str, Callable[[Path], Figure]] = {
    "masks.png": masks,
    "attention.png": attention,
    "seam.png": seam,
    "cache.png": cache,
    "tiles.png": tiles,
    "beta.png": beta,
}


def spelled(chunk: range) -> str:
    """The positions of a chunk: 3, or 0 1 2."""
    return " ".join(map(str, chunk))


def grid(axes: Axes, rows: int, columns: int) -> None:
    """Unit cells, row 0 at the top, without a frame."""
    axes.set(xlim=(0, columns), ylim=(rows, 0))
    axes.spines[:].set_visible(False)


def paint(axes: Axes, row: float, column: float, colour: str) -> None:
    axes.add_patch(
        Rectangle((column, row), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.2)
    )


def cross(axes: Axes, row: float, column: float) -> None:
    """A cell that is wrong, by its frame and its cross as well as by its colour."""
    axes.add_patch(
        Rectangle(
            (column + 0.06, row + 0.06), 0.88, 0.88, facecolor="white", edgecolor=WRONG, linewidth=1
        )
    )
    for rise in (1, -1):
        axes.plot(
            [column + 0.3, column + 0.7],
            [row + 0.5 - 0.2 * rise, row + 0.5 + 0.2 * rise],
            color=WRONG,
            linewidth=1.6,
            solid_capstyle="round",
        )


def dot(axes: Axes, row: float, column: float) -> None:
    axes.plot(column + 0.5, row + 0.5, "o", color=READ, markersize=3)


def draw_slot(axes: Axes, slot: int, now: int, *, fresh: bool, gone: int | None) -> None:
    """One slot after a step: what lies in it, and what was evicted from it."""
    if now < 0:
        dashed(axes, slot)
    else:
        paint(axes, 0, slot, READ if fresh else PARTLY)
    if gone is not None:
        axes.text(
            slot + 0.91,
            0.25,
            f"was {gone}",
            ha="right",
            va="center",
            fontsize=7.5,
            color="white" if now >= 0 else INK,
        )
    axes.text(
        slot + 0.5,
        0.58 if gone is not None else 0.54,
        str(now).replace("-", "−"),
        ha="center",
        va="center",
        fontsize=11 if now >= 0 else 8.5,
        weight="bold" if fresh else "normal",
        color="white" if fresh else MUTED if now < 0 else INK,
    )


def dashed(axes: Axes, column: float) -> None:
    axes.add_patch(
        Rectangle(
            (column + 0.05, 0.05),
            0.9,
            0.9,
            facecolor="white",
            edgecolor=MUTED,
            linestyle=(0, (3, 2)),
            linewidth=0.8,
        )
    )


def swatches(
    page: Page, y: float, entries: Sequence[tuple[str, str, str]], x: float = LEFT
) -> None:
    """What each cell means, in one line: words, colour or kind, mark; words alone end it."""
    side = 0.2
    for words, kind, mark in entries:
        if not kind:
            page.words(x, y + side / 2 - 0.03, words, va="center_baseline")
            continue
        axes = page.axes(x, y - 0.03, side, side)
        grid(axes, 1, 1)
        if kind == "x":
            cross(axes, 0, 0)
        elif kind == "dashed":
            dashed(axes, 0)
            axes.text(0.5, 0.54, mark, ha="center", va="center", fontsize=6, color=MUTED)
        else:
            paint(axes, 0, 0, kind)
            if mark == "dot":
                dot(axes, 0, 0)
        page.words(x + side + 0.08, y + side / 2 - 0.03, words, va="center_baseline")
        x += side + 0.08 + 0.079 * len(words) + 0.26


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        draw(folder / name)
        print(f"{folder / name}  {(folder / name).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
