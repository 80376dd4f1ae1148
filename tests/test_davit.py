"""A DaViT: its size and outputs against the published ones, its maps, and a run from end to end."""

import dataclasses
import json
import shutil

import pytest
import torch

import regard as rg
from golden import expect_error
from regard.attention import attend, masks, watch
from regard.attention.channel import attend_channels
from regard.cli import main
from regard.config import build, to_values
from regard.errors import FieldError, UserError
from regard.models import MODELS, DaViT, DaViTConfig
from regard.runs.recipe import recipes
from regard.tasks.classify.config import ClassifyConfig
from regard.tasks.classify.stages import window_layers, window_maps

SMALL = {"image_size": 16, "widths": (8, 16), "depths": (2, 1), "heads": (2, 4), "window_size": 4}


def made(**fields) -> DaViT:
    torch.manual_seed(0)
    return DaViT(DaViTConfig(**SMALL | fields)).eval()


def parameters(model) -> int:
    return sum(weight.numel() for weight in model.parameters())


# The model


def test_the_tiny_one_has_the_parameters_of_the_paper():
    with torch.device("meta"):
        model = DaViT(DaViTConfig.tiny())
    assert parameters(model) == 28_360_168  # "28.3M", table 2 of Ding et al. (2022)


def test_the_default_is_as_large_as_the_small_vit_for_cifar():
    recipe = recipes("classify")["cifar10-small"].config(ClassifyConfig)
    vit = rg.ViT(dataclasses.replace(recipe.model, num_classes=10))
    assert parameters(DaViT(DaViTConfig())) == 139_274
    assert 0.95 < parameters(DaViT(DaViTConfig())) / parameters(vit) < 1.05
    assert recipes("classify")["cifar10-davit"].config(ClassifyConfig).davit == DaViTConfig()


def test_it_learns_everywhere_and_loads_its_own_weights():
    fields = {"image_size": 16, "widths": (8, 16), "heads": (2, 2)}
    model = MODELS["davit"].build(**fields)
    images = torch.randn(3, 3, 16, 16)
    logits = model(images)
    logits.logsumexp(-1).sum().backward()
    assert logits.shape == (3, 10)
    for name, weight in model.named_parameters():
        assert weight.grad is not None and torch.isfinite(weight.grad).all(), name
    twin = MODELS["davit"].build(**fields)
    assert not torch.equal(twin(images), logits)
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin(images), logits)


@pytest.mark.parametrize("overlap", [False, True], ids="overlap={}".format)
def test_outputs_agree_with_florence_2_on_the_same_weights(overlap):
    florence = pytest.importorskip("transformers.models.florence2.modeling_florence2")
    torch.manual_seed(1)
    side, around = (3, 1) if overlap else (2, 0)
    theirs = florence.Florence2VisionBackbone(
        florence.Florence2VisionConfig(
            depths=(2, 1),
            patch_size=(7, side),
            patch_stride=(4, 2),
            patch_padding=(3, around),
            patch_prenorm=(False, True),
            embed_dim=(12, 24),
            num_heads=(2, 3),
            num_groups=(2, 3),
            window_size=4,
        )
    )
    theirs = theirs.eval().double()
    ours = DaViT(
        DaViTConfig(
            **{
                "image_size": 32,
                "patch_size": 4,
                "widths": (12, 24),
                "depths": (2, 1),
                "heads": (2, 3),
            },
            overlapping_downsample=overlap,
        )
    )
    ours = ours.eval().double()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3)
    ours.load_state_dict(from_florence(theirs.state_dict()), strict=False)
    images = torch.randn(2, 3, 32, 64, dtype=torch.float64)
    last = theirs(images).last_hidden_state
    torch.testing.assert_close(ours.features(images), last.flatten(2).mT)


def from_florence(weights):
    """Their names as ours; one matrix for queries, keys and values is cut in three."""
    names = {
        "conv1": "attention_around",
        "conv2": "mlp_around",
        "norm1": "attention_norm",
        "norm2": "mlp_norm",
        "ffn.fc1": "mlp.fc1",
        "ffn.fc2": "mlp.fc2",
        "window_attn.proj": "attention.to_out",
        "channel_attn.proj": "attention.to_out",
    }
    found = {}
    for name, weight in weights.items():
        kind, stage, *rest = name.split(".")
        if kind == "convs":
            part, what = rest
            home = "stem" if stage == "0" else f"downs.{int(stage) - 1}"
            found[f"{home}.{'project' if part == 'conv' else part}.{what}"] = weight
            continue
        pair, block, *rest, what = rest
        home = f"stages.{stage}.blocks.{2 * int(pair) + (block == 'channel_block')}"
        part = ".".join(rest)
        if part.endswith("qkv"):
            for letter, third in zip("qkv", weight.chunk(3), strict=True):
                found[f"{home}.attention.to_{letter}.{what}"] = third
        else:
            found[f"{home}.{names[part]}.{what}"] = weight
    return found


