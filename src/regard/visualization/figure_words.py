"""A text on paper, a row a method: the deeper a word, the more it carried the answer.

    maps = word_maps(model, tokens, spans)
    word_figure(words, maps.by_method(), Path("look.png"), title="A review", answer="positive")

What speaks for the answer is blue and underlined; what speaks against it is orange, and so in
dots. Every method has its own scale. The page's view "words" shows the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from regard.inspection.attribution import METHODS, Method, check_words
from regard.visualization.figure_caption import shortened
from regard.visualization.figure_image import EDGE, percent, wrapped
from regard.visualization.figure_text import visible
from regard.visualization.figures import INK, WIDTH, Page, drawing, inches

# Blue and orange are told apart by every kind of sight; words stay legible on the deepest.
FOR, AGAINST = "#5b93d1", "#d97a1f"
LINE_FOR, LINE_AGAINST = "#1f5fa8", "#b3500b"
SCALE = LinearSegmentedColormap.from_list("for_and_against", [AGAINST, "#ffffff", FOR])
ROOM = WIDTH - 2 * EDGE
LINE, PARAGRAPH = 0.27, 0.13  # inches from line to line, and more between paragraphs
FONT: Any = {"fontsize": 10.5}
STRONGEST = 5  # words whose numbers are printed
BAR = 1.1  # inches of the scale


class Place(NamedTuple):
    """Where a word stands, in inches from the top left of the text; y is its line."""

    word: str
    x: float
    y: float
    width: float


def word_figure(
    words: Sequence[str],
    maps: Mapping[str, Float[np.ndarray, "w"]],
    path: Path | Sequence[Path],
    *,
    title: str = "",
    caption: str = "",
    answer: str = "the answer",
    breaks: Sequence[int] = (),
    most: int = 150,
) -> Figure:
    """The text once for each map, saved by suffix.

    `words` have the space before them if there is one. Maps have one number a word; those named
    in METHODS are read as it says, others are signed if a number is negative. A new paragraph
    begins before each word whose place is in `breaks`. Of a long text the first `most` words are
    shown, and the page says so; scales and strongest words are of all.
    """
    check(words, maps, breaks, most)
    with drawing(*words[:most], *maps, title, caption, answer):
        places = set_in_lines(words[:most], breaks)
        down = places[-1].y + LINE
        heading = wrapped(title, ROOM, fontsize=13, weight="bold")
        about = wrapped(explained(len(words), most), ROOM)
        foot = wrapped(caption, ROOM)
        texts = {
            name: (
                wrapped(meant(name, values).words, ROOM),
                wrapped(strongest(name, values, words), ROOM),
            )
            for name, values in maps.items()
        }

        top = 0.2 + 0.06 * bool(heading) + 0.24 * len(heading) + 0.17 * len(about) + 0.22
        heights = {
            name: 0.26 + 0.17 * len(above) + 0.12 + down + 0.06 + 0.17 * len(below) + 0.3
            for name, (above, below) in texts.items()
        }
        end = top + sum(heights.values())
        page = Page(end + 0.02 + 0.17 * len(foot) + 0.1 * bool(foot))
        page.words(EDGE, 0.2, "\n".join(heading), fontsize=13, weight="bold", color=INK)
        page.words(EDGE, top - 0.22 - 0.17 * len(about), "\n".join(about))
        page.words(EDGE, end - 0.02, "\n".join(foot))
        for name, values in maps.items():
            above, below = texts[name]
            way, greatest = meant(name, values), float(np.abs(values).max())
            line = top + 0.13  # where the name and its scale stand
            page.words(EDGE, line, name, weight="bold", color=INK, fontsize=9.5, va="baseline")
            draw_scale(page, line, way, greatest, answer)
            page.words(EDGE, top + 0.24, "\n".join(above))
            y = top + 0.24 + 0.17 * len(above) + 0.12
            draw_words(page.axes(EDGE, y, ROOM, down), places, values[:most], greatest)
            page.words(EDGE, y + down + 0.06, "\n".join(below))
            top += heights[name]
        return page.saved(path, colours=None)


def set_in_lines(words: Sequence[str], breaks: Sequence[int] = ()) -> list[Place]:
    """Words as a printer sets them: broken before a space, or anywhere if there is no other way."""
    space = wide_of("n n") - wide_of("nn")
    shown = [shortened(visible(word), ROOM, **FONT) for word in words]
    wide = {word: wide_of(word) for word in set(shown)}
    places: list[Place] = []
    x = y = 0.0
    for at, (word, text) in enumerate(zip(words, shown, strict=True)):
        apart = word[:1].isspace()
        if at in breaks:
            x, y = 0.0, y + LINE + PARAGRAPH
        elif x and apart:
            x += space
        # What clings to this word must find room as well, as a comma does.
        needed = wide[text]
        for later, cling in zip(words[at + 1 :], shown[at + 1 :], strict=True):
            if later[:1].isspace() or not apart or needed > ROOM:
                break
            needed += wide[cling]
        if x + (needed if needed <= ROOM else wide[text]) > ROOM:
            x, y = 0.0, y + LINE
        places.append(Place(text, x, y, wide[text]))
        x += wide[text]
    return places


def wide_of(word: str) -> float:
    """How wide a word is, measured large: small letters are moved to whole pixels."""
    return inches(word, fontsize=10 * FONT["fontsize"]) / 10


def draw_words(
    axes: Axes, places: Sequence[Place], values: Float[np.ndarray, "w"], greatest: float
) -> None:
    """Each word on its shade, with the line that says the same without a colour."""
    axes.set(xlim=(0, ROOM), ylim=(places[-1].y + LINE, 0))  # inches
    axes.set_axis_off()
    for (word, x, y, wide), value in zip(places, values, strict=True):
        tint = float(value) / greatest if greatest else 0.0
        line = y + 0.185  # where letters stand
        if abs(tint) > 1 / 256:
            axes.add_patch(
                FancyBboxPatch(
                    (x, line - 0.135),
                    wide,
                    0.195,
                    boxstyle="round,pad=0.008,rounding_size=0.03",
                    facecolor=SCALE((1 + tint) / 2),
                    linewidth=0,
                    zorder=1,
                    clip_on=False,
                )
            )
            axes.plot(
                (x, x + wide),
                (line + 0.042, line + 0.042),
                color=LINE_FOR if tint > 0 else LINE_AGAINST,
                alpha=min(1.0, 2 * abs(tint)),
                linewidth=1.2,
                linestyle="-" if tint > 0 else (0, (1, 1.2)),
                solid_capstyle="butt",
                zorder=2,
            )
        axes.text(x, line, word, va="baseline", color=INK, zorder=3, **FONT)


def draw_scale(page: Page, line: float, way: Method, greatest: float, answer: str) -> None:
    """The colours from end to end, with their numbers and what they mean, up to the margin."""
    font: Any = {"fontsize": 8, "va": "baseline"}
    right, name = WIDTH - EDGE, shortened(answer, 1.2, **font)
    if not greatest:
        return page.words(right, line, "every word has 0", ha="right", **font)
    low, high = "0", number(greatest, way)
    if way.signed:
        low, high = f"against {name}  {number(-greatest, way)}", f"{high}  for {name}"
    end = right - inches(high, **font) - 0.08
    bar = page.axes(end - BAR, line - 0.09, BAR, 0.1)
    colours = np.linspace(0.0 if way.signed else 0.5, 1, 256)[None]
    bar.imshow(colours, cmap=SCALE, vmin=0, vmax=1, aspect="auto")
    bar.spines[:].set_visible(False)
    page.words(end - BAR - 0.08, line, low, ha="right", **font)
    page.words(end + 0.08, line, high, **font)


def meant(name: str, values: Float[np.ndarray, "w"]) -> Method:
    """How to read a map's numbers."""
    return METHODS.get(name) or Method(bool((values < 0).any()), "log-odds", "")


