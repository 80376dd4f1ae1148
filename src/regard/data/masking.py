"""Words to be guessed: some are hidden, some exchanged, some stay, and all of them are asked for.

    hide = Masking(words, share=0.15)
    masked = hide(batch.words, generator)       # drawn anew each time
    masked.words, masked.places, masked.targets, masked.real

A model that saw only hidden words would have no use for those it sees (Devlin et al. 2019): so of
the words asked for, a few are another word, and a few are there to be seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from regard.data.vocabulary import Vocabulary

SPARE = 1.5  # places kept for words that are asked for, as a multiple of those expected


class Masked(NamedTuple):
    """Words with some hidden; which places are asked for, what is there, and which are real.

    There are as many places in every batch of one shape, and more than are needed: a step can then
    be recorded. Where chance asks for still more, the last ones are hidden but not asked for.
    """

    words: Int64[Tensor, "b n"]
    places: Int64[Tensor, "b k"]
    targets: Int64[Tensor, "b k"]
    real: Bool[Tensor, "b k"]


class Masking:
    """The rule by which words are hidden, for one vocabulary."""

    def __init__(
        self,
        words: Vocabulary,
        *,
        share: float = 0.15,
        hidden: float = 0.8,
        swapped: float = 0.1,
        whole_words: bool = False,
    ) -> None:
        self.share, self.hidden, self.swapped = share, hidden, swapped
        self.mask = words.special("mask")
        specials = {words.special(name) for name in words.specials}
        self.special = torch.tensor([n in specials for n in range(len(words))])
        self.others = torch.tensor([n for n in range(len(words)) if n not in specials])
        # Every token begins a word, unless words are hidden as a whole.
        begins = [not whole_words or begins_word(words, n) for n in range(len(words))]
        self.begins = torch.tensor(begins)

    def __call__(self, words: Int64[Tensor, "b n"], generator: torch.Generator) -> Masked:
        """Hide some of these words; start, end and padding stay."""
        device = words.device
        if self.special.device != device:
            self.special, self.others, self.begins = (
                each.to(device) for each in (self.special, self.others, self.begins)
            )
        ordinary = ~self.special[words]
        drawn, fate = (torch.rand(words.shape, generator=generator, device=device) for _ in "12")
        # Pieces of one word share the number that was drawn for the word.
        word = (self.begins[words] | ~ordinary).long().cumsum(1) - 1
        chosen = ordinary & (drawn.gather(1, word.clamp(min=0)) < self.share)
        pick = torch.randint(len(self.others), words.shape, generator=generator, device=device)
        shown = words.masked_fill(chosen & (fate < self.hidden), self.mask)
        swap = chosen & (fate >= self.hidden) & (fate < self.hidden + self.swapped)
        shown = self.others[pick].where(swap, shown)
        room = min(words.shape[1], math.ceil(SPARE * self.share * words.shape[1]) + 2)
        real, places = chosen.long().topk(room, dim=1)
        return Masked(shown, places, words.gather(1, places), real.bool())


def begins_word(words: Vocabulary, number: int) -> bool:
    """Whether a token is the first of its word: not a piece that goes on with a word."""
    shown = words.entry(number)
    if hasattr(words, "merges"):  # byte pairs have the space before a word in its first piece
        return not shown[:1].isalnum()
    return not shown.startswith("##")
