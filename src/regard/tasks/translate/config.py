"""What a translation run is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field

from regard.config import check_kinds
from regard.data.tokenizer import VocabularyConfig
from regard.errors import FieldError
from regard.models.config import Seq2SeqConfig
from regard.training.config import TrainConfig

MOST_BEAMS = 1_000  # each is a draft with keys and values of its own


@dataclass(frozen=True, kw_only=True)
class WritingConfig:
    """How translations are written once the model is trained."""

    beams: int = 5
    """Drafts followed at once; 1 takes the likeliest token each time."""
    penalty: float = 1.0
    """A draft's log-probability is divided by its length to this power; above 0, long ones gain."""
    factor: float = 1.5
    """A translation has at most this many times the tokens of its source, rounded up to 8s, …"""
    more: int = 20
    """… and so many more, its end counted."""
    no_repeat: int = 0
    """Length of a run of tokens that no translation has twice; 0 is no rule."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.beams < 1:
            raise FieldError(f"beams={self.beams}: at least 1", "beams")
        if self.beams > MOST_BEAMS:
            raise FieldError(f"beams={self.beams}: at most {MOST_BEAMS:,}", "beams")
        if not self.factor >= 0:
            raise FieldError(f"factor={self.factor}: it cannot be negative", "factor")
        if self.more < 1:
            raise FieldError(f"more={self.more}: a translation has room for at least 1", "more")
        if self.no_repeat < 0:
            raise FieldError(f"no_repeat={self.no_repeat}: it cannot be negative", "no_repeat")


@dataclass(frozen=True, kw_only=True)
class TranslateConfig:
    """Everything that decides a run. Words and length of the model follow data and `longest`."""

    data: str = "numerals"
    """`numerals`, `multi30k`, a .tsv, two files such as own.en,own.de, or a folder with them."""
    direction: str = ""
    """Which language is put into which, such as `en-de`: by the endings of files, or the names of
    columns. When not said: two files as they are given, the first into the second; of a folder,
    English into the other language."""
    batch: int = 4096
    """Tokens in a batch, both sides and padding counted, at the most."""
    longest: int = 250
    """Tokens of a sentence at the most; pairs with a longer one are not learnt."""
    smoothing: float = 0.1
    """Share of the target that is spread evenly over all tokens."""
    skip_bad: bool = False
    """Leave out pairs that are no use, and say which; else one stops the run."""
    vocabulary: VocabularyConfig = field(default_factory=lambda: VocabularyConfig(kind="bytes"))
    """What sentences of both languages are cut into."""
    model: Seq2SeqConfig = field(default_factory=Seq2SeqConfig)
    """The stack that reads and the stack that writes."""
    writing: WritingConfig = field(default_factory=WritingConfig)
    """How translations are written."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not self.data:
            raise FieldError("data is empty", "data")
        for name in ("batch", "longest"):
            if getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: at least 1", name)
        if not 0 <= self.smoothing < 1:
            raise FieldError(f"smoothing={self.smoothing}: a share lies in 0 ≤ … < 1", "smoothing")
