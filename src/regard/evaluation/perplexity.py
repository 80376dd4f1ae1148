"""How well a model foretells a text: the loss of each token, by windows that slide over it.

    seen = token_losses(model, tokens, length=256)
    figures = foretelling(seen, size=len(text.encode()))
    print(summary(figures))                     # loss, perplexity, bits per byte

**The protocol.** A model reads at most `length` tokens. Windows of that length start every
`stride` tokens, half a window by default; each counts only the tokens that no window before it
counted. So every token is counted once, and all but those of the first window are foretold from
at least `length − stride` tokens. The first token of the text has nothing before it and is not
counted. With stride = length the windows stand side by side, which costs half as much and gives
a higher loss, because the first tokens of each are foretold from little.

Perplexity depends on what a token is, so it compares only models that cut texts alike. Bits per
byte and perplexity per word, the loss of the whole text over its bytes or its words, compare any
two that can spell the text: one that knows no capitals, or has one token for all that is unknown,
has less to foretell. A word is what stands between spaces. Figures that are published on WikiText
count the end of each line as a word besides, their `<eos>`, and are lower for it: that is the other
figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor
from torch.nn import functional as F

from regard.evaluation.bootstrap import ROUNDS, Interval, bootstrap_of, checked, interval_from

LARGEST = 700.0  # e to this is about the largest number
WITH_LINES = "… line ends counted"  # as words: what is published on WikiText
Scorer = Callable[[Int[Tensor, "b n"]], Float[Tensor, "b n words"]]


def token_losses(
    score: Scorer,
    tokens: Integer[np.ndarray, "m"],
    length: int,
    *,
    stride: int | None = None,
    at_once: int = 16,
    device: torch.device | str = "cpu",
    advance: Callable[[int], object] | None = None,
) -> Float[np.ndarray, "counted"]:
    """The loss of every token but the first, in nats, each foretold from as much as its window has.

    `score` gives the scores of the token after each of those it is shown. `advance` is told how
    many tokens are done.
    """
    stride = max(1, length // 2) if stride is None else stride
    if not 1 <= stride <= length:
        raise ValueError(f"stride={stride} does not lie in 1 … length={length}")
    if len(tokens) < 2:
        raise ValueError(f"{len(tokens)} tokens: the second is the first that can be foretold")
    starts = range(0, max(1, len(tokens) - 1 - length + stride), stride)
    found = []
    whole = [start for start in starts if start + length + 1 <= len(tokens)]
    for at in range(0, len(whole), at_once):
        some = whole[at : at + at_once]
        windows = np.stack([np.asarray(tokens[start : start + length + 1]) for start in some])
        losses = _losses(score, windows, device)
        for start, each in zip(some, losses, strict=True):
            found.append(each if start == 0 else each[length - stride :])
            if advance is not None:
                advance(len(found[-1]))
    counted = sum(map(len, found))
    if counted < len(tokens) - 1:  # the end, in a window that lies further back if it can
        left = len(tokens) - 1 - counted
        start = max(0, len(tokens) - 1 - length)
        window = np.asarray(tokens[start:])[None]
        found.append(_losses(score, window, device)[0][-left:])
        if advance is not None:
            advance(left)
    return np.concatenate(found)


def _losses(
    score: Scorer, windows: Integer[np.ndarray, "b n"], device: torch.device | str
) -> Float[np.ndarray, "b k"]:
    words = torch.from_numpy(windows.astype(np.int64)).to(device)
    with torch.no_grad():
        scores = score(words[:, :-1])
    loss = F.cross_entropy(scores.float().flatten(0, 1), words[:, 1:].flatten(), reduction="none")
    return loss.view(len(words), -1).double().cpu().numpy()


@dataclass(frozen=True)
class PerplexityMetrics:
    """How well a text was foretold; `loss` is in nats a token."""

    tokens: int
    loss: Interval
    perplexity: Interval
    bits_per_byte: Interval
    word_perplexity: Interval | None = None
    """Of what stands between spaces."""
    word_perplexity_with_eos: Interval | None = None
    """The same with the end of each line as a word besides, as figures on WikiText have it."""

    def to_values(self) -> dict[str, Any]:
        """The same as dictionaries and numbers, for JSON."""
        found = {name: getattr(self, name) for name in FIGURES if getattr(self, name) is not None}
        return {"tokens": self.tokens, **{name: each._asdict() for name, each in found.items()}}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> PerplexityMetrics:
        """What `to_values` was made of."""
        try:
            figures = {name: interval_from(values[name]) for name in FIGURES if name in values}
            return checked(cls(tokens=values["tokens"], **figures))
        except (KeyError, TypeError, ValueError) as trouble:
            raise ValueError(f"these are not the figures of a text: {trouble}") from None


FIGURES = ("loss", "perplexity", "bits_per_byte", "word_perplexity", "word_perplexity_with_eos")


def foretelling(
    losses: Float[np.ndarray, "n"],
    *,
    size: int,
    words: int | None = None,
    lines: int | None = None,
    block: int = 256,
    rounds: int = ROUNDS,
) -> PerplexityMetrics:
    """The figures of a text of `size` bytes, and of its words and ends of lines if told how many.

    Intervals are over the choice of blocks of so many tokens: neighbours are no independent draws.
    """
    if not len(losses):
        raise ValueError("no token was foretold")
    if size < 1:
        raise ValueError(f"a text of {size} bytes has no bits per byte")
    firsts = np.arange(0, len(losses), block)
    sums = np.add.reduceat(losses, firsts)
    counts = np.diff([*firsts, len(losses)])

    def mean(rows: Int[np.ndarray, "r n"]) -> Float[np.ndarray, "r"]:
        return sums.take(rows).sum(-1) / counts.take(rows).sum(-1)

    loss = bootstrap_of(len(sums), mean, rounds=rounds)

    def of(change: Callable[[float], float]) -> Interval:
        return Interval(*map(change, loss))

    n = len(losses)

    def per(count: int | None) -> Interval | None:
        # A text with hardly a space has words that no number is small enough for.
        if not count or loss.high * n / count >= LARGEST:
            return None
        return of(lambda x: math.exp(x * n / count))

    return PerplexityMetrics(
        tokens=n,
        loss=loss,
        perplexity=of(math.exp),
        bits_per_byte=of(lambda x: x * n / math.log(2) / size),
        word_perplexity=per(words),
        word_perplexity_with_eos=None if words is None or lines is None else per(words + lines),
    )


def summary(found: PerplexityMetrics) -> str:
    """A few lines for a terminal."""
    rows = [("loss", found.loss), ("perplexity", found.perplexity)]
    rows += [("bits per byte", found.bits_per_byte)]
    named = {
        "perplexity per word": found.word_perplexity,
        WITH_LINES: found.word_perplexity_with_eos,
    }
    rows += [(name, figure) for name, figure in named.items() if figure is not None]
    wide = max(len(name) for name, _ in rows)
    lines = [f"{name:<{wide}}  {x.value:.4g}  ({x.low:.4g} to {x.high:.4g})" for name, x in rows]
    return "\n".join([*lines, f"{found.tokens:,} tokens; 95% intervals over blocks of the text."])
