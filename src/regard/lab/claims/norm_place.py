"""Norm after each sub-layer, as in 2017, or before it, as is usual since."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import nn

from regard.attention import MultiHeadAttention
from regard.lab.claim import Claim
from regard.lab.evidence import Evidence, at_least, at_most
from regard.lab.figures import lines
from regard.lab.question import Question
from regard.models import MLP, Block, StackConfig, init_weights, make_blocks
from regard.models.block import last_norm
from regard.models.layers import NORMS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT = 0.6  # of the gradient, where depth is said to leave it as it is
ROUNDING = 1e-10


def measure(
    depths: tuple[int, ...] = (6, 12, 24, 48),
    width: int = 32,
    draws: int = 2,
    seed: int = 0,
) -> Evidence:
    """Both orders as torch has them, and the gradient of the last block as stacks grow deeper.

    Args:
        depths: blocks in a stack, in growing order.
        width: numbers in a token.
        draws: stacks of each depth, over which the gradient is averaged.
        seed: where the random numbers start.
    """
    if width < 2 or width % 2 or draws < 1:
        raise ValueError(f"width={width}, draws={draws}: an even width for two heads, and one draw")
    if len(depths) < 2 or list(depths) != sorted({*depths}) or depths[0] < 1:
        numbers = " ".join(map(str, depths))
        raise ValueError(f"depths {numbers}: at least two, from 1 on, each above the last")
    torch.manual_seed(seed)
    x = torch.randn(2, 8, width, dtype=torch.float64)
    theirs = torch_layer(width).double().eval()
    after, before = ours(theirs, norm_first=False), ours(theirs, norm_first=True)
    bare = ours(theirs, norm_first=False, norm=nn.Identity)
    with torch.no_grad():
        wanted = theirs(x)
        off = {
            name: float((block(x) - wanted).abs().max())
            for name, block in (("after", after), ("before", before))
        }
        sizes = {
            name: float((block(x).square().mean(-1) - 1).abs().max())
            for name, block in (("after", after), ("before", before), ("without", bare))
        }
    felt = {
        place: np.mean(
            [last_gradients(place == "before", depths, width, seed + n) for n in range(draws)], 0
        ).tolist()
        for place in ("after", "before")
    }
    kept = {place: found[-1] / found[0] for place, found in felt.items()}
    deep = f"{depths[-1]} blocks over {depths[0]}"
    return Evidence(
        deciding=f"gradient, {deep}: {kept['after']:.2g}, {kept['before']:.2g}",
        inside=(
            at_most("norm after: distance from torch's layer of 2017", off["after"], ROUNDING),
            at_most("norm after: how far tokens are from size 1", sizes["after"], 1e-3),
            at_least(f"norm after: gradient of the last block, {deep}", kept["after"], KEPT),
        ),
        outside=(
            at_most("norm before: distance from torch's layer of 2017", off["before"], ROUNDING),
            at_most("norm before: how far tokens are from size 1", sizes["before"], 1e-3),
            at_least(f"norm before: gradient of the last block, {deep}", kept["before"], KEPT),
        ),
        controls=(at_most("no norm: how far tokens are from size 1", sizes["without"], 1e-3),),
        series={
            "depths": list(depths),
            "norm after (2017)": felt["after"],
            "norm before": felt["before"],
        },
    )


def torch_layer(width: int) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(
        width, 2, 2 * width, dropout=0.0, activation="relu", batch_first=True, norm_first=False
    )


def ours(
    theirs: nn.TransformerEncoderLayer, *, norm_first: bool, norm: type[nn.Module] | None = None
) -> Block:
    """The library's block with the weights of torch's layer."""
    width = theirs.linear1.in_features
    block = Block(
        MultiHeadAttention(width, theirs.self_attn.num_heads),
        MLP(width, theirs.linear1.out_features, "relu"),
        norm=partial(NORMS["layernorm"], width) if norm is None else norm,
        norm_first=norm_first,
    ).double()
    weights = theirs.self_attn.in_proj_weight.data.chunk(3)
    biases = theirs.self_attn.in_proj_bias.data.chunk(3)
    attention, feed_forward = block.attention, cast(MLP, block.mlp)
    into = (attention.to_q, attention.to_k, attention.to_v)
    for linear, weight, bias in zip(into, weights, biases, strict=True):
        linear.weight.data, linear.bias.data = weight.clone(), bias.clone()
    attention.to_out.load_state_dict(theirs.self_attn.out_proj.state_dict())
    feed_forward.fc1.load_state_dict(theirs.linear1.state_dict())
    feed_forward.fc2.load_state_dict(theirs.linear2.state_dict())
    return block


def last_gradients(norm_first: bool, depths: tuple[int, ...], width: int, seed: int) -> list[float]:
    """Of stacks as they start: how much their output moves with the last weights of all.

    Weights of 2017 do not depend on the depth, so a shallow stack is the beginning of a deep one.
    """
    torch.manual_seed(seed)
    config = StackConfig(
        width=width, layers=max(depths), heads=2, norm_first=norm_first, init="xavier_uniform"
    )
    blocks, norm = make_blocks(config).double(), last_norm(config).double()
    init_weights(blocks, config.init, config.layers)
    x = torch.randn(1, 8, width, dtype=torch.float64)
    pulls = torch.randn(16, *x.shape, dtype=torch.float64)  # directions in which it may move
    found = []
    for depth, block in enumerate(blocks, start=1):
        out = block(x)
        if depth in depths:
            weight = cast(MLP, cast(Block, block).mlp).fc2.weight
            normed = norm(out)
            felt = [
                torch.autograd.grad(normed, weight, pull, retain_graph=True)[0] for pull in pulls
            ]
            found.append(float(torch.stack(felt).square().sum((1, 2)).mean().sqrt()))
        x = out.detach()
    return found


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        [float(depth) for depth in found["depths"]],
        {name: found[name] for name in ("norm after (2017)", "norm before")},
        title="The last block's gradient, as stacks begin",
        across="blocks",
        up="gradient of its last weights",
        about="Xavier's weights of 2017; the output is pulled in random directions.",
    )


def ask(numbers: np.random.Generator) -> Question:
    small, times = int(numbers.choice([3, 4, 6])), int(numbers.choice([4, 9, 16]))
    felt = float(numbers.choice([0.6, 1.2, 2.4]))
    return Question(
        "Under pre-norm the residual stream of $L$ blocks grows like $\\sqrt{L}$ at the start, and "
        "the last norm divides gradients by it. If the last block of a stack of "
        f"${small}$ blocks has a gradient of ${felt}$, about what has that of ${small * times}$ "
        "blocks?",
        felt / times**0.5,
        why=f"$\\sqrt{{{times}}}$ times less",
    )


CLAIM = Claim(
    id="norm-place",
    source="B 1.4e",
    statement="A norm follows each sub-layer.",
    verdict="depends",
    truth="True of 2017: norm(x + f(x)). Most models since put it before, x + f(norm(x)). As "
    "stacks begin, the gradient of the last block stays as it is with depth under post-norm and "
    "shrinks about like $1/\\sqrt{L}$ under pre-norm.",
    measure=measure,
    plot=plot,
    ask=ask,
)
