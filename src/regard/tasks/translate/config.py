"""What a translation run is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field

from regard.config import check_kinds
from regard.data.tokenizer import TokenizerConfig
from regard.errors import FieldError
from regard.models.config import Seq2SeqConfig
from regard.training.config import TrainConfig

MOST_BEAMS = 1_000  # each is a draft with keys and values of its own


@dataclass(frozen=True, kw_only=True)
class TranslateGenerationConfig:
    """How translations are written once the model is trained."""

    num_beams: int = 5
    """Beams followed at once; 1 is greedy: the likeliest token each time."""
    length_penalty: float = 1.0
    """A draft's log-probability is divided by its length to this power; above 0, long ones gain."""
    max_length_ratio: float = 1.5
    """A translation has at most this many times the tokens of its source, rounded up to 8s, …"""
    max_length_extra: int = 20
    """… and so many more, its end counted."""
    no_repeat_ngram_size: int = 0
    """Length of a run of tokens that no translation has twice; 0 is no rule."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.num_beams < 1:
            raise FieldError(f"num_beams={self.num_beams}: at least 1", "num_beams")
        if self.num_beams > MOST_BEAMS:
            raise FieldError(f"num_beams={self.num_beams}: at most {MOST_BEAMS:,}", "num_beams")
        if not self.max_length_ratio >= 0:
            raise FieldError(
                f"max_length_ratio={self.max_length_ratio}: it cannot be negative",
                "max_length_ratio",
            )
        if self.max_length_extra < 1:
            raise FieldError(
                f"max_length_extra={self.max_length_extra}: a translation has room for at least 1",
                "max_length_extra",
            )
        if self.no_repeat_ngram_size < 0:
            raise FieldError(
                f"no_repeat_ngram_size={self.no_repeat_ngram_size}: it cannot be negative",
                "no_repeat_ngram_size",
            )


@dataclass(frozen=True, kw_only=True)
class TranslateConfig:
    """Everything that decides a run. Words and length of the model follow data and `max_length`."""

    data: str = "numerals"
    """`numerals`, `multi30k`, a .tsv, two files such as own.en,own.de, or a folder with them."""
    direction: str = ""
    """Which language is put into which, such as `en-de`: by the endings of files, or the names of
    columns. When not said: two files as they are given, the first into the second; of a folder,
    English into the other language."""
    batch_tokens: int = 4096
    """Tokens in a batch, both sides and padding counted, at the most."""
    max_length: int = 250
    """Tokens of a sentence at the most; pairs with a longer one are not learnt."""
    label_smoothing: float = 0.1
    """Share of the target that is spread evenly over all tokens."""
    skip_invalid: bool = False
    """Leave out pairs that are no use, and say which; else one stops the run."""
    tokenizer: TokenizerConfig = field(default_factory=lambda: TokenizerConfig(name="bpe"))
    """What sentences of both languages are cut into."""
    model: Seq2SeqConfig = field(default_factory=Seq2SeqConfig)
    """The stack that reads and the stack that writes."""
    generation: TranslateGenerationConfig = field(default_factory=TranslateGenerationConfig)
    """How translations are written."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not self.data:
            raise FieldError("data is empty", "data")
        for name in ("batch_tokens", "max_length"):
            if getattr(self, name) < 1:
                raise FieldError(f"{name}={getattr(self, name)}: at least 1", name)
        if not 0 <= self.label_smoothing < 1:
            raise FieldError(
                f"label_smoothing={self.label_smoothing}: a share lies in 0 ≤ … < 1",
                "label_smoothing",
            )
