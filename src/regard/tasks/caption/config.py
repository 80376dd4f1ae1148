"""What a captioning run is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field

from regard.config import check_kinds
from regard.data.config import AugmentConfig
from regard.data.tokenizer import TokenizerConfig
from regard.errors import FieldError
from regard.models.config import CaptionerConfig
from regard.training.config import TrainConfig

OWN, IMAGENET = "vit", "imagenet"
MOST_BEAMS = 1_000  # each is a draft with keys and values of its own


@dataclass(frozen=True, kw_only=True)
class CaptionGenerationConfig:
    """How captions are written once the model is trained."""

    num_beams: int = 1
    """Beams followed at once; 1 is greedy: the likeliest word each time."""
    length_penalty: float = 1.0
    """A draft's log-probability is divided by its length to this power; above 0, long ones gain."""
    no_repeat_ngram_size: int = 0
    """Length of a run of words that no caption has twice; 0 is no rule."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.num_beams < 1:
            raise FieldError(f"num_beams={self.num_beams}: at least 1", "num_beams")
        if self.num_beams > MOST_BEAMS:
            raise FieldError(f"num_beams={self.num_beams}: at most {MOST_BEAMS:,}", "num_beams")
        if self.no_repeat_ngram_size < 0:
            raise FieldError(
                f"no_repeat_ngram_size={self.no_repeat_ngram_size}: it cannot be negative",
                "no_repeat_ngram_size",
            )


@dataclass(frozen=True, kw_only=True)
class CaptionConfig:
    """Everything that decides a run.

    Images are read at the size the encoder wants; words and channels follow the data.
    """

    data: str = "scenes"
    """`scenes`, `flickr8k`, a folder with a captions file, or the file: csv, tsv, jsonl, json."""
    batch_size: int = 32
    """Images in a batch."""
    captions_per_image: int = 1
    """Captions of each image in a batch; the image is seen once for all of them."""
    num_scenes: int = 20_000
    """How many scenes are drawn to train on; other data have as many images as they have."""
    label_smoothing: float = 0.0
    """Share of the target that is spread evenly over all words."""
    skip_invalid: bool = False
    """Leave out images and captions that are no use, and say which; else one stops the run."""
    encoder: str = OWN
    """`vit`: the model's own; `imagenet`: a trained EfficientNet; or a run of `classify`."""
    freeze: int = 9
    """Stages of the ImageNet encoder that stay as they are; 9 is all: then seen once, and kept."""
    feature_stage: int = 8
    """Stage of the ImageNet encoder that is read: 8 has 320 numbers for a place, 9 has 1280."""
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    """What captions are cut into."""
    model: CaptionerConfig = field(default_factory=CaptionerConfig)
    """The encoder and the decoder."""
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    """How training images are varied; of frozen features, only by mirroring."""
    generation: CaptionGenerationConfig = field(default_factory=CaptionGenerationConfig)
    """How captions are written."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("data", "encoder"):
            if not getattr(self, name):
                raise FieldError(f"{name} is empty", name)
        for name in ("batch_size", "captions_per_image", "num_scenes"):
            if getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: at least 1", name)
        if not 0 <= self.label_smoothing < 1:
            raise FieldError(
                f"label_smoothing={self.label_smoothing}: a share lies in 0 ≤ … < 1",
                "label_smoothing",
            )
        if not 0 <= self.freeze <= 9:
            raise FieldError(f"freeze={self.freeze}: the encoder has 9 stages", "freeze")
        if not 1 <= self.feature_stage <= 9:
            raise FieldError(
                f"feature_stage={self.feature_stage}: the encoder has stages 1 … 9", "feature_stage"
            )
        if self.tokenizer.name not in ("word", "bpe"):
            raise FieldError(
                f"tokenizer.name={self.tokenizer.name!r}: captions take 'word' or 'bpe'",
                "tokenizer.name",
            )
        if self.augment.mixup_alpha or self.augment.cutmix_alpha:
            raise FieldError(
                "mixup and cutmix show two images at once, of which no caption is true", "augment"
            )
        if self.model.context_length < 3:
            raise FieldError(
                f"model.context_length={self.model.context_length}: a start, a word and an end "
                "are 3 places",
                "model.context_length",
            )
        if self.encoder != IMAGENET and self.model.encoder_width is not None:
            raise FieldError(
                f"model.encoder_width={self.model.encoder_width}: features of another width come "
                f"with encoder={IMAGENET!r} only, and encoder={self.encoder!r}",
                "model.encoder_width",
            )
        varied = self.augment != AugmentConfig(hflip=self.augment.hflip)
        if self.kept and varied:
            raise FieldError(
                "features that are kept can be mirrored, and varied in no other way", "augment"
            )

    @property
    def kept(self) -> bool:
        """Whether images are seen once, before training, and their features kept."""
        return self.encoder == IMAGENET and self.freeze == 9
