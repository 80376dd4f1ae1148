"""Captions as a model writes them: the words, how sure it was, and where it looked."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from regard.data.words import WordVocabulary
from regard.generation.sample import GenerationConfig, Listen, beam_search, greedy
from regard.inspection.caption_maps import caption_maps
from regard.models.captioner import Captioner
from regard.tasks.caption.config import CaptionConfig, CaptionGenerationConfig
from regard.tasks.caption.data import Metadata, Source
from regard.tasks.caption.features import grid as kept_grid

AT_ONCE = 128  # images that are written about together


@dataclass(frozen=True)
class Written:
    """A caption: its words as numbers and as entries of the vocabulary, and the whole text."""

    numbers: tuple[int, ...]
    entries: tuple[str, ...]
    text: str
    score: float  # its log-probability; divided by a power of its length, if beams were used


def rules_of(facts: Metadata, config: CaptionGenerationConfig) -> GenerationConfig:
    """How captions begin and end. An unknown word is no word to write."""
    words = facts.words
    never = [words.padding, words.start]
    if "unknown" in words.specials:
        never.append(words.special("unknown"))
    return GenerationConfig(
        bos_id=words.start,
        eos_id=words.end,
        max_new_tokens=facts.longest + 1,
        no_repeat_ngram_size=config.no_repeat_ngram_size,
        suppress_tokens=tuple(never),
    )


@torch.no_grad()
def write(
    model: Captioner,
    seen: Tensor,
    facts: Metadata,
    config: CaptionGenerationConfig,
    *,
    listen: Listen | None = None,
) -> list[Written]:
    """One caption for each image, or for the features of each; a listener hears them grow."""
    rules = rules_of(facts, config)
    if config.num_beams > 1:
        beams, penalty = config.num_beams, config.length_penalty
        out = beam_search(model, seen, rules, beams=beams, length_penalty=penalty, listen=listen)
    else:
        out = greedy(model, seen, rules, listen=listen)
    words = facts.words
    return [
        Written(
            tuple(numbers),
            tuple(words.entry(number) for number in numbers),
            words.decode(numbers),
            score,
        )
        for numbers, score in zip(out.tokens, out.scores, strict=True)
    ]


def write_all(
    model: Captioner, source: Source, count: int, facts: Metadata, config: CaptionGenerationConfig
) -> list[Written]:
    """A caption for each of the first `count` images of a source, in order."""
    found: list[Written] = []
    for start in range(0, count, AT_ONCE):
        found += write(model, source(slice(start, min(start + AT_ONCE, count))), facts, config)
    return found


def words_shown(text: Written, facts: Metadata) -> tuple[tuple[str, ...], list[int]]:
    """The words of a caption as people read them, and the place of the first entry of each.

    Byte pairs cut words, and even letters, into pieces that nobody can read.
    """
    words = facts.words
    if isinstance(words, WordVocabulary):
        return text.entries, list(range(len(text.entries)))
    ends = list(accumulate(len(words.spelling(number)) for number in text.numbers))
    found, places, apart, read = [""], [0], True, 0
    for sign in text.text:
        if sign.isspace():
            apart = True
        elif apart or stands_alone(sign):
            found.append(sign)
            # What is no UTF-8 becomes a sign that may be longer than it was.
            places.append(min(bisect_right(ends, read), len(ends) - 1))
            apart = stands_alone(sign)
        else:
            found[-1] += sign
        read += len(sign.encode())
    return tuple(found[1:]), places[1:]


def stands_alone(sign: str) -> bool:
    """Whether it is a letter of a script that puts no spaces between words, such as Chinese."""
    return unicodedata.category(sign) == "Lo" and unicodedata.east_asian_width(sign) in "WF"


def grid_of(config: CaptionConfig) -> tuple[int, int]:
    """Rows and columns of the patches that the decoder reads."""
    own = config.model.encoder_width is None
    return config.model.encoder.grid if own else kept_grid(config.feature_stage)


@torch.no_grad()
def maps_of(
    model: Captioner, seen: Tensor, texts: Sequence[Written], config: CaptionConfig, facts: Metadata
) -> list[Float32[np.ndarray, "heads words rows columns"]]:
    """Where each head of each layer looked when it wrote each word, as shares of the image.

    What a class token was given is left out, and the rest made whole again.
    """
    rows, columns = grid_of(config)
    numbers = [text.numbers for text in texts]
    maps = caption_maps(model, model.encode(seen), numbers, begin=facts.words.start)
    patches = maps[..., : rows * columns].flatten(1, 2).float()  # b (layers heads) n m
    patches = patches / patches.sum(-1, keepdim=True).clamp(min=1e-12)
    whole = patches.unflatten(-1, (rows, columns)).cpu().numpy()
    return [each[:, : len(text.numbers)] for each, text in zip(whole, texts, strict=True)]
