"""How a transformer learns where its tokens are: seven schemes behind one protocol.

A `PositionalEncoding` may act at three moments and is silent at the others: `embed` adds something
to the tokens, `rotate` turns queries and keys, `bias` is added to the scores. All three read the
same positions, so a scheme cannot disagree with the mask or the cache about where a token is.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.kernels.second_order import unwrapped
from regard.attention.positions import Positions, locate

Grid = tuple[int, int]


class PositionalEncoding(nn.Module):
    """No positions at all: the base that every scheme overrides a part of."""

    def check(self, positions: range) -> None:
        """Refuse positions that the scheme does not reach."""

    def embed(self, x: Float[Tensor, "*b n c"], positions: Positions) -> Float[Tensor, "*b n c"]:
        """The tokens with their positions added."""
        return x

    def rotate(
        self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions
    ) -> tuple[Tensor, Tensor]:
        """Queries and keys turned by their positions."""
        return q, k

    def bias(self, q_pos: Positions, k_pos: Positions) -> Float[Tensor, "*b h n m"] | None:
        """What is added to the scores of each head."""
        return None

    def resize(self, grid: Grid) -> PositionalEncoding:
        """The same scheme on a grid of another size."""
        return self


class Sinusoidal(PositionalEncoding):
    """Sines and cosines of growing wavelength, added to the tokens (Vaswani et al. 2017, 3.5).

    Dimensions 2i and 2i + 1 hold the sine and the cosine of pos / base^(2i / width).
    """

    def __init__(self, width: int, base: float = 10_000.0) -> None:
        super().__init__()
        _check_multiple("sinusoidal positions", width, 2)
        self.width, self.base = width, base

    def table(self, pos: Tensor) -> Tensor:
        """The code of each position; a position of −1 gets zeros."""
        angles = _angles(pos, self.width, self.base)
        codes = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)
        return codes * (pos >= 0)[..., None]

    def embed(self, x: Float[Tensor, "*b n c"], positions: Positions) -> Float[Tensor, "*b n c"]:
        return x + self.table(locate(positions, x.device)).to(x.dtype)


class Sinusoidal2d(PositionalEncoding):
    """Half of the width tells the row, half the column; class tokens get nothing."""

    def __init__(self, grid: Grid, width: int, base: float = 10_000.0) -> None:
        super().__init__()
        _check_multiple("sinusoidal positions on a grid", width, 4)
        self.grid, self.width, self.base = grid, width, base

    def embed(self, x: Float[Tensor, "*b n c"], positions: Positions) -> Float[Tensor, "*b n c"]:
        half = Sinusoidal(self.width // 2, self.base)
        row, column = _cells(locate(positions, x.device), self.grid)
        return x + torch.cat([half.table(row), half.table(column)], -1).to(x.dtype)

    def resize(self, grid: Grid) -> Sinusoidal2d:
        return Sinusoidal2d(grid, self.width, self.base)


class Learned(PositionalEncoding):
    """One learned vector a position, up to a fixed length."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(length, width) * 0.02)

    def check(self, positions: range) -> None:
        _check_length(positions, len(self.table))

    def embed(self, x: Float[Tensor, "*b n c"], positions: Positions) -> Float[Tensor, "*b n c"]:
        _check_length(positions, len(self.table))
        if isinstance(positions, range):  # rows side by side, all of them somewhere
            return x + self.table[positions.start : positions.start + len(positions)]
        return x + _look_up(self.table, locate(positions, x.device))


class Learned2d(PositionalEncoding):
    """One learned vector a cell of a grid, and one for each class token after it."""

    def __init__(self, grid: Grid, width: int, extra: int = 0) -> None:
        super().__init__()
        self.grid = grid
        self.table = nn.Parameter(torch.randn(grid[0] * grid[1], width) * 0.02)
        self.extra = nn.Parameter(torch.randn(extra, width) * 0.02)

    def embed(self, x: Float[Tensor, "*b n c"], positions: Positions) -> Float[Tensor, "*b n c"]:
        table = torch.cat([self.table, self.extra])
        _check_length(positions, len(table))
        return x + _look_up(table, locate(positions, x.device))

    def resize(self, grid: Grid) -> PositionalEncoding:
        return self if grid == self.grid else Resampled(self, grid)


class Resampled(PositionalEncoding):
    """A learned grid read at another size, by bicubic interpolation; gradients reach the original.

    It owns nothing: the table stays with the model, so a resized view adds no parameters.
    """

    def __init__(self, original: Learned2d, grid: Grid) -> None:
        super().__init__()
        self.grid = grid
        self._original = (original,)  # in a tuple, so that it is not registered a second time

    def embed(self, x: Float[Tensor, "*b n c"], positions: Positions) -> Float[Tensor, "*b n c"]:
        (original,) = self._original
        cells = original.table.unflatten(0, original.grid).permute(2, 0, 1)  # c rows columns
        wide = torch.promote_types(cells.dtype, torch.float32)  # a CPU resamples nothing narrower
        cells = nn.functional.interpolate(
            cells[None].to(wide), size=self.grid, mode="bicubic", antialias=True
        )[0]
        table = torch.cat([cells.flatten(1).T.to(original.extra.dtype), original.extra])
        _check_length(positions, len(table))
        return x + _look_up(table, locate(positions, x.device))

    def resize(self, grid: Grid) -> PositionalEncoding:
        return self._original[0].resize(grid)


