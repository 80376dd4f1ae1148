"""Translation: real tokens a second in training, beside torch.nn.Transformer.

Pairs of sentences go to both, of lengths as in Multi30k: 15 tokens a sentence on average,
some of 50. `torch.nn.Transformer` gets them in the order they come in, a fixed number of pairs at a
time, padded to the longest of the batch, with its masks, and scores all places against the whole
vocabulary. Ours is as regard trains: pairs of like length together, real places scored
alone, the vocabulary's loss in chunks. A third row is ours in the order they come in, so that one
sees what comes from the batches and what from the rest. Padding is no work done: what is counted
are the tokens of the sentences. All have the layers of 2017, one table of words and AdamW, and in
each turn train on batches evenly chosen from those that 16,384 pairs make. Sorted, so many leave
2% padding; of fewer pairs more stays, and so does of the larger batches that a GPU is given.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.harness import count, interleave
from regard.attention import sinusoidal
from regard.data.lines import Lines
from regard.data.pair_batches import PairBatch, Picker, Tokens, by_length, cut
from regard.hardware.machine import machine
from regard.models import Seq2Seq, Seq2SeqConfig
from regard.models.layers import TokenEmbedding
from regard.training.config import OptimizerConfig
from regard.training.optim import make_optimiser
from regard.training.pair_loss import pair_loss

PADDING, START, END = 0, 1, 2
CONFIG = Seq2SeqConfig(
    width=256,
    layers=3,
    heads=8,
    mlp_width=1024,
    vocab_size=10_000,
    norm_first=False,
    pos_embed="sinusoidal",
    activation="relu",
    scale_embeddings=True,
    init="xavier_uniform",
    dropout=0.1,
)
PAIRS, AT_ONCE = {"cpu": 16384, "cuda": 16384}, {"cpu": 64, "cuda": 256}
TURN = 8  # batches that are trained on in a turn, evenly chosen from those of an epoch
SMOOTHING, RATE, CLIP = 0.1, 1e-4, 1.0
ROUNDS = {"cpu": 5, "cuda": 5}
OURS, IN_ORDER, THEIRS = "regard", "regard, pairs in order", "torch.nn.Transformer"


def run(device: torch.device, *, quick: bool, out: Path | None) -> None:
    """Train on the same pairs in turns, print the table, and keep it when asked."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120)
    tokens, at_once = drawn(PAIRS[device.type], CONFIG.vocab_size), AT_ONCE[device.type]
    chosen = {
        who: evenly(pieces(tokens, at_once, bucketed=who == OURS), 2 if quick else TURN)
        for who in (OURS, IN_ORDER, THEIRS)
    }
    models, turns = contenders(tokens, chosen, device)
    timings = interleave(
        turns, device, rounds=2 if quick else ROUNDS[device.type], seconds=0.0, settle=False
    )
    rows: dict[str, dict[str, Any]] = {
        who: {
            "parameters": count(models[who]),
            "padding": waste(tokens, pieces(tokens, at_once, bucketed=who == OURS)),
            "tokens": (real := int(tokens.sizes[np.concatenate(chosen[who])].sum())),
            "tokens_per_second": real / seen.median,
            "quartiles": [real / seen.high, real / seen.low],
        }
        for who, seen in timings.items()
    }
    table = Table(title=f"translation, real tokens a second in training: float32, {device}")
    for column in ("who", "parameters", "padding", "tokens/s", "quartiles", "× time"):
        table.add_column(column, justify="left" if column == "who" else "right")
    for who, row in rows.items():
        low, high = row["quartiles"]
        ratio = rows[OURS]["tokens_per_second"] / row["tokens_per_second"]
        table.add_row(
            who,
            f"{row['parameters']:,}",
            f"{row['padding']:.1%}",
            f"{row['tokens_per_second']:,.0f}",
            f"{low:,.0f} … {high:,.0f}",
            f"{ratio:.2f}",
        )
    console.print(table)
    console.print("× time: how many times as long as regard this one takes.")
    if out is not None:
        path = out / f"bench-translation-{device.type}.json"
        command = f"python -m benchmarks translation --device {device.type}" + (
            " --quick" if quick else ""
        )
        facts = {
            "command": command,
            **machine(device),
            "dtype": "float32",
            "pairs": len(tokens),
            "pairs_at_once": at_once,
            "rows": rows,
        }
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        console.print(f"wrote {path}")


