"""The training benchmark times like with like: one model, one loop, one set of images."""

import json
import math

import pytest
import torch
from torch import nn

from benchmarks import bench, training
from benchmarks import peers as vit_peers
from benchmarks.harness import count, interleave
from benchmarks.peers import ENCODER, PEERS, EncoderViT, Sought, check_fair, find_peers
from benchmarks.training import (
    MODELS,
    OURS,
    OURS_PLAIN,
    ShuffledImages,
    Subject,
    noise,
    plain_loop,
    regards_loop,
)
from golden import expect_error
from regard.data.augment import ImageBatch
from regard.models import ViT, ViTConfig
from regard.training.fit import Batches

CPU = torch.device("cpu")
TINY = ViTConfig(width=16, layers=2, heads=2, mlp_width=16)


def build(name: str, config: ViTConfig) -> nn.Module:
    try:
        return PEERS[name].find()(config)
    except ImportError as absent:
        pytest.skip(str(absent))


def test_the_training_benchmark_prints_rates_and_keeps_its_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(training, "MODELS", {"tiny": Subject(TINY, 8, {"cpu": [4]})})
    monkeypatch.setattr(training, "IMAGES", 100)
    bench("training", quick=True, device="cpu", out=tmp_path)
    printed = capsys.readouterr().out
    assert "images/s" in printed and OURS_PLAIN in printed and ENCODER in printed
    facts = json.loads((tmp_path / "bench-training-cpu.json").read_text(encoding="utf-8"))
    assert facts["command"] == "python -m benchmarks training --device cpu --quick"
    assert facts["dtype"] == "float32" and {"commit", "device", "date"} <= set(facts)
    (row,) = facts["rows"]
    who = set(row["images_per_second"])
    assert {OURS, OURS_PLAIN, ENCODER} <= who and who | set(facts["left_out"]) >= set(PEERS)
    assert row["images"] == 4 * 2 and row["parameters"][OURS] == count(ViT(TINY))
    for name, rate in row["images_per_second"].items():
        low, high = row["quartiles"][name]
        assert 0 < low <= rate <= high


def test_a_peer_that_is_not_installed_is_left_out_with_a_sentence(monkeypatch, tmp_path, capsys):
    def absent():
        raise ImportError("No module named 'someone'")

    monkeypatch.setattr(vit_peers, "PEERS", {"someone": Sought(absent, "pip install someone")})
    monkeypatch.setattr(training, "MODELS", {"tiny": Subject(TINY, 4, {"cpu": [4]})})
    monkeypatch.setattr(training, "IMAGES", 100)
    bench("training", quick=True, device="cpu", out=tmp_path)
    sentence = "someone is left out (No module named 'someone'): pip install someone"
    assert sentence in capsys.readouterr().out
    facts = json.loads((tmp_path / "bench-training-cpu.json").read_text(encoding="utf-8"))
    assert facts["left_out"] == {"someone": sentence}
    assert set(facts["rows"][0]["images_per_second"]) == {OURS, OURS_PLAIN}


def test_a_missing_library_is_an_import_error_and_nothing_else(monkeypatch):
    monkeypatch.setattr(vit_peers, "import_module", lambda name: __import__("no_such_library"))
    monkeypatch.setattr(vit_peers.util, "find_spec", lambda name: None)
    found, left_out = find_peers()
    assert set(found) == {ENCODER} and set(left_out) == {"transformers", "vit-pytorch"}
    assert "No module named 'vit_pytorch'" in left_out["vit-pytorch"]


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("size", MODELS)
def test_every_peer_is_nearly_the_same_model(name, size):
    config = MODELS[size].config
    wanted = count(ViT(config))
    if size == "140,618 parameters":
        assert wanted == 140_618
    model = build(name, config)
    check_fair(name, model, config, wanted)
    if config.bias and name != "vit-pytorch":  # which never has biases on q, k and v
        assert count(model) == wanted


def test_transformers_takes_the_fused_path():
    assert build("transformers", TINY).model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("head", [(), (12, 8)], ids=str)
