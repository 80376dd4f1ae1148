"""Attention: fused against plain against torch's own call, and growth with n.

For each pattern the same q, k and v go through `attend`, `attend_fused` and what a torch user
would write by hand; contenders take turns in one run, so the ratios are the figures to trust.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.attention_figure import draw
from benchmarks.harness import Timing, interleave, matmul_peak
from regard.attention import Mask, attend, attend_fused, causal, explain_kernel, window
from regard.hardware.machine import machine

WINDOW = 256
SIZES = {"cpu": [256, 512, 1024, 2048, 4096], "cuda": [1024, 4096, 16384]}
PLAIN_ENTRIES = 1 << 29  # scores beyond which the plain path is left out, for memory


class Case(NamedTuple):
    """One pattern at one size: the last `n` of `m` positions read under a mask."""

    pattern: str
    n: int
    m: int
    mask: Mask | None

    def torch_options(self, device: torch.device) -> dict[str, Any]:
        """What torch's own call needs: a flag where it has one, else a mask written out."""
        if self.mask is None:
            return {}
        if self.mask == causal and self.n == self.m:
            return {"is_causal": True}
        dense = self.mask(range(self.m - self.n, self.m), range(self.m))
        return {"attn_mask": dense.to(device)}


def cases(sizes: list[int]) -> list[Case]:
    """Every pattern at every size."""
    return [
        case
        for n in sizes
        for case in (
            Case("full", n, n, None),
            Case("causal", n, n, causal),
            Case("causal, second half behind a cache", n // 2, n, causal),
            Case(f"causal window {WINDOW}", n, n, causal & window(WINDOW)),
        )
    ]


def run(device: torch.device, *, quick: bool, out: Path | None) -> None:
    """Measure every case, print the table, and write JSON and a figure when asked."""
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    gpu = device.type == "cuda"
    dtype = torch.bfloat16 if gpu else torch.float32
    heads, width, batch = (16, 128, 2) if gpu else (4, 64, 1)
    sizes = SIZES[device.type][:2] if quick else SIZES[device.type]
    peak = matmul_peak(device, dtype)
    rows = [
        measure(case, batch, heads, width, device, dtype, 3 if quick else 7)
        for case in track(cases(sizes), "measuring", transient=True)
    ]

    table = Table(title=f"attention: batch {batch}, {heads} heads of {width}, {dtype}, {device}")
    columns = ("pattern", "n × m", "pass", "fused ms", "× torch", "× plain", "of peak", "path")
    for column in columns:
        table.add_column(column, justify="left" if column in ("pattern", "path") else "right")
    for row in rows:
        for way in ("forward", "both"):
            seen = row[way]
            plain = f"{seen['plain'] / seen['fused']:.1f}" if "plain" in seen else "–"
            table.add_row(
                row["pattern"],
                f"{row['n']} × {row['m']}",
                {"forward": "forward", "both": "+ backward"}[way],
                f"{seen['fused'] * 1e3:.2f}",
                f"{seen['torch'] / seen['fused']:.2f}" if "torch" in seen else "–",
                plain,
                f"{row['flop'][way] / seen['fused'] / peak:.0%}",
                row["path"] if way == "forward" else "",
            )
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    console.print(
        "× torch and × plain: how many times longer the other one takes. "
        f"Peak: a large matrix product, {peak / 1e12:.2f} TFLOP/s."
    )
    decoded = decoding(1, heads, width, device, dtype, sizes[1])
    for name, passes in decoded.items():
        first, later = (f"{seconds * 1e6:.0f} µs" for seconds in passes)
        console.print(f"decoding, one key more at each step, {name}: {first} a step, again {later}")
    slopes = growth(rows)
    for pattern, slope in slopes.items():
        console.print(f"growth of {pattern}: time ∝ n^{slope:.2f} (fused, forward + backward)")
    if out is not None:
        path = out / f"bench-attention-{device.type}.json"
        command = f"python -m benchmarks attention --device {device.type}" + (
            " --quick" if quick else ""
        )
        facts = {
            "command": command,
            **machine(device),
            "batch": batch,
            "heads": heads,
            "head_width": width,
            "dtype": str(dtype).removeprefix("torch."),
            "peak_flops": peak,
            "growth": slopes,
            "decoding": decoded,
            "rows": rows,
        }
        path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        draw(facts, path.with_suffix(".png"))
        console.print(f"wrote {path} and {path.with_suffix('.png')}")


def measure(
    case: Case,
    batch: int,
    heads: int,
    width: int,
    device: torch.device,
    dtype: torch.dtype,
    rounds: int,
) -> dict[str, Any]:
    """Seconds of each contender, forward alone and with backward."""
    q, k, v = (
        torch.randn(batch, heads, count, width, device=device, dtype=dtype, requires_grad=True)
        for count in (case.n, case.m, case.m)
    )
    positions: dict[str, Any] = {"q_pos": range(case.m - case.n, case.m), "k_pos": range(case.m)}
    calls: dict[str, Callable[[], Tensor]] = {
        "fused": partial(attend_fused, q, k, v, mask=case.mask, **positions),
        "torch": partial(scaled_dot_product_attention, q, k, v, **case.torch_options(device)),
    }
    if batch * heads * case.n * case.m <= PLAIN_ENTRIES:
        calls["plain"] = lambda: attend(q, k, v, mask=case.mask, **positions).output
    upstream = torch.randn_like(q)

    def forward(call: Callable[[], Tensor]) -> None:
        with torch.no_grad():
            call()

    def both(call: Callable[[], Tensor]) -> None:
        torch.autograd.grad(call(), (q, k, v), upstream)

    agree(calls, q)
    density = 1.0 if case.mask is None else _density(case)
    flop = 4.0 * batch * heads * case.n * case.m * width * density
    ways = {"forward": forward, "both": both}
    timings: dict[str, dict[str, Timing]] = {
        way: interleave(
            {name: partial(do, call) for name, call in calls.items()}, device, rounds=rounds
        )
        for way, do in ways.items()
    }
    return {
        "pattern": case.pattern,
        "n": case.n,
        "m": case.m,
        "density": density,
        "path": explain_kernel(q, k, v, mask=case.mask, **positions),
        "flop": {"forward": flop, "both": 3.5 * flop},  # backward: five products for two
        **{way: {k: t.median for k, t in seen.items()} for way, seen in timings.items()},
        "quartiles": {
            way: {k: [t.low, t.high] for k, t in seen.items()} for way, seen in timings.items()
        },
    }


def decoding(
    batch: int, heads: int, width: int, device: torch.device, dtype: torch.dtype, start: int
) -> dict[str, list[float]]:
    """Median seconds of one query against one key more at each step, in a first and second text.

    A kernel that plans for each new shape pays in the first and not in the second.
    """
    steps = 32
    q, k, v = (
        torch.randn(batch, heads, count, width, device=device, dtype=dtype)
        for count in (1, start + steps, start + steps)
    )

    def ours(m: int) -> Tensor:
        where: dict[str, Any] = {"q_pos": range(m - 1, m), "k_pos": range(m)}
        return attend_fused(q, k[..., :m, :], v[..., :m, :], mask=causal, **where)

    def theirs(m: int) -> Tensor:
        return scaled_dot_product_attention(q, k[..., :m, :], v[..., :m, :])

    seconds: dict[str, list[float]] = {"fused": [], "torch": []}
    with torch.no_grad():
        for step in (ours, theirs):
            step(start)
        for _ in range(2):
            for name, step in (("fused", ours), ("torch", theirs)):
                turns = [_once(partial(step, start + at), device) for at in range(1, steps)]
                seconds[name].append(statistics.median(turns))
    return seconds


def _once(step: Callable[[], Tensor], device: torch.device) -> float:
    begin = time.perf_counter()
    step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin


def agree(calls: dict[str, Callable[[], Tensor]], q: Tensor) -> None:
    """A contender that computes something else must not be timed."""
    with torch.no_grad():
        reads = {name: call().float() for name, call in calls.items()}
    tolerance = 2e-2 if q.dtype == torch.bfloat16 else 1e-5
    for name, read in reads.items():
        off = float((read - reads["torch"]).abs().max() / reads["torch"].abs().max())
        if not off <= tolerance:
            raise RuntimeError(f"{name} differs from torch by {off:.1e} of the largest entry")


def _density(case: Case) -> float:
    assert case.mask is not None
    q_pos = range(case.m - case.n, case.m)
    rows = max(1, (1 << 22) // case.m)
    read = sum(
        int(case.mask(q_pos[at : at + rows], range(case.m)).sum()) for at in range(0, case.n, rows)
    )
    return read / (case.n * case.m)


def growth(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The exponent of n between the two largest sizes of each pattern."""
    slopes = {}
    for pattern in dict.fromkeys(row["pattern"] for row in rows):
        seen = [(row["n"], row["both"]["fused"]) for row in rows if row["pattern"] == pattern]
        if len(seen) > 1:
            (n1, t1), (n2, t2) = seen[-2:]
            slopes[pattern] = math.log(t2 / t1) / math.log(n2 / n1)
    return slopes
