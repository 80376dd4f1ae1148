"""Pictures of masks and of attention, in one style, for a white page.

Each function saves its picture where it is told and returns the figure. Figures are made without
pyplot, so nothing opens a window and nothing stays behind.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, fontManager, get_font
from matplotlib.patches import Rectangle
from PIL import Image

from regard.attention import Mask

WIDTH = 8.0  # inches; at 100 dots an inch this is the width of a README
DOTS = 200  # an inch, so that the picture stays sharp on a dense screen

INK, MUTED, READ, UNREAD = "#1b1f24", "#5b6470", "#1f5fa8", "#e9edf2"
# One hue that only darkens: it reads the same with every kind of colour vision, and in grey.
SHADES = LinearSegmentedColormap.from_list("shades", ["#f3f6fa", "#9dc3ea", "#2f7fd1"])
# For lines with their names beside them: dark enough for words on white (4.7 to 1 and more), and
# the nearest two, ink and grey among them, differ by 22 in CIELAB for every kind of vision.
HUES = ("#1f5fa8", "#b35c00", "#c2185b", "#6000bf", "#732e17")
GREY = "#8a93a0"  # what the others are measured by
STYLE: Any = {  # Any: matplotlib types its keys one by one
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine draws the same
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": "#c3ccd6",
    "axes.labelcolor": MUTED,
    "axes.linewidth": 0.6,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "svg.hashsalt": "regard",  # the same picture is the same file
}
MONO = "DejaVu Sans Mono"
# Where letters come from that DejaVu Sans lacks: fonts of the usual systems, by their names.
OTHER_LETTERS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "WenQuanYi Micro Hei"),
    *("PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Arial Unicode MS"),
    *("Microsoft YaHei", "SimHei", "MS Gothic", "Malgun Gothic", "Nirmala UI"),
    *("Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Thai", "Noto Emoji"),
)
DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # left out, for the same reason


def mask_gallery(
    masks: Mapping[str, Mask], path: Path, *, n: int = 25, columns: int = 4, caption: str = ""
) -> Figure:
    """Each mask as its n × n matrix, under its expression, above a few words and its density.

    `masks` maps the words to the mask.
    """
    entries = [(broken(str(mask)), words, mask) for words, mask in masks.items()]
    rows = [entries[start : start + columns] for start in range(0, len(entries), columns)]
    lines = [max(title.count("\n") + 1 for title, _, _ in row) for row in rows]
    side, gap, line, under, head, foot = 1.72, 0.24, 0.135, 0.42, 0.9, 0.3  # inches
    height = head + sum(lines) * line + len(rows) * (side + under) + foot * bool(caption)
    left = (WIDTH - columns * side - (columns - 1) * gap) / 2
    with matplotlib.rc_context(STYLE):
        page = Page(height)
        page.title(left, f"Who may read whom, among {n} tokens")
        page.words(
            left, 0.5, "A row is a query, a column a key; in percent, the share that may be read."
        )
        page.key(WIDTH - left, 0.5, {"may read": READ, "may not": UNREAD})
        top = head
        for row, count in zip(rows, lines, strict=True):
            top += count * line
            for column, (title, words, mask) in enumerate(row):
                axes = page.axes(left + column * (side + gap), top, side, side)
                draw_mask(axes, mask, n)
                axes.set_title(title, family=MONO, fontsize=8, pad=4, linespacing=1.15)
                axes.set_xlabel(f"{words}, {mask.density(n):.0%}", fontsize=8, labelpad=4)
            top += side + under
        page.words(left, height - 0.24, caption)
        return page.saved(path)


def draw_mask(axes: Axes, mask: Mask, n: int) -> None:
    """One matrix, query 0 at the top, with a hair of white between the cells."""
    axes.pcolormesh(
        mask(range(n), range(n)).numpy(),
        cmap=ListedColormap([UNREAD, READ]),
        vmin=0,
        vmax=1,
        edgecolors="white",
        linewidth=0.35,
    )
    axes.set(xlim=(0, n), ylim=(n, 0))
    axes.spines[:].set_visible(False)


def broken(expression: str, longest: int = 26) -> str:
    """The expression on one line if it fits, else broken before its outermost operators.

    A line that is still too long is broken once more, before the operators in its brackets.
    """
    if len(expression) <= longest:
        return expression
    first, *others = split(expression, depth=0)
    lines = [first]
    for part in others:
        joined = f"{lines[-1]} {part}"
        lines = [*lines[:-1], joined] if len(joined) <= longest else [*lines, part]
    short: list[str] = []
    for line in lines:
        head, *rest = split(line, depth=1) if len(line) > longest else [line]
        short += [head, *(f"   {part}" for part in rest)]
    return "\n".join(short)


def split(expression: str, *, depth: int) -> list[str]:
    """The parts of an expression before each operator that stands in so many brackets."""
    parts, now = [""], 0
    for letter in expression:
        now += (letter == "(") - (letter == ")")
        if letter in "&|" and now == depth:
            parts.append("")
        parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def attention_over_images(
    images: Float[np.ndarray, "n y x"],
    views: Mapping[str, Float[np.ndarray, "n rows columns"]],
    labels: Sequence[str],
    path: Path,
    *,
    title: str,
    caption: str = "",
) -> Figure:
    """A column for each image; under it, one row a view, how much each patch was read.

    Views are shares of 1 on the grid of patches. Each has its own scale, from 0 to its greatest
    share, at the end of its row; the ink of the image lies over it as dots.
    """
    left, right, gap, head, foot = 0.88, 0.66, 0.06, 1.02, 0.62  # inches
    side = (WIDTH - left - right - (len(images) - 1) * gap) / len(images)
    height = head + (1 + len(views)) * (side + gap) + gap + foot
    with matplotlib.rc_context(STYLE):
        page = Page(height)
        page.title(0.22, title)
        page.words(
            0.22,
            0.5,
            "The darker a patch, the more of it was read, on the scale of its row. Dots: the ink.",
        )
        top, middle = head, side / 2
        page.words(left - 0.12, top + middle, "image", ha="right", va="center", color=INK)
        for column, (image, label) in enumerate(zip(images, labels, strict=True)):
            axes = page.axes(left + column * (side + gap), top, side, side)
            axes.imshow(image, cmap="Greys", vmin=0, vmax=1)
            axes.set_title(label, fontsize=8.5, pad=5)
        top += gap  # sets the image apart from what was read of it
        for name, view in views.items():
            top += side + gap
            greatest = max(float(view.max()), 1e-9)
            page.words(left - 0.12, top + middle, name, ha="right", va="center", color=INK)
            for column, (image, patches) in enumerate(zip(images, view, strict=True)):
                axes = page.axes(left + column * (side + gap), top, side, side)
                draw_read(axes, image, patches, greatest)
            bar = page.axes(WIDTH - right + 0.1, top, 0.09, side)
            draw_scale(bar, greatest)
        page.words(0.22, height - 0.42, caption)
        return page.saved(path)


def draw_read(
    axes: Axes,
    image: Float[np.ndarray, "y x"],
    patches: Float[np.ndarray, "rows columns"],
    greatest: float,
) -> None:
    """How much of each patch was read, and over it the ink, a dot a pixel."""
    height, width = image.shape
    axes.imshow(patches, cmap=SHADES, vmin=0, vmax=greatest, extent=(0, width, height, 0))
    y, x = np.nonzero(image > 0.1)
    inches = axes.get_position().width * WIDTH
    dot = 0.55 * 72 * inches / width  # points across a full one
    axes.scatter(x + 0.5, y + 0.5, s=dot**2 * image[y, x], c=INK, linewidths=0)
    axes.set(xlim=(0, width), ylim=(height, 0))


def draw_scale(axes: Axes, greatest: float) -> None:
    """A colour bar whose two numbers stay within its height."""
    axes.imshow(
        np.linspace(1, 0, 64)[:, None],
        cmap=SHADES,
        vmin=0,
        vmax=1,
        aspect="auto",
        extent=(0, 1, 0, 1),
    )
    for share, words, va in ((1, f"{greatest:.0%}", "top"), (0, "0", "bottom")):
        axes.text(1.6, share, words, va=va, fontsize=7.5, color=MUTED)


def quiet(axes: Axes, grid: Literal["both", "x", "y"] = "both") -> None:
    """Two sides, faint lines behind what is drawn, and numbers that do not shout."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=MUTED, labelsize=8, length=2.5, width=0.6)
    axes.grid(axis=grid, color=UNREAD, linewidth=0.7)
    axes.set_axisbelow(True)


