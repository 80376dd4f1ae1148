"""The 14 operations of RandAugment (Cubuk et al. 2019), a batch at a time, as Pillow does them.

Every image of a batch may draw its own operation. Fourteen masked copies of the batch would cost
fourteen times the work, so operations come in three kinds, and each kind is done at once:

- *geometric* ones are affine maps: one resampling, bilinear, with `fill` beyond the border;
- *tables* send each of 256 levels to a level: one lookup;
- *blends* move an image away from its grey or its blurred self, or towards it: one sum.

Inside, an image is its *levels*: whole numbers 0 … 255, kept as float32. Each operation rounds
to levels as Pillow does, most often down.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.data.resample import resample

GEOMETRIC = ("rotate", "shear x", "shear y", "translate x", "translate y")
TABLES = ("autocontrast", "equalize", "solarize", "posterize", "contrast", "brightness")
BLENDS = ("colour", "sharpness")
OPERATIONS = (*GEOMETRIC, *TABLES, *BLENDS, "identity")

# What an operation does at full strength; at strength 0 it does nothing, autocontrast and
# equalize apart, which know no strength.
TURN = math.radians(30)
SHEAR = 0.3  # columns per row, or rows per column
SHIFT = 150 / 331  # share of the side: the paper's 150 pixels of 331
DROPPED_BITS = 4  # by posterize
FACTOR = 0.9  # how far an enhancement factor gets from 1

# Rounding down must not turn 17 computed as 16.9999 into 16.
NUDGE = 1 / 128

GREY = (19595, 38470, 7471)  # red, green and blue in grey, of 2¹⁶: ITU-R 601-2, as in Pillow


class Draw(NamedTuple):
    """Who gets what: image `order[i]` gets `operation[i]`, pushed by `push[i]` in −1 … 1.

    Operations ascend along i, and each is there ⌊b/14⌋ or ⌈b/14⌉ times. So where on the axis
    a kind can be is known without looking, and a kind is done on that part of the batch only.
    """

    order: Int[Tensor, "b"]
    operation: Int[Tensor, "b"]
    push: Float[Tensor, "b"]


def draw_operations(count: int, strength: float, generator: torch.Generator) -> Draw:
    """An operation for each of `count` images, all 14 equally likely, in a random direction."""
    device = generator.device
    order = torch.rand(count, generator=generator, device=device).argsort()
    # The number 14 i + start is uniform over 0 … 14 b − 1 for a random i, so its bin is fair.
    start = torch.randint(len(OPERATIONS), (1,), generator=generator, device=device)
    places = torch.arange(count, device=device) * len(OPERATIONS)
    coin = torch.randint(2, (count,), generator=generator, device=device)
    return Draw(order, (places + start) // count, (coin * 2 - 1) * strength)


def part_of(kind: tuple[str, ...], count: int) -> slice:
    """Where in a `Draw` of `count` images the operations of a kind can be."""
    first = OPERATIONS.index(kind[0]) * count
    end = (OPERATIONS.index(kind[-1]) + 1) * count
    return slice(first // len(OPERATIONS), -(-end // len(OPERATIONS)))


def randaugment(
    images: Float[Tensor, "b k y x"], draws: list[Draw], fill: float = 0.0
) -> Float[Tensor, "b k y x"]:
    """Images, 0 … 1, after one operation for each draw; `operate` says what each does."""
    levels = to_levels(images)
    for order, operation, push in draws:
        b = len(order)
        batch = levels.index_select(0, order)
        for kind, act in ((TABLES, recolour), (BLENDS, blend)):
            part = part_of(kind, b)
            batch[part] = act(batch[part], operation[part], push[part])
        part = part_of(GEOMETRIC, b)
        batch[part] = move(batch[part], operation[part], push[part], fill)
        levels = torch.empty_like(levels).index_copy_(0, order, batch)
    return from_levels(levels, images.dtype)


def operate(
    images: Float[Tensor, "b k y x"],
    operation: Int[Tensor, "b"],
    push: Float[Tensor, "b"],
    fill: float = 0.0,
) -> Float[Tensor, "b k y x"]:
    """Image i after `OPERATIONS[operation[i]]`, at strength |push[i]| and with its sign.

    The sign is the direction of a turn, shear, shift or enhancement. The plain twin of
    `randaugment`: any operations in any order, at the cost of every kind for every image.
    """
    levels = recolour(to_levels(images), operation, push)
    levels = blend(levels, operation, push)
    return from_levels(move(levels, operation, push, fill), images.dtype)


def to_levels(images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b k y x"]:
    """0 … 1 as whole numbers 0 … 255, which is what the operations are defined on."""
    return (images.float() * 255).round_().clamp_(0, 255)


def from_levels(levels: Float[Tensor, "b k y x"], dtype: torch.dtype) -> Float[Tensor, "b k y x"]:
    """Levels as numbers 0 … 1 again."""
    return (levels / 255).to(dtype)


def move(
    levels: Float[Tensor, "b k y x"],
    operation: Int[Tensor, "b"],
    push: Float[Tensor, "b"],
    fill: float,
) -> Float[Tensor, "b k y x"]:
    """The geometric operations; images that drew another stay as they are.

    Turns are about the centre, anticlockwise when pushed up; shears leave the top left corner
    where it is, as in the paper's code.
    """
    _, _, y, x = levels.shape
    turn, shear_x, shear_y, shift_x, shift_y = push * drawn(GEOMETRIC, operation)
    sine, cosine = (turn * TURN).sin(), (turn * TURN).cos()
    across = x / 2 * (1 - cosine) + y / 2 * sine + shift_x * (SHIFT * x)
    down = y / 2 * (1 - cosine) - x / 2 * sine + shift_y * (SHIFT * y)
    rows = (cosine, shear_x * SHEAR - sine, across, shear_y * SHEAR + sine, cosine, down)
    matrix = torch.stack(rows, -1).unflatten(-1, (2, 3))
    seen = resample(levels, matrix, float(round(fill * 255)))
    return seen.add_(NUDGE).floor_()


def recolour(
    levels: Float[Tensor, "b k y x"], operation: Int[Tensor, "b"], push: Float[Tensor, "b"]
) -> Float[Tensor, "b k y x"]:
    """The operations that are tables of 256 levels; images that drew another stay as they are."""
    chosen = drawn(TABLES, operation)[..., None, None]
    autocontrast, equalize = chosen[:2]  # b 1 1 each: whether
    solarize, posterize, contrast, brightness = push[:, None, None] * chosen[2:]  # how far

    pixels = levels.flatten(2)
    darkest, brightest = pixels.amin(-1, keepdim=True), pixels.amax(-1, keepdim=True)  # b k 1
    table = torch.arange(256, device=levels.device).float()

    stretched = (table - darkest) * (255 / (brightest - darkest)) + NUDGE
    stretch = autocontrast & (darkest < brightest)
    table = stretched.floor_().clamp_(0, 255).where(stretch, table)  # b k 256

    table = table.where(table < 256 * (1 - solarize.abs()), 255 - table)

    dropped = (posterize.abs() * DROPPED_BITS).round().int()
    step = torch.ones_like(dropped) << dropped
    table = (table / step).floor_() * step

    mean = (grey(levels).flatten(2).sum(-1, keepdim=True) / pixels.shape[-1] + 0.5).floor()
    table = enhance(table, mean * (contrast != 0), contrast + brightness)

    index = pixels.long()
    table = equalizing(index, brightest.long()).float().where(equalize, table)
    return table.gather(-1, index).view_as(levels)


def equalizing(
    index: Int[Tensor, "b k n"], brightest: Int[Tensor, "b k 1"]
) -> Int[Tensor, "b k 256"]:
    """The table that spreads the levels of n pixels evenly, channel by channel."""
    b, k, _ = index.shape
    one = torch.ones((), dtype=index.dtype, device=index.device)
    counts = torch.zeros(b, k, 256, dtype=index.dtype, device=index.device)
    counts = counts.scatter_add_(-1, index, one.expand_as(index))
    below = counts.cumsum(-1) - counts
    step = below.gather(-1, brightest) // 255
    table = (below + step // 2) // step.clamp(min=1)
    unchanged = torch.arange(256, device=index.device)
    return table.clamp(max=255).where(step > 0, unchanged)  # too few pixels to spread


def blend(
    levels: Float[Tensor, "b k y x"], operation: Int[Tensor, "b"], push: Float[Tensor, "b"]
) -> Float[Tensor, "b k y x"]:
    """Colour and sharpness; images that drew another stay as they are."""
    colour, sharpness = (push * drawn(BLENDS, operation))[..., None, None, None]
    away_from = grey(levels).where(colour != 0, blurred(levels))
    return enhance(levels, away_from, colour + sharpness)


def drawn(kind: tuple[str, ...], operation: Int[Tensor, "b"]) -> Bool[Tensor, "kind b"]:
    """Which images drew each operation of a kind."""
    first = OPERATIONS.index(kind[0])
    return operation == torch.arange(first, first + len(kind), device=operation.device)[:, None]


def enhance(levels: Tensor, away_from: Tensor, push: Tensor) -> Tensor:
    """Levels further from `away_from` by a factor above 1, or nearer to it by one below."""
    factor = 1 + FACTOR * push
    return (away_from + factor * (levels - away_from)).clamp_(0, 255).floor_()


def grey(levels: Float[Tensor, "b k y x"]) -> Float[Tensor, "b 1 y x"]:
    """Brightness as the eye has it when there are three colours, else the mean of the channels."""
    if levels.shape[1] != 3:
        return (levels.mean(1, keepdim=True) + 0.5).floor()
    # Every number here is whole and below 2²⁴, so float32 is exact.
    red, green, blue = levels.split(1, 1)
    return ((GREY[0] * red + GREY[1] * green + GREY[2] * blue + 2**15) / 2**16).floor()


def blurred(levels: Float[Tensor, "b k y x"]) -> Float[Tensor, "b k y x"]:
    """Each pixel five times and its eight neighbours once, over 13; the border stays as it is."""
    if min(levels.shape[-2:]) < 3:
        return levels
    rows = levels[..., :-2, :] + levels[..., 1:-1, :] + levels[..., 2:, :]
    squares = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    smooth = levels.clone()
    smooth[..., 1:-1, 1:-1] = ((squares + 4 * levels[..., 1:-1, 1:-1]) / 13 + 0.5).floor()
    return smooth