def strongest(name: str, values: Float[np.ndarray, "w"], words: Sequence[str]) -> str:
    """The words with the greatest numbers, whichever way they speak, and the numbers."""
    order = np.argsort(-np.abs(values), kind="stable")[:STRONGEST]
    way = meant(name, values)
    named = [f"{visible(words[at])} {number(float(values[at]), way)}" for at in order if values[at]]
    return f"Strongest: {', '.join(named)}" if named else ""


def number(value: float, way: Method) -> str:
    """A share in percent, anything signed with its sign."""
    if way.unit == "share":
        return percent(value)
    size = abs(value)
    words = f"{size:.1g}" if size < 0.0005 else f"{size:.{1 if size >= 9.995 else 2}f}"
    return f"{'−' if value < 0 else '+' if way.signed else ''}{words}" if value else "0"


def explained(count: int, most: int) -> str:
    """How to read the page."""
    cut = f" Shown are the first {most} of {count} words." if count > most else ""
    return (
        "The deeper a word, the more it carried the answer. Blue and a line: for it, or read. "
        f"Orange and dots: against it.{cut}"
    )


def check(
    words: Sequence[str], maps: Mapping[str, np.ndarray], breaks: Sequence[int], most: int
) -> None:
    if not words or not maps:
        raise ValueError(f"{len(words)} words by {len(maps)} methods have nothing to show")
    if most < 1:
        raise ValueError(f"most={most}: there must be at least 1 word to show")
    check_words(words, maps, breaks)
