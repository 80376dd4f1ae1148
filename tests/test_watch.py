"""Watching shows exactly what the model read, and changes nothing."""

import copy

import pytest
import torch

from golden import expect_error
from regard.attention import (
    KVCache,
    MultiHeadAttention,
    attend,
    causal,
    rope,
    trace_shapes,
    watch,
    window,
)
from regard.models import MLP, Block, ViT, ViTConfig


def vit(**fields: object) -> ViT:
    return ViT(
        ViTConfig(**{"width": 32, "layers": 3, "heads": 4, "image_size": 16, **fields})
    ).eval()


IMAGES = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def test_a_watched_model_gives_bit_identical_logits_and_gradients():
    model = vit(kv_heads=2, mask="neighborhood(1, (4, 4))")
    plain = model(IMAGES)
    with watch(model) as seen:
        watched = model(IMAGES)
    assert torch.equal(plain, watched)
    parameters = list(model.parameters())
    for a, b in zip(
        torch.autograd.grad(plain.sum(), parameters),
        torch.autograd.grad(watched.sum(), parameters),
        strict=True,
    ):
        assert torch.equal(a, b)
    assert list(seen) == [f"blocks.{i}.attention" for i in range(3)]


def test_rows_and_heads_asked_for_are_those_of_the_full_map():
    model = vit(kv_heads=2)
    with watch(model) as seen:
        model(IMAGES)
    layer = seen["blocks.1.attention"]
    full = layer.weights()
    assert full.shape == (2, 4, 17, 17)
    torch.testing.assert_close(full.sum(-1), torch.ones(2, 4, 17))
    torch.testing.assert_close(layer.weights(rows=[-1, 3]), full[:, :, [-1, 3]])
    torch.testing.assert_close(layer.weights(heads=[2, -1]), full[:, [2, -1]])
    torch.testing.assert_close(layer.weights(rows=[0], heads=[1]), full[:, [1]][:, :, [0]])


@pytest.mark.parametrize("expression", [None, "causal", "causal & (window(3) | sinks(1))"])
def test_recomputed_weights_times_v_reproduce_what_the_layer_read(expression):
    model = vit(mask=expression, pos_embed="rope")
    with watch(model) as seen:
        model(IMAGES)
    for layer in seen.values():
        assert layer.error() < 1e-6
        assert layer.error(rows=[0, 5]) < 1e-6
        again = torch.einsum("bhnm,bhme->bhne", layer.weights(), layer.call.v)
        torch.testing.assert_close(again, layer.output)


def test_the_proof_fails_when_another_attention_was_used():
    layer = MultiHeadAttention(16, 2, attention=lambda q, k, v, **_: v * 1.01)
    with watch(layer) as seen:
        layer(torch.randn(1, 5, 16))
    assert seen["MultiHeadAttention"].error() > 0.1


def test_watching_ends_with_the_block_even_after_an_error_and_nests():
    model = vit()
    with pytest.raises(ZeroDivisionError), watch(model):
        raise ZeroDivisionError
    assert not any(block.attention.observers for block in model.blocks)
    with watch(model) as outer:
        with watch(model) as inner:
            model(IMAGES)
        model(IMAGES)
    assert len(inner.calls("blocks.0.attention")) == 1
    assert len(outer.calls("blocks.0.attention")) == 2
    assert not any(block.attention.observers for block in model.blocks)


def test_watches_that_overlap_each_see_what_happened_while_they_were_open():
    model, first, second = vit(), None, None
    first_watch, second_watch = watch(model), watch(model)
    first, second = first_watch.__enter__(), second_watch.__enter__()
    first_watch.__exit__(None, None, None)
    model(IMAGES)
    second_watch.__exit__(None, None, None)
    model(IMAGES)
    assert len(first) == 0 and len(second.calls("blocks.0.attention")) == 1


def test_a_copy_of_a_watched_model_is_a_model_and_is_not_watched():
    model = vit()
    with watch(model):
        model(IMAGES)
        copied = copy.deepcopy(model)
    assert not any(block.attention.observers for block in copied.blocks)
    assert torch.equal(copied(IMAGES), model(IMAGES))


