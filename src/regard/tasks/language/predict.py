"""What a trained language model says after a prompt: a text, a file, or a place in its own data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from regard.data.entries import number_kind
from regard.data.tokenizer import Vocabulary
from regard.data.tokens import count_unknown
from regard.generation.sample import GenerationConfig, fresh_seed, sample, seeded
from regard.models.gpt import GPT
from regard.tasks.inputs import NoItem, OwnSplit, Unreadable
from regard.tasks.language.data import LanguageData, Metadata, part_of
from regard.tasks.language.metrics import Speaker
from regard.tasks.task import Show
from regard.tasks.text_inputs import TextReader, parse_texts

BROKEN = "\ufffd"  # what stands for bytes that are no letter, or not yet
ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}


@dataclass(frozen=True)
class Prompt:
    """A text to go on with, and where it came from."""

    name: str
    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Prediction:
    """A prompt and what the model wrote after it."""

    name: str
    prompt: str
    text: str
    score: float  # the log-probability of all that was written, a stop string counted
    seed: int = 0  # which gives the same text again
    sample: int = 0  # which of the samples that were asked for

    def __str__(self) -> str:
        return f"{self.prompt}{self.text}"

    def to_values(self) -> dict[str, Any]:
        return {
            "input": self.name,
            "prompt": self.prompt,
            "answer": self.text,
            "score": self.score,
            "seed": self.seed,
            "sample": self.sample,
        }


def parse_inputs(
    trained: Speaker, inputs: Iterable[Any], data: Callable[[], LanguageData]
) -> Iterator[Prompt | Unreadable]:
    """What a user names, as prompts; of the run's own data, half a window."""
    facts, length = trained.metadata, trained.config.model.context_length
    reader = TextReader(
        Prompt,
        lambda name, text, _: prompt_of(facts, name, text),
        lambda split: own_split(data(), split, length),
    )
    return parse_texts(inputs, reader)


