"""What a report shows of a captioner, and where it looked when it wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from regard.data.synthetic.scenes import scene
from regard.errors import UserError
from regard.evaluation.bootstrap import Interval
from regard.evaluation.captions import best, worst
from regard.evaluation.grounding import Grounding, Head, scene_targets
from regard.tasks.caption.data import CaptionData, part_of
from regard.tasks.caption.loss import truths
from regard.tasks.caption.metrics import CaptionWriter, Evaluation, captioner
from regard.tasks.caption.predict import seen_of, written
from regard.tasks.caption.writing import maps_of, words_shown
from regard.tasks.image_inputs import Picture
from regard.tasks.several import expect_one, few_names
from regard.tasks.task import Looked
from regard.visualization.document import Document, Section, packed, png_uri
from regard.visualization.figure_caption import caption_figure

SHOWN = 12  # of the best, and of the worst
MAP_WORDS = (
    "Point at a word, or move with the arrow keys, to see where the decoder looked when it wrote "
    "it. Maps are recomputed from the queries and keys of the same words; the mean is over all "
    "layers and heads. Of a word that was written in pieces, the map is that of the first."
)


def views(
    trained: CaptionWriter, data: CaptionData, split: str, judged: Evaluation
) -> list[Section]:
    """The sections of a report that only a captioner has."""
    if (count := len(part_of(data, split))) != judged.scores.count:
        raise UserError(
            f"{split} has {count:,} images by now, and figures of it are of "
            f"{judged.scores.count:,}: evaluate it again"
        )
    sections: list[Section] = [
        {
            "view": "figures",
            "title": f"On {split}",
            "words": f"{judged.scores.count:,} images of {split}; 95% intervals over the choice "
            "of images. METEOR-lite is not METEOR, and lies about a point below it.",
            "data": {"items": headline(judged)},
        }
    ]
    if judged.grounding is not None:
        sections.append(grounding_section(judged.grounding))
    for title, rows in gallery(judged, split).items():
        if len(rows):
            sections.append(
                {
                    "view": "captions",
                    "title": title,
                    "words": MAP_WORDS,
                    "data": {"items": items_of(trained, data, split, judged, rows)},
                }
            )
    return sections


def gallery(judged: Evaluation, split: str) -> dict[str, Sequence[int]]:
    """Which captions to show: of scenes false ones and true ones, else the best and the worst."""
    if judged.truth is None:
        return {
            "Best captions": [int(row) for row in best(judged.scores, SHOWN)],
            "Worst captions": [int(row) for row in worst(judged.scores, SHOWN)],
        }
    right = truths(judged.captions, split)
    return {
        "Captions that are not true": [int(row) for row in np.flatnonzero(right == 0)[:SHOWN]],
        "Captions that are true": [int(row) for row in np.flatnonzero(right == 1)[:SHOWN]],
    }


def headline(judged: Evaluation) -> list[dict[str, Any]]:
    def item(name: str, interval: Interval, unit: str = "%") -> dict[str, Any]:
        return {"name": name, "unit": unit, **interval._asdict()}

    items = [] if judged.truth is None else [item("true of the scene", judged.truth)]
    items += [
        item(name, interval, "" if name == "CIDEr-D" else "%")
        for name, interval in judged.scores.figures.items()
    ]
    return items


def grounding_section(found: Grounding) -> Section:
    aims = {"attention": found.attention, "uniform": found.uniform, "shuffled": found.shuffled}
    return {
        "view": "figures",
        "title": "Did it look at what it named?",
        "words": f"{found.words:,} words that name one thing, in {found.captions:,} captions; "
        f"{found.head}, chosen on validation. Pointing: the patch that was read most lies in the "
        "thing's box. Inside: the share of attention in the box. Beside it, attention that is "
        "spread evenly, and that of another word.",
        "data": {
            "items": [
                {"name": f"{what}, {name}", "unit": "%", **getattr(aim, key)._asdict()}
                for what, key in (("pointing", "pointing"), ("inside", "mass"))
                for name, aim in aims.items()
            ]
        },
    }


def items_of(
    trained: CaptionWriter,
    data: CaptionData,
    split: str,
    judged: Evaluation,
    rows: Sequence[int],
) -> list[dict[str, Any]]:
    part = part_of(data, split)
    pictures = [Picture(f"{split}:{row}", np.asarray(part.images[row])) for row in rows]
    notes = [f"CIDEr-D {judged.scores.per_image['CIDEr-D'][row]:.2f}" for row in rows]
    head = None if judged.grounding is None else judged.grounding.head
    items = caption_items(trained, pictures, notes=notes, chosen=head)
    for item, row in zip(items, rows, strict=True):
        item["references"] = list(part.captions[row])
        if data.drawn:
            item["boxes"] = boxes_of(item["words"], split, row)
    return items


def boxes_of(words: Sequence[str], split: str, row: int) -> list[dict[str, Any]]:
    """The box of the thing that each word names, where it names one."""
    targets = scene_targets(" ".join(words), scene(row, split), words)
    return [{"word": word, "box": list(box)} for word, box in targets]


def caption_items(
    trained: CaptionWriter,
    pictures: Sequence[Picture],
    *,
    notes: Sequence[str] = (),
    chosen: Head | None = None,
) -> list[dict[str, Any]]:
    """What the view named captions shows of each picture."""
    if not pictures:
        return []
    seen = seen_of(trained, pictures)
    texts = written(trained, seen)
    maps = maps_of(captioner(trained), seen, texts, trained.config, trained.metadata)
    items = []
    for at, (picture, text) in enumerate(zip(pictures, texts, strict=True)):
        words, places = words_shown(text, trained.metadata)
        names, every = with_means(trained, maps[at][:, places], chosen)
        items.append(
            {
                "name": picture.name,
                "image": png_uri(picture.shown()),
                "words": list(words),
                "references": [] if picture.truth is None else [picture.truth],
                "note": notes[at] if notes else None,
                "grid": list(every.shape[-2:]),
                "heads": names,
                "maps": packed(every),
            }
        )
    return items


def with_means(
    trained: CaptionWriter,
    maps: Float[np.ndarray, "heads words rows columns"],
    chosen: Head | None,
) -> tuple[list[str], Float[np.ndarray, "views words rows columns"]]:
    """The head that points best first, if it is known; then the mean; then every head."""
    layers = len(captioner(trained).blocks)
    heads = len(maps) // layers
    names = [f"layer {at // heads + 1}, head {at % heads + 1}" for at in range(len(maps))]
    views, first = [maps.mean(0)], ["mean of all"]
    if chosen is not None:
        views.insert(0, maps[chosen.among(len(maps), layers)].mean(0))
        first.insert(0, f"{chosen}, which points best")
    return [*first, *names], np.concatenate([np.stack(views), maps])


def look(
    trained: CaptionWriter, pictures: Sequence[Picture], data: Callable[[], CaptionData]
) -> Looked:
    """The caption of each picture, and where the model looked at every word of it."""
    if not pictures:
        raise UserError("there is no image to look at")
    document: Document = {
        "title": "Where it looked, word by word",
        "subtitle": few_names([picture.name for picture in pictures]),
        "sections": [
            {
                "view": "captions",
                "title": "Captions",
                "words": MAP_WORDS,
                "data": {"items": caption_items(trained, pictures)},
            }
        ],
    }

    def draw(path: Path) -> None:
        expect_one(path, len(pictures), "image")
        seen = seen_of(trained, pictures)
        texts = written(trained, seen)
        (maps,) = maps_of(captioner(trained), seen, texts, trained.config, trained.metadata)
        words, places = words_shown(texts[0], trained.metadata)
        caption_figure(pictures[0].shown(), words, maps[:, places], path, caption=pictures[0].name)

    return Looked(document, draw)
