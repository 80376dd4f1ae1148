"""The image encoder is the published network: in its shapes, its numbers and what it sees."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from golden import expect_error
from regard.data.decode import decode
from regard.errors import UserError
from regard.models import efficientnet
from regard.models.efficientnet import (
    LAST,
    PACKAGE,
    STAGES,
    WHOLE,
    EfficientNet,
    Norm,
    ends,
    load_pretrained,
    normalise,
    published_homes,
    renamed,
    weights_file,
)

needs_weights = pytest.mark.skipif(
    find_spec(PACKAGE.replace("-", "_")) is None, reason=f"{PACKAGE} is not installed"
)
DOGS = range(151, 269)  # of ImageNet's classes, in the order of its 2012 challenge
OTHER_ANIMALS = (*range(151), *range(269, 398))
THINGS = range(398, 1000)


@cache
def pretrained() -> EfficientNet:
    return load_pretrained()


def lived_in(**options: bool) -> EfficientNet:
    """A network with random weights whose norms have statistics of their own."""
    net = EfficientNet(**options).double()
    with torch.no_grad():
        for norm in norms(net):
            norm.running_mean.normal_(std=0.2)
            norm.running_var.uniform_(0.5, 2.0)
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_(std=0.2)
    return net


def norms(net: torch.nn.Module) -> list[Norm]:
    return [part for part in net.modules() if isinstance(part, Norm)]


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


# What it is


def test_it_has_the_published_sizes():
    net = EfficientNet()
    assert sum(weights.numel() for weights in net.parameters()) == 4_652_008
    assert len(norms(net)) == 49 and sum(stage.repeats for stage in STAGES) == 16
    assert [net.width(depth) for depth in range(1, 10)] == [
        *(32, 16, 24, 40, 80, 112, 192, 320, 1280)
    ]
    assert [net.grid(224, 224, depth)[0] for depth in range(1, 10)] == [
        *(112, 112, 56, 28, 14, 14, 7, 7, 7)
    ]
    assert net.width() == 320 and net.grid(224, 288) == (7, 9)


def plain_scores(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """The same network told once more, from the published names and no table.

    The kernel, the width and whether a block widens are read off the weights; a block adds its
    input where it can; only the strides have to be said.
    """

    def layer(x: Tensor, conv: str, norm: str, stride: int = 1) -> Tensor:
        kernel = weights[f"{conv}.weight"]
        size = kernel.shape[-1]
        rows, columns = x.shape[2:]
        # More zeros than needed; the first window then starts where TensorFlow has it.
        wide = F.pad(x, (size,) * 4)[
            ..., first(rows, size, stride) :, first(columns, size, stride) :
        ]
        groups = x.shape[1] // kernel.shape[1]
        out = F.conv2d(wide, kernel, stride=stride, groups=groups)
        out = out[..., : math.ceil(rows / stride), : math.ceil(columns / stride)]
        mean, var, factor, shift = (
            weights[f"{norm}.{name}"][:, None, None]
            for name in ("running_mean", "running_var", "weight", "bias")
        )
        return (out - mean) / (var + 1e-3).sqrt() * factor + shift

    def first(length: int, size: int, stride: int) -> int:
        # An even side loses the zero before it when every second window is left out.
        odd = stride == 1 or length % 2 == 1
        return size - size // 2 if odd else size - (size - 2) // 2

    def bend(x: Tensor) -> Tensor:
        return x.clamp(0, 6)

    x = bend(layer(x, "_conv_stem", "_bn0", 2))
    for number in range(16):
        home, seen = f"_blocks.{number}", x
        if f"{home}._expand_conv.weight" in weights:
            seen = bend(layer(seen, f"{home}._expand_conv", f"{home}._bn0"))
        stride = 2 if number in (1, 3, 5, 11) else 1
        seen = bend(layer(seen, f"{home}._depthwise_conv", f"{home}._bn1", stride))
        seen = layer(seen, f"{home}._project_conv", f"{home}._bn2")
        x = x + seen if x.shape == seen.shape else seen
    x = bend(layer(x, "_conv_head", "_bn1"))
    return x.mean((2, 3)) @ weights["_fc.weight"].T + weights["_fc.bias"]


@needs_weights
@pytest.mark.parametrize("size", [(64, 64), (45, 83)], ids="{0[0]}x{0[1]}".format)
def test_the_published_weights_compute_what_a_second_telling_of_the_network_does(size):
    weights = torch.load(weights_file(), weights_only=True)
    images = noise(2, 3, *size)
    told = plain_scores({name: tensor.double() for name, tensor in weights.items()}, images)
    net = load_pretrained().double()
    torch.testing.assert_close(net(images), told, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_makes_room_for_every_window_and_no_more(kernel, stride):
    for size in range(1, 40):
        before, after = ends(size, kernel, stride)
        assert after - before in (0, 1) and before >= 0
        windows = (size + before + after - kernel) // stride + 1
        assert windows == -(-size // stride)
        if before + after:  # one zero less, and there would be one window less
            assert (size + before + after - 1 - kernel) // stride + 1 < windows


# Features


@pytest.mark.parametrize("size", [(32, 32), (33, 64), (47, 100)], ids="{0[0]}x{0[1]}".format)
def test_every_stage_gives_the_grid_it_announces(size):
    net = EfficientNet()
    for depth in range(1, 10):
        rows, columns = net.grid(*size, depth)
        shape = net.features(torch.zeros(2, 3, *size), depth).shape
        assert shape == (2, rows * columns, net.width(depth))


def test_the_head_on_the_features_is_the_whole_network():
    net, images = lived_in(), noise(2, 3, 64, 96)
    assert torch.equal(net.scores(net.features(images, WHOLE)), net(images))

    rows, columns = net.grid(64, 96)
    last = net.features(images).mT.unflatten(2, (rows, columns))
    widened = net.stages[-1](last).mean((2, 3))
    torch.testing.assert_close(net.classifier(widened), net(images))


def test_vectors_stand_row_by_row():
    net, images = lived_in(), noise(1, 3, 32, 64)
    touched = images.clone()
    touched[..., 20, 50] += 1
    changed = (net.features(images, 1) != net.features(touched, 1)).any(-1)[0]
    places = changed.nonzero()[:, 0].tolist()
    # A 3 × 3 window that starts at every second pixel: of even ones, it ends or starts here.
    assert places == [row * 32 + column for row in (9, 10) for column in (24, 25)]


@pytest.mark.parametrize("training", [False, True], ids="training={}".format)
def test_an_image_does_not_depend_on_its_batch_or_on_training(training):
    net, images = lived_in().train(training), noise(3, 3, 40, 56)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    together = net(images)
    assert torch.equal(together, net(images))
    torch.testing.assert_close(together[1:2], net(images[1:2]), rtol=1e-9, atol=1e-9)
    assert torch.equal(together, net.eval()(images))
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_norms_move_if_asked_but_not_in_frozen_stages():
    net, images = lived_in(moving=True).freeze(4), noise(4, 3, 64, 64)
    before = [norm.running_mean.clone() for norm in norms(net)]
    net.eval()(images)
    assert all(map(torch.equal, before, (norm.running_mean for norm in norms(net))))

    net.train()(images)
    frozen = len(norms(net.stages[:4]))
    moved = [
        not torch.equal(old, norm.running_mean)
        for old, norm in zip(before, norms(net), strict=True)
    ]
    assert moved == [False] * frozen + [True] * (49 - frozen)
    net.freeze(0)
    assert all(norm.training for norm in norms(net)), "thawed norms did not move again"

    stem, met = (
        net.stages[0],
        F.conv2d(F.pad(images, (0, 1, 0, 1)), net.stages[0].conv.weight, stride=2),
    )
    net(images)
    expected = 0.99 * before[0] + 0.01 * met.mean((0, 2, 3))
    torch.testing.assert_close(stem.norm.running_mean, expected)


@pytest.mark.parametrize("stages", [0, 1, 5, 8, 9])
def test_frozen_stages_learn_nothing_and_the_others_do(stages):
    net = lived_in().freeze(9).freeze(stages)
    scores = net(noise(2, 3, 32, 32))
    if stages == 9:
        assert not scores.requires_grad
        return
    scores.square().sum().backward()
    for number, stage in enumerate(net.stages, 1):
        learns = {weights.grad is not None for weights in stage.parameters()}
        assert learns == {number > stages}
    assert net.classifier.weight.grad is not None


def test_gradients_are_those_of_finite_differences():
    net = lived_in()
    weights = net.stages[3][1].look.conv.weight
    images, step = noise(1, 3, 32, 32), 1e-6
    net(images).square().mean().backward()
    with torch.no_grad():
        values = []
        for sign in (1, -1):
            weights[5, 0, 2, 2] += sign * step
            values.append(net(images).square().mean())
            weights[5, 0, 2, 2] -= sign * step
    difference = (values[0] - values[1]) / (2 * step)
    torch.testing.assert_close(weights.grad[5, 0, 2, 2], difference, rtol=1e-5, atol=1e-9)


# Fused


def test_fused_convolutions_give_the_same_numbers_and_leave_the_network_alone():
    net, images = lived_in(moving=True), noise(2, 3, 50, 64)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    fused = net.fused()
    net.eval()

    for depth in (1, LAST, WHOLE):
        features = net.features(images, depth)
        torch.testing.assert_close(fused.features(images, depth), features, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(fused.fused()(images), net(images), rtol=1e-9, atol=1e-9)
    assert not norms(fused) and not any(w.requires_grad for w in fused.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(weights.requires_grad for weights in net.parameters())


@needs_weights
def test_fusing_costs_the_published_weights_no_precision():
    images = noise(2, 3, 96, 96).float()
    whole, fused = pretrained()(images), pretrained().fused()(images)
    torch.testing.assert_close(fused, whole, rtol=1e-4, atol=1e-4)


# Loading


def published() -> dict[str, Tensor]:
    """A network's weights as the package would have them."""
    homes = dict(published_homes())
    split = ((name.rpartition("."), tensor) for name, tensor in EfficientNet().state_dict().items())
    return {f"{homes[home]}.{end}": tensor for (home, _, end), tensor in split}


