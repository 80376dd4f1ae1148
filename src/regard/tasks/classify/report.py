"""What a report shows of a classifier, and where it looked at an image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.images import SPLITS, Split
from regard.errors import UserError
from regard.evaluation.classification import Answers, ClassificationMetrics, assess, mistakes
from regard.inspection.faithfulness import Faithfulness, faithfulness
from regard.inspection.maps import ImageMaps, image_maps
from regard.inspection.places import CHANNEL_WORDS, expect_places, has_places
from regard.models.davit import DaViT
from regard.models.vit import ViT
from regard.runs.session import parameters
from regard.tasks.classify.data import ClassifyData
from regard.tasks.classify.loss import scorer
from regard.tasks.classify.predict import Classifier, predict
from regard.tasks.classify.stages import WORDS as STAGE_WORDS
from regard.tasks.classify.stages import window_maps
from regard.tasks.image_data import shared
from regard.tasks.image_inputs import Picture
from regard.tasks.sections import class_sections, faithfulness_sections, figures_section
from regard.tasks.several import expect_one, few_names
from regard.tasks.task import Looked
from regard.visualization.document import Document, Section, packed, png_uri
from regard.visualization.figure_image import attention_figure

MISTAKES = 24  # shown in a report
FAITHFUL, FEWER = 64, 24  # images on which faithfulness is measured, and of a large model
LARGE = 20e6  # parameters times patches: about 5 ms an image on one core
STEPS, LOTS = 12, 3  # points of its curves after the first, and random orders to compare with
HEADS_WORDS = (
    "Attention to each patch, by layer and head. Rollout multiplies the maps of all layers. "
    "Maps are recomputed from the queries and keys of this forward pass."
)
FAITHFUL_WORDS = (
    "Patches are deleted, or inserted, most attended first, a hidden one in the image's mean "
    "colour; the probability of the predicted class is followed. An order that matters beats a "
    "random one: deletion falls sooner, insertion rises sooner. The gain is half the sum of both "
    "areas' distances from random."
)

Maps = dict[str, Any]  # of one picture, packed for the page


def judge(trained: Classifier, data: ClassifyData, split: str) -> ClassificationMetrics:
    """Accuracy and calibration on a split, with intervals."""
    return assess(answers_on(trained, data, split))


def answers_on(trained: Classifier, data: ClassifyData, split: str) -> Answers:
    part = part_of(data, split)
    logits = torch.from_numpy(scorer(part, trained.metadata, trained.device)(trained.model))
    return Answers(logits.softmax(-1).numpy(), part.labels, trained.metadata.classes)


def part_of(data: ClassifyData, split: str) -> Split:
    """The images of a split, or all there are."""
    if split not in (*SPLITS, "all"):
        raise UserError(f"no split {split!r}; there are {', '.join(SPLITS)} and all")
    part = data.images.whole() if split == "all" else data.images[split]
    if not len(part):
        raise UserError(f"{data.name} has no image in {split}")
    return part


def views(
    trained: Classifier, data: ClassifyData, split: str, judged: ClassificationMetrics
) -> list[Section]:
    """The sections of a report that only a classifier has."""
    return [
        figures_section(judged, split, "images"),
        *class_sections(judged, trained.metadata.classes, "an image", "images"),
        *mistakes_sections(trained, data, split),
        *mattered(trained, data, split),
    ]


def mistakes_sections(trained: Classifier, data: ClassifyData, split: str) -> list[Section]:
    part = part_of(data, split)
    rows = mistakes(answers_on(trained, data, split), MISTAKES)
    pictures = [
        Picture(f"{split}:{row}", part.images[row], trained.metadata.classes[part.labels[row]])
        for row in map(int, rows)
    ]
    return attention_sections(trained, pictures, "Most confident mistakes")


def attention_sections(
    trained: Classifier, pictures: Sequence[Picture], title: str
) -> list[Section]:
    """What was read of each picture: by the answer, or in each stage of a model that has some."""

    def section(title: str, words: str, maps: Sequence[Maps]) -> Section:
        items = attention_items(trained, pictures, maps)
        return {"view": "attention", "title": title, "words": words, "data": {"items": items}}

    if not has_places(trained.model):
        return [section(title, CHANNEL_WORDS, [{} for _ in pictures])]
    if not isinstance(trained.model, DaViT):
        whole = maps_of(trained, pictures) if pictures else None
        maps = (
            []
            if whole is None
            else [
                {"heads": packed(heads), "rollout": packed(rollout)}
                for heads, rollout in zip(whole.heads, whole.rollout, strict=True)
            ]
        )
        return [section(title, HEADS_WORDS, maps)]
    if not pictures:
        return [section(title, STAGE_WORDS, [])]
    stages = window_maps(trained.model, prepared(trained, pictures))
    return [
        section(
            f"{title}: stage {at + 1}, {heads.shape[-2]} × {heads.shape[-1]} tokens",
            "The same on a coarser grid." if at else STAGE_WORDS,
            [{"heads": packed(each)} for each in heads],
        )
        for at, heads in enumerate(stages)
    ]


def attention_items(
    trained: Classifier, pictures: Sequence[Picture], maps: Sequence[Maps]
) -> list[dict[str, Any]]:
    """What the view named attention shows of each picture."""
    if not pictures:
        return []
    answers = predict(trained, pictures)
    items = []
    for picture, answer, its in zip(pictures, answers, maps, strict=True):
        image = picture.shown()
        first = list(zip(answer.classes, answer.probabilities, strict=True))[:5]
        items.append(
            {
                "image": png_uri(image),
                "width": image.shape[1],
                "height": image.shape[0],
                "title": picture.name,
                "words": f"says {answer.classes[0]} ({answer.probabilities[0]:.1%})"
                + ("" if picture.truth is None else f", is {picture.truth}"),
                "answers": [{"name": name, "share": share} for name, share in first],
                "truth": picture.truth,
                **its,
            }
        )
    return items


def maps_of(trained: Classifier, pictures: Sequence[Picture]) -> ImageMaps:
    assert isinstance(trained.model, ViT)
    return image_maps(trained.model, prepared(trained, pictures))


def prepared(trained: Classifier, pictures: Sequence[Picture]) -> Float[Tensor, "b k y x"]:
    pixels = np.stack([picture.pixels for picture in pictures])
    return trained.metadata.inputs(shared(pixels).to(trained.device))


def measure_faithfulness(trained: Classifier, data: ClassifyData, split: str) -> Faithfulness:
    """Whether deleting what was most read hurts most, on some images of a split."""
    part = part_of(data, split)
    tokens = (trained.metadata.size // trained.config.model.patch_size) ** 2
    most = min(len(part), FAITHFUL if parameters(trained.model) * tokens < LARGE else FEWER)
    rows = np.unique(np.linspace(0, len(part) - 1, most).astype(np.int64))
    pictures = [Picture(str(row), part.images[row]) for row in map(int, rows)]
    maps = maps_of(trained, pictures)
    last = maps.heads[:, -1].mean(1)

    def probability(images: Float[Tensor, "b k y x"]) -> Float[Tensor, "b classes"]:
        with torch.no_grad():
            return trained.model(images).float().softmax(-1)

    return faithfulness(
        probability,
        prepared(trained, pictures),
        {"rollout": maps.rollout, "last layer": last},
        steps=min(tokens, STEPS),
        random_orders=LOTS,
    )


def mattered(trained: Classifier, data: ClassifyData, split: str) -> list[Section]:
    """Whether what was read of images mattered; a window does not say what the answer read."""
    if isinstance(trained.model, DaViT) or not has_places(trained.model):
        return []
    found = measure_faithfulness(trained, data, split)
    about = f"Measured on {found.images} images of {split}; above 0 is better than random."
    return faithfulness_sections(
        found,
        "Faithfulness",
        f"Did the patches with most attention matter? {about} {FAITHFUL_WORDS}",
        parts="patches",
        verb="shown",
    )


def look(
    trained: Classifier, pictures: Sequence[Picture], data: Callable[[], ClassifyData]
) -> Looked:
    """Where the model looked at each picture, and whether its data say that this mattered."""
    if not pictures:
        raise UserError("there is no image to look at")
    sections = attention_sections(trained, pictures, "Where it looked")
    if isinstance(trained.model, ViT) and has_places(trained.model):
        try:
            sections += mattered(trained, data(), "validation")
        except UserError as gone:  # the data may be on another machine
            sections[0]["words"] += f" Faithfulness was not measured: {gone}."
    document: Document = {
        "title": "Where it looked",
        "subtitle": few_names([picture.name for picture in pictures]),
        "sections": sections,
    }

    def draw(path: Path) -> None:
        if isinstance(trained.model, DaViT):
            raise UserError(
                f"{path}: the {len(trained.model.stages)} stages of a DaViT have a grid each, "
                "which one picture does not hold; look at it as .html"
            )
        expect_places(path, trained.model)
        expect_one(path, len(pictures), "image")
        maps, (answer,) = maps_of(trained, pictures), predict(trained, pictures)
        image = pictures[0].shown()
        attention_figure(
            image if image.ndim == 3 else np.repeat(image[..., None], 3, 2),
            maps.heads[0],
            maps.rollout[0],
            path,
            title=f"{answer.classes[0]}, {answer.probabilities[0]:.0%}",
            caption=pictures[0].name,
        )

    return Looked(document, draw)
