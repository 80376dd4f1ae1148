"""Proof that the cache changes no score: a text written through it, and without one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.generation.sample import check_still
from regard.models.gpt import GPT

# The same sums in another order: how far apart, by the largest of the numbers that are compared.
ALLOWED = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


class Difference(NamedTuple):
    """The largest difference between two tables of scores, and the row it is in."""

    absolute: float
    relative: float  # to the largest score of that row
    row: int


@dataclass(frozen=True)
class CacheCheck:
    """What came of writing one text with a cache and without."""

    name: str
    tokens: int
    prefill: int  # tokens that the second way through the cache takes at once
    absolute: float
    relative: float
    at: int  # the token after which that was
    allowed: float  # of the relative difference
    kind: str  # of number
    likeliest: int  # tokens after which both hold the same one for likeliest
    plain_seconds: float
    cached_seconds: float

    @property
    def holds(self) -> bool:
        """Whether the scores are the same, but for the order of sums; what is no number is not."""
        return self.relative <= self.allowed

    @property
    def ratio(self) -> float:
        """How many times as long it takes without."""
        return self.plain_seconds / max(self.cached_seconds, 1e-9)

    def to_values(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "holds": self.holds}

    def __str__(self) -> str:
        verdict = (
            "The cache changes nothing: what it leads to is what the whole text leads to."
            if self.holds
            else "The cache is WRONG: it leads to other scores than the whole text does."
        )
        return (
            f"{self.name}: {self.tokens} tokens, scored after each\n"
            f"without a cache  {self.plain_seconds:9.3f} s  the whole text again for each token\n"
            f"with a cache     {self.cached_seconds:9.3f} s  one token at a time, "
            f"{self.ratio:.1f} times as fast\n"
            f"largest difference: {self.absolute:.1e}, after token {self.at}, which is "
            f"{self.relative:.1e} of the largest score;\n"
            f"  {self.allowed:.0e} is allowed for {self.kind}, and a cache begun with "
            f"{self.prefill} tokens at once was compared too\n"
            f"likeliest next token: the same after {self.likeliest} of {self.tokens}\n"
            f"{verdict}"
        )


@torch.inference_mode()
def compare(model: GPT, tokens: Int[Tensor, "1 n"], name: str = "text") -> CacheCheck:
    """Score every next token of a text in three ways: plainly, by single tokens, after a prefill.

    Plainly is as anybody would without a cache: the whole text so far, again for each token.
    """
    check_still(model)
    n = tokens.shape[1]
    prefill = max(1, n // 2)
    uncached(model, tokens[:, :4])  # what is made once is not timed, here or in the next line
    begun = through_cache(model, tokens, prefill)
    plain, plain_seconds = timed(lambda: uncached(model, tokens), tokens.device)
    cached, cached_seconds = timed(lambda: through_cache(model, tokens), tokens.device)
    both = torch.cat([cached, begun]), torch.cat([plain, plain[prefill - 1 :]])
    found = difference(*both)
    return CacheCheck(
        name=name,
        tokens=n,
        prefill=prefill,
        absolute=found.absolute,
        relative=found.relative,
        at=(found.row if found.row < n else found.row - n + prefill - 1) + 1,
        allowed=ALLOWED[plain.dtype],
        kind=str(plain.dtype).removeprefix("torch."),
        likeliest=int((plain.argmax(-1) == cached.argmax(-1)).sum()),
        plain_seconds=plain_seconds,
        cached_seconds=cached_seconds,
    )


def uncached(model: GPT, tokens: Int[Tensor, "1 n"]) -> Float[Tensor, "n words"]:
    """The scores after each token, from the whole text so far."""
    ends = range(1, tokens.shape[1] + 1)
    return torch.cat([model(tokens[:, :end])[:, -1] for end in ends])


def through_cache(
    model: GPT, tokens: Int[Tensor, "1 n"], prefill: int = 1
) -> Float[Tensor, "m words"]:
    """The scores after the first tokens, taken at once, and after each further one."""
    state = model.new_state(1)
    scores = [model.decode(tokens[:, :prefill], state)]
    scores += [
        model.decode(tokens[:, at : at + 1], state) for at in range(prefill, tokens.shape[1])
    ]
    return torch.cat(scores)


def difference(ours: Float[Tensor, "n m"], right: Float[Tensor, "n m"]) -> Difference:
    """The row where two tables differ most, for how large its numbers are."""
    wide = torch.promote_types(right.dtype, torch.float32)
    apart = (ours.to(wide) - right.to(wide)).abs().amax(-1)
    size = right.to(wide).abs().amax(-1).clamp(min=torch.finfo(wide).tiny)
    relative = torch.where(apart > 0, apart / size, 0.0).masked_fill(apart.isnan(), torch.nan)
    row = int(relative.argmax())  # which takes what is no number for the largest
    return Difference(float(apart[row]), float(relative[row]), row)


def timed(work: Callable[[], Tensor], device: torch.device) -> tuple[Tensor, float]:
    def settle() -> None:  # what a GPU was told to do is not done yet
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    settle()
    start = time.perf_counter()
    result = work()
    settle()
    return result, time.perf_counter() - start
