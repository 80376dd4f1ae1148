"""What a run of a language model is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field

from regard.config import check_kinds
from regard.data.tokenizer import TokenizerConfig
from regard.errors import FieldError
from regard.models.config import GPTConfig
from regard.training.config import TrainConfig

MOST_SAMPLES = 10_000


@dataclass(frozen=True, kw_only=True)
class LanguageGenerationConfig:
    """How a text is gone on with."""

    max_new_tokens: int = 200
    """Tokens that are written after a prompt."""
    temperature: float = 0.8
    """Scores are divided by this before a token is drawn; towards 0 it is always the likeliest."""
    top_k: int = 0
    """Only so many of the likeliest tokens can be drawn; 0 is no rule."""
    top_p: float = 1.0
    """Only the likeliest tokens that together have this share can be drawn."""
    stop_strings: tuple[str, ...] = ()
    """Strings before which a text ends; `\\n` and `\\t` in them are a line break and a tab."""
    seed: int | None = None
    """The same seed gives the same text; none draws one, which the answer names."""
    num_samples: int = 1
    """Texts that are drawn for each prompt."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if self.max_new_tokens < 1:
            raise FieldError(f"max_new_tokens={self.max_new_tokens}: at least 1", "max_new_tokens")
        if not self.temperature > 0:
            raise FieldError(f"temperature={self.temperature}: it must be above 0", "temperature")
        if self.top_k < 0:
            raise FieldError(f"top_k={self.top_k}: it cannot be negative", "top_k")
        if not 0 < self.top_p <= 1:
            raise FieldError(f"top_p={self.top_p}: a share lies in 0 < … ≤ 1", "top_p")
        if not all(self.stop_strings):
            raise FieldError(
                f"stop_strings={self.stop_strings} has an empty string, at which any text would "
                "end",
                "stop_strings",
            )
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise FieldError(f"seed={self.seed}: it lies in 0 … {2**63 - 1:,}", "seed")
        if not 1 <= self.num_samples <= MOST_SAMPLES:
            raise FieldError(
                f"num_samples={self.num_samples}: in 1 … {MOST_SAMPLES:,}", "num_samples"
            )


@dataclass(frozen=True, kw_only=True)
class LanguageConfig:
    """Everything that decides a run. The words of the model follow the data."""

    data: str = "docstrings"
    """`docstrings`, `stdlib`, `tiny_shakespeare`, `wikitext-2`, a text file or a folder of them."""
    batch_size: int = 32
    """Windows of `model.context_length` tokens in a batch."""
    tokenizer: TokenizerConfig = field(
        default_factory=lambda: TokenizerConfig(name="char", min_frequency=1)
    )
    """What a text is cut into."""
    model: GPTConfig = field(default_factory=lambda: GPTConfig(context_length=256))
    """The decoder."""
    generation: LanguageGenerationConfig = field(default_factory=LanguageGenerationConfig)
    """How it writes."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not self.data:
            raise FieldError("data is empty", "data")
        if self.batch_size < 1:
            raise FieldError(f"batch_size={self.batch_size}: at least 1", "batch_size")
        if self.model.context_length < 2:
            raise FieldError(
                f"model.context_length={self.model.context_length}: a window has at least 2 tokens",
                "model.context_length",
            )
