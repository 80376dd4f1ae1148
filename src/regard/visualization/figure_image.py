"""One image and all that was read of it: a row for each layer, a column for each head.

    maps = image_maps(model, images)
    attention_figure(image, maps.heads[0], maps.rollout[0], Path("look.png"), title="A cat?")

The image stands large at the left with its rollout below, so that the two compare patch by patch;
maps lie over the image made grey and faint.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from PIL import Image

from regard.visualization.figures import DOTS, INK, MUTED, WIDTH, Page, drawing, inches

MOST = 8  # layers, and heads, that are shown
# One hue from white to dark: lightness alone tells the order, in grey and to every kind of sight.
DEPTHS = LinearSegmentedColormap.from_list(
    "depths", ["#ffffff", "#bdd7f1", "#69a5e0", "#2468b4", "#0b3a75"]
)
FAINT = 0.7  # how light the image's black becomes under a map

# In inches, from left to right: margin, large picture, its scale, names of layers, maps, scale.
EDGE, LARGE, SCALE, NAMES, GAP = 0.24, 2.1, 0.6, 0.64, 0.06
WIDEST = 11.0  # page, before maps become smaller
Size: TypeAlias = tuple[float, float]  # width and height, in inches
TALLEST = 1.6  # times the room's width that a picture may be high
LOWEST = 0.3  # a scale with its two numbers


def attention_figure(
    image: UInt8[np.ndarray, "y x c"] | Float[np.ndarray, "y x"],
    maps_heads: Float[np.ndarray, "layers heads rows columns"],
    rollout: Float[np.ndarray, "rows columns"],
    path: Path | Sequence[Path],
    *,
    title: str,
    answer: str = "",
    caption: str = "",
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Figure:
    """How much of each patch was read, by every head of every layer, saved by suffix.

    The image is a photograph in 1 or 3 channels, or ink, 0 to 1, on white paper; `answer` is what
    the model says of it. Of `layers` and `heads`, counted from 0, at most 8 are shown, evenly
    chosen, and the page says so; the mean is over all heads always. Every row has its own scale,
    from 0 to the greatest share in it.
    """
    shown = to_colours(image)
    check(maps_heads, rollout)
    layer_count, head_count = maps_heads.shape[:2]
    rows, columns = chosen("layers", layers, layer_count), chosen("heads", heads, head_count)
    names = [f"head {head + 1}" for head in columns]
    maps = maps_heads[rows][:, columns]
    if head_count > 1:
        names.append("mean" if len(columns) == head_count else f"mean of {head_count}")
        maps = np.concatenate((maps, maps_heads[rows].mean(1, keepdims=True)), 1)

    with drawing(title, answer, caption):
        large, small = sizes(shown.shape[0] / shown.shape[1], len(rows), len(names))
        step = max(small[0], *(inches(name, fontsize=8) + 0.04 for name in names)) + GAP
        start = EDGE + LARGE + SCALE + NAMES
        width = max(WIDTH, start + len(names) * step + GAP + SCALE + EDGE)
        heading = wrapped(title, width - 2 * EDGE, fontsize=13, weight="bold")
        about = wrapped(
            "The darker a patch, the more was read of it. Every row has its own scale, in percent "
            f"of all that was read.{left_out(len(rows), layer_count, len(columns), head_count)}",
            width - 2 * EDGE,
        )
        answers = wrapped(answer, LARGE + SCALE - 0.1, weight="bold")
        captions = wrapped(caption, width - 2 * EDGE)

        below_heading = 0.26 + 0.24 * len(heading)
        top = below_heading + 0.17 * len(about) + 0.36
        second = top + large[1] + 0.17 * len(answers) + 0.1 * bool(answers) + 0.36
        down = max(small[1], LOWEST) + GAP
        end = max(second + max(large[1], LOWEST), top + len(rows) * down - GAP)
        page = Page(end + 0.26 + 0.17 * len(captions) + 0.1 * bool(captions), width)
        page.words(EDGE, 0.2, "\n".join(heading), fontsize=13, weight="bold", color=INK)
        page.words(EDGE, below_heading, "\n".join(about))
        page.words(EDGE, end + 0.22, "\n".join(captions))

        page.words(EDGE, top - 0.08, "image", va="baseline")
        show(page.axes(EDGE, top, *large), resized(shown, large))
        page.words(EDGE, top + large[1] + 0.1, "\n".join(answers), weight="bold", color=INK)
        page.words(EDGE, second - 0.08, "rollout: all layers multiplied", va="baseline")
        draw_maps(page, shown, [rollout], [EDGE], second, large)

        places = [
            start + column * step + (step - GAP - small[0]) / 2 for column in range(len(names))
        ]
        places[-1] += GAP * (head_count > 1)  # sets the mean apart
        for x, name in zip(places, names, strict=True):
            page.words(x + small[0] / 2, top - 0.08, name, va="baseline", ha="center", fontsize=8)
        for row, (layer, views) in enumerate(zip(rows, maps, strict=True)):
            y = top + row * down
            beside = {"va": "center", "ha": "right", "color": INK}
            page.words(places[0] - 0.1, y + (down - GAP) / 2, f"layer {layer + 1}", **beside)
            draw_maps(page, shown, list(views), places, y, small)
        return page.saved(path, colours=None)


def sizes(aspect: float, rows: int, columns: int) -> tuple[Size, Size]:
    """Of the large pictures, and of the maps, which fill the room beside them."""
    large = fitted(aspect, LARGE)
    start = EDGE + LARGE + SCALE + NAMES
    across = (WIDEST - start - SCALE - EDGE) / columns - GAP
    beside = 2 * (large[1] + 0.3) / rows  # as high as both large pictures
    return large, fitted(aspect, min(across, max(beside / aspect, 0.8), LARGE))


def draw_maps(
    page: Page,
    image: UInt8[np.ndarray, "y x 3"],
    maps: Sequence[Float[np.ndarray, "rows columns"]],
    places: Sequence[float],
    y: float,
    size: Size,
) -> None:
    """Maps side by side on one scale, from these places on, and the scale after them."""
    greatest, height = max(float(view.max()) for view in maps), max(size[1], LOWEST)
    grey = resized(image, size) @ np.array([0.299, 0.587, 0.114]) / 255
    for x, view in zip(places, maps, strict=True):
        relative = view / greatest if greatest > 0 else view
        show(page.axes(x, y + (height - size[1]) / 2, *size), over(grey, relative))
    bar = page.axes(places[-1] + size[0] + 0.08, y, 0.09, height)
    bar.imshow(np.linspace(1, 0, 256)[:, None], cmap=DEPTHS, aspect="auto", extent=(0, 1, 0, 1))
    for share, words, va in ((1, percent(greatest), "top"), (0, "0", "bottom")):
        bar.text(1.6, share, words, va=va, fontsize=7.5, color=MUTED)


def over(
    grey: Float[np.ndarray, "y x"], shares: Float[np.ndarray, "rows columns"]
) -> UInt8[np.ndarray, "y x 3"]:
    """Colours of shares, 0 … 1, patch by patch, through which a faint image shows."""
    (height, width), (rows, columns) = grey.shape, shares.shape
    down = ((np.arange(height) + 0.5) * rows / height).astype(np.int64)
    across = ((np.arange(width) + 0.5) * columns / width).astype(np.int64)
    colours = DEPTHS(shares)[..., :3][down[:, None], across]
    faint = FAINT + (1 - FAINT) * grey
    return (255 * colours * faint[..., None]).round().astype(np.uint8)


def show(axes: Axes, picture: UInt8[np.ndarray, "y x 3"]) -> None:
    axes.imshow(picture, extent=(0, 1, 0, 1), aspect="auto")


def resized(image: UInt8[np.ndarray, "y x 3"], size: Size) -> UInt8[np.ndarray, "h w 3"]:
    """The image in as many pixels as so many inches have, twice as fine as the page.

    A small image keeps its pixels as squares: it is what the model was given.
    """
    width, height = (max(1, round(2 * DOTS * side)) for side in size)
    smaller = width < image.shape[1] or height < image.shape[0]
    how = Image.Resampling.LANCZOS if smaller else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(image).resize((width, height), how))


def to_colours(
    image: UInt8[np.ndarray, "y x c"] | Float[np.ndarray, "y x"],
) -> UInt8[np.ndarray, "y x 3"]:
    """The image as a screen shows it."""
    if image.ndim == 2:
        low, high = float(image.min()), float(image.max())
        if not (low >= 0 and high <= 1):
            raise ValueError(f"ink lies in 0 … 1, and this image's in {low:.3g} … {high:.3g}")
        image = (255 * (1 - image[..., None])).round().astype(np.uint8)
    if image.ndim != 3 or image.shape[2] not in (1, 3):
        raise ValueError(f"an image of shape {image.shape} is not (height, width, 1 or 3)")
    return np.ascontiguousarray(np.broadcast_to(image, (*image.shape[:2], 3)))


def check(maps_heads: np.ndarray, rollout: np.ndarray) -> None:
    if maps_heads.ndim != 4 or maps_heads.shape[2:] != rollout.shape:
        raise ValueError(
            f"maps of shape {maps_heads.shape} are not (layers, heads, rows, columns) on the "
            f"rollout's grid, {rollout.shape}"
        )
    for name, maps in (("heads' maps", maps_heads), ("rollout", rollout)):
        if not (maps >= 0).all():
            wrong = (~(maps >= 0)).sum()
            raise ValueError(f"{wrong} shares of the {name} are negative or NaN")


def chosen(what: str, wanted: Sequence[int] | None, count: int) -> list[int]:
    """The numbers to show: those wanted, or all; at most 8 of them, evenly."""
    numbers = list(range(count)) if wanted is None else [int(number) for number in wanted]
    if not numbers or not all(-count <= number < count for number in numbers):
        raise ValueError(f"{what}={numbers}: there are {count}, from 0 to {count - 1}")
    if len(numbers) > MOST:
        even = np.linspace(0, len(numbers) - 1, MOST).round().astype(np.int64)
        numbers = [numbers[place] for place in even]
    return [number % count for number in numbers]


def left_out(layers: int, all_layers: int, heads: int, all_heads: int) -> str:
    """A sentence on what is not shown, if anything is not."""
    parts = [
        f"{few} of {many} {what}"
        for few, many, what in ((layers, all_layers, "layers"), (heads, all_heads, "heads"))
        if few < many
    ]
    return f" Shown are {' and '.join(parts)}." if parts else ""


def fitted(aspect: float, room: float) -> Size:
    """Width and height of a picture in so much room; a tall one is made narrower."""
    height = min(room * aspect, room * TALLEST)
    return height / aspect, height


def percent(share: float) -> str:
    """Two or three digits, however small."""
    digits = 0 if share >= 0.1 or share == 0 else 1 if share >= 0.01 else 2
    return f"{share:.{digits}%}"


def wrapped(words: str, room: float, **font: Any) -> list[str]:
    """Lines no wider than so many inches, broken between words, or inside one that is too long."""
    lines = []
    for paragraph in words.splitlines():
        line = ""
        for word in paragraph.split():
            joined = f"{line} {word}".strip()
            if inches(joined, **font) <= room:
                line = joined
                continue
            lines += [line] if line else []
            while inches(word, **font) > room:
                cut = letters_that_fit(word, room, **font)
                lines.append(word[:cut])
                word = word[cut:]
            line = word
        lines.append(line)
    return lines


def letters_that_fit(word: str, room: float, **font: Any) -> int:
    """How many of a word's letters are no wider than so many inches, but at least one."""
    lengths = range(1, len(word) + 1)
    return max(1, bisect_right(lengths, room, key=lambda count: inches(word[:count], **font)))
