"""The sections of a report that every task shares whose answers are classes."""

from __future__ import annotations

from typing import Any

from regard.evaluate.bootstrap import Interval
from regard.evaluate.classification import Assessment
from regard.look.document import Section

SPLIT_WORDS = {
    "train": "that the model was trained on",
    "validation": "that it was not trained on, but by which its best epoch was chosen",
    "test": "that it was not trained on, and by which nothing was chosen",
    "all": "of which it was trained on most",
}


def figures_section(
    judged: Assessment, split: str, items: str, more: list[dict[str, Any]] | None = None
) -> Section:
    """The first section: how often it was right, and whether it knows."""
    known = SPLIT_WORDS.get(split, SPLIT_WORDS["test"])
    return {
        "view": "figures",
        "title": f"On {split}",
        "words": f"{judged.count:,} {items} {known}; 95% intervals.",
        "data": {"items": headline(judged) + (more or [])},
    }


def headline(judged: Assessment) -> list[dict[str, Any]]:
    items = [item("accuracy", judged.accuracy)]
    if judged.top5 is not None:
        items.append(item("among the first five", judged.top5))
    return [
        *items,
        item("calibration error", judged.calibration.error),
        item("loss", judged.loss, ""),
    ]


def item(name: str, interval: Interval, unit: str = "%") -> dict[str, Any]:
    """One figure with its interval."""
    return {"name": name, "unit": unit, **interval._asdict()}


def class_sections(judged: Assessment, classes: tuple[str, ...], thing: str) -> list[Section]:
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
            "words": "The share of each class that is recognised, with its bootstrap interval.",
            "data": {
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
                ]
            },
        },
        {
            "view": "calibration",
            "title": "Calibration",
            "words": "How often the model is right when it is so sure. The diagonal is honest.",
            "data": values["calibration"],
        },
    ]
