"""A class token, one linear layer, softmax: how a ViT says what an image shows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from regard.lab.claim import Claim
from regard.lab.claims.epochs import task_with
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most, equal
from regard.lab.figures import bars
from regard.lab.question import Question
from regard.lab.records import provenance, recorded
from regard.models import ViT, ViTConfig
from regard.run_folder import epochs_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.runs.run import Run

SEEDS = 3
ROUNDING = 1e-12


def measure(images: int = 8, width: int = 32, seed: int = 0) -> Evidence:
    """What scores are made of, on a model built here; how good they get is recorded.

    Args:
        images: random images that the model reads.
        width: numbers in a token.
        seed: where weights and images start.
    """
    enough(images=(images, 1))
    found = recorded("cls-readout")
    own = [row["cls"] for row in found["rows"]]
    of_mean = [row["mean"] for row in found["rows"]]
    borrowed = [row["borrowed"] for row in found["rows"]]
    tested = found["rows"][0]["tested"]

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = ViTConfig(image_size=8, patch_size=2, channels=1, width=width, layers=2, heads=4)
        model = ViT(config).double().eval()
        for weight in model.parameters():
            nn.init.normal_(weight, std=0.3)  # also those that start at 0 or at 1
        seen = torch.randn(images, 1, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        scores, tokens = model(seen), model.features(seen)
        assert isinstance(model.head, nn.Linear)
        read = F.linear(tokens[:, -1], model.head.weight, model.head.bias)
        averaged = F.linear(tokens[:, :-1].mean(1), model.head.weight, model.head.bias)
        shares = scores.softmax(-1)
        elsewhere = tokens.clone()
        elsewhere[:, :-1] += 1.0
        moved = model.head(model.pool(elsewhere)) - scores
    behind = mean(of_mean) - mean(own)
    return Evidence(
        deciding=f"class token {mean(own):.1%}, mean of patches {mean(of_mean):.1%}",
        written=(
            at_most(
                "scores against a linear layer on the class token", far(scores, read), ROUNDING
            ),
            equal("how far patches move scores after the last block", far(moved, 0 * moved), 0),
            at_most(
                "shares of the classes: their sum against 1", far(shares.sum(-1), 1.0), ROUNDING
            ),
            at_least("class token: test accuracy, the worst seed", min(own), 0.95),
            at_most("behind the mean of patches with a head of its own", behind, 0.02),
        ),
        controls=(
            at_most("scores against the same layer on the mean", far(scores, averaged), ROUNDING),
            at_least("a head that is given what it was not fitted to", max(borrowed), 0.95),
        ),
        series={
            "class token": own,
            "mean of patches": of_mean,
            "mean of patches, with the head of the class token": borrowed,
        },
        notes=(
            f"On digits, {found['rows'][0]['epochs']} epochs each, the mean is ahead by "
            f"{100 * behind:.1f} points: by {behind * tested:.1f} of {tested} images, and by "
            f"{found['seeds']} seeds that is not to be told from chance.",
            provenance(found),
        ),
    )


def far(ours: torch.Tensor, wanted: torch.Tensor | float) -> float:
    return float((ours - wanted).abs().max())


def train(device: str) -> dict[str, Any]:
    """The small ViT on digits by its recipe, read off the class token and off the mean."""
    from regard.hardware.device import choose_device
    from regard.hardware.machine import machine
    from regard.runs.sweep import trained

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(SEEDS):
            row: dict[str, Any] = {"seed": seed}
            for pool in ("cls", "mean"):
                changes = {"model.pool": pool, "train.seed": seed}
                run = trained(task_with("digits"), "digits", changes, device, Path(folder))
                row |= {pool: right(run), "epochs": epochs_in(run.metrics)}
                if pool == "cls":
                    row |= {"borrowed": right(run, borrowed=True)}
                    row |= {"tested": len(run.data.images.test)}
            rows.append(row)
    return {
        "command": "regard lab cls-readout --train",
        **machine(choose_device(device)),
        "seeds": SEEDS,
        "rows": rows,
    }


def right(run: Run, *, borrowed: bool = False) -> float:
    """The share of test images told rightly; `borrowed`: by a head that is given patches' mean."""
    from regard.runs.record import headline

    if borrowed:
        vars(run.model)["pool"] = lambda tokens: tokens[:, :-1].mean(1)
    return headline(run.task.evaluate(run.trained, run.data, "test"))


def plot(evidence: Evidence) -> Figure:
    names = {
        "class token": "class token",
        "mean of patches": "mean of patches",
        "mean of patches, with the head of the class token": "mean, by the other's head",
    }
    return bars(
        {words: round(100 * mean(evidence.series[key]), 1) for key, words in names.items()},
        title="Either read-out works with a head that was fitted to it",
        up="accuracy on test, %",
        about="The small ViT on digits, mean of three seeds.",
    )


def ask(numbers: np.random.Generator) -> Question:
    width, classes = int(numbers.choice([64, 128, 192, 768])), int(numbers.integers(5, 101))
    return Question(
        f"A ViT of width {width} tells {classes} classes apart by a linear layer with biases on "
        "its class token. How many parameters have the token and the layer together?",
        float(width + width * classes + classes),
        tolerance=0.0,
        why=f"${width} + {width} \\cdot {classes} + {classes}$",
    )


CLAIM = Claim(
    id="cls-readout",
    source="B 1.5d",
    statement="A ViT tells classes by a class token, a linear layer on it, and softmax.",
    verdict="holds",
    truth="After the last block nothing but the class token is read. The mean of the patches does "
    "as well on the same budget, if it has a head of its own: with the class token's head it is "
    "wrong in a third of the images.",
    measure=measure,
    plot=plot,
    ask=ask,
    train=train,
)
