"""Maps of an image are the weights its answer was read with, whatever the model is made of."""

import numpy as np
import pytest
import torch

from golden import expect_error
from regard.attention import PositionalEncoding, attend
from regard.inspection import maps as module
from regard.inspection.maps import evaluating, image_maps
from regard.models import ViT, ViTConfig


def vit(**fields: object) -> ViT:
    config = {
        "width": 32,
        "layers": 3,
        "heads": 4,
        "image_size": 16,
        "init": "xavier_uniform",
        **fields,
    }
    return ViT(ViTConfig(**config)).double().eval()


def pictures(*size: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.rand(3, 3, *size, generator=draw, dtype=torch.float64)


def weights_by_hooks(model, images):
    """Each layer's b h n n weights, from its projections alone: watch and Seen are not used."""
    kept, handles = {}, []
    for layer, block in enumerate(model.blocks):
        for name in ("to_q", "to_k"):
            projection = getattr(block.attention, name)

            def keep(_module, _inputs, out, key=(layer, name)):
                kept[key] = out

            handles.append(projection.register_forward_hook(keep))
    with torch.no_grad():
        model(images)
    for handle in handles:
        handle.remove()

    grid = (
        images.shape[-2] // model.config.patch_size,
        images.shape[-1] // model.config.patch_size,
    )
    positions = range(kept[0, "to_q"].shape[1])
    place: PositionalEncoding = model.pos_embed.resize(grid)
    mask = None if model.mask is None else model.mask.at(grid)(positions, positions)
    found = []
    for layer, block in enumerate(model.blocks):
        heads, groups = block.attention.heads, block.attention.groups
        q = kept[layer, "to_q"].unflatten(-1, (heads, -1)).transpose(1, 2)
        k = kept[layer, "to_k"].unflatten(-1, (groups, -1)).transpose(1, 2)
        q, k = place.rotate(q, k, positions, positions)
        found.append(attend(q, k, k, mask=mask).weights)
    return torch.stack(found, 1).numpy(), grid


def rollout_by_hand(weights):
    """Abnar and Zuidema's product, one image and one layer after the other."""
    n = weights.shape[-1]
    flows = []
    for image in weights:
        flow = np.eye(n)
        for layer in image:
            step = 0.5 * np.eye(n) + 0.5 * layer.mean(0)
            flow = step / step.sum(-1, keepdims=True) @ flow
        flows.append(flow)
    return np.stack(flows)


MODELS = {
    "plain": {},
    "groups": {"kv_heads": 2},
    "rope": {"pos_embed": "rope"},
    "mask": {"mask": "neighborhood(1, (4, 4))"},
    "all": {"kv_heads": 1, "pos_embed": "rope", "mask": "axial((4, 4)) | neighborhood(1, (4, 4))"},
}


@pytest.mark.parametrize("size", [(16, 16), (24, 16), (8, 32)], ids=str)
@pytest.mark.parametrize("pool", ["cls", "mean"])
@pytest.mark.parametrize("fields", MODELS.values(), ids=MODELS.keys())
def test_maps_are_the_weights_of_the_rows_that_the_answer_is_read_off(fields, pool, size):
    model, images = vit(pool=pool, **fields), pictures(*size)
    weights, grid = weights_by_hooks(model, images)
    maps = image_maps(model, images)
    assert maps.heads.shape == (3, 3, 4, *grid) and maps.rollout.shape == (3, *grid)
    assert (maps.layer_count, maps.head_count, maps.grid) == (3, 4, grid)

    flow = rollout_by_hand(weights)
    if pool == "cls":
        weights, flow = weights[..., -1, :-1], flow[..., -1, :-1]
    else:
        weights, flow = weights.mean(-2), flow.mean(-2)
    np.testing.assert_allclose(maps.heads, weights.reshape(maps.heads.shape), atol=1e-12)
    np.testing.assert_allclose(maps.rollout, flow.reshape(maps.rollout.shape), atol=1e-12)


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_what_one_patch_read_is_its_own_row(pool):
    model, images = vit(pool=pool), pictures(24, 16)
    weights, grid = weights_by_hooks(model, images)
    for patch in (0, 7, grid[0] * grid[1] - 1):
        maps = image_maps(model, images, patch=patch)
        row = (..., patch, slice(grid[0] * grid[1]))
        np.testing.assert_allclose(maps.heads, weights[row].reshape(maps.heads.shape), atol=1e-12)
        flow = rollout_by_hand(weights)[row].reshape(maps.rollout.shape)
        np.testing.assert_allclose(maps.rollout, flow, atol=1e-12)
    with expect_error(ValueError):
        image_maps(model, images, patch=24)


def test_what_the_class_token_reads_of_itself_is_left_out_and_not_made_up_for():
    images = pictures(16, 16)
    with_token = image_maps(vit(pool="cls"), images).heads.sum((-2, -1))
    without = image_maps(vit(pool="mean"), images).heads.sum((-2, -1))
    assert (with_token < 1).all() and (with_token > 0.5).all()
    np.testing.assert_allclose(without, 1)


def test_rows_of_the_grid_are_rows_of_the_image():
    """A token reads itself more than others where keys match queries: light up one patch."""
    model = vit(pool="mean", layers=1, heads=1, pos_embed="none")
    attention = model.blocks[0].attention
    with torch.no_grad():
        attention.to_k.weight.zero_()
        attention.to_k.bias.zero_()
        attention.to_q.weight.zero_()
        attention.to_q.bias.fill_(1.0)
        # A key is large where the patch is unlike the others: the norm sees its direction alone.
        model.patches.project.weight.zero_()
        model.patches.project.weight[0] = 1.0
        attention.to_k.weight[:, 0] = 1.0
    images = torch.zeros(1, 3, 8, 32, dtype=torch.float64)
    images[:, :, 4:8, 20:24] = 1.0  # row 1, column 5 of 2 × 8
    found = image_maps(model, images).heads[0, 0, 0]
    assert found.shape == (2, 8)
    assert np.unravel_index(found.argmax(), found.shape) == (1, 5)


def test_images_a_few_at_a_time_give_the_same_maps(monkeypatch):
    model, images = vit(), pictures(16, 16)
    whole = image_maps(model, images)
    monkeypatch.setattr(module, "ENTRIES", 1)
    sizes = []
    model.register_forward_pre_hook(lambda _model, inputs: sizes.append(len(inputs[0])))
    parts = image_maps(model, images)
    assert sizes == [1, 1, 1]
    np.testing.assert_allclose(parts.heads, whole.heads, atol=1e-12)
    np.testing.assert_allclose(parts.rollout, whole.rollout, atol=1e-12)


def test_fewer_images_are_taken_at_once_the_larger_they_are():
    model = vit()
    small, large = (module.images_at_once(model, (side, side)) for side in (4, 64))
    n = 64 * 64 + 1
    assert 1 <= large < small
    assert large * 4 * n * n <= module.ENTRIES or large == 1
    assert small * max(4 * 17 * 17, 4 * 3 * 17 * 32) <= module.ENTRIES


def test_a_model_is_left_as_it_was():
    model = vit(dropout=0.5, drop_path=0.5).train()
    model.blocks[1].eval()  # frozen, say
    before = [part.training for part in model.modules()]
    graphs = []
    model.register_forward_hook(lambda _model, _inputs, out: graphs.append(out.requires_grad))
    first, second = (image_maps(model, pictures(16, 16)) for _ in range(2))
    assert graphs == [False, False]
    np.testing.assert_array_equal(first.heads, second.heads)  # no dropout while looking
    assert [part.training for part in model.modules()] == before
    assert not any(block.attention.observers for block in model.blocks)
    with pytest.raises(ZeroDivisionError), evaluating(model):
        raise ZeroDivisionError
    assert [part.training for part in model.modules()] == before


def test_half_precision_is_given_in_numbers_that_numpy_has():
    maps = image_maps(vit(pool="mean").bfloat16(), pictures(16, 16).bfloat16())
    assert maps.heads.dtype == np.float32
    np.testing.assert_allclose(maps.heads.sum((-2, -1)), 1, atol=0.02)


def test_no_image_is_refused_with_its_number():
    with expect_error(ValueError):
        image_maps(vit(), pictures(16, 16)[:0])