def test_weights_arrive_at_their_places():
    weights, net = published(), EfficientNet()
    net.load_state_dict(renamed(weights, net))
    own = net.state_dict()
    assert len(own) == len(weights) == 296
    assert torch.equal(own["stages.8.conv.weight"], weights["_conv_head.weight"])
    assert torch.equal(
        own["stages.4.1.look.conv.weight"], weights["_blocks.6._depthwise_conv.weight"]
    )


def drop(weights: dict[str, Tensor], *names: str) -> None:
    for name in names:
        del weights[name]


def put(weights: dict[str, Tensor], name: str, *shape: int) -> None:
    weights[name] = torch.zeros(shape)


@pytest.mark.parametrize(
    "damage",
    [
        lambda w: drop(w, "_fc.bias"),
        lambda w: drop(w, "_bn0.bias", "_bn1.bias"),
        lambda w: put(w, "_blocks.16._bn0.bias", 3),
        lambda w: put(w, "_blocks.3._depthwise_conv.weight", 144, 1, 3, 3),
    ],
    ids=["missing", "two missing", "left over", "misshaped"],
)
def test_weights_that_do_not_fit_are_refused(damage):
    weights = published()
    damage(weights)
    with expect_error(ValueError):
        renamed(weights, EfficientNet())


def test_without_the_package_there_is_a_sentence(monkeypatch):
    monkeypatch.setattr(efficientnet, "PACKAGE", "no-such-package-anywhere")
    with expect_error(UserError):
        load_pretrained()


