"""A text judged by its words: each, and each pair of neighbours, votes for the classes.

That is the linear model beside which texts are often judged, made a part of a model that also
reads: nothing is looked up in context, so a vote can be read off a table, word by word.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Positions

# An optimiser such as AdamW moves every number by about its rate at a time, whatever its size. A
# word has many numbers in a reader and one here for each class, so what it says is multiplied by
# this: of 40, 80, 160 and 320 the best on validation of SST-2, at a rate of 2.5e-4.
GAIN = 320.0
FIRST, SECOND = 1_000_003, 7_919  # primes: neighbouring numbers of words end in distant slots


class NgramHead(nn.Module):
    """Words in, scores of the classes out: the sum of all votes over the root of their number.

    A word has a row of its own. Pairs of neighbours share `slots` rows by their hash, so two may
    meet in one; with a few hundred thousand rows few that matter do.
    """

    def __init__(self, words: int, slots: int, classes: int) -> None:
        super().__init__()
        self.words, self.slots = words, slots
        self.table = nn.Embedding(words + slots, classes)
        nn.init.zeros_(self.table.weight)  # nobody has an opinion before the first text

    def forward(
        self, words: Int[Tensor, "b n"], positions: Positions | None = None
    ) -> Float[Tensor, "b classes"]:
        rows = torch.cat([words, self.pairs(words)], 1)
        votes = self.table(rows)
        if isinstance(positions, Tensor):
            real = positions >= 0
            counted = torch.cat([real, real[..., 1:] & real[..., :-1]], -1).expand(rows.shape)
        else:
            counted = torch.ones_like(rows, dtype=torch.bool)
        total = (votes * counted[..., None]).sum(1)
        return GAIN * total / counted.sum(-1, keepdim=True).clamp(min=1).sqrt()

    def pairs(self, words: Int[Tensor, "b n"]) -> Int[Tensor, "b n-1"]:
        """The row of each word with the one after it."""
        return (words[:, :-1] * FIRST + words[:, 1:] * SECOND) % self.slots + self.words
