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
from torch.nn import functional as F

from regard.data.tokenizer import Vocabulary
from regard.data.word_pieces import INSIDE, WordPieceVocabulary
from regard.data.words import WordVocabulary

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
        specials = [words.special(name) for name in words.specials]
        self.ordinary = torch.ones(len(words), dtype=torch.bool)
        self.ordinary[specials] = False
        self.others = self.ordinary.nonzero()[:, 0]
        # Which tokens may go on with a word, and which leave theirs open: none, unless words are
        # hidden as a whole.
        edges = [edges_of(words, n) if whole_words else (False, False) for n in range(len(words))]
        self.goes_on, self.open = torch.tensor(edges).T & self.ordinary

    def __call__(self, words: Int64[Tensor, "b n"], generator: torch.Generator) -> Masked:
        """Hide some of these words, at least one a row; start, end and padding stay."""
        device = words.device
        if self.ordinary.device != device:
            self.ordinary, self.others, self.goes_on, self.open = (
                each.to(device) for each in (self.ordinary, self.others, self.goes_on, self.open)
            )
        ordinary = self.ordinary[words]
        drawn, fate = (torch.rand(words.shape, generator=generator, device=device) for _ in "12")
        # Pieces of one word share the number that was drawn for the word.
        before = F.pad(words[:, :-1], (1, 0), value=self.mask)
        begins = ~(self.goes_on[words] & self.open[before])
        drawn = drawn.gather(1, begins.long().cumsum(1) - 1).masked_fill(~ordinary, 1.0)
        least = drawn.amin(1, keepdim=True)
        chosen = ordinary & ((drawn < self.share) | (drawn == least))
        pick = torch.randint(len(self.others), words.shape, generator=generator, device=device)
        shown = words.masked_fill(chosen & (fate < self.hidden), self.mask)
        swap = chosen & (fate >= self.hidden) & (fate < self.hidden + self.swapped)
        shown = self.others[pick].where(swap, shown)
        n = words.shape[1]
        room = min(n, math.ceil(SPARE * self.share * n) + 2)
        # Those chosen come first, from left to right: no two numbers are equal.
        order = torch.arange(n, 0, -1, device=device)
        places = (chosen * n + order).topk(room).indices
        return Masked(shown, places, words.gather(1, places), chosen.gather(1, places))


def edges_of(words: Vocabulary, number: int) -> tuple[bool, bool]:
    """Whether a token may go on with the word before it, and whether a later one may with its own.

    Of word pieces, the vocabulary says it; of bytes and characters, those inside a word are letters
    and digits, and the bytes of which a letter has several.
    """
    if isinstance(words, WordVocabulary):
        return False, False
    if isinstance(words, WordPieceVocabulary):
        return words.entry(number).startswith(INSIDE), True
    signs = words.decode([number]) or " "
    first, last = (sign.isalnum() or sign == "\ufffd" for sign in (signs[0], signs[-1]))
    return first, last
