"""What a pretraining run is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field, fields
from typing import Literal

from regard.config import check_kinds
from regard.data.tokenizer import VocabularyConfig
from regard.errors import FieldError
from regard.models.config import PretrainerConfig
from regard.training.config import TrainConfig

MOST_PAIRS = 1_000_000  # of each kind: they are made one by one before training begins


@dataclass(frozen=True, kw_only=True)
class ObjectivesConfig:
    """How much each kind of question counts; 0 leaves it out."""

    masked: float = 1.0
    """Which words are hidden?"""
    next: float = 1.0
    """Does the second text follow the first in its document?"""
    inverted: float = 1.0
    """Is the second sentence the first in another order that says the same?"""
    inference: float = 1.0
    """Is the second sentence true if the first is?"""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in (each.name for each in fields(self)):
            if not getattr(self, name) >= 0:
                raise FieldError(f"{name}={getattr(self, name)}: a weight cannot be negative", name)
        if not any(getattr(self, each.name) for each in fields(self)):
            raise ValueError("every weight is 0: there is nothing to learn")

    @property
    def asked(self) -> tuple[str, ...]:
        """The questions about pairs that count."""
        return tuple(name for name in ("next", "inverted", "inference") if getattr(self, name))

    @property
    def reads(self) -> bool:
        """Whether anything is asked about running text."""
        return bool(self.masked or self.next)


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Which words are asked for, and what stands in their places."""

    share: float = 0.15
    """Share of the tokens that are asked for, other ones each time."""
    hidden: float = 0.8
    """Share of these that are hidden."""
    swapped: float = 0.1
    """Share of these that are another token, drawn evenly; the rest stays as it is."""
    whole_words: bool = False
    """Whether all pieces of a word are asked for together."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not 0 < self.share < 1:
            raise FieldError(f"share={self.share}: a share lies in 0 < … < 1", "share")
        if not (self.hidden >= 0 and self.swapped >= 0 and self.hidden + self.swapped <= 1):
            raise FieldError(
                f"hidden={self.hidden} and swapped={self.swapped}: shares that make 1 at the most",
                "hidden",
            )


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Everything that decides a run. Words and questions of the model follow from the rest."""

    data: str = "docstrings"
    """Running text: `docstrings`, `wikitext-2`, a text file, or a folder with some."""
    inferences: Literal["rules", "sick", "both"] = "rules"
    """Where premises and conclusions come from: our own rules, SICK, or both."""
    pairs: int = 20_000
    """Pairs of sentences in an epoch, at the most, for each question but `next`."""
    batch: int = 8192
    """Tokens in a batch, padding counted, at the most."""
    longest: int = 128
    """Tokens that are read at once, start and ends counted."""
    objectives: ObjectivesConfig = field(default_factory=ObjectivesConfig)
    """What is asked, and how much each kind of question counts."""
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    """How words are hidden."""
    vocabulary: VocabularyConfig = field(
        default_factory=lambda: VocabularyConfig(kind="bytes", size=8000)
    )
    """What texts are cut into."""
    model: PretrainerConfig = field(default_factory=PretrainerConfig)
    """What reads them."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not self.data:
            raise FieldError("data is empty", "data")
        for name, least in (("pairs", 12), ("batch", 1), ("longest", 16)):
            if getattr(self, name) < least:
                raise FieldError(f"{name}={getattr(self, name)}: at least {least}", name)
        if self.pairs > MOST_PAIRS:
            raise FieldError(f"pairs={self.pairs}: at most {MOST_PAIRS:,} are made", "pairs")
