"""Two ways to a ViT that does not pay for every pair of patches, and what they cost in accuracy."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.attention import Mask, axial, dilated, grid_windows, neighborhood
from regard.count.flops import forward_flops
from regard.lab.claim import Claim
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_least, at_most, equal
from regard.lab.figures import lines
from regard.lab.question import Question
from regard.lab.records import experiment, provenance, recorded
from regard.models import DaViT, DaViTConfig, ViT, ViTConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PATCH, WIDTH = 4, 64
ERROR = 0.004  # one standard error of accuracies like these on 10,000 images
# The ViT of 140,618 parameters that was trained; DaViT's defaults are the model beside it.
SMALL: Mapping[str, Any] = {
    **{"image_size": 32, "patch_size": PATCH, "width": WIDTH, "layers": 5, "heads": 4},
    **{"mlp_width": 64, "bias": False, "head_hidden": (64, 64)},
}
MASKED = ("neighbourhood", "windows", "axial", "dilated")  # sparse, with softmax
RECOUNTED = ("full", *MASKED, "davit")


def measure(sides: tuple[int, ...] = (8, 16, 32), window: int = 4) -> Evidence:
    """FLOPs counted on models built here, and accuracies as they are recorded.

    Args:
        sides: patches along a side of the image, from few to many, over which costs grow.
        window: patches along a side of a window.
    """
    enough(sides=(sides, 2))
    found = recorded("cheaper-vit")
    by_choice = {row["choice"]: row for row in found["rows"]}
    full = by_choice["full"]
    anew = {name: recounted(name, by_choice[name]["words"]) for name in RECOUNTED}
    changed = [name for name, flops in anew.items() if flops != by_choice[name]["flops"]]
    lost = {name: mean(full["accuracy"]) - mean(row["accuracy"]) for name, row in by_choice.items()}

    ways: Mapping[str, Callable[[int], Mask | None]] = {
        "full": lambda side: None,
        "windows": lambda side: grid_windows(window, (side, side)),
        "axial": lambda side: axial((side, side)),
        "dilated": lambda side: dilated(8, 3) | neighborhood(0, (side, side)),
    }
    pairs: dict[str, list[float]] = {name: [] for name in ways}
    costs: dict[str, list[int]] = {name: [] for name in ways}
    for name, masked in ways.items():
        for side in sides:
            mask = masked(side)
            pairs[name].append(side**4 * (1.0 if mask is None else mask.density(side**2)))
            expression = None if mask is None else str(mask)
            config = ViTConfig(**{**SMALL, "image_size": PATCH * side, "mask": expression})
            costs[name].append(computed(config))
    whole = [side**4 * grid_windows(side, (side, side)).density(side**2) for side in sides]
    growth = {name: exponent(sides, counts) for name, counts in pairs.items()}
    left = {name: costs[name][-1] / costs["full"][-1] for name in ways}
    at_few = 4 * WIDTH * (64 + 1) ** 2 * SMALL["layers"] / full["flops"]
    flops = {name: row["flops"] / full["flops"] for name, row in by_choice.items()}
    speed = {n: row["items_per_second"] / full["items_per_second"] for n, row in by_choice.items()}
    fastest = max(speed[name] for name in MASKED)
    many = f"at {sides[-1] ** 2:,} patches"
    return Evidence(
        deciding=f"axial {-100 * lost['axial']:+.1f} points for {flops['axial']:.0%} of the FLOPs",
        answer=(
            equal("trained models whose FLOPs differ when counted anew", len(changed), 0),
            at_most("windows: exponent of pairs against patches", growth["windows"], 1.1),
            at_most("axial: exponent of pairs against patches", growth["axial"], 1.6),
            at_most(f"windows: share of full attention's FLOPs {many}", left["windows"], 0.4),
            at_most(f"axial: share of full attention's FLOPs {many}", left["axial"], 0.4),
            at_most("dilated: exponent of pairs against patches", growth["dilated"], 1.1),
            at_most(f"dilated: share of full attention's FLOPs {many}", left["dilated"], 0.4),
            # As accurate: within a standard error of the test images.
            at_most("axial: accuracy lost at 64 patches", lost["axial"], ERROR),
            at_most("neighbourhood: accuracy lost at 64 patches", lost["neighbourhood"], ERROR),
            at_most("windows: accuracy lost at 64 patches", lost["windows"], 0.01),
            at_least("dilated: accuracy lost at 64 patches", lost["dilated"], 0.01),
            at_most("sparse: images a second, of full attention's", fastest, 1.0),
            at_most("attention's share of the FLOPs at 64 patches", at_few, 0.3),
            at_least("DaViT: accuracy won", -lost["davit"], 0.03),
        ),
        controls=(
            at_most("full attention: exponent of pairs against patches", growth["full"], 1.6),
            at_most("a window of the whole image: exponent", exponent(sides, whole), 1.1),
            at_most(
                "windows: share of full attention's FLOPs at 64 patches", flops["windows"], 0.4
            ),
            at_most(
                "no patch chooses what it reads, channels do: accuracy lost", lost["channels"], 0.01
            ),
        ),
        series={
            "patches": [side**2 for side in sides],
            "FLOPs of a forward pass": costs,
            "exponents": growth,
            "accuracy": {name: mean(row["accuracy"]) for name, row in by_choice.items()},
            "FLOPs at 64 patches": {name: row["flops"] for name, row in by_choice.items()},
            "images a second": {name: row["items_per_second"] for name, row in by_choice.items()},
        },
        notes=(
            f"At 64 patches attention is {at_few:.0%} of the FLOPs, so no pattern can save more; "
            f"and on {found['device']} none trains faster: the best of the sparse ones at "
            f"{fastest:.2f} times the images/s of full attention.",
            f"DaViT, of as many parameters, wins {-100 * lost['davit']:.1f} points at "
            f"{flops['davit']:.2f} times the FLOPs and {speed['davit']:.2f} times the speed: "
            "better, and not cheaper.",
            f"Accuracies are means of {found['seeds']} seeds on 10,000 test images, for which one "
            f"standard error is about {ERROR}.",
            provenance(found),
        ),
    )


def recounted(name: str, words: str) -> int:
    """FLOPs of a model that was trained, built anew; the words of a sparse one are its mask."""
    if name == "davit":
        return computed(DaViTConfig())
    return computed(ViTConfig(**{**SMALL, "mask": words if name in MASKED else None}))


def computed(config: ViTConfig | DaViTConfig) -> int:
    """FLOPs of a forward pass for one image."""
    model = DaViT(config) if isinstance(config, DaViTConfig) else ViT(config)
    return forward_flops(
        model, torch.zeros(1, config.channels, config.image_size, config.image_size)
    )


def exponent(sides: Sequence[int], counts: Sequence[float]) -> float:
    """How a count grows with the number of patches, between the two largest grids."""
    patches = math.log(sides[-1] ** 2 / sides[-2] ** 2)
    return math.log(counts[-1] / counts[-2]) / patches


def train(device: str) -> dict[str, Any]:
    """Train every choice with three seeds on CIFAR-10; needs the data."""
    cheaper = experiment("cheaper_vit")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        cheaper.main(cheaper.Cheaper(device=device, seeds=3, record=path))
        return condensed(json.loads(path.read_text(encoding="utf-8")))


def condensed(found: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a file of results."""
    kept = ("choice", "words", "parameters", "flops", "items_per_second", "peak_bytes")
    rows = [
        {key: line[key] for key in kept if key in line}
        | {"accuracy": [r["accuracy"] for r in found["rows"] if r["choice"] == line["choice"]]}
        for line in found["summary"]
    ]
    about = ("command", "device", "torch", "commit", "date", "seeds")
    return {**{key: found[key] for key in about}, "rows": rows}


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        found["patches"],
        {
            name: [c / 1e6 for c in counts]
            for name, counts in found["FLOPs of a forward pass"].items()
        },
        title="What cheaper patterns save is little at 64 patches and most at 1,024",
        across="patches",
        up="MFLOP of a forward pass",
        log="xy",
        about="The ViT of width 64 and 5 layers; everything is counted, attention or not.",
    )


def ask(numbers: np.random.Generator) -> Question:
    side, window = int(numbers.choice([8, 16, 24, 32])), int(numbers.choice([2, 4, 8]))
    return Question(
        f"On a grid of ${side} \\times {side}$ patches each patch reads its own window of "
        f"${window} \\times {window}$. How many times fewer scores are computed than with full "
        "attention?",
        float(side**2 / window**2),
        why=f"each of ${side}^2$ patches reads ${window}^2$ others rather than ${side}^2$",
    )


CLAIM = Claim(
    id="cheaper-vit",
    source="E 12.8",
    statement="Devise two ways to cut the quadratic cost of the attention of a ViT.",
    verdict="answered",
    truth="Let a patch read its window, $O(N)$ pairs, or its row and its column, $O(N \\sqrt{N})$. "
    "On CIFAR-10 rows and columns are as accurate as full attention, windows lose less than a "
    "point and a dilated row more than one; with 64 patches there is little cost to cut, and none "
    "trains faster on a GPU.",
    measure=measure,
    plot=plot,
    ask=ask,
    train=train,
)
