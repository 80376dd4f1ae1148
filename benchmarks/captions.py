"""Captions: from images to words, beside transformers with the very same weights.

A captioner is drawn at random, and a `VisionEncoderDecoderModel` of transformers (its ViT, and its
GPT-2 with cross-attention) is given the same weights. Both see the same images, in float32, and
write the likeliest words or with beams: the same words, which is checked before anything is timed.

Random weights do not know when to stop, so a rule lets both write exactly as many words for every
image. Sums are made in different orders, and two words may be so close that rounding decides: one
text in ten may differ, and how many did is kept. In life texts end at different lengths. Ours then
leave the batch and theirs wait for the longest one, which is not counted here. On a GPU there is
a second way for transformers, a cache of fixed size around a compiled decoder. It would have to be
compiled for every shape here, which takes minutes each; `python -m benchmarks decoding` times it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from benchmarks.harness import count, interleave, version
from benchmarks.table import rate_table
from benchmarks.weights_out import BEGIN, END, PADDING, as_captioner
from regard.generation.sample import GenerationConfig, beam_search, greedy
from regard.hardware.machine import machine
from regard.models import Captioner, CaptionerConfig, ViTConfig


class Subject(NamedTuple):
    """A captioner, and how many words it writes about each image."""

    config: CaptionerConfig
    words: int


MODELS = {
    "width 128, 100 words": Subject(
        CaptionerConfig(
            width=128,
            layers=3,
            heads=4,
            vocab_size=100,
            context_length=32,
            encoder=ViTConfig(width=128, layers=3, heads=4, image_size=64, patch_size=8),
        ),
        12,
    ),
    "width 256, 5,000 words": Subject(
        CaptionerConfig(
            width=256,
            layers=3,
            heads=8,
            vocab_size=5000,
            context_length=32,
            encoder=ViTConfig(width=256, layers=3, heads=8, image_size=224, patch_size=32),
        ),
        20,
    ),
}
BATCHES = [1, 32]
BEAMS = [1, 5]  # one beam is greedy
ROUNDS = {"cpu": 15, "cuda": 9}
OURS, TRANSFORMERS, STATIC = "regard", "transformers", "transformers, static cache, compiled"

Words = list[list[int]]  # of each text, in the order of the images
Write = Callable[[Tensor, GenerationConfig, int], Words]  # images, rules and beams in


def run(device: torch.device, *, quick: bool, out: Path | None) -> None:
    """Measure every model, batch and number of beams, print the table, and keep it when asked."""
    from rich.console import Console
    from rich.progress import track

    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        import_module("transformers")
        left_out = {}
    except ImportError as absent:
        left_out = {
            TRANSFORMERS: f"{TRANSFORMERS} is left out ({absent}): pip install transformers"
        }
        console.print(left_out[TRANSFORMERS])

    if device.type == "cuda" and not left_out:
        left_out[STATIC] = "which was not timed: compiling for eight shapes takes minutes"

    cases = [
        (name, batch, beams)
        for name in list(MODELS)[: 1 if quick else None]
        for batch in BATCHES
        for beams in BEAMS
    ]
    rows: list[dict[str, Any]] = []
    ours: Captioner | None = None
    for name, batch, beams in track(cases, "measuring", transient=True):
        config, words = MODELS[name]
        if ours is None or ours.config != config:
            ours = drawn(config).to(device)
            theirs = None if TRANSFORMERS in left_out else as_captioner(ours)
        rounds = 3 if quick else ROUNDS[device.type]
        seen = measure(writers(ours, theirs), config, words, batch, beams, device, rounds)
        rows.append(
            {
                "model": name,
                "parameters": count(ours),
                "batch": batch,
                "beams": beams,
                "words": words,
                **seen,
            }
        )

    console.print(
        rate_table(
            f"captions a second: float32, {device}",
            rows,
            about=("model", "batch", "beams"),
            unit="captions/s",
            rates="captions_per_second",
            ours=OURS,
        )
    )
    strayed = max(max(row["other_words"].values()) for row in rows)
    console.print(
        "× time: how many times as long as regard this one takes. Every text has "
        + " or ".join(dict.fromkeys(f"{row['words']} words ({row['model']})" for row in rows))
        + (f"; up to {strayed} texts differ by a near tie." if strayed else "; all write the same.")
    )
    if out is not None:
        path = out / f"bench-captions-{device.type}.json"
        command = f"python -m benchmarks captions --device {device.type}" + (
            " --quick" if quick else ""
        )
        facts = {
            "command": command,
            **machine(device),
            "dtype": "float32",
            "versions": {} if TRANSFORMERS in left_out else {TRANSFORMERS: version(TRANSFORMERS)},
            "left_out": left_out,
            "rows": rows,
        }
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        console.print(f"wrote {path}")


def measure(
    contenders: Mapping[str, Write],
    config: CaptionerConfig,
    words: int,
    batch: int,
    beams: int,
    device: torch.device,
    rounds: int,
) -> dict[str, Any]:
    """Captions a second of each contender, all about the same images, if they say the same."""
    images = noise(batch, config.encoder).to(device)
    rules = GenerationConfig(
        bos_id=BEGIN,
        eos_id=END,
        max_new_tokens=words,
        min_new_tokens=words,
        suppress_tokens=(PADDING, BEGIN),
    )
    written = {name: write(images, rules, beams) for name, write in contenders.items()}
    other = check_words(written, words, forgiven=0.1)
    timings = interleave(
        {name: partial(write, images, rules, beams) for name, write in contenders.items()},
        device,
        rounds=rounds,
        seconds=0.1,
    )
    return {
        "different": len(set(map(tuple, written[OURS]))),
        "other_words": other,
        "captions_per_second": {name: batch / seen.median for name, seen in timings.items()},
        "quartiles": {name: [batch / t.high, batch / t.low] for name, t in timings.items()},
    }


def check_words(written: Mapping[str, Words], words: int, forgiven: float = 0.0) -> dict[str, int]:
    """Those who write something else, or too little, must not be timed.

    Returns about how many images each one differs from ours, of which a share is forgiven.
    """
    found = {}
    for name, texts in written.items():
        short = next((text for text in texts if len(text) != words), None)
        if short is not None:
            raise RuntimeError(f"{name} writes {len(short)} words where {words} are the rule")
        pairs = zip(texts, written[OURS], strict=True)
        other = [at for at, (text, right) in enumerate(pairs) if text != right]
        found[name] = len(other)
        if len(other) > forgiven * len(texts):
            raise RuntimeError(
                f"{name} writes other words than {OURS} about {len(other)} of {len(texts)} images, "
                f"the first of them image {other[0]}: not one model, or not one search"
            )
    return found


# The writers


def writers(ours: Captioner, theirs: nn.Module | None) -> dict[str, Write]:
    """Everyone who takes part."""
    found: dict[str, Write] = {OURS: partial(write, ours)}
    if theirs is not None:
        found[TRANSFORMERS] = partial(write_theirs, theirs)
    return found


def write(
    model: Captioner, images: Float[Tensor, "b k y x"], rules: GenerationConfig, beams: int
) -> Words:
    """Captions by regard; one beam is greedy."""
    if beams == 1:
        return greedy(model, images, rules).tokens
    return beam_search(model, images, rules, beams=beams).tokens


def write_theirs(
    model: Any,
    images: Float[Tensor, "b k y x"],
    rules: GenerationConfig,
    beams: int,
    **options: Any,
) -> Words:
    """Captions by transformers, under the same rules."""
    texts = model.generate(
        images,
        decoder_start_token_id=rules.bos_id,
        eos_token_id=rules.eos_id,
        pad_token_id=PADDING,
        do_sample=False,
        num_beams=beams,
        min_new_tokens=rules.min_new_tokens,
        max_new_tokens=rules.max_new_tokens,
        suppress_tokens=list(rules.suppress_tokens),
        **options,
    )
    words: Words = texts[:, 1:].tolist()
    return words


# The models


def drawn(config: CaptionerConfig) -> Captioner:
    """A captioner with weights wide enough that every image gets a text of its own.

    First weights as training starts from them say one word for ever. Drafts would then never
    change places, and a search with beams would have less to do than in life.
    """
    draw = torch.Generator().manual_seed(0)
    model = Captioner(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            std = 2 / math.sqrt(parameter.shape[-1])  # twice what keeps the size of its input
            nn.init.normal_(parameter, std=std, generator=draw)
    return model


def noise(images: int, config: ViTConfig) -> Float[Tensor, "b k y x"]:
    """Images that mean nothing, drawn on the CPU so that every device sees the same."""
    draw = torch.Generator().manual_seed(1)
    return torch.randn(
        images, config.channels, config.image_size, config.image_size, generator=draw
    )
