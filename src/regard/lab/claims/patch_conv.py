"""Cutting an image into patches and projecting each is a convolution whose stride is its kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch.nn import functional as F

from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_least, at_most, equal
from regard.lab.figures import bars
from regard.lab.oracles import apart
from regard.lab.question import Question
from regard.models import Block, PatchEmbed, ViT, ViTConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-12


def measure(image: int = 16, patch: int = 4, width: int = 8, seed: int = 0) -> Evidence:
    """The stem of a ViT, its attention and its feed-forward beside torch's convolutions.

    Args:
        image: pixels of a side, a multiple of the patch.
        patch: pixels of a patch's side, 2 or more.
        width: numbers in a token, even.
        seed: where the random numbers start.
    """
    torch.manual_seed(seed)
    config = ViTConfig(
        image_size=image, patch_size=patch, width=width, heads=2, layers=1, init="xavier_uniform"
    )
    model = ViT(config).double().eval()
    stem, block = cast(PatchEmbed, model.patches), cast(Block, model.blocks[0])
    pixels = torch.randn(2, 3, image, image, dtype=torch.float64)
    kernel = stem.project.weight.detach().view(width, 3, patch, patch)
    x, y = torch.randn(2, 1, 9, width, dtype=torch.float64)
    with torch.no_grad():
        cut = stem(pixels)
        convolved = F.conv2d(pixels, kernel, stem.project.bias, stride=patch).flatten(2).mT
        turned = F.conv2d(pixels, kernel.mT, stem.project.bias, stride=patch).flatten(2).mT
        off, off_turned = apart(cut, convolved), apart(cut, turned)
        to_q = block.attention.to_q
        pointwise = F.conv1d(x.mT, to_q.weight[..., None], to_q.bias).mT
        off_linear = apart(to_q(x), pointwise)
        # A convolution is linear: with its offset taken away, it adds up.
        nothing = torch.zeros_like(x)
        bent = apart(
            block.attention(x + y) + block.attention(nothing),
            block.attention(x) + block.attention(y),
        )
        added = apart(to_q(x + y) + to_q(nothing), to_q(x) + to_q(y))
    one, two = pixels[:1], pixels[1:]
    parts: dict[str, tuple[torch.nn.Module, torch.Tensor, torch.Tensor, int]] = {
        "patch embedding": (stem, one, two, 1),
        "norm": (block.attention_norm, x, y, -1),
        "linear layer": (to_q, x, y, -1),
        "feed-forward": (block.mlp, x, y, -1),
        "attention": (block.attention, x, y, -1),
    }
    reads = {name: reach(part, seen, axis) for name, (part, seen, _, axis) in parts.items()}
    # Fixed weights, whatever the input: the part is linear, but for its offset.
    fixed = [name for name, (part, a, b, _) in parts.items() if adds_up(part, a, b)]
    wide = [name for name in fixed if reads[name] > 1]
    return Evidence(
        deciding=f"{off:.1e} from Conv2d, kernel = stride = {patch}",
        written=(
            at_most("patch embedding: distance from Conv2d with its weights", off, ROUNDING),
            equal(
                "pixels that a patch token reads", float(reads["patch embedding"]), float(patch**2)
            ),
            equal("tokens that its feed-forward reads", float(reads["feed-forward"]), 1.0),
            equal("parts with fixed weights that see more than one place", len(wide), 1),
            equal("places that a linear layer on tokens sees", reads["linear layer"], 1),
            at_least("attention: how far it is from adding up", bent, 1e-3),
        ),
        controls=(
            at_most(
                "patch embedding: distance from Conv2d with rows and columns swapped",
                off_turned,
                ROUNDING,
            ),
            at_least("a linear layer: how far it is from adding up", added, 1e-3),
            # Without a word about places, a linear layer on tokens counts too.
            equal("parts with fixed weights that see any number of places", len(fixed), 1),
        ),
        series={
            "places read": reads,
            "linear layer on tokens: distance from Conv1d(1)": off_linear,
        },
    )


def adds_up(layer: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> bool:
    with torch.no_grad():
        whole = layer(x + y) + layer(torch.zeros_like(x))
        return apart(whole, layer(x) + layer(y)) <= ROUNDING


def reach(layer: torch.nn.Module, x: torch.Tensor, features: int) -> int:
    """How many places one output token depends on; `features` is the axis that is no place."""
    x = x.detach().clone().requires_grad_()
    (felt,) = torch.autograd.grad(layer(x)[0, 0].square().sum(), x)
    return int((felt.abs().sum(features) > 0).sum())


def plot(evidence: Evidence) -> Figure:
    return bars(
        {name: float(count) for name, count in evidence.series["places read"].items()},
        title="How many places one token reads in each part of a ViT",
        up="pixels, or tokens of 9",
        about="Attention reads all, with weights that depend on what they are: no convolution.",
    )


def ask(numbers: np.random.Generator) -> Question:
    patch = int(numbers.choice([4, 8, 14, 16]))
    side, width = patch * int(numbers.integers(4, 17)), int(numbers.choice([64, 192, 384, 768]))
    return Question(
        f"A ViT cuts RGB images of ${side} \\times {side}$ pixels into patches of "
        f"${patch} \\times {patch}$ and projects each to ${width}$ numbers. Written as a "
        "convolution: how many weights has it, offsets included, and how many positions come out? "
        "(two numbers, in this order)",
        (float(width * (3 * patch**2 + 1)), float((side // patch) ** 2)),
        tolerance=0.0,
        why=f"${width} \\cdot (3 \\cdot {patch}^2 + 1)$, and $({side}/{patch})^2$",
    )


CLAIM = Claim(
    id="patch-conv",
    source="B 1.5a",
    statement="Only the patch embedding of a ViT is a convolution, over the pixels of a patch.",
    verdict="holds",
    truth="To cut into patches and project is Conv2d with kernel = stride = patch and the same "
    "weights, and no other part sees more than one place by weights that are fixed: attention's "
    "depend on the input. Of $1 \\times 1$ every linear layer on tokens is a convolution too.",
    measure=measure,
    plot=plot,
    ask=ask,
)
