"""How training images are varied, as a frozen dataclass. No torch here: `--help` reads it."""

from dataclasses import dataclass
from typing import Literal

from regard.errors import FieldError

MAGNITUDES = 30  # the strongest that RandAugment and its descendants know
MOST_OPERATIONS = 100  # drawn and computed one after another


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """What may happen to a training image. As it stands, nothing does."""

    crop_padding: int = 0
    """Pixels by which a crop of the same size may be off centre, each way."""
    padding_mode: Literal["constant", "reflect"] = "constant"
    """What such a crop sees beyond the border: `constant`, or the image mirrored."""
    crop_scale: float = 1.0
    """Least share of the area that a random resized crop keeps; 1 is off."""
    hflip: bool = False
    """Whether every other image, at random, is seen in a mirror. Digits should not be."""
    randaugment_ops: int = 0
    """RandAugment operations on each image, out of 14; 2 is usual, 0 is off."""
    randaugment_magnitude: float = 9.0
    """How strong they are, 0 … 30."""
    random_erasing: float = 0.0
    """Share of images from which a random box is erased."""
    mixup_alpha: float = 0.0
    """α of mixup, whose weights are drawn from Beta(α, α); 0 is off."""
    cutmix_alpha: float = 0.0
    """α of cutmix; with `mixup_alpha` as well, each image takes one of the two."""
    mix_prob: float = 1.0
    """Share of images that mixup or cutmix mixes."""
    fill: float = 0.0
    """Brightness, 0 … 1, beyond the border and in erased boxes."""

    def __post_init__(self) -> None:
        for name in ("crop_padding", "randaugment_ops", "mixup_alpha", "cutmix_alpha"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise FieldError(
                    f"{name}={getattr(self, name)}: it must be finite and at least 0", name
                )
        if self.randaugment_ops > MOST_OPERATIONS:
            raise FieldError(
                f"randaugment_ops={self.randaugment_ops}: at most {MOST_OPERATIONS} on an image",
                "randaugment_ops",
            )
        for name in ("random_erasing", "mix_prob", "fill"):
            if not 0 <= getattr(self, name) <= 1:
                raise FieldError(f"{name}={getattr(self, name)}: it must lie in 0 … 1", name)
        if not 0 <= self.randaugment_magnitude <= MAGNITUDES:
            raise FieldError(
                f"randaugment_magnitude={self.randaugment_magnitude}: it must lie in "
                f"0 … {MAGNITUDES}",
                "randaugment_magnitude",
            )
        if not 0 < self.crop_scale <= 1:
            raise FieldError(
                f"crop_scale={self.crop_scale}: a share of the area lies in 0 < … ≤ 1", "crop_scale"
            )
        if self.crop_padding and self.crop_scale < 1:
            raise FieldError(
                f"crop_padding={self.crop_padding} and crop_scale={self.crop_scale} are two ways "
                "to crop; choose one "
                "(crop_padding=0 or crop_scale=1)",
                "crop_padding",
            )
        if self.randaugment_ops and not self.randaugment_magnitude:
            raise FieldError(
                f"randaugment_ops={self.randaugment_ops} at randaugment_magnitude=0 would leave "
                "only "
                "autocontrast and equalize, which have no strength; set randaugment_ops=0 or a "
                "magnitude",
                "randaugment_ops",
            )
        if (self.mixup_alpha or self.cutmix_alpha) and not self.mix_prob:
            name = "mixup_alpha" if self.mixup_alpha else "cutmix_alpha"
            raise FieldError(
                f"{name}={getattr(self, name)} never happens with mix_prob=0; set {name}=0 or a "
                "share",
                name,
            )