class Rope(PositionalEncoding):
    """Each pair of dimensions turned by an angle that grows with the position (Su et al. 2021).

    q·k then depends on the distance alone. Dimension i is paired with i + d/2.
    """

    def __init__(self, base: float = 10_000.0) -> None:
        super().__init__()
        self.base = base

    def rotate(
        self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions
    ) -> tuple[Tensor, Tensor]:
        _check_multiple("rotary positions", q.shape[-1], 2)
        turn = self.rotation(q_pos, q.shape[-1], q)
        same = k_pos is q_pos and k.dtype == q.dtype
        return rotate(q, *turn), rotate(
            k, *(turn if same else self.rotation(k_pos, k.shape[-1], k))
        )

    def rotation(self, positions: Positions, width: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each pair of dimensions: of the kind, and on the device, of `like`."""
        angles = self.angles(locate(positions, like.device), width)
        if angles.ndim > 2:  # b n d/2 → b 1 n d/2
            angles = angles.unsqueeze(-3)
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)

    def angles(self, pos: Tensor, width: int) -> Tensor:
        """The angle of each pair of dimensions."""
        return _angles(pos.clamp(min=0), width, self.base)


class Rope2d(Rope):
    """Half of the pairs turn with the row, half with the column; class tokens do not turn."""

    def __init__(self, grid: Grid, base: float = 100.0) -> None:
        super().__init__(base)
        self.grid = grid

    def angles(self, pos: Tensor, width: int) -> Tensor:
        _check_multiple("rotary positions on a grid", width, 4)
        row, column = (x.clamp(min=0) for x in _cells(pos, self.grid))
        halves = _angles(row, width // 2, self.base), _angles(column, width // 2, self.base)
        return torch.cat(halves, -1)

    def resize(self, grid: Grid) -> Rope2d:
        return Rope2d(grid, self.base)


class Alibi(PositionalEncoding):
    """Scores fall with distance, at a slope of its own for each head (Press et al. 2022)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.register_buffer("kind", torch.empty(0), persistent=False)  # follows .double(), .to()

    def slopes(self) -> list[float]:
        """2^(−8/h), 2^(−16/h), …; between powers of two, every other slope of the next one."""
        whole = 1 << (self.heads.bit_length() - 1)
        slopes = [2.0 ** (-8 * (i + 1) / whole) for i in range(whole)]
        finer = [2.0 ** (-4 * (i + 1) / whole) for i in range(0, 2 * whole, 2)]
        return slopes + finer[: self.heads - whole]

    def bias(self, q_pos: Positions, k_pos: Positions) -> Float[Tensor, "*b h n m"]:
        here = self.get_buffer("kind").device
        distance = _offsets(q_pos, k_pos, here).abs().unsqueeze(-3)
        wide = torch.promote_types(self.get_buffer("kind").dtype, torch.float32)
        slopes = torch.tensor(self.slopes(), device=distance.device, dtype=wide)
        return -slopes[:, None, None] * distance


class RelativeBias(PositionalEncoding):
    """One learned number for each head and offset q − k; offsets beyond `reach` share the last."""

    def __init__(self, heads: int, reach: int = 128) -> None:
        super().__init__()
        self.reach = reach
        self.table = nn.Parameter(torch.randn(heads, 2 * reach + 1) * 0.02)

    def bias(self, q_pos: Positions, k_pos: Positions) -> Float[Tensor, "*b h n m"]:
        here = self.table.device
        offsets = _offsets(q_pos, k_pos, here).to(here).clamp(-self.reach, self.reach)
        return self.table[:, offsets + self.reach].movedim(0, -3)  # h *b n m → *b h n m


sinusoidal, sinusoidal_2d, learned, learned_2d = Sinusoidal, Sinusoidal2d, Learned, Learned2d
rope, rope_2d, alibi, relative_bias = Rope, Rope2d, Alibi, RelativeBias


def _angles(pos: Tensor, width: int, base: float) -> Tensor:
    """pos / base^(2i / width) for i < width / 2, in float64: at position 10⁵ float32 is off by 1%.

    Devices without float64 make do with float32.
    """
    exact = torch.float32 if pos.device.type == "mps" else torch.float64
    steps = torch.arange(0, width, 2, device=pos.device, dtype=exact) / width
    return pos[..., None].to(exact) * torch.exp(steps * -math.log(base))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Dimensions i and i + d/2 turned as a pair."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def _cells(pos: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """Row and column of each position; −1 and −1 for class tokens and for nowhere."""
    outside = (pos < 0) | (pos >= grid[0] * grid[1])
    row, column = pos // grid[1], pos % grid[1]
    return row.masked_fill(outside, -1), column.masked_fill(outside, -1)


def _offsets(q_pos: Positions, k_pos: Positions, device: torch.device) -> Tensor:
    """q − k as (*b n m), where the positions are, or on `device` if both are ranges."""
    device = next((p.device for p in (q_pos, k_pos) if isinstance(p, Tensor)), device)
    return locate(q_pos, device)[..., :, None] - locate(k_pos, device)[..., None, :]


def _look_up(table: Tensor, pos: Tensor) -> Tensor:
    rows = table[pos.clamp(min=0)]
    return rows.masked_fill((pos < 0)[..., None], 0.0)


def _check_length(positions: Positions, length: int) -> None:
    if isinstance(positions, range):
        last = positions.stop - 1
    elif positions.device.type == "cpu" and positions.numel():
        last = int(unwrapped(positions).max())
    else:
        return  # an index out of bounds on a GPU is reported by the GPU
    if last >= length:
        raise ValueError(
            f"position {last} is past the end of a learned table of {length}; train a longer one, "
            "or use sinusoidal or rotary positions, which have no end"
        )


def _check_multiple(what: str, width: int, of: int) -> None:
    if width % of:
        near = f"{width // of * of} and {(width // of + 1) * of}"
        raise ValueError(f"{what} need a width that {of} divides, not {width}; nearest: {near}")
