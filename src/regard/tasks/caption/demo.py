"""The part of the tour that writes: scenes described in words, and where each word looked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard.runs.run import Run, train
from regard.tasks.caption.metrics import captioner
from regard.tasks.caption.predict import seen_of, written
from regard.tasks.caption.report import boxes_of
from regard.tasks.caption.writing import maps_of
from regard.visualization.figure_caption import caption_figure

SHOWN = 4  # captions that are read out


def demo(
    out: Path, say: Callable[[str], None], *, epochs: int | None, seed: int
) -> dict[str, Path]:
    """Train on scenes, test once, read out, draw; returns what was written, by what it is."""
    run = train(
        "caption",
        recipe="scenes-quick",
        epochs=epochs,
        root=out,
        train={"seed": seed},
        report=False,
    )
    judged = run.evaluate("test")
    say(run.task.summary(judged, "test: things in relations that training never showed"))
    for answer in run.predict(split="test", indices=range(SHOWN)):
        say(f"{answer.name}:  {answer.caption}")
    path = out / "caption.png"
    draw(run, path)
    return {"where each word looked": path, "the captions' report": run.report("test")}


def draw(run: Run, path: Path, row: int = 0) -> None:
    """A test scene, word by word, with the boxes of what the words name."""
    trained = run.trained
    pictures = [*run.items(split="test", indices=row)]
    seen = seen_of(trained, pictures)
    texts = written(trained, seen)
    (maps,) = maps_of(captioner(trained), seen, texts, trained.config, trained.metadata)
    words = texts[0].entries
    if words:
        boxes = boxes_of(words, "test", row)
        image, caption = pictures[0].shown(), f"Test scene {row}"
        caption_figure(image, words, maps, path, boxes=boxes, caption=caption)
