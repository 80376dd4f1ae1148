"""Scenes as pixels: each pixel mixes what it covers, alike on every machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int16, UInt8, UInt16

from regard.data.synthetic.scenes import CANVAS, SHAPES, TEXTURES, Background, Scene

RIM = 1.1  # most width of the darker rim, in pixels of the canvas
RIM_SHARE = 1 / 24  # and most share of the box, or small things would be all rim
HOLE = 0.66  # radius of a ring's hole, in radii of the ring


def draw(scene: Scene, size: int = CANVAS) -> UInt8[np.ndarray, "3 y x"]:
    """The picture, size × size pixels; each pixel mixes what it covers.

    Boxes grow with the picture: `boxes` has them in its pixels.
    """
    if not 8 <= size <= 1024:
        raise ValueError(f"size {size} is not within 8 … 1024 pixels")
    pixels = paper(scene.background, size)
    # Holders come before what is inside them, because only those are larger.
    for thing in sorted(scene.things, key=lambda thing: thing.box[0] - thing.box[2]):
        left, top, right, bottom = thing.box
        shape, body = coverage(
            thing.shape, right - left, bottom - top, left * size % CANVAS, top * size % CANVAS, size
        )
        down, across = top * size // CANVAS, left * size // CANVAS
        window = pixels[:, down : down + shape.shape[0], across : across + shape.shape[1]]
        colour = np.array(thing.paint, np.uint16)[:, None, None]
        rim = colour * 5 // 8
        # Sums of levels × 255 fit in 16 bits, because the three shares make 255.
        window[:] = (window * (255 - shape) + rim * (shape - body) + colour * body + 127) // 255
    return pixels.astype(np.uint8)


def boxes(scene: Scene, size: int = CANVAS) -> Float64[np.ndarray, "things 4"]:
    """The box of each thing (left, top, right, bottom), in pixels of a picture of this size."""
    return np.array([thing.box for thing in scene.things], np.float64) * (size / CANVAS)


def paper(background: Background, size: int) -> UInt16[np.ndarray, "3 y x"]:
    """The background alone."""
    down, across = background.start
    levels = texture(background.texture)[down : down + CANVAS, across : across + CANVAS]
    rows = np.arange(CANVAS, dtype=np.int16)[:, None]
    levels = levels + (CANVAS // 2 - rows) * np.int16(background.fall) // np.int16(CANVAS // 2)
    colour = np.array(background.paper, np.int16)[:, None, None]
    pixels = (colour + levels).clip(0, 255).astype(np.uint16)
    if size == CANVAS:
        return pixels
    nearest = np.arange(size) * CANVAS // size
    return pixels[:, nearest[:, None], nearest]


@cache
def texture(name: str) -> Int16[np.ndarray, "y x"]:
    """What a texture adds to the paper's levels; it repeats, so a window may start anywhere."""
    rows, columns = np.mgrid[:CANVAS, :CANVAS]
    if name == "plain":
        levels = 0 * rows
    elif name == "grain":
        noise = np.random.Philox(key=0).random_raw(CANVAS * CANVAS) >> np.uint64(32)
        levels = noise.reshape(CANVAS, CANVAS).astype(np.int64) % 13 - 6
    elif name == "stripes":
        levels = abs((rows + columns) % 16 - 8) - 4
    elif name == "checks":
        levels = 6 * ((rows // 8 + columns // 8) % 2) - 3
    elif name == "dots":
        square = (rows % 8 - 4) ** 2 + (columns % 8 - 4) ** 2
        levels = -9 * (square <= 1) - 4 * (square == 2)
    elif name == "weave":
        levels = 3 * (rows % 4 == 0) + 3 * (columns % 4 == 0) - 3
    else:
        raise ValueError(f"texture {name!r} is none of {', '.join(TEXTURES)}")
    return np.tile(levels, (2, 2)).astype(np.int16)


class Coverage(NamedTuple):
    """How much of each pixel a shape covers, 0 … 255, and how much its body within the rim."""

    shape: UInt16[np.ndarray, "y x"]
    body: UInt16[np.ndarray, "y x"]


@lru_cache(maxsize=8192)
def coverage(shape: str, width: int, height: int, left: int, top: int, size: int) -> Coverage:
    """A shape's share of the pixels of its box, as remembered from the last time.

    `width` and `height` are in pixels of the canvas; `left` and `top`, how far the box starts
    into its first pixel, in sixty-fourths of a pixel. Positions are whole numbers, so a few
    hundred such windows are all there are: this is what makes drawing fast.
    """
    scale = size / CANVAS
    rows = np.arange(-(-(top + height * size) // CANVAS)) + 0.5 - top / CANVAS
    columns = np.arange(-(-(left + width * size) // CANVAS)) + 0.5 - left / CANVAS
    distance = signed_distance(shape, width * scale, height * scale, rows[:, None], columns)
    rim = min(RIM, RIM_SHARE * min(width, height)) / (1 + (shape == "ring"))  # it has two
    return Coverage(levels(distance), levels(distance + rim * scale))


def levels(distance: Float64[np.ndarray, "y x"]) -> UInt16[np.ndarray, "y x"]:
    """Coverage of pixels whose centres are this far outside (or, negative, inside) an edge."""
    return ((0.5 - distance).clip(0, 1) * 255 + 0.5).astype(np.uint16)


def signed_distance(
    shape: str,
    width: float,
    height: float,
    y: Float64[np.ndarray, "y 1"],
    x: Float64[np.ndarray, "x"],
) -> Float64[np.ndarray, "y x"]:
    """How far outside the shape a point is; negative inside. The box's corner is at (0, 0)."""
    if shape in ("circle", "ring"):
        radius = min(width, height) / 2
        # Not hypot, whose last digit depends on the machine; square roots are exact.
        far = np.sqrt((x - width / 2) ** 2 + (y - height / 2) ** 2) - radius
        return far if shape == "circle" else np.maximum(far, (HOLE - 1) * radius - far)
    corners = np.array(outline(shape)) * (width, height)
    nearest = np.full((y.size, x.size), np.inf)
    inside = np.zeros((y.size, x.size), bool)
    for (x0, y0), (x1, y1) in zip(corners, np.roll(corners, -1, 0), strict=True):
        run, rise = x1 - x0, y1 - y0
        along = ((x - x0) * run + (y - y0) * rise) / (run * run + rise * rise)
        along = along.clip(0, 1)
        square = (x - x0 - along * run) ** 2 + (y - y0 - along * rise) ** 2
        nearest = np.minimum(nearest, square)
        if rise:  # a ray to the right crosses the outline an odd number of times from inside
            inside ^= ((y0 <= y) != (y1 <= y)) & (x < x0 + (y - y0) * (run / rise))
    return np.where(inside, -1, 1) * np.sqrt(nearest)


@cache
def outline(shape: str) -> tuple[tuple[float, float], ...]:
    """The corners of a shape in a box from (0, 0) to (1, 1), of which it touches every side."""
    third = 0.34
    if shape == "square":
        return (0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)
    if shape == "triangle":
        return (0.5, 0.0), (1.0, 1.0), (0.0, 1.0)
    if shape == "diamond":
        return (0.5, 0.0), (1.0, 0.5), (0.5, 1.0), (0.0, 0.5)
    if shape == "cross":
        ends = (third, 0.0), (1 - third, 0.0), (1 - third, third)
        quarter, corners = list(ends), []
        for _ in range(4):
            corners += quarter
            quarter = [(1 - y, x) for x, y in quarter]
        return tuple(corners)
    if shape == "star":
        turns = [math.pi * point / 5 for point in range(10)]
        reach = [1.0, 0.46] * 5  # plumper than a pentagram, to stay a star when small
        return boxed(
            [(r * math.sin(t), -r * math.cos(t)) for r, t in zip(reach, turns, strict=True)]
        )
    if shape == "heart":
        # Half circles on the two upper sides of a square that stands on its corner.
        turns = [math.pi * (1.25 - point / 16) for point in range(17)]
        lobe = [(math.sqrt(2) * math.cos(t) - 1, -math.sqrt(2) * math.sin(t) - 1) for t in turns]
        return boxed([(0.0, 2.0), *lobe, *[(-x, y) for x, y in lobe[-2::-1]]])
    raise ValueError(f"shape {shape!r} is none of {', '.join(SHAPES)}")


def boxed(corners: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The corners, stretched to fill the box; rounded, so that every machine has the same."""
    x, y = np.array(corners).T
    x, y = (x - x.min()) / np.ptp(x), (y - y.min()) / np.ptp(y)
    return tuple((round(float(a), 6), round(float(b), 6)) for a, b in zip(x, y, strict=True))
