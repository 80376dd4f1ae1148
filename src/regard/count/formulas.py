"""The unit of counting: one operation, what it multiplies, moves and holds, and how often it is.

A model is a list of these, first to last. Everything else is a sum over the list, or a walk back
along it, as the gradients go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

NUMBER = 4  # bytes of a float32


@dataclass(frozen=True)
class Cost:
    """One operation of a forward pass. Numbers are counted, not bytes: times 4 in float32."""

    where: str
    """The module that does it, with * for the number of a layer: blocks.*.attention.to_q."""
    what: str
    """The operation, as a formula or in a word."""
    weights: int = 0
    biases: int = 0
    shared: int = 0
    """Weights that it has from another module, such as the table of words."""
    multiply_adds: int = 0
    """A multiplication with its addition, of products of matrices and of convolutions alone."""
    skipped: int = 0
    """Those that a mask leaves out: a kernel that computes a whole map makes them all the same."""
    moved: int = 0
    """Numbers read and written, each once: inputs, weights and outputs."""
    held: int = 0
    """Numbers that this leaves in memory for the backward pass."""
    noted: int = 0
    """Bytes that it leaves beside them: indices and flags, which are no float32."""
    times: int = 1

    @property
    def parameters(self) -> int:
        return self.weights + self.biases

    def under(self, path: str, times: int = 1) -> Cost:
        """The same inside a larger module, which has it so many times."""
        where = f"{path}.{self.where}".strip(".") if self.where else path
        return replace(self, where=where, times=self.times * times)


@dataclass(frozen=True)
class Sizes:
    """How much goes in at once."""

    batch_size: int = 1
    """Texts or images."""
    tokens: int = 1
    """Tokens of each: words of a text; of an image, what its patches make."""
    encoder_tokens: int = 0
    """Tokens of what else is read: a sentence to be translated, the places of an image."""
    cached: bool = False
    """Whether only the last token is computed, behind the keys and values of the others."""

    @property
    def new(self) -> int:
        """Tokens that are computed."""
        return 1 if self.cached else self.tokens


def total(costs: Iterable[Cost], field: str) -> int:
    """The sum of a field, every repetition counted."""
    return sum(getattr(cost, field) * cost.times for cost in costs)


def held_bytes(costs: Iterable[Cost]) -> int:
    """What a forward pass leaves in memory for the backward one, its output among it."""
    costs = list(costs)
    return NUMBER * total(costs, "held") + total(costs, "noted")


def in_order(costs: Iterable[Cost]) -> Iterator[Cost]:
    """Every operation as it is executed: a stack of layers is gone through layer by layer."""
    for layer in stacks(costs):
        for _ in range(layer[0].times):
            yield from layer


def stacks(costs: Iterable[Cost]) -> Iterator[list[Cost]]:
    """One layer of each stack, from first to last; what is outside of any is a layer too."""
    for _, group in groupby(costs, key=stack_of):
        yield list(group)


def stack_of(cost: Cost) -> tuple[str, int]:
    """Which stack an operation is repeated with, if it is."""
    return (cost.where.split("*")[0] if "*" in cost.where else "", cost.times)


def training_peak(costs: Iterable[Cost]) -> int:
    """The most numbers in memory during a step with AdamW, whose two means are there already.

    Weights and means are 3P throughout. On the way back, what operation i held is freed when it is
    done, and the gradients of its weights stay; in flight are the gradients of what it put out and
    took in. So the peak is 3P + max over i of Σ_{j ≤ i} held + Σ_{j ≥ i} P_j + in flight. Shared
    weights have a gradient from each use.

    Of equal layers only the last and the first are walked through: from one to the next, what is in
    memory changes by the same number each time, so it is the most at one of the two ends.
    """
    layers = list(stacks(costs))
    parameters = sum(total(layer, "parameters") for layer in layers)
    held, gradients, peak = sum(total(layer, "held") for layer in layers), 0, parameters
    for layer in reversed(layers):
        times = layer[0].times
        for end in range(min(times, 2)):
            for step in reversed(layer):
                own = step.parameters + step.shared
                gradients += own
                peak = max(peak, held + gradients + max(0, step.moved - own))
                held -= step.held
            if end == 0 and times > 2:  # those between
                gradients += (times - 2) * sum(step.parameters + step.shared for step in layer)
                held -= (times - 2) * sum(step.held for step in layer)
    return 3 * parameters + peak
