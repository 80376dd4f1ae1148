"""A text gone on with, a token at a time, each with what else could have stood there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from regard.data.tokenizer import Vocabulary
from regard.errors import UserError
from regard.generation.constraints import Gate, log_chances
from regard.generation.sample import (
    GenerationConfig,
    Writer,
    check_still,
    fresh_seed,
    narrowed,
    seeded,
)
from regard.runs.run import Run
from regard.studio.questions import check_text, items_of_text

TOKENS = 4_000  # that are written at most
SHOWN = 10  # tokens that could have stood in a place
COLDEST, HOTTEST = 0.01, 100.0  # temperatures, but for 0
BROKEN = "\ufffd"  # what stands for bytes that are no letter, or not yet


@dataclass(frozen=True)
class Wish:
    """How a text is to be gone on with; without a seed, one is drawn."""

    text: str
    temperature: float = 0.8
    top_p: float = 1.0
    length: int = 200
    seed: int | None = None


@dataclass(frozen=True)
class Token:
    """What a token adds to the text, its probability, and the likeliest with theirs.

    The probabilities are those that were drawn by, after temperature and top_p. What is added may
    be nothing, as long as a letter is not whole.
    """

    text: str
    probability: float
    top: list[tuple[str, float]]


def wish_of(values: dict[str, Any]) -> Wish:
    """What a request wants written, within limits."""
    known = Wish.__dataclass_fields__
    for name in values:
        if name not in known:
            raise UserError(f"{name[:60]!r} is not asked for; {', '.join(known)} are")
    text = values.get("text")
    if not isinstance(text, str):
        raise UserError("text is missing, or is no text")
    check_text(text)
    temperature, top_p, length, seed = (
        values.get(name, known[name].default) for name in ("temperature", "top_p", "length", "seed")
    )
    if not (is_number(temperature) and (temperature == 0 or COLDEST <= temperature <= HOTTEST)):
        raise UserError(
            f"temperature={temperature!r:.40} is neither 0, for the likeliest token each time, nor "
            f"in {COLDEST} … {HOTTEST:g}"
        )
    if not (is_number(top_p) and 0 < top_p <= 1):
        raise UserError(f"top_p={top_p!r:.40} is not a share in 0 < … ≤ 1")
    if type(length) is not int or not 1 <= length <= TOKENS:
        raise UserError(f"length={length!r:.40} is not a number of tokens in 1 … {TOKENS:,}")
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**32):
        raise UserError(f"seed={seed!r:.40} is not a whole number in 0 … {2**32 - 1:,}")
    return Wish(text, float(temperature), float(top_p), length, seed)


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)


class Continuation(Iterator[Token]):
    """The tokens that a run writes after a text: those that `predict` draws, one at a time.

    Of a text longer than half a window the model reads the end, and it writes no further than to
    the end of the window.
    """

    def __init__(self, run: Run, wish: Wish) -> None:
        model, task = run.model, run.task
        if task.stream is None or not isinstance(model, Writer):
            raise UserError(f"{run.folder.path.name} does not write on: ask it for an answer")
        check_still(model)
        (prompt,) = items_of_text(run, wish.text)
        words: Vocabulary = run.metadata.words
        window: int = run.config.model.context_length
        tokens = list(prompt.tokens)[-(window // 2) :] or words.encode("\n") or [words.start]
        count = min(wish.length, window - len(tokens))
        never = [words.special(name) for name in ("unknown",) if name in words.specials]
        never += [words.padding, words.start]
        # A text has no end that could be learnt, so it goes on until there is no more room.
        self.rules = GenerationConfig(
            bos_id=words.start,
            eos_id=words.end,
            max_new_tokens=count,
            min_new_tokens=count,
            suppress_tokens=tuple(never),
        )
        self.model, self.words, self.wish = model, words, wish
        self.full = count < wish.length
        self.top_k: int | None = getattr(getattr(run.config, task.asking), "top_k", 0) or None
        self.before, self.tokens, self.shown = tokens, list[int](), 0
        self.next = torch.tensor([tokens], device=run.device)
        self.gate = Gate(self.rules, self.next, None)
        self.state: Any = None
        # What `predict` draws by, so that both write the same.
        seed = fresh_seed() if wish.seed is None else wish.seed
        self.draw = seeded(seed, 0, prompt.text)

    @torch.inference_mode()
    def __next__(self) -> Token:
        if len(self.tokens) >= self.rules.max_new_tokens:
            raise StopIteration
        if self.state is None:
            self.state = self.model.new_state(1)
        scores = log_chances(self.model, self.next, self.state, None, self.rules)
        self.gate.shut(scores, len(self.tokens))
        chances = self.chances(scores)
        chosen = torch.multinomial(chances.cpu(), 1, generator=self.draw).to(scores.device)
        self.tokens.append(int(chosen))
        self.gate.note(chosen)
        self.next = chosen
        best = scores[0].topk(min(SHOWN, int(scores.isfinite().sum()))).indices
        top = zip(best.tolist(), chances[0, best].tolist(), strict=True)
        return Token(
            self.added(),
            float(chances[0, self.tokens[-1]]),
            [(self.spelt(number), share) for number, share in top],
        )

    def chances(self, scores: Tensor) -> Tensor:
        """The probabilities that are drawn by; at temperature 0, all is on the likeliest."""
        if self.wish.temperature == 0:
            return torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
        return narrowed(scores / self.wish.temperature, self.top_k, self.wish.top_p).softmax(-1)

    def added(self) -> str:
        """What can be shown that was not yet: a letter that is not whole waits, but not for ever.

        Tokens are read together with those before, or words would stand without the space between.
        """
        prompt = self.words.decode(self.before)
        text = self.words.decode([*self.before, *self.tokens])
        whole = text.startswith(prompt)  # or the prompt ended within a letter
        text = text[len(prompt) :] if whole else self.words.decode(self.tokens)
        if len(self.tokens) < self.rules.max_new_tokens:
            text = text.rstrip(BROKEN)
        found, self.shown = text[self.shown :], max(self.shown, len(text))
        return found

    def spelt(self, number: int) -> str:
        """A token as people read it."""
        return self.words.decode([number]) or self.words.entry(number)
