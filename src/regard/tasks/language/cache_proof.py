"""Proofs on a run of your own: the cache changes no score, and spares what it is said to.

`check_cache` writes a text out through the cache and without one, and compares all scores.
`explain_cache` takes one token more, and shows which entries of the map are new for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import UserError
from regard.generation.verify import CacheCheck, compare
from regard.inspection.cache_explanation import CacheExplanation, explain
from regard.models.gpt import GPT
from regard.tasks.language.data import LanguageData, part_of
from regard.tasks.language.metrics import Speaker
from regard.tasks.language.predict import Prompt

LONGEST = 256  # tokens that are compared: without a cache their number counts three times
FEW = 11  # of the run's own tokens are enough to see which entries are new
OWN_TEXT = "It was the best of times, it was the worst of times."  # where a run's own data are gone


def check_cache(
    trained: Speaker, prompts: Sequence[Prompt], data: Callable[[], LanguageData]
) -> list[CacheCheck]:
    """For each text, or a window of the run's own if there is none, compare all scores."""
    model = trained.model
    assert isinstance(model, GPT)
    most = min(LONGEST, trained.config.model.context_length)
    return [
        compare(model, tokens_of(trained, prompt, most), prompt.name)
        for prompt in prompts or [some_text(trained, data)]
    ]


def explain_cache(
    trained: Speaker, prompts: Sequence[Prompt], data: Callable[[], LanguageData]
) -> list[CacheExplanation]:
    """For each text, or the beginning of the run's own if there is none, take one token more."""
    most = trained.config.model.context_length - 1
    if not prompts:
        some = some_text(trained, data)
        prompts = [replace(some, tokens=some.tokens[:FEW])]
    model = trained.model
    assert isinstance(model, GPT)
    return [
        explain(
            model,
            trained.metadata.words,
            trained.config.model.context_length,
            tokens_of(trained, prompt, most),
            prompt.name,
        )
        for prompt in prompts
    ]


def some_text(trained: Speaker, data: Callable[[], LanguageData]) -> Prompt:
    """The beginning of what the run was chosen by; of another text, where that is gone."""
    facts, most = trained.metadata, min(LONGEST, trained.config.model.context_length)
    try:
        own = data()
        tokens, _ = part_of(own, "validation")
    except UserError:
        return Prompt("a text of regard's own", OWN_TEXT, tuple(facts.words.encode(OWN_TEXT)))
    some = tuple(int(token) for token in tokens[:most])
    return Prompt(f"validation of {own.name}", facts.words.decode(some), some)


def tokens_of(trained: Speaker, prompt: Prompt, most: int) -> Int[Tensor, "1 n"]:
    """The last of a prompt's tokens that there is room for."""
    tokens = list(prompt.tokens)[-most:]
    if not tokens:
        raise UserError(f"{prompt.name} is empty, and a cache begins with a token")
    return torch.tensor([tokens], device=trained.device)