@pytest.mark.parametrize("window", [3, 4, 5, 7, 8, 9], ids="window={}".format)
def test_a_window_that_does_not_divide_the_grid_is_cut_at_the_edge(window):
    model = made(window_size=window, depths=(1, 1))
    block, grid, x = model.stages[0].blocks[0], (8, 8), torch.randn(2, 64, 8)
    cut = torch.zeros_like(x).unflatten(1, grid)
    tokens = block.attention_norm(x).unflatten(1, grid)
    for top in range(0, 8, window):
        for left in range(0, 8, window):
            at = (slice(None), slice(top, top + window), slice(left, left + window))
            inside = tokens[at]
            cut[at] = block.attention(inside.flatten(1, 2)).view_as(inside)
    seen = []
    block.attention.register_forward_hook(lambda *call: seen.append(call[-1]))
    block.attention_around.weight.data.zero_()
    model.stages[0](x, grid)
    torch.testing.assert_close(seen[0], cut.flatten(1, 2), atol=1e-5, rtol=1e-5)


def test_windows_keep_to_themselves_and_channels_do_not():
    model = made(depths=(1, 1)).double()
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d) and module.groups > 1:
            module.weight.data.zero_()  # nothing else may carry a change across a window's edge
    windows, channels = model.stages[0].blocks
    x = torch.randn(1, 64, 8, dtype=torch.float64)
    other = x.clone()
    other[:, 0] += torch.randn(8)  # the upper left of the 8 × 8 tokens
    mask = masks.grid_windows(4, (8, 8))
    changed = (windows(x, (8, 8), mask=mask) != windows(other, (8, 8), mask=mask)).any(-1)[0]
    rows, columns = changed.view(8, 8).nonzero(as_tuple=True)
    assert rows.max() == columns.max() == 3
    assert (channels(x, (8, 8)) != channels(other, (8, 8))).any(-1).all()


def test_images_of_other_sizes_and_half_precision_are_read():
    model = made()
    for size in ((16, 16), (20, 12), (4, 4), (28, 36)):
        assert torch.isfinite(model(torch.randn(1, 3, *size))).all()
    assert torch.isfinite(model.bfloat16()(torch.randn(1, 3, 20, 12).bfloat16())).all()


def test_another_attention_reads_the_windows_alone():
    calls = []

    def mine(*qkv, **options):
        calls.append(qkv[0].shape)
        return attend(*qkv, **options)

    model, images = made(), torch.randn(2, 3, 16, 16)
    other = DaViT(model.config, attention=mine).eval()
    other.load_state_dict(model.state_dict())
    torch.testing.assert_close(other(images), model(images), atol=1e-5, rtol=1e-5)
    assert len(calls) == 3  # of 6 blocks


def test_stochastic_depth_grows_through_all_stages():
    blocks = [block for stage in made(drop_path=0.5).stages for block in stage.blocks]
    assert [block.drop_path.drop_prob for block in blocks] == pytest.approx(
        [0, 0.1, 0.2, 0.3, 0.4, 0.5]
    )


# Looking


def test_watching_changes_nothing_and_windows_show_their_maps():
    model, images = made(), torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        logits = model(images)
        with watch(model) as seen:
            assert torch.equal(model(images), logits)
    weights = seen["stages.0.blocks.0.attention"].weights()
    allowed = masks.grid_windows(4, (8, 8))(range(64), range(64))
    assert weights.shape == (2, 2, 64, 64) and not weights[..., ~allowed].any()
    assert seen["stages.0.blocks.0.attention"].error() < 1e-5


def test_maps_of_windows_are_shares_on_the_grid_of_their_stage():
    model, images = made(), torch.randn(3, 3, 16, 24)
    first, second = window_maps(model, images)
    assert first.shape == (3, 2, 2, 8, 12) and second.shape == (3, 1, 4, 4, 6)
    for maps in (first, second):
        torch.testing.assert_close(torch.from_numpy(maps.sum((-1, -2))), torch.ones(maps.shape[:3]))
    of_a_window = first[..., :4, :4].sum((-1, -2))
    torch.testing.assert_close(torch.from_numpy(of_a_window), torch.full((3, 2, 2), 16 / 96))
    for at in range(2):
        for name in window_layers(model, at):
            assert model.get_submodule(name).attention is not attend_channels
    with torch.no_grad(), watch(model) as seen:
        model(images)
    weights = seen["stages.0.blocks.2.attention"].weights()  # b h n m
    read = weights.mean(-2).unflatten(-1, (8, 12))
    torch.testing.assert_close(torch.from_numpy(first[:, 1]), read)
    with expect_error(ValueError):
        window_maps(model, images[:0])