@pytest.mark.parametrize("asked", [{"rows": [99]}, {"rows": []}, {"heads": [-5]}, {"heads": []}])
def test_rows_and_heads_that_are_not_there_are_named_with_their_layer(asked):
    model = vit()
    with watch(model) as seen:
        model(IMAGES)
    with expect_error(ValueError):
        seen["blocks.0.attention"].weights(**asked)


def test_an_unknown_layer_is_named_beside_the_known_ones():
    with watch(MultiHeadAttention(8, 2)) as seen:
        pass
    with expect_error(KeyError):
        seen["blocks.9.attention"]
    with expect_error(ValueError), watch(torch.nn.Linear(1, 1)):
        pass


def test_only_the_layers_named_are_kept():
    model = vit()
    with watch(model, "blocks.2.attention") as seen:
        model(IMAGES)
    assert list(seen) == ["blocks.2.attention"]
    with watch(model, "blocks.[01].*") as seen:
        model(IMAGES)
    assert list(seen) == ["blocks.0.attention", "blocks.1.attention"]
    with expect_error(ValueError), watch(model, "blocks.7.*"):
        pass


def test_a_map_too_large_to_hold_is_refused_with_its_size_and_rows_are_not():
    layer = MultiHeadAttention(2, 1)
    with torch.no_grad(), watch(layer) as seen:
        layer(torch.randn(1, 20_000, 2))
    with expect_error(ValueError):
        seen["MultiHeadAttention"].weights()
    assert seen["MultiHeadAttention"].weights(rows=[7]).shape == (1, 1, 1, 20_000)


def test_every_step_of_a_cached_decoding_is_kept():
    layer, cache = (
        MultiHeadAttention(16, 2, pos_embed=rope(), mask=causal & window(4)),
        KVCache(size=12),
    )
    x = torch.randn(1, 10, 16)
    once = attend_weights(layer, x)
    with torch.no_grad(), watch(layer) as seen:
        for at in range(10):
            layer(x[:, at : at + 1], positions=range(at, at + 1), cache=cache)
    assert len(seen.calls("MultiHeadAttention")) == 10
    for at, call in enumerate(seen.calls("MultiHeadAttention")):
        torch.testing.assert_close(call.weights(), once[:, :, at : at + 1, : at + 1])


def test_steps_into_a_fixed_cache_stay_readable_after_their_slots_are_reused():
    mask = causal & window(3)
    layer, cache = MultiHeadAttention(16, 2, mask=mask), KVCache(size=4, keep=mask)
    x = torch.randn(1, 9, 16)
    once = attend_weights(layer, x)
    with torch.no_grad(), watch(layer) as seen:
        for at in range(9):
            layer(x[:, at : at + 1], positions=torch.tensor([at]), cache=cache)
    for at, step in enumerate(seen.calls("MultiHeadAttention")):
        weights, where = step.weights()[0, :, 0], step.call.k_pos
        for slot, position in enumerate(where.tolist()):
            want = once[0, :, at, position] if position >= 0 else torch.zeros(2)
            torch.testing.assert_close(weights[:, slot], want)


def test_positions_moved_on_in_place_do_not_change_what_was_seen_or_kept():
    mask = causal & window(2)
    layer, x = MultiHeadAttention(8, 2, mask=mask), torch.randn(1, 6, 8)
    with torch.no_grad():
        once = layer(x)
        for cache in (KVCache(), KVCache(size=6), KVCache(size=3, keep=mask), KVCache(keep=mask)):
            where, reads = torch.tensor([0]), []
            with watch(layer) as seen:
                for at in range(6):
                    reads.append(layer(x[:, at : at + 1], positions=where, cache=cache))
                    where += 1
            torch.testing.assert_close(torch.cat(reads, 1), once)
            assert all(step.error() < 1e-6 for step in seen.calls("MultiHeadAttention"))


def test_a_watched_prefill_outlives_the_decoding_that_overwrites_its_slots():
    mask = causal & window(2)
    layer, x, cache = (
        MultiHeadAttention(8, 2, mask=mask),
        torch.randn(1, 8, 8),
        KVCache(size=4, keep=mask),
    )
    with torch.no_grad(), watch(layer) as seen:
        layer(x[:, :4], positions=range(4), cache=cache)
        for at in range(4, 8):
            layer(x[:, at : at + 1], positions=torch.tensor([at]), cache=cache)
    assert all(step.error() < 1e-6 for step in seen.calls("MultiHeadAttention"))