def own_split(data: LanguageData, split: str, length: int) -> OwnSplit[Prompt]:
    """Half of each window of the run's own text: so that there is room to go on."""
    tokens, _ = part_of(data, split)

    def item(row: int) -> Prompt:
        some = [int(each) for each in tokens[row * length : row * length + max(1, length // 2)]]
        return Prompt(f"{data.name} {split}:{row}", data.metadata.words.decode(some), tuple(some))

    return OwnSplit(data.name, "windows", windows_in(tokens, length), item)


def windows_in(tokens: Sized, length: int) -> int:
    """How many windows a text has, a short one included."""
    return max(1, (len(tokens) - 1) // length)


def prompt_of(facts: Metadata, name: str, text: str) -> Prompt:
    """A text as a prompt, unless the model knows nothing of it."""
    words = facts.words
    tokens = tuple(words.encode(text))
    if tokens and count_unknown(np.array(tokens, number_kind(len(words))), words) == len(tokens):
        raise NoItem(
            f"has {len(tokens)} tokens, of which none is in the vocabulary of this run, which has "
            f"{len(words)}"
        )
    return Prompt(name, text, tokens)


def predict(trained: Speaker, prompts: Sequence[Prompt]) -> list[Prediction]:
    """Each prompt gone on with, as often as `num_samples` says; one after the other."""
    return [answer for prompt in prompts for answer in samples(trained, prompt)]


def stream(trained: Speaker, prompts: Sequence[Prompt], show: Show) -> list[Prediction]:
    """The same, shown while it is written: what `predict` says, a line's end after each answer."""
    return [answer for prompt in prompts for answer in samples(trained, prompt, show)]


def samples(trained: Speaker, prompt: Prompt, show: Show | None = None) -> Iterator[Prediction]:
    """Every sample of a prompt; one of them is the same whatever else is drawn."""
    how = trained.config.generation
    seed = fresh_seed() if how.seed is None else how.seed
    for number in range(how.num_samples):
        if show is not None:
            show(prompt.text)
        text, score = spoken(trained, prompt, seeded(seed, number, prompt.text), show)
        if show is not None:
            show("\n")
        yield Prediction(prompt.name, prompt.text, text, score, seed, number)


def spoken(
    trained: Speaker, prompt: Prompt, generator: torch.Generator, show: Show | None = None
) -> tuple[str, float]:
    """What the model writes after a prompt, and its log-probability.

    Of a prompt longer than half a window the model reads the end, and it writes no further than to
    the end of the window.
    """
    model, config, words = trained.model, trained.config, trained.metadata.words
    assert isinstance(model, GPT)
    how, length = config.generation, config.model.context_length
    tokens = list(prompt.tokens)[-(length // 2) :] or words.encode("\n") or [words.start]
    count = min(how.max_new_tokens, length - len(tokens))
    never = [words.padding, words.start]
    if "unknown" in words.specials:
        never.append(words.special("unknown"))
    telling = Telling(words, tokens, how.stop_strings, show)
    out = sample(
        model,
        1,
        # A text has no end that could be learnt, so it goes on until there is no more room.
        GenerationConfig(
            bos_id=words.start,
            eos_id=words.end,
            max_new_tokens=count,
            min_new_tokens=count,
            suppress_tokens=tuple(never),
        ),
        prompt=torch.tensor([tokens], device=trained.device),
        temperature=how.temperature,
        top_k=how.top_k or None,
        top_p=how.top_p,
        generator=generator,
        listen=telling.hear if telling.needed else None,
    )
    return telling.end(out.tokens[0]), out.scores[0]


class Telling:
    """A text while it is written: what of it can be shown already, and whether it has stopped.

    A token may be less than a letter and a stop string may lie across several, so what could still
    turn out otherwise waits: a letter that is not whole, and what a stop string may begin with.
    """

    def __init__(
        self,
        words: Vocabulary,
        before: Sequence[int],
        stops: Sequence[str] = (),
        show: Show | None = None,
    ) -> None:
        self.words, self.before, self.show = words, list(before), show
        self.prompt = words.decode(before)
        self.stops = [unescaped(stop) for stop in stops]
        self.shown = 0  # letters

    @property
    def needed(self) -> bool:
        """Whether anybody needs to know before the end."""
        return self.show is not None or bool(self.stops)

    def hear(self, _: int, tokens: Sequence[int]) -> bool:
        """One token more; whether a stop string is complete."""
        text = self.text(tokens).rstrip(BROKEN)
        kept = before_stop(text, self.stops)
        stopped = len(kept) < len(text)
        self.tell(kept if stopped else text[: len(text) - begun(text, self.stops)])
        return stopped

    def end(self, tokens: Sequence[int]) -> str:
        """All that is said by the tokens, when there will be no more."""
        text = before_stop(self.text(tokens), self.stops)
        self.tell(text)
        return text

    def text(self, tokens: Sequence[int]) -> str:
        """What tokens say behind those before.

        Read together, or words would stand without the space between, and a letter of two bytes
        break.
        """
        whole = self.words.decode([*self.before, *tokens])
        if whole.startswith(self.prompt):
            return whole[len(self.prompt) :]
        return self.words.decode(tokens)  # the prompt ended within a letter

    def tell(self, text: str) -> None:
        if self.show is not None and len(text) > self.shown:
            self.show(text[self.shown :])
            self.shown = len(text)


def before_stop(text: str, stops: Sequence[str]) -> str:
    """The text up to the first stop string, or all of it."""
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]


def begun(text: str, stops: Sequence[str]) -> int:
    """How many letters at the end of a text may be the beginning of a stop string."""
    return max(
        (
            count
            for stop in stops
            for count in range(1, min(len(stop) - 1, len(text)) + 1)
            if text.endswith(stop[:count])
        ),
        default=0,
    )


def unescaped(text: str) -> str:
    """A string as it was meant: few terminals let a line break be typed, so `\\n` says it."""
    return re.sub(r"\\([nt\\])", lambda found: ESCAPES[found[1]], text)
