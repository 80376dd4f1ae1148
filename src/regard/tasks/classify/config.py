"""What a classification run is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field, fields
from typing import Literal

from regard.config import check_kinds
from regard.data.config import AugmentConfig
from regard.errors import FieldError
from regard.models.config import ViTConfig
from regard.models.davit_config import DaViTConfig
from regard.training.config import TrainConfig

TABLES = {"vit": "model", "davit": "davit"}  # which field describes which kind


@dataclass(frozen=True, kw_only=True)
class ClassifyConfig:
    """Everything that decides a run.

    Images are read at the size the model wants; its classes and channels follow the data.
    """

    data: str = "digits"
    """A name (`regard data` lists them), a folder with one sub-folder a class, or a csv."""
    batch_size: int = 128
    """Images in a batch."""
    label_smoothing: float = 0.0
    """Share of the target that is spread evenly over all classes."""
    skip_invalid: bool = False
    """Leave out images that cannot be read, and say which; without it one of them stops the run."""
    kind: Literal["vit", "davit"] = "vit"
    """Which model is trained: the ViT that `model` describes, or the DaViT of `davit`."""
    model: ViTConfig = field(default_factory=ViTConfig)
    """The vision transformer."""
    davit: DaViTConfig = field(default_factory=DaViTConfig)
    """The DaViT: window and channel attention in stages."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    """How training images are varied."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not self.data:
            raise FieldError("data is empty: name a set, a folder or a csv", "data")
        if self.batch_size < 1:
            raise FieldError(
                f"batch_size={self.batch_size}: there must be at least 1 image in a batch",
                "batch_size",
            )
        if not 0 <= self.label_smoothing < 1:
            raise FieldError(
                f"label_smoothing={self.label_smoothing}: a share lies in 0 ≤ … < 1",
                "label_smoothing",
            )
        for name in self.idle:
            self.expect_default(name)

    @property
    def table(self) -> str:
        """The name of the field that describes the model which is trained."""
        return TABLES[self.kind]

    @property
    def idle(self) -> tuple[str, ...]:
        """The names of the fields that describe models which are not trained."""
        return tuple(name for name in TABLES.values() if name != self.table)

    @property
    def chosen(self) -> ViTConfig | DaViTConfig:
        """The model that is trained."""
        found: ViTConfig | DaViTConfig = getattr(self, self.table)
        return found

    def expect_default(self, name: str) -> None:
        """Refuse what is said of the model that is not trained, which would go unheard."""
        idle = getattr(self, name)
        for each in fields(idle):
            value = getattr(idle, each.name)
            if value != getattr(type(idle)(), each.name):
                raise FieldError(
                    f"{name}.{each.name}={value!r} has no effect: kind={self.kind!r} is "
                    f"described by {self.table}.…: leave it out, or take a recipe for that kind",
                    f"{name}.{each.name}",
                )
