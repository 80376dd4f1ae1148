"""The part of the tour that learns: digits from files to a report, and proof that maps are true."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from regard.attention import watch
from regard.inspection.maps import image_maps
from regard.models.vit import ViT
from regard.runs.run import Run, train
from regard.tasks.classify.predict import predict
from regard.tasks.classify.report import prepared
from regard.tasks.image_inputs import Picture
from regard.visualization.figures import attention_over_images

CLOSE = 1e-5  # of the largest entry read: what float32 leaves between two ways to compute
ABOUT = (
    "Heads and mean: the last layer; rollout: all layers multiplied. What the class token read of "
    "itself is left out.\nTest images, the first of each class."
)


def demo(
    out: Path, say: Callable[[str], None], *, epochs: int | None, seed: int
) -> dict[str, Path]:
    """Train on digits, test once, prove, draw; returns what was written, by what it is."""
    run = train("classify", data="digits", epochs=epochs, root=out, train={"seed": seed})
    say(run.task.summary(run.evaluate("test"), "test, by which nothing was chosen"))
    pictures = one_of_each(run)
    prove(run, pictures, say)
    path = out / "attention.png"
    draw(run, pictures, path)
    return {"where the ViT looked": path, "the whole report": run.report("test")}


def one_of_each(run: Run) -> list[Picture]:
    """The first test image of every class."""
    test = run.data.images.test
    rows = [
        int(np.flatnonzero(test.labels == number)[0]) for number in range(len(run.metadata.classes))
    ]
    return [
        Picture(f"test:{row}", test.images[row], run.metadata.classes[test.labels[row]])
        for row in rows
    ]


def prove(run: Run, pictures: list[Picture], say: Callable[[str], None]) -> None:
    """What makes a map worth looking at: it shows the model that ran, not another one."""
    images = prepared(run.trained, pictures)
    with torch.no_grad():
        logits = run.model(images)
        with watch(run.model) as seen:
            watched = run.model(images)
    if not torch.equal(logits, watched):
        raise RuntimeError("the model gave other logits while it was watched")
    say("watching changed nothing: the logits are the same to the last bit")
    error = max(layer.error() for layer in seen.values())
    if error > CLOSE:
        raise RuntimeError(f"recomputed weights miss what a layer read by {error:.1e}")
    say(f"the maps shown were used: times v, they are what was read, to {error:.0e}")


def draw(run: Run, pictures: list[Picture], path: Path) -> Figure:
    """Ten digits in a row, and under each where its class token looked."""
    assert isinstance(run.model, ViT)
    maps = image_maps(run.model, prepared(run.trained, pictures))
    last = maps.heads[:, -1]
    views = {f"head {head + 1}": last[:, head] for head in range(last.shape[1])}
    views |= {"mean": last.mean(1), "rollout": maps.rollout}
    labels = [
        f"says {answer.classes[0]}" + ("" if answer.classes[0] == answer.truth else ",\nwrongly")
        for answer in predict(run.trained, pictures)
    ]
    return attention_over_images(
        np.stack([picture.pixels[0] for picture in pictures]) / np.float32(255),
        views,
        labels,
        path,
        title="Where the class token looked",
        caption=ABOUT,
    )
