"""What a report shows of a language model, and where it looked when it read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from regard.errors import UserError
from regard.inspection.text_maps import Layers, reading_item, text_layers
from regard.models.gpt import GPT
from regard.tasks.language.data import LanguageData
from regard.tasks.language.metrics import Evaluation, Speaker
from regard.tasks.language.predict import Prompt, own_split, predict
from regard.tasks.several import expect_one
from regard.tasks.task import Looked
from regard.visualization.document import Document, Section
from regard.visualization.figure_text import text_figure

SAMPLES = 3  # texts that a report has the model write
SHOWN = 512  # tokens of a text whose maps are shown
IN_REPORT = 192  # the same in a report, which holds all maps
READING = (
    "Point at a token, or move with the arrow keys, to see which earlier ones it read. The mean "
    "is over all layers and heads."
)


def views(trained: Speaker, data: LanguageData, split: str, judged: Evaluation) -> list[Section]:
    """The sections of a report that only a language model has."""
    figures = judged.figures
    named = {
        "loss, nats a token": figures.loss,
        "perplexity": figures.perplexity,
        "bits per byte": figures.bits_per_byte,
        "perplexity per word": figures.word_perplexity,
        "perplexity per word, line ends counted": figures.word_perplexity_with_eos,
    }
    length = trained.config.model.context_length
    own = own_split(data, split, length)
    prompts = [own.item(row) for row in range(min(SAMPLES, own.count))]
    how = replace(trained.config.generation, seed=trained.config.train.seed, num_samples=1)
    speaker = replace(trained, config=replace(trained.config, generation=how))
    return [
        {
            "view": "figures",
            "title": f"On {split}",
            "words": f"{figures.tokens:,} tokens, each predicted from at least "
            f"{judged.length - judged.stride} before it, but for the first window: windows of "
            f"{judged.length}, a new one every {judged.stride}. 95% intervals over blocks.",
            "data": {
                "items": [
                    {"name": name, "unit": "", **interval._asdict()}
                    for name, interval in named.items()
                    if interval is not None
                ]
            },
        },
        {
            "view": "table",
            "title": "What it writes",
            "words": f"After half a window of {split}, drawn at a temperature of "
            f"{trained.config.generation.temperature}.",
            "data": {
                "columns": ["after", "it wrote"],
                "rows": [
                    [f"… {answer.prompt[-80:]}", answer.text]
                    for answer in predict(speaker, prompts)
                ],
            },
        },
        {
            "view": "reading",
            "title": "Where it looked",
            "words": READING,
            "data": {"items": [reading(trained, prompts[0], IN_REPORT)]},
        },
    ]


def look(trained: Speaker, prompts: Sequence[Prompt], data: Callable[[], LanguageData]) -> Looked:
    """Which earlier tokens each token of a text read, by every head."""
    if not prompts:
        raise UserError("there is no text to look at")
    document: Document = {
        "title": "Where it looked, token by token",
        "subtitle": ", ".join(prompt.name for prompt in prompts[:3]),
        "sections": [
            {
                "view": "reading",
                "title": "Reading",
                "words": READING,
                "data": {"items": [reading(trained, prompt) for prompt in prompts]},
            }
        ],
    }

    def draw(path: Path) -> None:
        expect_one(path, len(prompts), "text")
        shown, layers = mapped(trained, prompts[0])
        text_figure(shown, None, np.stack(list(layers)), path, caption=prompts[0].name)

    return Looked(document, draw)


def mapped(
    trained: Speaker, prompt: Prompt, most: int = SHOWN
) -> tuple[list[str], Layers[Float[np.ndarray, "heads n n"]]]:
    """The first tokens of a prompt as people read them, and what each read, layer by layer."""
    model, words = trained.model, trained.metadata.words
    assert isinstance(model, GPT)
    tokens = list(prompt.tokens)[: min(most, trained.config.model.context_length)]
    if not tokens:
        raise UserError(f"{prompt.name} has no token to look at")
    layers = text_layers(model, torch.tensor([tokens], device=trained.device))
    shown = [words.decode([token]) or words.entry(token) for token in tokens]
    return shown, layers.each(lambda layer: layer[0].cpu().numpy())


def reading(trained: Speaker, prompt: Prompt, most: int = SHOWN) -> dict[str, Any]:
    """What the view named reading shows of a text."""
    shown, layers = mapped(trained, prompt, most)
    whole = len(prompt.tokens)
    note = f"The first {len(shown)} of {whole:,} tokens." if whole > len(shown) else ""
    return reading_item(prompt.name, shown, None, layers, causal=True, note=note)
