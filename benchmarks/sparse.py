"""Cheaper: time and memory against n, of full attention and of all that is cheaper.

Every method reads the same q, k and v. Before it is timed, its read and its gradients are compared
with its dense twin, at a size where that one is still affordable. Told of each: the exponent with
which it grows, and from how many tokens on it beats the fused kernels that read everything.

Memory is the peak above q, k and v themselves, with gradients in it. On a GPU the allocator says
it. On a CPU the storages of all tensors that torch's operators return are counted while they live
(`LiveBytes`); what an operator borrows and gives back before it returns is not seen.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.contenders import CAUSAL, FULL, Contender, Method, contenders
from benchmarks.growth import beaten, crossover, foretold, per_head, slope
from benchmarks.harness import interleave
from benchmarks.sparse_figure import draw
from benchmarks.table import figure
from regard.count.live_bytes import LiveBytes
from regard.hardware.machine import machine

if TYPE_CHECKING:
    from rich.table import Table

SIZES = {
    "cpu": [256, 512, 1024, 2048, 4096, 8192, 16384],
    "cuda": [1024, 4096, 16384, 65536, 262144, 1048576],
}
CHECKED = {"cpu": 1024, "cuda": 4096}  # tokens, at most, of the comparison with the dense twin
KEYS = {"cpu": 256, "cuda": 512}  # that a query reads under a window or in a block
SECONDS = {"cpu": 240.0, "cuda": 240.0}  # for the whole run
LONGEST = {"cpu": 20.0, "cuda": 2.5}  # seconds of one call
LONG = {"cpu": 1.0, "cuda": 0.3}  # … from which it is not repeated
BRISK = 0.1  # … up to which it is repeated most
MOST_BYTES = {"cpu": 4e9, "cuda": 60e9}
FORWARD_ONLY = 1 << 20  # tokens


class Shape(NamedTuple):
    """Tensors of one size; a million tokens have fewer heads, and times are told per head."""

    batch: int
    heads: int
    width: int

    @classmethod
    def of(cls, n: int, device: torch.device) -> Shape:
        if device.type == "cpu":
            return cls(1, 4, 64)
        return cls(2, 16, 128) if n <= 65536 else cls(1, 16 if n < FORWARD_ONLY else 8, 128)

    @property
    def rows(self) -> int:
        return self.batch * self.heads


def run(device: torch.device, *, quick: bool, out: Path | None) -> None:
    """Measure every contender at every size, print the table, and keep all of it when asked."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 150)
    kind = device.type
    sizes = SIZES[kind][: len(SIZES[kind]) // 2] if quick else SIZES[kind]
    rounds, keys = 3 if quick else 5, KEYS[kind]
    measured = Measured(device, keys, sizes, rounds)
    groups = contenders(device)
    with console.status("measuring") as status:
        for group in groups:
            for n in sizes:
                status.update(f"{n:,} tokens: {', '.join(group)}")
                measured.size(n, group)

    everyone = {name: contender for group in groups for name, contender in group.items()}
    summaries = summary(measured.rows, everyone)
    shape = Shape.of(sizes[0], device)
    title = f"batch {shape.batch}, {shape.heads} heads of {shape.width}, {measured.dtype}, {kind}"
    console.print(table(f"cheaper attention: {title}", summaries, everyone))
    console.print(
        "n^: the exponent over the upper half of the sizes, forward + backward. × full: how many "
        "times as long full attention takes at the largest size both were measured at. Beats: "
        "the tokens from which it is faster, forward + backward, than full or causal attention."
    )
    for name, sentence in reasons(measured.left_out).items():
        console.print(f"{name}: {sentence}")
    if out is not None:
        path = out / f"bench-cheaper-{kind}.json"
        facts = {
            "command": f"python -m benchmarks efficient-attention --device {kind}"
            + (" --quick" if quick else ""),
            **machine(device),
            "batch": shape.batch,
            "heads": shape.heads,
            "head_width": shape.width,
            "dtype": measured.dtype,
            "keys": keys,
            "memory": "peak above q, k and v, in bytes: "
            + ("torch.cuda.max_memory_allocated" if kind == "cuda" else "storages of live tensors"),
            "checked": measured.checked,
            "summary": summaries,
            "left_out": measured.left_out,
            "rows": measured.rows,
        }
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        draw(facts, path.with_suffix(".png"))
        console.print(f"wrote {path} and {path.with_suffix('.png')}")


def checked_at(sizes: Iterable[int], most: int) -> int:
    """The largest size whose dense twin is affordable, or else the smallest."""
    sizes = sorted(sizes)
    return max((n for n in sizes if n <= most), default=sizes[0])


class Measured:
    """What was measured so far, and what was left out, with the reason."""

    def __init__(self, device: torch.device, keys: int, sizes: Sequence[int], rounds: int) -> None:
        self.device, self.keys, self.sizes, self.rounds = device, keys, sizes, rounds
        kind = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.kind, self.dtype = kind, str(kind).removeprefix("torch.")
        self.rows: list[dict[str, Any]] = []
        self.left_out: list[dict[str, Any]] = []
        self.checked: dict[str, dict[str, float]] = {}
        self.begun, self.start_up = time.perf_counter(), 0.0
        once(torch.zeros(1, device=device).detach, device)  # the first time, torch imports a lot

    def size(self, n: int, group: Mapping[str, Contender]) -> None:
        """Everyone of a group at one size: each alone first, and those that are quick in turns."""
        shape = Shape.of(n, self.device)
        torch.manual_seed(0)
        inputs = tuple(
            torch.randn(
                shape.batch,
                shape.heads,
                n,
                shape.width,
                device=self.device,
                dtype=self.kind,
                requires_grad=n < FORWARD_ONLY,
            )
            for _ in "qkv"
        )
        upstream = torch.randn_like(inputs[0]) if n < FORWARD_ONLY else None
        quick: dict[str, dict[str, Callable[[], Any]]] = {"forward": {}, "both": {}}
        for name, contender in group.items():
            if not contender.fits(n):
                continue
            why = self.hindrance(name, contender, n, shape)
            if why is None:
                try:
                    row, ways = self.alone(name, contender, n, inputs, upstream)
                except RuntimeError as trouble:  # out of memory, or a kernel that does not compile
                    why = f"{type(trouble).__name__}: {str(trouble).splitlines()[0]}"
            if why is not None:
                self.left_out.append({"name": name, "n": n, "why": why})
                continue
            self.rows.append(row)
            for way, call in ways.items():
                if row[way] < LONG[self.device.type]:
                    quick[way][name] = call
        for way, calls in quick.items():
            found = {row["name"]: row for row in self.rows if row["n"] == n}
            slow = {name: call for name, call in calls.items() if found[name][way] > BRISK}
            brisk = {name: call for name, call in calls.items() if name not in slow}
            timings = interleave(brisk, self.device, rounds=self.rounds)
            timings |= interleave(slow, self.device, rounds=3, seconds=0.0, settle=False)
            for name, timing in timings.items():
                found[name][way] = timing.median
                found[name]["quartiles"][way] = [timing.low, timing.high]

    def hindrance(self, name: str, contender: Contender, n: int, shape: Shape) -> str | None:
        """Why this one is not measured at this size, if it is not."""
        kind = self.device.type
        if n > contender.upto:
            return f"not asked for above {contender.upto:,} tokens"
        earlier = [row for row in self.rows if row["name"] == name]
        if earlier and earlier[-1]["n"] >= n:
            raise ValueError(f"{name} is measured at {n} tokens after {earlier[-1]['n']}")
        if any(left["name"] == name for left in self.left_out):
            return "a smaller size was left out"
        way = "both" if n < FORWARD_ONLY else "forward"
        seconds = shape.rows * foretold(per_head(earlier, way), n)
        size = shape.rows * foretold(per_head(earlier, "bytes", way), n)
        if seconds > LONGEST[kind]:
            return f"would take about {seconds:,.0f} s"
        if size > MOST_BYTES[kind]:
            return f"would take about {size / 1e9:,.0f} GB"
        spent = time.perf_counter() - self.begun
        if spent + max(2 * seconds, self.start_up) > SECONDS[kind]:
            return f"the {SECONDS[kind]:.0f} s for the whole run were spent"
        return None

    def alone(
        self,
        name: str,
        contender: Contender,
        n: int,
        inputs: tuple[Tensor, ...],
        upstream: Tensor | None,
    ) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
        """A first measure by one call of each pass, and the calls, to be repeated."""
        gpu = self.device.type == "cuda"
        began = time.perf_counter()
        method = contender.make(n, self.keys)

        def forward() -> Any:
            # A GPU's compiled kernels come in two kinds: one compilation serves both passes.
            with torch.set_grad_enabled(gpu and upstream is not None):
                return method.read(*inputs)

        def both() -> Any:
            return torch.autograd.grad(method.read(*inputs), inputs, upstream)

        ways: dict[str, Callable[[], Any]] = {"forward": forward}
        if upstream is not None:
            ways["both"] = both
        affordable = checked_at(filter(contender.fits, self.sizes), CHECKED[self.device.type])
        if n == affordable and upstream is not None:
            self.checked[name] = agree(name, method, inputs, upstream)
        if gpu:
            for call in ways.values():  # compiles
                call()
            torch.cuda.synchronize(self.device)
            self.start_up = max(self.start_up, time.perf_counter() - began)
        row: dict[str, Any] = {
            "name": name,
            "n": n,
            "batch": inputs[0].shape[0],
            "heads": inputs[0].shape[1],
            "method": method.words,
            "path": method.why(*inputs),
            "bytes": {},
            "quartiles": {},
        }
        for way, call in ways.items():
            row[way], row["bytes"][way] = once(call, self.device)
        return row, ways


def once(call: Callable[[], Any], device: torch.device) -> tuple[float, int]:
    """Seconds of one call, and the most bytes it held at once above what was there before."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before, began = torch.cuda.memory_allocated(device), time.perf_counter()
        out = call()
        torch.cuda.synchronize(device)
        seconds = time.perf_counter() - began
        del out
        return seconds, torch.cuda.max_memory_allocated(device) - before
    with LiveBytes() as live:
        began = time.perf_counter()
        out = call()
        seconds = time.perf_counter() - began
        del out
    return seconds, live.peak


def agree(
    name: str, method: Method, inputs: tuple[Tensor, ...], upstream: Tensor
) -> dict[str, float]:
    """How far the read and its gradients are from the dense twin's; too far must not be timed.

    The method computes what will be timed. Of the twin the first head is enough, and all of it
    would not fit.
    """
    read = method.read(*inputs)
    grads = torch.autograd.grad(read, inputs, upstream)
    some = tuple(x[:1, :1].detach().requires_grad_() for x in inputs)
    twin = method.twin(*some)
    rights = (twin.detach(), *torch.autograd.grad(twin, some, upstream[:1, :1]))
    tolerance = 4e-2 if read.dtype == torch.bfloat16 else 1e-4
    off = {}
    for what, ours, right in zip(("read", "dq", "dk", "dv"), (read, *grads), rights, strict=True):
        apart = (ours[:1, :1].detach().float() - right.float()).abs().max()
        off[what] = float(apart / right.float().abs().max())
        if not off[what] <= tolerance:
            raise Disagreement(
                f"{name}: {what} is off its dense twin's by {off[what]:.1e} of the largest entry"
            )
    return off


class Disagreement(Exception):
    """A contender computes something else than its twin."""


def summary(
    rows: Sequence[Mapping[str, Any]], everyone: Mapping[str, Contender]
) -> dict[str, dict[str, Any]]:
    """What is told of each contender: growth, where it wins, and how it stands at the end."""
    of = {name: [row for row in rows if row["name"] == name] for name in everyone}
    summaries: dict[str, dict[str, Any]] = {}
    for name, own in of.items():
        if not own:
            continue
        both = per_head(own, "both")
        beats = {}
        for rival in [FULL] if everyone[name].ahead else [FULL, CAUSAL]:
            if rival != name:
                start, upto = crossover(both, per_head(of[rival], "both"))
                beats[rival] = {"from": start, "upto": upto}
        full = dict(per_head(of[FULL], "both"))
        shared = [(n, full[n] / seconds) for n, seconds in both if n in full]
        summaries[name] = {
            "family": everyone[name].family,
            "largest": own[-1]["n"],
            "slope": slope(both),
            "slope_forward": slope(per_head(own, "forward")),
            "slope_bytes": slope(per_head(own, "bytes", "both")),
            "times_full": {"n": shared[-1][0], "ratio": shared[-1][1]} if shared else None,
            "beats": beats,
            "path": own[-1]["path"],
        }
        for row in own:
            if "both" in row:
                summaries[name] |= {
                    "n": row["n"],
                    "seconds": row["both"],
                    "bytes": row["bytes"]["both"],
                }
    return summaries


def table(
    title: str, summaries: Mapping[str, Mapping[str, Any]], everyone: Mapping[str, Contender]
) -> Table:
    from rich.table import Table

    shown = Table(title=title)
    for column in ("method", "n", "ms", "n^", "MB", "n^", "× full", "beats full", "beats causal"):
        shown.add_column(column, justify="left" if column == "method" else "right")
    for name, facts in summaries.items():
        ratio = facts["times_full"]
        known = "n" in facts
        shown.add_row(
            name,
            f"{facts['n']:,}" if known else "–",
            figure(facts["seconds"] * 1e3) if known else "–",
            power(facts["slope"]),
            figure(facts["bytes"] / 1e6) if known else "–",
            power(facts["slope_bytes"]),
            f"{ratio['ratio']:.2f} at {ratio['n']:,}" if ratio and name != FULL else "–",
            *(beaten(facts["beats"].get(rival)) for rival in (FULL, CAUSAL)),
        )
    return shown


def power(exponent: float | None) -> str:
    return "–" if exponent is None else f"{exponent:.2f}"


def reasons(left_out: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """For each contender the first size that was left out, and why."""
    first: dict[str, str] = {}
    for left in left_out:
        first.setdefault(left["name"], f"left out from {left['n']:,} tokens on, {left['why']}")
    return first
