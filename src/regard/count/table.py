"""What was counted, for a terminal: module by module, then the sums, then answers in words."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from regard.count.answers import Answer
from regard.count.counted import HUGE, LONG, Counted, by_module, summed, too_large
from regard.count.formulas import NUMBER, held_bytes, total, training_peak
from regard.count.subjects import name_of

if TYPE_CHECKING:
    from regard.training.step_cost import Estimate


def show(
    counted: Counted,
    answers: Sequence[Answer],
    guess: Estimate | None,
    steps: int | None,
) -> None:
    """Print all there is of one configuration."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    console.print(modules(counted))
    for line in sums(counted):
        console.print(line, soft_wrap=True)
    if answers:
        table = Table(title="on paper", box=None, pad_edge=False, title_justify="left")
        for head in ("asked", "formula", "number"):
            table.add_column(head, justify="right" if head == "number" else "left")
        for each in answers:
            table.add_row(each.quantity, each.formula, f"{each.value:,}")
        console.print()
        console.print(table)
    if guess is not None and steps is not None:
        console.print()
        for line in estimate_lines(guess, steps):
            console.print(line, soft_wrap=True)


def modules(counted: Counted) -> Table:
    """A row a module: what its formula says, and what was found."""
    real, costs = counted.measured, counted.costs
    ran = real.multiply_adds is not None
    sizes = counted.sizes
    also = f", context {sizes.encoder_tokens}" if sizes.encoder_tokens else ""
    words = f"{name_of(counted.config)}: batch {sizes.batch_size}, tokens {sizes.tokens}{also}"
    table = Table(title=words, box=None, pad_edge=False, title_justify="left")
    built = real.parameters is not None
    heads = ["module", "×", "weights", "biases", *["measured"] * built, "multiply-adds"]
    heads += ["measured", "moved", "measured", "held"] if ran else ["moved", "held"]
    for head in heads:
        table.add_column(head, justify="left" if head == "module" else "right", no_wrap=True)
    closed = {
        field: by_module(costs, field)
        for field in ("weights", "biases", "multiply_adds", "moved", "held")
    }
    times = {cost.where: cost.times for cost in costs}
    found = (real.weights or {}, real.biases or {}, real.multiply_adds or {})
    order = dict.fromkeys([*times, *(where for each in found for where in each)])
    for where in order:
        weights, biases, products, moved, held = (closed[field].get(where, 0) for field in closed)
        parameters = found[0].get(where, 0) + found[1].get(where, 0)
        row = [
            where or "(itself)",
            str(times.get(where, 1)),
            number(weights),
            number(biases),
            *[agreeing(weights + biases, parameters)] * built,
            number(products),
        ]
        if ran:
            assert real.multiply_adds is not None and real.moved is not None
            row += [
                agreeing(products, real.multiply_adds.get(where, 0)),
                in_bytes(moved * NUMBER),
                in_bytes(real.moved.get(where, 0)),
            ]
        else:
            row.append(in_bytes(moved * NUMBER))
        table.add_row(*row, in_bytes(held * NUMBER))
    return table


def sums(counted: Counted) -> list[str]:
    """The totals as sentences, each with what was measured."""
    costs, real = counted.costs, counted.measured
    parameters, products = total(costs, "parameters"), total(costs, "multiply_adds")
    lines = [
        f"parameters     {parameters:,} ({total(costs, 'weights'):,} weights, "
        f"{total(costs, 'biases'):,} biases)" + beside(parameters, real.parameters),
        f"multiply-adds  {products:,} forward, {3 * products:,} with the backward pass"
        + beside(products, summed(real.multiply_adds)),
    ]
    skipped, found = total(costs, "skipped"), summed(real.multiply_adds)
    if skipped:
        computed = "; the kernel here computes some of them" if found and found > products else ""
        lines.append(f"               {skipped:,} more that the mask leaves out{computed}")
    if real.torch is not None:
        lines.append(
            f"               torch's counter, which knows no mask: "
            f"{compared(products + skipped, real.torch)}"
        )
    held = held_bytes(costs)
    known = beside(held, real.held)
    lines.append(f"activations    {in_bytes(held)} held for the backward pass{known}")
    lines.append(f"training       {in_bytes(NUMBER * training_peak(costs))} at the peak with AdamW")
    if counted.step is not None:
        kept, more = NUMBER * counted.cache, total(counted.step, "multiply_adds")
        lines.append(
            f"one more token {more:,} multiply-adds behind the cache{beside(more, real.cached)}"
        )
        lines.append(
            f"cache          {in_bytes(kept)} for keys and values{beside(kept, real.cache)}"
        )
    if real.parameters is None:
        lines.append(f"nothing was measured, all is closed form: {too_large(costs)}")
    elif real.multiply_adds is None:
        lines.append("too large to run here: its parameters were counted, the rest is closed form")
    if not counted.agrees:
        lines.append("[red]the parameters are not what the closed form says[/]")
    return lines


