"""How well a split is foretold: loss, perplexity, bits per byte, by windows that slide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.text import Text
from regard.data.tokens import count_unknown
from regard.evaluation import perplexity
from regard.evaluation.bootstrap import checked
from regard.evaluation.perplexity import PerplexityMetrics, foretelling
from regard.progress import progress
from regard.tasks.language.config import LanguageConfig
from regard.tasks.language.data import LanguageData, Metadata, part_of
from regard.tasks.language.loss import losses_of
from regard.tasks.task import Trained

WITH_EOS = "word_perplexity_with_eos"
Speaker = Trained[LanguageConfig, Metadata]


@dataclass(frozen=True)
class Evaluation:
    """Every figure of a split, and how windows slid."""

    figures: PerplexityMetrics
    length: int
    stride: int
    unknown: float = 0.0  # the share of tokens that stand for what the vocabulary does not have

    def to_values(self) -> dict[str, Any]:
        """The deciding figure first."""
        values = self.figures.to_values()
        return {
            "loss": values["loss"],
            **values,
            "length": self.length,
            "stride": self.stride,
            "unk_rate": self.unknown,
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Evaluation:
        """What `to_values` was made of."""
        try:
            figures = PerplexityMetrics.from_values(
                values if WITH_EOS in values else renamed(values)
            )
            return checked(cls(figures, values["length"], values["stride"], values["unk_rate"]))
        except (KeyError, TypeError, ValueError) as trouble:
            raise ValueError(f"these are not the values of a judgement: {trouble}") from None


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of earlier versions, which counted the ends of lines as words and said so nowhere."""
    names = {"word_perplexity": WITH_EOS}
    return {names.get(name, name): value for name, value in values.items()}


def judge(trained: Speaker, data: LanguageData, split: str) -> Evaluation:
    """Foretell every token of a split but the first."""
    tokens, texts = part_of(data, split)
    length = trained.config.model.context_length
    stride = max(1, length // 2)
    with progress(f"reading {split}", len(tokens)) as advance:
        losses = losses_of(
            trained.model, tokens, length, trained.device, stride=stride, advance=advance
        )
    size, (words, lines) = sum(text.size for text in texts), words_and_lines(texts)
    figures = foretelling(losses, size=size, words=words, lines=lines, block=length)
    unknown = count_unknown(tokens, trained.metadata.words) / len(tokens)
    return Evaluation(figures, length, stride, unknown)


def words_and_lines(texts: Sequence[Text]) -> tuple[int, int]:
    """Words between spaces, and ends of lines."""
    counts = [(len(block.split()), block.count("\n")) for text in texts for block in text]
    return sum(words for words, _ in counts), sum(lines for _, lines in counts)


def summary(judged: Evaluation, split: str) -> str:
    """Lines for a terminal."""
    lost = f" {judged.unknown:.2%} of them are not in the vocabulary." if judged.unknown else ""
    return (
        f"{split}\n{perplexity.summary(judged.figures)}\n"
        f"Windows of {judged.length} tokens, a new one every {judged.stride}.{lost}"
    )
