"""Let a model write: the likeliest word each time, several drafts at once, or by chance.

    rules = GenerationConfig(bos_id=1, eos_id=2, max_new_tokens=20)
    greedy(model, images, rules).tokens             # [[17, 4, 9], …], without begin and end
    beam_search(model, images, rules, beams=5)
    sample(model, images, rules, temperature=0.8, top_p=0.9, generator=torch.Generator())

A listener hears each text as it grows, to show it or to end it:

    greedy(model, images, rules, listen=lambda text, words: words[-2:] == [4, 9])

Any model that is a `Writer` will do. Texts do not feel their neighbours in the batch, and finished
ones leave it. Several drafts at once are in `beams`, and what all ways have in common in `rules`.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.generation.beam import beam_search
from regard.generation.constraints import (
    Gate,
    Generated,
    GenerationConfig,
    Prompt,
    S,
    Writer,
    check_still,
    first_words,
    log_chances,
)

__all__ = [
    "Generated",
    "GenerationConfig",
    "Listen",
    "Writer",
    "beam_search",
    "check_still",
    "fresh_seed",
    "greedy",
    "narrowed",
    "sample",
    "seeded",
]

Listen = Callable[[int, list[int]], bool]
"""`listen(text, words)` is told, at every step, which text has a word more and all its words so
far, without begin and end; where it answers True the text ends there."""


def greedy(
    model: Writer[S],
    batch: Any,
    rules: GenerationConfig,
    *,
    prompt: Prompt | None = None,
    listen: Listen | None = None,
) -> Generated:
    """The likeliest word each time. Fast, and blind to a better text that starts with a worse."""
    return _write(model, batch, rules, prompt, 1, lambda scores: scores.argmax(-1), listen)


def sample(
    model: Writer[S],
    batch: Any,
    rules: GenerationConfig,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    texts: int = 1,
    generator: torch.Generator | None = None,
    prompt: Prompt | None = None,
    listen: Listen | None = None,
) -> Generated:
    """Words drawn by their probability, some number of texts for each item.

    The scores are divided by the temperature; then only the `top_k` likeliest words stay, and of
    those the fewest that together have a share of at least `top_p` (Holtzman et al. 2020). The
    log-probabilities returned are the model's own, before any of this.
    """
    if not temperature > 0:
        raise ValueError(f"temperature={temperature} must be above 0; its limit 0 is greedy(…)")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k={top_k}: at least 1 word must be left to draw")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} is not a share in 0 < … ≤ 1")
    if texts < 1:
        raise ValueError(f"texts={texts}: there must be at least 1")

    def draw(scores: Tensor) -> Tensor:
        chances = narrowed(scores / temperature, top_k, top_p).softmax(-1)
        if generator is not None:  # which may be on another device than the model
            chances = chances.to(generator.device)
        return torch.multinomial(chances, 1, generator=generator)[:, 0].to(scores.device)

    return _write(model, batch, rules, prompt, texts, draw, listen)


def fresh_seed() -> int:
    """A seed that nobody chose, of the system's randomness: torch's own stays as it was."""
    return secrets.randbits(32)


def seeded(seed: int, sample: int, prompt: str) -> torch.Generator:
    """What one text is drawn by: its own, so that it does not depend on what else is drawn."""
    name = f"{seed} {sample} {prompt}".encode(errors="surrogatepass")
    number = int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 1
    return torch.Generator().manual_seed(number)


def narrowed(scores: Float[Tensor, "r w"], top_k: int | None, top_p: float) -> Float[Tensor, "r w"]:
    """Scores with −∞ for every word but the likeliest."""
    if top_k is not None and top_k < scores.shape[-1]:
        least = scores.topk(top_k).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if top_p < 1:
        ordered, words = scores.sort(descending=True)
        chances = ordered.softmax(-1)
        # A word stays while those before it fall short, so the first always does.
        before = chances.cumsum(-1) - chances
        cut = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, words, before >= top_p)
        scores = scores.masked_fill(cut, -torch.inf)
    return scores


def _write(
    model: Writer[S],
    batch: Any,
    rules: GenerationConfig,
    prompt: Prompt | None,
    texts: int,
    pick: Callable[[Tensor], Tensor],
    listen: Listen | None,
) -> Generated:
    check_still(model)
    with torch.inference_mode():
        return _write_on(model, model.new_state(batch), rules, prompt, texts, pick, listen)


def _write_on(
    model: Writer[S],
    state: S,
    rules: GenerationConfig,
    prompt: Prompt | None,
    texts: int,
    pick: Callable[[Tensor], Tensor],
    listen: Listen | None,
) -> Generated:
    words, lengths = first_words(state, rules, prompt)
    gate = Gate(rules, words, lengths)
    owners = list(range(len(words) * texts))  # the text that each row of the batch writes
    out = Generated(
        tokens=[[] for _ in owners],
        scores=[0.0 for _ in owners],
        finished=[False for _ in owners],
        rows=[[] for _ in owners],
    )

    def hear(news: _News) -> None:
        chosen, gained = news.read()
        for row, (text, word, gain) in enumerate(zip(news.owners, chosen, gained, strict=True)):
            if out.finished[text]:
                continue  # it waits for the others of its item
            out.rows[text].append(row if news.step else row // texts)
            out.scores[text] += gain
            if word == rules.eos_id:
                out.finished[text] = True
            else:
                out.tokens[text].append(word)
                if listen is not None and listen(text, out.tokens[text]):
                    out.finished[text] = True

    # A GPU writes a word while the host still reads the one before it. When all is over that is
    # found out one word too late, and the word is forgotten.
    late: list[_News] = []
    for step in range(rules.max_new_tokens if owners else 0):
        scores = log_chances(model, words, state, lengths, rules)
        lengths = None
        if step == 0 and texts > 1:  # one pass over the prompt serves all texts of an item
            rows = torch.arange(len(words), device=state.device).repeat_interleave(texts)
            state.reorder(rows.unflatten(0, (-1, texts)))
            scores = scores[rows]
            gate.follow(rows)
        gate.shut(scores, step)
        chosen = pick(scores)
        late.append(_News(chosen, scores, owners, step))
        if len(late) > (state.device.type == "cuda"):
            hear(late.pop(0))

        groups = [range(at, at + texts) for at in range(0, len(owners), texts)]
        going = [group for group in groups if not all(out.finished[owners[row]] for row in group)]
        if not going:
            break
        if len(going) < len(groups):
            kept = torch.tensor([list(group) for group in going], device=state.device)
            state.reorder(kept)
            chosen = chosen[kept.flatten()]
            gate.follow(kept.flatten())
            owners = [owners[row] for group in going for row in group]
        words = chosen[:, None]
        gate.note(words)
    for news in late:
        hear(news)
    return out


class _News:
    """The words of one step and what they gained, on their way to the host."""

    def __init__(self, chosen: Tensor, scores: Tensor, owners: list[int], step: int) -> None:
        gained = scores.gather(-1, chosen[:, None])[:, 0].double()
        both = torch.stack((chosen.double(), gained))  # in one parcel: such whole numbers are exact
        self.owners, self.step = owners, step
        self.both, self.arrived = both, None
        if both.is_cuda:
            self.both, self.arrived = both.to("cpu", non_blocking=True), torch.cuda.Event()
            self.arrived.record()

    def read(self) -> tuple[list[int], list[float]]:
        if self.arrived is not None:
            self.arrived.synchronize()
        chosen, gained = self.both.tolist()
        return [int(word) for word in chosen], gained
