"""How good the translations of a split are: written by beam search, compared with people's."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from regard.data.entries import all_of
from regard.data.pairs import Pairs
from regard.evaluation import translation as scoring
from regard.evaluation.bootstrap import Interval, bootstrap, checked, interval_from
from regard.evaluation.translation import TranslationMetrics
from regard.generation.sample import GenerationConfig, beam_search, greedy
from regard.models.seq2seq import Seq2Seq, TokenBatch
from regard.progress import progress
from regard.tasks.task import Trained
from regard.tasks.translate.config import TranslateConfig, TranslateGenerationConfig
from regard.tasks.translate.data import Metadata, TranslateData, part_of
from regard.tasks.translate.exchanged import warning

Translator = Trained[TranslateConfig, Metadata]
AT_ONCE = 128  # sentences that are translated together
ROUND = 8  # sources whose lengths are equal when rounded up to this may be translated together
EXACT, BLEU, LOWER = "exact_match", "BLEU", "bleu_lowercase"


@dataclass(frozen=True)
class Written:
    """A translation: its tokens, its text, how sure the model was, and whether it ended."""

    numbers: tuple[int, ...]
    text: str
    score: float  # its log-probability; divided by a power of its length, if beams were used
    finished: bool


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Every figure of a split, and the translations themselves."""

    translations: tuple[str, ...]
    scores: TranslationMetrics
    decides: str = BLEU  # the name of the figure that does
    ways: Mapping[str, Interval] = field(default_factory=dict)  # exact matches by direction
    cut: int = 0  # sources of which only the beginning was read
    shared: int | None = None  # pairs that are letter for letter among those learnt, if known

    def to_values(self) -> dict[str, Any]:
        """The deciding figure first; what is by sentence, last."""
        figures = {self.decides: self.scores.figures[self.decides], **self.scores.figures}
        return {
            **{name: interval._asdict() for name, interval in figures.items()},
            "by_direction": {name: interval._asdict() for name, interval in self.ways.items()},
            "decides": self.decides,
            "truncated": self.cut,
            "train_overlap": self.shared,
            "scores": self.scores.to_values(),
            "translations": list(self.translations),
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Evaluation:
        """What `to_values` was made of."""
        try:
            found = cls(
                all_of(str, values["translations"]),
                TranslationMetrics.from_values(values["scores"]),
                values["decides"],
                {
                    name: interval_from(interval)
                    for name, interval in values["by_direction"].items()
                },
                values["truncated"],
                values["train_overlap"],
            )
            if found.decides not in found.scores.figures:
                raise ValueError(f"no figure is called {found.decides!r:.80}")
            if len(found.translations) != found.scores.count:
                raise ValueError(
                    f"{len(found.translations)} translations and {found.scores.count} scores"
                )
            return checked(found)
        except (KeyError, TypeError, AttributeError, ValueError) as trouble:
            raise ValueError(f"these are not the values of a judgement: {trouble}") from None


def judge(trained: Translator, data: TranslateData, split: str) -> Evaluation:
    """Translate every source of a split, and compare."""
    part, longest = part_of(data, split), trained.metadata.longest
    sources = [trained.metadata.words.encode(text) for text in part.source]
    if not data.own:
        targets = [trained.metadata.words.encode(text) for text in part.target]
        warn_if_exchanged(trained.metadata, sources, targets)
    with progress(f"translating {split}", len(sources)) as advance:
        translations = translate(trained, [source[:longest] for source in sources], advance)
    texts = tuple(each.text for each in translations)
    scores = scoring.assess(texts, part.target)
    held = data.own and split not in ("train", "all")
    return Evaluation(
        texts,
        scores,
        decides=deciding(trained, data),
        ways=by_way(part, scores) if data.pairs.exact else {},
        cut=sum(len(source) > longest for source in sources),
        shared=data.pairs.shared(split) if held else None,
    )


def warn_if_exchanged(
    facts: Metadata, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]] = ()
) -> None:
    """Say so where texts look like the language that a run writes; their scores mean nothing."""
    if words := warning(facts.typical, facts.languages, sources, targets):
        print(f"warning: {words}", file=sys.stderr)


def deciding(trained: Translator, data: TranslateData) -> str:
    """Exact matches where only one text is right; else BLEU, of what the model has letters for."""
    if data.pairs.exact:
        return EXACT
    return LOWER if trained.config.tokenizer.lowercase else BLEU


