"""Deleting patches one at a time: batches say what the plain loop says, and can be ended."""

import numpy as np
import pytest
import torch

from golden import expect_error
from regard.inspection import occlusion as deletion
from regard.inspection.occlusion import Occlusion, patch_falls

IMAGE = torch.rand(3, 6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def score(images):
    """Two shares that hang on every pixel, each on others."""
    light = torch.linspace(-1, 1, images[0].numel(), dtype=torch.float64)
    flat = images.flatten(1)
    return torch.stack([(flat @ light).sigmoid(), (flat.square() @ light).sigmoid()], -1)


def by_hand(image, rows, columns):
    """Patch after patch: the mean colour is written into a copy, and the model is asked."""
    tall, wide = image.shape[1] // rows, image.shape[2] // columns
    found = np.zeros((2, rows, columns))
    for row in range(rows):
        for column in range(columns):
            copy = image.clone()
            for channel in range(3):
                part = copy[channel, row * tall : (row + 1) * tall]
                part[:, column * wide : (column + 1) * wide] = float(image[channel].mean())
            found[:, row, column] = (score(image[None]) - score(copy[None]))[0]
    return found


@pytest.mark.parametrize("batch", [1, 5, 100])
@pytest.mark.parametrize("grid", [(3, 4), (1, 2), (6, 1)], ids=str)
def test_batches_of_deleted_patches_are_what_the_plain_loop_gives(grid, batch, monkeypatch):
    monkeypatch.setattr(deletion, "BATCH", batch)
    found = patch_falls(score, IMAGE, grid)
    np.testing.assert_allclose(found, by_hand(IMAGE, *grid), atol=1e-12)
    assert (found > 0).any() and (found < 0).any()  # some patches speak against the answer


def test_it_tells_how_far_it_is_and_what_that_raises_ends_the_work(monkeypatch):
    monkeypatch.setattr(deletion, "BATCH", 5)
    told, asked = [], []
    patch_falls(score, IMAGE, (3, 4), tell=lambda done, of: told.append((done, of)))
    assert told == [(0, 12), (5, 12), (10, 12), (12, 12)]

    def enough(done, of):
        if done:
            raise InterruptedError

    def counted(images):
        asked.append(len(images))
        return score(images)

    with pytest.raises(InterruptedError):
        patch_falls(counted, IMAGE, (3, 4), tell=enough)
    assert asked == [1, 5]  # the whole image and one batch


def test_a_grid_that_does_not_fit_is_refused_and_values_are_plain():
    with expect_error(ValueError):
        patch_falls(score, IMAGE, (4, 4))
    falls = Occlusion(("cat",), np.array([0.5]), np.array([[[0.25, -0.125]]]))
    assert falls.to_values() == {
        "names": ["cat"],
        "whole": [0.5],
        "grid": [1, 2],
        "falls": [[0.25, -0.125]],
    }