def test_with_our_weights_torchs_encoder_computes_what_we_do(head):
    torch.manual_seed(0)
    config = ViTConfig(width=16, layers=2, heads=2, image_size=16, num_classes=5, head_hidden=head)
    ours, theirs = ViT(config).double(), EncoderViT(config).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.3)
    copy_weights(ours, theirs)
    images = torch.randn(3, 3, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(theirs(images), ours(images))


def test_both_loops_train_the_same_model_to_the_same_weights(tmp_path):
    config = ViTConfig(width=16, layers=2, heads=2, mlp_width=16, patch_size=8, bias=False)
    start, ours, plain = ViT(config), ViT(config), ViT(config)
    for model in (ours, plain):
        model.load_state_dict(start.state_dict())
    batches = ShuffledImages(*noise(40, CPU), 8)
    regards_loop(ours, batches, tmp_path / "run")()
    plain_loop(plain, batches, CPU)
    for (name, first), own, other in zip(
        start.named_parameters(), ours.parameters(), plain.parameters(), strict=True
    ):
        moved = (own - first).abs().max()
        assert moved > 1e-4, name  # five steps of about 1e-4 each
        assert (own - other).abs().max() < 0.02 * moved, name


def test_every_loop_sees_images_cropped_mirrored_and_centred():
    pixels = torch.arange(32, dtype=torch.uint8).mul(8).expand(64, 3, 32, 32)  # darker to the left
    model = Spy()
    loss, items = training.make_objective()(
        model, ImageBatch(pixels, torch.zeros(64, dtype=torch.int64), seed=0)
    )
    assert items == 64 and float(loss) == pytest.approx(64 * math.log(10))
    row = (model.seen[:, 0, 16] * 0.25 + 0.5) * 255
    mirrored = row[:, 8] > row[:, 24]
    assert 16 < int(mirrored.sum()) < 48
    first = row.where(~mirrored[:, None], row.flip(-1))[:, 16]
    assert set(first.round().int().tolist()) == {8 * column for column in range(12, 21)}


class Spy(nn.Module):
    """Keeps what it is shown, and knows nothing."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen = images
        return torch.zeros(len(images), 10)


def test_what_is_no_training_is_not_timed():
    model = ViT(TINY)
    nn.init.constant_(model.head.bias, math.nan)
    with expect_error(RuntimeError):
        plain_loop(model, ShuffledImages(*noise(8, CPU), 4), CPU)


@pytest.mark.parametrize(
    "model",
    [
        ViT(ViTConfig(width=18, layers=2, heads=2, mlp_width=16)),
        nn.Sequential(ViT(TINY), nn.Unflatten(1, (2, 5))),
    ],
    ids=["wider", "shape"],
)
def test_another_model_is_not_timed(model):
    with expect_error(RuntimeError):
        check_fair("someone", model, TINY, count(ViT(TINY)))


def test_a_model_with_a_part_that_idles_is_not_timed():
    model = ViT(TINY)
    model.pooler = nn.Linear(4, 4)
    with expect_error(RuntimeError):
        check_fair("someone", model, TINY, count(model))


def test_batches_hold_each_image_once_in_an_order_of_their_epoch():
    pixels = torch.arange(50, dtype=torch.uint8).view(50, 1, 1, 1)
    batches = ShuffledImages(pixels, torch.arange(50), 8)
    assert isinstance(batches, Batches) and len(batches) == 6
    first, again, other = (list(batches.epoch(number, 0)) for number in (0, 0, 1))
    order = torch.cat([batch.labels for batch in first])
    assert len(order.unique()) == 48 and order.tolist() != sorted(order.tolist())
    assert torch.equal(torch.cat([batch.images for batch in first]).flatten().long(), order)
    assert torch.equal(order, torch.cat([batch.labels for batch in again]))
    assert not torch.equal(order, torch.cat([batch.labels for batch in other]))
    assert torch.equal(order[32:], torch.cat([batch.labels for batch in batches.epoch(0, 4)]))
    assert len(ShuffledImages(pixels, torch.arange(50), 8, 2)) == 2
    with expect_error(ValueError):
        ShuffledImages(pixels, torch.arange(50), 51)


def test_long_turns_need_no_call_that_is_not_timed():
    for settle, calls in ((True, 2 + 2 * 3), (False, 2 + 3)):
        turns: list[int] = []
        contender = {"one": lambda turns=turns: turns.append(1)}
        interleave(contender, CPU, rounds=3, seconds=0.0, settle=settle)
        assert len(turns) == calls


def copy_weights(ours: ViT, theirs: EncoderViT) -> None:
    """Our weights under torch's names; our class token comes last and its one first."""
    weights = dict(theirs.state_dict())
    mine = ours.state_dict()
    weights["patches.weight"] = mine["patches.project.weight"].view_as(weights["patches.weight"])
    weights["patches.bias"] = mine["patches.project.bias"]
    weights["class_token"] = mine["class_token"].view(1, 1, -1)
    place = torch.cat([mine["pos_embed.extra"], mine["pos_embed.table"]])
    weights["place"] = place[None]
    renamed = {
        "attention.to_out": "self_attn.out_proj",
        "attention_norm": "norm1",
        "mlp.fc1": "linear1",
        "mlp.fc2": "linear2",
        "mlp_norm": "norm2",
    }
    for kind in ("weight", "bias"):
        for layer in range(ours.config.layers):
            block, there = f"blocks.{layer}", f"encoder.layers.{layer}"
            for own, other in renamed.items():
                weights[f"{there}.{other}.{kind}"] = mine[f"{block}.{own}.{kind}"]
            three = [mine[f"{block}.attention.{name}.{kind}"] for name in ("to_q", "to_k", "to_v")]
            weights[f"{there}.self_attn.in_proj_{kind}"] = torch.cat(three)
        weights[f"encoder.norm.{kind}"] = mine[f"norm.{kind}"]
    weights |= {name: value for name, value in mine.items() if name.startswith("head")}
    theirs.load_state_dict(weights)