@contextmanager
def drawing(*words: str) -> Iterator[None]:
    """Draw in this style, and `words` in letters of another font where DejaVu Sans has none."""
    letters = get_font(findfont("DejaVu Sans")).get_charmap()
    fonts = ["DejaVu Sans"]
    if any(ord(letter) not in letters for letter in "".join(words) if letter.isprintable()):
        installed = {font.name for font in fontManager.ttflist}
        fonts += [name for name in OTHER_LETTERS if name in installed]
    with matplotlib.rc_context({**STYLE, "font.family": fonts}), warnings.catch_warnings():
        # A letter that no font has is drawn as a box: the picture says it, and says where.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def inches(words: str, **font: Any) -> float:
    """How wide words are."""
    return extent(words, **font)[0]


def extent(words: str, **font: Any) -> tuple[float, float]:
    """How wide and how high words are, in inches."""
    page = Figure(dpi=100)
    FigureCanvasAgg(page)  # what measures text
    box = page.text(0, 0, words, **font).get_window_extent()
    return box.width / 100, box.height / 100


class Page:
    """A figure measured in inches from its top left corner."""

    def __init__(self, height: float, width: float = WIDTH) -> None:
        self.height, self.width = height, width
        self.figure = Figure((width, height))

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """A frame without ticks."""
        low = self.height - y - height
        return self.figure.add_axes(
            (x / self.width, low / self.height, width / self.width, height / self.height),
            xticks=(),
            yticks=(),
        )

    def words(self, x: float, y: float, words: str, **options: Any) -> None:
        """Text whose top left is at (x, y), unless options say otherwise."""
        options = {"color": MUTED, "va": "top", "linespacing": 1.4, **options}
        self.figure.text(x / self.width, 1 - y / self.height, words, **options)

    def title(self, x: float, words: str) -> None:
        self.words(x, 0.2, words, fontsize=13, weight="bold", color=INK)

    def key(self, right: float, y: float, colours: Mapping[str, str]) -> None:
        """What each colour means, in one line that ends at `right`."""
        x = right - 0.83 * len(colours) + 0.16
        for words, colour in colours.items():
            low = self.height - y - 0.12
            box = (x / self.width, low / self.height, 0.12 / self.width, 0.12 / self.height)
            self.figure.add_artist(
                Rectangle(box[:2], *box[2:], color=colour, transform=self.figure.transFigure)
            )
            self.words(x + 0.17, y, words)
            x += 0.83

    def saved(self, path: Path | Sequence[Path], *, colours: int | None = 256) -> Figure:
        """Write the picture, or each of several, in the format its name ends with.

        A PNG keeps so many colours: 256 are plenty for one hue, and a third of the size.
        """
        for each in [path] if isinstance(path, Path) else path:
            if each.suffix.lower() != ".png":
                self.figure.savefig(each, dpi=DOTS, metadata=DATES.get(each.suffix.lower()))
                continue
            canvas = BytesIO()
            self.figure.savefig(canvas, format="png", dpi=DOTS)
            picture = Image.open(canvas).convert("RGB")
            picture = picture if colours is None else picture.quantize(colours)
            picture.save(each, optimize=True, dpi=(DOTS, DOTS))
        return self.figure
