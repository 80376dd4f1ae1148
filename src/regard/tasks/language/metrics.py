"""How well a split is foretold: loss, perplexity, bits per byte, by windows that slide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.text import Text
from regard.data.tokens import count_unknown
from regard.evaluation import perplexity
from regard.evaluation.bootstrap import Interval, checked
from regard.evaluation.perplexity import Foretelling, foretelling
from regard.progress import progress
from regard.tasks.language.config import LanguageConfig
from regard.tasks.language.data import Facts, LanguageData, part_of
from regard.tasks.language.loss import LIKELIHOOD, losses_of
from regard.tasks.task import Trained

WITH_EOS = "word_perplexity_with_eos"
Speaker = Trained[LanguageConfig, Facts]


@dataclass(frozen=True)
class Judgement:
    """Every figure of a split, and how windows slid."""

    figures: Foretelling
    length: int
    stride: int
    unknown: float = 0.0  # the share of tokens that stand for what the vocabulary does not have

    @property
    def likelihood(self) -> Interval:
        """How probable the next token was found, as a geometric mean: 1 / perplexity."""
        value, low, high = self.figures.perplexity
        return Interval(1 / value, 1 / high, 1 / low)

    def to_values(self) -> dict[str, Any]:
        """The deciding figure first."""
        return {
            LIKELIHOOD: self.likelihood._asdict(),
            **self.figures.to_values(),
            "length": self.length,
            "stride": self.stride,
            "unknown": self.unknown,
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Judgement:
        """What `to_values` was made of."""
        try:
            told = Foretelling.from_values(values if WITH_EOS in values else renamed(values))
            return checked(cls(told, values["length"], values["stride"], values["unknown"]))
        except (KeyError, TypeError, ValueError) as trouble:
            raise ValueError(f"these are not the values of a judgement: {trouble}") from None


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of earlier versions, which counted the ends of lines as words and said so nowhere."""
    names = {"word_perplexity": WITH_EOS}
    return {names.get(name, name): value for name, value in values.items()}


def judge(trained: Speaker, data: LanguageData, split: str) -> Judgement:
    """Foretell every token of a split but the first."""
    tokens, texts = part_of(data, split)
    length = trained.config.model.length
    stride = max(1, length // 2)
    with progress(f"reading {split}", len(tokens)) as advance:
        losses = losses_of(
            trained.model, tokens, length, trained.device, stride=stride, advance=advance
        )
    size, (words, lines) = sum(text.size for text in texts), words_and_lines(texts)
    figures = foretelling(losses, size=size, words=words, lines=lines, block=length)
    unknown = count_unknown(tokens, trained.facts.words) / len(tokens)
    return Judgement(figures, length, stride, unknown)


def words_and_lines(texts: Sequence[Text]) -> tuple[int, int]:
    """Words between spaces, and ends of lines."""
    counts = [(len(block.split()), block.count("\n")) for text in texts for block in text]
    return sum(words for words, _ in counts), sum(lines for _, lines in counts)


def summary(judged: Judgement, split: str) -> str:
    """Lines for a terminal."""
    lost = f" {judged.unknown:.2%} of them are not in the vocabulary." if judged.unknown else ""
    return (
        f"{split}\n{perplexity.summary(judged.figures)}\n"
        f"Windows of {judged.length} tokens, a new one every {judged.stride}.{lost}"
    )
