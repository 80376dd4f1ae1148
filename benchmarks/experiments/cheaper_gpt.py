"""How to make a language model cheaper at a long context, and what that costs in foresight.

    python -m benchmarks.experiments.cheaper_gpt --workers 4 --record results/cheaper-text-cuda.json

A recipe with windows of `length` tokens, and its attention exchanged. There are as many tokens in
a batch as the recipe has, in fewer windows: so all runs make as many steps as the recipe. Windows
and strides grow with the length; at 1,024 tokens they are 64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from regard.attention.cache import Cache, KeyValues
from regard.attention.linear_state import Summed
from regard.cli.parse import from_terminal
from regard.count.flops import forward_flops
from regard.models.gpt import GPT
from regard.runs.processes import Row
from regard.runs.run import Run
from regard.runs.sweep import Choice, Compared, ComparisonOptions, compare_or_say, configured
from regard.runs.sweep_figure import Labels
from regard.tasks.language.config import LanguageConfig


@dataclass(frozen=True)
class Cheaper(ComparisonOptions):
    """How to make a language model cheaper, and what that costs in foresight."""

    recipe: str = "shakespeare"
    """What all choices are trained by."""
    context_length: int = 1024
    """Tokens in a window."""
    data: str | None = None
    """The text, if not the recipe's."""


def choices(how: Cheaper) -> Mapping[str, Choice]:
    """What is compared, at the length asked."""
    _, config = configured("language", how.recipe, {})
    assert isinstance(config, LanguageConfig)
    n, batch = (
        how.context_length,
        max(1, config.batch_size * config.model.context_length // how.context_length),
    )
    shared: dict[str, Any] = {"model.context_length": n, "batch_size": batch}
    shared |= {} if how.data is None else {"data": how.data}
    shared |= {} if how.epochs is None else {"train.epochs": how.epochs}

    def masked(mask: str) -> Choice:
        return Choice(how.recipe, {**shared, "model.mask": mask}, mask)

    def attending(name: str, words: str) -> Choice:
        return Choice(how.recipe, {**shared, "model.attention": name}, words)

    w, half = max(2, n // 16), max(2, n // 32)
    return {
        "full": Choice(how.recipe, shared, "causal"),
        "window": masked(f"causal & window({w})"),
        "strided": masked(f"causal & (window({w}) | strided({w}))"),
        "sinks": masked(f"causal & (window({half}) | sinks(4))"),
        "fixed": masked(f"sparse_transformer_fixed({w}, {max(1, w // 16)})"),
        "linear": attending("linear", "causal, linear: elu + 1"),
        "learned": attending("linear(learned)", "causal, linear: learned features"),
    }


def judged(run: Run) -> Row:
    """How well held-out text is foretold, and what a token of a full window costs."""
    model, length = run.model, run.config.model.context_length
    assert isinstance(model, GPT)
    figures = run.evaluate(run.test_split).to_values()
    kept = next(line for line in reversed(run.metrics) if line["is_best"])
    words = torch.zeros(1, length, dtype=torch.long)
    return {
        "loss": float(figures["loss"]["value"]),
        "bits_per_byte": float(figures["bits_per_byte"]["value"]),
        "split": run.test_split,
        "validation": float(kept["val/loss"]),  # of windows side by side
        "flops": round(forward_flops(model, words) / length),
        "kept_bytes": kept_bytes(model, length),
    }


@torch.no_grad()
def kept_bytes(model: GPT, length: int) -> int:
    """What one text of so many tokens keeps for the next, over all layers, in the type of weights.

    The last token comes alone: what no later one may read is dropped when one comes.
    """
    caches = model.new_caches()
    words = torch.zeros(1, length, dtype=torch.long, device=model.token_embedding.weight.device)
    model.next_token_logits(words[:, :-1], positions=range(length - 1), caches=caches)
    model.next_token_logits(words[:, -1:], positions=range(length - 1, length), caches=caches)
    return sum(bytes_in(cache.attention) for cache in caches)


def bytes_in(memory: Cache) -> int:
    """Keys and values, or the sums in place of them."""
    match memory.kept:
        case KeyValues(k, v, _):
            return k.nbytes + v.nbytes
        case Summed(now=sums):
            return sum(part.nbytes for part in sums if part is not None)
    raise TypeError(f"nobody has said what {type(memory).__name__} keeps; say it here")


COMPARED = Compared(
    module="benchmarks.experiments.cheaper_gpt",
    task="language",
    choices=choices,
    judged=judged,
    labels=Labels(
        title="A language model made cheaper",
        quality="loss, nats a token",
        deciding="loss",
        flops="MFLOP a token, forward",
        speed="tokens/s in training",
        shown=lambda value: f"{value:.3f}",
        further={
            "bits_per_byte": ("bits per byte", lambda value: f"{value:.3f}"),
            "kept_bytes": ("kB kept to write on", lambda value: f"{value / 1e3:,.0f}"),
        },
    ),
)


def main(how: Cheaper) -> None:
    compare_or_say(how, COMPARED)


if __name__ == "__main__":
    main(from_terminal(Cheaper, __doc__ or ""))