def drawn(pairs: int, words: int) -> Tokens:
    """Pairs that mean nothing, of lengths as in Multi30k."""
    draw = np.random.default_rng(0)
    source = np.exp(draw.normal(2.6, 0.3, pairs))
    target = source * np.exp(draw.normal(0.02, 0.17, pairs))

    def side(lengths: np.ndarray, around: int) -> Lines:
        sizes = lengths.round().clip(3, 60).astype(np.int64) + around
        starts = np.concatenate(([0], sizes.cumsum()))
        numbers = draw.integers(END + 1, words, starts[-1], dtype=np.int32)
        numbers[starts[1:] - 1] = END
        if around > 1:
            numbers[starts[:-1]] = START
        return Lines(numbers, starts)

    return Tokens(side(source, 1), side(target, 2))


Pieces = list[Int64[np.ndarray, "_"]]


def pieces(tokens: Tokens, at_once: int, *, bucketed: bool) -> Pieces:
    """Which pairs go together: a fixed number in order, or as many tokens of like length."""
    if not bucketed:
        return np.split(np.arange(len(tokens)), range(at_once, len(tokens), at_once))
    order = by_length(tokens.sizes)
    batch = round(at_once * float(tokens.sizes.sum(1).mean()))  # as many real tokens in a batch
    return np.split(order, cut(tokens.sizes[order], batch)[1:-1])


def evenly(some: Pieces, count: int) -> Pieces:
    """So many of the batches: of sorted ones, short and long."""
    return [some[(2 * at + 1) * len(some) // (2 * count)] for at in range(count)]


def waste(tokens: Tokens, some: Pieces) -> float:
    """The share of padding."""
    held = sum(len(rows) * int(tokens.sizes[rows].max(0).sum()) for rows in some)
    return 1 - int(tokens.sizes[np.concatenate(some)].sum()) / held


def contenders(
    tokens: Tokens, chosen: Mapping[str, Pieces], device: torch.device
) -> tuple[dict[str, nn.Module], dict[str, Callable[[], None]]]:
    """Each model, and a turn of it over the batches chosen for it."""
    torch.manual_seed(0)
    ours, plain, theirs = Seq2Seq(CONFIG), Seq2Seq(CONFIG), Theirs(CONFIG)
    models: dict[str, nn.Module] = {OURS: ours, IN_ORDER: plain, THEIRS: theirs}
    pick = Picker(tokens, PADDING, device)

    def turn(who: str) -> Callable[[], None]:
        model = models[who].to(device).train()
        optimiser = make_optimiser(model, OptimizerConfig(lr=RATE))
        loss_with = their_loss if who == THEIRS else pair_loss

        def batches() -> Iterator[PairBatch]:
            for rows in chosen[who]:
                yield pick(torch.from_numpy(rows).to(pick.home), tokens.sizes[rows])

        def once() -> None:
            total = torch.zeros((), device=device)
            for batch in batches():
                loss = loss_with(model, batch, SMOOTHING)
                optimiser.zero_grad()
                (loss / len(batch.targets)).backward()
                nn.utils.clip_grad_norm_(model.parameters(), CLIP)
                optimiser.step()
                total += loss.detach()
            if not torch.isfinite(total):
                raise RuntimeError(f"the loss became {float(total)}: what was timed is no training")

        return once

    return models, {who: turn(who) for who in models}


class Theirs(nn.Module):
    """torch.nn.Transformer with what it leaves to its user: words in, places, scores out."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.embed = TokenEmbedding(config.vocab_size, config.width, scaled=config.scale_embeddings)
        self.place = sinusoidal(config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.body = nn.Transformer(
            config.width,
            config.heads,
            config.layers,
            config.layers,
            config.hidden_width,
            config.dropout,
            batch_first=True,
        )

    def read(self, words: Int64[Tensor, "b n"]) -> Tensor:
        x: Tensor = self.dropout(self.place.embed(self.embed(words), range(words.shape[1])))
        return x

    def forward(
        self, source: Int64[Tensor, "b m"], hidden: Tensor | None, words: Int64[Tensor, "b n"]
    ) -> Tensor:
        n = words.shape[1]
        later = nn.Transformer.generate_square_subsequent_mask(n, device=words.device)
        x = self.body(
            self.read(source),
            self.read(words),
            tgt_mask=later,
            src_key_padding_mask=hidden,
            memory_key_padding_mask=hidden,
            tgt_is_causal=True,
        )
        return F.linear(x, self.embed.weight)


def their_loss(model: nn.Module, batch: PairBatch, smoothing: float = 0.0) -> Tensor:
    """The same sum over the same places, as one writes it with torch: padding is left out last."""
    hidden = None if batch.positions is None else batch.positions < 0
    scores = model(batch.source, hidden, batch.words)
    targets = torch.full_like(batch.words, -100).flatten().scatter(0, batch.real, batch.targets)
    return F.cross_entropy(
        scores.flatten(0, 1), targets, reduction="sum", label_smoothing=smoothing
    )