def estimate_lines(guess: Estimate, steps: int) -> list[str]:
    """Time and memory of a run, and how far that is from the machine's peak."""
    layers = ", ".join(f"{name} {1e3 * each:.1f} ms" for name, each in guess.layers.items())
    lines = [
        f"here           {guess.peak.multiply_adds / 1e9:,.1f} G multiply-adds and "
        f"{guess.peak.bytes / 1e9:,.1f} GB a second at best",
        f"one step       {1e3 * guess.seconds:,.1f} ms, {guess.at_peak / guess.seconds:.0%} of the "
        f"peak; each layer: {layers}; all else {1e3 * guess.around:.1f} ms",
        f"{steps:,} steps    {duration(steps * guess.seconds)}, {in_bytes(guess.bytes)} of memory",
    ]
    if guess.real is not None:
        lines.append(
            f"really         {1e3 * guess.real:,.1f} ms a step: the estimate is off by "
            f"{guess.seconds / guess.real - 1:+.0%}"
        )
    if guess.real_bytes is not None:
        lines.append(
            f"               {in_bytes(guess.real_bytes)} of memory: the estimate is off by "
            f"{guess.bytes / guess.real_bytes - 1:+.0%}"
        )
    return lines


def show_table(
    subject: str, names: Sequence[str], rows: Sequence[tuple[tuple[str, ...], Counted]]
) -> None:
    """A what-if table: a row for every combination."""
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    table = Table(title=f"{subject}, what if", box=None, pad_edge=False, title_justify="left")
    for name in names:
        table.add_column(name, justify="right")
    for head in ("parameters", "measured", "multiply-adds", "activations", "training", "cache"):
        table.add_column(head, justify="right")
    for values, row in rows:
        costs = row.costs
        parameters = total(costs, "parameters")
        table.add_row(
            *values,
            f"{parameters:,}",
            "no" if (real := row.measured.parameters) is None else agreeing(parameters, real),
            f"{total(costs, 'multiply_adds'):,}",
            in_bytes(held_bytes(costs)),
            in_bytes(NUMBER * training_peak(costs)),
            in_bytes(NUMBER * row.cache) if row.cache else "",
        )
    console.print(table)
    if any(row.measured.parameters is None for _, row in rows):
        console.print(
            f"no: nothing was measured, for more than {HUGE:,} parameters or {LONG:,} operations",
            soft_wrap=True,
        )


def agreeing(closed: int, real: int) -> str:
    """What was measured: a tick where it is the same, else its number and the difference."""
    if closed == real:
        return "✓" if closed else ""
    return f"[yellow]{real:,}[/]"


def compared(closed: int, real: int) -> str:
    if closed == real:
        return f"{real:,}, the same"
    return f"{real:,}, {real - closed:+,}"


def beside(closed: int, real: int | None) -> str:
    return "" if real is None else f"; measured {compared(closed, real)}"


def number(value: int) -> str:
    return f"{value:,}" if value else ""


def in_bytes(count: float | int) -> str:
    """A size as one reads it; thousands, not 1,024s."""
    if not count:
        return ""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.0f} min" if minutes < 120 else f"{hours:.1f} h"