def test_another_file_than_the_published_one_is_refused(monkeypatch, tmp_path):
    path = tmp_path / "weights.pth"
    torch.save(published(), path)
    monkeypatch.setattr(efficientnet, "weights_file", lambda: path)
    with expect_error(UserError):
        load_pretrained()


@needs_weights
def test_a_file_with_one_byte_changed_is_refused(monkeypatch, tmp_path):
    data = bytearray(weights_file().read_bytes())
    data[len(data) // 2] ^= 1
    path = tmp_path / "weights.pth"
    path.write_bytes(data)
    monkeypatch.setattr(efficientnet, "weights_file", lambda: path)
    with expect_error(UserError):
        load_pretrained()


# Refusals


def test_what_has_no_grid_is_refused_with_numbers():
    net = EfficientNet()
    with expect_error(ValueError):
        net.features(torch.zeros(1, 3, 31, 64))
    for depth in (0, 10):
        with expect_error(ValueError):
            net.features(torch.zeros(1, 3, 32, 32), depth)
    for stages in (-1, 10):
        with expect_error(ValueError):
            net.freeze(stages)


def test_bytes_and_grey_images_are_refused(in_a_plain_process):
    said = in_a_plain_process("""
import torch
from regard.models.efficientnet import EfficientNet
net = EfficientNet()
for images in (torch.zeros(2, 3, 32, 32, dtype=torch.uint8), torch.zeros(2, 1, 32, 32)):
    try:
        net(images)
    except (TypeError, ValueError) as error:
        print(error)
""")
    assert "images hold torch.uint8; normalise()" in said
    assert "images have the shape (2, 1, 32, 32)" in said


# What it sees


FLICKR8K = Path(os.environ.get("REGARD_DATA", "")) / "flickr8k"
ANIMALS = """
    animal animals bear bird birds bull camel cat cats collie cow cows dalmatian deer dog dogs duck
    ducks elephant fish goat goats greyhound greyhounds horse horses hound kitten labrador lion
    monkey pig pigs poodle puppies puppy rabbit retriever sheep shepherd terrier tiger turtle
"""


@cache
def words_of_photos() -> dict[str, list[set[str]]]:
    """The words of each caption, for each photo that is there."""
    words: dict[str, list[set[str]]] = {}
    for line in (FLICKR8K / "Flickr8k_text/Flickr8k.token.txt").read_text("utf-8").splitlines():
        mark, text = line.split("\t")
        words.setdefault(mark.partition("#")[0], []).append(set(text.lower().split()))
    there = {path.name for path in (FLICKR8K / "Flicker8k_Dataset").iterdir()}
    return {name: words[name] for name in sorted(there & set(words))}


def photos(names: list[str], count: int) -> Tensor:
    """So many of them, spread evenly through the names."""
    chosen = names[:: len(names) // count][:count]
    paths = [FLICKR8K / "Flicker8k_Dataset" / name for name in chosen]
    return torch.stack([torch.from_numpy(decode(path, 224).pixels) for path in paths])


@torch.no_grad()
def share_seen_as_dogs(pixels: Tensor) -> float:
    """How often the classes of dogs together are likelier than other animals, and than things."""
    net = pretrained().fused()
    shares = torch.cat([net(normalise(few)) for few in pixels.split(8)]).softmax(1)
    kinds = torch.stack([shares[:, list(k)].sum(1) for k in (DOGS, OTHER_ANIMALS, THINGS)], 1)
    return float((kinds.argmax(1) == 0).float().mean())


@needs_weights
@pytest.mark.data("flickr8k")
def test_it_sees_dogs_where_people_wrote_of_dogs_and_nowhere_else():
    words, animals = words_of_photos(), set(ANIMALS.split())
    dogs = [n for n, said in words.items() if all(one & {"dog", "dogs"} for one in said)]
    without = [n for n, said in words.items() if not set().union(*said) & animals]
    # Over 300 photos of each kind the shares are 0.86 and 0.007.
    assert share_seen_as_dogs(photos(dogs, 80)) > 0.75
    assert share_seen_as_dogs(photos(without, 80)) < 0.05


@contextmanager
def watched_norms(net: EfficientNet) -> Iterator[list[Tensor]]:
    """How far what each norm meets is from what it met in training, in nats for each channel.

    The divergence of one normal distribution from the other.
    """
    found: list[Tensor] = []

    def look(norm: Norm, inputs: tuple[Tensor]) -> None:
        scale = norm.running_var + 1e-3
        var, mean = torch.var_mean(inputs[0].transpose(0, 1).flatten(1), 1)
        spread, shift = (var + 1e-3) / scale, (mean - norm.running_mean).square() / scale
        found.append((spread + shift - 1 - spread.log()).mean() / 2)

    handles = [norm.register_forward_pre_hook(look) for norm in norms(net)]
    yield found
    for handle in handles:
        handle.remove()


@torch.no_grad()
def strangeness(images: Tensor, eps: float = 1e-3, depth: int = WHOLE) -> float:
    """The same over the norms of so many stages, were they made with this ε."""
    net = load_pretrained()
    for norm in norms(net):
        norm.eps = eps
    with watched_norms(net) as found:
        net.features(images, depth)
    return float(torch.stack(found).mean())


@needs_weights
@pytest.mark.data("flickr8k")
def test_photos_look_most_familiar_to_the_norms_as_they_are_prepared_here(monkeypatch):
    pixels = photos(list(words_of_photos()), 24)
    images = normalise(pixels)

    # Other inputs are told apart at the stem, before anything could make up for them.
    mean = 255 * torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    std = 255 * torch.tensor([0.229, 0.224, 0.225])[:, None, None]
    ours = strangeness(images, depth=1)
    for other in ((pixels - mean) / std, pixels / 255, images.flip(1)):
        assert strangeness(other, depth=1) > 1.5 * ours
    # Another ε or padding is told apart over all norms.
    ours = strangeness(images)
    for eps in (1e-2, 1e-5):
        assert strangeness(images, eps) > 1.05 * ours
    monkeypatch.setattr(efficientnet, "ends", lambda size, kernel, stride: (kernel // 2,) * 2)
    assert strangeness(images) > 1.2 * ours
