"""What a pretraining run is asked to do. No torch here: `--help` reads these fields."""

from dataclasses import dataclass, field, fields
from typing import Literal

from regard.config import check_kinds
from regard.data.tokenizer import TokenizerConfig
from regard.errors import FieldError
from regard.models.config import BertForPretrainingConfig
from regard.training.config import TrainConfig

MOST_PAIRS = 1_000_000  # of each kind: they are made one by one before training begins


@dataclass(frozen=True, kw_only=True)
class LossWeightsConfig:
    """How much each kind of question counts; 0 leaves it out."""

    mlm: float = 1.0
    """Masked language modelling: which words are hidden?"""
    nsp: float = 1.0
    """Next-sentence prediction: does the second text follow the first in its document?"""
    inversion: float = 1.0
    """Is the second sentence the first in another order that says the same?"""
    nli: float = 1.0
    """Is the second sentence true if the first is?"""

    def __post_init__(self) -> None:
        check_kinds(self)
        for name in (each.name for each in fields(self)):
            if not getattr(self, name) >= 0:
                raise FieldError(f"{name}={getattr(self, name)}: a weight cannot be negative", name)
        if not any(getattr(self, each.name) for each in fields(self)):
            raise ValueError("every weight is 0: there is nothing to learn")

    @property
    def pair_tasks(self) -> tuple[str, ...]:
        """The questions about pairs that count."""
        return tuple(name for name in ("nsp", "inversion", "nli") if getattr(self, name))

    @property
    def reads(self) -> bool:
        """Whether anything is asked about running text."""
        return bool(self.mlm or self.nsp)


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Which words are asked for, and what stands in their places."""

    mlm_probability: float = 0.15
    """Share of the tokens that are asked for, other ones each time."""
    mask_token_prob: float = 0.8
    """Share of these that are hidden."""
    random_token_prob: float = 0.1
    """Share of these that are another token, drawn evenly; the rest stays as it is."""
    whole_word_mask: bool = False
    """Whether all pieces of a word are asked for together."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not 0 < self.mlm_probability < 1:
            raise FieldError(
                f"mlm_probability={self.mlm_probability}: a share lies in 0 < … < 1",
                "mlm_probability",
            )
        if not (
            self.mask_token_prob >= 0
            and self.random_token_prob >= 0
            and self.mask_token_prob + self.random_token_prob <= 1
        ):
            raise FieldError(
                f"mask_token_prob={self.mask_token_prob} and "
                f"random_token_prob={self.random_token_prob}: shares that make 1 at the most",
                "mask_token_prob",
            )


@dataclass(frozen=True, kw_only=True)
class PretrainBertConfig:
    """Everything that decides a run. Words and questions of the model follow from the rest."""

    data: str = "docstrings"
    """Running text: `docstrings`, `wikitext-2`, a text file, or a folder with some."""
    nli_data: Literal["rules", "sick", "both"] = "rules"
    """Where premises and conclusions come from: our own rules, SICK, or both."""
    pairs_per_epoch: int = 20_000
    """Pairs of sentences in an epoch, at the most, for each loss but `nsp`."""
    batch_tokens: int = 8192
    """Tokens in a batch, padding counted, at the most."""
    max_length: int = 128
    """Tokens that are read at once, start and ends counted."""
    loss_weights: LossWeightsConfig = field(default_factory=LossWeightsConfig)
    """What is asked, and how much each kind of question counts."""
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    """How words are hidden."""
    tokenizer: TokenizerConfig = field(
        default_factory=lambda: TokenizerConfig(name="bpe", vocab_size=8000)
    )
    """What texts are cut into."""
    model: BertForPretrainingConfig = field(default_factory=BertForPretrainingConfig)
    """What reads them."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """How it is trained."""

    def __post_init__(self) -> None:
        check_kinds(self)
        if not self.data:
            raise FieldError("data is empty", "data")
        for name, least in (("pairs_per_epoch", 12), ("batch_tokens", 1), ("max_length", 16)):
            if getattr(self, name) < least:
                raise FieldError(f"{name}={getattr(self, name)}: at least {least}", name)
        if self.pairs_per_epoch > MOST_PAIRS:
            raise FieldError(
                f"pairs_per_epoch={self.pairs_per_epoch}: at most {MOST_PAIRS:,} are made",
                "pairs_per_epoch",
            )
