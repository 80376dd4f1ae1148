"""What a DaViT is made of, as a frozen dataclass. No torch here: `--help` reads these fields."""

from dataclasses import dataclass
from math import isqrt
from typing import Any, Literal

from regard.config import check_kinds
from regard.errors import FieldError

PER_STAGE = ("widths", "depths", "heads")
MOST_TRIED = 1 << 20  # divisors that are looked for, so that a width of 10¹² is refused at once


@dataclass(frozen=True, kw_only=True)
class DaViTConfig:
    """Stages of window and channel attention, each on half the grid of the one before.

    The defaults suit images of 32 pixels and have the parameters of a small ViT.
    """

    image_size: int = 32
    """Side of the training images, in pixels; other sizes work at test time."""
    channels: int = 3
    """Colours of a pixel."""
    num_classes: int = 10
    """Classes to tell apart."""
    patch_size: int = 2
    """Pixels from one token of the first stage to the next; every further stage doubles it."""
    widths: tuple[int, ...] = (32, 64)
    """Numbers in each token, stage by stage."""
    depths: tuple[int, ...] = (1, 1)
    """Pairs of blocks in each stage: one reads windows, one reads channels."""
    heads: tuple[int, ...] = (2, 4)
    """Heads of each stage, which split its width: as many groups of channels."""
    window_size: int = 4
    """Side of a window, in tokens; those at the edge are smaller where the grid does not divide."""
    mlp_ratio: int = 4
    """Width inside the feed-forward, as a multiple of the stage's."""
    overlapping_downsample: bool = False
    """Whether the convolutions between stages look beyond the 2 × 2 tokens that they join."""
    norm_eps: float = 1e-5
    """Added to the variance inside the norms."""
    dropout: float = 0.0
    """Share of numbers dropped from embeddings and residual branches in training."""
    drop_path: float = 0.0
    """Share of residual branches skipped in training; grows from 0 to this with depth."""
    init: Literal["trunc_normal", "xavier_uniform"] = "trunc_normal"
    """How weights start: small normals scaled by depth, or Xavier as in 2017."""

    @classmethod
    def tiny(cls, **changes: Any) -> "DaViTConfig":
        """DaViT-Tiny of Ding et al. (2022): 28.3 million parameters, for images of 224 pixels."""
        fields: dict[str, Any] = {
            **{
                "image_size": 224,
                "num_classes": 1000,
                "patch_size": 4,
                "window_size": 7,
                "drop_path": 0.1,
            },
            **{"widths": (96, 192, 384, 768), "depths": (1, 1, 3, 1), "heads": (3, 6, 12, 24)},
        }
        return cls(**fields | changes)

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("channels", "num_classes", "patch_size", "window_size", "mlp_ratio"):
            if getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: there must be at least 1", name)
        for name in PER_STAGE:
            values = getattr(self, name)
            if not values or not all(type(value) is int and value >= 1 for value in values):
                raise FieldError(
                    f"{name}={values}: one whole number of at least 1 for each stage", name
                )
            if len(values) != len(self.widths):
                raise FieldError(
                    f"widths={self.widths} are {len(self.widths)} stages, and {name}={values} "
                    f"speaks of {len(values)}",
                    "widths",
                )
        for width, heads in zip(self.widths, self.heads, strict=True):
            if width % heads:
                near = min(divisors(width), key=lambda number: (abs(number - heads), number))
                raise FieldError(
                    f"widths={self.widths}: {width} channels do not split into {heads} heads; "
                    f"the nearest number that they split into is {near}",
                    "widths",
                )
        if self.image_size < 1 or self.image_size % self.stride:
            low = max(1, self.image_size // self.stride) * self.stride
            raise FieldError(
                f"image_size={self.image_size} does not divide by {self.stride}, which is "
                f"patch_size={self.patch_size} "
                f"doubled {len(self.widths) - 1} times; nearest images are {low} and "
                f"{low + self.stride}",
                "image_size",
            )
        for name in ("dropout", "drop_path"):
            if not 0 <= getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: a share lies in 0 ≤ … < 1", name)
        if not self.norm_eps > 0:
            raise FieldError(
                f"norm_eps={self.norm_eps}: it keeps a variance of 0 from dividing, so above 0",
                "norm_eps",
            )

    @property
    def stride(self) -> int:
        """Pixels on a side of one token of the last stage."""
        return self.patch_size << (len(self.widths) - 1)

    @property
    def layers(self) -> int:
        """Blocks in all, two in a pair."""
        return 2 * sum(self.depths)


def divisors(width: int) -> list[int]:
    """The numbers of heads that a width splits into, as far as anybody would want so many."""
    low = [number for number in range(1, min(isqrt(width), MOST_TRIED) + 1) if width % number == 0]
    return sorted({*low, *(width // number for number in low)})