def test_rollout_refuses_layers_that_read_a_cache():
    layer, x = MultiHeadAttention(8, 2, mask=causal), torch.randn(1, 3, 8)
    with torch.no_grad(), watch(layer) as seen:
        layer(x, positions=torch.tensor([2, 0, 1]), cache=KVCache(size=3))
    with expect_error(ValueError):
        seen.rollout()


def attend_weights(layer: MultiHeadAttention, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), watch(layer) as seen:
        layer(x)
    return seen["MultiHeadAttention"].weights()


def test_rollout_is_the_product_of_half_residual_half_mean_maps():
    model = vit(layers=2)
    with watch(model) as seen:
        model(IMAGES)
    first, last = (
        0.5 * torch.eye(17) + 0.5 * seen[f"blocks.{i}.attention"].weights().mean(1) for i in (0, 1)
    )
    torch.testing.assert_close(seen.rollout(), last @ first)
    torch.testing.assert_close(seen.rollout().sum(-1), torch.ones(2, 17))
    torch.testing.assert_close(seen.rollout(residual=1.0), torch.eye(17).expand(2, 17, 17))


def test_rollout_passes_over_layers_that_read_another_sequence():
    block = Block(
        MultiHeadAttention(8, 2),
        MLP(8, 8),
        cross=MultiHeadAttention(8, 2),
        norm=lambda: torch.nn.LayerNorm(8),
    )
    with watch(block) as seen:
        block(torch.randn(1, 4, 8), torch.randn(1, 6, 8))
    assert list(seen) == ["attention", "cross"]
    assert seen["cross"].weights().shape == (1, 2, 4, 6)
    own = 0.5 * torch.eye(4) + 0.5 * seen["attention"].weights().mean(1)
    torch.testing.assert_close(seen.rollout(), own)
    with watch(block.cross) as other:
        block.cross(torch.randn(1, 4, 8), torch.randn(1, 6, 8))
    with expect_error(ValueError):
        other.rollout()


def test_watching_a_compiled_model_costs_one_recompile_and_none_after(in_a_plain_process):
    in_a_plain_process(
        """
import torch
from torch._dynamo.testing import CompileCounter
from regard import ViT, ViTConfig, watch

model, count = ViT(ViTConfig(width=32, layers=2, heads=4, image_size=16)), CompileCounter()
compiled, images = torch.compile(model, backend=count, fullgraph=True), torch.randn(2, 3, 16, 16)
with torch.no_grad():
    plain = compiled(images)
    with watch(compiled) as seen:
        watched = [compiled(images) for _ in range(3)]
    compiled(images)
    with watch(compiled):
        compiled(images)
assert count.frame_count == 2, count.frame_count
torch.testing.assert_close(watched[0], plain)
assert list(seen) == ["blocks.0.attention", "blocks.1.attention"], list(seen)
assert len(seen.calls("blocks.1.attention")) == 1
assert seen["blocks.1.attention"].error() < 1e-6
"""
    )


def test_shapes_of_one_multi_head_call_are_those_of_the_live_tensors(capsys):
    steps = {step.name: list(step.shape) for step in trace_shapes()}
    assert steps["tokens"] == [1, 5, 768]
    assert steps["q per head"] == [1, 5, 12, 64]
    assert steps["map = softmax(β q kᵀ)"] == [1, 12, 5, 5]
    assert steps["out = to_out(z)"] == [1, 5, 768]
    assert "b h n m" in capsys.readouterr().out
    grouped = MultiHeadAttention(24, 6, kv_heads=2, attention=attend)
    steps = {
        s.name: list(s.shape) for s in trace_shapes(grouped, torch.randn(3, 7, 24), show=False)
    }
    assert steps["k and v per head"] == [3, 7, 2, 4]
    assert steps["z, heads side by side"] == [3, 7, 24]
    assert capsys.readouterr().out == ""
