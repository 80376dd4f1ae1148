"""How good the captions of a split are: against people's, and against the scene if it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from regard.data.entries import all_of
from regard.data.synthetic.scenes import scene
from regard.evaluation import captions as scoring
from regard.evaluation import grounding as pointing
from regard.evaluation.bootstrap import (
    Interval,
    bootstrap_of,
    checked,
    interval_from,
    mean_of,
    unseen,
)
from regard.evaluation.captions import CaptionMetrics
from regard.evaluation.grounding import Grounding, Head, Looks, choose_head, ground, scene_targets
from regard.evaluation.ptb import words as ptb_words
from regard.models.captioner import Captioner
from regard.tasks.caption.config import CaptionConfig
from regard.tasks.caption.data import CaptionData, Metadata, Source, part_of, source_of
from regard.tasks.caption.loss import CIDER, TRUE, truths
from regard.tasks.caption.writing import AT_ONCE, Written, maps_of, write_all
from regard.tasks.task import Trained

CaptionWriter = Trained[CaptionConfig, Metadata]
LOOKED = 400  # captions of a split on which looking is measured
WORDLESS = "wordless-as-it-is"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Every figure of a split, and the captions themselves."""

    captions: tuple[str, ...]
    scores: CaptionMetrics
    truth: Interval | None = None  # the share of captions that are true, where that is known
    grounding: Grounding | None = None  # where it looked, where that is known

    def to_values(self) -> dict[str, Any]:
        """The deciding figure first; what is by image, last."""
        figures = {} if self.truth is None else {TRUE: self.truth}
        figures |= {CIDER: self.scores.figures[CIDER], **self.scores.figures}
        if self.grounding is not None:
            for name in ("attention", "uniform", "shuffled"):
                aim = getattr(self.grounding, name)
                figures |= {
                    f"pointing_game, {name}": aim.pointing,
                    f"attention_mass, {name}": aim.mass,
                }
        return {
            **{name: interval._asdict() for name, interval in figures.items()},
            "grounding": None if self.grounding is None else self.grounding.to_values(),
            "scores": self.scores.to_values(),
            "captions": list(self.captions),
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Evaluation:
        """What `to_values` was made of."""
        try:
            looked = values["grounding"]
            found = cls(
                all_of(str, values["captions"]),
                CaptionMetrics.from_values(values["scores"]),
                interval_from(values[TRUE]) if TRUE in values else None,
                None if looked is None else Grounding.from_values(looked),
            )
            if len(found.captions) != found.scores.count:
                raise ValueError(f"{len(found.captions)} captions and {found.scores.count} scores")
            return checked(found)
        except (KeyError, TypeError, ValueError) as trouble:
            raise ValueError(f"these are not the values of a judgement: {trouble}") from None


def judge(trained: CaptionWriter, data: CaptionData, split: str) -> Evaluation:
    """Write a caption for every image of a split, and compare."""
    part, source = part_of(data, split), source_for(trained, data, split)
    model = captioner(trained)
    written = write_all(model, source, len(part), trained.metadata, trained.config.generation)
    texts = tuple(text.text for text in written)
    learnt = data.captions.train.texts() if data.own else None
    scores = scoring.assess(texts, comparable(part.captions), learnt)
    if not data.drawn:
        return Evaluation(texts, scores)
    right = truths(texts, split)
    return Evaluation(
        texts,
        scores,
        share(right),
        looked(trained, data, split, written),
    )


def comparable(captions: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Captions that figures can be counted on.

    Published scores know no emoji: what people said with nothing else is a word that no model
    writes, and whatever is said of that image scores 0.
    """
    return [texts if any(map(ptb_words, texts)) else (WORDLESS,) for texts in captions]


def share(right: Float64[np.ndarray, "n"]) -> Interval:
    """The share of ones; where all are alike no resample differs, and the bound is exact."""
    found = bootstrap_of(len(right), mean_of(right))
    if found.value in (0.0, 1.0):
        hidden = unseen(len(right))
        return Interval(found.value, max(0.0, found.value - hidden), min(1.0, found.value + hidden))
    return found


def looked(
    trained: CaptionWriter, data: CaptionData, split: str, written: list[Written]
) -> Grounding | None:
    """Where the model looked when it named things, with the head that validation chooses."""
    head = head_of(trained, data)
    if head is None:
        return None
    looks = looks_of(trained, data, split, written[:LOOKED])
    return ground(looks, head) if len(looks) > 1 else None  # an untrained model names nothing


def head_of(trained: CaptionWriter, data: CaptionData) -> Head | None:
    """The head that points best on validation, or None where no caption there names a thing."""
    source, part = source_for(trained, data, "validation"), data.captions.validation
    count = min(LOOKED, len(part))
    written = write_all(
        captioner(trained), source, count, trained.metadata, trained.config.generation
    )
    looks = looks_of(trained, data, "validation", written)
    return choose_head(looks) if looks else None


def looks_of(
    trained: CaptionWriter, data: CaptionData, split: str, written: list[Written]
) -> list[Looks]:
    """The maps of captions that name things, and the boxes of those things."""
    source, found = source_for(trained, data, split), []
    layers = len(captioner(trained).blocks)
    for start in range(0, len(written), AT_ONCE):
        some = written[start : start + AT_ONCE]
        seen = source(slice(start, start + len(some)))
        maps = maps_of(captioner(trained), seen, some, trained.config, trained.metadata)
        for row, (text, looks) in enumerate(zip(some, maps, strict=True), start):
            targets = scene_targets(text.text, scene(row, split), text.entries)
            if targets:
                found.append(Looks(looks.astype(np.float64), targets, layers))
    return found


def summary(judged: Evaluation, split: str) -> str:
    """Lines for a terminal."""
    lines = [split]
    if judged.truth is not None:
        value, low, high = (f"{100 * x:.1f}" for x in judged.truth)
        lines.append(f"true of the scene  {value}%  ({low} to {high})")
    lines.append(scoring.summary(judged.scores))
    if judged.grounding is not None:
        lines.append(pointing.summary(judged.grounding))
    return "\n".join(lines)


def captioner(trained: CaptionWriter) -> Captioner:
    assert isinstance(trained.model, Captioner)
    return trained.model


def source_for(trained: CaptionWriter, data: CaptionData, split: str) -> Source:
    part = part_of(data, split)
    return source_of(trained.config, trained.metadata, part.images, torch.device(trained.device))
