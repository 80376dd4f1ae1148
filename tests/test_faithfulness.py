"""A map gains over chance exactly as far as it points at what the model needs."""

import json

import numpy as np
import pytest
import torch

from golden import expect_error
from regard.evaluation.bootstrap import Interval
from regard.inspection import faithfulness as module
from regard.inspection.faithfulness import area, check, faithfulness, follow, ranked, steps_of

ROWS, COLUMNS = 3, 4
IMAGES = torch.rand(40, 2, 6, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def needed(seed: int = 0) -> np.ndarray:
    """Four different patches of each image, and how much the model below needs each."""
    draw = np.random.default_rng(seed)
    values = np.zeros((len(IMAGES), ROWS * COLUMNS))
    for row in values:
        row[draw.choice(ROWS * COLUMNS, 4, replace=False)] = [4.0, 3.0, 2.0, 1.0]
    return values.reshape(-1, ROWS, COLUMNS)


def watermarked(values: np.ndarray) -> torch.Tensor:
    """Images whose needed patches are bright, by as much as they are needed, and the rest dark."""
    light = torch.from_numpy(values).repeat_interleave(2, 1).repeat_interleave(3, 2)[:, None]
    return (0.02 * IMAGES + light / 5).clamp(0, 1)


def brightness(images: torch.Tensor) -> torch.Tensor:
    """Two classes: bright patches, and none. It looks at nothing else."""
    light = 0.25 * images[:, 0] + 0.75 * images[:, 1]
    patches = light.unflatten(-1, (COLUMNS, 3)).unflatten(-3, (ROWS, 2)).mean((2, 4))
    bright = (patches.flatten(1) - 0.15).clamp(min=0).square().sum(-1)
    share = 1 - torch.exp(-4 * bright)
    return torch.stack((share, 1 - share), -1)


def test_the_true_order_gains_and_its_reverse_loses():
    truth = needed()
    chance = np.random.default_rng(7).random(truth.shape)
    orders = {"truth": truth, "reversed": -truth, "noise": chance}
    images = watermarked(truth)
    found = faithfulness(brightness, images, orders, baseline="black", rounds=500)
    assert list(found.gain) == ["truth", "reversed", "noise"] and found.images == 40
    assert found.gain["truth"].low > 0.2
    assert found.gain["reversed"].high < -0.2
    assert found.gain["noise"].low < 0 < found.gain["noise"].high
    assert abs(found.gain["noise"].value) < 0.05

    whole = brightness(images)[:, 0].mean().item()
    for curves in found.curves.values():
        np.testing.assert_allclose(curves.shares, np.arange(13) / 12)
        np.testing.assert_allclose(curves.deletion[[0, -1]], [whole, 0.0], atol=1e-12)
        np.testing.assert_allclose(curves.insertion[[0, -1]], [0.0, whole], atol=1e-12)


def slowly(images, values, *, baseline, counts):
    """The curves of one order, one image and one patch at a time."""
    b, _, y, x = images.shape
    deletion, insertion = np.zeros((2, b, len(counts)))
    for i in range(b):
        image = images[i]
        answer = int(brightness(image[None])[0].argmax())
        blank = torch.zeros_like(image)
        if baseline == "mean":
            for channel in range(len(image)):
                blank[channel] = image[channel].mean()
        order = sorted(range(ROWS * COLUMNS), key=lambda patch, i=i: -values[i].flat[patch])
        for j, count in enumerate(counts):
            covered, uncovered = image.clone(), blank.clone()
            for patch in order[:count]:
                row, column = divmod(patch, COLUMNS)
                at = (
                    slice(None),
                    slice(row * y // ROWS, (row + 1) * y // ROWS),
                    slice(column * x // COLUMNS, (column + 1) * x // COLUMNS),
                )
                covered[at], uncovered[at] = blank[at], image[at]
            deletion[i, j] = brightness(covered[None])[0, answer]
            insertion[i, j] = brightness(uncovered[None])[0, answer]
    return deletion, insertion


@pytest.mark.parametrize("baseline", ["mean", "black"])
@pytest.mark.parametrize("batch", [7, 4096], ids="batch={}".format)
def test_all_patches_at_once_are_what_one_at_a_time_gives(monkeypatch, baseline, batch):
    monkeypatch.setattr(module, "BATCH", batch)
    images, values = watermarked(needed()), np.random.default_rng(2).random((40, ROWS, COLUMNS))
    found = faithfulness(brightness, images, {"map": values}, baseline=baseline, steps=5, rounds=40)
    counts = [0, 2, 5, 7, 10, 12]
    deletion, insertion = slowly(images, values, baseline=baseline, counts=counts)
    np.testing.assert_allclose(found.curves["map"].shares, np.array(counts) / 12)
    np.testing.assert_allclose(found.curves["map"].deletion, deletion.mean(0), atol=1e-12)
    np.testing.assert_allclose(found.curves["map"].insertion, insertion.mean(0), atol=1e-12)

    # The areas again, by numpy's own rule, for the one number.
    random = found.curves["random"]
    shares = np.array(counts) / 12
    trapezoid = getattr(np, "trapezoid", None) or np.trapz
    saved = trapezoid(random.deletion, shares) - trapezoid(deletion.mean(0), shares)
    added = trapezoid(insertion.mean(0), shares) - trapezoid(random.insertion, shares)
    assert found.gain["map"].value == pytest.approx((saved + added) / 2, abs=1e-12)


def test_a_map_that_says_nothing_is_worth_nothing():
    """Equal values in reading order would look like a map of the top left."""
    truth = np.zeros((40, ROWS, COLUMNS))
    truth[:, 0] = [4.0, 3.0, 2.0, 1.0]  # what is needed comes first in reading order
    flat = faithfulness(
        brightness, watermarked(truth), {"flat": np.ones_like(truth)}, baseline="black", rounds=500
    )
    assert flat.gain["flat"].low < 0 < flat.gain["flat"].high


def test_the_answer_followed_is_the_models_own_in_the_whole_image():
    """A dark image's answer is the other class, and covering it with black changes nothing."""
    dark = 0.1 * IMAGES
    found = faithfulness(
        brightness, dark, {"map": needed()}, baseline="black", random_orders=1, rounds=40
    )
    np.testing.assert_allclose(found.curves["map"].deletion, 1.0)
    assert found.gain["map"] == (0, 0, 0)


def test_the_same_seed_gives_the_same_and_orders_do_not_touch_each_other():
    images, truth = watermarked(needed()), needed()
    ties = np.minimum(truth, 1.0)
    one = faithfulness(brightness, images, {"ties": ties}, seed=4, rounds=50)
    two = faithfulness(brightness, images, {"truth": truth, "ties": ties}, seed=4, rounds=50)
    other = faithfulness(brightness, images, {"ties": ties}, seed=5, rounds=50)
    assert one.gain["ties"] == two.gain["ties"] != other.gain["ties"]


def test_values_can_be_written_and_read_as_json():
    found = faithfulness(brightness, IMAGES, {"a": needed()}, steps=3, rounds=40)
    values = json.loads(json.dumps(found.to_values()))
    assert values["images"] == 40 and values["baseline"] == "mean"
    assert set(values["curves"]) == {"a", "random"}
    assert Interval(**values["gain"]["a"]) == found.gain["a"]
    assert values["curves"]["a"]["deletion"] == found.curves["a"].deletion.tolist()
    assert values["curves"]["a"]["shares"] == [0, 1 / 3, 2 / 3, 1]


def test_ranks_count_from_the_greatest_and_lots_decide_between_equals():
    values = np.array([[[0.1, 0.7], [0.7, 0.3]]])
    lots = np.array([[[0.0, 0.9], [0.2, 0.0]]])
    np.testing.assert_array_equal(ranked(values, lots), [[[3, 1], [0, 2]]])


@pytest.mark.parametrize(
    ("patches", "steps", "expected"),
    [(4, 0, [0, 1, 2, 3, 4]), (4, 9, [0, 1, 2, 3, 4]), (10, 4, [0, 2, 5, 8, 10]), (5, 1, [0, 5])],
)
def test_steps_are_one_a_patch_or_about_as_many_as_asked(patches, steps, expected):
    np.testing.assert_array_equal(steps_of(patches, steps), expected)


def test_the_area_under_a_line_is_that_of_its_trapezoid():
    shares = np.array([0.0, 0.1, 1.0])
    np.testing.assert_allclose(area(np.array([[1.0, 0.9, 0.0], [2.0, 2.0, 2.0]]), shares), [0.5, 2])


def test_no_gradient_is_kept():
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    graphs = []

    def noted(images):
        out = brightness(images * weight)
        graphs.append(out.requires_grad)
        return out

    faithfulness(noted, IMAGES, {"a": needed()}, steps=1, random_orders=1, rounds=40)
    assert graphs and not any(graphs)


@pytest.mark.parametrize(
    "changes",
    [
        {"images": IMAGES[:0]},
        {"orders": {}},
        {"orders": {"random": needed()}},
        {"orders": {"a": needed()[:3]}},
        {"orders": {"a": needed(), "b": needed()[:, :2]}},
        {"orders": {"a": needed() * np.nan}},
        {"orders": {"a": np.ones((40, 5, 4))}},
        {"steps": -1},
        {"random_orders": 0},
    ],
)
def test_what_does_not_fit_is_said_with_numbers(changes):
    asked = {"images": IMAGES, "orders": {"a": needed()}, "steps": 0, "random_orders": 5}
    with expect_error(ValueError):
        check(**{**asked, **changes})


@pytest.mark.parametrize(
    "model",
    [
        lambda images: images.mean((1, 2, 3)),
        lambda images: 3 * brightness(images) - 1,
        lambda images: brightness(images) * np.nan,
    ],
    ids=["no classes", "logits", "nan"],
)
def test_what_is_not_a_probability_is_refused(model):
    with expect_error(ValueError):
        faithfulness(model, IMAGES, {"a": needed()})


def test_one_image_alone_is_followed_as_among_others():
    images, values = watermarked(needed()), needed()
    rank = ranked(values, np.random.default_rng(0).random(values.shape))
    counts, answers = steps_of(12, 0), brightness(images).argmax(-1)
    blank = torch.zeros_like(images)
    among = follow(brightness, blank, images, answers, rank, counts)
    alone = follow(brightness, blank[:1], images[:1], answers[:1], rank[:1], counts)
    np.testing.assert_allclose(among[:1], alone)
