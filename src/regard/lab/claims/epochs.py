"""10, 30 or 50 epochs: training always looks better with more of them, unseen images need not."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import UserError
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question
from regard.lab.records import provenance, recorded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BUDGETS = (10, 30, 50)
LONGEST = max(BUDGETS)
SEEDS = 3
SHOWN = 2.0  # standard errors that count as a gain
EARLY = 5  # epochs in which nothing has settled yet
# As the coursework trains: images as they are, Adam at one rate from the first step to the last.
# Such a run of 10 epochs is the beginning of one of 50.
BARE: Mapping[str, Any] = {
    "augment.mixup_alpha": 0.0,
    "train.grad_clip": 0.0,
    "train.optimizer.lr": 1e-3,
    "train.optimizer.weight_decay": 0.0,
    "train.lr_schedule.name": "constant",
    "train.lr_schedule.warmup_ratio": 0.0,
}
CURVES = {  # what a run measures after each epoch, and what it is called here
    "train_eval/accuracy": "accuracy on training images",
    "val/accuracy": "accuracy on unseen images",
    "train_eval/loss": "loss on training images",
    "val/loss": "loss on unseen images",
}


def measure(budgets: tuple[int, ...] = (10, 30, 50)) -> Evidence:
    """Recorded curves on training images and on images of test, read at several budgets.

    Args:
        budgets: epochs that are compared, from few to many, at most 50.
    """
    if len(budgets) < 2 or list(budgets) != sorted({*budgets}) or budgets[0] < 2:
        raise UserError(f"budgets {listed(budgets)}: at least two, from 2 on, each above the last")
    if budgets[-1] > LONGEST:
        raise UserError(f"budgets {listed(budgets)}: {LONGEST} epochs are recorded, and no more")
    found = recorded("epochs")
    curves = middles(found["runs"]["bare"][str(LONGEST)])
    accuracy, loss = curves["accuracy on unseen images"], curves["loss on unseen images"]
    learnt = curves["loss on training images"]
    # One standard error of a share of so many images: what it moves by less is not to be told.
    error = math.sqrt(max(accuracy) * (1 - max(accuracy)) / found["tested"])
    settled = 1 + next(
        at
        for at in range(LONGEST)
        if all(max(accuracy[now:]) - accuracy[now] <= error for now in range(at, LONGEST))
    )
    left = max(accuracy[settled - 1 :]) - accuracy[settled - 1]
    few, many = budgets[0], budgets[-1]
    ends = {b: [run[b - 1] for run in (accuracy, loss, learnt)] for b in budgets}

    def won(begin: int, end: int) -> float:
        """Accuracy on unseen images, in standard errors."""
        return (accuracy[end - 1] - accuracy[begin - 1]) / error

    by_recipe = [
        f"{mean(run['accuracy on unseen images'][-1] for run in runs):.1%} after {epochs}"
        for epochs, runs in found["runs"]["recipe"].items()
    ]
    return Evidence(
        deciding=f"after epoch {settled}: +{left:.1%}, error of {found['tested']} is {error:.1%}",
        inside=(
            at_least(
                f"epochs 1 to {settled}: accuracy won on unseen images, in standard errors",
                won(1, settled),
                SHOWN,
            ),
            at_most(
                f"loss on unseen images at epoch {settled}, of that at 1",
                loss[settled - 1] / loss[0],
                0.5,
            ),
            at_most(
                f"loss on training images at {many}, of that at {few}",
                ends[many][2] / ends[few][2],
                0.5,
            ),
            at_least(
                f"epoch {many}: loss on unseen images over that on training images",
                ends[many][1] / ends[many][2],
                2.0,
            ),
        ),
        outside=(
            at_least(
                f"epochs {few} to {many}: accuracy won on unseen images, in standard errors",
                won(few, many),
                SHOWN,
            ),
            at_least(f"epochs {settled} to {LONGEST}: the same", won(settled, LONGEST), SHOWN),
            at_most(
                f"loss on unseen images at {many}, of that at {few}",
                ends[many][1] / ends[few][1],
                0.5,
            ),
        ),
        controls=(
            # A curve that has not settled yet, and a model that has memorised nothing yet.
            at_most(
                f"epochs 1 to {EARLY}: accuracy won on unseen images, in standard errors",
                won(1, EARLY),
                SHOWN,
            ),
            at_least(
                "epoch 1: loss on unseen images over that on training images",
                loss[0] / learnt[0],
                2.0,
            ),
        ),
        series={
            "epochs": list(range(1, LONGEST + 1)),
            **curves,
            "settled": settled,
            "tested": found["tested"],
            "standard error": error,
        },
        notes=(
            f"From epoch {settled} on no accuracy is left to be won that {found['tested']} images "
            f"can show: the best mean, {max(accuracy):.2%} at epoch "
            f"{1 + accuracy.index(max(accuracy))}, is within one standard error.",
            f"The small ViT on digits as the coursework trains: Adam at 1e-3, images as they are; "
            f"means of {found['seeds']} seeds, and {found['tested']} unseen images, of which one "
            f"standard error is {error:.1%}.",
            "With mixup and a rate that goes down to 0 each budget is a run of its own: "
            f"{', '.join(by_recipe)} epochs, which differ by little more than that error.",
            provenance(found),
        ),
    )


def middles(runs: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """The mean of some runs, epoch by epoch."""
    return {
        words: [mean(values) for values in zip(*(run[words] for run in runs), strict=True)]
        for words in CURVES.values()
    }


def listed(budgets: Sequence[int]) -> str:
    return " ".join(map(str, budgets))


def train(device: str) -> dict[str, Any]:
    """The small ViT on digits: as the coursework trains it, and by its recipe."""
    from regard.hardware.device import choose_device
    from regard.hardware.machine import machine

    runs = {
        name: {
            str(budget): [
                curves(device, {**changes, "train.epochs": budget}, seed) for seed in range(SEEDS)
            ]
            for budget in budgets
        }
        for name, changes, budgets in (("bare", BARE, (LONGEST,)), ("recipe", {}, BUDGETS))
    }
    return {
        "command": "regard lab epochs --train",
        **machine(choose_device(device)),
        "seeds": SEEDS,
        "tested": tested(),
        "runs": runs,
    }


def curves(device: str, changes: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """What a run on digits measures after each epoch, on training images and on those of test."""
    import torch

    from regard.hardware.device import choose_device
    from regard.run_folder import RunFolder
    from regard.runs.sweep import configured
    from regard.tasks import find
    from regard.training.fit import train as go

    name, where = task_with("digits"), choose_device(device)
    task = find(name).load()
    steps = {"train.compile": "off", "train.cuda_graph": "off", "train.seed": seed}
    _, config = configured(name, "digits", {**changes, **steps})
    data = task.load_data(config)
    config = task.resolve(config, data)
    # Nothing is chosen by what is measured here: the last weights are kept, whatever comes.
    unseen = replace(data, images=replace(data.images, validation=data.images.test))
    figures = task.evaluate_quick(config, unseen, where)
    found: dict[str, list[float]] = {words: [] for words in CURVES.values()}

    def measure_both(model: torch.nn.Module) -> dict[str, float]:
        now = figures(model)
        for key, words in CURVES.items():
            found[words].append(float(f"{now[key]:.4g}"))
        return now

    with torch.random.fork_rng(devices=[]), tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(seed)
        model = task.build_model(config, data.metadata).to(where)
        objective = task.loss(config, data.metadata)
        batches = task.batches(config, data, where)
        go(model, batches, objective, measure_both, config.train, RunFolder(Path(folder)))
    return found


def tested() -> int:
    """Images of digits that are never trained on."""
    from regard.data.registry import read_images

    return len(read_images("digits").test)


def task_with(recipe: str) -> str:
    """The task that a recipe is for."""
    from regard.runs.recipe import recipes
    from regard.tasks import TASKS

    return next(task for task in TASKS if recipe in recipes(task))


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    training, unseen = (found[f"accuracy on {which} images"] for which in ("training", "unseen"))
    level = 100 * (max(unseen) - found["standard error"])
    losses = found["loss on training images"]
    return lines(
        found["epochs"],
        {
            "training images": [100 * value for value in training],
            "unseen images": [100 * value for value in unseen],
            "one standard error below their best": [level] * len(unseen),
        },
        title=f"After epoch {found['settled']}: no gain that {found['tested']} images can show",
        across="epoch",
        up="accuracy, %",
        log="x",
        about=f"The best mean is that of epoch {1 + unseen.index(max(unseen))}. From here to there "
        f"the training loss falls from {losses[found['settled'] - 1]:.1g} to {losses[-1]:.1g}.",
    )


def ask(numbers: np.random.Generator) -> Question:
    images, right = int(numbers.choice([100, 200, 400])), float(numbers.integers(80, 97)) / 100
    return Question(
        f"A model is right about ${round(right * images)}$ of ${images}$ unseen images. By how "
        "much must its accuracy rise to be two standard errors better?",
        2 * math.sqrt(right * (1 - right) / images),
        tolerance=0.02,
        why=f"$2 \\sqrt{{p (1 - p) / n}}$ with $p = {right}$ and $n = {images}$",
    )


CLAIM = Claim(
    id="epochs",
    source="A 3",
    statement="Over 10, 30 and 50 epochs the loss falls and accuracy rises, which suggests better "
    "predictions on unseen data, with a risk of overfitting.",
    verdict="depends",
    truth="More epochs make better predictions for as long as accuracy on unseen data rises: here "
    "for the first few. What is won after them is less than one standard error of the images at "
    "hand, though it need not be nothing, while the training loss goes on falling and tells "
    "nothing of unseen data.",
    measure=measure,
    plot=plot,
    ask=ask,
    train=train,
)