def by_way(part: Pairs, scores: TranslationMetrics) -> dict[str, Interval]:
    """Exact matches of numbers in digits, and of those in words, where a split has both."""
    right = scores.per_pair[EXACT]
    digits = np.array([text.isdigit() for text in part.source])
    rows = {"digits to words": digits, "words to digits": ~digits}
    return {name: bootstrap(right[some]) for name, some in rows.items() if some.any()}


def translate(
    trained: Translator,
    sources: Sequence[Sequence[int]],
    advance: Callable[[int], object] = lambda count: None,
) -> list[Written]:
    """A translation of each source, in order.

    Those of about one length are translated together. What a source becomes does not depend on the
    others: all of a batch have the same limit. Of no words, nothing is made.
    """
    translations: list[Written | None] = [None if source else NOTHING for source in sources]
    order = sorted(
        (at for at, source in enumerate(sources) if source), key=lambda at: len(sources[at])
    )
    while order:
        size = rounded(len(sources[order[0]]))
        some = [at for at in order[:AT_ONCE] if len(sources[at]) <= size]
        order = order[len(some) :]
        for at, each in zip(some, write(trained, [sources[at] for at in some]), strict=True):
            translations[at] = each
        advance(len(some))
    return [each for each in translations if each is not None]


NOTHING = Written((), "", 0.0, True)


@torch.no_grad()
def write(trained: Translator, sources: Sequence[Sequence[int]]) -> list[Written]:
    """A translation of each of some sources, all at once."""
    how, words = trained.config.generation, trained.metadata.words
    batch = sentences(sources, trained.metadata, trained.device)
    rules = rules_of(trained.metadata, how, max(map(len, sources)))
    if how.num_beams > 1:
        out = beam_search(
            translator(trained),
            batch,
            rules,
            beams=how.num_beams,
            length_penalty=how.length_penalty,
        )
    else:
        out = greedy(translator(trained), batch, rules)
    return [
        Written(tuple(numbers), words.decode(numbers), score, finished)
        for numbers, score, finished in zip(out.tokens, out.scores, out.finished, strict=True)
    ]


def rules_of(facts: Metadata, how: TranslateGenerationConfig, length: int) -> GenerationConfig:
    """How a translation of a source of so many tokens begins and ends."""
    words = facts.words
    never = [words.padding, words.start]
    if "unknown" in words.specials:
        never.append(words.special("unknown"))
    room = math.ceil(how.max_length_ratio * rounded(length)) + how.max_length_extra
    return GenerationConfig(
        bos_id=words.start,
        eos_id=words.end,
        max_new_tokens=min(facts.longest + 1, room),
        no_repeat_ngram_size=how.no_repeat_ngram_size,
        suppress_tokens=tuple(never),
    )


def rounded(length: int) -> int:
    return -(-length // ROUND) * ROUND


def sentences(
    sources: Sequence[Sequence[int]], facts: Metadata, device: torch.device
) -> TokenBatch:
    """Sources as the model reads them, each with its end."""
    words = facts.words
    m = 1 + max(map(len, sources))
    rows = [[*source, words.end] for source in sources]
    numbers = [row + [words.padding] * (m - len(row)) for row in rows]
    found = torch.tensor(numbers, device=device)
    if all(len(row) == m for row in rows):
        return TokenBatch(found)
    places = [[*range(len(row)), *[-1] * (m - len(row))] for row in rows]
    return TokenBatch(found, torch.tensor(places, device=device))


def summary(judged: Evaluation, split: str) -> str:
    """Lines for a terminal."""
    lines = [split]
    width = max(map(len, judged.ways), default=0)
    for name, interval in judged.ways.items():
        value, low, high = (f"{100 * x:.1f}" for x in interval)
        lines.append(f"{name:<{width}}  {value}%  ({low} to {high})")
    lines.append(scoring.summary(judged.scores))
    if judged.shared:
        lines.append(f"{judged.shared:,} of the pairs are among those learnt, letter for letter.")
    if judged.cut:
        lines.append(
            f"{judged.cut:,} of the sources were too long, and only their beginning was read."
        )
    return "\n".join(lines)


def translator(trained: Translator) -> Seq2Seq:
    assert isinstance(trained.model, Seq2Seq)
    return trained.model
