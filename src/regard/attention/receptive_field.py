"""How far word travels: which tokens can influence which after several layers of one mask.

A token that may not be read directly is often reached through others: three layers of `window(64)`
let a token hear of one 189 places away. Each layer adds what it reads to what the token already
is, so nothing that was once reached is lost.
"""

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.algebra import Mask

MOST = 4096  # tokens: the map has their square, and each product their cube


def receptive_field(mask: Mask, n: int, layers: int) -> Bool[Tensor, "n n"]:
    """True at (q, k) where token k can influence token q after so many layers; 0 is itself alone.

    One layer more is one boolean product more, and squaring skips most of them.
    """
    if layers < 0:
        raise ValueError(f"{layers} layers: there cannot be fewer than none")
    power = _one_layer(mask, n)
    total = torch.eye(n, dtype=torch.bool)
    while layers:
        if layers % 2:
            total = _after(total, power)
        power, layers = _after(power, power) if layers > 1 else power, layers // 2
    return total


def layers_to_cover(mask: Mask, n: int) -> int | None:
    """How many layers until every token hears of every other, or None if that never happens.

    Where the mask implies causal, of every earlier one. The powers 1, 2, 4, … are taken until one
    suffices; then the largest number that does not is put together from them, as in a division.
    """
    powers = [_one_layer(mask, n)]
    goal = torch.ones_like(powers[0])
    goal = goal.tril() if mask.implies_causal else goal
    if n == 1:
        return 0
    while not (powers[-1] | ~goal).all():
        powers.append(_after(powers[-1], powers[-1]))
        if torch.equal(powers[-1], powers[-2]):
            return None  # nothing new was heard, so nothing ever will be
    layers, total = 0, torch.eye(n, dtype=torch.bool)
    for doublings in reversed(range(len(powers) - 1)):
        further = _after(total, powers[doublings])
        if not (further | ~goal).all():
            layers, total = layers + 2**doublings, further
    return layers + 1


def _one_layer(mask: Mask, n: int) -> Tensor:
    if not 1 <= n <= MOST:
        raise ValueError(f"who reaches whom is worked out for 1 to {MOST} tokens, not for {n}")
    return mask(range(n), range(n)) | torch.eye(n, dtype=torch.bool)


def _after(a: Tensor, b: Tensor) -> Tensor:
    """The boolean product; a count of ways, at most 4096, is exact in float32."""
    return a.float() @ b.float() > 0
