"""What a run that tells texts apart is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field

from regard.config import check_kinds
from regard.data.tokenizer import VocabularyConfig
from regard.errors import FieldError
from regard.models.config import TextClassifierConfig
from regard.training.config import TrainConfig

SCRATCH, MINILM = "scratch", "minilm"  # where weights may begin, beside the folder of a run


@dataclass(frozen=True, kw_only=True)
class SentimentConfig:
    """Everything that decides a run. Words and classes of the model follow the data."""

    data: str = "reviews"
    """`reviews`, `sst2`, `sick`, a .csv or .tsv with texts and labels, or a folder with some."""
    text: str = ""
    """The column of a table that holds the texts; found by its name when not said."""
    pair: str = ""
    """A column with a second text: rows are pairs then, which are judged together."""
    label: str = ""
    """The column that holds the labels; found by its name when not said."""
    start: str = SCRATCH
    """`scratch`, `minilm`, or the folder of a run whose reader of texts is taken over."""
    untrained: bool = False
    """Take over the vocabulary and the sizes of `start`, and not its weights: for comparison."""
    labels: int = 0
    """Learn from so many texts only, drawn by the seed; 0 is all."""
    batch: int = 4096
    """Tokens in a batch, padding counted, at the most."""
    longest: int = 128
    """Tokens that are read at once, start and end counted; longer texts are read in windows."""
    overlap: int = 32
    """Tokens that a window shares with the next."""
    balance: bool = False
    """Whether all classes weigh the same, in learning and in the choice of the best epoch."""
    mix: bool = False
    """Whether texts of all lengths share a batch; else those of about one length do: faster."""
    lengths: float = 0.0
    """With `mix`, how much more longer texts count: as their tokens to this power; 0: all alike."""
    forget: float = 0.0
    """Share of tokens that are hidden from the model in training, other ones each time."""
    agree: float = 0.0
    """How much it counts that two readings of a text, with other numbers dropped, agree."""
    smoothing: float = 0.0
    """Share of the target that is spread evenly over all classes."""
    skip_bad: bool = False
    """Leave out rows that are no use, and say which; else one stops the run."""
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    """What texts are cut into, unless `start` says it."""
    model: TextClassifierConfig = field(default_factory=TextClassifierConfig)
    """What reads them, unless `start` says it."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("data", "start"):
            if not getattr(self, name):
                raise FieldError(f"{name} is empty", name)
        if self.batch < 1:
            raise FieldError(f"batch={self.batch}: at least 1", "batch")
        if self.longest < 8:
            raise FieldError(
                f"longest={self.longest}: at least 8, start and end counted", "longest"
            )
        if not 0 <= self.overlap <= self.longest // 2:
            raise FieldError(
                f"overlap={self.overlap}: windows of longest={self.longest} tokens share 0 to "
                f"{self.longest // 2}",
                "overlap",
            )
        if self.labels < 0:
            raise FieldError(f"labels={self.labels}: it cannot be negative", "labels")
        for name in ("agree", "lengths"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise FieldError(f"{name}={getattr(self, name)}: finite, and at least 0", name)
        for name in ("forget", "smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: a share lies in 0 ≤ … < 1", name)
        if self.untrained and self.start == SCRATCH:
            raise FieldError(
                f"untrained=True takes the sizes of a start, and start is {SCRATCH!r}", "untrained"
            )
