"""A recurrent layer takes one step after another; attention takes all tokens at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.attention import MultiHeadAttention, causal
from regard.generation.sample import GenerationConfig, greedy
from regard.lab.claim import Claim
from regard.lab.counting import chain, enough
from regard.lab.evidence import Evidence, at_least, at_most, equal
from regard.lab.figures import lines
from regard.lab.question import Question
from regard.models import GPT, GPTConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-10


def measure(
    tokens: tuple[int, ...] = (8, 16, 32, 64, 128),
    width: int = 16,
    written: int = 12,
    seed: int = 0,
) -> Evidence:
    """The longest chain of operations that wait for one another, read off autograd's graph.

    Args:
        tokens: lengths of sequences, in growing order.
        width: numbers in a token.
        written: words that a model writes.
        seed: where the random numbers start.
    """
    enough(tokens=(tokens, 2), width=(width, 1), written=(written, 1))
    torch.manual_seed(seed)
    attention = MultiHeadAttention(width, 2, mask=causal).double()
    recurrent = nn.LSTM(width, width, batch_first=True).double()
    inputs = {n: torch.randn(1, n, width, dtype=torch.float64) for n in tokens}
    reading = {n: chain(attention(x)) for n, x in inputs.items()}
    stepping = {n: chain(one_by_one(recurrent, x)) for n, x in inputs.items()}
    fewest, most = min(tokens), max(tokens)
    grown = stepping[most] - stepping[fewest]

    x = inputs[most]
    whole = recurrent(x)[0]
    loops = float((whole - one_by_one(recurrent, x)).detach().abs().max())
    # Two halves at once, as one would do to save time: the second does not know of the first.
    halves = torch.cat([recurrent(half)[0] for half in x.chunk(2, 1)], 1)
    torn = float((whole - halves).detach().abs().max())

    calls, off = writing(written, width)
    seconds = timed(width)
    return Evidence(
        deciding=f"{most} tokens: {stepping[most]} in a row against {reading[most]}",
        written=(
            equal(
                f"attention: operations in a row, {most} tokens beyond {fewest}",
                float(reading[most] - reading[fewest]),
                0.0,
            ),
            at_least(
                f"LSTM: operations in a row, {most} tokens beyond {fewest}",
                float(grown),
                float(most - fewest),
            ),
            at_most("the LSTM that was counted: distance from nn.LSTM", loops, ROUNDING),
            at_most("a GPT that reads all words at once: distance from its steps", off, ROUNDING),
            equal(f"steps in which it writes {written} words", float(calls), float(written)),
        ),
        controls=(
            equal("LSTM: operations in a row that more tokens add", float(grown), 0.0),
            at_most("LSTM on both halves at once: distance from nn.LSTM", torn, ROUNDING),
        ),
        series={
            "tokens": list(tokens),
            "LSTM": list(stepping.values()),
            "attention": list(reading.values()),
            "seconds by tokens": {str(n): found for n, found in seconds.items()},
        },
        notes=(
            "what can run at once need not be faster: attention's work grows with the square, and "
            "on few cores nn.LSTM may win (seconds are in the series)",
        ),
    )


def one_by_one(layer: nn.LSTM, x: torch.Tensor) -> torch.Tensor:
    """What an LSTM computes, a token at a time."""
    cell = nn.LSTMCell(layer.input_size, layer.hidden_size).double()
    for name, weight in cell.named_parameters():
        weight.data = getattr(layer, f"{name}_l0").data
    state: tuple[torch.Tensor, torch.Tensor] | None = None
    outputs = []
    for token in x.unbind(1):
        state = cell(token, state)
        outputs.append(state[0])
    return torch.stack(outputs, 1)


def writing(words: int, width: int) -> tuple[int, float]:
    """How often a GPT is asked to write so many words, and how far that is from one reading."""
    model = GPT(GPTConfig(vocab_size=11, context_length=words + 1, width=width, layers=2, heads=2))
    model = model.double().eval()
    stepped: list[torch.Tensor] = []
    step = model.decode

    def counted(*args: Any) -> torch.Tensor:
        stepped.append(step(*args))
        return stepped[-1]

    vars(model)["decode"] = counted
    text = greedy(
        model, 1, GenerationConfig(bos_id=0, eos_id=1, max_new_tokens=words, min_new_tokens=words)
    ).tokens[0]
    with torch.no_grad():
        at_once = model(torch.tensor([[0, *text[:-1]]]))
    return len(stepped), float((at_once[0] - torch.cat(stepped)).abs().max())


def timed(width: int, lengths: tuple[int, ...] = (64, 256, 1024)) -> dict[int, dict[str, float]]:
    """Seconds of one reading, the best of three."""
    layers = {"attention": MultiHeadAttention(width, 2, mask=causal), "LSTM": nn.LSTM(width, width)}
    found: dict[int, dict[str, float]] = {}
    for n in lengths:
        x = torch.randn(n, width)
        found[n] = {
            name: min(seconds(layer, x) for _ in range(3)) for name, layer in layers.items()
        }
    return found


@torch.no_grad()
def seconds(layer: Callable[..., Any], x: torch.Tensor) -> float:
    began = time.perf_counter()
    layer(x)
    return time.perf_counter() - began


def plot(evidence: Evidence) -> Figure:
    found = evidence.series
    return lines(
        [float(n) for n in found["tokens"]],
        {name: [float(n) for n in found[name]] for name in ("LSTM", "attention")},
        title="How many operations must wait for one another",
        across="tokens",
        up="longest chain of operations",
        log="xy",
        about="Read off the graph that autograd keeps of one layer.",
    )


def ask(numbers: np.random.Generator) -> Question:
    n = int(numbers.integers(10, 500))
    return Question(
        f"A text of ${n}$ words is read by a recurrent layer, and by a self-attention layer; then "
        f"a transformer writes ${n}$ words. How many steps must follow one another in each of the "
        "three, a step being all that can be done at once? (three whole numbers, in this order)",
        (float(n), 1.0, float(n)),
        tolerance=0.0,
        why="every state needs the one before; a map is one product; every word written is read "
        "by the next",
    )


CLAIM = Claim(
    id="parallel-rnn",
    source="B 1.4a, D",
    statement="Recurrent networks step through the tokens one after another; attention reads them "
    "all at once.",
    verdict="holds",
    truth="The chain of dependent operations grows with the number of tokens in an LSTM and stays "
    "as it is in attention. That is so when a text is read or trained on: writing is one step a "
    "word with both.",
    measure=measure,
    plot=plot,
    ask=ask,
)
