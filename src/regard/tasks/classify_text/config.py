"""What a run that tells texts apart is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field
from typing import Literal

from regard.config import check_kinds
from regard.data.tokenizer import TokenizerConfig
from regard.errors import FieldError
from regard.models.config import TextClassifierConfig
from regard.training.config import TrainConfig

SCRATCH, MINILM = "scratch", "minilm"  # where weights may begin, beside the folder of a run


@dataclass(frozen=True, kw_only=True)
class ClassifyTextConfig:
    """Everything that decides a run. Words and classes of the model follow the data."""

    data: str = "reviews"
    """`reviews`, `sst2`, `sick`, a .csv or .tsv with texts and labels, or a folder with some."""
    text_column: str = ""
    """The column of a table that holds the texts; found by its name when not said."""
    text_pair_column: str = ""
    """A column with a second text: rows are pairs then, which are judged together."""
    label_column: str = ""
    """The column that holds the labels; found by its name when not said."""
    init_from: str = SCRATCH
    """`scratch`, `minilm`, or the folder of a run whose reader of texts is taken over."""
    random_init: bool = False
    """Take over the vocabulary and the sizes of `init_from`, and not its weights: for
    comparison."""
    max_train_samples: int = 0
    """Learn from so many texts only, drawn by the seed; 0 is all."""
    batch_tokens: int = 4096
    """Tokens in a batch, padding counted, at the most."""
    max_length: int = 128
    """Tokens that are read at once, start and end counted; longer texts are read in windows."""
    window_overlap: int = 32
    """Tokens that a window shares with the next."""
    class_weights: Literal["none", "balanced"] = "none"
    """`balanced`: all classes weigh the same, in learning and in the choice of the best epoch."""
    group_by_length: bool = True
    """Whether the texts of a batch are of about one length: faster; else all lengths share one."""
    length_weight: float = 0.0
    """Without `group_by_length`, how much more longer texts count: as their tokens to this power;
    0: all alike."""
    token_dropout: float = 0.0
    """Share of tokens that are hidden from the model in training, other ones each time."""
    r_drop: float = 0.0
    """How much it counts that two readings of a text, with other numbers dropped, agree."""
    label_smoothing: float = 0.0
    """Share of the target that is spread evenly over all classes."""
    skip_invalid: bool = False
    """Leave out rows that are no use, and say which; else one stops the run."""
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    """What texts are cut into, unless `init_from` says it."""
    model: TextClassifierConfig = field(default_factory=TextClassifierConfig)
    """What reads them, unless `init_from` says it."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in ("data", "init_from"):
            if not getattr(self, name):
                raise FieldError(f"{name} is empty", name)
        if self.batch_tokens < 1:
            raise FieldError(f"batch_tokens={self.batch_tokens}: at least 1", "batch_tokens")
        if self.max_length < 8:
            raise FieldError(
                f"max_length={self.max_length}: at least 8, start and end counted", "max_length"
            )
        if not 0 <= self.window_overlap <= self.max_length // 2:
            raise FieldError(
                f"window_overlap={self.window_overlap}: windows of max_length={self.max_length} "
                "tokens share 0 to "
                f"{self.max_length // 2}",
                "window_overlap",
            )
        if self.max_train_samples < 0:
            raise FieldError(
                f"max_train_samples={self.max_train_samples}: it cannot be negative",
                "max_train_samples",
            )
        for name in ("r_drop", "length_weight"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise FieldError(f"{name}={getattr(self, name)}: finite, and at least 0", name)
        for name in ("token_dropout", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: a share lies in 0 ≤ … < 1", name)
        if self.random_init and self.init_from == SCRATCH:
            raise FieldError(
                f"random_init=True takes its sizes from init_from, which is {SCRATCH!r}",
                "random_init",
            )
