"""The sections of a report that every task shares whose answers are classes."""

from __future__ import annotations

from typing import Any

from regard.evaluation.bootstrap import Interval
from regard.evaluation.classification import ClassificationMetrics
from regard.inspection.faithfulness import Faithfulness
from regard.inspection.word_faithfulness import WordFaithfulness
from regard.visualization.document import Section

SPLIT_WORDS = {
    "train": "that the model was trained on",
    "validation": "that it was not trained on, though its epoch or settings may be chosen by them",
    "test": "that it was not trained on, and by which nothing was chosen",
    "all": "of which it was trained on most",
}


def figures_section(
    judged: ClassificationMetrics, split: str, items: str, more: list[dict[str, Any]] | None = None
) -> Section:
    """The first section: how often it was right, and whether it knows."""
    known = SPLIT_WORDS.get(split, SPLIT_WORDS["test"])
    return {
        "view": "figures",
        "title": f"On {split}",
        "words": f"{judged.count:,} {items} {known}; 95% intervals.",
        "data": {"items": headline(judged) + (more or [])},
    }


def headline(judged: ClassificationMetrics) -> list[dict[str, Any]]:
    items = [item("accuracy", judged.accuracy)]
    if judged.top5 is not None:
        items.append(item("top-5 accuracy", judged.top5))
    return [
        *items,
        item("calibration error", judged.calibration.error),
        item("loss", judged.loss, ""),
    ]


def item(name: str, interval: Interval, unit: str = "%") -> dict[str, Any]:
    """One figure with its interval."""
    return {"name": name, "unit": unit, **interval._asdict()}


def class_sections(
    judged: ClassificationMetrics, classes: tuple[str, ...], thing: str, items: str
) -> list[Section]:
    """Where it was wrong, class by class, and whether it knows: `thing` is what has a class."""
    values = judged.to_values()
    return [
        {
            "view": "confusion",
            "title": "Confusions",
            "words": f"A row is what {thing} is, a column what the model says.",
            "data": {"classes": list(classes), "counts": values["confusion"]},
        },
        {
            "view": "classes",
            "title": "By class",
            "words": "Recall: the share of each class that is recognised, with its 95% interval.",
            "data": {
                "items": items.capitalize(),
                "rows": [
                    {
                        "name": row["name"],
                        "count": row["count"],
                        "accuracy": row["accuracy"]["value"],
                        "low": row["accuracy"]["low"],
                        "high": row["accuracy"]["high"],
                    }
                    for row in values["per_class"]
                    if row["accuracy"] is not None
                ],
            },
        },
        {
            "view": "calibration",
            "title": "Calibration",
            "words": "Accuracy at each level of confidence. On the diagonal the two agree.",
            "data": values["calibration"],
        },
    ]


def faithfulness_sections(
    found: Faithfulness | WordFaithfulness, title: str, words: str, *, parts: str, verb: str
) -> list[Section]:
    """Whether what was read, or what carried the answer, mattered: `verb` is done to `parts`."""
    shares = next(iter(found.curves.values())).shares.tolist()
    charts: list[Section] = [
        {
            "view": "lines",
            "title": kind.capitalize(),
            "words": meant,
            "data": {
                "x": {"name": f"{parts} {done}", "values": shares, "unit": "%"},
                "y": {"name": "probability of the answer", "unit": "%"},
                "series": [
                    {"name": name, "values": getattr(curves, kind).tolist()}
                    for name, curves in found.curves.items()
                ],
            },
        }
        for kind, done, meant in (
            ("deletion", "deleted", "Lower is better: what mattered is missed."),
            ("insertion", verb, "Higher is better: what mattered suffices."),
        )
    ]
    head: Section = {
        "view": "figures",
        "title": title,
        "words": words,
        "data": {
            "items": [
                item(f"gain of {name} over random", interval)
                for name, interval in found.gain.items()
            ]
        },
    }
    return [head, *charts]
