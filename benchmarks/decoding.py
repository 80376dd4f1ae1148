"""Decoding: words a second after a prompt, beside transformers with our weights.

A language model is drawn at random and a `GPT2LMHeadModel` of transformers is given its weights.
Both read the same prompts and write on, the likeliest word each time, as many words as a rule
says. On a GPU numbers are bfloat16, in which near ties may fall either way: how many texts differ
is kept. There transformers writes in two ways, with caches that grow and with a cache of fixed
size around a compiled model, and both are timed; compiling is not.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor, nn

from benchmarks.captions import OURS, STATIC, TRANSFORMERS, Words
from benchmarks.harness import count, interleave, version
from benchmarks.table import rate_table
from benchmarks.weights_out import BEGIN, END, PADDING, as_gpt2
from regard.generation.sample import GenerationConfig, greedy
from regard.hardware.machine import machine
from regard.models import GPT, GPTConfig


class Subject(NamedTuple):
    """A model, the batches it writes in, and how many words it is given and writes."""

    config: GPTConfig
    kind: torch.dtype
    batches: tuple[int, ...]
    prompt: int
    words: int


SMALL = GPTConfig(
    width=256, layers=6, heads=8, vocab_size=8192, context_length=512, activation="gelu_tanh"
)
GPT2 = GPTConfig(
    width=768, layers=12, heads=12, vocab_size=50257, context_length=1024, activation="gelu_tanh"
)
SUBJECTS = {
    "cpu": {"width 256, 6 layers": Subject(SMALL, torch.float32, (1, 16), 32, 128)},
    "cuda": {"GPT-2 124M": Subject(GPT2, torch.bfloat16, (1, 64), 32, 256)},
}
ROUNDS = {"cpu": 9, "cuda": 5}

Write = Callable[[Int[Tensor, "b n"], int], Words]


def run(device: torch.device, *, quick: bool, out: Path | None) -> None:
    """Measure every batch, print the table, and keep it when asked."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120)
    left_out = {}
    try:
        import_module("transformers")
    except ImportError as absent:
        left_out[TRANSFORMERS] = f"{TRANSFORMERS} is left out ({absent}): pip install transformers"
        console.print(left_out[TRANSFORMERS])

    rows: list[dict[str, Any]] = []
    for name, subject in SUBJECTS[device.type].items():
        model = drawn(subject.config).to(device, subject.kind)
        contenders = writers(model, static=not quick, alone=bool(left_out))
        for batch in subject.batches:
            some = 8 if quick else 1
            prompts = torch.randint(
                END + 1, subject.config.vocab_size, (batch, subject.prompt), generator=seeded(1)
            ).to(device)
            words = subject.words // some
            written = {who: write(prompts, words) for who, write in contenders.items()}
            for who, texts in written.items():
                if any(len(text) != words for text in texts):
                    raise RuntimeError(f"{who} does not write {words} words")
            timings = interleave(
                {who: partial(write, prompts, words) for who, write in contenders.items()},
                device,
                rounds=3 if quick else ROUNDS[device.type],
                seconds=0.0,
                settle=False,
            )
            rows.append(
                {
                    "model": name,
                    "parameters": count(model),
                    "dtype": str(subject.kind).removeprefix("torch."),
                    "batch": batch,
                    "prompt": subject.prompt,
                    "words": words,
                    "other_texts": {
                        who: sum(map(list.__ne__, texts, written[OURS]))
                        for who, texts in written.items()
                    },
                    "words_per_second": {
                        who: batch * words / seen.median for who, seen in timings.items()
                    },
                    "quartiles": {
                        who: [batch * words / seen.high, batch * words / seen.low]
                        for who, seen in timings.items()
                    },
                }
            )

    console.print(
        rate_table(
            f"words a second after a prompt: {device}",
            rows,
            about=("model", "batch"),
            unit="words/s",
            rates="words_per_second",
            ours=OURS,
            more={"texts that differ": "other_texts"},
        )
    )
    console.print("× time: how many times as long as regard this one takes.")
    if out is not None:
        path = out / f"bench-decoding-{device.type}.json"
        command = f"python -m benchmarks decoding --device {device.type}" + (
            " --quick" if quick else ""
        )
        facts = {
            "command": command,
            **machine(device),
            "threads": torch.get_num_threads(),
            "versions": {} if left_out else {TRANSFORMERS: version(TRANSFORMERS)},
            "left_out": left_out,
            "rows": rows,
        }
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        console.print(f"wrote {path}")


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(config: GPTConfig) -> GPT:
    """A model whose weights are wide enough that it does not say one word for ever."""
    model, draw = GPT(config).eval(), seeded(0)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=1.5 / parameter.shape[-1] ** 0.5, generator=draw)
    return model


def writers(model: GPT, *, static: bool, alone: bool) -> dict[str, Write]:
    """Everyone who takes part; on a GPU transformers does so in two ways."""
    found: dict[str, Write] = {OURS: partial(write, model)}
    if not alone:
        theirs = as_gpt2(model)
        found[TRANSFORMERS] = partial(write_theirs, theirs)
        if static and next(model.parameters()).is_cuda:
            found[STATIC] = partial(write_theirs, theirs, cache_implementation="static")
    return found


def write(model: GPT, prompts: Int[Tensor, "b n"], words: int) -> Words:
    """Words by regard."""
    rules = GenerationConfig(
        bos_id=BEGIN,
        eos_id=END,
        max_new_tokens=words,
        min_new_tokens=words,
        suppress_tokens=(PADDING, BEGIN),
    )
    return greedy(model, len(prompts), rules, prompt=prompts).tokens


def write_theirs(model: Any, prompts: Int[Tensor, "b n"], words: int, **options: Any) -> Words:
    """Words by transformers, under the same rules."""
    texts = model.generate(
        prompts,
        attention_mask=torch.ones_like(prompts),
        eos_token_id=END,
        pad_token_id=PADDING,
        do_sample=False,
        min_new_tokens=words,
        max_new_tokens=words,
        suppress_tokens=[PADDING, BEGIN],
        **options,
    )
    found: Words = texts[:, prompts.shape[1] :].tolist()
    return found
