"""What a classification run is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field

from regard.config import check_kinds
from regard.data.augment_config import AugmentConfig
from regard.model.config import ViTConfig
from regard.train.config import TrainConfig


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig:
    """Everything that decides a run.

    Images are read at the size the model wants; its classes and channels follow the data.
    """

    data: str = "digits"
    """A name (`regard data` lists them), a folder with one sub-folder a class, or a csv."""
    batch: int = 128
    """Images in a batch."""
    smoothing: float = 0.0
    """Share of the target that is spread evenly over all classes."""
    skip_bad: bool = False
    """Leave out images that cannot be read, and say which; without it one of them stops the run."""
    model: ViTConfig = field(default_factory=ViTConfig)
    """The vision transformer."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    """How training images are varied."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not self.data:
            raise ValueError("data is empty: name a set, a folder or a csv")
        if self.batch < 1:
            raise ValueError(f"batch={self.batch}: there must be at least 1 image in a batch")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing={self.smoothing}: a share lies in 0 ≤ … < 1")
