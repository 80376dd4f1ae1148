"""How to make a ViT cheaper, and what that costs in accuracy: one recipe, attention exchanged.

    python -m benchmarks.experiments.cheaper_vit --workers 4 \\
        --record results/cheaper-cifar10-cuda.json

Every choice is trained by the same recipe with the same seeds; the images of test are read once a
run, with the weights that were best on validation. The sparse choices let a patch read about as
many others each, 12 to 18 of 64 on a grid of 8 × 8, so that they differ in which and not in how
many. DaViT is another model, of about as many parameters, trained alike by a recipe of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from regard.cli.parse import from_terminal
from regard.count.flops import forward_flops
from regard.errors import UserError
from regard.runs.processes import Row
from regard.runs.run import Run
from regard.runs.sweep import Choice, Compared, ComparisonOptions, compare_or_say, configured
from regard.runs.sweep_figure import Labels
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.classify.loss import scorer


@dataclass(frozen=True)
class Cheaper(ComparisonOptions):
    """How to make a ViT cheaper, and what that costs in accuracy."""

    recipe: str = "cifar10-small"
    """What all choices but DaViT are trained by."""
    patch_size: int | None = None
    """Side of a patch, if not the recipe's: a smaller one makes more tokens, not for DaViT."""


def choices(how: Cheaper) -> Mapping[str, Choice]:
    """What is compared, on the grid of the recipe."""
    shared = {} if how.epochs is None else {"train.epochs": how.epochs}
    sized = {} if how.patch_size is None else {"model.patch_size": how.patch_size}
    _, config = configured("classify", how.recipe, {**shared, **sized})
    assert isinstance(config, ClassifyConfig)
    if config.kind != "vit":
        raise UserError(f"recipe {how.recipe} trains a {config.kind}; name one for a ViT")

    def masked(mask: str) -> Choice:
        return Choice(how.recipe, {**shared, **sized, "model.mask": mask}, mask)

    def attending(name: str, words: str) -> Choice:
        return Choice(how.recipe, {**shared, **sized, "model.attention": name}, words)

    grid, (side, _) = str(config.model.grid), config.model.grid
    near, window = max(1, side // 4), max(1, side // 2)
    # All tokens must meet somewhere. A class token comes after the grid, and masks on a grid let it
    # read and be read freely: reaching 0 cells far, a neighbourhood is that and nothing else.
    # Without one, the first patch is made the meeting place.
    meeting = f"neighborhood(0, {grid})" if config.model.pool == "cls" else "global_tokens(1)"
    return {
        "full": Choice(how.recipe, {**shared, **sized}, "everything"),
        "neighbourhood": masked(f"neighborhood({near}, {grid})"),
        "windows": masked(f"grid_windows({window}, {grid})"),
        "axial": masked(f"axial({grid})"),
        # Steps of 3 visit all columns of a grid that 3 does not divide, as powers of 2.
        "dilated": masked(f"dilated({side}, 3) | {meeting}"),
        "linear": attending("linear", "everything, linear: elu + 1"),
        "learned": attending("linear(learned)", "everything, linear: learned features"),
        "channels": attending("channel", "channels of a head one another"),
        "davit": Choice(f"{config.data}-davit", shared, "windows and channels by turns, in stages"),
    }


def judged(run: Run) -> Row:
    """The share of held-out images that a run is right about, read once, and what it computes."""
    split = run.data.images[run.test_split]
    scores = scorer(split, run.metadata, run.device)(run.model)
    model = run.config.chosen
    image = torch.zeros(1, model.channels, model.image_size, model.image_size)
    kept = next(line for line in reversed(run.metrics) if line["is_best"])
    return {
        "accuracy": float((scores.argmax(-1) == split.labels).mean()),
        "split": run.test_split,
        "validation": float(kept["val/accuracy"]),
        "train": float(run.metrics[-1]["train_eval/accuracy"]),
        "flops": forward_flops(run.model, image),
    }


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


COMPARED = Compared(
    module="benchmarks.experiments.cheaper_vit",
    task="classify",
    choices=choices,
    judged=judged,
    labels=Labels(
        title="A ViT made cheaper",
        quality="test accuracy, %",
        deciding="accuracy",
        flops="MFLOP an image, forward",
        speed="images/s in training",
        shown=percent,
        scale=100.0,
        further={"validation": ("validation, %", percent)},
    ),
)


def main(how: Cheaper) -> None:
    compare_or_say(how, COMPARED)


if __name__ == "__main__":
    main(from_terminal(Cheaper, __doc__ or ""))
