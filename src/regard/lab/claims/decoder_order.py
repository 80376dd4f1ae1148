"""A causal mask is a sense of order by itself: two layers of it tell in which order words came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor, nn

from regard.lab.claim import Claim
from regard.lab.claims.equivariance_proof import shuffle
from regard.lab.counting import enough
from regard.lab.evidence import Evidence, at_most
from regard.lab.figures import lines
from regard.lab.question import Question
from regard.models import GPT, Bert, BertConfig, GPTConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-10
WORDS = 50

Place = Literal["learned", "rope", "none"]


def measure(length: int = 10, width: int = 32, layers: int = 4, seed: int = 0) -> Evidence:
    """What changes when words are shuffled: with no positions, with and without a causal mask.

    Args:
        length: words in a text; three or more.
        width: numbers in a word.
        layers: blocks of the deepest model; two or more.
        seed: where the random numbers start.
    """
    enough(length=(length, 1))
    draw = torch.Generator().manual_seed(seed)
    known = max(WORDS, length)
    words = torch.randperm(known, generator=draw)[None, :length]
    order = shuffle(length, draw)
    # The last word stays where it is; the words before it change their places.
    before = torch.cat([torch.arange(length - 1).roll(1), torch.tensor([length - 1])])

    def free(depth: int, place: Place = "none") -> nn.Module:
        """Every word reads all."""
        torch.manual_seed(seed)
        return Bert(
            BertConfig(
                vocab_size=known,
                context_length=length,
                width=width,
                heads=2,
                layers=depth,
                pos_embed=place,
                init="xavier_uniform",
            )
        )

    def causal(depth: int) -> nn.Module:
        """A word reads itself and those before it."""
        torch.manual_seed(seed)
        return GPT(
            GPTConfig(
                vocab_size=known,
                context_length=length,
                width=width,
                heads=2,
                layers=depth,
                pos_embed="none",
                init="xavier_uniform",
            )
        )

    def moved(net: nn.Module, by: Tensor) -> Tensor:
        """By how much each word's vector changes, other than its place."""
        net = net.double().eval().requires_grad_(False)
        whole: Tensor = net(words)
        return (net(words[:, by]) - whole[:, by]).norm(dim=-1)[0] / whole.norm(dim=-1)[0].mean()

    depths = list(range(1, max(2, layers) + 1))
    with torch.random.fork_rng(devices=[]):
        last_free = [float(moved(free(depth), before)[-1]) for depth in depths]
        last = [float(moved(causal(depth), before)[-1]) for depth in depths]
        unmasked = float(moved(free(layers), order).max())
        masked = float(moved(causal(layers), order).max())
        one = float(moved(causal(1), order).max())
        learned = float(moved(free(layers, "learned"), order).max())
        rotary = float(moved(free(layers, "rope"), order).max())
    return Evidence(
        deciding=f"no positions: {unmasked:.0e} unmasked, {masked:.2f} causal",
        inside=(
            at_most("unmasked: change of a word when all are shuffled", unmasked, ROUNDING),
            at_most("unmasked: change of the last word, any depth", max(last_free), ROUNDING),
            at_most("one causal layer: change of the last word", last[0], ROUNDING),
        ),
        outside=(
            at_most("causal: change of a word when all are shuffled", masked, ROUNDING),
            at_most("one causal layer: change of a word when all are shuffled", one, ROUNDING),
            at_most("two causal layers: change of the last word", last[1], ROUNDING),
        ),
        controls=(
            at_most("unmasked, learned positions: change of a word", learned, ROUNDING),
            at_most("unmasked, rotary positions: change of a word", rotary, ROUNDING),
        ),
        series={"layers": depths, "every word reads all": last_free, "causal mask": last},
    )


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    names = ("every word reads all", "causal mask")
    layers = [float(depth) for depth in found["layers"]]
    figure = lines(
        layers,
        {name: [max(value, 1e-17) for value in found[name]] for name in names},
        title="Shuffle the words before the last: does the last one notice?",
        across="layers, none of which has positions",
        up="change of the last word, relative",
        log="y",
        about="One causal layer reads the same words. A second one reads what each had read.",
    )
    figure.axes[0].set_xticks(layers)  # there is no half of a layer
    return figure


def ask(numbers: np.random.Generator) -> Question:
    a, b, c = (int(n) for n in 6 * numbers.choice(np.arange(1, 10), 3, replace=False))

    def third(first: float, second: float) -> float:
        """What the third token reads in the second layer."""
        once = (first, (first + second) / 2, (first + second + c) / 3)
        return sum(once) / 3

    return Question(
        "In two causal layers without positions each token reads the plain mean of its own number "
        "and those before it (no residuals). Which number does the third token hold in the end, "
        f"for the tokens ${a}, {b}, {c}$, and for ${b}, {a}, {c}$? (two numbers, in this order)",
        (third(float(a), float(b)), third(float(b), float(a))),
        why=f"after one layer: ${a}, {(a + b) / 2:g}, {(a + b + c) / 3:g}$ and "
        f"${b}, {(a + b) / 2:g}, {(a + b + c) / 3:g}$",
    )


CLAIM = Claim(
    id="decoder-order",
    source="B 1.4a",
    statement="Transformers require positional encoding to capture the order of their tokens.",
    verdict="depends",
    truth="Where every token reads all others, yes. A causal mask breaks the symmetry by itself: "
    "tokens differ in how many they read. One such layer still hides the order of earlier words "
    "from the last, and two do not.",
    measure=measure,
    plot=plot,
    ask=ask,
)
