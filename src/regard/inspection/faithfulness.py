"""Whether a map points at what the model needs: hide patches and see what becomes of the answer.

    found = faithfulness(probability, images, {"rollout": maps.rollout})
    found.gain["rollout"]    Interval(value=0.12, low=0.10, high=0.14)

A picture of attention persuades whether it is true or not, so it is put to a test. *Deletion*
covers the patches that were read most first: the sooner the answer falls, the better the map.
*Insertion* starts from a blank image and uncovers them: the sooner the answer comes back, the
better (Petsiuk, Das and Saenko 2018, there for pixels). Patches in a random order go through the
same, and a map is worth what it gains over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.evaluation.bootstrap import Interval, bootstrap_of, mean_of

BATCH = 256  # images, or texts, that the model is shown at once

Probability = Callable[[Tensor], Tensor]  # images (b k y x) to probabilities (b classes)
Baseline = Literal["mean", "black"]


@dataclass(frozen=True)
class Curves:
    """The probability of the answer as a growing share of the patches is covered, or uncovered.

    A mean over images; `random` is a mean over its orders as well. Where texts are measured, for
    patches read words, which are deleted and put back.
    """

    deletion: Float[np.ndarray, "steps"]
    insertion: Float[np.ndarray, "steps"]
    shares: Float[np.ndarray, "steps"]


@dataclass(frozen=True)
class Faithfulness:
    """What each order of patches does to the answer, beside `random`, over some images.

    `gain` is the area that an order saves under deletion and adds under insertion, compared with
    random orders on the same image, halved: 0 is no better than chance, negative is worse, and no
    order can gain more than 1.
    """

    curves: Mapping[str, Curves]
    gain: Mapping[str, Interval]
    images: int
    baseline: Baseline = "mean"

    def to_values(self) -> dict[str, Any]:
        """The same as plain values, to be written as JSON."""
        return {
            "images": self.images,
            "baseline": self.baseline,
            **written(self.gain, self.curves),
        }


def faithfulness(
    probability: Probability,
    images: Float[Tensor, "b k y x"],
    orders: Mapping[str, Float[np.ndarray, "b rows columns"]],
    *,
    baseline: Baseline = "mean",
    steps: int = 0,
    random_orders: int = 5,
    seed: int = 0,
    rounds: int = 2000,
) -> Faithfulness:
    """Cover and uncover the patches of each image in each order, greatest first.

    `probability` is the model, up to its softmax; what is followed is the class it finds most
    probable in the whole image, be it right or wrong. Patches that an order values alike come in
    a random sequence. `steps` of about equal size are taken, one a patch when it is 0; each is a
    pass of the model over all images, twice for every order and every one of `random_orders`.

    A covered patch shows the image's own mean colour, or black (0). The two can disagree, even in
    the sign of a gain: where black is what images have between their strokes, it hides nothing.

    The interval of each gain comes from drawing the images anew, `rounds` times.
    """
    b = len(images)
    rows, columns = check(images, orders, steps, random_orders)
    counts = steps_of(rows * columns, steps)
    shares = counts / (rows * columns)

    chance = np.random.default_rng(seed)
    drawn = chance.random((random_orders, b, rows, columns))
    lots = chance.random((b, rows, columns))  # the same for every order: each stands for itself
    ranks = {name: [ranked(values, lots)] for name, values in orders.items()}
    ranks["random"] = [ranked(values, lots) for values in drawn]

    with torch.no_grad():
        blank = torch.zeros_like(images)
        if baseline == "mean":
            blank = images.mean((-2, -1), keepdim=True).expand_as(images)
        answers = in_batches(probability, images).argmax(-1)
        deletion, insertion = (
            {
                name: np.mean(
                    [follow(probability, first, rest, answers, rank, counts) for rank in several],
                    axis=0,
                )
                for name, several in ranks.items()
            }
            for first, rest in ((blank, images), (images, blank))
        )

    deleted, inserted = (
        {name: area(several, shares) for name, several in kind.items()}
        for kind in (deletion, insertion)
    )
    gain = gains(deleted, inserted, rounds=rounds, seed=seed)
    curves = {
        name: Curves(deletion[name].mean(0), insertion[name].mean(0), shares) for name in ranks
    }
    return Faithfulness(curves, gain, b, baseline)


def follow(
    probability: Probability,
    first: Float[Tensor, "b k y x"],
    rest: Float[Tensor, "b k y x"],
    answers: Int[Tensor, "b"],
    rank: Int[np.ndarray, "b rows columns"],
    counts: Int[np.ndarray, "steps"],
) -> Float[np.ndarray, "b steps"]:
    """The probability of each image's answer when so many patches show `first`, the others `rest`.

    Deletion has a blank image first, insertion has it as the rest.
    """
    b, rows, columns = rank.shape
    tall, wide = first.shape[-2] // rows, first.shape[-1] // columns
    places = torch.from_numpy(rank).to(first.device)
    ends = torch.from_numpy(counts).to(first.device)
    # Every pair of an image and a count is one image to show: as many at once as a batch holds.
    pairs = torch.arange(b * len(counts), device=first.device)
    found = []
    for part in pairs.split(BATCH):
        image, count = part // len(counts), ends[part % len(counts)]
        changed = places[image] < count[:, None, None]
        changed = changed.repeat_interleave(tall, -2).repeat_interleave(wide, -1)[:, None]
        shown = first[image].where(changed, rest[image])
        found.append(checked(probability(shown), len(part)).gather(1, answers[image, None]))
    return torch.cat(found).view(b, -1).cpu().double().numpy()


def gains(
    deletion: Mapping[str, Float[np.ndarray, "b"]],
    insertion: Mapping[str, Float[np.ndarray, "b"]],
    *,
    rounds: int,
    seed: int,
) -> dict[str, Interval]:
    """What each order gains over `random`, from the areas under its curves, one an item."""
    found = {}
    for name in (name for name in deletion if name != "random"):
        saved = deletion["random"] - deletion[name]
        added = insertion[name] - insertion["random"]
        # Not `bootstrap`, which would take gains that are all 0 for a proportion.
        found[name] = bootstrap_of(
            len(saved), mean_of((saved + added) / 2), rounds=rounds, seed=seed
        )
    return found


def written(gain: Mapping[str, Interval], curves: Mapping[str, Curves]) -> dict[str, Any]:
    """Gains and curves as plain values."""
    return {
        "gain": {name: interval._asdict() for name, interval in gain.items()},
        "curves": {
            name: {
                "shares": each.shares.tolist(),
                "deletion": each.deletion.tolist(),
                "insertion": each.insertion.tolist(),
            }
            for name, each in curves.items()
        },
    }


def ranked(
    values: Float[np.ndarray, "b *grid"], lots: Float[np.ndarray, "b *grid"]
) -> Int[np.ndarray, "b *grid"]:
    """The place of each patch, 0 for the greatest value; among equals the lot decides.

    Without lots a map that says nothing would be taken for one that reads from left to right.
    """
    b = len(values)
    keys = (lots.reshape(b, -1), -values.reshape(b, -1))  # the last key counts first
    return np.argsort(np.lexsort(keys), axis=-1).reshape(values.shape)


def steps_of(patches: int, steps: int) -> Int[np.ndarray, "steps"]:
    """How many patches have changed at each step, from none to all."""
    if not 0 < steps < patches:
        return np.arange(patches + 1)
    return np.linspace(0, patches, steps + 1).round().astype(np.int64)


def area(
    curves: Float[np.ndarray, "b steps"], shares: Float[np.ndarray, "steps"]
) -> Float[np.ndarray, "b"]:
    """The area under each curve, by the trapezoid rule."""
    return (curves[:, 1:] + curves[:, :-1]) @ np.diff(shares) / 2


def in_batches(
    probability: Probability, images: Float[Tensor, "b k y x"]
) -> Float[Tensor, "b classes"]:
    return torch.cat([checked(probability(part), len(part)) for part in images.split(BATCH)])


def checked(probabilities: Tensor, b: int, what: str = "images") -> Float[Tensor, "b classes"]:
    """What the model answered, if it is probabilities: logits would pass through unnoticed."""
    if probabilities.ndim != 2 or len(probabilities) != b:
        raise ValueError(
            f"probability gave shape {tuple(probabilities.shape)} for {b} {what}; it should give "
            f"({b}, classes)"
        )
    low, high = (float(end) for end in probabilities.aminmax())
    if not (low >= 0 and high <= 1 + 1e-3):  # bfloat16 rounds a sum up; NaN fails as well
        raise ValueError(
            f"probability gave numbers from {low:.3g} to {high:.3g}; a share lies in 0 … 1: "
            "end it with a softmax"
        )
    return probabilities


def check(
    images: Tensor, orders: Mapping[str, np.ndarray], steps: int, random_orders: int
) -> tuple[int, int]:
    """The grid that all orders share, if they fit the images."""
    b, _, y, x = images.shape
    if not b or not orders:
        raise ValueError(f"there are {b} images and {len(orders)} orders; at least 1 of each")
    if "random" in orders:
        raise ValueError("an order may not be called 'random', which is what it is compared with")
    if steps < 0 or random_orders < 1:
        raise ValueError(
            f"steps={steps} is at least 0, and random_orders={random_orders} at least 1"
        )
    grid = next(iter(orders.values())).shape[-2:]
    for name, values in orders.items():
        if values.shape != (b, *grid):
            raise ValueError(f"order {name!r} is {values.shape} and should be {(b, *grid)}")
        if np.isnan(values).any():
            raise ValueError(f"order {name!r} holds {np.isnan(values).sum()} NaN")
    rows, columns = grid
    if y % rows or x % columns:
        raise ValueError(
            f"an image of {y} × {x} pixels does not split into a grid of {rows} × {columns}"
        )
    return rows, columns
