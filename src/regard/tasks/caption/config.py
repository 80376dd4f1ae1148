"""What a captioning run is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field

from regard.config import check_kinds
from regard.data.config import AugmentConfig
from regard.data.tokenizer import VocabularyConfig
from regard.errors import FieldError
from regard.models.config import CaptionerConfig
from regard.training.config import TrainConfig

OWN, IMAGENET = "vit", "imagenet"
MOST_BEAMS = 1_000  # each is a draft with keys and values of its own


@dataclass(frozen=True, kw_only=True)
class WritingConfig:
    """How captions are written once the model is trained."""

    beams: int = 1
    """Drafts followed at once; 1 takes the likeliest word each time."""
    penalty: float = 1.0
    """A draft's log-probability is divided by its length to this power; above 0, long ones gain."""
    no_repeat: int = 0
    """Length of a run of words that no caption has twice; 0 is no rule."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.beams < 1:
            raise FieldError(f"beams={self.beams}: at least 1", "beams")
        if self.beams > MOST_BEAMS:
            raise FieldError(f"beams={self.beams}: at most {MOST_BEAMS:,}", "beams")
        if self.no_repeat < 0:
            raise FieldError(f"no_repeat={self.no_repeat}: it cannot be negative", "no_repeat")


@dataclass(frozen=True, kw_only=True)
class CaptionConfig:
    """Everything that decides a run.

    Images are read at the size the encoder wants; words and channels follow the data.
    """

    data: str = "scenes"
    """`scenes`, `flickr8k`, a folder with a captions file, or the file: csv, tsv, jsonl, json."""
    batch: int = 32
    """Images in a batch."""
    texts: int = 1
    """Captions of each image in a batch; the image is seen once for all of them."""
    scenes: int = 20_000
    """How many scenes are drawn to train on; other data have as many images as they have."""
    smoothing: float = 0.0
    """Share of the target that is spread evenly over all words."""
    skip_bad: bool = False
    """Leave out images and captions that are no use, and say which; else one stops the run."""
    encoder: str = OWN
    """`vit`: the model's own; `imagenet`: a trained EfficientNet; or a run of `classify`."""
    frozen: int = 9
    """Stages of the ImageNet encoder that stay as they are; 9 is all: then seen once, and kept."""
    depth: int = 8
    """Stage of the ImageNet encoder that is read: 8 has 320 numbers for a place, 9 has 1280."""
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    """What captions are cut into."""
    model: CaptionerConfig = field(default_factory=CaptionerConfig)
    """The encoder and the decoder."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    """How training images are varied; of frozen features, only by mirroring."""
    writing: WritingConfig = field(default_factory=WritingConfig)
    """How captions are written."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("data", "encoder"):
            if not getattr(self, name):
                raise FieldError(f"{name} is empty", name)
        for name in ("batch", "texts", "scenes"):
            if getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: at least 1", name)
        if not 0 <= self.smoothing < 1:
            raise FieldError(f"smoothing={self.smoothing}: a share lies in 0 ≤ … < 1", "smoothing")
        if not 0 <= self.frozen <= 9:
            raise FieldError(f"frozen={self.frozen}: the encoder has 9 stages", "frozen")
        if not 1 <= self.depth <= 9:
            raise FieldError(f"depth={self.depth}: the encoder has stages 1 … 9", "depth")
        if self.vocabulary.kind not in ("words", "bytes"):
            raise FieldError(
                f"vocabulary.kind={self.vocabulary.kind!r}: captions are words, or bytes for pairs",
                "vocabulary.kind",
            )
        if self.augment.mixup or self.augment.cutmix:
            raise FieldError(
                "mixup and cutmix show two images at once, of which no caption is true", "augment"
            )
        if self.model.length < 3:
            raise FieldError(
                f"model.length={self.model.length}: a start, a word and an end are 3 places",
                "model.length",
            )
        if self.encoder != IMAGENET and self.model.context_width is not None:
            raise FieldError(
                f"model.context_width={self.model.context_width}: features of another width come "
                f"with encoder={IMAGENET!r} only, and encoder={self.encoder!r}",
                "model.context_width",
            )
        varied = self.augment != AugmentConfig(flip=self.augment.flip)
        if self.kept and varied:
            raise FieldError(
                "features that are kept can be mirrored, and varied in no other way", "augment"
            )

    @property
    def kept(self) -> bool:
        """Whether images are seen once, before training, and their features kept."""
        return self.encoder == IMAGENET and self.frozen == 9
