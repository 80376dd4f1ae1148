"""How training images are varied, as a frozen dataclass. No torch here: `--help` reads it."""

from dataclasses import dataclass
from typing import Literal

from regard.errors import FieldError

MOST_OPERATIONS = 100  # drawn and computed one after another


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """What may happen to a training image. As it stands, nothing does."""

    crop: int = 0
    """Pixels by which a crop of the same size may be off centre, each way."""
    edge: Literal["fill", "reflect"] = "fill"
    """What such a crop sees beyond the border: `fill`, or the image mirrored."""
    zoom: float = 1.0
    """Least share of the area that a random resized crop keeps; 1 is off."""
    flip: bool = False
    """Whether every other image, at random, is seen in a mirror. Digits should not be."""
    operations: int = 0
    """RandAugment operations on each image, out of 14; 2 is usual, 0 is off."""
    strength: float = 0.3
    """How strong they are, 0 … 1; 0.3 is what others call magnitude 9 of 30."""
    erase: float = 0.0
    """Share of images from which a random box is erased."""
    mixup: float = 0.0
    """α of mixup, whose weights are drawn from Beta(α, α); 0 is off."""
    cutmix: float = 0.0
    """α of cutmix; with `mixup` as well, each image takes one of the two."""
    mixed: float = 1.0
    """Share of images that mixup or cutmix mixes."""
    fill: float = 0.0
    """Brightness, 0 … 1, beyond the border and in erased boxes."""

    def __post_init__(self) -> None:
        for name in ("crop", "operations", "mixup", "cutmix"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise FieldError(
                    f"{name}={getattr(self, name)}: it must be finite and at least 0", name
                )
        if self.operations > MOST_OPERATIONS:
            raise FieldError(
                f"operations={self.operations}: at most {MOST_OPERATIONS} on an image", "operations"
            )
        for name in ("strength", "erase", "mixed", "fill"):
            if not 0 <= getattr(self, name) <= 1:
                raise FieldError(f"{name}={getattr(self, name)}: it must lie in 0 … 1", name)
        if not 0 < self.zoom <= 1:
            raise FieldError(f"zoom={self.zoom}: a share of the area lies in 0 < … ≤ 1", "zoom")
        if self.crop and self.zoom < 1:
            raise FieldError(
                f"crop={self.crop} and zoom={self.zoom} are two ways to crop; choose one "
                "(crop=0 or zoom=1)",
                "crop",
            )
        if self.operations and not self.strength:
            raise FieldError(
                f"operations={self.operations} at strength=0 would leave only autocontrast and "
                "equalize, which have no strength; set operations=0 or a strength",
                "operations",
            )
        if (self.mixup or self.cutmix) and not self.mixed:
            name = "mixup" if self.mixup else "cutmix"
            raise FieldError(
                f"{name}={getattr(self, name)} never happens with mixed=0; set {name}=0 or a share",
                name,
            )
