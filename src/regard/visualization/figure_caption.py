"""A caption on paper: the image, then each word with where the model looked when it wrote it.

    caption_figure(image, ["a", "red", "star"], maps, Path("look.png"), caption="Scene 7")

Maps lie over the image made grey and faint, as in `attention_figure`. They share one scale, since
they stand side by side: a word that looks at a single thing is dark there, and one that looks
everywhere a little is pale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from regard.visualization.figure_image import (
    EDGE,
    Size,
    fitted,
    letters_that_fit,
    over,
    percent,
    resized,
    show,
    to_colours,
    wrapped,
)
from regard.visualization.figures import INK, WIDTH, Page, drawing, inches

MOST = 24  # words that have a panel
ABREAST, LARGEST = 6, 1.76  # panels in a row at most; inches that one may be wide
GAP, OVER, UNDER = 0.16, 0.26, 0.34  # inches between panels, and for what is over and under one
ROOM = WIDTH - 2 * EDGE
# What follows a word without a space, as a full stop does; page/views/captions.js has the same.
CLINGS = re.compile(r"[.,;:!?…%)\]}’”»。、，！？]+|['’][^\W\d_]+|n['’]t")


def caption_figure(
    image: UInt8[np.ndarray, "y x c"],
    words: Sequence[str],
    maps: Float[np.ndarray, "*heads w rows columns"],
    path: Path | Sequence[Path] = (),
    *,
    head: int | None = None,
    one_scale: bool = True,
    caption: str = "",
    boxes: Sequence[Mapping[str, Any]] | None = None,
) -> Figure:
    """A panel for the image and one for each word, row by row; saved by suffix if there is a path.

    `maps` are shares, one map a word. With a first axis for heads their mean is drawn, or that of
    `head`, counted from 0. Each of `boxes` is {"word": its place, "box": [left, top, right,
    bottom]}, in shares of the image, and is outlined; the page says that there the thing is which
    the word names. Without `one_scale` each word has its own, from 0 to its greatest share. Of more
    than 24 words the first 24 are shown, and the page says so. `caption` stands at the foot.
    """
    picture = to_colours(image)
    views, whose = of_head(maps, head)
    check(words, views, boxes or ())
    shown = words[:MOST]
    text = sentence(shown) + " …" * (len(words) > MOST)
    with drawing(text, caption):
        rows, columns, across = layout(1 + len(shown))
        size = fitted(picture.shape[0] / picture.shape[1], across)
        heading = wrapped(text, ROOM, fontsize=13, weight="bold")
        framed = any(one["word"] < len(shown) for one in boxes or ())
        about = wrapped(explained(one_scale, whose, len(words), framed), ROOM)
        foot = wrapped(caption, ROOM)

        below_heading = 0.26 + 0.24 * len(heading)
        top = below_heading + 0.17 * len(about) + 0.16
        down = OVER + size[1] + UNDER
        end = top + rows * down
        page = Page(end + 0.06 + 0.17 * len(foot) + 0.12 * bool(foot))
        page.words(EDGE, 0.2, "\n".join(heading), fontsize=13, weight="bold", color=INK)
        page.words(EDGE, below_heading, "\n".join(about))
        page.words(EDGE, end, "\n".join(foot))

        small = resized(picture, size)
        grey = small @ np.array([0.299, 0.587, 0.114]) / 255
        greatest = views[: len(shown)].max((1, 2))
        ends = np.full_like(greatest, greatest.max()) if one_scale else greatest
        middles = [
            (EDGE + across / 2 + n % columns * (across + GAP), top + OVER + n // columns * down)
            for n in range(1 + len(shown))
        ]
        draw_panel(page, *middles[0], size, small, "image")
        for n, (word, (x, y)) in enumerate(zip(shown, middles[1:], strict=True)):
            relative = views[n] / ends[n] if ends[n] > 0 else views[n]
            bold = {"weight": "bold", "color": INK}
            name = shortened(word if word.strip() else "␣", across, weight="bold")
            axes = draw_panel(page, x, y, size, over(grey, relative), name, **bold)
            for one in boxes or ():
                if one["word"] == n:
                    outline(axes, one["box"])
            page.words(x, y + size[1] + 0.06, f"up to {percent(float(greatest[n]))}", ha="center")
        return page.saved(path, colours=None)


def draw_panel(
    page: Page,
    x: float,
    y: float,
    size: Size,
    picture: UInt8[np.ndarray, "h w 3"],
    name: str,
    **font: Any,
) -> Axes:
    """A picture whose top has its middle at (x, y), under its name."""
    page.words(x, y - 0.08, name, va="baseline", ha="center", **font)
    axes = page.axes(x - size[0] / 2, y, *size)
    show(axes, picture)
    return axes


def of_head(
    maps: Float[np.ndarray, "*heads w rows columns"], head: int | None
) -> tuple[Float[np.ndarray, "w rows columns"], str]:
    """The maps to draw, and a sentence on whose they are."""
    if maps.ndim == 3 and head is None:
        return maps, ""
    if maps.ndim != 4 or not len(maps):
        wanted = "(words, rows, columns) or (heads, words, rows, columns)"
        wanted = wanted if head is None else "(heads, words, rows, columns)"
        raise ValueError(f"maps of shape {maps.shape} are not {wanted}")
    count = len(maps)
    if head is None:
        return maps.mean(0), f" Drawn is the mean of {count} heads." if count > 1 else ""
    if not -count <= head < count:
        raise ValueError(f"there is no head {head}; there are {count}, from 0 to {count - 1}")
    return maps[head], f" Drawn is head {head % count + 1} of {count}."


def check(words: Sequence[str], views: np.ndarray, boxes: Sequence[Mapping[str, Any]]) -> None:
    if not words:
        raise ValueError("a caption of 0 words has nothing to show")
    if len(views) != len(words) or 0 in views.shape:
        raise ValueError(f"{len(words)} words have maps of shape {views.shape}; each needs a map")
    wrong = int((~(np.isfinite(views) & (views >= 0))).sum())
    if wrong:
        raise ValueError(f"{wrong} shares of the words' maps are negative or not finite")
    for one in boxes:
        place, (left, top, right, bottom) = one["word"], one["box"]
        if not 0 <= place < len(words):
            raise ValueError(f"a box belongs to word {place}, and there are {len(words)}, from 0")
        if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
            sides = ", ".join(f"{side:.3g}" for side in one["box"])
            raise ValueError(
                f"the box ({sides}) is not left, top, right, bottom in shares of the image"
            )


def layout(panels: int) -> tuple[int, int, float]:
    """Rows and columns, no row nearly empty, and how wide a panel may be."""
    rows = -(-panels // ABREAST)
    columns = -(-panels // rows)
    return rows, columns, min(LARGEST, (ROOM - (columns - 1) * GAP) / columns)


def outline(axes: Axes, box: Sequence[float]) -> None:
    """A box in white within black, which is seen on every map."""
    left, top, right, bottom = box
    for colour, width in ((INK, 2.6), ("white", 1.2)):
        axes.add_patch(
            Rectangle(
                (left, 1 - bottom),
                right - left,
                bottom - top,
                fill=False,
                edgecolor=colour,
                linewidth=width,
            )
        )


def explained(one_scale: bool, whose: str, words: int, framed: bool) -> str:
    """How to read the page."""
    named = " Framed: the thing that the word names." if framed else ""
    first = f" Shown are the first {MOST} of {words} words." if words > MOST else ""
    scale = (
        "All words have one scale; below each is the share of its darkest patch."
        if one_scale
        else "Every word has its own scale, which ends at the share below it."
    )
    return f"The darker a patch, the more the word looked at it. {scale}{named}{whose}{first}"


def sentence(words: Sequence[str]) -> str:
    """The words as one text."""
    return "".join(w if CLINGS.fullmatch(w) else f" {w}" for w in words).strip()


def shortened(word: str, room: float, **font: Any) -> str:
    """The word, or as much of its start as so many inches have room for."""
    if inches(word, **font) <= room:
        return word
    return word[: letters_that_fit(word, room - inches("…", **font), **font)] + "…"