# What is refused


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"heads": (3, 4)}, "widths"),
        ({"heads": (2, 5)}, "widths"),
        ({"window_size": 0}, "window_size"),
        ({"image_size": 30}, "image_size"),
        ({"image_size": 2}, "image_size"),
        ({"depths": (1, 1, 1)}, "widths"),
        ({"depths": (1, 0)}, "depths"),
        ({"widths": ()}, "widths"),
        ({"patch_size": 0}, "patch_size"),
        ({"drop_path": 1.0}, "drop_path"),
        ({"norm_eps": 0.0}, "norm_eps"),
    ],
    ids=str,
)
def test_contradicting_fields_are_named_with_their_numbers(fields, name):
    with expect_error(FieldError, field=name):
        DaViTConfig(**fields)


def test_what_is_no_batch_of_images_is_refused_in_a_sentence(in_a_plain_process):
    in_a_plain_process(
        """
import torch
from regard.models import DaViT, DaViTConfig
model = DaViT(DaViTConfig())
for images, words in [
    (torch.zeros(3, 32, 32), "images have 3 axes, (3, 32, 32); a batch has 4"),
    (torch.zeros(1, 3, 32, 32, dtype=torch.uint8), "images hold torch.uint8"),
    (torch.zeros(1, 1, 32, 32), "images have 1 channels and the model reads 3"),
    (torch.zeros(1, 3, 32, 30), "32 × 30 pixels does not divide by 4"),
]:
    try:
        model(images)
    except (ValueError, TypeError) as trouble:
        assert words in str(trouble), (words, trouble)
    else:
        raise AssertionError(words)
"""
    )


# A run

TINY = {
    "davit": {"widths": (8, 16), "heads": (2, 2)},
    "batch_size": 32,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One small run from Python, which the tests below only read."""
    out = tmp_path_factory.mktemp("runs") / "davit"
    return rg.train(
        "classify", recipe="digits-davit", epochs=1, out=out, quiet=True, device="cpu", **TINY
    )


def test_a_run_trains_reports_and_loads(run):
    assert isinstance(run.model, DaViT)
    assert run.config.davit.num_classes == 10 and run.config.davit.channels == 1
    again = rg.load(run.folder.path, device="cpu")
    assert again.config == run.config
    assert again.evaluate("test").accuracy.value > 0.2  # after one epoch; by chance a tenth
    report = (run.folder.path / "report.html").read_text(encoding="utf-8")
    assert "mistakes: stage 1, 8" in report and "mistakes: stage 2, 4" in report


def test_a_run_answers_and_shows_its_windows(run, tmp_path):
    (answer,) = run.predict(split="test", indices=0)
    assert sum(answer.probabilities) == pytest.approx(1, abs=1e-5)
    look = run.look(split="test", indices=[0, 1])
    stages = look.looked.document["sections"]
    assert [len(stage["data"]["items"]) for stage in stages] == [2, 2]
    assert "rollout" not in stages[0]["data"]["items"][0]
    assert look.write(tmp_path / "look.html").exists()
    with expect_error(UserError):
        look.write(tmp_path / "look.png")


def test_a_run_goes_on_where_it_stopped(run, tmp_path):
    out = tmp_path / "on"
    shutil.copytree(run.folder.path, out)
    on = rg.train("classify", out=out, resume=True, epochs=2, quiet=True, device="cpu")
    assert [line["epoch"] for line in on.metrics] == [1, 2]


def test_the_command_line_trains_and_evaluates_one(tmp_path, capsys):
    out = str(tmp_path / "run")
    flags = [
        "--davit.widths",
        "8",
        "16",
        "--davit.heads",
        "2",
        "2",
        "--batch-size",
        "64",
        "--quiet",
    ]
    command = ["train", "classify", "--recipe", "digits-davit", "--epochs", "1", "--out", out]
    assert main([*command, *flags, "--device", "cpu"]) == 0
    capsys.readouterr()
    assert main(["evaluate", out, "--json", "--device", "cpu"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_vit_of_channels_alone_reports_and_says_that_it_has_no_maps(tmp_path):
    run = rg.train(
        "classify",
        data="digits",
        epochs=1,
        out=tmp_path / "run",
        quiet=True,
        device="cpu",
        model={"width": 16, "layers": 1, "heads": 2, "attention": "channel"},
    )
    look = run.look(split="test", indices=0)
    (section,) = look.looked.document["sections"]
    assert "heads" not in section["data"]["items"][0] and "no map of places" in section["words"]
    with expect_error(UserError):
        look.write(tmp_path / "look.png")


def test_what_is_said_of_the_other_kind_does_not_go_unheard():
    with expect_error(FieldError, field="model.width"):
        ClassifyConfig(kind="davit", model=rg.ViTConfig(width=16))
    with expect_error(FieldError, field="davit.window_size"):
        ClassifyConfig(davit=DaViTConfig(window_size=2))


def test_configurations_of_before_describe_a_vit():
    values = to_values(ClassifyConfig(batch_size=7))
    del values["kind"], values["davit"]
    assert build(ClassifyConfig, values) == ClassifyConfig(batch_size=7)
    assert ClassifyConfig().chosen == rg.ViTConfig()
